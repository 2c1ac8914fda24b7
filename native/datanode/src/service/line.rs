//! Lines: the framed way to this datanode ([`append_wire::framed`]), for small writes that wait for their answers. Each line has a thread of
//! its own, which reads a request, writes it, syncs it if nobody syncs already, and answers.
//!
//! Everything is bounded: lines, bytes of a frame, the time for the hello, for a frame, for an answer to be taken and without a request.
//! What is no write is refused: reads have gRPC. A line that breaks the rules is closed, and no other notices.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use append_wire::datanode as dn;
use append_wire::framed::{HELLO, MAX_FRAME, write_frame};
use append_wire::hrpc::{FrameError, decode_message, split_frame};
use bytes::{Bytes, BytesMut};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Shared;
use super::convert::Refusal;
use super::limits::{LINE_FRAME, LINE_HELLO, LINE_IDLE, LINES, SLOW_CLIENT};
use super::requests::{Answer, execute};
use super::stream::{addressed_to_us, count, head_of, settle, writes};

/// Bytes that one read takes at most.
const READ: usize = 16 << 10;

/// Room that a line keeps for the next frames, bytes.
const KEPT: usize = 256 << 10;

/// A line's thread goes not deep, but unoptimized builds take more.
const STACK: usize = 1 << 20;

/// Serves the lines of one datanode. Cheap to clone.
#[derive(Clone)]
pub struct Lines {
    shared: Arc<Shared>,
    taken: Arc<AtomicUsize>,
}

/// The place of one line.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Why a line ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a frame was not finished in time")]
    Deadline,
    #[error("the hello is not one of a line")]
    Hello,
}

impl Lines {
    pub(crate) fn new(shared: Arc<Shared>) -> Lines {
        Lines {
            shared,
            taken: Arc::default(),
        }
    }

    /// Whether a connection that begins with this byte is to be served here.
    #[must_use]
    pub fn begins_with(first: u8) -> bool {
        HELLO.first() == Some(&first)
    }

    /// Serves a connection to its end, or, once `stop` resolves, to the end of the request under way. Without a place for it, it is closed
    /// before it is greeted. Must run in a tokio runtime.
    pub async fn serve(&self, stream: tokio::net::TcpStream, stop: impl Future<Output = ()>) {
        let taken = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                (taken < LINES).then_some(taken + 1)
            });
        if taken.is_err() {
            metrics::counter!("datanode_lines_refused_total").increment(1);
            return;
        }
        let place = Place(Arc::clone(&self.taken));
        let (done, mut ended) = oneshot::channel::<()>();
        let socket = match self.start(stream, (place, done)) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "a line got no thread and is closed");
                return;
            }
        };
        tokio::select! {
            _ = &mut ended => {}
            () = stop => {
                let _ = socket.shutdown(Shutdown::Read);
                let _ = ended.await;
            }
        }
    }

    fn start(
        &self,
        stream: tokio::net::TcpStream,
        until_the_end: impl Send + 'static,
    ) -> io::Result<Arc<TcpStream>> {
        let socket = stream.into_std()?;
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LINE_HELLO))?;
        socket.set_write_timeout(Some(SLOW_CLIENT))?;
        let socket = Arc::new(socket);
        let line = Line {
            shared: Arc::clone(&self.shared),
            runtime: Handle::current(),
            socket: Arc::clone(&socket),
            received: BytesMut::new(),
        };
        std::thread::Builder::new()
            .name("datanode-line".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                let socket = Arc::clone(&line.socket);
                match catch_unwind(AssertUnwindSafe(|| line.run())) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        metrics::counter!("datanode_lines_given_up_total").increment(1);
                        tracing::debug!(%error, "a line is closed");
                    }
                    Err(_) => tracing::error!("serving a line panicked"),
                }
                let _ = socket.shutdown(Shutdown::Both);
                drop(until_the_end);
            })?;
        Ok(socket)
    }
}

struct Line {
    shared: Arc<Shared>,
    runtime: Handle,
    socket: Arc<TcpStream>,
    received: BytesMut,
}

impl Line {
    fn run(mut self) -> Result<(), End> {
        if !self.hello()? {
            return Ok(());
        }
        self.socket.set_read_timeout(Some(LINE_IDLE))?;
        let mut out = BytesMut::new();
        while let Some(frame) = self.next()? {
            let request = decode_message(frame, "ContainerCommandRequestProto")?;
            let response = self.serve(request);
            out.clear();
            write_frame(&response, &mut out)?;
            (&*self.socket).write_all(&out)?;
        }
        Ok(())
    }

    /// False when the peer has said nothing.
    fn hello(&mut self) -> Result<bool, End> {
        let deadline = Instant::now() + LINE_HELLO;
        while self.received.len() < HELLO.len() {
            if !HELLO.starts_with(&self.received) {
                return Err(End::Hello);
            }
            match self.fill()? {
                Some(0) if self.received.is_empty() => return Ok(false),
                Some(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Some(_) if Instant::now() < deadline => {}
                _ => return Err(End::Deadline),
            }
        }
        if self.received.split_to(HELLO.len()) != HELLO[..] {
            return Err(End::Hello);
        }
        (&*self.socket).write_all(&HELLO)?;
        Ok(true)
    }

    /// The next frame; nothing when the peer has ended between two, or rests for too long.
    fn next(&mut self) -> Result<Option<Bytes>, End> {
        let mut deadline = None;
        loop {
            if let Some(frame) = split_frame(&mut self.received, MAX_FRAME)? {
                return Ok(Some(frame));
            }
            let begun = !self.received.is_empty();
            if begun {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + LINE_FRAME);
                if Instant::now() >= deadline {
                    return Err(End::Deadline);
                }
            }
            match self.fill()? {
                Some(0) if begun => {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                Some(0) => return Ok(None),
                Some(_) => {}
                None if begun => return Err(End::Deadline),
                None => return Ok(None),
            }
        }
    }

    /// Reads what is there; nothing when nothing came in time.
    fn fill(&mut self) -> io::Result<Option<usize>> {
        if self.received.is_empty() && self.received.capacity() > KEPT {
            self.received = BytesMut::new();
        }
        let mut bytes = [0; READ];
        loop {
            match (&*self.socket).read(&mut bytes) {
                Ok(read) => {
                    self.received
                        .extend_from_slice(bytes.get(..read).unwrap_or_default());
                    return Ok(Some(read));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn serve(
        &self,
        request: dn::ContainerCommandRequestProto,
    ) -> dn::ContainerCommandResponseProto {
        let began = Instant::now();
        let head = head_of(&request);
        let answer = self.execute(&request);
        let response = self.runtime.block_on(settle(&self.shared, &head, answer));
        count(&response, began);
        response
    }

    fn execute(&self, request: &dn::ContainerCommandRequestProto) -> Result<Answer, Refusal> {
        let kind = dn::Type::try_from(request.cmd_type).unwrap_or(dn::Type::UnsetCommand);
        addressed_to_us(&self.shared, request)?;
        if !writes(kind) {
            return Err(Refusal::new(
                dn::Result::UnsupportedRequest,
                format!("{} is served over gRPC only", kind.as_str_name()),
            ));
        }
        let failed = |why: &str| Refusal::new(dn::Result::ContainerInternalError, why);
        let _turn = match self.shared.disk.try_acquire() {
            Ok(turn) => turn,
            Err(_) => self
                .runtime
                .block_on(self.shared.disk.acquire())
                .map_err(|_| failed("the datanode is closing"))?,
        };
        let store = &self.shared.store;
        catch_unwind(AssertUnwindSafe(|| {
            let answer = execute(store, request, kind)?;
            if let Some(at) = answer.after {
                store.sync(at);
            }
            Ok(answer)
        }))
        .unwrap_or_else(|_| {
            tracing::error!("a disk operation panicked");
            Err(failed("the operation failed inside the datanode"))
        })
    }
}
