//! An OM over Hadoop RPC that does what a test tells it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use append_wire::hrpc::{
    Call, CallIdentity, ClientFrame, Failure, PREAMBLE_LEN, decode_client_frame, encode_failure,
    encode_success, split_frame,
};
use append_wire::om::ozone_manager_service_server::{
    OzoneManagerService, OzoneManagerServiceServer,
};
use append_wire::om::{
    AppendFeature, OmRequest, OmResponse, ServiceInfo, ServiceListResponse, Status, Type,
};
use bytes::BytesMut;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;

use crate::config::address::Node;

const MAX: usize = 1 << 20;

/// What the server does with one call.
pub(crate) enum Reply {
    Answer(Box<OmResponse>),
    Exception(&'static str, String),
    /// Bytes that are no frame.
    Garbage,
    /// The connection ends without an answer.
    Close,
    /// No answer, and the connection stays.
    Nothing,
}

pub(crate) fn ok() -> Reply {
    Reply::Answer(Box::new(OmResponse {
        status: Status::Ok.into(),
        ..OmResponse::default()
    }))
}

/// What the server saw of a call other than ServiceList.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) call: CallIdentity,
    pub(crate) request: OmRequest,
}

pub(crate) struct FakeOm {
    address: SocketAddr,
    pub(crate) seen: mpsc::UnboundedReceiver<Seen>,
    task: tokio::task::JoinHandle<()>,
}

impl FakeOm {
    /// `script` is asked with the number of the call, counted over all connections.
    pub(crate) async fn numbered(
        script: impl Fn(usize) -> Reply + Send + Sync + 'static,
    ) -> FakeOm {
        let count = AtomicUsize::new(0);
        FakeOm::start(move |_| script(count.fetch_add(1, Ordering::SeqCst))).await
    }

    /// `script` is asked with each request but ServiceList. The server advertises appending.
    pub(crate) async fn start(
        script: impl Fn(&OmRequest) -> Reply + Send + Sync + 'static,
    ) -> FakeOm {
        FakeOm::with(true, script).await
    }

    /// As [`FakeOm::start`], of a server that may not know appending, as Ozone's do not.
    pub(crate) async fn with(
        appends: bool,
        script: impl Fn(&OmRequest) -> Reply + Send + Sync + 'static,
    ) -> FakeOm {
        FakeOm::listen(appends, 0, script).await
    }

    /// Says yes to everything, but nothing at all on its first connection once that is made.
    pub(crate) async fn mute_first() -> FakeOm {
        FakeOm::listen(true, 1, |_| ok()).await
    }

    /// As [`FakeOm::numbered`], over gRPC.
    pub(crate) async fn grpc(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> FakeOm {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = mpsc::unbounded_channel();
        let service = Grpc {
            script: Box::new(script),
            count: AtomicUsize::new(0),
            seen: sender,
        };
        let task = tokio::spawn(async move {
            tonic::transport::Server::builder()
                .add_service(OzoneManagerServiceServer::new(service))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .unwrap();
        });
        FakeOm {
            address,
            seen,
            task,
        }
    }

    async fn listen(
        appends: bool,
        mute: usize,
        script: impl Fn(&OmRequest) -> Reply + Send + Sync + 'static,
    ) -> FakeOm {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = mpsc::unbounded_channel();
        let script = Arc::new(script);
        let task = tokio::spawn(async move {
            let mut connections = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let (script, sender) = (Arc::clone(&script), sender.clone());
                let speaks = connections >= mute;
                connections += 1;
                tokio::spawn(async move {
                    if speaks {
                        serve(stream, appends, &*script, &sender).await;
                    } else {
                        serve(stream, appends, &|_: &OmRequest| Reply::Nothing, &sender).await;
                    }
                });
            }
        });
        FakeOm {
            address,
            seen,
            task,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn node(&self, id: &str) -> Node {
        Node {
            id: id.to_owned(),
            host: self.address.ip().to_string(),
            port: self.address.port(),
        }
    }

    pub(crate) async fn next(&mut self) -> Seen {
        self.seen.recv().await.unwrap()
    }
}

impl Drop for FakeOm {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The same over gRPC, where a call has no identity but the request's own.
struct Grpc {
    script: Box<dyn Fn(usize) -> Reply + Send + Sync>,
    count: AtomicUsize,
    seen: mpsc::UnboundedSender<Seen>,
}

#[tonic::async_trait]
impl OzoneManagerService for Grpc {
    async fn submit_request(
        &self,
        request: tonic::Request<OmRequest>,
    ) -> Result<tonic::Response<OmResponse>, tonic::Status> {
        let request = request.into_inner();
        if request.cmd_type() == Type::ServiceList {
            return Ok(tonic::Response::new(service_list(true)));
        }
        let reply = (self.script)(self.count.fetch_add(1, Ordering::SeqCst));
        let call = CallIdentity {
            client_id: [0; 16],
            call_id: 0,
            retry_count: 0,
        };
        let _ = self.seen.send(Seen { call, request });
        match reply {
            Reply::Answer(response) => Ok(tonic::Response::new(*response)),
            Reply::Exception(class, message) => Err(tonic::Status::internal(format!(
                "org.apache.hadoop.ozone.om.exceptions.{class}: {message}"
            ))),
            Reply::Garbage | Reply::Close => Err(tonic::Status::unavailable("going")),
            Reply::Nothing => std::future::pending().await,
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    appends: bool,
    script: &(impl Fn(&OmRequest) -> Reply + Send + Sync),
    seen: &mpsc::UnboundedSender<Seen>,
) {
    let mut preamble = [0; PREAMBLE_LEN];
    if stream.read_exact(&mut preamble).await.is_err() {
        return;
    }
    let mut received = BytesMut::new();
    loop {
        let Some(frame) = split_frame(&mut received, MAX).unwrap() else {
            if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        };
        let ClientFrame::Call(Call {
            identity, payload, ..
        }) = decode_client_frame(frame).unwrap()
        else {
            continue;
        };
        let request = OmRequest::decode(payload).unwrap();
        let reply = if request.cmd_type() == Type::ServiceList {
            Reply::Answer(Box::new(service_list(appends)))
        } else {
            let reply = script(&request);
            let _ = seen.send(Seen {
                call: identity,
                request,
            });
            reply
        };
        let mut out = BytesMut::new();
        match reply {
            Reply::Answer(response) => {
                encode_success(identity, &*response, MAX, &mut out).unwrap();
            }
            Reply::Exception(class, message) => {
                let failure = Failure {
                    exception_class: format!("org.apache.hadoop.ozone.om.exceptions.{class}"),
                    message,
                    code: None,
                };
                encode_failure(identity.call_id, None, &failure, false, MAX, &mut out).unwrap();
            }
            Reply::Garbage => out.extend_from_slice(&[0xff; 12]),
            Reply::Close => return,
            Reply::Nothing => continue,
        }
        if stream.write_all(&out).await.is_err() {
            return;
        }
    }
}

fn service_list(appends: bool) -> OmResponse {
    OmResponse {
        status: Status::Ok.into(),
        service_list_response: Some(Box::new(ServiceListResponse {
            service_info: vec![ServiceInfo {
                node_type: append_wire::hdds::NodeType::Om.into(),
                om_version: Some(12),
                append: appends.then_some(AppendFeature {
                    supported: Some(true),
                    finalized: Some(true),
                    enabled: Some(true),
                    ..AppendFeature::default()
                }),
                ..ServiceInfo::default()
            }],
            ..ServiceListResponse::default()
        })),
        ..OmResponse::default()
    }
}
