//! The generated messages keep the promises that the crate's documentation makes about them.

// A helper of these tests stands in no test function, where the lint would see that it is one.
#![allow(clippy::unwrap_used)]

use append_wire::{datanode, hdds, om};
use bytes::Bytes;
use prost::Message;

/// Number and wire type of the fields of a message, in the order of its bytes.
fn fields(mut message: &[u8]) -> Vec<(u32, u8)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = prost::encoding::decode_varint(&mut message).unwrap();
        let wire_type = u8::try_from(key & 7).unwrap();
        found.push((u32::try_from(key >> 3).unwrap(), wire_type));
        match wire_type {
            0 => {
                prost::encoding::decode_varint(&mut message).unwrap();
            }
            2 => {
                let len = prost::encoding::decode_varint(&mut message).unwrap();
                message = &message[usize::try_from(len).unwrap()..];
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

#[test]
fn a_command_that_nobody_knows_survives_decoding() {
    let sent = om::OmRequest {
        cmd_type: 4711,
        client_id: "client-1".to_owned(),
        ..om::OmRequest::default()
    };
    let got = om::OmRequest::decode(sent.encode_to_vec().as_slice()).unwrap();
    assert_eq!(got.cmd_type, 4711);
    assert!(om::Type::try_from(got.cmd_type).is_err());
}

#[test]
fn ozones_commands_that_are_not_served_are_still_known() {
    for (number, command) in [
        (45, om::Type::InitiateMultiPartUpload),
        (61, om::Type::GetDelegationToken),
        (96, om::Type::CreateTenant),
        (112, om::Type::CreateSnapshot),
        (152, om::Type::SaveLifecycleScanState),
    ] {
        assert_eq!(om::Type::try_from(number), Ok(command));
    }
}

#[test]
fn what_is_absent_never_reads_as_success() {
    let answer = om::OmResponse::decode(&[][..]).unwrap();
    assert_eq!(answer.status(), om::Status::InternalError);
    assert_eq!(answer.cmd_type(), om::Type::UnknownCommand);

    let answer = datanode::ContainerCommandResponseProto::decode(&[][..]).unwrap();
    assert_eq!(answer.result(), datanode::Result::MalformedRequest);
    let request = datanode::ContainerCommandRequestProto::decode(&[][..]).unwrap();
    assert_eq!(request.cmd_type(), datanode::Type::UnsetCommand);
}

#[test]
fn required_fields_are_sent_even_if_they_hold_their_default() {
    // Java's decoder refuses a message in which one of them is missing.
    let info = om::BucketInfo {
        volume_name: "vol".to_owned(),
        bucket_name: "bucket".to_owned(),
        ..om::BucketInfo::default()
    };
    assert_eq!(
        fields(&info.encode_to_vec()),
        [(1, 2), (2, 2), (4, 0), (5, 0)]
    );
    let status = om::OmResponse {
        status: om::Status::InternalError.into(),
        ..om::OmResponse::default()
    };
    assert_eq!(fields(&status.encode_to_vec()), [(1, 0), (5, 0)]);
    let location = om::KeyLocation::default();
    assert_eq!(fields(&location.encode_to_vec()), [(1, 2), (3, 0), (4, 0)]);
}

#[test]
fn payloads_whose_numbers_differ_from_their_command_stand_where_ozone_expects_them() {
    let request = om::OmRequest {
        list_status_request: Some(Box::default()),
        list_keys_request: Some(Box::default()),
        list_open_files_request: Some(Box::default()),
        ..om::OmRequest::default()
    };
    assert_eq!(
        fields(&request.encode_to_vec()),
        [(1, 0), (3, 2), (35, 2), (74, 2), (130, 2)]
    );
    let response = om::OmResponse {
        list_keys_light_response: Some(Box::default()),
        list_status_light_response: Some(Box::default()),
        list_open_files_response: Some(Box::default()),
        append_error: Some(Box::default()),
        ..om::OmResponse::default()
    };
    assert_eq!(
        fields(&response.encode_to_vec()),
        [(1, 0), (5, 0), (126, 2), (129, 2), (133, 2), (2010, 2)]
    );
}

#[test]
fn our_additions_stand_above_ozones_numbers() {
    let key = om::KeyInfo {
        append_owner_session_id: Some(1),
        append_session: Some(om::AppendSessionProto::default()),
        ..om::KeyInfo::default()
    };
    let ours: Vec<u32> = fields(&key.encode_to_vec())
        .into_iter()
        .map(|(number, _)| number)
        .filter(|number| *number > 100)
        .collect();
    assert_eq!(ours, [2001, 2002]);

    let request = om::OmRequest {
        append_file_request: Some(Box::default()),
        renew_append_leases_request: Some(Box::default()),
        append_gc_report_request: Some(Box::default()),
        invocation_id: Some(Bytes::from_static(&[0; 16])),
        answered_below: Some(5),
        ..om::OmRequest::default()
    };
    assert_eq!(
        fields(&request.encode_to_vec()),
        [
            (1, 0),
            (3, 2),
            (2001, 2),
            (2002, 2),
            (2003, 2),
            (2011, 2),
            (2012, 0)
        ]
    );
}

#[test]
fn bytes_fields_are_slices_of_what_was_received() {
    let sent = datanode::ContainerCommandRequestProto {
        cmd_type: datanode::Type::WriteChunk.into(),
        write_chunk: Some(Box::new(datanode::WriteChunkRequestProto {
            data: Some(Bytes::from(vec![7; 1 << 16])),
            ..datanode::WriteChunkRequestProto::default()
        })),
        ..datanode::ContainerCommandRequestProto::default()
    };
    let received = Bytes::from(sent.encode_to_vec());
    let range = received.as_ptr_range();
    let got = datanode::ContainerCommandRequestProto::decode(received.clone()).unwrap();
    let data = got.write_chunk.unwrap().data.unwrap();
    assert_eq!(data.len(), 1 << 16);
    assert!(range.contains(&data.as_ptr()));
}

#[test]
fn envelopes_are_small() {
    // Futures hold them: unboxed payloads would make each several kilobytes.
    for size in [
        size_of::<om::OmRequest>(),
        size_of::<om::OmResponse>(),
        size_of::<datanode::ContainerCommandRequestProto>(),
        size_of::<datanode::ContainerCommandResponseProto>(),
    ] {
        assert!(size <= 1024, "{size}");
    }
}

#[test]
fn a_negative_number_of_an_enum_goes_over_the_wire() {
    let args = om::KeyArgs {
        r#type: Some(hdds::ReplicationType::None.into()),
        ..om::KeyArgs::default()
    };
    let got = om::KeyArgs::decode(args.encode_to_vec().as_slice()).unwrap();
    assert_eq!(got.r#type(), hdds::ReplicationType::None);
    assert_eq!(om::KeyArgs::default().r#type(), hdds::ReplicationType::None);
}

#[test]
fn services_answer_to_ozones_names() {
    assert_eq!(
        om::ozone_manager_service_server::SERVICE_NAME,
        "hadoop.ozone.OzoneManagerService"
    );
    assert_eq!(
        datanode::xceiver_client_protocol_service_server::SERVICE_NAME,
        "hadoop.hdds.datanode.XceiverClientProtocolService"
    );
}
