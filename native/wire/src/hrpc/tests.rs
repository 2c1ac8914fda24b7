use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::common::rpc_response_header_proto::RpcErrorCodeProto;
use crate::common::{RequestHeaderProto, RpcRequestHeaderProto, RpcResponseHeaderProto};
use crate::om::{OmRequest, OmResponse, Status, Type};

const MAX: usize = 1 << 20;
const CLIENT_ID: [u8; CLIENT_ID_LEN] = *b"0123456789abcdef";
const IDENTITY: CallIdentity = CallIdentity {
    client_id: CLIENT_ID,
    call_id: 7,
    retry_count: 2,
};

fn target() -> RequestHeaderProto {
    RequestHeaderProto {
        method_name: OM_METHOD.to_owned(),
        declaring_class_protocol_name: OM_PROTOCOL.to_owned(),
        client_protocol_version: OM_PROTOCOL_VERSION,
    }
}

fn request() -> OmRequest {
    OmRequest {
        cmd_type: Type::ServiceList.into(),
        client_id: "client-1".to_owned(),
        ..OmRequest::default()
    }
}

/// The only frame in `bytes`.
fn one_frame(mut bytes: BytesMut) -> Bytes {
    let frame = split_frame(&mut bytes, MAX).unwrap().unwrap();
    assert!(bytes.is_empty());
    frame
}

/// A client's frame with any header and any bytes behind it.
fn raw_frame(header: &RpcRequestHeaderProto, body: &[u8]) -> Bytes {
    let mut frame = header.encode_length_delimited_to_vec();
    frame.extend_from_slice(body);
    frame.into()
}

fn request_header(call_id: i32) -> RpcRequestHeaderProto {
    RpcRequestHeaderProto {
        rpc_kind: Some(2),
        rpc_op: Some(0),
        call_id,
        client_id: Bytes::from_static(&CLIENT_ID),
        retry_count: Some(0),
        state_id: None,
    }
}

#[test]
fn the_preamble_is_what_hadoop_sends() {
    let simple = Preamble {
        service_class: 0,
        auth: AuthProtocol::None,
    };
    assert_eq!(&simple.encode(), b"hrpc\x09\x00\x00");
    assert_eq!(Preamble::parse(b"hrpc\x09\x00\x00"), Ok(simple));
    assert_eq!(
        Preamble::parse(b"hrpc\x09\x05\xdf"),
        Ok(Preamble {
            service_class: 5,
            auth: AuthProtocol::Sasl,
        })
    );
}

#[test]
fn a_wrong_preamble_is_refused_by_its_first_wrong_byte() {
    assert_eq!(
        Preamble::parse(b"GET / H"),
        Err(PreambleError::Magic(*b"GET "))
    );
    assert_eq!(
        Preamble::parse(b"hrpc\x08\x00\x00"),
        Err(PreambleError::Version(8))
    );
    assert_eq!(
        Preamble::parse(b"hrpc\x09\x00\x01"),
        Err(PreambleError::Auth(1))
    );
}

#[test]
fn the_connection_context_is_what_hadoop_sends() {
    let mut out = BytesMut::new();
    encode_context(CLIENT_ID, "P", "hadoop", None, MAX, &mut out).unwrap();

    let mut expected = vec![0, 0, 0, 41];
    expected.extend_from_slice(&[26, 0x08, 2, 0x10, 0, 0x18, 5, 0x22, 16]);
    expected.extend_from_slice(&CLIENT_ID);
    expected.extend_from_slice(&[0x28, 1]);
    expected.extend_from_slice(b"\x0d\x12\x08\x0a\x06hadoop\x1a\x01P");
    assert_eq!(out, expected);

    let ClientFrame::Context(context) = decode_client_frame(one_frame(out)).unwrap() else {
        panic!("not a context");
    };
    assert_eq!(context.protocol(), "P");
    assert_eq!(context.user_info.unwrap().effective_user(), "hadoop");
}

#[test]
fn a_ping_is_told_from_a_call() {
    let mut out = BytesMut::new();
    encode_ping(CLIENT_ID, MAX, &mut out).unwrap();
    assert_eq!(decode_client_frame(one_frame(out)), Ok(ClientFrame::Ping));
}

#[test]
fn a_call_comes_back_as_it_was_sent() {
    let mut out = BytesMut::new();
    encode_call(IDENTITY, &target(), &request(), MAX, &mut out).unwrap();
    let ClientFrame::Call(call) = decode_client_frame(one_frame(out)).unwrap() else {
        panic!("not a call");
    };
    assert_eq!(call.identity, IDENTITY);
    assert_eq!(call.target, target());
    assert_eq!(
        decode_message::<OmRequest>(call.payload, "OMRequest"),
        Ok(request())
    );
}

#[test]
fn answers_come_back_as_they_were_sent() {
    let payload = OmResponse {
        cmd_type: Type::ServiceList.into(),
        status: Status::Ok.into(),
        ..OmResponse::default()
    };
    let mut out = BytesMut::new();
    encode_success(IDENTITY, &payload, MAX, &mut out).unwrap();
    let answer = decode_response(one_frame(out)).unwrap();
    assert_eq!(answer.call_id, IDENTITY.call_id);
    assert_eq!(answer.client_id.as_deref(), Some(CLIENT_ID.as_slice()));
    let Outcome::Success(bytes) = answer.outcome else {
        panic!("not a success");
    };
    assert_eq!(decode_message(bytes, "OMResponse"), Ok(payload));

    let failure = Failure {
        exception_class: "org.apache.hadoop.ozone.om.exceptions.OMNotLeaderException".to_owned(),
        message: "OM:a is not the leader.\n\tat Somewhere".to_owned(),
        code: Some(RpcErrorCodeProto::ErrorApplication),
    };
    assert_eq!(failure.first_line(), "OM:a is not the leader.");
    for fatal in [false, true] {
        let mut out = BytesMut::new();
        encode_failure(-2, None, &failure, fatal, MAX, &mut out).unwrap();
        let answer = decode_response(one_frame(out)).unwrap();
        assert_eq!(answer.call_id, -2);
        let expected = if fatal {
            Outcome::Fatal(failure.clone())
        } else {
            Outcome::Error(failure.clone())
        };
        assert_eq!(answer.outcome, expected);
    }
}

#[test]
fn an_answer_without_a_status_is_no_success() {
    // Field 1, callId, alone.
    let frame = Bytes::from_static(&[2, 0x08, 7]);
    assert!(matches!(
        decode_response(frame).unwrap().outcome,
        Outcome::Fatal(_)
    ));
    // Status 9 is none.
    let frame = Bytes::from_static(&[4, 0x08, 7, 0x10, 9]);
    assert!(matches!(
        decode_response(frame).unwrap().outcome,
        Outcome::Fatal(_)
    ));
}

#[test]
fn bytes_behind_the_last_message_are_an_error() {
    let mut success = RpcResponseHeaderProto {
        call_id: 7,
        status: 0,
        ..RpcResponseHeaderProto::default()
    }
    .encode_length_delimited_to_vec();
    success.extend_from_slice(&[1, 0xff, 0xee, 0xdd]);
    assert_eq!(
        decode_response(success.into()),
        Err(FrameError::Trailing(2))
    );
    assert_eq!(
        decode_client_frame(raw_frame(&request_header(PING_CALL_ID), &[0])),
        Err(RejectedFrame {
            call_id: PING_CALL_ID,
            error: FrameError::Trailing(1),
        })
    );
}

#[test]
fn headers_that_cannot_be_served_are_refused_under_their_call_id() {
    let rejected =
        |header: &RpcRequestHeaderProto| decode_client_frame(raw_frame(header, &[])).unwrap_err();

    let mut writable = request_header(7);
    writable.rpc_kind = Some(1);
    let mut kindless = request_header(7);
    kindless.rpc_kind = None;
    let mut continued = request_header(7);
    continued.rpc_op = Some(1);
    let mut anonymous = request_header(7);
    anonymous.client_id = Bytes::new();
    for header in [writable, kindless, continued, anonymous] {
        let rejection = rejected(&header);
        assert_eq!(rejection.call_id, 7);
        assert!(matches!(rejection.error, FrameError::Header(_)));
        assert_eq!(
            rejection.error.fatal_code(),
            RpcErrorCodeProto::FatalInvalidRpcHeader
        );
    }

    let sasl = rejected(&request_header(-33));
    assert_eq!(sasl.error, FrameError::Control(-33));
}

#[test]
fn a_payload_longer_than_its_frame_is_refused() {
    let mut body = target().encode_length_delimited_to_vec();
    body.extend_from_slice(&[100, 1, 2]);
    assert_eq!(
        decode_client_frame(raw_frame(&request_header(7), &body)),
        Err(RejectedFrame {
            call_id: 7,
            error: FrameError::Truncated {
                what: "payload",
                len: 100,
                left: 2,
            },
        })
    );
}

#[test]
fn lengths_are_checked_before_anything_is_kept() {
    assert_eq!(
        frame_length([0, 0, 1, 0], 255),
        Err(FrameError::TooLarge { len: 256, max: 255 })
    );
    assert_eq!(frame_length([0, 0, 1, 0], 256), Ok(256));
    assert_eq!(frame_length([0; 4], 256), Err(FrameError::Length(0)));
    assert_eq!(frame_length([0xff; 4], 256), Err(FrameError::Length(-1)));

    // Half of a gigabyte is claimed and ten bytes are there: the reader must not make room for what was claimed.
    let mut received = BytesMut::from(&[0x20, 0, 0, 0, 1, 2, 3, 4, 5, 6][..]);
    assert_eq!(split_frame(&mut received, 1 << 30), Ok(None));
    assert!(received.capacity() < 1 << 20);
}

#[test]
fn a_message_that_is_too_long_leaves_the_output_as_it_was() {
    let mut out = BytesMut::from("before");
    let echo = OmRequest {
        trace_id: Some("x".repeat(1000)),
        ..request()
    };
    let refused = encode_call(IDENTITY, &target(), &echo, 1000, &mut out);
    assert!(matches!(
        refused,
        Err(FrameError::TooLarge { max: 1000, .. })
    ));
    assert_eq!(out, "before");

    let control = CallIdentity {
        call_id: -4,
        ..IDENTITY
    };
    assert_eq!(
        encode_call(control, &target(), &echo, MAX, &mut out),
        Err(FrameError::Control(-4))
    );
    assert_eq!(out, "before");
}

#[test]
fn frames_are_cut_wherever_the_bytes_were_split() {
    let mut stream = BytesMut::new();
    encode_context(CLIENT_ID, OM_PROTOCOL, "u", Some("proxy"), MAX, &mut stream).unwrap();
    encode_ping(CLIENT_ID, MAX, &mut stream).unwrap();
    encode_call(IDENTITY, &target(), &request(), MAX, &mut stream).unwrap();

    let mut received = BytesMut::new();
    let mut frames = Vec::new();
    for byte in stream {
        received.put_u8(byte);
        if let Some(frame) = split_frame(&mut received, MAX).unwrap() {
            frames.push(decode_client_frame(frame).unwrap());
        }
    }
    assert!(received.is_empty());
    assert!(matches!(
        frames.as_slice(),
        [
            ClientFrame::Context(_),
            ClientFrame::Ping,
            ClientFrame::Call(_)
        ]
    ));
}

proptest! {
    #[test]
    fn calls_round_trip(
        client_id in any::<[u8; CLIENT_ID_LEN]>(),
        call_id in 0..=i32::MAX,
        retry_count in any::<i32>(),
        trace in ".{0,200}",
        invocation in prop::option::of(prop::collection::vec(any::<u8>(), 16)),
        answered_below in any::<Option<u64>>(),
    ) {
        let identity = CallIdentity { client_id, call_id, retry_count };
        let payload = OmRequest {
            trace_id: Some(trace),
            invocation_id: invocation.map(Bytes::from),
            answered_below,
            ..request()
        };
        let mut out = BytesMut::new();
        encode_call(identity, &target(), &payload, MAX, &mut out).unwrap();
        match decode_client_frame(one_frame(out)) {
            Ok(ClientFrame::Call(call)) => {
                prop_assert_eq!(call.identity, identity);
                prop_assert_eq!(decode_message(call.payload, "OMRequest"), Ok(payload));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn failures_round_trip(
        call_id in any::<i32>(),
        class in "[a-zA-Z.]{0,60}",
        message in ".{0,200}",
        fatal in any::<bool>(),
        known_caller in any::<bool>(),
    ) {
        let failure = Failure {
            exception_class: class,
            message,
            code: Some(RpcErrorCodeProto::ErrorRpcServer),
        };
        let mut out = BytesMut::new();
        let caller = known_caller.then_some(IDENTITY);
        encode_failure(call_id, caller, &failure, fatal, MAX, &mut out).unwrap();
        let answer = decode_response(one_frame(out)).unwrap();
        prop_assert_eq!(answer.call_id, call_id);
        prop_assert_eq!(answer.client_id.is_some(), known_caller);
        let outcome = if fatal { Outcome::Fatal(failure) } else { Outcome::Error(failure) };
        prop_assert_eq!(answer.outcome, outcome);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let frame = Bytes::from(bytes.clone());
        let _ = decode_client_frame(frame.clone());
        let _ = decode_response(frame.clone());
        let _ = decode_message::<OmRequest>(frame.clone(), "OMRequest");
        let _ = decode_message::<OmResponse>(frame, "OMResponse");
        let mut received = BytesMut::from(&bytes[..]);
        while let Ok(Some(frame)) = split_frame(&mut received, 100) {
            prop_assert!(frame.len() <= 100);
        }
        if let Some(preamble) = bytes.first_chunk() {
            let _ = Preamble::parse(preamble);
        }
    }

    /// A valid call with bytes changed gets deeper into the decoder than noise does.
    #[test]
    fn damaged_calls_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut out = BytesMut::new();
        encode_call(IDENTITY, &target(), &request(), MAX, &mut out).unwrap();
        for (place, value) in changes {
            let place = place.index(out.len());
            out[place] = value;
        }
        out.truncate(cut.index(out.len() + 1));
        if let Ok(Some(frame)) = split_frame(&mut out, MAX)
            && let Ok(ClientFrame::Call(call)) = decode_client_frame(frame)
        {
            let _ = decode_message::<OmRequest>(call.payload, "OMRequest");
        }
    }
}
