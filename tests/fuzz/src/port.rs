//! The OM's port under any bytes: raw ones, Hadoop RPC frames behind a good opening, one good call around any payload, HTTP/2 behind its
//! preface. The server answers or closes; it neither hangs nor panics, and serves others.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use append_wire::common::rpc_request_header_proto::OperationProto;
use append_wire::common::{RequestHeaderProto, RpcKindProto, RpcRequestHeaderProto};
use append_wire::hrpc::{
    OM_METHOD, OM_PROTOCOL, OM_PROTOCOL_VERSION, Outcome, decode_response, split_frame,
};
use append_wire::om::{OmResponse, Status};
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use crate::frames::{CLIENT, MAX, call, opening};
use crate::server::{ENV, PATIENCE, requests};

/// Sends, says that nothing more comes, and reads until the server closes.
fn exchange(bytes: &[u8]) -> BytesMut {
    let mut stream = TcpStream::connect(ENV.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut received = Vec::new();
    // A server that has heard enough closes without reading the rest.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    if let Err(error) = stream.read_to_end(&mut received) {
        let kind = error.kind();
        assert!(
            !matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut),
            "the server neither answers nor closes"
        );
    }
    BytesMut::from(&received[..])
}

/// The frame of a call around any payload.
fn call_around(id: i32, payload: &[u8]) -> BytesMut {
    let header = RpcRequestHeaderProto {
        rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
        rpc_op: Some(OperationProto::RpcFinalPacket.into()),
        call_id: id,
        client_id: Bytes::copy_from_slice(&CLIENT),
        retry_count: Some(0),
        ..RpcRequestHeaderProto::default()
    };
    let target = RequestHeaderProto {
        method_name: OM_METHOD.to_owned(),
        declaring_class_protocol_name: OM_PROTOCOL.to_owned(),
        client_protocol_version: OM_PROTOCOL_VERSION,
    };
    let mut body = header.encode_length_delimited_to_vec();
    body.extend(target.encode_length_delimited_to_vec());
    prost::encode_length_delimiter(payload.len(), &mut body).unwrap();
    body.extend_from_slice(payload);
    let mut frame = BytesMut::new();
    frame.put_u32(u32::try_from(body.len()).unwrap());
    frame.put_slice(&body);
    frame
}

/// One call is one answer, whatever its payload is.
fn one_call(id: i32, payload: &[u8]) {
    let mut bytes = opening();
    bytes.extend_from_slice(&call_around(id, payload));
    let mut received = exchange(&bytes);
    let frame = split_frame(&mut received, MAX)
        .expect("an answer")
        .expect("a whole answer");
    let answer = decode_response(frame).expect("an answer that decodes");
    assert_eq!(answer.call_id, id);
    if let Outcome::Success(payload) = answer.outcome {
        let response = OmResponse::decode(payload).unwrap();
        assert_ne!(
            response.status(),
            Status::InternalError,
            "{}",
            response.message()
        );
    }
    assert!(received.is_empty(), "more than one answer");
}

pub(crate) fn fuzz(data: &[u8]) {
    let (mode, rest) = data.split_first().unwrap_or((&0, &[]));
    let rest = &rest[..rest.len().min(MAX / 2)];
    match mode % 4 {
        0 => {
            exchange(rest);
        }
        1 => {
            let mut bytes = opening();
            bytes.extend_from_slice(rest);
            exchange(&bytes);
        }
        2 => one_call(1, rest),
        _ => {
            let mut bytes = BytesMut::from(&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]);
            bytes.extend_from_slice(rest);
            exchange(&bytes);
        }
    }
    ENV.check();
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let with = |mode: u8, bytes: &[u8]| [&[mode], bytes].concat();
    let mut found = vec![
        with(0, b"GET / HTTP/1.1\r\n\r\n"),
        with(0, &[0x16, 3, 1, 2, 0, 1, 0]),
        with(0, b"hrpc\x08\x00\x00"),
        with(0, b"hrpc\x09\x00\xdf"),
        with(0, &opening()),
        with(1, b"\0\0\0\0"),
        with(1, b"\xff\xff\xff\xff"),
        with(1, b"\0\x0f\xff\xff"),
        // SETTINGS, PING, a stream of HEADERS without a header, WINDOW_UPDATE of nothing, RST_STREAM, GOAWAY, CONTINUATION.
        with(3, &[0, 0, 0, 4, 0, 0, 0, 0, 0]),
        with(3, &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        with(
            3,
            &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 5, 0, 0, 0, 1, 0x82],
        ),
        with(3, &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        with(3, &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8]),
        with(3, &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        with(3, &[0, 0, 1, 9, 4, 0, 0, 0, 1, 0x82]),
    ];
    for (id, request) in (1..).zip(requests()) {
        found.push(with(1, &call(id, &request)));
        found.push(with(2, &request.encode_to_vec()));
    }
    found
}
