//! Accepts connections, tells by their first byte what they speak, and hands them on.

use super::connection::{self, Shared};
use super::{RpcLimits, Service};
use super::{grpc, lane};
use append_datanode::Lines;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

/// Pause after a failed accept, so that running out of file handles does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that wait for the gRPC server.
const GRPC_BACKLOG: usize = 64;

/// The port that serves Hadoop RPC and gRPC.
pub struct Listener {
    socket: TcpListener,
    service: Arc<dyn Service>,
    routes: Routes,
    limits: RpcLimits,
    lines: Option<Lines>,
}

/// What the first byte of a connection promises. The protocol's own reader checks the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    HadoopRpc,
    Grpc,
    Tls,
    Unknown(u8),
}

impl Spoken {
    fn by(first: u8) -> Spoken {
        match first {
            b'h' => Spoken::HadoopRpc,
            b'P' => Spoken::Grpc,
            0x16 => Spoken::Tls,
            other => Spoken::Unknown(other),
        }
    }
}

impl Listener {
    /// A listener on `socket` that gives requests of Hadoop RPC to `service` and serves `routes` over gRPC.
    pub fn new(
        socket: TcpListener,
        service: Arc<dyn Service>,
        routes: Routes,
        limits: RpcLimits,
    ) -> Listener {
        Listener {
            socket,
            service,
            routes,
            limits,
            lines: None,
        }
    }

    /// As before, and serves the framed way to a datanode.
    #[must_use]
    pub fn with_lines(mut self, lines: Lines) -> Listener {
        self.lines = Some(lines);
        self
    }

    /// Serves until `stop`; then takes no new call, and returns when the calls in flight are answered.
    pub async fn serve(self, stop: CancellationToken) {
        let (to_grpc, grpc_connections) = mpsc::channel(GRPC_BACKLOG);
        let grpc = tokio::spawn(grpc::serve(
            self.routes,
            grpc_connections,
            self.limits,
            stop.clone(),
        ));
        let shared = Arc::new(Shared::new(self.service, self.limits, stop.clone()));
        let slots = Arc::new(Semaphore::new(self.limits.connections));
        let tasks = TaskTracker::new();
        while let Some((stream, peer, slot)) = accept(&self.socket, &slots, &stop).await {
            tasks.spawn(hand_on(
                Accepted { stream, peer, slot },
                Arc::clone(&shared),
                to_grpc.clone(),
                self.lines.clone(),
            ));
        }
        drop(to_grpc);
        tasks.close();
        tasks.wait().await;
        if let Err(error) = grpc.await {
            tracing::warn!(%error, "the gRPC server ended");
        }
    }
}

/// Serves `routes` on `socket` until `stop`: the second listener, for clients that know a gRPC port only.
pub async fn serve_grpc_only(
    socket: TcpListener,
    routes: Routes,
    limits: RpcLimits,
    stop: CancellationToken,
) {
    let (to_grpc, connections) = mpsc::channel(GRPC_BACKLOG);
    let server = tokio::spawn(grpc::serve(routes, connections, limits, stop.clone()));
    let slots = Arc::new(Semaphore::new(limits.connections));
    while let Some((stream, _, slot)) = accept(&socket, &slots, &stop).await {
        if to_grpc
            .send(grpc::Connection::new(stream, slot))
            .await
            .is_err()
        {
            break;
        }
    }
    drop(to_grpc);
    if let Err(error) = server.await {
        tracing::warn!(%error, "the gRPC server ended");
    }
}

/// The next connection with its place among the allowed ones; nothing once `stop` is set.
async fn accept(
    socket: &TcpListener,
    slots: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    loop {
        let next = async {
            let slot = Arc::clone(slots).acquire_owned().await.ok()?;
            Some((socket.accept().await, slot))
        };
        let (accepted, slot) = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            next = next => next?,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%peer, %error, "no delay could not be set");
                }
                return Some((stream, peer, slot));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
}

async fn hand_on(
    accepted: Accepted,
    shared: Arc<Shared>,
    to_grpc: mpsc::Sender<grpc::Connection>,
    lines: Option<Lines>,
) {
    let Accepted { stream, peer, slot } = accepted;
    let looked = tokio::select! {
        () = shared.stop.cancelled() => return,
        looked = timeout(shared.limits.opening, first_byte(&stream)) => looked,
    };
    let first = match looked {
        Ok(Ok(Some(first))) => first,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a connection broke before its first byte");
            return;
        }
        Err(_) => {
            tracing::info!(%peer, "a connection said nothing in time and is closed");
            return;
        }
    };
    if let Some(lines) = lines.filter(|_| Lines::begins_with(first)) {
        lines
            .serve(stream, shared.stop.clone().cancelled_owned())
            .await;
        drop(slot);
        return;
    }
    match Spoken::by(first) {
        Spoken::HadoopRpc => {
            match lane::place_for(&stream, &shared).await {
                Some(place) => lane::serve(stream, peer, shared, place).await,
                None => connection::serve(stream, peer, shared).await,
            }
            drop(slot);
        }
        Spoken::Grpc => {
            // The receiver is gone only when the server stops.
            let _ = to_grpc.send(grpc::Connection::new(stream, slot)).await;
        }
        Spoken::Tls => {
            tracing::warn!(%peer, "a TLS connection is refused: this server speaks plain text");
        }
        Spoken::Unknown(byte) => {
            tracing::info!(%peer, first = byte, "a connection that speaks neither Hadoop RPC nor gRPC is closed");
        }
    }
}

async fn first_byte(stream: &TcpStream) -> io::Result<Option<u8>> {
    let mut first = [0; 1];
    let read = stream.peek(&mut first).await?;
    Ok((read == 1).then_some(first[0]))
}
