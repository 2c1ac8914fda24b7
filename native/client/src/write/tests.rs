//! Streams against an OM and datanodes in memory: how bytes become blocks and publications, and what failures do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use append_wire::datanode::Result as Code;
use append_wire::hdds::{BlockId, ContainerBlockId};
use append_wire::om::{
    AllocateBlockResponse, AppendFileResponse, AppendHandle, CommitKeyRequest, CreateFileResponse,
    KeyInfo, KeyLocation, KeyLocationList, OmRequest, OmResponse, Status, Type,
};

use crate::testing::datanode::{FakeDatanode, Fault};
use crate::testing::om::{FakeOm, Reply, ok};
use crate::{Config, CreateOptions, ErrorKind, FileSystem, WriteStream};

const FILE: &str = "/vol/bucket/file";

/// Bytes that the file has already.
const PREFIX: u64 = 1000;

/// The rules of an OM that matter to a writer.
#[derive(Default)]
struct Rules {
    next: i64,
    commits: Vec<CommitKeyRequest>,
    excluded: Vec<Vec<String>>,
    /// The next commits are carried out, and their answers lost.
    unheard: usize,
    /// What the next commits are refused with.
    refused: Option<Status>,
}

struct World {
    nodes: Arc<Vec<FakeDatanode>>,
    rules: Arc<Mutex<Rules>>,
    fs: FileSystem,
    _om: FakeOm,
}

fn answer(response: OmResponse) -> Reply {
    Reply::Answer(Box::new(OmResponse {
        status: Status::Ok.into(),
        ..response
    }))
}

fn serve(nodes: &[FakeDatanode], rules: &mut Rules, request: &OmRequest) -> Reply {
    let mut give = |excluded: &[String]| {
        let node = nodes.iter().find(|node| !excluded.contains(&node.id()))?;
        rules.next += 1;
        Some(KeyLocation {
            block_id: BlockId {
                container_block_id: ContainerBlockId {
                    container_id: 1,
                    local_id: rules.next,
                },
                ..BlockId::default()
            },
            length: 1 << 30,
            pipeline: Some(node.pipeline()),
            ..KeyLocation::default()
        })
    };
    match request.cmd_type() {
        Type::AppendFile => answer(OmResponse {
            append_file_response: Some(Box::new(AppendFileResponse {
                key_info: Some(KeyInfo::default()),
                handle: Some(AppendHandle {
                    bucket_object_id: Some(1),
                    session_id: Some(77),
                    file_object_id: Some(3),
                }),
                prefix_length: Some(PREFIX),
                published_length: Some(PREFIX),
                suffix: give(&[]).into_iter().collect(),
                soft_limit_ms: Some(3_600_000),
                ..AppendFileResponse::default()
            })),
            ..OmResponse::default()
        }),
        Type::AllocateBlock => {
            let asked = request.allocate_block_request.as_ref().unwrap();
            let excluded = asked.exclude_list.as_ref().unwrap().datanodes.clone();
            let given = give(&excluded);
            rules.excluded.push(excluded);
            match given {
                Some(location) => answer(OmResponse {
                    allocate_block_response: Some(Box::new(AllocateBlockResponse {
                        key_location: Some(location),
                    })),
                    ..OmResponse::default()
                }),
                None => Reply::Exception("OMLeaderNotReadyException", "no datanode".to_owned()),
            }
        }
        Type::CommitKey => {
            if let Some(status) = rules.refused {
                return Reply::Answer(Box::new(OmResponse {
                    status: status.into(),
                    ..OmResponse::default()
                }));
            }
            let commit = request.commit_key_request.as_ref().unwrap();
            rules.commits.push((**commit).clone());
            if rules.unheard > 0 {
                rules.unheard -= 1;
                return Reply::Nothing;
            }
            ok()
        }
        _ => ok(),
    }
}

async fn world(datanodes: i64) -> World {
    let mut nodes = Vec::new();
    for number in 0..datanodes {
        nodes.push(FakeDatanode::start(number).await);
    }
    let nodes = Arc::new(nodes);
    let rules = Arc::new(Mutex::new(Rules::default()));
    let om = {
        let (nodes, rules) = (Arc::clone(&nodes), Arc::clone(&rules));
        FakeOm::start(move |request| serve(&nodes, &mut rules.lock().unwrap(), request)).await
    };
    let config = Config::empty()
        .with_user("ann")
        .with("ozone.client.stream.buffer.size", "4KB")
        .with("ozone.client.stream.buffer.max.size", "16KB")
        .with("ozone.scm.block.size", "10000")
        .with("ozone.client.wait.between.retries.millis", "10ms")
        .with("libappend.call.timeout", "3s");
    let fs = FileSystem::connect(&om.address(), config).await.unwrap();
    World {
        nodes,
        rules,
        fs,
        _om: om,
    }
}

impl World {
    async fn append(&self) -> WriteStream {
        self.fs.append(FILE).open().await.unwrap()
    }

    fn commits(&self) -> Vec<CommitKeyRequest> {
        self.rules.lock().unwrap().commits.clone()
    }

    /// The bytes of blocks as a commit names them.
    fn bytes_of(&self, locations: &[KeyLocation]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for location in locations {
            let local = location.block_id.container_block_id.local_id;
            let length = usize::try_from(location.length).unwrap();
            let block = self
                .nodes
                .iter()
                .find_map(|node| node.state().blocks.get(&local).cloned())
                .unwrap();
            assert!(
                block.committed >= location.length,
                "published, not committed"
            );
            bytes.extend_from_slice(&block.data[..length]);
        }
        bytes
    }

    /// The last commit ended the session with all of `content`.
    fn check_whole(&self, content: &[u8]) {
        let commits = self.commits();
        let last = commits.last().unwrap();
        assert_eq!(last.hsync, None);
        assert_eq!(last.append_handle.unwrap().session_id(), 77);
        let length = PREFIX + u64::try_from(content.len()).unwrap();
        assert_eq!(last.key_args.data_size, Some(length));
        assert!(self.bytes_of(&last.key_args.key_locations) == content);
    }
}

fn content(length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| u8::try_from(i % 251).unwrap())
        .collect()
}

fn lengths(commit: &CommitKeyRequest) -> Vec<u64> {
    let locations = &commit.key_args.key_locations;
    locations.iter().map(|location| location.length).collect()
}

#[tokio::test]
async fn blocks_follow_each_other_and_say_where_they_start() {
    let world = world(1).await;
    let stream = world.append().await;
    assert_eq!((stream.start(), stream.pos()), (PREFIX, PREFIX));
    let bytes = content(25_000);
    for piece in bytes.chunks(777) {
        stream.write(piece).await.unwrap();
    }
    assert_eq!(stream.pos(), PREFIX + 25_000);
    stream.close().await.unwrap();
    world.check_whole(&bytes);
    assert_eq!(lengths(&world.commits()[0]), [10_000, 10_000, 5000]);
    let state = world.nodes[0].state();
    let starts: Vec<_> = state
        .blocks
        .values()
        .map(|b| b.metadata["appendStart"].clone())
        .collect();
    assert_eq!(starts, ["1000", "11000", "21000"]);
}

#[tokio::test]
async fn a_small_append_is_one_request_to_a_datanode() {
    let world = world(1).await;
    let stream = world.append().await;
    stream.write(b"small").await.unwrap();
    stream.close().await.unwrap();
    world.check_whole(b"small");
    assert_eq!(world.nodes[0].state().requests, 1);
    assert_eq!(world.rules.lock().unwrap().excluded.len(), 0);
}

#[tokio::test]
async fn an_empty_append_publishes_no_block() {
    let world = world(1).await;
    let stream = world.append().await;
    stream.hsync().await.unwrap();
    stream.close().await.unwrap();
    world.check_whole(b"");
    assert_eq!(world.commits().len(), 1);
    assert_eq!(world.nodes[0].state().requests, 0);
}

#[tokio::test]
async fn publications_begin_at_the_last_published_block_and_commits_name_new_chunks() {
    let world = world(1).await;
    let stream = world.append().await;
    let bytes = content(12_300);
    for (from, to) in [(0, 100), (100, 300), (300, 12_300)] {
        stream.write(&bytes[from..to]).await.unwrap();
        stream.hsync().await.unwrap();
        // Nothing new: nothing is published.
        stream.hsync().await.unwrap();
    }
    stream.close().await.unwrap();
    let commits = world.commits();
    let published: Vec<_> = commits.iter().map(|c| (c.hsync, lengths(c))).collect();
    assert_eq!(
        published,
        [
            (Some(true), vec![100]),
            (Some(true), vec![300]),
            (Some(true), vec![10_000, 2300]),
            (None, vec![2300]),
        ]
    );
    // 100, 200, then 4096, 4096 and what fits.
    let state = world.nodes[0].state();
    let first = state.blocks.values().next().unwrap();
    assert_eq!(first.chunks.len(), 5);
    assert_eq!(first.named.iter().sum::<usize>(), 5);
}

#[tokio::test]
async fn a_broken_stream_is_resumed_in_the_same_block() {
    for number in 0..6 {
        let world = world(2).await;
        world.nodes[0].state().faults.insert(number, Fault::Break);
        let stream = world.append().await;
        let bytes = content(20_000);
        stream.write(&bytes[..9000]).await.unwrap();
        stream.hsync().await.unwrap();
        stream.write(&bytes[9000..]).await.unwrap();
        stream.close().await.unwrap();
        assert!(
            world
                .rules
                .lock()
                .unwrap()
                .excluded
                .iter()
                .all(Vec::is_empty)
        );
        let all: Vec<_> = world.commits().iter().map(lengths).collect();
        assert_eq!(all, [vec![9000], vec![10_000, 10_000]], "fault at {number}");
        world.check_whole(&bytes);
    }
}

#[tokio::test]
async fn fault_36_a_datanode_that_refuses_is_left_with_what_it_committed() {
    let world = world(2).await;
    // The sixth request: behind a sync of 9,000 bytes in three chunks.
    world.nodes[0]
        .state()
        .faults
        .insert(5, Fault::Refuse(Code::DiskOutOfSpace));
    let stream = world.append().await;
    let bytes = content(26_000);
    stream.write(&bytes[..9000]).await.unwrap();
    stream.hsync().await.unwrap();
    stream.write(&bytes[9000..]).await.unwrap();
    stream.close().await.unwrap();
    world.check_whole(&bytes);
    let excluded = world.rules.lock().unwrap().excluded.clone();
    assert!(
        excluded.contains(&vec![world.nodes[0].id()]),
        "{excluded:?}"
    );
    assert!(!world.nodes[1].state().blocks.is_empty());
}

#[tokio::test]
async fn the_only_datanode_is_used_again_when_there_is_no_other() {
    let world = world(1).await;
    world.nodes[0]
        .state()
        .faults
        .insert(0, Fault::Refuse(Code::IoException));
    let stream = world.append().await;
    stream.write(b"data").await.unwrap();
    stream.close().await.unwrap();
    world.check_whole(b"data");
}

#[tokio::test]
async fn without_a_datanode_the_stream_ends_at_what_was_published() {
    let world = world(1).await;
    let stream = world.append().await;
    stream.write(b"published").await.unwrap();
    stream.hsync().await.unwrap();
    world.nodes[0].state().down = true;
    stream.write(b"lost").await.unwrap();
    let error = stream.close().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Connect | ErrorKind::Timeout),
        "{error}"
    );
    assert_eq!(error.session(), Some(77));
    stream.close().await.unwrap();
    let last = world.commits().pop().unwrap();
    assert_eq!(
        (last.hsync, last.key_args.data_size),
        (None, Some(PREFIX + 9))
    );
    assert!(last.key_args.key_locations.is_empty());
}

#[tokio::test]
async fn a_write_that_failed_fails_the_stream() {
    let world = world(1).await;
    world.nodes[0].state().down = true;
    let stream = world.append().await;
    let error = stream.write(&content(100_000)).await.unwrap_err();
    world.nodes[0].state().down = false;
    assert!(
        matches!(error.kind(), ErrorKind::Connect | ErrorKind::Timeout),
        "{error}"
    );
    assert!(error.to_string().contains("datanode"), "{error}");
    let again = stream.write(b"more").await.unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    stream.hsync().await.unwrap_err();
    stream.close().await.unwrap_err();
    let last = world.commits().pop().unwrap();
    assert_eq!(last.key_args.data_size, Some(PREFIX));
}

#[tokio::test]
async fn a_write_that_is_given_up_at_the_end_of_a_block_loses_nothing() {
    let world = world(1).await;
    let stream = world.append().await;
    let bytes = content(12_288);
    world.nodes[0].state().held = true;
    // The third buffer fills the block, whose answers are waited for.
    let write = stream.write(&bytes);
    let given_up = tokio::time::timeout(Duration::from_millis(20), write).await;
    assert!(given_up.is_err());
    assert_eq!(stream.pos(), PREFIX + 12_288);
    world.nodes[0].state().held = false;
    stream.close().await.unwrap();
    world.check_whole(&bytes);
    assert_eq!(lengths(&world.commits()[0]), [10_000, 2288]);
    assert!(world.rules.lock().unwrap().excluded.len() <= 1);
}

#[tokio::test]
async fn a_stream_ends_at_the_sync_whose_answer_nobody_heard() {
    let world = world(1).await;
    let stream = world.append().await;
    stream.write(b"first").await.unwrap();
    stream.hsync().await.unwrap();
    stream.write(b"second").await.unwrap();
    world.rules.lock().unwrap().unheard = 1;
    let done = async {
        while world.commits().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        synced = stream.hsync() => panic!("{synced:?}"),
        () = done => {}
    }
    // A sync that is refused later changes nothing of that.
    stream.write(b"third").await.unwrap();
    world.rules.lock().unwrap().refused = Some(Status::QuotaExceeded);
    let error = stream.hsync().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
    world.rules.lock().unwrap().refused = None;
    stream.abort(Duration::from_secs(60)).await;
    world.check_whole(b"firstsecond");
}

#[tokio::test]
async fn a_stream_whose_sync_was_refused_ends_at_the_sync_before() {
    let world = world(1).await;
    let stream = world.append().await;
    stream.write(b"first").await.unwrap();
    stream.hsync().await.unwrap();
    stream.write(b"second").await.unwrap();
    world.rules.lock().unwrap().refused = Some(Status::QuotaExceeded);
    stream.hsync().await.unwrap_err();
    world.rules.lock().unwrap().refused = None;
    stream.abort(Duration::from_secs(60)).await;
    let last = world.commits().pop().unwrap();
    assert_eq!(
        (last.hsync, last.key_args.data_size),
        (None, Some(PREFIX + 5))
    );
}

#[tokio::test]
async fn what_no_commit_covers_is_bounded() {
    let world = world(1).await;
    let stream = world.append().await;
    stream.write(&content(9_000)).await.unwrap();
    // At most three of four buffers are kept beside the one that is filled: the rest was committed on the way.
    for _ in 0..20 {
        stream.write(&content(5_000)).await.unwrap();
        let committed: u64 = world.nodes[0]
            .state()
            .blocks
            .values()
            .map(|b| b.committed)
            .sum();
        let taken = stream.pos() - PREFIX;
        assert!(
            taken - committed <= 16 << 10,
            "{taken} taken, {committed} committed"
        );
    }
    stream.close().await.unwrap();
}

#[tokio::test]
async fn on_ozones_servers_a_created_file_is_an_ordinary_one() {
    let node = FakeDatanode::start(0).await;
    let pipeline = node.pipeline();
    let block = move |local, version| KeyLocation {
        block_id: BlockId {
            container_block_id: ContainerBlockId {
                container_id: 1,
                local_id: local,
            },
            ..BlockId::default()
        },
        length: 10_000,
        create_version: Some(version),
        pipeline: Some(pipeline.clone()),
        ..KeyLocation::default()
    };
    let allocated = std::sync::atomic::AtomicI64::new(10);
    let mut om = FakeOm::with(false, move |request| match request.cmd_type() {
        Type::CreateFile => answer(OmResponse {
            create_file_response: Some(Box::new(CreateFileResponse {
                key_info: Some(KeyInfo {
                    key_location_list: vec![KeyLocationList {
                        // An old block, and the one that is given.
                        key_locations: vec![block(1, 0), block(2, 1)],
                        ..KeyLocationList::default()
                    }],
                    ..KeyInfo::default()
                }),
                id: Some(55),
                open_version: Some(1),
            })),
            ..OmResponse::default()
        }),
        Type::AllocateBlock => answer(OmResponse {
            allocate_block_response: Some(Box::new(AllocateBlockResponse {
                key_location: Some(block(
                    allocated.fetch_add(1, std::sync::atomic::Ordering::SeqCst),
                    1,
                )),
            })),
            ..OmResponse::default()
        }),
        Type::CommitKey => ok(),
        other => panic!("{other:?} is not for Ozone's servers"),
    })
    .await;
    let config = Config::empty()
        .with_user("ann")
        .with("ozone.client.stream.buffer.size", "4KB");
    let fs = FileSystem::connect(&om.address(), config).await.unwrap();
    let error = fs.append(FILE).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");

    let stream = fs.create(FILE, &CreateOptions::default()).await.unwrap();
    assert!(!stream.can_sync());
    let error = stream.hsync().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    stream.write(&content(15_000)).await.unwrap();
    stream.close().await.unwrap();
    let mut commit = om.next().await;
    while commit.request.cmd_type() != Type::CommitKey {
        commit = om.next().await;
    }
    let commit = commit.request.commit_key_request.unwrap();
    assert_eq!((commit.client_id, commit.append_handle), (55, None));
    assert_eq!(commit.key_args.data_size, Some(15_000));
    assert_eq!(lengths(&commit), [10_000, 5000]);
    let state = node.state();
    assert_eq!(state.blocks.keys().copied().collect::<Vec<_>>(), [2, 10]);
    for block in state.blocks.values() {
        assert!(!block.metadata.contains_key("incremental"));
        assert!(!block.metadata.contains_key("appendStart"));
    }
}
