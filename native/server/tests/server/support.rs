//! A server of a test's own and the two ways to speak to it.

use append_server::{Options, Running, Server};
use append_wire::common::RequestHeaderProto;
use append_wire::hrpc::{
    AuthProtocol, CallIdentity, OM_METHOD, OM_PROTOCOL, OM_PROTOCOL_VERSION, Outcome, Preamble,
    decode_response, encode_call, encode_context, split_frame,
};
use append_wire::invocation::InvocationId;
use append_wire::om::ozone_manager_service_client::OzoneManagerServiceClient;
use append_wire::om::{
    BucketInfo, BucketLayoutProto, CreateBucketRequest, CreateVolumeRequest, KeyArgs, OmRequest,
    OmResponse, Status, Type, UserInfo, VolumeInfo,
};
use bytes::BytesMut;
use prost::Message;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

pub(crate) const USER: &str = "alice";
pub(crate) const VOLUME: &str = "vol1";
pub(crate) const BUCKET: &str = "fso";

const MAX: usize = 128 << 20;

/// A server and its folder.
pub(crate) struct Served {
    pub(crate) running: Option<Running>,
    pub(crate) folder: TempDir,
}

/// Options whose fatal errors fail the test instead of ending its process.
pub(crate) fn options(folder: &TempDir) -> Options {
    let mut options = Options::any_port(folder.path().join("data"));
    options.consensus.on_fatal = Arc::new(|reason| panic!("fatal: {reason}"));
    options
}

impl Served {
    pub(crate) async fn start() -> Served {
        Served::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Options)) -> Served {
        let folder = TempDir::new().unwrap();
        let mut options = options(&folder);
        change(&mut options);
        let running = Server::start(options).await.unwrap();
        Served {
            running: Some(running),
            folder,
        }
    }

    /// A server with a volume and a bucket of each layout: fso, legacy, obs.
    pub(crate) async fn with_buckets() -> (Served, Rpc) {
        let served = Served::start().await;
        let mut rpc = served.rpc().await;
        rpc.make_buckets().await;
        (served, rpc)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.as_ref().unwrap().rpc_addr()
    }

    pub(crate) async fn rpc(&self) -> Rpc {
        Rpc::open(self.address(), USER).await
    }

    pub(crate) async fn restart(&mut self) {
        self.running.take().unwrap().shutdown().await;
        self.running = Some(Server::start(options(&self.folder)).await.unwrap());
    }
}

/// One request, its payload set by `fill`.
pub(crate) fn request(command: Type, fill: impl FnOnce(&mut OmRequest)) -> OmRequest {
    let mut request = OmRequest {
        cmd_type: command.into(),
        client_id: "test-client".to_owned(),
        version: Some(3),
        ..OmRequest::default()
    };
    fill(&mut request);
    request
}

pub(crate) fn key_in(bucket: &str, key: &str) -> KeyArgs {
    KeyArgs {
        volume_name: VOLUME.to_owned(),
        bucket_name: bucket.to_owned(),
        key_name: key.to_owned(),
        ..KeyArgs::default()
    }
}

pub(crate) fn key(name: &str) -> KeyArgs {
    key_in(BUCKET, name)
}

/// Gives a request the identity of our own client.
pub(crate) fn invoked(mut request: OmRequest) -> OmRequest {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let sequence = NEXT.fetch_add(1, Ordering::Relaxed);
    request.invocation_id = Some(
        InvocationId {
            client: *b"testtest",
            sequence,
        }
        .into(),
    );
    request
}

/// A connection of Hadoop RPC, one call at a time.
pub(crate) struct Rpc {
    stream: TcpStream,
    received: BytesMut,
    client: [u8; 16],
    next: i32,
}

impl Rpc {
    pub(crate) async fn open(address: SocketAddr, user: &str) -> Rpc {
        static CLIENTS: AtomicU64 = AtomicU64::new(1);
        let mut client = [7; 16];
        client[..8].copy_from_slice(&CLIENTS.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        let mut out = BytesMut::from(
            &Preamble {
                service_class: 0,
                auth: AuthProtocol::None,
            }
            .encode()[..],
        );
        encode_context(client, OM_PROTOCOL, user, None, MAX, &mut out).unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&out).await.unwrap();
        Rpc {
            stream,
            received: BytesMut::new(),
            client,
            next: 0,
        }
    }

    /// The same request as a further call.
    pub(crate) async fn outcome(&mut self, request: &OmRequest) -> Outcome {
        let call = self.next;
        self.next += 1;
        self.resend(call, request).await
    }

    /// The request as the call that it was before.
    pub(crate) async fn resend(&mut self, call_id: i32, request: &OmRequest) -> Outcome {
        let target = RequestHeaderProto {
            method_name: OM_METHOD.to_owned(),
            declaring_class_protocol_name: OM_PROTOCOL.to_owned(),
            client_protocol_version: OM_PROTOCOL_VERSION,
        };
        let identity = CallIdentity {
            client_id: self.client,
            call_id,
            retry_count: 0,
        };
        let mut out = BytesMut::new();
        encode_call(identity, &target, request, MAX, &mut out).unwrap();
        self.stream.write_all(&out).await.unwrap();
        loop {
            if let Some(frame) = split_frame(&mut self.received, MAX).unwrap() {
                let response = decode_response(frame).unwrap();
                assert_eq!(response.call_id, call_id);
                return response.outcome;
            }
            assert_ne!(
                self.stream.read_buf(&mut self.received).await.unwrap(),
                0,
                "the connection ended"
            );
        }
    }

    pub(crate) async fn submit(&mut self, request: &OmRequest) -> OmResponse {
        match self.outcome(request).await {
            Outcome::Success(payload) => OmResponse::decode(payload).unwrap(),
            other => panic!("no answer: {other:?}"),
        }
    }

    /// The answer of a command that must succeed.
    pub(crate) async fn ok(
        &mut self,
        command: Type,
        fill: impl FnOnce(&mut OmRequest),
    ) -> OmResponse {
        let response = self.submit(&request(command, fill)).await;
        assert_eq!(
            response.status(),
            Status::Ok,
            "{command:?}: {}",
            response.message()
        );
        assert!(response.success());
        assert_eq!(response.cmd_type(), command);
        response
    }

    /// The answer of a command that must be refused.
    pub(crate) async fn refused(
        &mut self,
        status: Status,
        command: Type,
        fill: impl FnOnce(&mut OmRequest),
    ) -> OmResponse {
        let response = self.submit(&request(command, fill)).await;
        assert_eq!(
            response.status(),
            status,
            "{command:?}: {}",
            response.message()
        );
        assert!(!response.success());
        assert!(
            response.message().contains("[request "),
            "no request id in {:?}",
            response.message()
        );
        response
    }

    pub(crate) async fn make_buckets(&mut self) {
        self.ok(Type::CreateVolume, |r| {
            r.create_volume_request = Some(Box::new(volume(VOLUME)))
        })
        .await;
        for (name, layout) in [
            (BUCKET, BucketLayoutProto::FileSystemOptimized),
            ("legacy", BucketLayoutProto::Legacy),
            ("obs", BucketLayoutProto::ObjectStore),
        ] {
            self.ok(Type::CreateBucket, |r| {
                r.create_bucket_request = Some(Box::new(bucket(name, layout)))
            })
            .await;
        }
    }
}

pub(crate) fn volume(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        volume_info: VolumeInfo {
            admin_name: USER.to_owned(),
            owner_name: USER.to_owned(),
            volume: name.to_owned(),
            ..VolumeInfo::default()
        },
    }
}

pub(crate) fn bucket(name: &str, layout: BucketLayoutProto) -> CreateBucketRequest {
    CreateBucketRequest {
        bucket_info: BucketInfo {
            volume_name: VOLUME.to_owned(),
            bucket_name: name.to_owned(),
            bucket_layout: Some(layout.into()),
            ..BucketInfo::default()
        },
    }
}

/// The OM over gRPC.
pub(crate) async fn grpc(address: SocketAddr) -> OzoneManagerServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    OzoneManagerServiceClient::new(endpoint.connect().await.unwrap())
}

pub(crate) fn as_user(mut request: OmRequest) -> OmRequest {
    request.user_info = Some(UserInfo {
        user_name: Some(USER.to_owned()),
        ..UserInfo::default()
    });
    request
}
