//! Files by Ozone's own write path: open, allocate, write to the datanode, commit, look up.

use super::support::{Rpc, Served, key, key_in, request};
use append_wire::datanode::xceiver_client_protocol_service_client::XceiverClientProtocolServiceClient;
use append_wire::datanode::{
    BlockData, ChecksumData, ChecksumType, ChunkInfo, ContainerCommandRequestProto,
    DatanodeBlockId, PutBlockRequestProto, Result as DatanodeResult, Type as DatanodeType,
    WriteChunkRequestProto,
};
use append_wire::hdds::{KeyValue, ReplicationType};
use append_wire::om::{
    AllocateBlockRequest, BlockRangeRequest, CommitKeyRequest, CreateFileRequest, CreateKeyRequest,
    GetFileStatusRequest, GetKeyInfoRequest, KeyArgs, KeyInfo, KeyLocation, LookupFileRequest,
    OmResponse, Status, Type,
};
use bytes::Bytes;
use std::net::SocketAddr;
use tonic::transport::Endpoint;

pub(crate) async fn create(rpc: &mut Rpc, args: KeyArgs, overwrite: bool) -> OmResponse {
    let create = request(Type::CreateFile, |r| {
        r.create_file_request = Some(Box::new(CreateFileRequest {
            key_args: args,
            is_recursive: true,
            is_overwrite: overwrite,
            client_id: None,
        }));
    });
    rpc.submit(&create).await
}

pub(crate) async fn commit(rpc: &mut Rpc, args: KeyArgs, session: u64, hsync: bool) -> OmResponse {
    let commit = request(Type::CommitKey, |r| {
        r.commit_key_request = Some(Box::new(CommitKeyRequest {
            key_args: args,
            client_id: session,
            hsync: Some(hsync),
            ..CommitKeyRequest::default()
        }));
    });
    rpc.submit(&commit).await
}

/// Writes `bytes` to a fresh block of the embedded datanode and gives the location to commit.
pub(crate) async fn write_block(
    address: SocketAddr,
    given: &KeyLocation,
    bytes: &'static [u8],
) -> KeyLocation {
    let id = given.block_id.container_block_id;
    let block_id = DatanodeBlockId {
        container_id: id.container_id,
        local_id: id.local_id,
        block_commit_sequence_id: Some(0),
        replica_index: None,
    };
    let chunk = ChunkInfo {
        chunk_name: "chunk".to_owned(),
        offset: 0,
        len: bytes.len() as u64,
        metadata: Vec::new(),
        checksum_data: ChecksumData {
            r#type: ChecksumType::None.into(),
            bytes_per_checksum: 16 << 10,
            checksums: Vec::new(),
        },
        stripe_checksum: None,
    };
    let put = PutBlockRequestProto {
        block_data: BlockData {
            block_id,
            chunks: vec![chunk.clone()],
            size: Some(bytes.len() as i64),
            metadata: vec![append_wire::datanode::KeyValue {
                key: "TYPE".to_owned(),
                value: Some("KEY".to_owned()),
            }],
            ..BlockData::default()
        },
        eof: Some(true),
        ..PutBlockRequestProto::default()
    };
    let write = ContainerCommandRequestProto {
        cmd_type: DatanodeType::WriteChunk.into(),
        container_id: id.container_id,
        datanode_uuid: given.pipeline.as_ref().unwrap().members[0]
            .uuid()
            .to_owned(),
        write_chunk: Some(Box::new(WriteChunkRequestProto {
            block_id,
            chunk_data: Some(chunk),
            data: Some(Bytes::from_static(bytes)),
            block: Some(put),
            ..WriteChunkRequestProto::default()
        })),
        version: Some(3),
        ..ContainerCommandRequestProto::default()
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut datanode = XceiverClientProtocolServiceClient::new(endpoint.connect().await.unwrap());
    let mut answers = datanode
        .send(tokio_stream::iter([write]))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!(
        answer.result(),
        DatanodeResult::Success,
        "{}",
        answer.message()
    );
    KeyLocation {
        length: bytes.len() as u64,
        pipeline: None,
        ..given.clone()
    }
}

pub(crate) async fn key_info(rpc: &mut Rpc, args: KeyArgs) -> KeyInfo {
    rpc.ok(Type::GetKeyInfo, |r| {
        r.get_key_info_request = Some(Box::new(GetKeyInfoRequest {
            key_args: args,
            ..GetKeyInfoRequest::default()
        }));
    })
    .await
    .get_key_info_response
    .unwrap()
    .key_info
    .unwrap()
}

#[tokio::test]
async fn a_file_is_created_written_committed_and_found() {
    let (served, mut rpc) = Served::with_buckets().await;
    let created = create(&mut rpc, key("d/f"), false).await;
    assert_eq!(created.status(), Status::Ok, "{}", created.message());
    let created = created.create_file_response.unwrap();
    let info = created.key_info.as_ref().unwrap();
    let given = &info.key_location_list[0].key_locations;
    assert_eq!(
        (info.key_location_list[0].version(), created.open_version()),
        (0, 0)
    );
    assert_eq!(given.len(), 1, "a created file is given a block at once");
    let pipeline = given[0].pipeline.as_ref().unwrap();
    assert_eq!(pipeline.r#type(), ReplicationType::StandAlone);
    assert_eq!(pipeline.members[0].ports[0].name, "STANDALONE");
    assert_eq!(
        pipeline.members[0].ports[0].value,
        u32::from(served.address().port())
    );
    assert_eq!(pipeline.members[0].uuid, pipeline.id.id);

    rpc.refused(Status::FileNotFound, Type::GetFileStatus, |r| {
        r.get_file_status_request = Some(Box::new(GetFileStatusRequest {
            key_args: key("d/f"),
        }));
    })
    .await;
    let written = write_block(served.address(), &given[0], b"hello").await;
    let args = KeyArgs {
        data_size: Some(5),
        key_locations: vec![written],
        metadata: vec![KeyValue {
            key: "colour".to_owned(),
            value: Some("red".to_owned()),
        }],
        ..key("d/f")
    };
    let committed = commit(&mut rpc, args.clone(), created.id(), false).await;
    assert_eq!(committed.status(), Status::Ok, "{}", committed.message());
    let again = commit(&mut rpc, args, created.id(), false).await;
    assert_eq!(again.status(), Status::KeyNotFound);

    let info = key_info(&mut rpc, key("d/f")).await;
    assert_eq!(
        (info.data_size, info.is_file(), info.owner_name()),
        (5, true, "alice")
    );
    assert_eq!(info.key_location_list[0].key_locations[0].length, 5);
    assert!(
        info.key_location_list[0].key_locations[0]
            .pipeline
            .is_some()
    );
    assert_eq!(info.metadata[0].value(), "red");
    assert!(info.metadata.iter().all(|pair| pair.key != "hsyncClientId"));

    let exists = create(&mut rpc, key("d/f"), false).await;
    assert_eq!(exists.status(), Status::FileAlreadyExists);
    let directory = create(&mut rpc, key("d"), true).await;
    assert_eq!(directory.status(), Status::NotAFile);
    rpc.refused(Status::NotAFile, Type::LookupFile, |r| {
        r.lookup_file_request = Some(Box::new(LookupFileRequest { key_args: key("d") }));
    })
    .await;
    assert!(
        !key_info(&mut rpc, key("d")).await.is_file(),
        "a directory resolves as no file"
    );

    let head = key_info(
        &mut rpc,
        KeyArgs {
            head_op: Some(true),
            ..key("d/f")
        },
    )
    .await;
    assert!(head.key_location_list.is_empty());
}

#[tokio::test]
async fn hsync_publishes_and_marks_the_key_until_it_is_closed() {
    let (served, mut rpc) = Served::with_buckets().await;
    let created = create(&mut rpc, key("h"), false)
        .await
        .create_file_response
        .unwrap();
    let given = created.key_info.unwrap().key_location_list[0].key_locations[0].clone();
    let written = write_block(served.address(), &given, b"synced").await;
    let args = KeyArgs {
        data_size: Some(6),
        key_locations: vec![written],
        ..key("h")
    };
    let session = created.id.unwrap();
    let synced = commit(&mut rpc, args.clone(), session, true).await;
    assert_eq!(synced.status(), Status::Ok, "{}", synced.message());
    let marker = |info: &KeyInfo| {
        info.metadata
            .iter()
            .find(|pair| pair.key == "hsyncClientId")
            .map(|pair| pair.value().to_owned())
    };
    assert_eq!(
        marker(&key_info(&mut rpc, key("h")).await),
        Some(session.to_string())
    );
    let status = rpc
        .ok(Type::GetFileStatus, |r| {
            r.get_file_status_request = Some(Box::new(GetFileStatusRequest { key_args: key("h") }));
        })
        .await
        .get_file_status_response
        .unwrap()
        .status;
    assert!(status.append_status.is_some(), "a reader sees who writes");
    assert_eq!(
        commit(&mut rpc, args, session, false).await.status(),
        Status::Ok
    );
    assert_eq!(marker(&key_info(&mut rpc, key("h")).await), None);
}

#[tokio::test]
async fn blocks_are_allocated_one_by_one_and_shown_by_ranges() {
    let (served, mut rpc) = Served::with_buckets().await;
    let opened = rpc
        .ok(Type::CreateKey, |r| {
            r.create_key_request = Some(Box::new(CreateKeyRequest {
                key_args: key_in("obs", "k"),
                ..CreateKeyRequest::default()
            }));
        })
        .await
        .create_key_response
        .unwrap();
    assert!(
        opened.key_info.as_ref().unwrap().key_location_list[0]
            .key_locations
            .is_empty()
    );
    let session = opened.id();
    let mut locations = Vec::new();
    for _ in 0..5 {
        let given = rpc
            .ok(Type::AllocateBlock, |r| {
                r.allocate_block_request = Some(Box::new(AllocateBlockRequest {
                    key_args: key_in("obs", "k"),
                    client_id: session,
                    ..AllocateBlockRequest::default()
                }));
            })
            .await
            .allocate_block_response
            .unwrap()
            .key_location
            .unwrap();
        locations.push(write_block(served.address(), &given, b"0123456789").await);
    }
    let args = KeyArgs {
        data_size: Some(50),
        key_locations: locations,
        ..key_in("obs", "k")
    };
    let committed = commit(&mut rpc, args, session, false).await;
    assert_eq!(committed.status(), Status::Ok, "{}", committed.message());

    let range = |asked: BlockRangeRequest| {
        request(Type::GetKeyInfo, |r| {
            r.get_key_info_request = Some(Box::new(GetKeyInfoRequest {
                key_args: key_in("obs", "k"),
                block_range: Some(asked),
                ..GetKeyInfoRequest::default()
            }));
        })
    };
    let first = rpc
        .submit(&range(BlockRangeRequest {
            max_blocks: Some(2),
            ..BlockRangeRequest::default()
        }))
        .await
        .get_key_info_response
        .unwrap();
    let reply = first.block_range.unwrap();
    assert_eq!((reply.total_blocks(), reply.next_offset()), (5, 20));
    let mut asked = BlockRangeRequest {
        from_offset: reply.next_offset,
        max_blocks: Some(2),
        file_object_id: reply.file_object_id,
        content_generation: reply.content_generation,
        pipelines_once: None,
    };
    let mut blocks = first.key_info.unwrap().key_location_list[0]
        .key_locations
        .len();
    loop {
        let next = rpc
            .submit(&range(asked))
            .await
            .get_key_info_response
            .unwrap();
        blocks += next.key_info.unwrap().key_location_list[0]
            .key_locations
            .len();
        match next.block_range.unwrap().next_offset {
            Some(offset) => asked.from_offset = Some(offset),
            None => break,
        }
    }
    assert_eq!(blocks, 5);

    // The generation goes with its content.
    let replaced = create(&mut rpc, key_in("obs", "k"), true)
        .await
        .create_file_response
        .unwrap();
    let empty = commit(&mut rpc, key_in("obs", "k"), replaced.id(), false).await;
    assert_eq!(empty.status(), Status::Ok, "{}", empty.message());
    let gone = rpc.submit(&range(asked)).await;
    assert!(
        matches!(gone.status(), Status::InvalidRequest | Status::KeyNotFound),
        "{:?} {}",
        gone.status(),
        gone.message()
    );
}

#[tokio::test]
async fn an_excluded_datanode_gets_no_block_and_the_caller_is_told_to_come_again() {
    let (_served, mut rpc) = Served::with_buckets().await;
    let created = create(&mut rpc, key("x"), false)
        .await
        .create_file_response
        .unwrap();
    let given = created.key_info.as_ref().unwrap().key_location_list[0].key_locations[0].clone();
    let mut exclude = append_wire::hdds::ExcludeListProto::default();
    exclude
        .datanodes
        .push(given.pipeline.unwrap().members[0].uuid().to_owned());
    let allocate = request(Type::AllocateBlock, |r| {
        r.allocate_block_request = Some(Box::new(AllocateBlockRequest {
            key_args: key("x"),
            client_id: created.id(),
            exclude_list: Some(exclude),
            ..AllocateBlockRequest::default()
        }));
    });
    let outcome = rpc.outcome(&allocate).await;
    assert!(
        matches!(&outcome, append_wire::hrpc::Outcome::Error(failure)
            if failure.exception_class.ends_with("OMLeaderNotReadyException")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn erasure_coding_is_refused_by_name() {
    let (_served, mut rpc) = Served::with_buckets().await;
    let args = KeyArgs {
        r#type: Some(ReplicationType::Ec.into()),
        ..key("ec")
    };
    let response = create(&mut rpc, args, false).await;
    assert_eq!(response.status(), Status::NotSupportedOperation);
    let args = KeyArgs {
        r#type: Some(ReplicationType::Ratis.into()),
        factor: Some(3),
        ..key("three")
    };
    let response = create(&mut rpc, args, false)
        .await
        .create_file_response
        .unwrap();
    let kept = response.key_info.unwrap();
    assert_eq!(
        (kept.r#type(), kept.factor.unwrap()),
        (ReplicationType::StandAlone, 1),
        "told what is kept"
    );
}
