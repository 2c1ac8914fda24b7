//! Block lists by range.

use super::ReadResult;
use crate::ids::Id;
use crate::key;
use crate::record::{BlockRow, FileRow, ListRow};
use crate::reply::{Refusal, RefusalKind};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::table;
use crate::view::{BlockRange, BlockView, FileView};

/// At most `max` blocks of a view of a file, from the block that holds `from_offset` on. A block's length is what the view shows of it.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn blocks(
    rows: &dyn Rows,
    file: &FileView,
    from_offset: u64,
    max: usize,
) -> ReadResult<BlockRange> {
    let list = List {
        file: file.object_id,
        generation: file.generation,
        count: file.block_count,
        size: file.size,
    };
    Ok(Ok(list.range(rows, from_offset, max)?))
}

/// As [`blocks`], by identity: for the second and later ranges, wherever the file is by now. `KeyNotFound` when the file is gone,
/// `GenerationGone` when its content was replaced.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn blocks_of(
    rows: &dyn Rows,
    file: Id,
    generation: u64,
    from_offset: u64,
    max: usize,
) -> ReadResult<BlockRange> {
    let row: Option<FileRow> = match table::file_place(rows, file)? {
        Some(place) => table::file(rows, &place)?,
        None => None,
    };
    let Some(row) = row.filter(|row| row.object_id == file) else {
        let why = format!("file {file} is gone");
        return Ok(Err(Refusal::new(RefusalKind::KeyNotFound, why)));
    };
    if row.generation != generation {
        let why = format!("generation {generation} of file {file} was replaced");
        return Ok(Err(Refusal::new(RefusalKind::GenerationGone, why)));
    }
    let list = List {
        file,
        generation,
        count: row.block_count,
        size: row.size,
    };
    Ok(Ok(list.range(rows, from_offset, max)?))
}

struct List {
    file: Id,
    generation: u64,
    count: u64,
    size: u64,
}

impl List {
    fn row(&self, rows: &dyn Rows, sequence: u64) -> Result<ListRow, RowsError> {
        let at = key::three(self.file, self.generation, sequence);
        table::read(rows, Keyspace::Lists, &at)?.ok_or_else(|| {
            table::corrupt(
                Keyspace::Lists,
                format!("file {} has no block number {sequence}", self.file),
            )
        })
    }

    /// The number of the block that holds a byte of the file.
    fn holding(&self, rows: &dyn Rows, offset: u64) -> Result<u64, RowsError> {
        let (mut low, mut high) = (0, self.count);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.row(rows, middle)?.start <= offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn range(
        &self,
        rows: &dyn Rows,
        from_offset: u64,
        max: usize,
    ) -> Result<BlockRange, RowsError> {
        let mut answer = BlockRange {
            blocks: Vec::new(),
            total: self.count,
            next_offset: self.size,
        };
        if from_offset >= self.size || max == 0 || self.count == 0 {
            return Ok(answer);
        }
        let first = self.holding(rows, from_offset)?;
        let last = self
            .count
            .min(first.saturating_add(u64::try_from(max).unwrap_or(u64::MAX)));
        // One row more than asked for: its start is the end of the last.
        let (from, to) = (
            key::three(self.file, self.generation, first),
            key::three(
                self.file,
                self.generation,
                self.count.min(last.saturating_add(1)),
            ),
        );
        let limit = usize::try_from(last - first)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let mut listed = Vec::new();
        for (_, value) in rows.range(Keyspace::Lists, &from, Some(&to), limit)? {
            listed.push(table::decode::<ListRow>(Keyspace::Lists, &value)?);
        }
        if u64::try_from(listed.len()).ok() != Some(self.count.min(last.saturating_add(1)) - first)
        {
            return Err(table::corrupt(
                Keyspace::Lists,
                format!("the list of file {} has a gap", self.file),
            ));
        }
        for sequence in first..last {
            let at = usize::try_from(sequence - first).unwrap_or(usize::MAX);
            let Some(row) = listed.get(at) else { break };
            let end = listed.get(at + 1).map_or(self.size, |next| next.start);
            let block: BlockRow =
                table::read(rows, Keyspace::Blocks, &key::two(row.container, row.local))?
                    .ok_or_else(|| {
                        table::corrupt(
                            Keyspace::Blocks,
                            format!("block {}/{} is listed and gone", row.container, row.local),
                        )
                    })?;
            answer.blocks.push(BlockView {
                container: row.container,
                local: row.local,
                holder: block.holder,
                bcsid: block.bcsid,
                start: row.start,
                start_in_block: row.start_in_block,
                length: end.saturating_sub(row.start),
            });
            answer.next_offset = end;
        }
        Ok(answer)
    }
}
