//! What the clients said: their events, parsed, in one list of operations with the times between which each took effect.

use std::collections::BTreeMap;

use append_e2e::records::Record;

/// Never, as an end: the operation may still take effect.
pub(crate) const NEVER: u64 = u64::MAX;

/// What a reader found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// The object that the name stood for right before.
    pub(crate) object: u64,
    pub(crate) length: u64,
    /// Where each record begins, how many of its bytes are there, and whether those are all.
    pub(crate) records: Vec<(u64, Record, u64, bool)>,
}

/// What was called and what it gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// An append began: the object, and where the session starts in it.
    Open {
        path: String,
        session: u32,
        opened: Option<(u64, u64)>,
    },
    /// So many records of a session were made durable, up to this length of the file.
    Sync {
        session: u32,
        records: u32,
        length: Option<u64>,
    },
    Read {
        path: String,
        found: Found<Content>,
    },
    Rename {
        from: String,
        to: String,
        done: Done,
    },
    Delete {
        path: String,
        done: Done,
    },
    Recover,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found<T> {
    This(T),
    Nothing,
    Unknown,
}

/// How a change of names ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    Yes,
    /// There was nothing to change.
    NothingThere,
    /// The target was in the way.
    InTheWay,
    /// Refused for another reason: nothing was changed.
    No,
    /// Nobody knows.
    Unknown,
}

/// One operation of one client.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) client: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) call: Call,
}

/// Errors that say that nothing was done.
fn refused(kind: &str) -> bool {
    matches!(
        kind,
        "Conflict"
            | "Recovering"
            | "StaleSession"
            | "ParentNotFound"
            | "InvalidArgument"
            | "Unsupported"
            | "NoSpace"
    )
}

fn done(kind: &str) -> Done {
    match kind {
        "ok" => Done::Yes,
        "NotFound" => Done::NothingThere,
        "AlreadyExists" => Done::InTheWay,
        kind if refused(kind) => Done::No,
        _ => Done::Unknown,
    }
}

/// One client's events, in their order. What has no end was under way when it was killed.
///
/// # Errors
/// A line that is none of a client's.
pub(crate) fn parse(client: u32, lines: &[String]) -> Result<Vec<Operation>, String> {
    let mut begun: BTreeMap<u64, (u64, Vec<String>)> = BTreeMap::new();
    let mut found = Vec::new();
    for line in lines {
        let bad = || format!("client {client} said {line:?}");
        let mut words = line.split(' ').map(str::to_owned);
        let mut number = || words.next()?.parse::<u64>().ok();
        let (Some(time), Some(operation)) = (number(), number()) else {
            return Err(bad());
        };
        let rest: Vec<String> = words.skip(1).collect();
        if line.contains(" begin ") {
            begun.insert(operation, (time, rest));
            continue;
        }
        let (begin, what) = begun.remove(&operation).ok_or_else(bad)?;
        let call = call(&what, Some(&rest)).ok_or_else(bad)?;
        found.push(Operation {
            client,
            begin,
            end: time,
            call,
        });
    }
    for (begin, what) in begun.into_values() {
        let call = call(&what, None).ok_or_else(|| format!("client {client} began {what:?}"))?;
        found.push(Operation {
            client,
            begin,
            end: NEVER,
            call,
        });
    }
    Ok(found)
}

fn call(what: &[String], end: Option<&[String]>) -> Option<Call> {
    let kind = end
        .and_then(|end| end.first())
        .map_or("killed", String::as_str);
    let given = end.and_then(|end| end.get(1..)).unwrap_or_default();
    let what: Vec<&str> = what.iter().map(String::as_str).collect();
    Some(match *what.as_slice() {
        ["open", path, session] => Call::Open {
            path: path.to_owned(),
            session: session.parse().ok()?,
            opened: if kind == "ok" {
                Some((given.first()?.parse().ok()?, given.get(1)?.parse().ok()?))
            } else {
                None
            },
        },
        ["sync" | "close", session, records] => Call::Sync {
            session: session.parse().ok()?,
            records: records.parse().ok()?,
            length: if kind == "ok" {
                Some(given.first()?.parse().ok()?)
            } else {
                None
            },
        },
        ["read", path] => Call::Read {
            path: path.to_owned(),
            found: match kind {
                "ok" => Found::This(content(given)?),
                "NotFound" => Found::Nothing,
                _ => Found::Unknown,
            },
        },
        ["rename", from, to] => Call::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            done: done(kind),
        },
        ["delete", path] => Call::Delete {
            path: path.to_owned(),
            done: match (done(kind), given.first().map(String::as_str)) {
                (Done::Yes, Some("false")) => Done::NothingThere,
                (done, _) => done,
            },
        },
        ["recover", _] => Call::Recover,
        _ => return None,
    })
}

fn content(words: &[String]) -> Option<Content> {
    let mut records = Vec::new();
    for word in words.get(2..)? {
        let mut parts = word.split(':');
        let at = parts.next()?.parse().ok()?;
        let mut name = parts.next()?.split('.').map(str::parse::<u32>);
        let record = Record {
            client: name.next()?.ok()?,
            session: name.next()?.ok()?,
            number: name.next()?.ok()?,
        };
        let length = parts.next()?;
        let whole = !length.ends_with('~');
        records.push((
            at,
            record,
            length.trim_end_matches('~').parse().ok()?,
            whole,
        ));
    }
    Some(Content {
        object: words.first()?.parse().ok()?,
        length: words.get(1)?.parse().ok()?,
        records,
    })
}
