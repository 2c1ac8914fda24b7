//! The listeners: Hadoop RPC and gRPC on one port. Knows frames and callers, not what a request means: requests go to a [`Service`].
//!
//! A connection that breaks the rules of its protocol is closed, and others do not notice. Nothing here waits without a bound: the
//! first bytes, a frame, a reply that is not read each have a deadline, and calls in flight, bytes of a frame and connections have
//! limits ([`RpcLimits`]).

mod connection;
mod frames;
mod grpc;
mod lane;
mod listener;
mod waiting;
mod writer;

#[cfg(test)]
mod tests;

pub use grpc::grpc_routes;
pub use listener::{Listener, serve_grpc_only};

use append_namespace::command::Invocation;
use append_wire::om::{OmRequest, OmResponse};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

/// The largest frame and message that any configuration may allow, bytes. Ozone's own limit.
pub const MAX_FRAME_BYTES: usize = 128 << 20;

/// Users with longer names are refused, bytes.
pub(crate) const MAX_USER_BYTES: usize = 1024;

/// Who asks, as the transport knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user's name; never empty.
    pub user: String,
    /// Where the call comes from; absent when the transport does not say.
    pub address: Option<SocketAddr>,
    /// The retry identity that the transport gives the call. gRPC gives none.
    pub identity: Option<Invocation>,
}

/// A call that got no answer of the service: the caller may send it again, here or elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Raise {
    /// Another server leads; nothing was done. The text is Ozone's, from which clients take the leader.
    #[error("{0}")]
    NotLeader(String),
    /// Nothing was done. Ozone's clients and ours wait and send the call again.
    #[error("{0}")]
    NotReady(String),
    /// Whether anything was done is not known. The connection is lost, so that the caller asks again with the same identity.
    #[error("{0}")]
    Disconnect(String),
}

/// The answer of a [`Service`], when it comes.
pub type Submitted<'a> = Pin<Box<dyn Future<Output = Result<OmResponse, Raise>> + Send + 'a>>;

/// What serves requests, from any thread and any number at once.
pub trait Service: Send + Sync + 'static {
    /// Serves one request. Refusals are answers: only what a caller must send again is a [`Raise`].
    fn submit(&self, caller: Caller, request: OmRequest) -> Submitted<'_>;

    /// About how many bytes the answer to `request` may have, as far as the request tells: so much room there must be before it is
    /// served.
    fn answer_bytes(&self, _request: &OmRequest) -> usize {
        SMALL_ANSWER_BYTES
    }
}

/// What an answer about one thing has at most, usually.
pub(crate) const SMALL_ANSWER_BYTES: usize = 8 << 10;

/// Bounds of the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcLimits {
    /// Bytes of one frame or message at most; at most [`MAX_FRAME_BYTES`].
    pub frame_bytes: usize,
    /// Calls of one connection in flight; further ones wait unread.
    pub calls_per_connection: usize,
    /// Connections at once; further ones wait in the system's queue.
    pub connections: usize,
    /// Bytes of large frames (see [`LARGE_FRAME_BYTES`]) that all connections together hold.
    pub large_frames_bytes: usize,
    /// Bytes of replies that one connection may have waiting, or being made; one that is larger goes alone.
    pub replies_bytes_per_connection: usize,
    /// Bytes of large replies (see [`LARGE_FRAME_BYTES`]) that all connections together have waiting, or being made.
    pub large_replies_bytes: usize,
    /// Time for the first bytes of a connection.
    pub opening: Duration,
    /// Time for a frame, from its first byte to its last.
    pub frame: Duration,
    /// Time in which a peer must take at least some bytes of the replies that wait for it.
    pub write: Duration,
}

/// Frames from this size on share [`RpcLimits::large_frames_bytes`].
pub const LARGE_FRAME_BYTES: usize = 1 << 20;

impl Default for RpcLimits {
    /// 64 MiB a frame, 256 calls a connection, 8,192 connections, 512 MiB of large frames, 32 MiB of replies a connection, 512 MiB of
    /// large replies; 10 s to open, 60 s a frame, 60 s to take a reply.
    fn default() -> RpcLimits {
        RpcLimits {
            frame_bytes: 64 << 20,
            calls_per_connection: 256,
            connections: 8_192,
            large_frames_bytes: 512 << 20,
            replies_bytes_per_connection: 32 << 20,
            large_replies_bytes: 512 << 20,
            opening: Duration::from_secs(10),
            frame: Duration::from_secs(60),
            write: Duration::from_secs(60),
        }
    }
}
