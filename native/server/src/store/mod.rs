//! Rows on disk behind a small trait: atomic batches with the applied position, reads, and checkpoints.
//!
//! Knows keyspaces and bytes, no rule. Nothing here is durable by itself before [`Store::persist`]: the log is what makes a command
//! durable, and a store that is lost or does not stand at one position is rebuilt from a checkpoint and the log.

mod cache;
pub mod checkpoint;
mod disk;
mod keys;
#[cfg(test)]
pub(crate) mod memory;
#[cfg(test)]
mod tests;

pub use disk::DiskStore;

use append_namespace::rows::{Change, Rows};
use std::sync::Arc;

/// Rows as of one applied position, for readers on any thread.
pub type View = Arc<dyn Rows + Send + Sync>;

/// The log position that rows stand at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Term of the last applied entry.
    pub term: u64,
    /// Index of the last applied entry.
    pub index: u64,
}

/// Rows and where they stand.
#[derive(Clone)]
pub struct Applied {
    /// The position.
    pub mark: Mark,
    /// The rows at it.
    pub rows: View,
}

impl std::fmt::Debug for Applied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Applied")
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

/// Why a store cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The rows are damaged or do not stand at one position. They must be rebuilt.
    #[error("the rows must be rebuilt: {0}")]
    Invalid(String),
    /// The system failed in a way that says nothing about the rows.
    #[error("the rows cannot be opened: {0}")]
    Unavailable(String),
    /// A write failed. The process must end.
    #[error("writing rows failed: {0}")]
    Failed(String),
}

/// Rows with one writer and many readers.
pub trait Store: Send + Sync {
    /// Applies `changes` in their order and moves to `mark`, all or nothing over all keyspaces. Not durable yet.
    ///
    /// One thread at a time may call it.
    ///
    /// # Errors
    /// [`StoreError::Failed`]: the process must end, the store may be anywhere between.
    fn apply(&self, mark: Mark, changes: &[Change]) -> Result<(), StoreError>;

    /// The rows as the last [`Store::apply`] left them. Cheap. Old rows are kept for as long as the view lives.
    fn applied(&self) -> Applied;

    /// Makes everything applied before the call durable and gives its position.
    ///
    /// # Errors
    /// [`StoreError::Failed`]: the process must end.
    fn persist(&self) -> Result<Mark, StoreError>;

    /// About how many bytes the rows take on disk.
    fn size(&self) -> u64;
}
