//! Streams that write: created files and appends.

mod block;
mod chunks;
mod open;
mod session;
mod waiting;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use open::{append, create};

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::path::FsPath;
use crate::runtime;
use crate::status::SessionHandle;
use writer::Writer;

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
pub struct WriteStream(Arc<Stream>);

#[derive(Debug)]
struct Stream {
    path: FsPath,
    handle: Option<SessionHandle>,
    start: u64,
    can_sync: bool,
    /// The session made the file.
    created: bool,
    /// The caller has the stream: before that, nobody knows of what it created.
    handed_over: AtomicBool,
    position: AtomicU64,
    closed: AtomicBool,
    /// The close succeeded: all that was taken is published.
    published: AtomicBool,
    /// A write failed: what was taken is not known to the caller any more.
    broken: OnceLock<Error>,
    writer: Mutex<Writer>,
}

impl WriteStream {
    fn new(writer: Writer, created: bool, can_sync: bool) -> WriteStream {
        let session = writer.session();
        WriteStream(Arc::new(Stream {
            path: session.path.clone(),
            handle: session.handle(),
            start: session.start,
            can_sync,
            created,
            handed_over: AtomicBool::new(false),
            position: AtomicU64::new(writer.position()),
            closed: AtomicBool::new(false),
            published: AtomicBool::new(false),
            broken: OnceLock::new(),
            writer: Mutex::new(writer),
        }))
    }

    fn hand_over(self) -> WriteStream {
        self.0.handed_over.store(true, Ordering::SeqCst);
        self
    }

    /// Where the file stood when the stream was opened; a rename does not change it.
    #[must_use]
    pub fn path(&self) -> &FsPath {
        &self.0.path
    }

    /// The session, for streams that have one: append, and create on a server that can append.
    #[must_use]
    pub fn session(&self) -> Option<SessionHandle> {
        self.0.handle
    }

    /// Position in the file of the stream's first byte: 0 for create, the file's length for append.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.0.start
    }

    /// Position of the next byte. Answers after close, too.
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.0.position.load(Ordering::SeqCst)
    }

    /// Whether [`WriteStream::hsync`] and [`WriteStream::hflush`] work.
    #[must_use]
    pub fn can_sync(&self) -> bool {
        self.0.can_sync
    }

    /// Takes all of `data`. It is buffered, and readers see it after the next sync or close.
    ///
    /// A write that fails, or that its caller stops waiting for, has taken an unknown part of `data`; after a failure all
    /// further calls fail alike.
    ///
    /// # Errors
    /// What went wrong with bytes taken before, [`crate::ErrorKind::StaleSession`], [`crate::ErrorKind::Closed`].
    pub async fn write(&self, data: &[u8]) -> Result<()> {
        let mut left = data;
        self.write_with(data.len(), |target| {
            let (now, later) = left.split_at(target.len().min(left.len()));
            target.copy_from_slice(now);
            left = later;
            Ok(())
        })
        .await
    }

    /// As [`WriteStream::write`] for `length` bytes that lie somewhere else: `take` copies the next ones to where they are kept,
    /// once or more often, until all are taken. A failure of `take` is one of the write.
    ///
    /// # Errors
    /// As [`WriteStream::write`], and those of `take`.
    pub async fn write_with(
        &self,
        length: usize,
        take: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let stream = &*self.0;
        let mut writer = stream.lock().await;
        stream.check_open("write")?;
        writer.write(length, take).await.map_err(|error| {
            let error = error.at("write", &stream.path);
            let _ = stream.broken.set(error.copy());
            error
        })
    }

    /// As [`WriteStream::hsync`]: bytes that a reader may see are on disk.
    ///
    /// # Errors
    /// As [`WriteStream::hsync`].
    pub async fn hflush(&self) -> Result<()> {
        self.hsync().await
    }

    /// Makes all bytes taken before durable, and visible to readers that open the file afterwards. A no-op after a close that
    /// succeeded. After a failure it can be called again.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] if the stream cannot; [`crate::ErrorKind::Closed`] if it was closed without publishing all
    /// that it had taken; else as [`WriteStream::write`], and [`crate::ErrorKind::OutcomeUnknown`].
    pub async fn hsync(&self) -> Result<()> {
        let stream = &*self.0;
        if stream.published.load(Ordering::SeqCst) {
            return Ok(());
        }
        if !stream.can_sync {
            return Err(
                Error::unsupported("the server cannot sync a file that is being created")
                    .at("hsync", &stream.path),
            );
        }
        // Behind a close that is under way, and then as it ended.
        let mut writer = stream.writer.lock().await;
        if stream.published.load(Ordering::SeqCst) {
            return Ok(());
        }
        stream.check_open("hsync")?;
        writer
            .sync()
            .await
            .map_err(|error| error.at("hsync", &stream.path))
    }

    /// Publishes all bytes and ends the session. When it fails, the stream is closed all the same: a second call does nothing
    /// and succeeds. A close goes on in the background if the caller stops waiting.
    ///
    /// # Errors
    /// As [`WriteStream::hsync`].
    pub async fn close(&self) -> Result<()> {
        if self.0.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let stream = Arc::clone(&self.0);
        let closing = runtime::carried(async move { stream.finish().await });
        closing.await.map_err(|e| {
            Error::new(
                ErrorKind::OutcomeUnknown,
                format!("the close ended early: {e}"),
            )
            .at("close", &self.0.path)
        })?
    }

    /// Ends the session without publishing anything more: the file keeps what the last sync published. Waits at most this
    /// long for the server to hear of it; if it does not, the lease ends the session.
    pub async fn abort(&self, at_most: Duration) {
        if let Some(abandoning) = self.abandon() {
            // Nothing is promised about it.
            let _ = tokio::time::timeout(at_most, abandoning).await;
        }
    }

    fn abandon(&self) -> Option<tokio::task::JoinHandle<()>> {
        if self.0.closed.swap(true, Ordering::SeqCst) {
            return None;
        }
        let stream = Arc::clone(&self.0);
        let work = async move { stream.abandon().await };
        runtime::handle().ok().map(|runtime| runtime.spawn(work))
    }
}

impl Drop for WriteStream {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The writer while it is at work. Also a call that is given up tells the position at which it left the writer.
struct AtWork<'a> {
    writer: MutexGuard<'a, Writer>,
    position: &'a AtomicU64,
}

impl Deref for AtWork<'_> {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        &self.writer
    }
}

impl DerefMut for AtWork<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.position
            .store(self.writer.position(), Ordering::SeqCst);
    }
}

impl Stream {
    async fn lock(&self) -> AtWork<'_> {
        AtWork {
            writer: self.writer.lock().await,
            position: &self.position,
        }
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(
                Error::new(ErrorKind::Closed, "the stream is closed").at(operation, &self.path)
            );
        }
        match self.broken.get() {
            Some(error) => Err(error.copy()),
            None => Ok(()),
        }
    }

    async fn finish(&self) -> Result<()> {
        let mut writer = self.writer.lock().await;
        writer.session().closing();
        let result = match self.broken.get() {
            Some(error) => Err(error.copy()),
            None => writer.finish().await,
        };
        writer.session().let_go();
        let Err(error) = result else {
            self.published.store(true, Ordering::SeqCst);
            return Ok(());
        };
        match error.kind() {
            ErrorKind::StaleSession | ErrorKind::NotFound | ErrorKind::Closed => {}
            // Whatever would be sent now might undo what was done.
            ErrorKind::OutcomeUnknown => writer.session().lose(),
            _ => {
                if let Err(error) = writer.abandon().await {
                    tracing::debug!(session = writer.session().id(), %error, "a failed stream was not ended");
                    writer.session().lose();
                }
            }
        }
        Err(error.at("close", &self.path))
    }

    async fn abandon(&self) {
        let mut writer = self.writer.lock().await;
        writer.session().closing();
        let unseen = self.created && !self.handed_over.load(Ordering::SeqCst);
        let result = if unseen {
            writer.session().let_go();
            writer.session().delete_created().await
        } else {
            writer.abandon().await
        };
        if let Err(error) = result {
            tracing::debug!(session = writer.session().id(), %error, "an abandoned stream was not ended");
            if !matches!(error.kind(), ErrorKind::StaleSession | ErrorKind::NotFound) {
                writer.session().lose();
            }
        }
    }
}
