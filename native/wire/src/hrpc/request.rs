//! What a client sends behind the preamble. Whether a caller may do what it asks is not looked at here.

use bytes::{Bytes, BytesMut};
use prost::Message;

use super::frame::{FrameError, expect_end, split_delimited, take_message, write_frame};
use super::{CLIENT_ID_LEN, CONTEXT_CALL_ID, INVALID_CALL_ID, NO_RETRY_COUNT, PING_CALL_ID};
use crate::common::rpc_request_header_proto::OperationProto;
use crate::common::{
    IpcConnectionContextProto, RequestHeaderProto, RpcKindProto, RpcRequestHeaderProto,
    UserInformationProto,
};

/// What makes a call the same call when it is sent again, and what an answer repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallIdentity {
    /// The client instance.
    pub client_id: [u8; CLIENT_ID_LEN],
    /// The call; not negative.
    pub call_id: i32,
    /// How often the call was sent before.
    pub retry_count: i32,
}

/// A call, its payload still encoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Who asks, and which call it is.
    pub identity: CallIdentity,
    /// What is called: protocol, its version, and method.
    pub target: RequestHeaderProto,
    /// The payload without its length: an `OMRequest` if the target is the OM's method.
    pub payload: Bytes,
}

/// A frame from a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientFrame {
    /// Says once, before all calls, who the caller is. It has no answer.
    Context(IpcConnectionContextProto),
    /// Keeps the connection. It has no answer.
    Ping,
    /// Asks for an answer.
    Call(Call),
}

/// A client's frame that cannot be served. It ends the connection, after a fatal answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call {call_id}: {error}")]
pub struct RejectedFrame {
    /// The call id for the answer; [`INVALID_CALL_ID`] if the frame's own could not be read.
    pub call_id: i32,
    /// What is wrong.
    #[source]
    pub error: FrameError,
}

/// Reads a client's frame.
///
/// A call without a client id of sixteen bytes is refused: without it a resend could not be told from a new call.
///
/// # Errors
///
/// [`RejectedFrame`]; a SASL frame among them, since no negotiation is spoken here.
pub fn decode_client_frame(mut frame: Bytes) -> Result<ClientFrame, RejectedFrame> {
    let header: RpcRequestHeaderProto =
        take_message(&mut frame, "RpcRequestHeaderProto").map_err(|error| RejectedFrame {
            call_id: INVALID_CALL_ID,
            error,
        })?;
    decode_body(&header, frame).map_err(|error| RejectedFrame {
        call_id: header.call_id,
        error,
    })
}

fn decode_body(
    header: &RpcRequestHeaderProto,
    mut frame: Bytes,
) -> Result<ClientFrame, FrameError> {
    let kind = header.rpc_kind.map(RpcKindProto::try_from);
    if kind != Some(Ok(RpcKindProto::RpcProtocolBuffer)) {
        return Err(FrameError::Header("the kind is not protocol buffers"));
    }
    let operation = header.rpc_op.map(OperationProto::try_from);
    if operation != Some(Ok(OperationProto::RpcFinalPacket)) {
        return Err(FrameError::Header("the operation is not a final packet"));
    }
    let body = match header.call_id {
        CONTEXT_CALL_ID => {
            ClientFrame::Context(take_message(&mut frame, "IpcConnectionContextProto")?)
        }
        PING_CALL_ID => ClientFrame::Ping,
        call_id if call_id < 0 => return Err(FrameError::Control(call_id)),
        call_id => ClientFrame::Call(Call {
            identity: CallIdentity {
                client_id: client_id(&header.client_id)?,
                call_id,
                retry_count: header.retry_count(),
            },
            target: take_message(&mut frame, "RequestHeaderProto")?,
            payload: split_delimited(&mut frame, "payload")?,
        }),
    };
    expect_end(&frame)?;
    Ok(body)
}

fn client_id(bytes: &[u8]) -> Result<[u8; CLIENT_ID_LEN], FrameError> {
    bytes
        .try_into()
        .map_err(|_| FrameError::Header("the client id does not have 16 bytes"))
}

/// Appends the frame that says who the caller is. `real_user` is set if `user` is impersonated.
///
/// # Errors
///
/// [`FrameError::TooLarge`] if the frame is longer than `max` bytes; `out` is unchanged then.
pub fn encode_context(
    client_id: [u8; CLIENT_ID_LEN],
    protocol: &str,
    user: &str,
    real_user: Option<&str>,
    max: usize,
    out: &mut BytesMut,
) -> Result<(), FrameError> {
    let context = IpcConnectionContextProto {
        user_info: Some(UserInformationProto {
            effective_user: Some(user.to_owned()),
            real_user: real_user.map(str::to_owned),
        }),
        protocol: Some(protocol.to_owned()),
    };
    let header = header(client_id, CONTEXT_CALL_ID, NO_RETRY_COUNT);
    write_frame(&[&header, &context], max, out)
}

/// Appends a ping.
///
/// # Errors
///
/// [`FrameError::TooLarge`] if `max` is below the few bytes of a ping; `out` is unchanged then.
pub fn encode_ping(
    client_id: [u8; CLIENT_ID_LEN],
    max: usize,
    out: &mut BytesMut,
) -> Result<(), FrameError> {
    let header = header(client_id, PING_CALL_ID, NO_RETRY_COUNT);
    write_frame(&[&header], max, out)
}

/// Appends a call.
///
/// # Errors
///
/// [`FrameError::Control`] if the call id is negative, [`FrameError::TooLarge`] if the frame is longer than `max` bytes; `out`
/// is unchanged then.
pub fn encode_call<M: Message>(
    identity: CallIdentity,
    target: &RequestHeaderProto,
    payload: &M,
    max: usize,
    out: &mut BytesMut,
) -> Result<(), FrameError> {
    if identity.call_id < 0 {
        return Err(FrameError::Control(identity.call_id));
    }
    let header = header(identity.client_id, identity.call_id, identity.retry_count);
    write_frame(&[&header, target, payload], max, out)
}

fn header(client_id: [u8; CLIENT_ID_LEN], call_id: i32, retry_count: i32) -> RpcRequestHeaderProto {
    RpcRequestHeaderProto {
        rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
        rpc_op: Some(OperationProto::RpcFinalPacket.into()),
        call_id,
        client_id: Bytes::copy_from_slice(&client_id),
        retry_count: Some(retry_count),
        state_id: None,
    }
}
