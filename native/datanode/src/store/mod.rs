//! The embedded block store: blocks in append-only container files, small blocks packed one behind the
//! other.
//!
//! * `record` is the format byte by byte, `scan` and `recover` read it back at start, `log` appends and
//!   syncs, `block` and `extents` hold the rules and the index of one block, `read` verifies on the way
//!   out.
//! * **Durable** is what [`Store::durable`] has waited for: all chunk data and the commit record. A
//!   written chunk alone is not durable and need not be. Readers never see what is not durable.
//! * **Committed bytes never change.** A write over committed bytes is refused unless it is the same
//!   again; a commit never makes a block shorter; finalizing fences the writer; a deleted id is spent.
//! * **Damage is never silent.** Reads verify; a block whose records are damaged answers a checksum
//!   error; while a record is lost whose block nobody can name, "no such block" is not said either.
//! * **After a failed fsync nothing is accepted any more** ([`StoreError::Poisoned`]) and the hook given
//!   in [`StoreOptions`] is called, so that the process can end.
//!
//! # Limits
//!
//! The index of all blocks is in memory (some 300 bytes for a small block) and is rebuilt at start by
//! walking all record headers. No space is given back yet: deleted blocks, replaced writes and chunks
//! that no commit ever named stay in their files as garbage.

use std::fs::File;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use bytes::Bytes;
use prost::Message;

mod block;
mod checksum;
mod error;
mod extents;
mod files;
mod log;
mod media;
mod num;
mod read;
mod record;
mod recover;
mod scan;
mod spans;
#[cfg(test)]
mod tests;
mod types;

pub use checksum::compute as compute_checksums;
pub use error::{OpenError, StoreError};
pub use log::FatalHook;
pub use recover::Damage;
pub use types::{
    BlockId, BlockView, ChecksumKind, Checksums, Chunk, Committed, KeyValue, MAX_BLOCK_LEN,
    MAX_CHUNK_LEN, Piece, Position, PutBlock,
};

#[cfg(test)]
pub(crate) use media::Faults;
pub(crate) use media::Media;
pub(crate) use num::{to_u64, to_usize};

use block::{Block, Digests};
use extents::Extent;
use log::{Log, LogConfig};
use read::{ReadPlan, Source};
use record::{CommitPayload, Kind, StoredChunk, store_pairs};
use recover::{Blocks, recover};
use spans::Spans;

/// Locks `mutex`. State behind our mutexes is whole between statements, so a panic elsewhere does not
/// make it unusable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a store is opened.
#[derive(Clone)]
pub struct StoreOptions {
    /// Length in bytes at which a container file is full and the next one begins.
    pub roll_bytes: u64,
    /// Bytes that stay free on the disk, but never more than a tenth of it: with less, chunks are refused, while
    /// commits of what is written, and the metadata beside us, still find room.
    pub reserve_bytes: u64,
    /// Called once when an fsync failed and nothing can be promised any more; the process should end.
    pub on_fatal: Option<FatalHook>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            roll_bytes: 1 << 30,
            reserve_bytes: 512 << 20,
            on_fatal: None,
        }
    }
}

/// A block store on one folder. All methods may be called from any thread; those that are not `async`
/// block on the disk.
pub struct Store {
    log: Arc<Log>,
    digests: Digests,
    blocks: RwLock<Blocks>,
    damage: Vec<Damage>,
    /// A record is lost and its block unknown.
    in_doubt: bool,
    sync_thread: Option<JoinHandle<()>>,
    /// Keeps other processes out of the folder for as long as this store lives.
    folder_lock: Option<File>,
}

impl Store {
    /// Opens the container files in `dir`, making the folder when it is missing. Nothing here keeps a
    /// second process out: [`crate::Datanode::open`] does.
    ///
    /// # Errors
    /// [`OpenError`] when the folder cannot be read or written, or is of a newer format.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        Self::open_on(Media::default(), dir, options)
    }

    /// As [`Store::open`], on a disk that a test may make fail.
    pub(crate) fn open_on(
        media: Media,
        dir: &Path,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        media.create_dirs(dir).map_err(OpenError::io(dir))?;
        let digests = Digests::new();
        let recovered = recover(&media, dir, &digests)?;
        let config = LogConfig {
            dir: dir.to_owned(),
            media,
            roll_bytes: options.roll_bytes,
            reserve_bytes: options.reserve_bytes,
            on_fatal: options.on_fatal,
        };
        let log = Arc::new(Log::new(config, recovered.active));
        let sync_thread = {
            let log = Arc::clone(&log);
            std::thread::Builder::new()
                .name("datanode-sync".to_owned())
                .spawn(move || log.sync_loop())
                .map_err(OpenError::io(dir))?
        };
        tracing::info!(
            blocks = recovered.blocks.len(),
            damaged = recovered.damage.len(),
            "block store is open"
        );
        metrics::gauge!("datanode_damaged_places")
            .set(f64::from(num::to_u32(to_u64(recovered.damage.len()))));
        Ok(Self {
            log,
            digests,
            blocks: RwLock::new(recovered.blocks),
            in_doubt: recovered.damage.iter().any(|d| d.block.is_none()),
            damage: recovered.damage,
            sync_thread: Some(sync_thread),
            folder_lock: None,
        })
    }

    /// This store, which releases `lock` when it is gone and everything is on the disk.
    pub(crate) fn holding(mut self, lock: File) -> Self {
        self.folder_lock = Some(lock);
        self
    }

    /// Places that were found damaged when the store was opened.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Number of block ids known, deleted ones included.
    pub fn block_count(&self) -> usize {
        self.read_blocks().len()
    }

    /// All block ids known, deleted ones included, in order.
    pub fn ids(&self) -> Vec<BlockId> {
        self.read_blocks().keys().copied().collect()
    }

    fn read_blocks(&self) -> std::sync::RwLockReadGuard<'_, Blocks> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: BlockId) -> Option<Arc<Mutex<Block>>> {
        self.read_blocks().get(&id).map(Arc::clone)
    }

    /// Does `f` on a block that may be new. A new block of which `f` recorded nothing is forgotten again,
    /// so that refused requests leave nothing in memory.
    fn change<T>(
        &self,
        id: BlockId,
        f: impl FnOnce(&mut Block) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let block = self.find(id).unwrap_or_else(|| {
            let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(blocks.entry(id).or_default())
        });
        let done = {
            let mut block = lock(&block);
            block.promote(self.log.durable_now());
            f(&mut block)
        };
        if done.is_err() {
            let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
            // Nobody else has it but the index, and nobody can get it while the index is locked.
            if Arc::strong_count(&block) == 2 && lock(&block).is_blank() {
                blocks.remove(&id);
            }
        }
        done
    }

    /// "No such block", unless a record is lost that may have been about this one.
    fn absent(&self, id: BlockId) -> StoreError {
        if self.in_doubt {
            StoreError::Checksum {
                block: id,
                offset: 0,
                detail: "records of this store are damaged, so it cannot be known whether the block exists"
                    .to_owned(),
            }
        } else {
            StoreError::NoSuchBlock(id)
        }
    }

    /// Begins to make everything up to `at` durable, and blocks for that when nobody else is at it and little is
    /// to be done. Whether it is durable, [`Store::durable`] tells.
    pub fn sync(&self, at: Position) {
        self.log.sync(at);
    }

    /// Waits until everything up to `at` is durable.
    ///
    /// # Errors
    /// [`StoreError::Poisoned`]: it may never be, and what was written so far must not be acknowledged.
    pub async fn durable(&self, at: Position) -> Result<(), StoreError> {
        self.log.durable(at).await
    }

    /// Resolves when an fsync failed and nothing can be promised any more, with the reason; the process
    /// should end then. Pending for ever otherwise.
    pub async fn failed(&self) -> StoreError {
        self.log.failed().await
    }

    /// Writes bytes of a block that is not committed so far; `chunk` says where and with which
    /// checksums. Not durable before a commit that covers it. Writing again over uncommitted bytes
    /// replaces them; the same bytes over committed ones are accepted and change nothing.
    ///
    /// # Errors
    /// [`StoreError::WriteChecksum`] when data and checksums differ; [`StoreError::CommittedBytes`],
    /// [`StoreError::Finalized`], [`StoreError::Deleted`]; [`StoreError::DiskFull`].
    pub fn write_chunk(&self, id: BlockId, chunk: &Chunk, data: &[u8]) -> Result<(), StoreError> {
        let invalid = |reason| StoreError::Invalid { block: id, reason };
        if chunk.len != to_u64(data.len()) {
            return Err(invalid("chunk length differs from the data sent"));
        }
        if chunk.len == 0 || chunk.len > MAX_CHUNK_LEN {
            return Err(invalid("chunk of no length or above the limit"));
        }
        if chunk.offset > MAX_BLOCK_LEN - chunk.len {
            return Err(invalid("block above the limit"));
        }
        if !checksum::well_formed(&chunk.checksums, chunk.len) {
            return Err(invalid("number of checksums does not fit the chunk"));
        }
        if let Some(bad) = checksum::first_mismatch(&chunk.checksums, data) {
            return Err(StoreError::WriteChecksum {
                block: id,
                offset: chunk.offset + bad,
            });
        }
        self.change(id, |block| self.write_to(block, id, chunk, data))
    }

    fn write_to(
        &self,
        block: &mut Block,
        id: BlockId,
        chunk: &Chunk,
        data: &[u8],
    ) -> Result<(), StoreError> {
        block.check_writable(id)?;
        let stored = block.length().saturating_sub(chunk.offset).min(chunk.len);
        if stored > 0 {
            let held = block.extents.range(chunk.offset, chunk.offset + stored);
            let held = read::raw(self.source(&Spans::default()), &held)
                .map_err(|e| StoreError::io("read of a container file", e))?;
            if held.as_ref() != &data[..to_usize(stored)] {
                return Err(StoreError::CommittedBytes {
                    block: id,
                    offset: chunk.offset,
                    committed: block.length(),
                });
            }
            if stored == chunk.len {
                return self.log.check();
            }
        }
        let (start, data) = (chunk.offset + stored, &data[to_usize(stored)..]);
        let (record, _) = self.log.append(Kind::Chunk, id, start, data)?;
        let extent = Extent {
            start,
            len: record.payload_len,
            file: record.file,
            record: record.at,
            skip: 0,
        };
        let digest = (stored == 0).then(|| self.digests.written(chunk));
        block.wrote(extent, digest);
        Ok(())
    }

    /// Commits a block. The caller answers only after [`Store::durable`] on the returned position.
    /// The same commit again is accepted and writes nothing.
    ///
    /// # Errors
    /// [`StoreError::LengthBelowCommitted`], [`StoreError::MissingData`], [`StoreError::Checksum`] when
    /// the list does not describe the bytes that are stored, [`StoreError::Finalized`],
    /// [`StoreError::Deleted`], [`StoreError::DiskFull`].
    pub fn put_block(&self, put: &PutBlock) -> Result<Committed, StoreError> {
        self.change(put.id, |block| self.commit_to(block, put))
    }

    fn commit_to(&self, block: &mut Block, put: &PutBlock) -> Result<Committed, StoreError> {
        let id = put.id;
        if block.is_finalized() && !block.is_deleted() {
            let unchanged = block.plan(&self.digests, put).is_ok_and(|p| p.unchanged);
            if unchanged {
                return self.committed(block);
            }
        }
        block.check_writable(id)?;
        let plan = block.plan(&self.digests, put)?;
        if plan.unchanged {
            return self.committed(block);
        }
        for chunk in &plan.chunks {
            self.check_chunk(id, block, chunk)?;
        }
        let payload = CommitPayload {
            number: block.next_commit(),
            kept: plan.kept,
            chunks: plan.chunks.iter().map(StoredChunk::from).collect(),
            metadata: store_pairs(&put.metadata),
            eof: plan.eof,
            length: plan.length,
        }
        .encode_to_vec();
        let (record, at) = self.log.append(Kind::Commit, id, 0, &payload)?;
        block.commit(&self.digests, &plan, &put.metadata, record, at);
        metrics::counter!("datanode_commits_total").increment(1);
        Ok(Committed {
            length: plan.length,
            at,
        })
    }

    fn committed(&self, block: &Block) -> Result<Committed, StoreError> {
        self.log.check()?;
        Ok(Committed {
            length: block.length(),
            at: block.last(),
        })
    }

    /// A chunk that a commit is about to promise must be there and match its checksums.
    fn check_chunk(&self, id: BlockId, block: &Block, chunk: &Chunk) -> Result<(), StoreError> {
        if let Some(offset) = block.extents.first_gap(chunk.offset, chunk.end()) {
            return Err(StoreError::MissingData { block: id, offset });
        }
        if block.verified_at_write(&self.digests, chunk) {
            return Ok(());
        }
        let held = block.extents.range(chunk.offset, chunk.end());
        let held = read::raw(self.source(&Spans::default()), &held)
            .map_err(|e| StoreError::io("read of a container file", e))?;
        match checksum::first_mismatch(&chunk.checksums, &held) {
            None => Ok(()),
            Some(bad) => Err(StoreError::WriteChecksum {
                block: id,
                offset: chunk.offset + bad,
            }),
        }
    }

    /// Fences the block's writer. The caller answers only after [`Store::durable`].
    ///
    /// # Errors
    /// [`StoreError::NoSuchBlock`] when nothing was committed, [`StoreError::Checksum`] when records of
    /// the block are damaged.
    pub fn finalize(&self, id: BlockId) -> Result<Committed, StoreError> {
        let block = self.find(id).ok_or_else(|| self.absent(id))?;
        let mut block = lock(&block);
        if block.is_deleted() {
            return Err(StoreError::NoSuchBlock(id));
        }
        block.check_known(id)?;
        if !block.committed() {
            return Err(self.absent(id));
        }
        if !block.is_finalized() {
            let (_, at) = self.log.append(Kind::Finalize, id, 0, &[])?;
            block.finalize(at);
            self.log.request(at);
        }
        self.committed(&block)
    }

    /// Spends the id of a block for good, whether or not the block ever arrived. The caller acknowledges
    /// only after [`Store::durable`]. Its space is not given back yet.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`], [`StoreError::Io`], [`StoreError::Poisoned`].
    pub fn delete(&self, id: BlockId) -> Result<Position, StoreError> {
        self.change(id, |block| {
            if !block.is_deleted() {
                let (_, at) = self.log.append(Kind::Delete, id, 0, &[])?;
                block.delete(at);
                self.log.request(at);
            }
            self.committed(block).map(|c| c.at)
        })
    }

    /// The committed and durable state of a block.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBlock`] when nothing is committed, [`StoreError::Checksum`] on damage.
    pub fn view(&self, id: BlockId) -> Result<BlockView, StoreError> {
        self.with_reader(id, |_, reader| Ok(reader.clone()))
            .and_then(|reader| read::view(&self.log.files, id, &reader))
    }

    /// The committed and durable length of a block in bytes.
    ///
    /// # Errors
    /// As [`Store::view`].
    pub fn committed_length(&self, id: BlockId) -> Result<u64, StoreError> {
        self.with_reader(id, |_, reader| Ok(reader.length))
    }

    /// The verified bytes from `offset` to `offset + len`, chunk by chunk and widened to the borders of
    /// checksum windows: the first piece may begin before `offset`, the last end behind the range.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] beyond the committed length, [`StoreError::Checksum`] on damage,
    /// [`StoreError::NoSuchBlock`].
    pub fn read(&self, id: BlockId, offset: u64, len: u64) -> Result<Vec<Piece>, StoreError> {
        let plan = self.plan(id, offset, len, u64::MAX)?;
        self.pieces(&plan, &Spans::default())
    }

    /// As [`Store::read`] for several ranges, until `room` bytes are found; an empty range is read as nothing. Neighbours in the
    /// container files are read together. An error ends the answer before its range, and is told when that is the first.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn read_ranges(
        &self,
        ranges: &[(BlockId, u64, u64)],
        room: u64,
    ) -> Result<Vec<Vec<Piece>>, StoreError> {
        let (mut plans, mut wanted, mut left) = (Vec::new(), Vec::new(), room);
        let mut failed = None;
        for &(id, offset, len) in ranges {
            if left == 0 {
                break;
            }
            if len == 0 {
                plans.push(None);
                continue;
            }
            match self.plan(id, offset, len, left) {
                Ok(plan) => {
                    left -= plan.len();
                    plan.wanted(&mut wanted);
                    plans.push(Some(plan));
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let spans = Spans::read(&self.log.files, wanted);
        let mut found = Vec::with_capacity(plans.len());
        for plan in plans {
            match plan.map_or(Ok(Vec::new()), |plan| self.pieces(&plan, &spans)) {
                Ok(pieces) => found.push(pieces),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        match failed {
            Some(error) if found.iter().all(Vec::is_empty) => Err(error),
            _ => Ok(found),
        }
    }

    /// How to read a range that must be committed, or as much of it as there is room for.
    fn plan(&self, id: BlockId, offset: u64, len: u64, room: u64) -> Result<ReadPlan, StoreError> {
        let end = offset.saturating_add(len);
        self.with_reader(id, |extents, reader| {
            if end > reader.length {
                return Err(StoreError::OutOfRange {
                    block: id,
                    offset,
                    length: reader.length,
                });
            }
            let end = offset + len.min(room);
            Ok(ReadPlan::new(id, reader, extents, offset, end))
        })
    }

    fn source<'a>(&'a self, spans: &'a Spans) -> Source<'a> {
        Source {
            files: &self.log.files,
            spans,
        }
    }

    fn pieces(&self, plan: &ReadPlan, spans: &Spans) -> Result<Vec<Piece>, StoreError> {
        read::pieces(self.source(spans), plan)
    }

    /// Exactly the bytes from `offset` to `offset + len`, verified.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn read_exact(&self, id: BlockId, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        let pieces = self.read(id, offset, len)?;
        Ok(read::trim(pieces, offset, len))
    }

    fn with_reader<T>(
        &self,
        id: BlockId,
        f: impl FnOnce(&extents::Extents, &block::Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let block = self.find(id).ok_or_else(|| self.absent(id))?;
        let mut block = lock(&block);
        block.check_known(id)?;
        let durable = self.log.durable_now();
        block.promote(durable);
        let (extents, reader) = block.reader();
        if reader.deleted {
            return Err(StoreError::NoSuchBlock(id));
        }
        if reader.head.is_none() {
            return Err(self.absent(id));
        }
        f(extents, reader)
    }

    /// Up to `count` committed blocks of a container, by local id from `from` on.
    ///
    /// # Errors
    /// [`StoreError::Checksum`] when one of them is damaged.
    pub fn list(
        &self,
        container: i64,
        from: i64,
        count: usize,
    ) -> Result<Vec<BlockView>, StoreError> {
        let mut found = Vec::new();
        let mut next = Bound::Included(BlockId::new(container, from));
        while found.len() < count {
            let id = self
                .read_blocks()
                .range((next, Bound::Included(BlockId::new(container, i64::MAX))))
                .next()
                .map(|(id, _)| *id);
            let Some(id) = id else { break };
            next = Bound::Excluded(id);
            match self.view(id) {
                Ok(view) => found.push(view),
                Err(StoreError::NoSuchBlock(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.log.stop();
        if let Some(thread) = self.sync_thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the sync thread panicked");
        }
        self.log.close();
        drop(self.folder_lock.take());
    }
}
