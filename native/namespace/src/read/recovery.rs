//! What a helper must read to finish a recovery.

use super::{ReadResult, session_file};
use crate::command::Handle;
use crate::key;
use crate::record::{AllocationRow, BlockRow, ListRow};
use crate::reply::{Phase, Refusal, RefusalKind};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::session;
use crate::table;
use crate::view::{FileView, RecoveryView, SuffixBlock};

/// What a helper must settle of a fenced session: at most `max` blocks. `SessionUnknown`, `IdentityMismatch`, `Invalidated`, `Fenced` (it was
/// recovered), `Unreachable` as for a write; `BadPublication` for a session that is not being recovered.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn recovery(rows: &dyn Rows, handle: &Handle, max: usize) -> ReadResult<RecoveryView> {
    let file = match session_file(rows, handle)? {
        Ok(file) => file,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let Some(open) = table::open(rows, handle.bucket, handle.session)? else {
        return Ok(Err(not_recovering(handle)));
    };
    if session::phase(&open) != Phase::Recovering {
        return Ok(Err(not_recovering(handle)));
    }
    let prefix = open.append.as_ref();
    let prefix_length = prefix.map_or(0, |append| append.prefix_length);
    let given = given(rows, handle)?;
    let mut wanted = Vec::new();
    for (container, local) in given {
        let block = block(rows, &file, container, local)?;
        let last = block.listed == Some(file.block_count.saturating_sub(1));
        // Blocks before the last published one are settled: nothing was written to them after the publication that began the next.
        if prefix.is_none() || block.listed.is_none() || last {
            wanted.push(block.suffix);
        }
    }
    let left_out = wanted.len().saturating_sub(max);
    wanted.truncate(max);
    Ok(Ok(RecoveryView {
        file,
        handle: *handle,
        prefix_length,
        blocks: wanted,
        left_out: u64::try_from(left_out).unwrap_or(u64::MAX),
    }))
}

struct Given {
    suffix: SuffixBlock,
    /// Its place in the list.
    listed: Option<u64>,
}

/// The blocks that a session was given, in that order.
fn given(rows: &dyn Rows, handle: &Handle) -> Result<Vec<(u64, u64)>, RowsError> {
    let prefix = key::two(handle.bucket, handle.session);
    table::below(rows, Keyspace::Allocations, &prefix, &prefix, usize::MAX)?
        .into_iter()
        .map(|(key, value)| {
            let local = key::number_at(&key, prefix.len())
                .ok_or_else(|| table::corrupt(Keyspace::Allocations, "a key without a block"))?;
            let AllocationRow { container } = table::decode(Keyspace::Allocations, &value)?;
            Ok((container, local))
        })
        .collect()
}

fn block(rows: &dyn Rows, file: &FileView, container: u64, local: u64) -> Result<Given, RowsError> {
    let row: BlockRow = table::read(rows, Keyspace::Blocks, &key::two(container, local))?
        .ok_or_else(|| {
            table::corrupt(
                Keyspace::Blocks,
                format!("block {container}/{local} is gone"),
            )
        })?;
    let here = row
        .listed
        .filter(|at| at.file == file.object_id && at.generation == file.generation)
        .map(|at| at.sequence);
    let published = match here {
        Some(sequence) => length(rows, file, sequence)?,
        None => 0,
    };
    Ok(Given {
        suffix: SuffixBlock {
            container,
            local,
            holder: row.holder,
            capacity: row.capacity,
            bcsid: row.bcsid,
            published,
        },
        listed: here,
    })
}

/// Published bytes of the block at `sequence`.
fn length(rows: &dyn Rows, file: &FileView, sequence: u64) -> Result<u64, RowsError> {
    let start = |sequence| -> Result<Option<u64>, RowsError> {
        let at = key::three(file.object_id, file.generation, sequence);
        let row: Option<ListRow> = table::read(rows, Keyspace::Lists, &at)?;
        Ok(row.map(|row| row.start))
    };
    let begin = start(sequence)?
        .ok_or_else(|| table::corrupt(Keyspace::Lists, format!("number {sequence} is missing")))?;
    let end = if sequence + 1 < file.block_count {
        start(sequence + 1)?.unwrap_or(file.size)
    } else {
        file.size
    };
    Ok(end.saturating_sub(begin))
}

fn not_recovering(handle: &Handle) -> Refusal {
    Refusal::new(
        RefusalKind::BadPublication,
        format!("session {} is not being recovered", handle.session),
    )
}
