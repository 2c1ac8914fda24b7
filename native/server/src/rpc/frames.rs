//! Cuts frames from a connection, with a deadline for each and a shared bound on the memory of large ones.

use super::{LARGE_FRAME_BYTES, RpcLimits};
use append_wire::hrpc::{FrameError, frame_length, split_frame};
use bytes::{Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Room that is kept for the next read, bytes.
const READ_ROOM: usize = 16 << 10;
/// Bytes that one permit of the shared bound stands for.
const PERMIT_BYTES: usize = 4 << 10;

/// Why no further frame comes from a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The bytes are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The connection broke, or ended within a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A frame was begun and not finished in time.
    #[error("a frame was not finished in time")]
    Deadline,
}

/// The memory that large frames of all connections share.
#[derive(Debug, Clone)]
pub(crate) struct LargeFrames(Arc<Semaphore>);

impl LargeFrames {
    pub(crate) fn new(limits: &RpcLimits) -> LargeFrames {
        let room = limits.large_frames_bytes.max(limits.frame_bytes);
        LargeFrames(Arc::new(Semaphore::new(room.div_ceil(PERMIT_BYTES))))
    }

    async fn acquire(&self, bytes: usize) -> io::Result<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        Arc::clone(&self.0)
            .acquire_many_owned(permits)
            .await
            .map_err(io::Error::other)
    }
}

/// A frame, and its share of the memory for large ones: to be kept as long as the frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    pub(crate) share: Option<OwnedSemaphorePermit>,
}

/// The reading side of a connection.
pub(crate) struct FrameReader<R> {
    source: R,
    received: BytesMut,
    large: LargeFrames,
    limits: RpcLimits,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(source: R, large: LargeFrames, limits: RpcLimits) -> FrameReader<R> {
        FrameReader {
            source,
            received: BytesMut::new(),
            large,
            limits,
        }
    }

    /// Exactly `N` bytes that stand before all frames.
    pub(crate) async fn opening<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let deadline = Instant::now() + self.limits.opening;
        loop {
            if let Some(bytes) = self.received.first_chunk::<N>().copied() {
                let _ = self.received.split_to(N);
                return Ok(bytes);
            }
            let filled = timeout_at(deadline, self.fill()).await;
            if filled.map_err(|_| ReadError::Deadline)?? == 0 {
                return Err(ReadError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            in_time(deadline)?;
        }
    }

    /// The next frame; nothing when the peer has ended the connection between two frames. Waits for the first byte of a frame
    /// without a bound, for the rest of it [`RpcLimits::frame`].
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, ReadError> {
        while self.received.is_empty() {
            if self.fill().await? == 0 {
                return Ok(None);
            }
        }
        let deadline = Instant::now() + self.limits.frame;
        timeout_at(deadline, self.rest(deadline))
            .await
            .map_err(|_| ReadError::Deadline)?
            .map(Some)
    }

    /// What the frames come from.
    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.source
    }

    async fn rest(&mut self, deadline: Instant) -> Result<Frame, ReadError> {
        let mut share = None;
        loop {
            if let Some(bytes) = split_frame(&mut self.received, self.limits.frame_bytes)? {
                return Ok(Frame { bytes, share });
            }
            if share.is_none()
                && let Some(prefix) = self.received.first_chunk()
            {
                let len = frame_length(*prefix, self.limits.frame_bytes)?;
                if len >= LARGE_FRAME_BYTES {
                    share = Some(self.large.acquire(len).await?);
                }
            }
            if self.fill().await? == 0 {
                return Err(ReadError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            in_time(deadline)?;
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        if self.received.capacity() - self.received.len() < READ_ROOM / 4 {
            self.received.reserve(READ_ROOM);
        }
        self.source.read_buf(&mut self.received).await
    }
}

/// A source that blocks never lets a timer have its turn.
fn in_time(deadline: Instant) -> Result<(), ReadError> {
    if Instant::now() >= deadline {
        return Err(ReadError::Deadline);
    }
    Ok(())
}
