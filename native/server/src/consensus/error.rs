//! Why a proposal, an open or a checkpoint fails.

use crate::log::LogError;
use crate::store::StoreError;
use crate::store::checkpoint::CheckpointError;
use append_namespace::RowsError;
use std::io;
use std::path::PathBuf;

/// Why a proposal has no decided answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// The queue is full. Nothing was proposed: the caller may come again.
    #[error("too many commands wait; come again")]
    Busy,
    /// The request alone is larger than a command may be. Nothing was proposed, and the same request never will be.
    #[error("the command has {bytes} bytes, at most {limit} are taken")]
    TooLarge {
        /// Bytes of the encoded request.
        bytes: usize,
        /// Bytes that are taken.
        limit: usize,
    },
    /// The disk is full. Nothing was proposed; reads go on, and commands as soon as there is room again.
    #[error("the server's disk is full")]
    NoSpace,
    /// The consensus has stopped. Nothing was proposed.
    #[error("the consensus has stopped")]
    Stopped,
    /// The process stops while the command may or may not be in the log. Only a retry with the same invocation tells.
    #[error("the outcome of the command is not known")]
    OutcomeUnknown,
}

/// Why a data folder could not be opened. Nothing was changed but a torn end of the log that was cut and rows that were rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has the folder open.
    #[error("{} is in use by another server", .0.display())]
    Locked(PathBuf),
    /// Another version wrote the folder.
    #[error("{} says {found:?}, which this server does not read", path.display())]
    Format {
        /// The file that tells.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// The folder is new to the server and not empty.
    #[error("{} holds {name:?} and is no data folder of a server", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What is in it.
        name: String,
    },
    /// The log is damaged or cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A log entry does not decode though its checksum fits: a newer server wrote it.
    #[error("log entry {index} does not decode: {detail}")]
    Entry {
        /// Its index.
        index: u64,
        /// Why.
        detail: String,
    },
    /// The rows cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A row cannot be read.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The checkpoints cannot be looked at.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointFailure),
    /// The rows are lost and no checkpoint can replace them.
    #[error(
        "the rows must be rebuilt ({rows}), the log begins at {first}, and no checkpoint serves: {tried}"
    )]
    NoCheckpoint {
        /// Why the rows are lost.
        rows: String,
        /// First index of the log.
        first: u64,
        /// What was wrong with the checkpoints; empty without one.
        tried: String,
    },
    /// Rules and store do not stand at one position: a fault of this program.
    #[error("the rules stand at {rules}, the store at {store}")]
    Position {
        /// Where the rules stand.
        rules: u64,
        /// Where the store stands.
        store: u64,
    },
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] io::Error),
}

/// Why a checkpoint could not be taken, read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointFailure {
    /// The file system failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be written, or does not read back.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: CheckpointError,
    },
    /// There is not room enough for one.
    #[error("the disk has no room for a checkpoint")]
    NoSpace,
    /// The consensus is being shut down.
    #[error("the consensus is being shut down")]
    Stopped,
    /// The rows cannot be persisted.
    #[error(transparent)]
    Store(#[from] StoreError),
}
