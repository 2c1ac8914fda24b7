//! Frames and the messages in them, whatever they mean. Nothing here allocates by a length that a peer claims.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::{DecodeError, EncodeError, Message, decode_length_delimiter, length_delimiter_len};

use crate::common::rpc_response_header_proto::RpcErrorCodeProto;

/// Bytes of a frame's length.
const LENGTH_LEN: usize = 4;

/// Memory that a claimed length may ask for before any of its bytes arrived.
const MAX_EARLY_RESERVE: usize = 64 * 1024;

/// Why bytes are no frame, or may not become one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A length of zero or below.
    #[error("a frame of length {0}")]
    Length(i32),
    /// Longer than the reader or the writer allows.
    #[error("a frame of {len} bytes, at most {max} are allowed")]
    TooLarge {
        /// Bytes of the frame, its length field not counted.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// A message says that it is longer than what is left of its frame.
    #[error("{what}: {len} bytes claimed, {left} left in the frame")]
    Truncated {
        /// The message.
        what: &'static str,
        /// Its length as it says.
        len: usize,
        /// What is left.
        left: usize,
    },
    /// A message that is not valid protobuf, or a length before it that is none.
    #[error("{what}: {source}")]
    Decode {
        /// The message.
        what: &'static str,
        /// What protobuf says.
        source: DecodeError,
    },
    /// Bytes behind the last message of a frame.
    #[error("{0} bytes too many in the frame")]
    Trailing(usize),
    /// A header that is valid protobuf but no header.
    #[error("invalid RPC header: {0}")]
    Header(&'static str),
    /// A control frame that is not spoken here; -33 is SASL.
    #[error("unexpected control frame {0}")]
    Control(i32),
}

impl FrameError {
    /// The code by which a server refuses a client's frame. All of them end the connection.
    #[must_use]
    pub fn fatal_code(&self) -> RpcErrorCodeProto {
        match self {
            Self::Header(_) | Self::Control(_) => RpcErrorCodeProto::FatalInvalidRpcHeader,
            Self::Truncated { .. } | Self::Decode { .. } | Self::Trailing(_) => {
                RpcErrorCodeProto::FatalDeserializingRequest
            }
            Self::Length(_) | Self::TooLarge { .. } => RpcErrorCodeProto::FatalUnknown,
        }
    }
}

/// The length of the frame behind these four bytes.
///
/// # Errors
///
/// [`FrameError::Length`] if it is not positive, [`FrameError::TooLarge`] if it is above `max` bytes.
pub fn frame_length(prefix: [u8; LENGTH_LEN], max: usize) -> Result<usize, FrameError> {
    let signed = i32::from_be_bytes(prefix);
    match usize::try_from(signed) {
        Ok(0) | Err(_) => Err(FrameError::Length(signed)),
        Ok(len) if len > max => Err(FrameError::TooLarge { len, max }),
        Ok(len) => Ok(len),
    }
}

/// Cuts the first frame from what a connection has delivered; `None` if it is not complete yet. The frame comes without its
/// length.
///
/// While a frame is incomplete, room is made in `received` for at most as many bytes as have arrived already, or 64 KiB.
///
/// # Errors
///
/// Those of [`frame_length`]. The connection is of no use then.
pub fn split_frame(received: &mut BytesMut, max: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(prefix) = received.first_chunk() else {
        return Ok(None);
    };
    let end = LENGTH_LEN.saturating_add(frame_length(*prefix, max)?);
    if received.len() < end {
        let missing = end - received.len();
        received.reserve(missing.min(MAX_EARLY_RESERVE.max(received.len())));
        return Ok(None);
    }
    let mut frame = received.split_to(end).freeze();
    frame.advance(LENGTH_LEN);
    Ok(Some(frame))
}

/// Cuts the next message, without its length, from a frame. `what` names it in errors.
///
/// # Errors
///
/// [`FrameError::Decode`] if there is no length, [`FrameError::Truncated`] if the message is longer than the frame.
pub fn split_delimited(frame: &mut Bytes, what: &'static str) -> Result<Bytes, FrameError> {
    let len = decode_length_delimiter(&mut *frame)
        .map_err(|source| FrameError::Decode { what, source })?;
    if len > frame.len() {
        return Err(FrameError::Truncated {
            what,
            len,
            left: frame.len(),
        });
    }
    Ok(frame.split_to(len))
}

/// Reads a payload. Its `bytes` fields are slices of it, not copies. `what` names it in errors.
///
/// # Errors
///
/// [`FrameError::Decode`].
pub fn decode_message<M: Message + Default>(
    payload: Bytes,
    what: &'static str,
) -> Result<M, FrameError> {
    M::decode(payload).map_err(|source| FrameError::Decode { what, source })
}

/// Reads the next message of a frame.
pub(super) fn take_message<M: Message + Default>(
    frame: &mut Bytes,
    what: &'static str,
) -> Result<M, FrameError> {
    decode_message(split_delimited(frame, what)?, what)
}

pub(super) fn expect_end(frame: &Bytes) -> Result<(), FrameError> {
    match frame.len() {
        0 => Ok(()),
        left => Err(FrameError::Trailing(left)),
    }
}

/// A message of any type, to be written behind its length.
pub(super) trait Part {
    fn delimited_len(&self) -> usize;
    fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError>;
}

impl<M: Message> Part for M {
    fn delimited_len(&self) -> usize {
        let len = self.encoded_len();
        length_delimiter_len(len).saturating_add(len)
    }

    fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.encode_length_delimited(out)
    }
}

/// Appends a frame of `parts` to `out`, or leaves `out` as it is.
pub(super) fn write_frame(
    parts: &[&dyn Part],
    max: usize,
    out: &mut BytesMut,
) -> Result<(), FrameError> {
    let len = parts.iter().fold(0_usize, |sum, part| {
        sum.saturating_add(part.delimited_len())
    });
    let too_large = FrameError::TooLarge { len, max };
    let prefix = match i32::try_from(len) {
        Ok(prefix) if len <= max => prefix,
        _ => return Err(too_large),
    };
    let start = out.len();
    out.reserve(LENGTH_LEN.saturating_add(len));
    out.put_i32(prefix);
    for part in parts {
        if part.write(out).is_err() {
            out.truncate(start);
            return Err(too_large);
        }
    }
    Ok(())
}
