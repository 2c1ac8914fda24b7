use super::*;
use crate::command::{Command, PublishKind};
use crate::record::DeletedFileRow;
use crate::rows::Rows;
use crate::testing::{World, block, commit, delete, open_key, publish};

fn deleted_dirs(world: &World) -> Vec<DeletedDirRow> {
    world
        .rows
        .range(Keyspace::DeletedDirs, &[], None, usize::MAX)
        .unwrap()
        .iter()
        .map(|(_, value)| table::decode(Keyspace::DeletedDirs, value).unwrap())
        .collect()
}

#[test]
fn deletion_is_refused_as_ozone_refuses_it() {
    let mut world = World::fso();
    world.file("d/f", &[10]);
    for (key, recursive, expected) in [
        ("missing", true, RefusalKind::KeyNotFound),
        ("d/f/x", false, RefusalKind::KeyNotFound),
        ("d", false, RefusalKind::DirectoryNotEmpty),
        ("", true, RefusalKind::InvalidKeyName),
        (".snapshot/s/x", true, RefusalKind::InvalidKeyName),
    ] {
        assert_eq!(world.refused(delete(key, recursive)), expected, "{key}");
    }
}

#[test]
fn a_deleted_files_content_waits_for_reclamation() {
    let mut world = World::fso();
    let file = world.file("d/f", &[10, 5]);
    world.ok(delete("d/f", false));
    assert_eq!(
        (world.bucket().used_bytes, world.bucket().used_names),
        (0, 1)
    );
    let rows = world
        .rows
        .range(Keyspace::DeletedFiles, &[], None, 9)
        .unwrap();
    let row: DeletedFileRow = table::decode(Keyspace::DeletedFiles, &rows[0].1).unwrap();
    assert_eq!(
        (row.file, row.generation, row.block_count, row.size),
        (file.object_id, file.generation, 2, 15)
    );
    assert_eq!(
        key::number_at(&rows[0].0, 0),
        Some(world.machine.position().command)
    );
    world.ok(delete("d", false));
    assert_eq!(world.bucket().used_names, 0);
}

#[test]
fn a_tree_is_deleted_in_one_step_and_stays_charged_until_the_sweep() {
    let mut world = World::fso();
    for name in 0..20 {
        world.file(&format!("a/b/{name}"), &[10]);
    }
    let usage = world.bucket();
    let mut machine = world.machine.clone();
    let entry = crate::command::Entry {
        stamp: crate::command::Stamp {
            lease_ms: 0,
            wall_ms: 0,
            rules: crate::command::RULES,
        },
        requests: vec![world.request(delete("a", true))],
    };
    let applied = machine.apply(&world.rows, 1, 999, &entry).unwrap();
    assert!(
        applied.changes.len() < 10,
        "{} changes",
        applied.changes.len()
    );
    world.ok(delete("a", true));
    assert!(!world.there("a/b/3") && !world.there("a"));
    assert_eq!(
        (world.bucket().used_bytes, world.bucket().used_names),
        (usage.used_bytes, usage.used_names - 1)
    );
    assert_eq!(deleted_dirs(&world).len(), 1);
    world.file("a/b/3", &[1]);
    assert_eq!(world.view("a/b/3").size, 1);
}

#[test]
fn an_ordinary_writer_below_a_deleted_tree_cannot_bring_it_back() {
    let mut world = World::fso();
    let opened = world.open("a/b/f");
    world.ok(delete("a", true));
    let close = commit("a/b/f", opened.session, PublishKind::Close, Vec::new());
    assert_eq!(world.refused(close.clone()), RefusalKind::KeyNotFound);
    world.mkdir("a/b").unwrap();
    assert_eq!(world.refused(close), RefusalKind::KeyNotFound);
    assert!(!world.there("a/b/f"));
}

#[test]
fn several_keys_are_deleted_and_those_that_cannot_be_are_named() {
    let mut world = World::fso();
    world.file("a", &[1]);
    world.file("b", &[1]);
    world.file("d/f", &[1]);
    let keys = ["a", "missing", "d", "b", "a"].map(str::to_owned).to_vec();
    let bucket = BucketName {
        volume: "vol".into(),
        bucket: "bucket".into(),
    };
    let reply = world.ok(Command::DeleteKeys(DeleteKeys {
        bucket: bucket.clone(),
        keys,
    }));
    let Some(Answer::DeletedKeys(DeletedKeys { refused })) = reply.answer else {
        panic!()
    };
    let refused: Vec<_> = refused
        .iter()
        .map(|key| (key.key.as_str(), key.refusal.kind()))
        .collect();
    assert_eq!(
        refused,
        [
            ("missing", RefusalKind::KeyNotFound),
            ("a", RefusalKind::KeyNotFound)
        ]
    );
    assert!(!world.there("d/f"), "a directory goes with what it holds");
    let nowhere = BucketName {
        bucket: "missing".into(),
        ..bucket
    };
    let elsewhere = Command::DeleteKeys(DeleteKeys {
        bucket: nowhere,
        keys: Vec::new(),
    });
    assert_eq!(world.refused(elsewhere), RefusalKind::BucketNotFound);
}

#[test]
fn legacy_directories_are_keys() {
    let mut world = World::new(Layout::Legacy);
    world.file("d/e/f", &[10]);
    assert_eq!(
        world.refused(delete("d", false)),
        RefusalKind::DirectoryNotEmpty
    );
    assert_eq!(
        world.refused(delete("d/e/f/", false)),
        RefusalKind::KeyNotFound
    );
    world.ok(delete("d/e/f", false));
    world.ok(delete("d/e/", false));
    assert!(world.there("d") && !world.there("d/e"));
    world.file("d/x", &[1]);
    let appended = world.append("d/x");
    world.ok(delete("d", true));
    assert!(!world.there("d"));
    assert_eq!(
        (world.bucket().used_bytes, world.bucket().used_names),
        (0, 0)
    );
    let late = publish(
        appended.handle,
        PublishKind::Close,
        3,
        vec![block(&appended.blocks[0], 2)],
    );
    assert_eq!(world.refused(late), RefusalKind::Invalidated);
}

#[test]
fn a_legacy_tree_goes_key_by_key_in_any_order() {
    let mut world = World::new(Layout::Legacy);
    world.file("d/e/f", &[10]);
    let bucket = BucketName {
        volume: "vol".into(),
        bucket: "bucket".into(),
    };
    for keys in [
        vec!["d/".to_owned()],
        vec!["d/e/f".to_owned(), "d/e/".to_owned()],
    ] {
        let reply = world.ok(Command::DeleteKeys(DeleteKeys {
            bucket: bucket.clone(),
            keys,
        }));
        assert_eq!(
            reply.answer,
            Some(Answer::DeletedKeys(DeletedKeys {
                refused: Vec::new()
            }))
        );
    }
    assert!(!world.there("d"));
    assert_eq!(
        (world.bucket().used_bytes, world.bucket().used_names),
        (0, 0)
    );
}

#[test]
fn a_bucket_without_names_can_go_though_a_deleted_tree_waits() {
    let mut world = World::fso();
    world.file("a/f", &[1]);
    let bucket = Command::DeleteBucket(BucketName {
        volume: "vol".into(),
        bucket: "bucket".into(),
    });
    assert_eq!(world.refused(bucket.clone()), RefusalKind::BucketNotEmpty);
    let admitted = world.append("a/f");
    world.ok(delete("a", true));
    world.ok(bucket.clone());
    assert_eq!(
        world.refused(crate::testing::allocate(admitted.handle)),
        RefusalKind::Unreachable
    );
    assert_eq!(world.refused(bucket), RefusalKind::BucketNotFound);
    assert_eq!(world.refused(open_key("f", 0)), RefusalKind::BucketNotFound);
}
