//! Why a proposal, an open or a checkpoint fails.

use crate::log::LogError;
use crate::store::StoreError;
use crate::store::checkpoint::CheckpointError;
use append_namespace::RowsError;
use std::io;
use std::path::PathBuf;

/// Why a proposal has no decided answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Another server leads. Nothing was proposed: the caller asks that one.
    #[error("{0}")]
    NotLeader(NotLeader),
    /// This server leads, and has not applied yet what those before it decided. Nothing was proposed: the caller comes again.
    #[error("the leader is not ready; come again")]
    NotReady,
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

/// Who does not lead, and who does. Shown as Ozone says it, so that its clients and ours read it from the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLeader {
    /// The number of the server that was asked.
    pub me: u64,
    /// The leader, as far as it is known.
    pub leader: Option<Leading>,
}

impl std::fmt::Display for NotLeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OM:om{} is not the leader. ", self.me)?;
        match &self.leader {
            Some(Leading { id, client }) => {
                write!(f, "Suggested leader is OM:om{id}[{client}].")
            }
            None => write!(f, "Could not determine the leader node."),
        }
    }
}

/// The server that leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leading {
    /// Its number in the group.
    pub id: u64,
    /// `host:port` that clients use.
    pub client: String,
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
    /// The file that says what the server promised to its group is damaged. Without it the server could vote twice: it must be removed from
    /// the group and admitted again with an empty folder.
    #[error("{} is damaged: this server may not go on in its group", .0.display())]
    Standing(PathBuf),
    /// The folder belongs to a server of a group, and was opened as one that is alone.
    #[error(
        "{} belongs to server {id} of a group: start it with --id and --peers, or take it out of the group first", path.display()
    )]
    Grouped {
        /// The folder.
        path: PathBuf,
        /// The server's number.
        id: u64,
    },
    /// The folder belongs to a server that is alone, or to another server of a group.
    #[error("{} {detail}", path.display())]
    NotOfGroup {
        /// The folder.
        path: PathBuf,
        /// What it is.
        detail: String,
    },
    /// The group's library does not start.
    #[error("the group: {0}")]
    Group(String),
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
