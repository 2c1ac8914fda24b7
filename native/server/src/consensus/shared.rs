//! What the callers and the threads of one node share.

use super::checkpoints::Checkpoints;
use super::folder::Folder;
use super::queue::Queue;
use super::space::Space;
use super::{CheckpointFailure, Options};
use crate::store::Store;
use crate::store::checkpoint::Summary;
use append_namespace::Position;
use append_namespace::command::Limits;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Where the rules stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) position: Position,
    pub(crate) limits: Limits,
}

/// What wakes the duties.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    pub(crate) rung: bool,
    pub(crate) stop: bool,
}

/// See the module.
pub(crate) struct Shared {
    pub(crate) folder: Folder,
    pub(crate) options: Options,
    pub(crate) queue: Queue,
    pub(crate) space: Space,
    pub(crate) store: Arc<dyn Store>,
    standing: Mutex<Standing>,
    /// A lease runs, so lease time must move.
    pub(crate) sessions: AtomicBool,
    /// Bytes of log applied since the rows were persisted.
    pub(crate) unpersisted: AtomicU64,
    /// Bytes of log applied since the last checkpoint.
    pub(crate) unexported: AtomicU64,
    checkpoints: Mutex<Checkpoints>,
    /// One at a time, or the same bytes would be counted as persisted twice.
    persisting: Mutex<()>,
    pub(crate) bell: Mutex<Bell>,
    pub(crate) rung: Condvar,
    /// A checkpoint that runs must give up.
    pub(crate) stop: AtomicBool,
    fatal: AtomicBool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(
        folder: Folder,
        options: Options,
        queue: Queue,
        store: Arc<dyn Store>,
        standing: Standing,
        checkpoints: Checkpoints,
    ) -> Shared {
        Shared {
            space: Space::new(folder.log(), options.reserve_bytes),
            folder,
            options,
            queue,
            store,
            standing: Mutex::new(standing),
            sessions: AtomicBool::new(false),
            unpersisted: AtomicU64::new(0),
            unexported: AtomicU64::new(0),
            checkpoints: Mutex::new(checkpoints),
            persisting: Mutex::default(),
            bell: Mutex::default(),
            rung: Condvar::new(),
            stop: AtomicBool::new(false),
            fatal: AtomicBool::new(false),
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        *lock(&self.standing)
    }

    pub(crate) fn stand(&self, standing: Standing) {
        *lock(&self.standing) = standing;
    }

    /// Ends everything: nothing that follows could be trusted. Only the first reason is told.
    pub(crate) fn fail(&self, reason: &str) {
        if !self.fatal.swap(true, Ordering::AcqRel) {
            tracing::error!(reason, "the consensus has failed");
            self.queue.abort();
            (self.options.on_fatal)(reason);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.fatal.load(Ordering::Acquire)
    }

    /// Counts `bytes` of log as applied, and wakes the duties when they have something to do.
    pub(crate) fn count_applied(&self, bytes: u64) {
        let unpersisted = self.unpersisted.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let unexported = self.unexported.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let crossed = |now: u64, limit: u64| now >= limit && now - bytes < limit;
        if crossed(unpersisted, self.options.persist_bytes)
            || crossed(unexported, self.options.checkpoint_log_bytes)
        {
            self.ring(false);
        }
    }

    pub(crate) fn ring(&self, stop: bool) {
        let mut bell = lock(&self.bell);
        bell.rung = true;
        bell.stop |= stop;
        drop(bell);
        self.rung.notify_all();
    }

    /// Makes the applied rows durable and gives their index.
    pub(crate) fn persist(&self) -> Result<u64, crate::store::StoreError> {
        let _turn = lock(&self.persisting);
        let counted = self.unpersisted.load(Ordering::Acquire);
        let mark = self.store.persist()?;
        self.unpersisted.fetch_sub(counted, Ordering::AcqRel);
        metrics::gauge!("append_persisted_index").set(gauge(mark.index));
        Ok(mark.index)
    }

    /// Exports the applied rows and lets the log be cut behind the older checkpoint. One at a time; blocks.
    pub(crate) fn checkpoint(&self) -> Result<Summary, CheckpointFailure> {
        let mut checkpoints = lock(&self.checkpoints);
        let taken = self.take_checkpoint(&mut checkpoints);
        match &taken {
            Ok(summary) => {
                metrics::gauge!("append_checkpoint_failing").set(0.0);
                metrics::gauge!("append_checkpoint_index").set(gauge(summary.mark.index));
                tracing::info!(
                    index = summary.mark.index,
                    rows = summary.rows,
                    bytes = summary.bytes,
                    "checkpoint taken"
                );
            }
            Err(CheckpointFailure::Stopped) => {}
            Err(error) => {
                metrics::gauge!("append_checkpoint_failing").set(1.0);
                metrics::counter!("append_checkpoint_failures").increment(1);
                tracing::error!(%error, "no checkpoint could be taken; the log is not cut and grows");
            }
        }
        taken
    }

    /// The file of the newest checkpoint.
    pub(crate) fn newest_checkpoint(&self) -> Option<PathBuf> {
        lock(&self.checkpoints).newest_path()
    }

    /// Keeps a checkpoint that came from elsewhere, and no other.
    pub(crate) fn adopt_checkpoint(
        &self,
        path: &Path,
        index: u64,
    ) -> Result<(), CheckpointFailure> {
        let adopted = lock(&self.checkpoints).adopt(path, index);
        self.unexported.store(0, Ordering::Release);
        adopted
    }

    fn take_checkpoint(&self, checkpoints: &mut Checkpoints) -> Result<Summary, CheckpointFailure> {
        // Rows are packed on disk and not in a checkpoint. One that fills the disk would stop the commands that it is to save.
        if !self.space.has(self.store.size().saturating_mul(2)) {
            return Err(CheckpointFailure::NoSpace);
        }
        let counted = self.unexported.load(Ordering::Acquire);
        let applied = self.store.applied();
        let summary = checkpoints.take(&applied, &self.stop)?;
        drop(applied);
        self.unexported.fetch_sub(counted, Ordering::AcqRel);
        if let Some(needed) = checkpoints.log_needed_from()? {
            let persisted = self
                .persist()
                .inspect_err(|error| self.fail(&error.to_string()))?;
            self.queue.cut(needed.min(persisted + 1));
        }
        Ok(summary)
    }
}

/// A count as a metric takes it. Exact below 2^53.
pub(crate) fn gauge(value: u64) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let gauge = value as f64;
    gauge
}
