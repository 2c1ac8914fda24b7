//! What is known in memory about one block, and the rules of its life: what may be written, what a
//! commit may say, what a reader sees. No I/O: callers write the record first and tell the block after.
//!
//! There are two views. The *writer's* view changes as soon as a record is in the file, so that
//! pipelined requests of one writer see each other. The *reader's* view changes only when the record is
//! durable: nobody may be shown a length that a power failure could take back.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use super::error::StoreError;
use super::extents::{Extent, Extents};
use super::files::RecordRef;
use super::num::{to_u32, to_u64, to_usize};
use super::record::CommitPayload;
use super::types::{BlockId, Chunk, KeyValue, MAX_BLOCK_LEN, MAX_CHUNK_LEN, Position, PutBlock};

/// Keyed hashes that tell whether a chunk of a new list is the one already committed. Keyed anew in each
/// process, so no list can be made to collide; a chunk taken for new is verified against its data.
pub(crate) struct Digests(RandomState);

impl Digests {
    pub(crate) fn new() -> Self {
        Self(RandomState::new())
    }

    /// Digest of what a write carries: place and checksums.
    pub(crate) fn written(&self, chunk: &Chunk) -> u64 {
        self.0.hash_one((chunk.offset, chunk.len, &chunk.checksums))
    }

    fn listed(&self, chunk: &Chunk) -> u64 {
        self.0.hash_one((
            chunk.offset,
            chunk.len,
            &chunk.checksums,
            &chunk.stripe_checksum,
            &chunk.metadata,
        ))
    }

    fn metadata(&self, metadata: &[KeyValue]) -> u64 {
        self.0.hash_one(metadata)
    }
}

/// Part of the committed chunk list: the chunks from `first` on, as the commit in `record` lists them,
/// up to where the next segment begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) first: u32,
    pub(crate) start: u64,
    pub(crate) record: RecordRef,
}

/// What readers are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    pub(crate) segments: Vec<Segment>,
    pub(crate) chunks: u32,
    pub(crate) length: u64,
    /// The last commit; `None` when there was none.
    pub(crate) head: Option<RecordRef>,
    pub(crate) finalized: bool,
    pub(crate) deleted: bool,
}

/// One chunk of the writer's list.
#[derive(Clone, Copy, Debug)]
struct Listed {
    start: u64,
    digest: u64,
}

/// A checksummed write that no commit covers yet.
#[derive(Clone, Copy, Debug)]
struct Tail {
    start: u64,
    end: u64,
    digest: u64,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Commit {
        kept: u32,
        start: u64,
        added: u32,
        length: u64,
        record: RecordRef,
    },
    Finalize,
    Delete,
}

/// What a commit changes, worked out before anything is written.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) kept: u32,
    /// The chunks behind the kept ones.
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) length: u64,
    pub(crate) eof: bool,
    /// The request says what is committed already.
    pub(crate) unchanged: bool,
}

/// Adds to a list that most blocks have one entry of, without room for more at first.
pub(super) fn push<T>(list: &mut Vec<T>, entry: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(entry);
}

/// A block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) extents: Extents,
    reader: Reader,
    pending: VecDeque<(Position, Change)>,
    listed: Vec<Listed>,
    tails: Vec<Tail>,
    length: u64,
    commits: u64,
    metadata: u64,
    eof: bool,
    finalized: bool,
    deleted: bool,
    /// End of the last record that an answer may rest on.
    last: Position,
    damage: Option<&'static str>,
    tail_in_doubt: bool,
}

impl Block {
    /// Committed length as the writer sees it, in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Has anything been committed, as the writer sees it?
    pub(crate) fn committed(&self) -> bool {
        self.commits > 0
    }

    /// Deleted, as writers see it.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Finalized, as writers see it.
    pub(crate) fn is_finalized(&self) -> bool {
        self.finalized
    }

    /// What must be durable before the state that the writer sees may be told to anybody.
    pub(crate) fn last(&self) -> Position {
        self.last
    }

    /// Has nothing ever been recorded of it?
    pub(crate) fn is_blank(&self) -> bool {
        self.last == Position::default() && self.extents.end() == 0 && self.damage.is_none()
    }

    /// Number of the next commit.
    pub(crate) fn next_commit(&self) -> u64 {
        self.commits + 1
    }

    /// Notes that records of this block are damaged in a way that no later record heals.
    pub(crate) fn set_damage(&mut self, what: &'static str) {
        self.damage.get_or_insert(what);
    }

    /// Refuses when records of this block are damaged.
    fn check_damage(&self, id: BlockId) -> Result<(), StoreError> {
        match self.damage {
            Some(detail) if !self.deleted => Err(StoreError::Checksum {
                block: id,
                offset: self.length,
                detail: detail.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Refuses when the committed state cannot be told because records are damaged or lost.
    pub(crate) fn check_known(&self, id: BlockId) -> Result<(), StoreError> {
        self.check_damage(id)?;
        if self.tail_in_doubt && !self.deleted {
            return Err(StoreError::Checksum {
                block: id,
                offset: self.length,
                detail: "a record of this store is lost and the block's length in doubt".to_owned(),
            });
        }
        Ok(())
    }

    /// Refuses when no writer may touch the block.
    pub(crate) fn check_writable(&self, id: BlockId) -> Result<(), StoreError> {
        if self.deleted {
            return Err(StoreError::Deleted(id));
        }
        if self.finalized {
            return Err(StoreError::Finalized(id));
        }
        self.check_damage(id)
    }

    /// Bytes were written and recorded. `digest` is that of the whole write when the extent holds it all.
    pub(crate) fn wrote(&mut self, extent: Extent, digest: Option<u64>) {
        let (start, end) = (extent.start, extent.end());
        self.tails.retain(|t| t.end <= start || t.start >= end);
        if let Some(digest) = digest {
            push(&mut self.tails, Tail { start, end, digest });
        }
        self.extents.put(extent);
    }

    /// Was exactly this chunk, with these checksums, verified when it was written?
    pub(crate) fn verified_at_write(&self, digests: &Digests, chunk: &Chunk) -> bool {
        let digest = digests.written(chunk);
        self.tails
            .iter()
            .any(|t| t.start == chunk.offset && t.end == chunk.end() && t.digest == digest)
    }

    /// Checks a commit against the rules and works out its difference to the one before.
    pub(crate) fn plan(&self, digests: &Digests, put: &PutBlock) -> Result<Plan, StoreError> {
        let id = put.id;
        let invalid = |reason| StoreError::Invalid { block: id, reason };
        let from = match (put.incremental, put.chunks.first()) {
            (false, _) => 0,
            (true, None) => self.length,
            (true, Some(first)) => first.offset,
        };
        // An incremental list begins at a chunk that exists or right behind the last one.
        let before = self.listed.partition_point(|l| l.start < from);
        if from != self.length && self.listed.get(before).is_none_or(|l| l.start != from) {
            return Err(StoreError::MissingData {
                block: id,
                offset: self.length,
            });
        }
        let mut at = from;
        for chunk in &put.chunks {
            if chunk.offset != at {
                return Err(invalid("chunk list is not contiguous"));
            }
            if chunk.len == 0 || chunk.len > MAX_CHUNK_LEN {
                return Err(invalid("chunk of no length or above the limit"));
            }
            if !super::checksum::well_formed(&chunk.checksums, chunk.len) {
                return Err(invalid("number of checksums does not fit the chunk"));
            }
            at = at.saturating_add(chunk.len);
            if at > MAX_BLOCK_LEN {
                return Err(invalid("block above the limit"));
            }
        }
        if at < self.length {
            return Err(StoreError::LengthBelowCommitted {
                block: id,
                offered: at,
                committed: self.length,
            });
        }
        let same = put
            .chunks
            .iter()
            .zip(&self.listed[before..])
            .take_while(|(chunk, listed)| digests.listed(chunk) == listed.digest)
            .count();
        let chunks = put.chunks[same..].to_vec();
        let eof = self.eof || put.eof;
        let unchanged = self.committed()
            && chunks.is_empty()
            && at == self.length
            && eof == self.eof
            && digests.metadata(&put.metadata) == self.metadata;
        Ok(Plan {
            kept: to_u32(to_u64(before + same)),
            chunks,
            length: at,
            eof,
            unchanged,
        })
    }

    /// A commit was recorded up to `at`. `put` must be what `payload` was made from or read back as.
    pub(crate) fn commit(
        &mut self,
        digests: &Digests,
        plan: &Plan,
        metadata: &[KeyValue],
        record: RecordRef,
        at: Position,
    ) {
        self.listed.truncate(to_usize(u64::from(plan.kept)));
        if self.listed.is_empty() {
            self.listed.reserve_exact(plan.chunks.len());
        }
        let start = plan.chunks.first().map_or(plan.length, |c| c.offset);
        self.listed.extend(plan.chunks.iter().map(|c| Listed {
            start: c.offset,
            digest: digests.listed(c),
        }));
        self.length = plan.length;
        self.commits += 1;
        self.metadata = digests.metadata(metadata);
        self.eof = plan.eof;
        self.tails.retain(|t| t.start >= plan.length);
        if self.tails.is_empty() {
            self.tails = Vec::new();
        }
        self.tail_in_doubt = false;
        self.later(
            at,
            Change::Commit {
                kept: plan.kept,
                start,
                added: to_u32(to_u64(plan.chunks.len())),
                length: plan.length,
                record,
            },
        );
    }

    /// The end of writing was recorded up to `at`.
    pub(crate) fn finalize(&mut self, at: Position) {
        self.finalized = true;
        self.tails = Vec::new();
        self.later(at, Change::Finalize);
    }

    /// The deletion was recorded up to `at`.
    pub(crate) fn delete(&mut self, at: Position) {
        self.deleted = true;
        self.tails = Vec::new();
        self.listed = Vec::new();
        self.later(at, Change::Delete);
    }

    fn later(&mut self, at: Position, change: Change) {
        self.last = at;
        if self.pending.is_empty() {
            self.pending.reserve_exact(1);
        }
        self.pending.push_back((at, change));
    }

    /// What readers see, and where the bytes are.
    pub(crate) fn reader(&self) -> (&Extents, &Reader) {
        (&self.extents, &self.reader)
    }

    /// Shows readers what became durable up to `durable`.
    pub(crate) fn promote(&mut self, durable: Position) {
        while let Some((_, change)) = self.pending.pop_front_if(|(at, _)| *at <= durable) {
            match change {
                Change::Commit {
                    kept,
                    start,
                    added,
                    length,
                    record,
                } => {
                    let reader = &mut self.reader;
                    while reader.segments.last().is_some_and(|s| s.first >= kept) {
                        reader.segments.pop();
                    }
                    if added > 0 {
                        let segment = Segment {
                            first: kept,
                            start,
                            record,
                        };
                        push(&mut reader.segments, segment);
                    }
                    reader.chunks = kept + added;
                    reader.length = length;
                    reader.head = Some(record);
                }
                Change::Finalize => self.reader.finalized = true,
                Change::Delete => {
                    self.extents.clear();
                    self.reader = Reader {
                        deleted: true,
                        ..Reader::default()
                    };
                }
            }
        }
        if self.pending.is_empty() {
            self.pending = VecDeque::new();
        }
    }

    /// Works out again what a commit read back from a file changed; `None` when an earlier commit that
    /// it builds upon is missing.
    pub(crate) fn replan(&self, payload: &CommitPayload) -> Option<Plan> {
        let kept = to_usize(u64::from(payload.kept));
        if payload.number != self.next_commit() || kept > self.listed.len() {
            return None;
        }
        let chunks = payload
            .chunks
            .iter()
            .map(|c| c.clone().load())
            .collect::<Option<Vec<_>>>()?;
        let end = chunks.last().map_or_else(
            || self.listed.get(kept).map_or(self.length, |l| l.start),
            Chunk::end,
        );
        (end == payload.length).then_some(Plan {
            kept: payload.kept,
            chunks,
            length: payload.length,
            eof: payload.eof,
            unchanged: false,
        })
    }

    /// Called once after a start that found a lost record of an unknown block: bytes behind the
    /// committed length may belong to a commit that was lost, so the length is in doubt.
    pub(crate) fn doubt_tail(&mut self) {
        self.tail_in_doubt = self.extents.end() > self.length;
    }
}
