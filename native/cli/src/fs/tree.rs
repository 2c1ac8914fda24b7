//! What the commands need of a tree of files, so that one copy serves both directions: the server's files and the local ones.

use std::io;

use super::error::ShellError;

/// A file or directory, as far as the shell shows it. Times are milliseconds since 1970.
#[derive(Debug, Clone)]
pub(crate) struct Stat {
    pub(crate) directory: bool,
    pub(crate) length: u64,
    pub(crate) replication: u16,
    pub(crate) block_size: u64,
    pub(crate) modified_ms: u64,
    pub(crate) accessed_ms: u64,
    pub(crate) owner: String,
    pub(crate) group: String,
    /// Nine permission bits.
    pub(crate) mode: u16,
}

/// A failed call on a tree, before it is known how the caller wrote the path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    #[error(transparent)]
    Remote(#[from] append_client::Error),
    #[error(transparent)]
    Local(#[from] io::Error),
    #[error(transparent)]
    Shell(#[from] ShellError),
}

impl TreeError {
    /// The failure in the shell's words, about a path as the caller wrote it.
    pub(crate) fn of(self, shown: &str) -> ShellError {
        match self {
            TreeError::Remote(error) => ShellError::remote(&error, shown),
            TreeError::Local(error) => ShellError::local(&error, shown),
            TreeError::Shell(error) => error,
        }
    }
}

pub(crate) type TreeResult<T> = Result<T, TreeError>;

/// Bytes to read, from a position on.
pub(crate) trait Source {
    /// Fills as much of the buffer as is there; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> TreeResult<usize>;
    /// Bytes in all, if that is known.
    fn size(&self) -> Option<u64>;
}

/// A file that is being written.
pub(crate) trait Sink {
    fn write(&mut self, data: &[u8]) -> TreeResult<()>;
    /// Publishes what was written.
    fn close(self: Box<Self>) -> TreeResult<()>;
    /// Gives up; nothing more is published.
    fn abort(self: Box<Self>);
}

/// A tree of files. Paths are absolute and normal.
pub(crate) trait Tree {
    /// The tree's own name in front of a path: `ofs://host:port`, or `file://`.
    fn uri(&self) -> &str;
    /// Where relative paths start.
    fn home(&self) -> &str;
    fn stat(&self, path: &str) -> TreeResult<Option<Stat>>;
    /// Names and statuses, in name order.
    fn list(&self, path: &str) -> TreeResult<Vec<(String, Stat)>>;
    /// Makes a directory; missing parents only with `parents`.
    fn mkdirs(&self, path: &str, parents: bool) -> TreeResult<()>;
    fn open(&self, path: &str, position: u64) -> TreeResult<Box<dyn Source>>;
    fn create(&self, path: &str, overwrite: bool, temporary: bool) -> TreeResult<Box<dyn Sink>>;
    /// False where Hadoop's rename answers false.
    fn rename(&self, from: &str, to: &str) -> TreeResult<bool>;
    /// False if nothing was there.
    fn delete(&self, path: &str, recursive: bool) -> TreeResult<bool>;
    fn set_times(&self, path: &str, modified_ms: u64, accessed_ms: u64) -> TreeResult<()>;
}

/// Bytes moved at a time.
pub(crate) const PIECE: usize = 1 << 20;
