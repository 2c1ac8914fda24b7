//! The framed way to a datanode of this project: the container messages of its gRPC service, for small writes that each wait for their
//! answer, without what HTTP/2 costs.
//!
//! ```text
//! client   HELLO, and when the datanode has said the same, requests:
//!          length u32, most significant byte first | ContainerCommandRequestProto
//! datanode HELLO, then to each request in turn
//!          length u32 | ContainerCommandResponseProto
//! ```
//!
//! A datanode that has no place for a connection closes it instead of saying [`HELLO`]. `DatanodeDetailsProto` 2001 tells that a datanode
//! knows this way, on the port of its gRPC service; nobody needs it. Frames are read by [`crate::hrpc::split_frame`].

use bytes::{BufMut, BytesMut};
use prost::Message;

use crate::hrpc::FrameError;

/// How both sides begin; the last byte is the version. The first tells it from Hadoop RPC, gRPC and TLS.
pub const HELLO: [u8; 8] = *b"blocks\0\x01";

/// Bytes of a frame at most, its length not counted: this way is for small writes.
pub const MAX_FRAME: usize = 1 << 20;

/// Appends a frame of `message` to `out`, or leaves `out` as it is.
///
/// # Errors
///
/// [`FrameError::TooLarge`] above [`MAX_FRAME`].
pub fn write_frame<M: Message>(message: &M, out: &mut BytesMut) -> Result<(), FrameError> {
    let len = message.encoded_len();
    let too_large = FrameError::TooLarge {
        len,
        max: MAX_FRAME,
    };
    let prefix = match u32::try_from(len) {
        Ok(prefix) if len <= MAX_FRAME => prefix,
        _ => return Err(too_large),
    };
    let start = out.len();
    out.reserve(4 + len);
    out.put_u32(prefix);
    if message.encode(out).is_err() {
        out.truncate(start);
        return Err(too_large);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datanode::ContainerCommandRequestProto;
    use crate::hrpc::{decode_message, split_frame};

    #[test]
    fn a_frame_comes_back_and_a_large_one_is_not_made() {
        let request = ContainerCommandRequestProto {
            datanode_uuid: "a datanode".to_owned(),
            ..ContainerCommandRequestProto::default()
        };
        let mut out = BytesMut::new();
        write_frame(&request, &mut out).unwrap();
        let frame = split_frame(&mut out, MAX_FRAME).unwrap().unwrap();
        let read: ContainerCommandRequestProto = decode_message(frame, "request").unwrap();
        assert_eq!(read, request);
        assert!(out.is_empty());
        let large = ContainerCommandRequestProto {
            datanode_uuid: "x".repeat(MAX_FRAME),
            ..ContainerCommandRequestProto::default()
        };
        assert!(matches!(
            write_frame(&large, &mut out),
            Err(FrameError::TooLarge { max: MAX_FRAME, .. })
        ));
        assert!(out.is_empty());
    }
}
