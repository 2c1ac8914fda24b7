//! The real rules: what they decided stands after a restart, a rebuild and a retry.

use super::*;
use append_namespace::command::{
    BucketName, CreateBucket, CreateDirectory, CreateVolume, Finalize, Invocation, LAYOUT_APPEND,
    Layout, Replication,
};
use append_namespace::read;

fn call(sequence: u64, command: Command) -> Request {
    let client = Bytes::from_static(b"client-1");
    Request {
        user: "tester".to_owned(),
        invocation: Some(Invocation { client, sequence }),
        answered_below: None,
        command: Some(command),
    }
}

fn path(key: &str) -> KeyPath {
    KeyPath {
        volume: "vol".to_owned(),
        bucket: "bucket".to_owned(),
        key: key.to_owned(),
    }
}

fn directory(sequence: u64, key: &str) -> Request {
    let path = path(key);
    call(
        sequence,
        Command::CreateDirectory(CreateDirectory {
            path,
            owner: "tester".to_owned(),
            ..Default::default()
        }),
    )
}

fn decide(consensus: &LocalConsensus, request: Request) -> Decided {
    block_on(consensus.propose(request)).unwrap()
}

#[test]
fn older_servers_refuse_a_folder_once_its_layout_is_finalized() {
    let dir = tempfile::tempdir().unwrap();
    let said = || std::fs::read_to_string(dir.path().join("FORMAT")).unwrap();
    let consensus = LocalConsensus::open(dir.path(), options()).unwrap();
    assert!(said().ends_with("version 1\n"));
    let finalize = Command::Finalize(Finalize {
        layout: LAYOUT_APPEND,
    });
    decide(&consensus, call(1, finalize)).unwrap();
    assert!(said().ends_with("version 2\n"));
    drop(consensus);
    // Killed between the two.
    std::fs::write(
        dir.path().join("FORMAT"),
        "libappend server data, version 1\n",
    )
    .unwrap();
    let consensus = LocalConsensus::open(dir.path(), options()).unwrap();
    assert!(said().ends_with("version 2\n"));
    assert_eq!(read::layout(&*consensus.view()).unwrap(), LAYOUT_APPEND);
}

#[test]
fn the_real_rules_stand_after_restart_rebuild_and_retry() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = LocalConsensus::open(dir.path(), options()).unwrap();
    let volume = CreateVolume {
        volume: "vol".to_owned(),
        owner: "tester".to_owned(),
        admin: "tester".to_owned(),
        quota_bytes: -1,
        quota_names: -1,
        ..Default::default()
    };
    decide(&consensus, call(1, Command::CreateVolume(volume))).unwrap();
    let bucket = CreateBucket {
        name: BucketName {
            volume: "vol".to_owned(),
            bucket: "bucket".to_owned(),
        },
        layout: Layout::FileSystemOptimized as i32,
        owner: "tester".to_owned(),
        replication: Some(Replication { kind: 2, factor: 1 }),
        quota_bytes: -1,
        quota_names: -1,
        ..Default::default()
    };
    decide(&consensus, call(2, Command::CreateBucket(bucket))).unwrap();
    for at in 0..100 {
        decide(&consensus, directory(10 + at, &format!("dir/{at}"))).unwrap();
        if at == 30 || at == 60 {
            consensus.checkpoint().unwrap();
        }
    }
    let answer = decide(&consensus, directory(500, "dir/last")).unwrap();
    let rows = dump(&consensus);
    drop(consensus);

    let consensus = LocalConsensus::open(dir.path(), options()).unwrap();
    assert_eq!(dump(&consensus), rows);
    assert_eq!(
        decide(&consensus, directory(500, "dir/last")).unwrap(),
        answer
    );
    let rows = dump(&consensus);
    drop(consensus);

    std::fs::remove_dir_all(dir.path().join("rows")).unwrap();
    let consensus = LocalConsensus::open(dir.path(), options()).unwrap();
    assert_eq!(dump(&consensus), rows);
    assert!(
        read::status(consensus.view().as_ref(), &path("dir/99"))
            .unwrap()
            .is_ok()
    );
    assert_eq!(
        read::position(consensus.view().as_ref()).unwrap(),
        consensus.position()
    );
}
