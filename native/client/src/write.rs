//! Streams that write: created files and appends.

use std::time::Duration;

use crate::Result;
use crate::error::Error;
use crate::path::FsPath;
use crate::status::SessionHandle;

/// How a file's data is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Replication {
    /// One copy.
    One,
    /// Three copies.
    Three,
}

/// How [`crate::FileSystem::create`] makes a file. The default overwrites, makes parents, and takes the server's replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateOptions {
    /// An existing file is replaced; otherwise the call fails with [`crate::ErrorKind::AlreadyExists`].
    pub overwrite: bool,
    /// Missing parents are made, volume and bucket included.
    pub recursive: bool,
    /// Copies; none: the bucket's default, then the server's.
    pub replication: Option<Replication>,
    /// Largest block in bytes; none: by configuration. Servers may give smaller blocks.
    pub block_size: Option<u64>,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            overwrite: true,
            recursive: true,
            replication: None,
            block_size: None,
        }
    }
}

/// A file that is being written. Thread-safe: each write is whole, whoever else writes at the same time.
///
/// Dropping a stream without [`WriteStream::close`] abandons it as [`WriteStream::abort`] does, without waiting.
#[derive(Debug)]
pub struct WriteStream {
    path: FsPath,
}

impl WriteStream {
    /// Where the file stood when the stream was opened; a rename does not change it.
    #[must_use]
    pub fn path(&self) -> &FsPath {
        &self.path
    }

    /// The session, for streams that have one: append, and create on a server that can append.
    #[must_use]
    pub fn session(&self) -> Option<SessionHandle> {
        None
    }

    /// Position in the file of the stream's first byte: 0 for create, the file's length for append.
    #[must_use]
    pub fn start(&self) -> u64 {
        0
    }

    /// Position of the next byte. Answers after close, too.
    #[must_use]
    pub fn pos(&self) -> u64 {
        0
    }

    /// Whether [`WriteStream::hsync`] and [`WriteStream::hflush`] work.
    #[must_use]
    pub fn can_sync(&self) -> bool {
        false
    }

    /// Takes all of `data`. It is buffered, and readers see it after the next sync or close.
    ///
    /// # Errors
    /// What went wrong with bytes taken before, [`crate::ErrorKind::StaleSession`], [`crate::ErrorKind::Closed`].
    pub async fn write(&self, data: &[u8]) -> Result<()> {
        Err(Error::unsupported(format!("writing {} bytes", data.len())))
    }

    /// As [`WriteStream::hsync`]: bytes that a reader may see are on disk.
    ///
    /// # Errors
    /// As [`WriteStream::hsync`].
    pub async fn hflush(&self) -> Result<()> {
        self.hsync().await
    }

    /// Makes all bytes taken before durable, and visible to readers that open the file afterwards. A no-op after close.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] if the stream cannot; else as [`WriteStream::write`], and
    /// [`crate::ErrorKind::OutcomeUnknown`].
    pub async fn hsync(&self) -> Result<()> {
        Err(Error::unsupported("hsync"))
    }

    /// Publishes all bytes and ends the session. When it fails, the stream is closed all the same: a second call does nothing
    /// and succeeds. A close goes on in the background if the caller stops waiting.
    ///
    /// # Errors
    /// As [`WriteStream::hsync`].
    pub async fn close(&self) -> Result<()> {
        Err(Error::unsupported("close"))
    }

    /// Ends the session without publishing anything more: the file keeps what the last sync published. Waits at most this
    /// long for the server to hear of it; if it does not, the lease ends the session.
    pub async fn abort(&self, at_most: Duration) {
        let _ = at_most;
    }
}
