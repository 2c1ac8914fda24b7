//! Writes replies in the order in which they come, many at a time, to a peer that takes them in time.

use super::waiting::Held;
use bytes::{Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Replies that are joined into one write at most.
const JOINED_REPLIES: usize = 64;
/// Replies above this size are written as they are, bytes.
const JOINED_BYTES: usize = 64 << 10;

/// A reply, and the room that it takes until it is written.
pub(crate) struct Reply {
    pub(crate) bytes: Bytes,
    pub(crate) held: Option<Held>,
}

/// Writes what comes from `replies` until all its senders are gone.
///
/// # Errors
/// The error of the connection; `TimedOut` when the peer takes nothing for `patience`.
pub(crate) async fn write_replies<W: AsyncWrite + Unpin>(
    mut to: W,
    mut replies: mpsc::Receiver<Reply>,
    patience: Duration,
) -> io::Result<()> {
    let mut ready = Vec::with_capacity(JOINED_REPLIES);
    let mut joined = BytesMut::new();
    while replies.recv_many(&mut ready, JOINED_REPLIES).await > 0 {
        for Reply { bytes: reply, held } in ready.drain(..) {
            if joined.len() + reply.len() > JOINED_BYTES {
                write_all(&mut to, &joined, patience).await?;
                joined.clear();
            }
            if reply.len() > JOINED_BYTES {
                write_all(&mut to, &reply, patience).await?;
            } else {
                joined.extend_from_slice(&reply);
            }
            drop((reply, held));
        }
        write_all(&mut to, &joined, patience).await?;
        joined.clear();
    }
    to.shutdown().await
}

async fn write_all<W: AsyncWrite + Unpin>(
    to: &mut W,
    mut bytes: &[u8],
    patience: Duration,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = timeout(patience, to.write(bytes))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    Ok(())
}
