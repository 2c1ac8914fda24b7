//! What a server sends. What a failure means to the caller, and whether it goes to another server, is decided elsewhere.

use bytes::{Bytes, BytesMut};
use prost::Message;

use super::frame::{FrameError, expect_end, split_delimited, take_message, write_frame};
use super::request::CallIdentity;
use super::{IPC_VERSION, NO_RETRY_COUNT};
use crate::common::RpcResponseHeaderProto;
use crate::common::rpc_response_header_proto::{RpcErrorCodeProto, RpcStatusProto};

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The call that is answered. Answers come in any order.
    pub call_id: i32,
    /// The client that is answered, if the server says so: 16 bytes.
    pub client_id: Option<Bytes>,
    /// How it went.
    pub outcome: Outcome,
}

/// How a call went at the level of RPC.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The payload without its length: an `OMResponse` if the call was to the OM. Its own status may still be an error.
    Success(Bytes),
    /// The call failed; the connection goes on.
    Error(Failure),
    /// The server closes the connection.
    Fatal(Failure),
}

/// An exception of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The Java class of the exception.
    pub exception_class: String,
    /// The message; from a Java server the whole stack trace, whose first line is the message.
    pub message: String,
    /// The kind. `None` if the server named none, or one that nobody knows.
    pub code: Option<RpcErrorCodeProto>,
}

impl Failure {
    /// The message without the stack trace behind it.
    #[must_use]
    pub fn first_line(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }
}

/// Reads a server's frame.
///
/// # Errors
///
/// [`FrameError`]. The connection is of no use then.
pub fn decode_response(mut frame: Bytes) -> Result<Response, FrameError> {
    let header: RpcResponseHeaderProto = take_message(&mut frame, "RpcResponseHeaderProto")?;
    let outcome = match header.status() {
        RpcStatusProto::Success => Outcome::Success(split_delimited(&mut frame, "payload")?),
        RpcStatusProto::Error => Outcome::Error(failure(&header)),
        RpcStatusProto::Fatal => Outcome::Fatal(failure(&header)),
    };
    expect_end(&frame)?;
    Ok(Response {
        call_id: header.call_id.cast_signed(),
        client_id: header.client_id,
        outcome,
    })
}

fn failure(header: &RpcResponseHeaderProto) -> Failure {
    Failure {
        exception_class: header.exception_class_name().to_owned(),
        message: header.error_msg().to_owned(),
        code: header
            .error_detail
            .and_then(|code| RpcErrorCodeProto::try_from(code).ok()),
    }
}

/// Appends the answer of a call that succeeded at the level of RPC.
///
/// # Errors
///
/// [`FrameError::TooLarge`] if the frame is longer than `max` bytes; `out` is unchanged then, and the call is still to be
/// answered.
pub fn encode_success<M: Message>(
    identity: CallIdentity,
    payload: &M,
    max: usize,
    out: &mut BytesMut,
) -> Result<(), FrameError> {
    let header = RpcResponseHeaderProto {
        client_id: Some(Bytes::copy_from_slice(&identity.client_id)),
        retry_count: Some(identity.retry_count),
        ..header(identity.call_id, RpcStatusProto::Success)
    };
    write_frame(&[&header, payload], max, out)
}

/// Appends the answer of a call that failed. With `fatal` the server must close the connection behind it.
///
/// `call_id` is that of the call, or of the [`RejectedFrame`](super::RejectedFrame). The caller's identity is repeated if it
/// is known.
///
/// # Errors
///
/// [`FrameError::TooLarge`] if the frame is longer than `max` bytes; `out` is unchanged then.
pub fn encode_failure(
    call_id: i32,
    identity: Option<CallIdentity>,
    failure: &Failure,
    fatal: bool,
    max: usize,
    out: &mut BytesMut,
) -> Result<(), FrameError> {
    let status = if fatal {
        RpcStatusProto::Fatal
    } else {
        RpcStatusProto::Error
    };
    let header = RpcResponseHeaderProto {
        exception_class_name: Some(failure.exception_class.clone()),
        error_msg: Some(failure.message.clone()),
        error_detail: failure.code.map(i32::from),
        client_id: identity.map(|identity| Bytes::copy_from_slice(&identity.client_id)),
        retry_count: Some(identity.map_or(NO_RETRY_COUNT, |identity| identity.retry_count)),
        ..header(call_id, status)
    };
    write_frame(&[&header], max, out)
}

fn header(call_id: i32, status: RpcStatusProto) -> RpcResponseHeaderProto {
    RpcResponseHeaderProto {
        call_id: call_id.cast_unsigned(),
        status: status.into(),
        server_ipc_version_num: Some(u32::from(IPC_VERSION)),
        ..RpcResponseHeaderProto::default()
    }
}
