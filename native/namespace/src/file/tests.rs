use super::*;
use crate::command::{AllocateBlock, Command, CreateMode, Layout, Target};
use crate::testing::{
    World, append, block, commit, delete, mkdir, open_key, path, publish, rename,
};

fn open_with(key: &str, change: impl FnOnce(&mut OpenKey)) -> Command {
    let mut command = open_key(key, 1);
    if let Command::OpenKey(open) = &mut command {
        change(open);
    }
    command
}

fn opened(reply: Reply) -> Opened {
    match reply.answer {
        Some(Answer::Opened(opened)) => opened,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_not_there_before_its_commit() {
    let mut world = World::fso();
    let opened = world.open("a/b/f");
    assert!(!world.there("a/b/f") && world.there("a/b"));
    assert_eq!(world.bucket().used_names, 2);
    world.ok(commit(
        "a/b/f",
        opened.session,
        PublishKind::Close,
        vec![block(&opened.blocks[0], 7)],
    ));
    let view = world.view("a/b/f");
    assert_eq!(
        (view.size, view.block_count, view.owner.as_str()),
        (7, 1, "alice")
    );
    assert_eq!(
        (world.bucket().used_names, world.bucket().used_bytes),
        (3, 7)
    );
}

#[test]
fn opening_is_refused_as_ozone_refuses_it() {
    let mut world = World::fso();
    world.file("d/f", &[1]);
    let cases = [
        (open_with("d", |_| {}), RefusalKind::NotAFile),
        (open_with("d/f/x", |_| {}), RefusalKind::NotAFile),
        (
            open_with("d/f", |open| open.overwrite = false),
            RefusalKind::FileExists,
        ),
        (
            open_with("x/y", |open| open.recursive = false),
            RefusalKind::DirectoryNotFound,
        ),
        (open_with("", |_| {}), RefusalKind::InvalidKeyName),
        (open_with("a:b", |_| {}), RefusalKind::InvalidKeyName),
        (
            open_with("x/", |open| open.as_file = false),
            RefusalKind::InvalidKeyName,
        ),
        (
            open_with(".snapshot/x", |_| {}),
            RefusalKind::InvalidKeyName,
        ),
        (
            open_with("x", |open| {
                open.replication = Some(Replication { kind: 4, factor: 0 })
            }),
            RefusalKind::Unsupported,
        ),
        (
            open_with("d/f", |open| open.expected_update = Some(0)),
            RefusalKind::KeyExists,
        ),
        (
            open_with("d/f", |open| open.expected_update = Some(1)),
            RefusalKind::KeyNotFound,
        ),
        (
            open_with("d/g", |open| open.expected_update = Some(1)),
            RefusalKind::KeyNotFound,
        ),
        (
            open_with("d/g", |open| open.path.bucket = "missing".into()),
            RefusalKind::BucketNotFound,
        ),
        (
            open_with("d/g", |open| open.path.volume = "missing".into()),
            RefusalKind::VolumeNotFound,
        ),
    ];
    for (command, expected) in cases {
        assert_eq!(world.refused(command.clone()), expected, "{command:?}");
    }
    world.ok(open_with("d/f", |open| {
        open.as_file = false;
        open.overwrite = false;
    }));
}

#[test]
fn an_overwrite_keeps_identity_and_creation_time_and_the_old_content_until_its_commit() {
    let mut world = World::fso();
    let old = world.file("f", &[10]);
    let writer = world.open("f");
    assert_eq!(world.view("f"), old);
    world.ok(commit(
        "f",
        writer.session,
        PublishKind::Close,
        vec![block(&writer.blocks[0], 3)],
    ));
    let new = world.view("f");
    assert_eq!(
        (new.object_id, new.created_ms, new.size),
        (old.object_id, old.created_ms, 3)
    );
    assert!(new.generation > old.generation && new.modified_ms > old.modified_ms);
    assert_eq!(
        (world.bucket().used_bytes, world.bucket().used_names),
        (3, 1)
    );
    let gone = crate::read::blocks_of(&world.rows, old.object_id, old.generation, 0, 9).unwrap();
    assert_eq!(gone.unwrap_err().kind(), RefusalKind::GenerationGone);
}

#[test]
fn an_overwrite_makes_a_fresh_identity_when_the_name_holds_another_by_then() {
    let mut world = World::fso();
    let old = world.file("f", &[10]);
    let first = world.open("f");
    let second = world.open("f");
    world.ok(rename("f", "g"));
    world.ok(commit(
        "f",
        first.session,
        PublishKind::Close,
        vec![block(&first.blocks[0], 3)],
    ));
    let between = world.view("f");
    assert!(between.object_id != old.object_id && between.created_ms > old.created_ms);
    assert_eq!(world.view("g").object_id, old.object_id);
    world.ok(commit(
        "f",
        second.session,
        PublishKind::Close,
        vec![block(&second.blocks[0], 4)],
    ));
    let last = world.view("f");
    assert!(last.object_id != between.object_id && last.object_id != old.object_id);
    let third = world.open("f");
    world.ok(delete("f", false));
    world.ok(commit("f", third.session, PublishKind::Close, Vec::new()));
    assert_ne!(world.view("f").object_id, last.object_id);
}

#[test]
fn unknown_and_empty_blocks_are_dropped_and_unsubmitted_ones_go_to_reclamation() {
    let mut world = World::fso();
    let other = world.open("g");
    let writer = world.open_with("f", 3);
    let blocks = vec![
        block(&writer.blocks[0], 5),
        block(&writer.blocks[1], 0),
        block(&other.blocks[0], 4),
    ];
    world.ok(commit("f", writer.session, PublishKind::Close, blocks));
    let view = world.view("f");
    assert_eq!((view.size, view.block_count), (5, 1));
    let rows = crate::rows::Rows::range(
        &world.rows,
        crate::rows::Keyspace::DeletedFiles,
        &[],
        None,
        9,
    )
    .unwrap();
    let row: crate::record::DeletedFileRow =
        table::decode(crate::rows::Keyspace::DeletedFiles, &rows[0].1).unwrap();
    assert_eq!(row.unused.len(), 2);
}

#[test]
fn a_length_that_is_not_the_blocks_is_refused() {
    let mut world = World::fso();
    let writer = world.open("f");
    let mut close = commit(
        "f",
        writer.session,
        PublishKind::Close,
        vec![block(&writer.blocks[0], 5)],
    );
    if let Command::Publish(publish) = &mut close {
        publish.size = 6;
    }
    assert_eq!(world.refused(close), RefusalKind::BadPublication);
}

#[test]
fn hsync_marks_the_file_and_close_takes_the_mark_off() {
    let mut world = World::fso();
    let writer = world.open_with("f", 2);
    let first = block(&writer.blocks[0], 5);
    world.ok(commit("f", writer.session, PublishKind::Hsync, vec![first]));
    let synced = world.view("f");
    assert_eq!(
        (synced.size, synced.hsync_session),
        (5, Some(writer.session))
    );
    let grown = crate::command::SubmittedBlock { length: 8, ..first };
    let blocks = vec![grown, block(&writer.blocks[1], 2)];
    world.ok(commit(
        "f",
        writer.session,
        PublishKind::Hsync,
        blocks.clone(),
    ));
    let again = world.view("f");
    assert_eq!(
        (again.size, again.generation, again.object_id),
        (10, synced.generation, synced.object_id)
    );
    assert_eq!(world.bucket().used_names, 1);
    assert_eq!(
        world.refused(commit("f", writer.session, PublishKind::Close, vec![first])),
        RefusalKind::BadPublication
    );
    world.ok(commit(
        "f",
        writer.session,
        PublishKind::Close,
        blocks.clone(),
    ));
    assert_eq!(
        (world.view("f").size, world.view("f").hsync_session),
        (10, None)
    );
    assert_eq!(
        world.refused(commit("f", writer.session, PublishKind::Close, blocks)),
        RefusalKind::KeyNotFound
    );
}

#[test]
fn a_hsynced_writer_that_was_overwritten_or_deleted_cannot_commit() {
    for overwrite in [true, false] {
        let mut world = World::fso();
        let writer = world.open("f");
        let blocks = vec![block(&writer.blocks[0], 5)];
        world.ok(commit(
            "f",
            writer.session,
            PublishKind::Hsync,
            blocks.clone(),
        ));
        if overwrite {
            world.file("f", &[2]);
        } else {
            world.ok(delete("f", false));
        }
        for kind in [PublishKind::Hsync, PublishKind::Close] {
            assert_eq!(
                world.refused(commit("f", writer.session, kind, blocks.clone())),
                RefusalKind::KeyNotFound
            );
        }
        assert_eq!(world.there("f"), overwrite);
        world.file("f", &[2]);
        world.append("f");
    }
}

#[test]
fn a_hsynced_writer_cannot_commit_where_its_file_no_longer_is() {
    let mut world = World::new(Layout::Legacy);
    let writer = world.open("f");
    let blocks = vec![block(&writer.blocks[0], 5)];
    world.ok(commit(
        "f",
        writer.session,
        PublishKind::Hsync,
        blocks.clone(),
    ));
    world.ok(rename("f", "g"));
    world.file("f", &[2]);
    assert_eq!(
        world.refused(commit(
            "f",
            writer.session,
            PublishKind::Close,
            blocks.clone()
        )),
        RefusalKind::KeyNotFound
    );
    assert_eq!((world.view("f").size, world.view("g").size), (2, 5));
    assert_eq!(
        world.refused(append("g", CreateMode::No)),
        RefusalKind::ConflictHsync
    );
    world.append("f");
    // Whoever names the file where it is now is its writer.
    world.ok(commit("g", writer.session, PublishKind::Close, blocks));
}

#[test]
fn conditional_writes_are_checked_again_at_the_commit() {
    let mut world = World::fso();
    let file = world.file("f", &[1]);
    let conditional =
        |key: &str, expected| open_with(key, |open| open.expected_update = Some(expected));
    let lost = opened(world.ok(conditional("f", file.update_id)));
    let won = opened(world.ok(conditional("f", file.update_id)));
    world.ok(commit("f", won.session, PublishKind::Close, Vec::new()));
    assert_eq!(
        world.refused(commit("f", lost.session, PublishKind::Close, Vec::new())),
        RefusalKind::WriteConflict
    );
    let fresh = opened(world.ok(conditional("g", 0)));
    world.file("g", &[1]);
    assert_eq!(
        world.refused(commit("g", fresh.session, PublishKind::Close, Vec::new())),
        RefusalKind::WriteConflict
    );
    // Its own hsync does not make a writer lose.
    let synced = opened(world.ok(conditional("h", 0)));
    world.ok(commit(
        "h",
        synced.session,
        PublishKind::Hsync,
        vec![block(&synced.blocks[0], 1)],
    ));
    world.ok(commit(
        "h",
        synced.session,
        PublishKind::Close,
        vec![block(&synced.blocks[0], 2)],
    ));
}

#[test]
fn nobody_else_writes_while_an_appender_owns_the_file() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        world.file("f", &[10]);
        let early = world.open("g");
        let created = world.file("g", &[1]);
        assert_eq!(created.size, 1);
        // A writer that opened where now an appended file stands.
        world.ok(rename("g", "h"));
        let late = world.open("x");
        let admitted = world.append("f");
        world.ok(rename("f", "x"));
        for command in [
            open_key("x", 0),
            open_with("x", |open| open.as_file = false),
            commit(
                "x",
                late.session,
                PublishKind::Close,
                vec![block(&late.blocks[0], 1)],
            ),
            commit(
                "x",
                late.session,
                PublishKind::Hsync,
                vec![block(&late.blocks[0], 1)],
            ),
            commit("x", admitted.handle.session, PublishKind::Close, Vec::new()),
        ] {
            assert_eq!(world.refused(command), RefusalKind::ConflictAppend);
        }
        assert_eq!(
            world.refused(open_with("x", |open| open.overwrite = false)),
            RefusalKind::FileExists
        );
        world.ok(publish(admitted.handle, PublishKind::Close, 10, Vec::new()));
        world.ok(commit("g", early.session, PublishKind::Close, Vec::new()));
    }
}

#[test]
fn a_commit_must_name_the_path_at_which_its_writer_stands() {
    let mut world = World::fso();
    let writer = world.open("d/f");
    let close = |key: &str| commit(key, writer.session, PublishKind::Close, Vec::new());
    assert_eq!(world.refused(close("d/g")), RefusalKind::KeyNotFound);
    world.ok(rename("d", "e"));
    assert_eq!(world.refused(close("d/f")), RefusalKind::KeyNotFound);
    world.ok(close("e/f"));
    let nameless = Command::AllocateBlock(AllocateBlock {
        target: Target::default(),
        holder: 1,
    });
    assert_eq!(world.refused(nameless), RefusalKind::InvalidRequest);
}

#[test]
fn a_directory_that_was_made_at_the_name_refuses_the_commit() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        let writer = world.open("f");
        world.ok(mkdir("f"));
        let close = commit("f", writer.session, PublishKind::Close, Vec::new());
        assert_eq!(world.refused(close), RefusalKind::NotAFile);
    }
}

#[test]
fn blocks_are_allocated_for_the_writer_that_stands_at_the_path() {
    let mut world = World::fso();
    let writer = world.open("f");
    let at = |key: &str, session, holder| {
        Command::AllocateBlock(AllocateBlock {
            target: Target {
                handle: None,
                path: Some(path(key)),
                session,
            },
            holder,
        })
    };
    world.ok(at("f", writer.session, 1));
    assert_eq!(
        world.refused(at("f", writer.session, 5)),
        RefusalKind::RetryLater
    );
    assert_eq!(
        world.refused(at("g", writer.session, 1)),
        RefusalKind::KeyNotFound
    );
    assert_eq!(
        world.refused(at("f", writer.session + 1, 1)),
        RefusalKind::KeyNotFound
    );
    world.limit(|limits| limits.max_blocks_per_file = 2);
    assert_eq!(
        world.refused(at("f", writer.session, 1)),
        RefusalKind::TooManyBlocks
    );
}

#[test]
fn keys_of_an_object_store_are_literal() {
    let mut world = World::new(Layout::ObjectStore);
    for key in ["/a//b", "a/", "a", "a:b", "../x"] {
        let writer = opened(world.ok(open_with(key, |open| open.as_file = false)));
        world.ok(commit(
            key,
            writer.session,
            PublishKind::Close,
            vec![block(&writer.blocks[0], 1)],
        ));
        assert_eq!(world.view(key).path.key, key);
    }
    assert_eq!(world.bucket().used_names, 5);
}

#[test]
fn reserved_metadata_is_the_servers() {
    let mut world = World::fso();
    let pair = |key: &str| crate::command::Pair {
        key: key.into(),
        value: "x".into(),
    };
    let writer = opened(world.ok(open_with("f", |open| {
        open.metadata = vec![pair("hsyncClientId"), pair("a")]
    })));
    let mut close = commit("f", writer.session, PublishKind::Close, Vec::new());
    if let Command::Publish(publish) = &mut close {
        publish.metadata = vec![pair("leaseRecovery"), pair("b")];
    }
    world.ok(close);
    assert_eq!(world.view("f").metadata, [pair("a"), pair("b")]);
}

#[test]
fn quotas_are_checked_when_opening_and_when_committing() {
    let mut world = World::fso();
    let set = |bytes, names| {
        Command::SetBucket(crate::command::SetBucket {
            name: crate::command::BucketName {
                volume: "vol".into(),
                bucket: "bucket".into(),
            },
            quota_bytes: Some(bytes),
            quota_names: Some(names),
            ..crate::command::SetBucket::default()
        })
    };
    let early = [world.open("a"), world.open("b")];
    world.ok(set(10, 1));
    assert_eq!(
        world.refused(open_with("c", |_| {})),
        RefusalKind::QuotaExceeded
    );
    assert_eq!(
        world.refused(open_with("d/c", |open| open.holders.clear())),
        RefusalKind::QuotaExceeded
    );
    assert_eq!(
        world.refused(commit(
            "a",
            early[0].session,
            PublishKind::Close,
            vec![block(&early[0].blocks[0], 11)]
        )),
        RefusalKind::QuotaExceeded
    );
    world.ok(commit(
        "a",
        early[0].session,
        PublishKind::Close,
        vec![block(&early[0].blocks[0], 10)],
    ));
    assert_eq!(
        world.refused(commit(
            "b",
            early[1].session,
            PublishKind::Close,
            Vec::new()
        )),
        RefusalKind::QuotaExceeded
    );
    assert_eq!(world.refused(mkdir("d")), RefusalKind::QuotaExceeded);
    // An overwrite that fits in what it frees is no growth.
    let again = opened(world.ok(open_with("a", |open| open.holders.clear())));
    world.ok(commit("a", again.session, PublishKind::Close, Vec::new()));
}
