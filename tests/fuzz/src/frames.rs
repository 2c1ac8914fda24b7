//! Hadoop RPC as functions over bytes: the opening, frames, requests and answers. What decodes must encode to what decodes to the same.

use append_wire::common::RequestHeaderProto;
use append_wire::hrpc::{
    AuthProtocol, CallIdentity, ClientFrame, OM_METHOD, OM_PROTOCOL, OM_PROTOCOL_VERSION, Outcome,
    PREAMBLE_LEN, Preamble, decode_client_frame, decode_message, decode_response, encode_call,
    encode_context, encode_ping, split_frame,
};
use append_wire::{datanode as dn, om};
use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::server::requests;

pub(crate) const MAX: usize = 1 << 20;
pub(crate) const CLIENT: [u8; 16] = *b"fuzzfuzzfuzzfuzz";

/// Decodes, and if that goes well encodes and decodes again.
fn round<M: Message + Default + PartialEq>(bytes: Bytes) {
    if let Ok(message) = decode_message::<M>(bytes, "fuzz") {
        let again = M::decode(message.encode_to_vec().as_slice()).unwrap();
        // A number that is not one does not equal itself; the messages have no such fields.
        assert!(message == again);
    }
}

pub(crate) fn fuzz(data: &[u8]) {
    if let Some(opening) = data.first_chunk::<PREAMBLE_LEN>()
        && let Ok(preamble) = Preamble::parse(opening)
    {
        assert_eq!(&preamble.encode(), opening);
    }
    let mut received = BytesMut::from(data);
    while let Ok(Some(frame)) = split_frame(&mut received, MAX) {
        match decode_client_frame(frame.clone()) {
            Ok(ClientFrame::Call(call)) => {
                round::<om::OmRequest>(call.payload);
            }
            Ok(ClientFrame::Context(_) | ClientFrame::Ping) => {}
            Err(rejected) => {
                let _ = (rejected.to_string(), rejected.error.fatal_code());
            }
        }
        if let Ok(response) = decode_response(frame)
            && let Outcome::Success(payload) = response.outcome
        {
            round::<om::OmResponse>(payload);
        }
    }
    let whole = Bytes::copy_from_slice(data);
    round::<om::OmRequest>(whole.clone());
    round::<om::OmResponse>(whole.clone());
    round::<dn::ContainerCommandRequestProto>(whole.clone());
    round::<dn::ContainerCommandResponseProto>(whole);
}

/// What a client sends before its first call.
pub(crate) fn opening() -> BytesMut {
    let preamble = Preamble {
        service_class: 0,
        auth: AuthProtocol::None,
    };
    let mut out = BytesMut::from(&preamble.encode()[..]);
    encode_context(CLIENT, OM_PROTOCOL, "fuzz", None, MAX, &mut out).unwrap();
    out
}

/// The frame of a call.
pub(crate) fn call(id: i32, request: &om::OmRequest) -> BytesMut {
    let target = RequestHeaderProto {
        method_name: OM_METHOD.to_owned(),
        declaring_class_protocol_name: OM_PROTOCOL.to_owned(),
        client_protocol_version: OM_PROTOCOL_VERSION,
    };
    let identity = CallIdentity {
        client_id: CLIENT,
        call_id: id,
        retry_count: 0,
    };
    let mut out = BytesMut::new();
    encode_call(identity, &target, request, MAX, &mut out).unwrap();
    out
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut found = vec![opening().to_vec()];
    let mut ping = BytesMut::new();
    encode_ping(CLIENT, MAX, &mut ping).unwrap();
    found.push(ping.to_vec());
    for (id, request) in (1..).zip(requests()) {
        found.push(call(id, &request).to_vec());
        found.push(request.encode_to_vec());
    }
    found
}
