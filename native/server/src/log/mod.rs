//! The log: append-only segments of checksummed records, one fsync for many commands.
//!
//! Knows bytes, indexes and terms, not commands. A record that was fsynced and does not read back is never passed over: the open is
//! refused. Only what no later record calls durable may count as the torn end of a crash, and is cut.

mod record;
mod recovery;
mod segment;
mod writer;

#[cfg(test)]
mod power_tests;
#[cfg(test)]
mod tests;

pub use record::{Kind, MAX_PAYLOAD, Record};
pub use recovery::Torn;
pub use writer::{Log, LogReader, LogView};

use std::io;
use std::path::{Path, PathBuf};

/// Why the log cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system failed. After a failed write or fsync nothing more is accepted.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Durable bytes are damaged. The log is not changed; a copy of this file from elsewhere, or a checkpoint, is needed.
    #[error("the log is damaged at byte {offset} of {}: {detail}", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        detail: String,
    },
    /// The segments do not make one sequence.
    #[error("the log in {} has a gap: {detail}", path.display())]
    Gap {
        /// The folder, or the segment after the gap.
        path: PathBuf,
        /// What is missing.
        detail: String,
    },
    /// A newer version wrote the segment.
    #[error("{} has log format {found}, this server reads up to {known}", path.display())]
    Version {
        /// The segment.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest that this server reads.
        known: u32,
    },
    /// The record is larger than a record may be.
    #[error("a record of {bytes} bytes is larger than {MAX_PAYLOAD}")]
    TooLarge {
        /// Its payload, bytes.
        bytes: usize,
    },
    /// The disk has no room for the record. Nothing of it is left, and the log is as it was.
    #[error("no room for a record in {}: {source}", path.display())]
    Full {
        /// The segment.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An earlier write or fsync failed.
    #[error("an earlier write to the log failed")]
    Poisoned,
}

impl LogError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
        let path = path.to_owned();
        move |source| LogError::Io {
            action,
            path,
            source,
        }
    }
}
