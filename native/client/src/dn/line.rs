//! Lines: the framed way to a datanode that advertises it ([`append_wire::framed`]), for small writes that wait for their answers. A line
//! has one user at a time, who writes his request and reads its answer himself. Who finds none, and every datanode that does not greet,
//! is served over gRPC.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use append_wire::datanode::{ContainerCommandRequestProto, ContainerCommandResponseProto};
use append_wire::framed::{HELLO, MAX_FRAME, write_frame};
use append_wire::hrpc::{decode_message, split_frame};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Datanode, Reply};
use crate::runtime;
use crate::runtime::park::{Watch, Way};

/// Data in a request that goes by a line, bytes at most: more is better sent while more is written.
pub(crate) const SMALL: usize = 128 << 10;

/// Lines to one datanode at once.
const MOST: usize = 16;

/// A line that was not used for so long is closed: well before the datanode gives up on it.
const LONGEST_IDLE: Duration = Duration::from_secs(20);

/// How long a datanode that gave no line is not asked for another.
const REFUSED: Duration = Duration::from_secs(30);

/// Bytes that one read takes at most.
const READ: usize = 4 << 10;

/// The lines to one datanode.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Pool>);

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Line>,
    taken: usize,
    refused: Option<Instant>,
}

/// A line, or the right to open one, until this is dropped.
struct Lent<'a> {
    lines: &'a Lines,
    line: Option<Line>,
}

#[derive(Debug)]
struct Line {
    socket: Arc<TcpStream>,
    used: Instant,
}

impl Lines {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Lent<'_>> {
        let mut pool = self.pool();
        while let Some(line) = pool.idle.pop() {
            if line.is_usable() {
                return Some(Lent {
                    lines: self,
                    line: Some(line),
                });
            }
            pool.taken -= 1;
        }
        let refused = pool.refused.is_some_and(|at| at.elapsed() < REFUSED);
        if refused || pool.taken >= MOST {
            return None;
        }
        pool.taken += 1;
        Some(Lent {
            lines: self,
            line: None,
        })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut pool = self.lines.pool();
        match self.line.take() {
            Some(line) => pool.idle.push(line),
            None => pool.taken -= 1,
        }
    }
}

/// Sends a request by a line and waits for its answer; over gRPC when there is none. Can be given up at any time, which costs the line.
pub(crate) async fn exchange(node: Arc<Datanode>, request: ContainerCommandRequestProto) -> Reply {
    let Some(lines) = &node.lines else {
        return node.call(request).await;
    };
    let Some(mut lent) = lines.take() else {
        return node.call(request).await;
    };
    let line = match lent.line.take() {
        Some(line) => line,
        None => match open(&node).await {
            Ok(line) => line,
            Err(error) => {
                tracing::debug!(node = node.address, %error, "no line, gRPC serves");
                lines.pool().refused = Some(Instant::now());
                drop(lent);
                return node.call(request).await;
            }
        },
    };
    let deadline = Instant::now() + node.timeout;
    match line.call(&request, deadline).await {
        Ok(answer) => {
            lent.line = Some(Line {
                used: Instant::now(),
                ..line
            });
            node.judge(answer)
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Err(node.unreachable("no answer in time"))
        }
        Err(error) => Err(node.unreachable(error.to_string())),
    }
}

/// Connects in the shared runtime and greets.
async fn open(node: &Arc<Datanode>) -> io::Result<Line> {
    let (address, timeout) = (node.address.clone(), node.connect_timeout);
    let runtime = runtime::handle().map_err(io::Error::other)?;
    let opening = runtime.spawn(async move {
        let work = async {
            let mut stream = tokio::net::TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            stream.write_all(&HELLO).await?;
            let mut hello = [0; HELLO.len()];
            stream.read_exact(&mut hello).await?;
            if hello != HELLO {
                return Err(io::Error::other("it speaks something else"));
            }
            stream.into_std()
        };
        tokio::time::timeout(timeout, work)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    });
    let socket = opening.await.map_err(io::Error::other)??;
    Ok(Line {
        socket: Arc::new(socket),
        used: Instant::now(),
    })
}

impl Line {
    /// Nothing was heard on it since the last answer.
    fn is_usable(&self) -> bool {
        if self.used.elapsed() >= LONGEST_IDLE {
            return false;
        }
        matches!(
            self.socket.peek(&mut [0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock
        )
    }

    async fn call(
        &self,
        request: &ContainerCommandRequestProto,
        deadline: Instant,
    ) -> io::Result<ContainerCommandResponseProto> {
        let mut out = BytesMut::new();
        write_frame(request, &mut out).map_err(io::Error::other)?;
        let mut watch = Watch::default();
        let mut rest: &[u8] = &out;
        while !rest.is_empty() {
            let written = std::future::poll_fn(|cx| {
                watch.poll_io(cx, &self.socket, Way::Out, deadline, |mut socket| {
                    socket.write(rest)
                })
            })
            .await?;
            rest = rest.get(written..).unwrap_or_default();
        }
        let mut received = BytesMut::new();
        loop {
            let frame = split_frame(&mut received, MAX_FRAME).map_err(io::Error::other)?;
            if let Some(frame) = frame {
                if !received.is_empty() {
                    return Err(io::Error::other("an answer that nobody asked for"));
                }
                return decode_message(frame, "ContainerCommandResponseProto")
                    .map_err(io::Error::other);
            }
            let mut bytes = [0; READ];
            let read = std::future::poll_fn(|cx| {
                watch.poll_io(cx, &self.socket, Way::In, deadline, |mut socket| {
                    socket.read(&mut bytes)
                })
            })
            .await?;
            if read == 0 {
                return Err(io::Error::other("the datanode closed the line"));
            }
            received.extend_from_slice(bytes.get(..read).unwrap_or_default());
        }
    }
}
