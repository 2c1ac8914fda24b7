//! Errors of the block store: each variant is a decision that a caller can take. No payload bytes and
//! no paths of clients in the texts.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::types::BlockId;

/// Why a block operation was refused or failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was ever committed under this id, or it was deleted.
    #[error("block {0} does not exist here")]
    NoSuchBlock(BlockId),
    /// Stored bytes or records of this block are damaged. Never answered with bytes; try another replica.
    #[error("block {block}: checksum error at offset {offset}: {detail}")]
    Checksum {
        /// The block.
        block: BlockId,
        /// First byte that is known to be damaged, counted from the block's start.
        offset: u64,
        /// What was found.
        detail: String,
    },
    /// The block was finalized: its writer is fenced.
    #[error("block {0} is finalized")]
    Finalized(BlockId),
    /// The block was deleted: its id is never used again.
    #[error("block {0} was deleted")]
    Deleted(BlockId),
    /// A write would change bytes that a commit covers.
    #[error("block {block}: write at {offset} would change bytes committed up to {committed}")]
    CommittedBytes {
        /// The block.
        block: BlockId,
        /// Where the write begins.
        offset: u64,
        /// Committed length in bytes.
        committed: u64,
    },
    /// A commit would make the block shorter.
    #[error("block {block}: commit at length {offered} below the committed {committed}")]
    LengthBelowCommitted {
        /// The block.
        block: BlockId,
        /// Length that the refused commit describes.
        offered: u64,
        /// Committed length in bytes.
        committed: u64,
    },
    /// A commit names bytes that were never written.
    #[error("block {block}: no data was written at offset {offset}")]
    MissingData {
        /// The block.
        block: BlockId,
        /// First byte without data.
        offset: u64,
    },
    /// A read reaches beyond the committed length.
    #[error("block {block}: range at {offset} reaches beyond the committed length {length}")]
    OutOfRange {
        /// The block.
        block: BlockId,
        /// Where the range begins.
        offset: u64,
        /// Committed length in bytes.
        length: u64,
    },
    /// The data of a write does not match the checksums sent with it.
    #[error("block {block}: data sent for offset {offset} does not match its checksum")]
    WriteChecksum {
        /// The block.
        block: BlockId,
        /// First byte of the window that differs.
        offset: u64,
    },
    /// The request contradicts itself or exceeds a named limit.
    #[error("block {block}: {reason}")]
    Invalid {
        /// The block.
        block: BlockId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The disk is full. Published data is intact; the same write may be tried again when there is room.
    #[error("disk full: {0}")]
    DiskFull(Arc<io::Error>),
    /// A disk operation failed. What it was to write is not there.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// An earlier fsync failed: nothing that is written now can be promised, so nothing is accepted.
    #[error("the block store stopped accepting writes: {0}")]
    Poisoned(Arc<str>),
}

impl StoreError {
    /// Sorts a failed disk operation into "full" and everything else.
    pub(crate) fn io(what: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull(Arc::new(source))
            }
            _ => Self::Io {
                what,
                source: Arc::new(source),
            },
        }
    }
}

/// Why a folder could not be opened as a block store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process (or another store of this process) holds the folder.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// A disk operation failed.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder holds containers but its identity file is missing or unreadable. Pipelines name
    /// datanodes by identity, so a fresh one would orphan every block.
    #[error("{path}: {reason}")]
    Identity {
        /// The identity file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A container file was written by a newer format.
    #[error("{path}: container format {found} is newer than this program understands")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u16,
    },
}

impl OpenError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
