//! What an operator or a test can set about the log, the store and the checkpoints.

use std::sync::Arc;
use std::time::Duration;

/// Called once, with the reason, when the process must end: a failed fsync, a row that cannot be read, a log that cannot go on. It runs
/// on the thread that failed and must not wait for the consensus.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of a [`super::LocalConsensus`].
#[derive(Clone)]
pub struct Options {
    /// Commands in one entry at most.
    pub batch_commands: usize,
    /// Encoded bytes of the commands in one entry, above which no other is added.
    pub batch_bytes: usize,
    /// Encoded bytes of one command; a larger one is refused.
    pub command_bytes: usize,
    /// Commands that may wait for the log; beyond it callers are told to come again.
    pub queue_commands: usize,
    /// Encoded bytes of the commands that may wait for the log.
    pub queue_bytes: usize,
    /// Bytes after which the log begins a new segment.
    pub segment_bytes: u64,
    /// A checkpoint is taken when the log since the last has more bytes than this and than half the state.
    pub checkpoint_log_bytes: u64,
    /// Time after which a checkpoint that failed is tried again.
    pub checkpoint_retry: Duration,
    /// Rows are persisted when this much time has passed since the last time and something was applied.
    pub persist_every: Duration,
    /// Rows are persisted when this many bytes of log were applied since the last time.
    pub persist_bytes: u64,
    /// Bytes that stay free on the disk, but never more than a twentieth of it: with less, commands are refused and no lease time passes.
    pub reserve_bytes: u64,
    /// Time between the entries that move lease time while sessions exist and nothing else is proposed.
    pub tick: Duration,
    /// About how many bytes of rows are kept in memory.
    pub cache_bytes: u64,
    /// Ends the process.
    pub on_fatal: OnFatal,
}

impl Default for Options {
    /// 256 commands or 256 KiB an entry, 32 MiB a command, 16,384 commands or 64 MiB waiting, 64 MiB segments, a checkpoint for each GiB
    /// of log, 256 MiB that stay free, a tick each second; a fatal error aborts the process.
    fn default() -> Options {
        Options {
            batch_commands: 256,
            batch_bytes: 256 << 10,
            command_bytes: 32 << 20,
            queue_commands: 16_384,
            queue_bytes: 64 << 20,
            segment_bytes: 64 << 20,
            checkpoint_log_bytes: 1 << 30,
            checkpoint_retry: Duration::from_secs(60),
            persist_every: Duration::from_secs(3),
            persist_bytes: 32 << 20,
            reserve_bytes: 256 << 20,
            tick: Duration::from_secs(1),
            cache_bytes: 256 << 20,
            on_fatal: Arc::new(|reason| {
                tracing::error!(reason, "the process ends");
                std::process::abort();
            }),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("batch_commands", &self.batch_commands)
            .field("batch_bytes", &self.batch_bytes)
            .field("command_bytes", &self.command_bytes)
            .field("queue_commands", &self.queue_commands)
            .field("queue_bytes", &self.queue_bytes)
            .field("segment_bytes", &self.segment_bytes)
            .field("checkpoint_log_bytes", &self.checkpoint_log_bytes)
            .field("checkpoint_retry", &self.checkpoint_retry)
            .field("persist_every", &self.persist_every)
            .field("persist_bytes", &self.persist_bytes)
            .field("reserve_bytes", &self.reserve_bytes)
            .field("tick", &self.tick)
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}
