//! Writing and reading blocks.

use super::*;

const B: BlockId = BlockId::new(3, 9);

#[tokio::test]
async fn a_small_append_is_one_request_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let data = bytes(1, 5000);
    write_block(&mut client, B, &data).await;
    drop(client);
    running.stop().await;

    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let answer = send(&mut client, get_block(B)).await;
    assert_eq!(answer.trace_id.as_deref(), Some("trace"));
    let block = answer.get_block.unwrap().block_data;
    assert_eq!(block.size, Some(5000));
    assert_eq!(block.metadata[0].key, "appendStart");
    assert_eq!(block.chunks, [info(0, &data)]);
    for (offset, len) in [(0usize, 5000usize), (100, 50), (4999, 1)] {
        let answer = send(&mut client, read_chunk(B, to_u64(offset), to_u64(len))).await;
        assert_eq!(data_of(answer), data[offset..offset + len]);
    }
    running.stop().await;
}

#[tokio::test]
async fn requests_of_one_stream_are_executed_and_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let data = bytes(2, 100_000);
    let mut requests = Vec::new();
    let mut chunks = Vec::new();
    for (n, part) in data.chunks(5000).enumerate() {
        let offset = to_u64(n * 5000);
        chunks.push(info(offset, part));
        requests.push(write_chunk(B, offset, part, None));
        requests.push(put_block(B, chunks.clone()));
    }
    requests.push(get_block(B));
    requests.push(read_chunk(B, 0, 100_000));
    let kinds: Vec<i32> = requests.iter().map(|r| r.cmd_type).collect();
    let answers = send_all(&mut client, requests).await.unwrap();
    let answered: Vec<i32> = answers.iter().map(|r| r.cmd_type).collect();
    assert_eq!(answered, kinds);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.result(), dn::Result::Success, "{n}: {answer:?}");
        if let Some(put) = &answer.put_block {
            let expected = i64::try_from(n.div_ceil(2) * 5000).unwrap();
            assert_eq!(put.committed_block_length.block_length, expected);
        }
    }
    let mut last = answers.into_iter().rev();
    assert_eq!(data_of(last.next().unwrap()), data);
    let block = last.next().unwrap().get_block.unwrap().block_data;
    assert_eq!(block.chunks, chunks);
    running.stop().await;
}

#[tokio::test]
async fn the_largest_chunk_goes_in_and_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let data = bytes(3, 32 << 20);
    write_block(&mut client, B, &data).await;
    let answer = send(&mut client, read_chunk(B, 0, 32 << 20)).await;
    assert!(data_of(answer) == data);
    running.stop().await;
}

fn read_block(
    id: BlockId,
    offset: u64,
    length: Option<u64>,
    size: u32,
) -> dn::ContainerCommandRequestProto {
    dn::ContainerCommandRequestProto {
        read_block: Some(Box::new(dn::ReadBlockRequestProto {
            block_id: wire_id(id),
            offset,
            length,
            response_data_size: Some(size),
        })),
        ..request(dn::Type::ReadBlock, id)
    }
}

/// Joins streamed answers; checks their checksums and that they have no gap.
fn joined(answers: &[dn::ContainerCommandResponseProto]) -> (u64, Vec<u8>) {
    let mut data: Vec<u8> = Vec::new();
    let mut start = None;
    for answer in answers {
        assert_eq!(answer.result(), dn::Result::Success, "{answer:?}");
        let piece = answer.read_block.as_ref().unwrap();
        let at = *start.get_or_insert(piece.offset);
        assert_eq!(piece.offset, at + to_u64(data.len()));
        append_wire::checksum::verify(&piece.data, &piece.checksum_data, 0).unwrap();
        data.extend_from_slice(&piece.data);
    }
    (start.unwrap(), data)
}

#[tokio::test]
async fn a_block_is_streamed_in_bounded_pieces_that_verify() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let data = bytes(4, 150_000);
    let chunks = vec![info(0, &data[..70_000]), info(70_000, &data[70_000..])];
    let answers = send_all(
        &mut client,
        vec![
            write_chunk(B, 0, &data[..70_000], None),
            write_chunk(B, 70_000, &data[70_000..], None),
            put_block(B, chunks),
        ],
    )
    .await
    .unwrap();
    assert!(answers.iter().all(|a| a.result() == dn::Result::Success));

    let whole = send_all(&mut client, vec![read_block(B, 0, None, 40_000)])
        .await
        .unwrap();
    assert!(whole.len() > 3);
    for answer in &whole {
        assert!(answer.read_block.as_ref().unwrap().data.len() <= 40_000 + 16_384);
    }
    assert_eq!(joined(&whole), (0, data.clone()));
    // Widened to the windows of the chunks; several requests on one stream.
    let two = send_all(
        &mut client,
        vec![
            read_block(B, 20_000, Some(10), 0),
            read_block(B, 69_990, Some(20), 0),
        ],
    )
    .await
    .unwrap();
    assert_eq!(joined(&two[..1]), (16_384, data[16_384..32_768].to_vec()));
    assert_eq!(joined(&two[1..]), (65_536, data[65_536..86_384].to_vec()));
    // A range beyond the end ends where the block does; one that begins there is out of range.
    let tail = send_all(&mut client, vec![read_block(B, 149_999, Some(500), 0)])
        .await
        .unwrap();
    assert_eq!(joined(&tail).0 + to_u64(joined(&tail).1.len()), 150_000);
    let status = send_all(&mut client, vec![read_block(B, 150_000, Some(1), 0)])
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::OutOfRange);
    running.stop().await;
}

#[tokio::test]
async fn many_small_blocks_are_fetched_together_in_bounded_answers() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let ids: Vec<BlockId> = (0..2000).map(|n| BlockId::new(1 + n % 3, n)).collect();
    let content = |id: BlockId| bytes(usize::try_from(id.local).unwrap(), 4096);
    let writes = ids
        .iter()
        .map(|id| {
            let data = content(*id);
            let put = put_payload(*id, vec![info(0, &data)]);
            write_chunk(*id, 0, &data, Some(put))
        })
        .collect();
    let answers = send_all(&mut client, writes).await.unwrap();
    assert!(answers.iter().all(|a| a.result() == dn::Result::Success));

    let mut left = ids.as_slice();
    let mut asked = 0;
    while !left.is_empty() {
        let ranges = left
            .iter()
            .map(|id| dn::BlockRangeProto {
                block_id: wire_id(*id),
                offset: 0,
                length: 4096,
            })
            .collect();
        let answer = send(
            &mut client,
            dn::ContainerCommandRequestProto {
                read_blocks: Some(Box::new(dn::ReadBlocksRequestProto { ranges })),
                ..request(dn::Type::ReadBlocks, BlockId::new(0, 0))
            },
        )
        .await;
        assert_eq!(answer.result(), dn::Result::Success, "{answer:?}");
        let runs = answer.read_blocks.unwrap().data;
        assert!(!runs.is_empty());
        let sum: usize = runs.iter().map(|r| r.data.len()).sum();
        assert!(to_u64(sum) <= crate::MAX_READ_BLOCKS_REPLY + 16_384);
        for (n, run) in runs.iter().enumerate() {
            assert_eq!((usize::try_from(run.range).unwrap(), run.offset), (n, 0));
            append_wire::checksum::verify(&run.data, &run.checksum_data, 0).unwrap();
            assert_eq!(run.data, content(left[n]));
        }
        left = &left[runs.len()..];
        asked += 1;
    }
    assert_eq!(asked, 2);
    running.stop().await;
}

#[tokio::test]
async fn an_error_of_a_later_range_comes_when_it_is_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let data = bytes(1, 100);
    write_block(&mut client, B, &data).await;
    let range = |id, offset, length| dn::BlockRangeProto {
        block_id: wire_id(id),
        offset,
        length,
    };
    let absent = BlockId::new(3, 10);
    let ask = |ranges| dn::ContainerCommandRequestProto {
        read_blocks: Some(Box::new(dn::ReadBlocksRequestProto { ranges })),
        ..request(dn::Type::ReadBlocks, B)
    };
    let both = ask(vec![range(B, 0, 100), range(absent, 0, 1)]);
    let answer = send(&mut client, both).await;
    assert_eq!(answer.read_blocks.unwrap().data.len(), 1);
    let answer = send(&mut client, ask(vec![range(absent, 0, 1)])).await;
    assert_eq!(answer.result(), dn::Result::NoSuchBlock);
    let answer = send(&mut client, ask(vec![range(B, 50, 51)])).await;
    assert_eq!(answer.result(), dn::Result::UnableToFindChunk);
    let answer = send(&mut client, ask(vec![range(B, u64::MAX, 2)])).await;
    assert_eq!(answer.result(), dn::Result::MalformedRequest);
    running.stop().await;
}

#[tokio::test]
async fn finalizing_answers_the_block_and_fences_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let finalize = |id| dn::ContainerCommandRequestProto {
        finalize_block: Some(Box::new(dn::FinalizeBlockRequestProto {
            block_id: wire_id(id),
        })),
        ..request(dn::Type::FinalizeBlock, id)
    };
    let answer = send(&mut client, finalize(B)).await;
    assert_eq!(answer.result(), dn::Result::NoSuchBlock);
    let data = bytes(1, 100);
    write_block(&mut client, B, &data).await;
    for _ in 0..2 {
        let answer = send(&mut client, finalize(B)).await;
        let block = answer.finalize_block.unwrap().block_data;
        assert_eq!(
            (block.size, block.chunks),
            (Some(100), vec![info(0, &data)])
        );
    }
    let answer = send(&mut client, write_chunk(B, 100, &data, None)).await;
    assert_eq!(answer.result(), dn::Result::BlockAlreadyFinalized);
    running.stop().await;
}

#[tokio::test]
async fn lengths_lists_and_small_files() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let data = bytes(7, 40_000);
    let small = dn::ContainerCommandRequestProto {
        put_small_file: Some(Box::new(dn::PutSmallFileRequestProto {
            block: put_payload(B, vec![info(0, &data)]),
            chunk_info: info(0, &data),
            data: Bytes::from(data.clone()),
        })),
        ..request(dn::Type::PutSmallFile, B)
    };
    for _ in 0..2 {
        let answer = send(&mut client, small.clone()).await;
        let committed = answer.put_small_file.unwrap().committed_block_length;
        assert_eq!(committed.block_length, 40_000);
    }
    let get = dn::ContainerCommandRequestProto {
        get_small_file: Some(Box::new(dn::GetSmallFileRequestProto {
            block: dn::GetBlockRequestProto {
                block_id: wire_id(B),
                request_short_circuit_access: None,
            },
            read_chunk_version: Some(dn::ReadChunkVersion::V1.into()),
        })),
        ..request(dn::Type::GetSmallFile, B)
    };
    let got = send(&mut client, get).await.get_small_file.unwrap().data;
    assert_eq!(got.chunk_data, info(0, &data));
    assert!(matches!(
        got.response_data,
        Some(dn::read_chunk_response_proto::ResponseData::DataBuffers(b))
            if b.buffers.len() == 3 && b.buffers.concat() == data
    ));
    let length = |id| dn::ContainerCommandRequestProto {
        get_committed_block_length: Some(Box::new(dn::GetCommittedBlockLengthRequestProto {
            block_id: wire_id(id),
        })),
        ..request(dn::Type::GetCommittedBlockLength, id)
    };
    let answer = send(&mut client, length(B)).await;
    let answer = answer.get_committed_block_length.unwrap();
    assert_eq!(answer.block_length, 40_000);
    let list = dn::ContainerCommandRequestProto {
        list_block: Some(Box::new(dn::ListBlockRequestProto {
            start_local_id: None,
            count: 10,
        })),
        ..request(dn::Type::ListBlock, B)
    };
    let blocks = send(&mut client, list).await.list_block.unwrap().block_data;
    assert_eq!(blocks.len(), 1);

    running.datanode.delete_blocks(vec![B]).await.unwrap();
    let answer = send(&mut client, length(B)).await;
    assert_eq!(answer.result(), dn::Result::NoSuchBlock);
    running.stop().await;
}

#[tokio::test]
async fn deleting_a_block_that_never_arrived_is_acknowledged_and_spends_its_id() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut client = running.client().await;
    let never = BlockId::new(7, 4711);
    for _ in 0..2 {
        running.datanode.delete_blocks(vec![never]).await.unwrap();
    }
    // What was under way comes too late.
    let answer = send(&mut client, write_chunk(never, 0, &bytes(1, 1000), None)).await;
    assert_ne!(answer.result(), dn::Result::Success);
    running.stop().await;
}

#[tokio::test]
async fn concurrent_writers_each_get_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let mut tasks = Vec::new();
    for local in 0..16 {
        let mut client = running.client().await;
        tasks.push(tokio::spawn(async move {
            let id = BlockId::new(1, local);
            let data = bytes(usize::try_from(local).unwrap(), 20_000);
            write_block(&mut client, id, &data).await;
            let answer = send(&mut client, read_chunk(id, 0, 20_000)).await;
            assert_eq!(data_of(answer), data);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    running.stop().await;
}
