//! gRPC: the OM's service beside what else is served on the port, such as the embedded datanode.

use super::{Caller, MAX_FRAME_BYTES, MAX_USER_BYTES, Raise, RpcLimits, Service};
use append_wire::om::ozone_manager_service_server::{
    OzoneManagerService, OzoneManagerServiceServer,
};
use append_wire::om::{OmRequest, OmResponse};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tonic::{Request, Response, Status};

/// Bytes that one stream may send ahead: bulk data of the embedded datanode goes over the same port.
const STREAM_WINDOW: u32 = 4 << 20;
/// Bytes that one connection may send ahead.
const CONNECTION_WINDOW: u32 = 8 << 20;
/// Bytes of one HTTP/2 frame.
const HTTP2_FRAME: u32 = 256 << 10;
/// A silent peer is asked for life this often, and given up after as long without an answer.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The OM's service over gRPC.
struct OmGrpc {
    service: Arc<dyn Service>,
}

/// Routes that serve `service`; the caller adds what else its port serves.
#[must_use]
pub fn grpc_routes(service: Arc<dyn Service>) -> Routes {
    Routes::new(
        OzoneManagerServiceServer::new(OmGrpc { service })
            .max_decoding_message_size(MAX_FRAME_BYTES)
            .max_encoding_message_size(MAX_FRAME_BYTES),
    )
}

#[tonic::async_trait]
impl OzoneManagerService for OmGrpc {
    async fn submit_request(
        &self,
        request: Request<OmRequest>,
    ) -> Result<Response<OmResponse>, Status> {
        let address = request.remote_addr();
        let request = request.into_inner();
        let user = request
            .user_info
            .as_ref()
            .and_then(|info| info.user_name.as_deref())
            .map(str::trim)
            .unwrap_or_default();
        if user.is_empty() || user.len() > MAX_USER_BYTES {
            return Err(Status::unauthenticated(
                "OMRequest.userInfo.userName must name the user of the call",
            ));
        }
        let caller = Caller {
            user: user.to_owned(),
            address,
            identity: None,
        };
        match self.service.submit(caller, request).await {
            Ok(response) => Ok(Response::new(response)),
            Err(Raise::NotLeader(message)) => Err(Status::internal(format!(
                "org.apache.hadoop.ozone.om.exceptions.OMNotLeaderException: {message}"
            ))),
            Err(Raise::NotReady(message)) => Err(Status::internal(format!(
                "org.apache.hadoop.ozone.om.exceptions.OMLeaderNotReadyException: {message}"
            ))),
            Err(Raise::Disconnect(reason)) => Err(Status::unavailable(reason)),
        }
    }
}

/// Serves `routes` on the connections that come until `stop`.
pub(crate) async fn serve(
    routes: Routes,
    connections: mpsc::Receiver<Connection>,
    limits: RpcLimits,
    stop: CancellationToken,
) {
    let incoming = ReceiverStream::new(connections).map(Ok::<_, io::Error>);
    let served = Server::builder()
        .concurrency_limit_per_connection(limits.calls_per_connection)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(HTTP2_FRAME)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::warn!(%error, "the gRPC server failed");
    }
}

/// A connection with its place among the allowed ones.
pub(crate) struct Connection {
    stream: TcpStream,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, slot: OwnedSemaphorePermit) -> Connection {
        Connection {
            stream,
            _slot: slot,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
