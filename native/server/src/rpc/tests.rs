use super::{Caller, Listener, Raise, RpcLimits, Service, Submitted, grpc_routes};
use append_wire::common::RequestHeaderProto;
use append_wire::common::rpc_response_header_proto::RpcErrorCodeProto;
use append_wire::hrpc::{
    AuthProtocol, CallIdentity, OM_METHOD, OM_PROTOCOL, OM_PROTOCOL_VERSION, Outcome, Preamble,
    Response, decode_response, encode_call, encode_context, encode_ping, split_frame,
};
use append_wire::om::ozone_manager_service_client::OzoneManagerServiceClient;
use append_wire::om::{OmRequest, OmResponse, Status, Type, UserInfo};
use bytes::BytesMut;
use prost::Message;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

mod lanes;

const CLIENT: [u8; 16] = *b"0123456789abcdef";
const MAX: usize = 1 << 20;

/// Echoes the caller and the identity; a trace id tells what else to do.
struct Echo {
    gate: Semaphore,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Echo {
    fn new() -> Arc<Echo> {
        Arc::new(Echo {
            gate: Semaphore::new(0),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    async fn answer(&self, caller: Caller, request: OmRequest) -> Result<OmResponse, Raise> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        match request.trace_id() {
            "wait" => self.gate.acquire().await.unwrap().forget(),
            "later" => return Err(Raise::NotReady("come again".to_owned())),
            "unknown" => return Err(Raise::Disconnect("stopping".to_owned())),
            "panic" => panic!("a fault in the service"),
            _ => {}
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(OmResponse {
            cmd_type: request.cmd_type,
            trace_id: request.trace_id,
            message: Some(match caller.identity {
                Some(identity) => format!(
                    "{} {:?} {}",
                    caller.user, identity.client, identity.sequence
                ),
                None => caller.user,
            }),
            status: Status::Ok.into(),
            ..OmResponse::default()
        })
    }
}

impl Service for Echo {
    fn submit(&self, caller: Caller, request: OmRequest) -> Submitted<'_> {
        Box::pin(self.answer(caller, request))
    }
}

struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    listener: tokio::task::JoinHandle<()>,
}

async fn serve(service: Arc<Echo>, limits: RpcLimits) -> Served {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let stop = CancellationToken::new();
    let routes = grpc_routes(Arc::clone(&service) as Arc<dyn Service>);
    let listener = tokio::spawn(Listener::new(socket, service, routes, limits).serve(stop.clone()));
    Served {
        address,
        stop,
        listener,
    }
}

struct Peer {
    stream: TcpStream,
    received: BytesMut,
}

impl Peer {
    async fn connect(address: SocketAddr) -> Peer {
        Peer {
            stream: TcpStream::connect(address).await.unwrap(),
            received: BytesMut::new(),
        }
    }

    async fn open(address: SocketAddr, user: &str) -> Peer {
        let mut peer = Peer::connect(address).await;
        peer.send(&opening(user, None)).await;
        peer
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn call(&mut self, id: i32, trace: &str) {
        self.send(&call(
            id,
            OM_PROTOCOL,
            OM_PROTOCOL_VERSION,
            OM_METHOD,
            trace,
        ))
        .await;
    }

    /// The next reply, or nothing when the server has closed the connection.
    async fn reply(&mut self) -> Option<Response> {
        loop {
            if let Some(frame) = split_frame(&mut self.received, MAX).unwrap() {
                return Some(decode_response(frame).unwrap());
            }
            match self.stream.read_buf(&mut self.received).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    async fn answer(&mut self) -> (i32, OmResponse) {
        let reply = self.reply().await.expect("the connection is open");
        match reply.outcome {
            Outcome::Success(payload) => (reply.call_id, OmResponse::decode(payload).unwrap()),
            other => panic!("no answer: {other:?}"),
        }
    }
}

fn opening(user: &str, real: Option<&str>) -> BytesMut {
    opening_of_class(0, user, real)
}

fn opening_of_class(service_class: u8, user: &str, real: Option<&str>) -> BytesMut {
    let mut out = BytesMut::from(
        &Preamble {
            service_class,
            auth: AuthProtocol::None,
        }
        .encode()[..],
    );
    encode_context(CLIENT, OM_PROTOCOL, user, real, MAX, &mut out).unwrap();
    out
}

fn call(id: i32, protocol: &str, version: u64, method: &str, trace: &str) -> BytesMut {
    let request = OmRequest {
        cmd_type: Type::ServiceList.into(),
        trace_id: Some(trace.to_owned()),
        client_id: "test".to_owned(),
        ..OmRequest::default()
    };
    let target = RequestHeaderProto {
        method_name: method.to_owned(),
        declaring_class_protocol_name: protocol.to_owned(),
        client_protocol_version: version,
    };
    let identity = CallIdentity {
        client_id: CLIENT,
        call_id: id,
        retry_count: 0,
    };
    let mut out = BytesMut::new();
    encode_call(identity, &target, &request, MAX, &mut out).unwrap();
    out
}

#[tokio::test]
async fn answers_name_their_call_and_the_service_hears_who_calls() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, "alice").await;
    peer.call(7, "").await;
    let (id, response) = peer.answer().await;
    assert_eq!(id, 7);
    assert_eq!(response.message(), "alice b\"0123456789abcdef\" 7");
}

#[tokio::test]
async fn a_slow_call_does_not_hold_up_the_next() {
    let service = Echo::new();
    let served = serve(Arc::clone(&service), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, "alice").await;
    peer.call(1, "wait").await;
    peer.call(2, "").await;
    assert_eq!(peer.answer().await.0, 2);
    service.gate.add_permits(1);
    assert_eq!(peer.answer().await.0, 1);
}

#[tokio::test]
async fn calls_in_flight_are_bounded() {
    let service = Echo::new();
    let limits = RpcLimits {
        calls_per_connection: 2,
        ..RpcLimits::default()
    };
    let served = serve(Arc::clone(&service), limits).await;
    let mut peer = Peer::open(served.address, "alice").await;
    for id in 0..20 {
        peer.call(id, "wait").await;
    }
    service.gate.add_permits(20);
    for _ in 0..20 {
        peer.answer().await;
    }
    assert!(service.most.load(Ordering::SeqCst) <= 2);
}

#[tokio::test]
async fn pings_are_ignored() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, "alice").await;
    let mut ping = BytesMut::new();
    encode_ping(CLIENT, MAX, &mut ping).unwrap();
    peer.send(&ping).await;
    peer.call(1, "").await;
    assert_eq!(peer.answer().await.0, 1);
}

#[tokio::test]
async fn a_caller_without_a_user_is_refused() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, " ").await;
    let reply = peer.reply().await.expect("a refusal comes first");
    assert!(
        matches!(&reply.outcome, Outcome::Fatal(failure)
            if failure.code == Some(RpcErrorCodeProto::FatalUnauthorized) && failure.message.contains("no user")),
        "{reply:?}"
    );
    assert!(peer.reply().await.is_none());
}

#[tokio::test]
async fn impersonation_is_refused() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = Peer::connect(served.address).await;
    peer.send(&opening("alice", Some("mallory"))).await;
    let reply = peer.reply().await.expect("a refusal comes first");
    assert!(
        matches!(&reply.outcome, Outcome::Fatal(failure)
            if failure.code == Some(RpcErrorCodeProto::FatalUnauthorized) && failure.message.contains("mallory")),
        "{reply:?}"
    );
    assert!(peer.reply().await.is_none());
}

#[tokio::test]
async fn unknown_targets_are_errors_and_the_connection_goes_on() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, "alice").await;
    for (target, code, class) in [
        (
            ("org.example.Nothing", 1, OM_METHOD),
            RpcErrorCodeProto::ErrorNoSuchProtocol,
            "RpcNoSuchProtocolException",
        ),
        (
            (OM_PROTOCOL, 2, OM_METHOD),
            RpcErrorCodeProto::ErrorRpcVersionMismatch,
            "RPC$VersionMismatch",
        ),
        (
            (OM_PROTOCOL, 1, "shutdown"),
            RpcErrorCodeProto::ErrorNoSuchMethod,
            "RpcNoSuchMethodException",
        ),
    ] {
        let (protocol, version, method) = target;
        peer.send(&call(3, protocol, version, method, "")).await;
        let reply = peer.reply().await.expect("an error comes");
        assert_eq!(reply.call_id, 3);
        assert!(
            matches!(&reply.outcome, Outcome::Error(failure)
                if failure.code == Some(code) && failure.exception_class.ends_with(class)),
            "{reply:?}"
        );
    }
    peer.call(4, "").await;
    assert_eq!(peer.answer().await.0, 4);
}

#[tokio::test]
async fn garbage_closes_its_connection_and_no_other() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut other = Peer::open(served.address, "alice").await;
    let mut inputs: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x16, 3, 1, 2, 0, 1, 0],
        b"hello, server".to_vec(),
        b"hrpc\x08\x00\x00".to_vec(),
        b"hrpc\x09\x00\xdf".to_vec(),
        b"POST /nothing HTTP/1.1\r\n\r\n".to_vec(),
    ];
    for frame in [
        &b"\0\0\0\0"[..],
        b"\xff\xff\xff\xff",
        b"\0\0\0\x05\xff\xff\xff\xff\xff",
        b"\0\0\0\x01\x00",
    ] {
        let mut input = opening("alice", None).to_vec();
        input.extend_from_slice(frame);
        inputs.push(input);
    }
    for input in inputs {
        let mut peer = Peer::connect(served.address).await;
        peer.send(&input).await;
        // Whatever is said first, the end comes.
        let mut rest = Vec::new();
        let _ = peer.stream.read_to_end(&mut rest).await;
    }
    other.call(1, "").await;
    assert_eq!(other.answer().await.0, 1);
}

#[tokio::test]
async fn a_frame_over_the_limit_closes_the_connection() {
    let limits = RpcLimits {
        frame_bytes: 4 << 10,
        ..RpcLimits::default()
    };
    let served = serve(Echo::new(), limits).await;
    let mut peer = Peer::open(served.address, "alice").await;
    peer.call(1, &"x".repeat(3 << 10)).await;
    assert_eq!(peer.answer().await.0, 1);
    peer.call(2, &"x".repeat(5 << 10)).await;
    assert!(peer.reply().await.is_none());
}

#[tokio::test]
async fn a_peer_that_stops_within_a_frame_is_given_up() {
    let limits = RpcLimits {
        frame: Duration::from_millis(20),
        opening: Duration::from_millis(20),
        ..RpcLimits::default()
    };
    let served = serve(Echo::new(), limits).await;
    let mut silent = Peer::connect(served.address).await;
    let mut half = Peer::connect(served.address).await;
    half.send(b"hrp").await;
    let mut within = Peer::open(served.address, "alice").await;
    within.send(b"\0\0\x10\0partial").await;
    for peer in [&mut silent, &mut half, &mut within] {
        assert!(peer.reply().await.is_none());
    }
}

#[tokio::test]
async fn an_undecodable_request_is_an_error_and_the_connection_goes_on() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, "alice").await;
    let whole = call(5, OM_PROTOCOL, OM_PROTOCOL_VERSION, OM_METHOD, "uvw");
    let mut bent = whole.to_vec();
    // The trace id's text becomes something that is not UTF-8.
    let at = bent.windows(3).position(|window| window == b"uvw").unwrap();
    bent[at] = 0xff;
    peer.send(&bent).await;
    let reply = peer.reply().await.expect("an error comes");
    assert!(matches!(&reply.outcome, Outcome::Error(failure)
        if failure.exception_class.ends_with("InvalidProtocolBufferException")));
    peer.call(6, "").await;
    assert_eq!(peer.answer().await.0, 6);
}

#[tokio::test]
async fn come_again_is_ozones_exception_and_an_unknown_outcome_cuts_the_connection() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, "alice").await;
    peer.call(1, "later").await;
    let reply = peer.reply().await.expect("an error comes");
    assert!(matches!(&reply.outcome, Outcome::Error(failure)
        if failure.exception_class == "org.apache.hadoop.ozone.om.exceptions.OMLeaderNotReadyException"
            && failure.first_line() == "come again"));
    peer.call(2, "unknown").await;
    assert!(peer.reply().await.is_none());
}

#[tokio::test]
async fn a_panic_ends_its_connection_only() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, "alice").await;
    peer.call(1, "panic").await;
    assert!(peer.reply().await.is_none());
    let mut next = Peer::open(served.address, "alice").await;
    next.call(1, "").await;
    assert_eq!(next.answer().await.0, 1);
}

#[tokio::test]
async fn grpc_is_served_on_the_same_port() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", served.address)).unwrap();
    let mut client = OzoneManagerServiceClient::new(endpoint.connect().await.unwrap());
    let mut request = OmRequest {
        cmd_type: Type::ServiceList.into(),
        ..OmRequest::default()
    };
    let refused = client.submit_request(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    request.user_info = Some(UserInfo {
        user_name: Some("bob".to_owned()),
        ..UserInfo::default()
    });
    let response = client
        .submit_request(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(response.message(), "bob");
    request.trace_id = Some("later".to_owned());
    let later = client.submit_request(request.clone()).await.unwrap_err();
    assert_eq!(later.code(), tonic::Code::Internal);
    assert!(
        later
            .message()
            .starts_with("org.apache.hadoop.ozone.om.exceptions.OMLeaderNotReadyException: ")
    );
    request.trace_id = Some("unknown".to_owned());
    let unknown = client.submit_request(request).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::Unavailable);
}

#[tokio::test]
async fn stopping_answers_the_calls_in_flight() {
    let service = Echo::new();
    let served = serve(Arc::clone(&service), RpcLimits::default()).await;
    let mut peer = Peer::open(served.address, "alice").await;
    peer.call(1, "wait").await;
    while service.running.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    served.stop.cancel();
    service.gate.add_permits(1);
    assert_eq!(peer.answer().await.0, 1);
    assert!(peer.reply().await.is_none());
    served.listener.await.unwrap();
}

#[tokio::test]
async fn a_peer_that_takes_no_replies_is_given_up() {
    const CALLS: i32 = 64;
    let limits = RpcLimits {
        write: Duration::from_millis(20),
        ..RpcLimits::default()
    };
    let served = serve(Echo::new(), limits).await;
    let mut peer = Peer::open(served.address, "alice").await;
    // Each is echoed, and all echoes together are more than any socket holds.
    let trace = "x".repeat(512 << 10);
    for id in 0..CALLS {
        let asked = call(id, OM_PROTOCOL, OM_PROTOCOL_VERSION, OM_METHOD, &trace);
        if peer.stream.write_all(&asked).await.is_err() {
            break;
        }
    }
    let mut replies = 0;
    while peer.stream.read_buf(&mut peer.received).await.unwrap_or(0) > 0 {
        while split_frame(&mut peer.received, MAX).unwrap().is_some() {
            replies += 1;
        }
    }
    assert!(replies < CALLS, "every reply was written");
    let mut next = Peer::open(served.address, "alice").await;
    next.call(1, "").await;
    assert_eq!(next.answer().await.0, 1);
}
