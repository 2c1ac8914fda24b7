//! Streams that read.

mod ahead;
mod blocks;
mod fetch;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;

use crate::Result;
use crate::dn::joined;
use crate::error::{Error, ErrorKind};
use crate::filesystem::Shared;
use crate::path::FsPath;
use crate::runtime;
use ahead::{Ahead, Next, Step, Window};
use blocks::BlockList;

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A file that is being read, at the length that it had when it was opened. Thread-safe: positioned reads run side by side.
///
/// Reads that follow each other are read ahead, more with each.
#[derive(Debug)]
pub struct Reader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fs: Arc<Shared>,
    blocks: BlockList,
    length: u64,
    ahead: Mutex<Ahead>,
}

impl Reader {
    pub(crate) async fn open(fs: &Arc<Shared>, path: &FsPath) -> Result<Reader> {
        let (mut blocks, tail) = BlockList::open(fs, path).await?;
        if tail {
            blocks.look_for_tail().await;
        }
        Ok(Reader(Arc::new(Inner {
            length: blocks.length(),
            ahead: Mutex::new(Ahead::new(fs.settings.read_ahead)),
            fs: Arc::clone(fs),
            blocks,
        })))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &FsPath {
        self.0.blocks.path()
    }

    /// Visible length in bytes, fixed at open: what is published, and for a file that is being written what its writer has
    /// made durable since.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length in bytes, not of a collection"
    )]
    pub fn len(&self) -> u64 {
        self.0.length
    }

    /// Reads at a position into `target`: as many bytes as fit and are there; 0 at or after the end. Fewer than fit only at the
    /// end of the file.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Checksum`] and never wrong bytes; [`crate::ErrorKind::NotFound`] when the file is gone or was
    /// overwritten, and its blocks with it.
    pub async fn read_at(&self, position: u64, target: &mut [u8]) -> Result<usize> {
        let mut read = 0;
        while let Some(rest) = target.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let bytes = self.piece(position, read, rest.len()).await?;
            let Some(rest) = rest.get_mut(..bytes.len()).filter(|rest| !rest.is_empty()) else {
                break;
            };
            rest.copy_from_slice(&bytes);
            read += bytes.len();
        }
        Ok(read)
    }

    /// As [`Reader::read_at`] into new memory, without a copy where the bytes of one answer suffice.
    ///
    /// # Errors
    /// As [`Reader::read_at`].
    pub async fn bytes_at(&self, position: u64, length: usize) -> Result<Bytes> {
        Ok(joined(self.pieces_at(position, length).await?))
    }

    /// As [`Reader::bytes_at`], in the pieces in which the bytes lie in memory: without a copy.
    ///
    /// # Errors
    /// As [`Reader::read_at`].
    pub async fn pieces_at(&self, position: u64, length: usize) -> Result<Vec<Bytes>> {
        let (mut pieces, mut done) = (Vec::new(), 0);
        while done < length {
            let piece = self.piece(position, done, length - done).await?;
            if piece.is_empty() {
                break;
            }
            done += piece.len();
            pieces.push(piece);
        }
        Ok(pieces)
    }

    /// Some of the bytes behind the `done` first ones of a read; none at the end of the file.
    async fn piece(&self, position: u64, done: usize, length: usize) -> Result<Bytes> {
        let from = position.saturating_add(length_of(done));
        let left = self.0.length.saturating_sub(from);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(Bytes::new());
        }
        self.0
            .read(from, length)
            .await
            .map_err(|error| error.at("read", self.path()))
    }

    /// Drops what was read ahead; the next read gets it back.
    pub fn unbuffer(&self) {
        self.0.ahead().clear();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.unbuffer();
    }
}

impl Inner {
    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At least one of the wanted bytes, from what was read ahead or from the datanodes.
    async fn read(self: &Arc<Self>, from: u64, length: usize) -> Result<Bytes> {
        loop {
            match self.step(from, length)? {
                Step::Have { bytes, .. } => return Ok(bytes),
                Step::Await(next) => {
                    // If it failed, the read itself says what is wrong.
                    if let Ok(Ok(window)) = next.task.await {
                        self.ahead().put(window);
                    }
                }
                Step::Fetch { to, keep } => {
                    let wanted = from.saturating_add(length_of(length));
                    let window = match self.fetch(from, to).await {
                        // What is wrong further on is not this read's.
                        Err(error) if to > wanted && error.kind() == ErrorKind::Checksum => {
                            self.fetch(from, wanted).await?
                        }
                        other => other?,
                    };
                    let bytes = window
                        .get(from, length)
                        .ok_or_else(|| protocol("no bytes at all"))?;
                    if keep {
                        self.ahead().put(window);
                    }
                    return Ok(bytes);
                }
            }
        }
    }

    fn step(self: &Arc<Self>, from: u64, length: usize) -> Result<Step> {
        let mut ahead = self.ahead();
        let step = ahead.step(from, length, self.length);
        if let Step::Have { then, .. } = &step {
            for &(from, to) in then {
                let inner = Arc::clone(self);
                let task = runtime::handle()?.spawn(async move { inner.fetch(from, to).await });
                ahead.expect(Next { from, to, task });
            }
        }
        Ok(step)
    }

    /// The bytes from `from` to `to`, which lie in the file. Datanodes that cannot be reached are asked again, perhaps elsewhere.
    async fn fetch(&self, from: u64, to: u64) -> Result<Window> {
        let deadline = Instant::now() + self.fs.settings.call_timeout;
        let mut waits = ExponentialBuilder::default()
            .with_min_delay(FIRST_WAIT)
            .with_max_delay(LONGEST_WAIT)
            .with_jitter()
            .without_max_times()
            .build();
        loop {
            let blocks = self.blocks.cover(from, to).await?;
            let error = match fetch::fetch(&self.fs, &blocks, from, to).await {
                Ok(pieces) => return Ok(Window::new(from, pieces)),
                Err(error) => error,
            };
            let wait = waits.next().unwrap_or(LONGEST_WAIT);
            if error.kind() != ErrorKind::Connect || Instant::now() + wait >= deadline {
                return Err(error);
            }
            tracing::warn!(%error, "a block could not be read, trying again");
            tokio::time::sleep(wait).await;
            // A datanode that came back may answer elsewhere.
            self.blocks.forget();
        }
    }
}

fn length_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// What a peer sent does not fit together.
fn protocol(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Protocol, what)
}
