//! What a file keeps of a dead writer's blocks. Pure: settled lengths and the offsets at which blocks begin go in, the list to
//! publish comes out. Asks nobody and knows no wire.
//!
//! A writer whose block failed in mid-write sends again, into its next block, what the failed one had not acknowledged. So blocks
//! may overlap: of two that hold the same offset the later one counts, and the earlier is cut where the later begins. No byte
//! stands twice, and behind the first hole nothing is kept.

/// What the datanodes of a block say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// They do not have it: nothing of it was ever committed.
    Absent,
    /// Nobody can say, and the caller goes on without it.
    Unknown,
    /// It is closed to its writer at this length.
    Settled {
        /// Offset in the file of its first byte; none if the block does not tell.
        start: Option<u64>,
        /// Committed bytes.
        length: u64,
    },
}

/// A block of the session, in the order in which the blocks were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Bytes of it that readers have been shown; none if it was never published.
    pub(crate) published: Option<u64>,
    pub(crate) found: Found,
}

/// A block that stays, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Which of the candidates.
    pub(crate) index: usize,
    /// Bytes from its beginning.
    pub(crate) length: u64,
}

/// The publication that ends the recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// From the first candidate that was published on.
    pub(crate) kept: Vec<Kept>,
    /// Length of the file afterwards: never below what was published.
    pub(crate) length: u64,
}

struct Piece {
    index: usize,
    start: u64,
    end: u64,
}

/// Computes what stays. `floor` is the published length; the published candidates are the last ones that it covers. None if the
/// server contradicts itself: the published blocks are longer than the file.
pub(crate) fn settle(floor: u64, blocks: &[Candidate]) -> Option<Settlement> {
    let shown: u64 = blocks
        .iter()
        .filter_map(|block| block.published)
        .try_fold(0_u64, u64::checked_add)?;
    let mut reach = floor.checked_sub(shown)?;
    let mut pieces: Vec<Piece> = Vec::new();
    let mut unpublished = 0;
    for (index, block) in blocks.iter().enumerate() {
        // A block that was given before a published one and is not published itself holds nothing that is missing.
        let Some(published) = block.published else {
            continue;
        };
        let start = reach;
        reach = start.checked_add(published)?;
        pieces.push(Piece {
            index,
            start,
            end: reach,
        });
        unpublished = index + 1;
    }
    if let Some(last) = pieces.last_mut()
        && let Some(Found::Settled { start, length }) = blocks.get(last.index).map(|b| b.found)
        && start == Some(last.start)
        && let Some(end) = last.start.checked_add(length)
    {
        // What was published stays, whatever the datanode says.
        last.end = last.end.max(end);
        reach = last.end;
    }
    for (index, block) in blocks.iter().enumerate().skip(unpublished) {
        let (start, length) = match block.found {
            Found::Absent | Found::Settled { length: 0, .. } => continue,
            Found::Unknown | Found::Settled { start: None, .. } => break,
            Found::Settled {
                start: Some(start),
                length,
            } => (start, length),
        };
        let Some(end) = start.checked_add(length) else {
            break;
        };
        if start < floor {
            // It failed before the last published block was begun, which holds its bytes.
            continue;
        }
        if start > reach {
            break;
        }
        while pieces.last().is_some_and(|last| last.start >= start) {
            pieces.pop();
        }
        if let Some(last) = pieces.last_mut() {
            last.end = last.end.min(start);
        }
        pieces.push(Piece { index, start, end });
        reach = end;
    }
    Some(Settlement {
        length: reach,
        kept: pieces
            .into_iter()
            .map(|piece| Kept {
                index: piece.index,
                length: piece.end - piece.start,
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests;
