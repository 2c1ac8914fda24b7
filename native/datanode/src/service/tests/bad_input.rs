//! Requests that must be refused, and peers that misbehave.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const B: BlockId = BlockId::new(3, 9);

#[tokio::test]
async fn what_is_not_supported_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    for kind in [
        dn::Type::ReadContainer,
        dn::Type::UpdateContainer,
        dn::Type::DeleteContainer,
        dn::Type::ListContainer,
        dn::Type::DeleteBlock,
        dn::Type::DeleteChunk,
        dn::Type::ListChunk,
        dn::Type::CompactChunk,
        dn::Type::CloseContainer,
        dn::Type::StreamInit,
        dn::Type::GetContainerChecksumInfo,
        dn::Type::UnsetCommand,
    ] {
        let answer = send(&mut client, request(kind, B)).await;
        assert_eq!(answer.result(), dn::Result::UnsupportedRequest, "{kind:?}");
        assert_eq!(answer.cmd_type, i32::from(kind));
    }
    let mut unknown = request(dn::Type::Echo, B);
    unknown.cmd_type = 777;
    let answer = send(&mut client, unknown).await;
    assert_eq!(answer.result(), dn::Result::UnsupportedRequest);
    let answer = send(&mut client, request(dn::Type::CreateContainer, B)).await;
    assert_eq!(answer.result(), dn::Result::Success);
    assert!(answer.create_container.is_some());
    running.stop().await;
}

#[tokio::test]
async fn a_request_without_its_payload_is_malformed() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    for kind in [
        dn::Type::WriteChunk,
        dn::Type::PutBlock,
        dn::Type::GetBlock,
        dn::Type::GetCommittedBlockLength,
        dn::Type::FinalizeBlock,
        dn::Type::ReadChunk,
        dn::Type::ReadBlock,
        dn::Type::PutSmallFile,
        dn::Type::GetSmallFile,
        dn::Type::ListBlock,
        dn::Type::Echo,
        dn::Type::ReadBlocks,
    ] {
        let answer = send(&mut client, request(kind, B)).await;
        assert_eq!(answer.result(), dn::Result::MalformedRequest, "{kind:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn requests_that_contradict_themselves_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let data = bytes(1, 100);
    write_block(&mut client, B, &data).await;
    let change = |f: fn(&mut dn::ContainerCommandRequestProto)| {
        let mut r = write_chunk(B, 100, &bytes(1, 100), None);
        f(&mut r);
        r
    };
    let cases: Vec<(dn::ContainerCommandRequestProto, dn::Result)> = vec![
        (
            change(|r| r.container_id = 4),
            dn::Result::ContainerIdMismatch,
        ),
        (
            change(|r| r.datanode_uuid = "00000000-0000-4000-8000-000000000000".to_owned()),
            dn::Result::InvalidArgument,
        ),
        (
            change(|r| r.write_chunk.as_mut().unwrap().block_id.replica_index = Some(2)),
            dn::Result::UnsupportedRequest,
        ),
        (
            change(|r| r.write_chunk.as_mut().unwrap().data = Some(Bytes::from_static(b"other"))),
            dn::Result::InvalidArgument,
        ),
        (
            change(|r| {
                let w = r.write_chunk.as_mut().unwrap();
                w.data = Some(Bytes::from(vec![0; 100]));
            }),
            dn::Result::ChecksumMismatch,
        ),
        (
            change(|r| {
                let w = r.write_chunk.as_mut().unwrap();
                w.chunk_data.as_mut().unwrap().checksum_data.r#type = dn::ChecksumType::Md5.into();
            }),
            dn::Result::NoSuchAlgorithm,
        ),
        (
            change(|r| {
                let w = r.write_chunk.as_mut().unwrap();
                w.chunk_data.as_mut().unwrap().offset = u64::MAX - 5;
            }),
            dn::Result::MalformedRequest,
        ),
        (
            change(|r| {
                let w = r.write_chunk.as_mut().unwrap();
                w.chunk_data.as_mut().unwrap().offset = 1 << 50;
            }),
            dn::Result::InvalidArgument,
        ),
        (
            write_chunk(B, 0, &bytes(2, 100), None),
            dn::Result::OverwriteFlagRequired,
        ),
        (
            put_block(B, vec![info(0, &data[..50])]),
            dn::Result::InvalidArgument,
        ),
        (
            put_block(B, vec![info(0, &data), info(100, &data)]),
            dn::Result::ChunkFileInconsistency,
        ),
        (read_chunk(B, 50, 51), dn::Result::UnableToFindChunk),
        (read_chunk(B, 0, 1 << 40), dn::Result::InvalidArgument),
        (get_block(BlockId::new(3, 10)), dn::Result::NoSuchBlock),
    ];
    for (n, (request, expected)) in cases.into_iter().enumerate() {
        let answer = send(&mut client, request).await;
        assert_eq!(answer.result(), expected, "case {n}: {answer:?}");
        assert!(answer.message.is_some());
    }
    let mut later = get_block(B);
    later
        .get_block
        .as_mut()
        .unwrap()
        .block_id
        .block_commit_sequence_id = Some(5);
    let answer = send(&mut client, later).await;
    assert_eq!(answer.result(), dn::Result::UnknownBcsid);
    // After all of that the block is what it was.
    let answer = send(&mut client, read_chunk(B, 0, 100)).await;
    assert_eq!(data_of(answer), data);
    running.stop().await;
}

#[tokio::test]
async fn our_own_identity_is_accepted_in_either_case() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let mut request = request(dn::Type::CreateContainer, B);
    request.datanode_uuid = running.datanode.uuid().to_string().to_uppercase();
    let answer = send(&mut client, request).await;
    assert_eq!(answer.result(), dn::Result::Success);
    running.stop().await;
}

#[tokio::test]
async fn rot_is_answered_with_block_and_offset_and_never_with_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let data = bytes(5, 60_000);
    write_block(&mut client, B, &data).await;
    drop(client);
    running.stop().await;
    let path = dir.path().join("containers/0000000001.data");
    let mut file = std::fs::read(&path).unwrap();
    let at = file.windows(64).position(|w| w == &data[..64]).unwrap();
    file[at + 20_000] ^= 1;
    std::fs::write(&path, file).unwrap();

    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let answer = send(&mut client, read_chunk(B, 0, 60_000)).await;
    assert_eq!(answer.result(), dn::Result::ChecksumMismatch);
    assert!(answer.read_chunk.is_none());
    let message = answer.message.unwrap();
    assert!(
        message.contains("3/9") && message.contains("16384"),
        "{message}"
    );
    // The other windows are fine.
    let answer = send(&mut client, read_chunk(B, 40_000, 20_000)).await;
    assert_eq!(data_of(answer), data[40_000..]);
    running.stop().await;
}

#[tokio::test]
async fn echo_keeps_to_its_limits() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let echo = |size, sleep| dn::ContainerCommandRequestProto {
        echo: Some(Box::new(dn::EchoRequestProto {
            payload: Some(Bytes::from_static(b"x")),
            payload_size_resp: Some(size),
            sleep_time_ms: Some(sleep),
            read_only: Some(true),
        })),
        ..request(dn::Type::Echo, B)
    };
    let answer = send(&mut client, echo(1000, 1)).await;
    let answer = answer.echo.unwrap();
    assert_eq!(answer.payload.unwrap().len(), 1000);
    assert_eq!(
        answer.datanode_uuid.unwrap(),
        running.datanode.uuid().to_string()
    );
    for bad in [
        echo(-1, 0),
        echo(i32::MAX, 0),
        echo(1, i32::MAX),
        echo(1, -1),
    ] {
        let answer = send(&mut client, bad).await;
        assert_eq!(answer.result(), dn::Result::InvalidArgument);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_message_above_the_limit_and_garbage_hurt_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    write_block(&mut client, B, b"fine").await;

    let mut careless = running.client().await.max_encoding_message_size(usize::MAX);
    let huge = write_chunk(BlockId::new(3, 1), 0, &vec![0; 40 << 20], None);
    let refused = send_all(&mut careless, vec![huge]).await;
    assert!(refused.is_err() || refused.unwrap().is_empty());

    let mut garbage = tokio::net::TcpStream::connect(("127.0.0.1", running.port))
        .await
        .unwrap();
    garbage.write_all(&[0xA5; 4096]).await.unwrap();
    let mut sink = Vec::new();
    // The connection is closed, cleanly or not.
    garbage.read_to_end(&mut sink).await.ok();

    let answer = send(&mut client, read_chunk(B, 0, 4)).await;
    assert_eq!(data_of(answer), b"fine"[..]);
    running.stop().await;
}
