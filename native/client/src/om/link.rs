//! The two ways to one OM server, and what one attempt came to.

use append_wire::hrpc::{CLIENT_ID_LEN, CallIdentity, Outcome, decode_message};
use append_wire::om::ozone_manager_service_client::OzoneManagerServiceClient;
use append_wire::om::{OmRequest, OmResponse};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};

use super::classify::{self, Exception, Hint};
use super::connection::{self, CallError, Connection};
use crate::config::address::Node;
use crate::config::{Settings, Transport};
use crate::error::{Error, ErrorKind};

/// What one attempt at a call came to.
#[derive(Debug)]
pub(super) enum Attempt {
    Answer(Box<OmResponse>),
    NotLeader(Option<Hint>),
    NotReady(String),
    Refused(Error),
    Unreachable {
        why: String,
        /// The request may have reached the server.
        maybe_sent: bool,
    },
}

impl From<Exception> for Attempt {
    fn from(exception: Exception) -> Attempt {
        match exception {
            Exception::NotLeader(hint) => Attempt::NotLeader(hint),
            Exception::NotReady(why) => Attempt::NotReady(why),
            Exception::Refused(error) => Attempt::Refused(error),
        }
    }
}

/// How links are made.
#[derive(Debug)]
pub(super) struct Opening {
    transport: Transport,
    rpc: connection::Opening,
}

impl Opening {
    pub(super) fn new(client_id: [u8; CLIENT_ID_LEN], user: &str, settings: &Settings) -> Opening {
        Opening {
            transport: settings.transport,
            rpc: connection::Opening {
                client_id,
                user: user.to_owned(),
                connect_timeout: settings.connect_timeout,
                ping_interval: settings.ping_interval,
                max_frame: settings.max_response,
            },
        }
    }

    pub(super) fn user(&self) -> &str {
        &self.rpc.user
    }

    pub(super) fn client_id(&self) -> [u8; CLIENT_ID_LEN] {
        self.rpc.client_id
    }

    /// How a direct connection is made, where the transport has them.
    pub(super) fn direct(&self) -> Option<&connection::Opening> {
        (self.transport == Transport::HadoopRpc).then_some(&self.rpc)
    }

    /// The transport itself tells a resend from a new call.
    pub(super) fn has_retry_identity(&self) -> bool {
        self.transport == Transport::HadoopRpc
    }
}

/// A way to a server that was open a moment ago.
#[derive(Debug)]
pub(super) enum Link {
    Rpc(Connection),
    Grpc(OzoneManagerServiceClient<Channel>),
}

impl Link {
    /// Must run on the shared runtime.
    pub(super) async fn open(node: &Node, opening: &Opening) -> Result<Link, String> {
        match opening.transport {
            Transport::HadoopRpc => Connection::open(&node.host, node.port, &opening.rpc)
                .await
                .map(Link::Rpc),
            Transport::Grpc => grpc(node, &opening.rpc).await.map(Link::Grpc),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        match self {
            Link::Rpc(connection) => connection.is_open(),
            // A channel connects again by itself.
            Link::Grpc(_) => true,
        }
    }

    pub(super) async fn attempt(&self, identity: CallIdentity, request: &OmRequest) -> Attempt {
        match self {
            Link::Rpc(connection) => rpc_attempt(connection.call(identity, request).await),
            Link::Grpc(client) => grpc_attempt(client.clone(), request.clone()).await,
        }
    }
}

/// What a call over Hadoop RPC came to.
pub(super) fn rpc_attempt(outcome: Result<Outcome, CallError>) -> Attempt {
    match outcome {
        Ok(Outcome::Success(payload)) => match decode_message(payload, "OMResponse") {
            Ok(response) => Attempt::Answer(Box::new(response)),
            Err(e) => Attempt::Unreachable {
                why: format!("a malformed answer: {e}"),
                maybe_sent: true,
            },
        },
        Ok(Outcome::Error(failure) | Outcome::Fatal(failure)) => classify::failure(&failure).into(),
        Err(CallError::Unsendable(why)) => {
            Attempt::Refused(Error::new(ErrorKind::InvalidArgument, why))
        }
        Err(CallError::NotSent(why)) => Attempt::Unreachable {
            why,
            maybe_sent: false,
        },
        Err(CallError::Lost(why)) => Attempt::Unreachable {
            why,
            maybe_sent: true,
        },
    }
}

async fn grpc(
    node: &Node,
    opening: &connection::Opening,
) -> Result<OzoneManagerServiceClient<Channel>, String> {
    let host = if node.host.contains(':') {
        format!("[{}]", node.host)
    } else {
        node.host.clone()
    };
    let channel = Endpoint::from_shared(format!("http://{host}:{}", node.port))
        .map_err(|e| e.to_string())?
        .connect_timeout(opening.connect_timeout)
        .tcp_nodelay(true)
        .connect()
        .await
        .map_err(|e| with_cause(&e))?;
    Ok(OzoneManagerServiceClient::new(channel)
        .max_decoding_message_size(opening.max_frame)
        .max_encoding_message_size(opening.max_frame))
}

/// An error of the transport says what happened only in its source.
fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

async fn grpc_attempt(
    mut client: OzoneManagerServiceClient<Channel>,
    request: OmRequest,
) -> Attempt {
    let mut call = tonic::Request::new(request);
    // Without both Ozone takes the call for its own process's.
    for key in ["client_hostname", "client_ip_address"] {
        call.metadata_mut()
            .insert(key, MetadataValue::from_static("127.0.0.1"));
    }
    match client.submit_request(call).await {
        Ok(response) => Attempt::Answer(Box::new(response.into_inner())),
        Err(status) => failed(&status),
    }
}

/// A call over gRPC that ended in a status.
fn failed(status: &tonic::Status) -> Attempt {
    // Made on this side of a connection that broke, whatever its code: a server's own word has no source.
    if std::error::Error::source(status).is_some() {
        return Attempt::Unreachable {
            why: with_cause(status),
            maybe_sent: true,
        };
    }
    match status.code() {
        tonic::Code::Internal => classify::description(status.message()).into(),
        tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => {
            Attempt::Refused(Error::new(ErrorKind::PermissionDenied, status.message()))
        }
        tonic::Code::Unimplemented
        | tonic::Code::InvalidArgument
        | tonic::Code::ResourceExhausted
        | tonic::Code::DataLoss
        | tonic::Code::OutOfRange => {
            Attempt::Refused(Error::new(ErrorKind::Protocol, status.message()))
        }
        _ => Attempt::Unreachable {
            why: with_cause(status),
            maybe_sent: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_connection_is_no_answer_whatever_its_code() {
        let mut broken = tonic::Status::internal("h2 protocol error: error reading a body");
        broken.set_source(std::sync::Arc::new(std::io::Error::other("reset")));
        assert!(matches!(
            failed(&broken),
            Attempt::Unreachable {
                maybe_sent: true,
                ..
            }
        ));
        let told = tonic::Status::internal("java.io.IOException: no");
        assert!(matches!(failed(&told), Attempt::Refused(_)));
    }
}
