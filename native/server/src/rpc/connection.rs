//! One connection of Hadoop RPC: opening, context, calls. Replies go out in the order in which they are ready.

use super::frames::{Frame, FrameReader, LargeFrames, ReadError};
use super::lane::{Lane, Lanes};
use super::waiting::{Held, Room};
use super::writer::{Reply, write_replies};
use super::{Caller, MAX_FRAME_BYTES, MAX_USER_BYTES, Raise, RpcLimits, Service};
use append_namespace::command::Invocation;
use append_wire::common::rpc_response_header_proto::RpcErrorCodeProto;
use append_wire::common::{IpcConnectionContextProto, RequestHeaderProto};
use append_wire::hrpc::{
    AuthProtocol, Call, CallIdentity, ClientFrame, Failure, INVALID_CALL_ID, OM_METHOD,
    OM_PROTOCOL, OM_PROTOCOL_VERSION, PREAMBLE_LEN, Preamble, PreambleError, decode_client_frame,
    decode_message, encode_failure, encode_success,
};
use append_wire::om::OmRequest;
use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncRead;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Replies that wait for the writer of one connection.
const REPLY_QUEUE: usize = 64;

const ACCESS_CONTROL: &str = "org.apache.hadoop.security.AccessControlException";
const AUTHORIZATION: &str = "org.apache.hadoop.security.authorize.AuthorizationException";
const NOT_LEADER: &str = "org.apache.hadoop.ozone.om.exceptions.OMNotLeaderException";
const NOT_READY: &str = "org.apache.hadoop.ozone.om.exceptions.OMLeaderNotReadyException";
/// Ozone's fork of Hadoop's RPC has its exceptions in this package.
const IPC: &str = "org.apache.hadoop.ipc_.";

/// What all connections of a listener share.
pub(crate) struct Shared {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) limits: RpcLimits,
    pub(crate) stop: CancellationToken,
    pub(crate) lanes: Lanes,
    large: LargeFrames,
    /// What large replies of all connections share.
    replies: Arc<Room>,
}

impl Shared {
    pub(crate) fn new(
        service: Arc<dyn Service>,
        limits: RpcLimits,
        stop: CancellationToken,
    ) -> Shared {
        Shared {
            service,
            limits,
            stop,
            lanes: Lanes::default(),
            large: LargeFrames::new(&limits),
            replies: Room::new(limits.large_replies_bytes),
        }
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let (source, sink) = stream.into_split();
    let (replies, waiting) = mpsc::channel(REPLY_QUEUE);
    let broken = CancellationToken::new();
    let patience = shared.limits.write;
    let writer = {
        let broken = broken.clone();
        tokio::spawn(async move {
            let written = tokio::select! {
                written = write_replies(sink, waiting, patience) => written,
                () = broken.cancelled() => return,
            };
            if let Err(error) = written {
                tracing::debug!(%peer, %error, "replies could not be written");
                broken.cancel();
            }
        })
    };
    let connection = Connection {
        peer,
        room: Room::of_connection(&shared.limits),
        shared: Arc::clone(&shared),
        replies: Replies::Queued(replies),
        broken,
    };
    let mut frames = FrameReader::new(source, shared.large.clone(), shared.limits);
    if let Some(user) = connection.begin(&mut frames).await {
        connection.run(frames, user).await;
    }
    drop(connection);
    // Ends when every call in flight has answered, or the connection is given up.
    if let Err(error) = writer.await {
        tracing::warn!(%peer, %error, "the writer of a connection ended");
    }
}

/// Serves a connection to its end, one call after the other, on the lane's thread.
pub(crate) async fn serve_alone(lane: Lane, peer: SocketAddr, shared: Arc<Shared>) {
    let mut frames = FrameReader::new(lane.clone(), shared.large.clone(), shared.limits);
    let connection = Connection {
        peer,
        room: Room::of_connection(&shared.limits),
        shared,
        replies: Replies::Here(lane),
        broken: CancellationToken::new(),
    };
    let Some(user) = connection.begin(&mut frames).await else {
        return;
    };
    if let Err(error) = frames.source().opened(&connection.shared.limits) {
        return connection.give_up(&error.into());
    }
    while let Some(frame) = connection.next(&mut frames).await {
        match connection.call_of(frame.bytes).await {
            Heard::Call(call) => connection.work(&user).run(call).await,
            Heard::Nothing => {}
            Heard::End => return,
        }
    }
}

/// The way of replies to the peer.
#[derive(Clone)]
enum Replies {
    /// By the connection's writer.
    Queued(mpsc::Sender<Reply>),
    /// By whoever has one, on the lane's thread.
    Here(Lane),
}

impl Replies {
    /// Fails when the peer is gone or takes nothing.
    async fn send(&self, reply: Reply) -> std::io::Result<()> {
        match self {
            // The writer is gone only with the connection.
            Replies::Queued(queue) => {
                let _ = queue.send(reply).await;
                Ok(())
            }
            Replies::Here(lane) => lane.write(&reply.bytes),
        }
    }
}

/// What a frame came to.
enum Heard {
    Call(Call),
    Nothing,
    /// The connection ends; the peer was told why.
    End,
}

struct Connection {
    peer: SocketAddr,
    room: Arc<Room>,
    shared: Arc<Shared>,
    replies: Replies,
    /// Cancelled when the connection is to end without further replies.
    broken: CancellationToken,
}

/// Why a peer's frame ends the connection.
struct Fatal {
    call_id: i32,
    failure: Failure,
}

impl Fatal {
    fn new(code: RpcErrorCodeProto, class: impl Into<String>, message: impl Into<String>) -> Fatal {
        Fatal {
            call_id: INVALID_CALL_ID,
            failure: Failure {
                exception_class: class.into(),
                message: message.into(),
                code: Some(code),
            },
        }
    }
}

impl Connection {
    /// The user of all calls; nothing when the connection has ended before its first.
    async fn begin<R: AsyncRead + Unpin>(&self, frames: &mut FrameReader<R>) -> Option<Arc<str>> {
        match self.open(frames).await {
            Ok(user) => user.map(Arc::from),
            Err(fatal) => {
                self.end_with(fatal).await;
                None
            }
        }
    }

    async fn run(&self, mut frames: FrameReader<OwnedReadHalf>, user: Arc<str>) {
        let slots = Arc::new(Semaphore::new(self.shared.limits.calls_per_connection));
        loop {
            // A place first: what is not served yet stays with the peer.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            let Some(frame) = self.next(&mut frames).await else {
                return;
            };
            let call = match self.call_of(frame.bytes).await {
                Heard::Call(call) => call,
                Heard::Nothing => continue,
                Heard::End => return,
            };
            let work = self.work(&user);
            let share = frame.share;
            tokio::spawn(async move {
                work.run(call).await;
                drop((slot, share));
            });
        }
    }

    fn work(&self, user: &Arc<str>) -> Work {
        Work {
            peer: self.peer,
            room: Arc::clone(&self.room),
            user: Arc::clone(user),
            shared: Arc::clone(&self.shared),
            replies: self.replies.clone(),
            broken: self.broken.clone(),
        }
    }

    async fn call_of(&self, frame: Bytes) -> Heard {
        let fatal = match decode_client_frame(frame) {
            Ok(ClientFrame::Call(call)) => return Heard::Call(call),
            Ok(ClientFrame::Ping) => return Heard::Nothing,
            Ok(ClientFrame::Context(_)) => Fatal::new(
                RpcErrorCodeProto::FatalInvalidRpcHeader,
                format!("{IPC}RpcServerException"),
                "the connection context was sent twice",
            ),
            Err(rejected) => Fatal {
                call_id: rejected.call_id,
                failure: Failure {
                    exception_class: format!("{IPC}RpcServerException"),
                    message: rejected.error.to_string(),
                    code: Some(rejected.error.fatal_code()),
                },
            },
        };
        self.end_with(fatal).await;
        Heard::End
    }

    /// The next frame; nothing when the connection ends or is given up.
    async fn next<R: AsyncRead + Unpin>(&self, frames: &mut FrameReader<R>) -> Option<Frame> {
        let next = tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => return None,
            () = self.broken.cancelled() => return None,
            next = frames.next() => next,
        };
        match next {
            Ok(frame) => frame,
            // A lane that rests for too long ends without a word.
            Err(ReadError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => None,
            Err(error) => {
                self.give_up(&error);
                None
            }
        }
    }

    fn give_up(&self, error: &ReadError) {
        tracing::info!(peer = %self.peer, %error, "a connection is closed");
        metrics::counter!("append_rpc_connections_given_up_total").increment(1);
        self.broken.cancel();
    }

    /// Reads the opening and the context: the user of all calls, or nothing when the peer is gone.
    async fn open<R: AsyncRead + Unpin>(
        &self,
        frames: &mut FrameReader<R>,
    ) -> Result<Option<String>, Fatal> {
        let preamble = match frames.opening::<PREAMBLE_LEN>().await {
            Ok(bytes) => Preamble::parse(&bytes),
            Err(error) => {
                self.give_up(&error);
                return Ok(None);
            }
        };
        match preamble {
            Ok(Preamble {
                auth: AuthProtocol::None,
                ..
            }) => {}
            Ok(Preamble {
                auth: AuthProtocol::Sasl,
                ..
            }) => {
                return Err(Fatal::new(
                    RpcErrorCodeProto::FatalUnauthorized,
                    ACCESS_CONTROL,
                    "SASL is not spoken here: this server takes SIMPLE authentication only",
                ));
            }
            Err(error @ PreambleError::Version(_)) => {
                return Err(Fatal::new(
                    RpcErrorCodeProto::FatalVersionMismatch,
                    format!("{IPC}RPC$VersionMismatch"),
                    error.to_string(),
                ));
            }
            Err(error @ (PreambleError::Magic(_) | PreambleError::Auth(_))) => {
                tracing::info!(peer = %self.peer, %error, "a connection is closed");
                self.broken.cancel();
                return Ok(None);
            }
        }
        let Some(frame) = self.next(frames).await else {
            return Ok(None);
        };
        match decode_client_frame(frame.bytes) {
            Ok(ClientFrame::Context(context)) => user_of(&context).map(Some),
            Ok(ClientFrame::Ping | ClientFrame::Call(_)) => Err(Fatal::new(
                RpcErrorCodeProto::FatalInvalidRpcHeader,
                format!("{IPC}RpcServerException"),
                "the first frame of a connection is its context",
            )),
            Err(rejected) => Err(Fatal {
                call_id: rejected.call_id,
                ..Fatal::new(
                    rejected.error.fatal_code(),
                    format!("{IPC}RpcServerException"),
                    rejected.error.to_string(),
                )
            }),
        }
    }

    async fn end_with(&self, fatal: Fatal) {
        tracing::info!(peer = %self.peer, reason = %fatal.failure.message, "a connection is refused");
        metrics::counter!("append_rpc_connections_given_up_total").increment(1);
        let mut out = BytesMut::new();
        if encode_failure(
            fatal.call_id,
            None,
            &fatal.failure,
            true,
            MAX_FRAME_BYTES,
            &mut out,
        )
        .is_ok()
        {
            let reply = Reply {
                bytes: out.freeze(),
                held: None,
            };
            let _ = self.replies.send(reply).await;
        }
    }
}

/// The caller's name. The server's own is never taken instead.
fn user_of(context: &IpcConnectionContextProto) -> Result<String, Fatal> {
    let unauthorized = |class: &str, message: String| {
        Fatal::new(RpcErrorCodeProto::FatalUnauthorized, class, message)
    };
    let info = context.user_info.as_ref();
    let name = |name: Option<&str>| name.map(str::trim).unwrap_or_default().to_owned();
    let effective = name(info.and_then(|info| info.effective_user.as_deref()));
    let real = name(info.and_then(|info| info.real_user.as_deref()));
    if effective.is_empty() {
        return Err(unauthorized(
            ACCESS_CONTROL,
            "the connection names no user".to_owned(),
        ));
    }
    if effective.len() > MAX_USER_BYTES {
        return Err(unauthorized(
            ACCESS_CONTROL,
            format!(
                "the user's name has {} bytes, at most {MAX_USER_BYTES} are taken",
                effective.len()
            ),
        ));
    }
    if !real.is_empty() && real != effective {
        return Err(unauthorized(
            AUTHORIZATION,
            format!("User: {real} is not allowed to impersonate {effective}"),
        ));
    }
    Ok(effective)
}

/// A call that is being served.
struct Work {
    peer: SocketAddr,
    room: Arc<Room>,
    user: Arc<str>,
    shared: Arc<Shared>,
    replies: Replies,
    broken: CancellationToken,
}

impl Work {
    async fn run(self, call: Call) {
        let guard = EndOnPanic(self.broken.clone());
        let identity = call.identity;
        let mut out = BytesMut::new();
        let mut held = None;
        let answered = match request_of(call) {
            Ok(request) => {
                let bytes = self.shared.service.answer_bytes(&request);
                held = tokio::select! {
                    biased;
                    held = Held::take(&self.room, &self.shared.replies, bytes) => Some(held),
                    () = self.broken.cancelled() => return,
                };
                self.submit(identity, request, &mut out).await
            }
            Err(failure) => {
                refuse(identity, &failure, &mut out);
                true
            }
        };
        if let Some(held) = &mut held {
            held.settle(out.len());
        }
        let reply = Reply {
            bytes: out.freeze(),
            held,
        };
        if !answered {
            self.broken.cancel();
        } else if let Err(error) = self.replies.send(reply).await {
            tracing::debug!(peer = %self.peer, %error, "a reply could not be written");
            self.broken.cancel();
        }
        drop(guard);
    }

    /// Writes the answer to `out`; false when the caller must lose its connection instead.
    async fn submit(&self, identity: CallIdentity, request: OmRequest, out: &mut BytesMut) -> bool {
        let caller = Caller {
            user: self.user.as_ref().to_owned(),
            address: Some(self.peer),
            identity: Some(Invocation {
                client: Bytes::copy_from_slice(&identity.client_id),
                sequence: u64::from(identity.call_id.cast_unsigned()),
            }),
        };
        match self.shared.service.submit(caller, request).await {
            Ok(response) => {
                if let Err(error) = encode_success(identity, &response, MAX_FRAME_BYTES, out) {
                    let failure = Failure {
                        exception_class: format!("{IPC}RpcServerException"),
                        message: format!("the answer does not fit: {error}"),
                        code: Some(RpcErrorCodeProto::ErrorSerializingResponse),
                    };
                    refuse(identity, &failure, out);
                }
                true
            }
            Err(raise @ (Raise::NotReady(_) | Raise::NotLeader(_))) => {
                let (class, message) = match raise {
                    Raise::NotLeader(message) => (NOT_LEADER, message),
                    Raise::NotReady(message) | Raise::Disconnect(message) => (NOT_READY, message),
                };
                let failure = Failure {
                    exception_class: class.to_owned(),
                    message,
                    code: Some(RpcErrorCodeProto::ErrorApplication),
                };
                refuse(identity, &failure, out);
                true
            }
            Err(Raise::Disconnect(reason)) => {
                tracing::warn!(peer = %self.peer, reason, "a connection is cut: the outcome of a call is not known");
                false
            }
        }
    }
}

/// Ends the connection when serving a call panics, so that its caller does not wait for ever.
struct EndOnPanic(CancellationToken);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cancel();
        }
    }
}

/// Writes an exception; a message that does not fit is left out.
fn refuse(identity: CallIdentity, failure: &Failure, out: &mut BytesMut) {
    if encode_failure(
        identity.call_id,
        Some(identity),
        failure,
        false,
        MAX_FRAME_BYTES,
        out,
    )
    .is_err()
    {
        let short = Failure {
            message: String::new(),
            ..failure.clone()
        };
        let _ = encode_failure(
            identity.call_id,
            Some(identity),
            &short,
            false,
            MAX_FRAME_BYTES,
            out,
        );
    }
}

fn request_of(call: Call) -> Result<OmRequest, Failure> {
    check_target(&call.target)?;
    decode_message(call.payload, "OMRequest").map_err(|error| Failure {
        exception_class: "com.google.protobuf.InvalidProtocolBufferException".to_owned(),
        message: error.to_string(),
        code: Some(RpcErrorCodeProto::ErrorRpcServer),
    })
}

fn check_target(target: &RequestHeaderProto) -> Result<(), Failure> {
    let refused = |class: &str, message: String, code| {
        Err(Failure {
            exception_class: format!("{IPC}{class}"),
            message,
            code: Some(code),
        })
    };
    if target.declaring_class_protocol_name != OM_PROTOCOL {
        return refused(
            "RpcNoSuchProtocolException",
            format!(
                "Unknown protocol: {}",
                shown(&target.declaring_class_protocol_name)
            ),
            RpcErrorCodeProto::ErrorNoSuchProtocol,
        );
    }
    if target.client_protocol_version != OM_PROTOCOL_VERSION {
        return refused(
            "RPC$VersionMismatch",
            format!(
                "{OM_PROTOCOL} version {} is asked, {OM_PROTOCOL_VERSION} is served",
                target.client_protocol_version
            ),
            RpcErrorCodeProto::ErrorRpcVersionMismatch,
        );
    }
    if target.method_name != OM_METHOD {
        return refused(
            "RpcNoSuchMethodException",
            format!(
                "Unknown method {} called on {OM_PROTOCOL}",
                shown(&target.method_name)
            ),
            RpcErrorCodeProto::ErrorNoSuchMethod,
        );
    }
    Ok(())
}

/// At most 256 characters of what a peer sent, for a message.
fn shown(text: &str) -> String {
    text.chars().take(256).collect()
}
