//! What the leader's background loop has to propose. Both looks go on where the last one stopped, because a log-structured store keeps marks
//! of rows that were removed at the front.

use super::behind;
use crate::cleanup::{self, Due};
use crate::command::{Cleanup, Command, Handle, Sweep};
use crate::key;
use crate::record::OpenRow;
use crate::rows::{Keyspace, Rows, RowsError};
use crate::table;

/// A part of a look at everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// What is due, if anything is.
    pub command: Option<Command>,
    /// Where the next look begins; nothing when everything was seen.
    pub next: Option<Vec<u8>>,
}

/// Looks at `max` open sessions from `from` on (empty: from the first) and proposes the cleanup of those that are due. The command looks again
/// when it is applied.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn due_sessions(rows: &dyn Rows, from: &[u8], max: usize) -> Result<Look, RowsError> {
    let max = max.max(1);
    let lease_ms = table::position(rows)?.lease_ms;
    let limits = table::limits(rows)?;
    let page = rows.range(Keyspace::Open, from, None, max)?;
    let full = page.len() == max;
    let mut sessions: Vec<Handle> = Vec::new();
    let mut next = None;
    for (key, value) in page {
        if sessions.len() == cleanup::MAX_SESSIONS {
            return Ok(Look {
                command: Some(Command::Cleanup(Cleanup { sessions })),
                next,
            });
        }
        let session = key::number_at(&key, 8)
            .ok_or_else(|| table::corrupt(Keyspace::Open, "a key without a session"))?;
        let open: OpenRow = table::decode(Keyspace::Open, &value)?;
        if cleanup::due(rows, session, &open, lease_ms, &limits)? != Due::Nothing {
            sessions.push(open.handle(session));
        }
        next = Some(behind(&key, false));
    }
    Ok(Look {
        command: (!sessions.is_empty()).then_some(Command::Cleanup(Cleanup { sessions })),
        next: next.filter(|_| full),
    })
}

/// The first deleted tree from `from` on (empty: from the first), and the command that takes a part of it apart. `next` is where the look goes
/// on once the command has nothing left to do.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn deleted_tree(rows: &dyn Rows, from: &[u8], max: u32) -> Result<Look, RowsError> {
    let Some((key, _)) = rows.range(Keyspace::DeletedDirs, from, None, 1)?.pop() else {
        return Ok(Look {
            command: None,
            next: None,
        });
    };
    let short = || table::corrupt(Keyspace::DeletedDirs, "a key that is no deletion");
    let command = key::number_at(&key, 0).ok_or_else(short)?;
    let ordinal = key
        .get(8..)
        .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
        .map(u32::from_be_bytes)
        .ok_or_else(short)?;
    Ok(Look {
        command: Some(Command::Sweep(Sweep {
            command,
            ordinal,
            max,
        })),
        next: Some(behind(&key, false)),
    })
}
