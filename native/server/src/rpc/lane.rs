//! Lanes: threads that each serve one connection whose client makes one call after the other and waits for each. The thread that is woken
//! for a call reads it, serves it, may log it, and writes the answer; nobody is woken in between.
//!
//! A lane has the bounds of every other connection, and one more: after [`IDLE`] without a call it ends, so that its thread serves another.
//! There are few; a connection that finds none is served by tasks, alike in all but speed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use append_wire::hrpc::{PREAMBLE_LEN, SINGLE_CALLS};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::RpcLimits;
use super::connection::{self, Shared};

/// Lanes at once.
pub(super) const MOST: usize = 64;

/// How long a lane waits for the next call. Our client gives a connection up much sooner.
const IDLE: Duration = Duration::from_secs(60);

/// What a lane's thread needs is its calls' stacks, deep as they are in unoptimized builds.
const STACK: usize = 2 << 20;

/// The places of all lanes.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Arc<AtomicUsize>);

/// One place.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Lanes {
    /// A place, if there is one.
    fn take(&self) -> Option<Place> {
        let taken = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                (taken < MOST).then_some(taken + 1)
            });
        taken.ok().map(|_| Place(Arc::clone(&self.0)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A place for a connection that asks for one; nothing if it does not, or all are taken.
pub(crate) async fn place_for(stream: &tokio::net::TcpStream, shared: &Shared) -> Option<Place> {
    let mut preamble = [0; PREAMBLE_LEN];
    let read = stream.peek(&mut preamble).await.ok()?;
    if read < PREAMBLE_LEN || preamble[5] != SINGLE_CALLS {
        return None;
    }
    shared.lanes.take()
}

/// Serves a connection to its end on a thread of its own. Without a thread to be had the connection ends.
pub(crate) async fn serve(
    stream: tokio::net::TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    place: Place,
) {
    let stop = shared.stop.clone();
    let (done, mut ended) = oneshot::channel::<()>();
    let socket = match start(stream, peer, shared, (place, done)) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%peer, %error, "a connection got no thread and is closed");
            return;
        }
    };
    tokio::select! {
        _ = &mut ended => {}
        () = stop.cancelled() => {
            // The call under way is answered, and no other is read.
            let _ = socket.shutdown(Shutdown::Read);
            let _ = ended.await;
        }
    }
}

fn start(
    stream: tokio::net::TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    until_the_end: impl Send + 'static,
) -> io::Result<Arc<TcpStream>> {
    let socket = stream.into_std()?;
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(shared.limits.write))?;
    socket.set_read_timeout(Some(shared.limits.opening))?;
    let socket = Arc::new(socket);
    let (runtime, of_lane) = (Handle::current(), Arc::clone(&socket));
    std::thread::Builder::new()
        .name("append-lane".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            crate::consensus::lend_thread();
            let served = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(connection::serve_alone(
                    Lane(Arc::clone(&of_lane)),
                    peer,
                    shared,
                ));
            }));
            if served.is_err() {
                tracing::error!(%peer, "serving a connection panicked");
            }
            // A call that the client began may never have been read.
            let _ = of_lane.shutdown(Shutdown::Both);
            drop(until_the_end);
        })?;
    Ok(socket)
}

/// A socket that blocks, as a source of frames and a sink of replies. For a lane's thread only.
#[derive(Debug, Clone)]
pub(crate) struct Lane(Arc<TcpStream>);

impl Lane {
    /// From here on the connection may rest between two calls.
    pub(crate) fn opened(&self, limits: &RpcLimits) -> io::Result<()> {
        self.0.set_read_timeout(Some(IDLE.min(limits.frame)))
    }

    /// Writes all of a reply.
    pub(crate) fn write(&self, reply: &[u8]) -> io::Result<()> {
        (&*self.0).write_all(reply)
    }
}

impl AsyncRead for Lane {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match (&*self.0).read(buf.initialize_unfilled()) {
                Ok(read) => {
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What a socket says whose time-out passed.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
