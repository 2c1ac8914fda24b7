//! Readers of Ozone's datanodes: chunk by chunk, verified, from another replica when one is bad.

use append_wire::datanode::ChecksumType;
use append_wire::hdds::{BlockId, ContainerBlockId};
use append_wire::om::{
    CreateFileResponse, GetKeyInfoResponse, KeyInfo, KeyLocation, KeyLocationList, OmResponse,
    Status, Type,
};

use crate::testing::datanode::FakeDatanode;
use crate::testing::om::{FakeOm, Reply, ok};
use crate::{Config, CreateOptions, ErrorKind, FileSystem};

const FILE: &str = "/vol/bucket/file";
const LENGTH: usize = 20_000;

fn content() -> Vec<u8> {
    (0..LENGTH)
        .map(|i| u8::try_from(i % 251).unwrap())
        .collect()
}

/// An OM of Ozone's with one file in one block, on as many datanodes as there are; the file is written first.
async fn world(datanodes: i64) -> (Vec<FakeDatanode>, FileSystem, FakeOm) {
    let mut nodes = Vec::new();
    for number in 0..datanodes {
        nodes.push(FakeDatanode::start(number).await);
    }
    let mut pipeline = nodes[0].pipeline();
    pipeline.members = nodes
        .iter()
        .flat_map(|node| node.pipeline().members)
        .collect();
    let list = move |length| {
        let location = KeyLocation {
            block_id: BlockId {
                container_block_id: ContainerBlockId {
                    container_id: 1,
                    local_id: 2,
                },
                ..BlockId::default()
            },
            length,
            pipeline: Some(pipeline.clone()),
            ..KeyLocation::default()
        };
        KeyInfo {
            data_size: length,
            key_location_list: vec![KeyLocationList {
                key_locations: vec![location],
                ..KeyLocationList::default()
            }],
            ..KeyInfo::default()
        }
    };
    let answer = |response: OmResponse| {
        Reply::Answer(Box::new(OmResponse {
            status: Status::Ok.into(),
            ..response
        }))
    };
    let om = FakeOm::with(false, move |request| match request.cmd_type() {
        Type::CreateFile => answer(OmResponse {
            create_file_response: Some(Box::new(CreateFileResponse {
                key_info: Some(list(1 << 20)),
                ..CreateFileResponse::default()
            })),
            ..OmResponse::default()
        }),
        Type::GetKeyInfo => answer(OmResponse {
            get_key_info_response: Some(Box::new(GetKeyInfoResponse {
                key_info: Some(list(u64::try_from(LENGTH).unwrap())),
                ..GetKeyInfoResponse::default()
            })),
            ..OmResponse::default()
        }),
        _ => ok(),
    })
    .await;
    let config = Config::empty()
        .with_user("ann")
        .with("ozone.client.bytes.per.checksum", "512")
        .with("ozone.client.stream.buffer.size", "7000")
        .with("libappend.read.ahead.size", "0");
    let fs = FileSystem::connect(&om.address(), config).await.unwrap();
    let stream = fs.create(FILE, &CreateOptions::default()).await.unwrap();
    stream.write(&content()).await.unwrap();
    stream.close().await.unwrap();
    (nodes, fs, om)
}

fn damage(node: &FakeDatanode, offset: usize) {
    for block in node.state().blocks.values_mut() {
        block.data[offset] ^= 1;
    }
}

#[tokio::test]
async fn every_range_is_what_was_written() {
    let (_nodes, fs, _om) = world(1).await;
    let reader = fs.open(FILE).await.unwrap();
    let content = content();
    for (from, length) in [
        (0, LENGTH),
        (1, 1),
        (6990, 20),
        (511, 2),
        (13_999, 6001),
        (19_999, 5),
    ] {
        let got = reader
            .bytes_at(u64::try_from(from).unwrap(), length)
            .await
            .unwrap();
        assert!(
            got == content[from..LENGTH.min(from + length)],
            "{from}+{length}"
        );
    }
}

#[tokio::test]
async fn a_bad_replica_is_passed_over() {
    let (nodes, fs, _om) = world(2).await;
    damage(&nodes[0], 9000);
    let reader = fs.open(FILE).await.unwrap();
    assert!(reader.bytes_at(0, LENGTH).await.unwrap() == content());
    nodes[0].state().down = true;
    assert!(reader.bytes_at(0, LENGTH).await.unwrap() == content());
}

#[tokio::test]
async fn when_all_replicas_are_bad_block_and_offset_are_named() {
    let (nodes, fs, _om) = world(2).await;
    damage(&nodes[0], 9000);
    damage(&nodes[1], 9001);
    let reader = fs.open(FILE).await.unwrap();
    let error = reader.bytes_at(100, LENGTH).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checksum, "{error}");
    let bad = error.bad_block().unwrap();
    // The chunk begins at 7000, its windows are 512 long.
    assert_eq!((bad.container, bad.local), (1, 2));
    assert_eq!((bad.offset_in_block, bad.offset_in_file), (8536, 8536));
    assert!(
        error.to_string().contains("block 1/2 at offset 8536"),
        "{error}"
    );
    assert!(reader.bytes_at(0, 8000).await.unwrap() == content()[..8000]);
}

#[tokio::test]
async fn checksums_that_are_not_computed_here_are_no_ground_to_trust_the_bytes() {
    let (nodes, fs, _om) = world(1).await;
    for block in nodes[0].state().blocks.values_mut() {
        for chunk in &mut block.chunks {
            chunk.checksum_data.r#type = ChecksumType::Sha256.into();
        }
    }
    let reader = fs.open(FILE).await.unwrap();
    let error = reader.bytes_at(0, 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("type SHA256"), "{error}");
}
