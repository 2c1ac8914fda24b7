//! What must hold of the content of files, whatever was killed:
//!
//! * all that readers ever saw of one object is one sequence: the shorter is the beginning of the longer, and it never shrinks;
//! * what a sync or close acknowledged is there for every later reader, where it was written;
//! * a session's records stand in their order, none twice, none of another session between them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use append_e2e::records::Record;

use super::history::{Call, Content, Found, Operation};

/// A read of an object: when it began and ended, and what it gave.
struct Read<'a> {
    begin: u64,
    end: u64,
    content: &'a Content,
}

/// An acknowledgement: when it came, for which object, and what stands where.
struct Promise {
    at: u64,
    records: Vec<(u64, Record)>,
    length: u64,
}

/// Checks all reads against each other and against all acknowledgements; gives what is wrong.
pub(crate) fn check(history: &[Operation]) -> Vec<String> {
    let mut wrong = Vec::new();
    let sessions: HashMap<(u32, u32), (u64, u64)> = history
        .iter()
        .filter_map(|operation| match operation.call {
            Call::Open {
                session, opened, ..
            } => Some(((operation.client, session), opened?)),
            _ => None,
        })
        .collect();
    let mut reads: BTreeMap<u64, Vec<Read<'_>>> = BTreeMap::new();
    for operation in history {
        let Call::Read {
            found: Found::This(content),
            ..
        } = &operation.call
        else {
            continue;
        };
        // The name may have changed hands between the look at it and the read: the first record says whose content it is.
        let Some((_, first, ..)) = content.records.first() else {
            continue;
        };
        let Some((object, _)) = sessions.get(&(first.client, first.session)) else {
            // Its open was answered and never said, because the client was killed: the records are its own all the same.
            continue;
        };
        reads.entry(*object).or_default().push(Read {
            begin: operation.begin,
            end: operation.end,
            content,
        });
    }
    let mut promises: BTreeMap<u64, Vec<Promise>> = BTreeMap::new();
    for operation in history {
        let Call::Sync {
            session,
            records,
            length: Some(length),
        } = operation.call
        else {
            continue;
        };
        let Some((object, start)) = sessions.get(&(operation.client, session)) else {
            wrong.push(format!(
                "a sync of a session that was not opened: {operation:?}"
            ));
            continue;
        };
        let mut at = *start;
        let placed = (0..records)
            .map(|number| {
                let record = Record {
                    client: operation.client,
                    session,
                    number,
                };
                let here = at;
                at += record.bytes().len() as u64;
                (here, record)
            })
            .collect();
        if at != length {
            wrong.push(format!(
                "{operation:?} acknowledged other bytes than the {at} that were written"
            ));
        }
        promises.entry(*object).or_default().push(Promise {
            at: operation.end,
            records: placed,
            length,
        });
    }
    for (object, reads) in &mut reads {
        one_sequence(*object, reads, &mut wrong);
        for read in reads.iter() {
            in_order(*object, read.content, &mut wrong);
        }
        for promise in promises.get(object).into_iter().flatten() {
            for read in reads.iter().filter(|read| read.begin > promise.at) {
                kept(*object, promise, read.content, &mut wrong);
            }
        }
    }
    wrong
}

fn one_sequence(object: u64, reads: &mut [Read<'_>], wrong: &mut Vec<String>) {
    reads.sort_by_key(|read| read.content.length);
    for pair in reads.windows(2) {
        let (short, long) = (pair[0].content, pair[1].content);
        let same = short.records.iter().enumerate().all(|(number, placed)| {
            let Some(other) = long.records.get(number) else {
                return false;
            };
            // The last one of the shorter may have been shown in part.
            let part = number + 1 == short.records.len() && placed.2 <= other.2;
            (placed.0, placed.1) == (other.0, other.1) && (placed == other || part)
        });
        if !same {
            wrong.push(format!(
                "object {object} was read as {short:?} and as {long:?}"
            ));
        }
    }
    let mut by_end: Vec<&Read<'_>> = reads.iter().collect();
    by_end.sort_by_key(|read| read.end);
    let mut by_begin: Vec<&Read<'_>> = reads.iter().collect();
    by_begin.sort_by_key(|read| read.begin);
    let (mut seen, mut longest) = (0, 0);
    for read in by_begin {
        while by_end
            .get(seen)
            .is_some_and(|earlier| earlier.end < read.begin)
        {
            longest = longest.max(by_end[seen].content.length);
            seen += 1;
        }
        if read.content.length < longest {
            wrong.push(format!(
                "object {object} was {longest} bytes long, and {} for a later reader",
                read.content.length
            ));
        }
    }
}

fn in_order(object: u64, content: &Content, wrong: &mut Vec<String>) {
    let mut over = BTreeSet::new();
    let mut last: Option<(Record, bool)> = None;
    for (at, record, _, whole) in &content.records {
        let session = (record.client, record.session);
        let expected = match last {
            Some((before, whole)) if (before.client, before.session) == session => {
                whole && record.number == before.number + 1
            }
            _ => record.number == 0 && !over.contains(&session),
        };
        if let Some((before, _)) = last
            && (before.client, before.session) != session
        {
            over.insert((before.client, before.session));
        }
        if !expected {
            wrong.push(format!(
                "object {object}: record {record} at {at} is out of its order"
            ));
        }
        last = Some((*record, *whole));
    }
}

fn kept(object: u64, promise: &Promise, content: &Content, wrong: &mut Vec<String>) {
    if content.length < promise.length {
        wrong.push(format!(
            "object {object}: {} bytes were acknowledged, a later reader found {}",
            promise.length, content.length
        ));
        return;
    }
    for (at, record) in &promise.records {
        let there = content
            .records
            .iter()
            .any(|(place, found, _, whole)| place == at && found == record && *whole);
        if !there {
            wrong.push(format!("object {object}: record {record} was acknowledged at {at}, a later reader did not find it there"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: fn(u32, u32) -> Record = |session, number| Record {
        client: 1,
        session,
        number,
    };

    fn operation(begin: u64, end: u64, call: Call) -> Operation {
        Operation {
            client: 1,
            begin,
            end,
            call,
        }
    }

    fn open(session: u32, start: u64) -> Operation {
        let call = Call::Open {
            path: "f".to_owned(),
            session,
            opened: Some((9, start)),
        };
        operation(1, 2, call)
    }

    fn read(begin: u64, records: &[Record]) -> Operation {
        let mut at = 0;
        let records: Vec<_> = records
            .iter()
            .map(|record| {
                let (here, length) = (at, record.bytes().len() as u64);
                at += length;
                (here, *record, length, true)
            })
            .collect();
        let found = Found::This(Content {
            object: 9,
            length: at,
            records,
        });
        let path = "f".to_owned();
        operation(begin, begin + 1, Call::Read { path, found })
    }

    fn sync(end: u64, session: u32, records: u32, length: u64) -> Operation {
        let call = Call::Sync {
            session,
            records,
            length: Some(length),
        };
        operation(end - 1, end, call)
    }

    #[test]
    fn a_right_history_passes() {
        let one = R(1, 0).bytes().len() as u64;
        let history = [
            open(1, 0),
            sync(5, 1, 1, one),
            read(6, &[R(1, 0)]),
            open(2, one),
            read(9, &[R(1, 0), R(2, 0)]),
        ];
        assert_eq!(check(&history), Vec::<String>::new());
    }

    #[test]
    fn what_is_lost_shrinks_changes_or_stands_twice_is_found() {
        let one = R(1, 0).bytes().len() as u64;
        let two = one + R(1, 1).bytes().len() as u64;
        let lost = [open(1, 0), sync(5, 1, 2, two), read(6, &[R(1, 0)])];
        assert!(!check(&lost).is_empty());
        let shrunk = [
            open(1, 0),
            read(3, &[R(1, 0), R(1, 1)]),
            read(6, &[R(1, 0)]),
        ];
        assert!(!check(&shrunk).is_empty());
        let changed = [
            open(1, 0),
            open(2, one),
            open(3, one),
            read(3, &[R(1, 0), R(2, 0)]),
            read(6, &[R(1, 0), R(3, 0)]),
        ];
        assert!(!check(&changed).is_empty());
        let twice = [open(1, 0), read(3, &[R(1, 0), R(1, 0)])];
        assert!(!check(&twice).is_empty());
        let mixed = [
            open(1, 0),
            open(2, one),
            read(3, &[R(1, 0), R(2, 0), R(1, 1)]),
        ];
        assert!(!check(&mixed).is_empty());
    }
}
