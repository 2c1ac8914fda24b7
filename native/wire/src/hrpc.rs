//! Hadoop's RPC framing, IPC version 9, as functions over bytes. Client and server share them; sockets, deadlines and retries
//! are theirs.
//!
//! A connection begins with a [`Preamble`] from the client, and then carries frames: four bytes of length, most significant
//! first, and that many bytes of messages, each with its varint length before it.
//!
//! | frame | messages | written by | read by |
//! | --- | --- | --- | --- |
//! | connection context | request header, context | [`encode_context`] | [`decode_client_frame`] |
//! | ping | request header | [`encode_ping`] | [`decode_client_frame`] |
//! | call | request header, call header, payload | [`encode_call`] | [`decode_client_frame`] |
//! | answer | response header, payload if it succeeded | [`encode_success`], [`encode_failure`] | [`decode_response`] |
//!
//! Frames are cut from a connection's bytes by [`split_frame`], which knows the limit. Payloads stay undecoded slices of their
//! frame: [`decode_message`] reads them.

mod frame;
mod preamble;
mod request;
mod response;

pub use frame::{FrameError, decode_message, frame_length, split_delimited, split_frame};
pub use preamble::{AuthProtocol, MAGIC, PREAMBLE_LEN, Preamble, PreambleError};
pub use request::{
    Call, CallIdentity, ClientFrame, RejectedFrame, decode_client_frame, encode_call,
    encode_context, encode_ping,
};
pub use response::{Failure, Outcome, Response, decode_response, encode_failure, encode_success};

/// The version of the framing, in the preamble and in answers.
pub const IPC_VERSION: u8 = 9;

/// The name under which an OM serves its one method.
pub const OM_PROTOCOL: &str = "org.apache.hadoop.ozone.om.protocol.OzoneManagerProtocol";

/// The version of [`OM_PROTOCOL`].
pub const OM_PROTOCOL_VERSION: u64 = 1;

/// The one method of [`OM_PROTOCOL`]: `OMRequest` in, `OMResponse` out.
pub const OM_METHOD: &str = "submitRequest";

/// Bytes of an RPC client id.
pub const CLIENT_ID_LEN: usize = 16;

/// The service class by which our client says in the preamble that it makes one call after the other and waits for each. A hint, as
/// all service classes are: a server may give the connection a thread of its own.
pub const SINGLE_CALLS: u8 = 0x61;

/// The call id of an answer to a frame whose own call id could not be read.
pub const INVALID_CALL_ID: i32 = -2;

const CONTEXT_CALL_ID: i32 = -3;
const PING_CALL_ID: i32 = -4;

/// The retry count of frames that are no calls.
const NO_RETRY_COUNT: i32 = -1;

#[cfg(test)]
mod tests;
