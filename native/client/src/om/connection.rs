//! One connection of Hadoop RPC: many calls in flight, answers matched by call id. Knows frames, no command and no retry.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use append_wire::common::RequestHeaderProto;
use append_wire::hrpc::{
    self, AuthProtocol, CallIdentity, FrameError, Outcome, Preamble, decode_response, encode_call,
    encode_context, encode_ping, split_frame,
};
use append_wire::om::OmRequest;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

/// Frames that wait for the socket.
const SEND_QUEUE: usize = 256;

/// Frames that one write takes at most.
const WRITE_BATCH: usize = 64;

/// Room that is made for what comes next.
const EARLY_RESERVE: usize = 16 << 10;

/// A call of this connection has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CallError {
    /// It cannot be sent at all.
    #[error("{0}")]
    Unsendable(String),
    /// Nothing of it reached the socket.
    #[error("{0}")]
    NotSent(String),
    /// It may have reached the server; the connection is gone.
    #[error("{0}")]
    Lost(String),
}

/// What a connection is made with.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) client_id: [u8; hrpc::CLIENT_ID_LEN],
    pub(crate) user: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) max_frame: usize,
}

/// A live connection. Dropping it closes the socket.
#[derive(Debug)]
pub(crate) struct Connection {
    frames: mpsc::Sender<Bytes>,
    state: Arc<State>,
    max_frame: usize,
    reader: tokio::task::AbortHandle,
}

#[derive(Debug)]
struct State {
    closed: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: HashMap<i32, oneshot::Sender<Result<Outcome, CallError>>>,
    ended: Option<CallError>,
}

impl State {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection: every call in flight learns why.
    fn end(&self, why: &str) {
        self.closed.store(true, Ordering::SeqCst);
        let error = CallError::Lost(why.to_owned());
        let calls = {
            let mut waiting = self.waiting();
            waiting.ended.get_or_insert_with(|| error.clone());
            std::mem::take(&mut waiting.calls)
        };
        for (_, answer) in calls {
            let _ = answer.send(Err(error.clone()));
        }
    }
}

/// Takes a call out of the list when its caller stops waiting.
struct Registered<'a> {
    state: &'a State,
    call_id: i32,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.state.waiting().calls.remove(&self.call_id);
    }
}

impl Connection {
    /// Connects and introduces the caller. Must run on the shared runtime, where the connection's tasks then live.
    pub(crate) async fn open(
        host: &str,
        port: u16,
        opening: &Opening,
    ) -> Result<Connection, String> {
        let stream =
            tokio::time::timeout(opening.connect_timeout, TcpStream::connect((host, port)))
                .await
                .map_err(|_| format!("no answer within {:?}", opening.connect_timeout))?
                .map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let out = greeting(opening, 0)?;
        let mut ping = BytesMut::new();
        encode_ping(opening.client_id, opening.max_frame, &mut ping).map_err(|e| e.to_string())?;

        let (source, sink) = stream.into_split();
        let (frames, queue) = mpsc::channel(SEND_QUEUE);
        let state = Arc::new(State {
            closed: AtomicBool::new(false),
            waiting: Mutex::new(Waiting::default()),
        });
        let max_frame = opening.max_frame;
        let reader = tokio::spawn(receive(source, Arc::clone(&state), max_frame));
        tokio::spawn(send(
            sink,
            queue,
            out.freeze(),
            ping.freeze(),
            opening.ping_interval,
            Arc::clone(&state),
            reader.abort_handle(),
        ));
        Ok(Connection {
            frames,
            state,
            max_frame,
            reader: reader.abort_handle(),
        })
    }

    /// Whether calls can still be made.
    pub(crate) fn is_open(&self) -> bool {
        !self.state.closed.load(Ordering::SeqCst)
    }

    /// Makes a call and waits for its answer.
    pub(crate) async fn call(
        &self,
        identity: CallIdentity,
        request: &OmRequest,
    ) -> Result<Outcome, CallError> {
        let mut frame = BytesMut::new();
        encode_call(identity, &target(), request, self.max_frame, &mut frame)
            .map_err(|e| CallError::Unsendable(e.to_string()))?;
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.state.waiting();
            if let Some(ended) = &waiting.ended {
                return Err(CallError::NotSent(ended.to_string()));
            }
            waiting.calls.insert(identity.call_id, answer);
        }
        let _registered = Registered {
            state: &self.state,
            call_id: identity.call_id,
        };
        if self.frames.send(frame.freeze()).await.is_err() {
            return Err(CallError::NotSent("the connection is closed".to_owned()));
        }
        match answered.await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Lost("the connection is closed".to_owned())),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
        self.state.end("the connection was closed on this side");
    }
}

/// What a connection begins with: preamble and caller.
pub(super) fn greeting(opening: &Opening, service_class: u8) -> Result<BytesMut, String> {
    let mut out = BytesMut::new();
    let preamble = Preamble {
        service_class,
        auth: AuthProtocol::None,
    };
    out.extend_from_slice(&preamble.encode());
    encode_context(
        opening.client_id,
        hrpc::OM_PROTOCOL,
        &opening.user,
        None,
        opening.max_frame,
        &mut out,
    )
    .map_err(|e| e.to_string())?;
    Ok(out)
}

pub(super) fn target() -> RequestHeaderProto {
    RequestHeaderProto {
        method_name: hrpc::OM_METHOD.to_owned(),
        declaring_class_protocol_name: hrpc::OM_PROTOCOL.to_owned(),
        client_protocol_version: hrpc::OM_PROTOCOL_VERSION,
    }
}

async fn send(
    mut sink: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Bytes>,
    opening: Bytes,
    ping: Bytes,
    ping_interval: Duration,
    state: Arc<State>,
    reader: tokio::task::AbortHandle,
) {
    let result = async {
        sink.write_all(&opening).await?;
        let mut batch = Vec::with_capacity(WRITE_BATCH);
        loop {
            match tokio::time::timeout(ping_interval, queue.recv_many(&mut batch, WRITE_BATCH))
                .await
            {
                // All senders are gone.
                Ok(0) => return Ok(()),
                Ok(1) => {
                    for frame in batch.drain(..) {
                        sink.write_all(&frame).await?;
                    }
                }
                Ok(_) => {
                    let mut joined =
                        BytesMut::with_capacity(batch.iter().map(Bytes::len).sum::<usize>());
                    for frame in batch.drain(..) {
                        joined.extend_from_slice(&frame);
                    }
                    sink.write_all(&joined).await?;
                }
                Err(_) => sink.write_all(&ping).await?,
            }
        }
    }
    .await;
    let why: std::io::Result<()> = result;
    match why {
        Ok(()) => state.end("the connection was closed on this side"),
        Err(e) => state.end(&format!("sending: {e}")),
    }
    reader.abort();
}

async fn receive(mut source: OwnedReadHalf, state: Arc<State>, max_frame: usize) {
    let why = match answers(&mut source, &state, max_frame).await {
        Ok(why) | Err(why) => why,
    };
    state.end(&why);
}

/// Hands out answers until the connection ends; says why it did.
async fn answers(
    source: &mut OwnedReadHalf,
    state: &State,
    max_frame: usize,
) -> Result<String, String> {
    let mut received = BytesMut::new();
    let malformed = |e: FrameError| format!("a malformed answer: {e}");
    loop {
        while let Some(frame) = split_frame(&mut received, max_frame).map_err(malformed)? {
            let response = decode_response(frame).map_err(malformed)?;
            let fatal = match &response.outcome {
                Outcome::Fatal(failure) => Some(failure.first_line().to_owned()),
                Outcome::Success(_) | Outcome::Error(_) => None,
            };
            answer(state, response.call_id, response.outcome);
            if let Some(why) = fatal {
                return Ok(why);
            }
        }
        received.reserve(EARLY_RESERVE);
        let read = source.read_buf(&mut received).await;
        if read.map_err(|e| format!("receiving: {e}"))? == 0 {
            return Ok("the server closed the connection".to_owned());
        }
    }
}

/// Hands an answer to its caller. A fatal answer without a call id of ours is every caller's.
fn answer(state: &State, call_id: i32, outcome: Outcome) {
    let (own, others) = {
        let mut waiting = state.waiting();
        let own = waiting.calls.remove(&call_id);
        let others = match (&own, &outcome) {
            (None, Outcome::Fatal(_)) => std::mem::take(&mut waiting.calls),
            _ => HashMap::new(),
        };
        (own, others)
    };
    for (_, call) in others {
        let _ = call.send(Ok(outcome.clone()));
    }
    if let Some(call) = own {
        // The caller may have stopped waiting.
        let _ = call.send(Ok(outcome));
    }
}
