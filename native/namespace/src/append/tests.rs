use super::*;
use crate::command::{CreateMode, Handle, MAX_RECOVERED, PublishKind, Replication};
use crate::key;
use crate::read;
use crate::reply::WriterKind;
use crate::rows::{Change, Keyspace};
use crate::testing::{
    World, allocate, append, block, commit, delete, open_key, path, publish, rename,
};
use prost::Message;

#[test]
fn admit_adds_the_owner_and_changes_nothing_that_is_published() {
    let mut world = World::fso();
    let before = world.file("d/f", &[10, 5]);
    world.wall_ms += 1_000;
    let admitted = world.append("d/f");
    assert_eq!(
        (
            admitted.prefix_length,
            admitted.prefix_blocks,
            admitted.published_length
        ),
        (15, 2, 15)
    );
    assert_eq!(
        (admitted.created, admitted.ordinary, admitted.blocks.len()),
        (false, false, 1)
    );
    assert_eq!(admitted.soft_limit_ms, 60_000);
    let after = world.view("d/f");
    assert_eq!(after.append_owner, Some(admitted.handle.session));
    assert_eq!(after.prefix_length, Some(15));
    let unowned = crate::view::FileView {
        append_owner: None,
        prefix_length: None,
        ..after
    };
    assert_eq!(unowned, before);
    assert_eq!(world.bucket().used_bytes, 15);
}

#[test]
fn admit_is_refused_where_append_makes_no_sense() {
    let mut world = World::fso();
    world.file("d/f", &[10]);
    let cases = [
        ("missing", RefusalKind::FileNotFound),
        ("d/missing", RefusalKind::FileNotFound),
        ("no/parent/f", RefusalKind::FileNotFound),
        ("d/f/below", RefusalKind::FileNotFound),
        ("d", RefusalKind::NotAFile),
        ("", RefusalKind::NotAFile),
        (".snapshot/s1/d/f", RefusalKind::InvalidKeyName),
        ("d/../f", RefusalKind::InvalidKeyName),
    ];
    for (key, expected) in cases {
        assert_eq!(
            world.refused(append(key, CreateMode::No)),
            expected,
            "{key}"
        );
    }
    let mut elsewhere = append("f", CreateMode::No);
    if let crate::command::Command::AppendFile(append) = &mut elsewhere {
        append.path.bucket = "missing".into();
    }
    assert_eq!(
        world.refused(elsewhere.clone()),
        RefusalKind::BucketNotFound
    );
    if let crate::command::Command::AppendFile(append) = &mut elsewhere {
        append.path.volume = "missing".into();
    }
    assert_eq!(world.refused(elsewhere), RefusalKind::VolumeNotFound);
    let (open, _, total) = read::open_files(&world.rows, None, &[], 10)
        .unwrap()
        .unwrap();
    assert!(open.is_empty() && total == 0);
}

#[test]
fn object_store_buckets_refuse_append_and_creation_with_a_session() {
    let mut world = World::new(Layout::ObjectStore);
    world.file("f", &[10]);
    for mode in [
        CreateMode::No,
        CreateMode::IfMissing,
        CreateMode::MustBeNew,
        CreateMode::Overwrite,
    ] {
        assert_eq!(
            world.refused(append("f", mode)),
            RefusalKind::AppendUnsupported
        );
        assert_eq!(
            world.refused(append("g", mode)),
            RefusalKind::AppendUnsupported
        );
    }
}

#[test]
fn switched_off_append_refuses_new_sessions_and_lets_open_ones_finish() {
    let mut world = World::fso();
    world.file("f", &[10]);
    world.file("g", &[10]);
    let admitted = world.append("f");
    world.limit(|limits| limits.append_enabled = false);
    assert_eq!(
        world.refused(append("g", CreateMode::No)),
        RefusalKind::AppendDisabled
    );
    assert_eq!(
        world.refused(append("h", CreateMode::IfMissing)),
        RefusalKind::AppendDisabled
    );
    world.allocate(admitted.handle);
    assert!(world.renew(&[admitted.handle])[0].refused.is_none());
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        13,
        vec![block(&admitted.blocks[0], 3)],
    ));
}

#[test]
fn a_second_appender_is_told_who_holds_the_file_and_for_how_long() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let admitted = world.append("f");
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        14,
        vec![block(&admitted.blocks[0], 4)],
    ));
    world.lease_ms += 20_000;
    world.renew(&[admitted.handle]);
    world.lease_ms += 15_000;
    for mode in [CreateMode::No, CreateMode::IfMissing, CreateMode::Overwrite] {
        let refusal = world.refusal(append("f", mode));
        assert_eq!(refusal.kind(), RefusalKind::ConflictAppend);
        let status = refusal.conflict.unwrap();
        assert_eq!(status.writer(), WriterKind::Append);
        assert_eq!(
            (status.handle, status.phase()),
            (Some(admitted.handle), Phase::Active)
        );
        assert_eq!(
            (status.last_renewed_ms, status.renewals, status.remaining_ms),
            (21_000, 1, 45_000)
        );
        assert_eq!(
            (
                status.prefix_length,
                status.published_length,
                status.suffix_blocks
            ),
            (10, 14, 1)
        );
        assert_eq!(
            (status.owner.as_str(), status.created),
            ("libappend", false)
        );
    }
    world.lease_ms += 100_000;
    assert_eq!(
        world
            .refusal(append("f", CreateMode::No))
            .conflict
            .unwrap()
            .remaining_ms,
        0
    );
    assert_eq!(
        world.refused(append("f", CreateMode::MustBeNew)),
        RefusalKind::FileExists
    );
}

#[test]
fn a_file_under_recovery_is_told_as_such() {
    let mut world = World::fso();
    world.file("f", &[10]);
    world.append("f");
    world.fence("f");
    assert_eq!(
        world.refused(append("f", CreateMode::No)),
        RefusalKind::Recovering
    );
    assert_eq!(world.refused(open_key("f", 0)), RefusalKind::Recovering);
}

#[test]
fn admit_waits_for_ordinary_writers() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let opened = world.open("f");
    let refusal = world.refusal(append("f", CreateMode::No));
    assert_eq!(refusal.kind(), RefusalKind::ConflictOrdinary);
    let status = refusal.conflict.unwrap();
    assert_eq!(
        (status.writer(), status.handle.unwrap().session),
        (WriterKind::Ordinary, opened.session)
    );
    let blocks = vec![block(&opened.blocks[0], 7)];
    world.ok(commit(
        "f",
        opened.session,
        PublishKind::Hsync,
        blocks.clone(),
    ));
    let refusal = world.refusal(append("f", CreateMode::No));
    assert_eq!(refusal.kind(), RefusalKind::ConflictHsync);
    assert_eq!(refusal.conflict.unwrap().published_length, 7);
    world.ok(commit("f", opened.session, PublishKind::Close, blocks));
    assert_eq!(world.append("f").prefix_length, 7);
}

#[test]
fn a_writer_at_another_name_is_not_in_the_way() {
    let mut world = World::fso();
    world.file("f", &[10]);
    world.open("fa");
    world.open("d/f");
    world.append("f");
}

#[test]
fn a_file_with_the_most_blocks_is_refused_clearly() {
    let mut world = World::fso();
    world.limit(|limits| limits.max_blocks_per_file = 2);
    world.file("f", &[1, 1]);
    assert_eq!(
        world.refused(append("f", CreateMode::No)),
        RefusalKind::TooManyBlocks
    );
}

/// A recovery is told so many blocks and no more; the row says that the session was given them, without that they are.
#[test]
fn a_session_holds_no_more_unsynced_blocks_than_a_recovery_is_told() {
    let mut world = World::fso();
    world.file("f", &[1, 1]);
    let handle = world.append("f").handle;
    let mut open = table::open(&world.rows, handle.bucket, handle.session)
        .unwrap()
        .unwrap();
    let mut holding = |given: u64| {
        open.given = given;
        world.rows.apply(vec![Change {
            keyspace: Keyspace::Open,
            key: key::two(handle.bucket, handle.session).into(),
            value: Some(open.encode_to_vec().into()),
        }]);
        let request = world.request(allocate(handle));
        world.send(request)
    };
    holding(MAX_RECOVERED - 2).unwrap();
    let refused = holding(MAX_RECOVERED - 1).unwrap_err();
    assert_eq!(refused.kind(), RefusalKind::TooManyBlocks);
    assert!(refused.detail.contains("sync"), "{}", refused.detail);
}

#[test]
fn erasure_coding_is_refused_by_type() {
    let mut world = World::fso();
    let mut create = append("f", CreateMode::IfMissing);
    if let crate::command::Command::AppendFile(append) = &mut create {
        append.replication = Some(Replication { kind: 4, factor: 0 });
    }
    assert_eq!(world.refused(create), RefusalKind::Unsupported);
}

#[test]
fn every_admission_gives_a_fresh_session_and_keeps_the_identity() {
    let mut world = World::fso();
    let file = world.file("f", &[10]);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let admitted = world.append("f");
        assert!(seen.insert(admitted.handle.session));
        assert_eq!(admitted.handle.file, file.object_id);
        world.ok(publish(admitted.handle, PublishKind::Close, 10, Vec::new()));
    }
}

#[test]
fn create_of_a_missing_file_shows_it_at_once_with_a_session() {
    for mode in [
        CreateMode::IfMissing,
        CreateMode::MustBeNew,
        CreateMode::Overwrite,
    ] {
        let mut world = World::fso();
        let admitted = world.create("a/b/f", mode);
        assert!(admitted.created && !admitted.ordinary);
        let view = world.view("a/b/f");
        assert_eq!(
            (view.size, view.append_owner),
            (0, Some(admitted.handle.session))
        );
        assert_eq!(world.bucket().used_names, 3);
        assert!(
            read::append_status(&world.rows, &path("a/b/f"))
                .unwrap()
                .unwrap()
                .unwrap()
                .created
        );
        assert_eq!(
            world.refused(append("a/b/f", CreateMode::No)),
            RefusalKind::ConflictAppend
        );
        assert_eq!(
            world.refused(append("a/b/f", CreateMode::MustBeNew)),
            RefusalKind::FileExists
        );
        world.ok(publish(
            admitted.handle,
            PublishKind::Hsync,
            4,
            vec![block(&admitted.blocks[0], 4)],
        ));
        assert_eq!(world.view("a/b/f").size, 4);
        world.ok(publish(
            admitted.handle,
            PublishKind::Close,
            6,
            vec![block(&admitted.blocks[0], 6)],
        ));
        assert_eq!(
            (world.view("a/b/f").size, world.view("a/b/f").append_owner),
            (6, None)
        );
        assert_eq!(
            (world.bucket().used_names, world.bucket().used_bytes),
            (3, 6)
        );
    }
}

#[test]
fn create_makes_parents_only_when_asked() {
    let mut world = World::fso();
    let mut create = append("a/b/f", CreateMode::IfMissing);
    if let crate::command::Command::AppendFile(append) = &mut create {
        append.recursive = false;
    }
    assert_eq!(
        world.refused(create.clone()),
        RefusalKind::DirectoryNotFound
    );
    world.mkdir("a/b").unwrap();
    world.ok(create);
    assert_eq!(
        world.refused(append("a/b/f/g", CreateMode::IfMissing)),
        RefusalKind::NotAFile
    );
    assert_eq!(
        world.refused(append("a/b", CreateMode::Overwrite)),
        RefusalKind::NotAFile
    );
}

#[test]
fn an_overwriting_create_ends_a_creating_session_and_makes_a_fresh_identity() {
    let mut world = World::fso();
    let first = world.create("f", CreateMode::Overwrite);
    world.ok(publish(
        first.handle,
        PublishKind::Hsync,
        4,
        vec![block(&first.blocks[0], 4)],
    ));
    let second = world.create("f", CreateMode::Overwrite);
    assert!(second.created && !second.ordinary);
    assert_ne!(second.handle.file, first.handle.file);
    assert_eq!(
        (
            world.view("f").size,
            world.bucket().used_bytes,
            world.bucket().used_names
        ),
        (0, 0, 1)
    );
    let late = publish(
        first.handle,
        PublishKind::Close,
        8,
        vec![block(&first.blocks[0], 8)],
    );
    assert_eq!(world.refused(late), RefusalKind::Invalidated);
    assert_eq!(
        world.renew(&[first.handle])[0].refused(),
        RefusalKind::Invalidated
    );
    world.ok(publish(
        second.handle,
        PublishKind::Close,
        2,
        vec![block(&second.blocks[0], 2)],
    ));
    assert_eq!(world.view("f").size, 2);
}

#[test]
fn create_over_a_closed_file_is_an_ordinary_writer_whose_commit_replaces() {
    let mut world = World::fso();
    let old = world.file("f", &[10]);
    let admitted = world.create("f", CreateMode::Overwrite);
    assert!(admitted.ordinary && !admitted.created);
    assert_eq!(world.view("f").size, 10);
    assert_eq!(
        world.refused(append("f", CreateMode::No)),
        RefusalKind::ConflictOrdinary
    );
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        3,
        vec![block(&admitted.blocks[0], 3)],
    ));
    let new = world.view("f");
    assert_eq!(
        (new.size, new.object_id, new.created_ms),
        (3, old.object_id, old.created_ms)
    );
    assert_ne!(new.generation, old.generation);
    assert_eq!(world.bucket().used_bytes, 3);
}

#[test]
fn create_beside_an_ordinary_writer_is_an_ordinary_writer() {
    let mut world = World::fso();
    let opened = world.open("f");
    for mode in [
        CreateMode::IfMissing,
        CreateMode::MustBeNew,
        CreateMode::Overwrite,
    ] {
        assert!(world.create("f", mode).ordinary);
    }
    assert!(!world.there("f"));
    world.ok(commit("f", opened.session, PublishKind::Close, Vec::new()));
    assert!(world.there("f"));
}

#[test]
fn a_killed_put_can_be_run_again_at_once() {
    let mut world = World::fso();
    let dead = world.create("dir/f._COPYING_", CreateMode::Overwrite);
    let again = world.create("dir/f._COPYING_", CreateMode::Overwrite);
    world.ok(publish(
        again.handle,
        PublishKind::Close,
        9,
        vec![block(&again.blocks[0], 9)],
    ));
    world.ok(rename("dir/f._COPYING_", "dir/f"));
    assert_eq!(world.view("dir/f").size, 9);
    assert_eq!(
        world.refused(crate::testing::allocate(dead.handle)),
        RefusalKind::Invalidated
    );
}

#[test]
fn an_ordinary_overwriter_may_open_over_a_creating_session_and_its_commit_ends_it() {
    let mut world = World::fso();
    let created = world.create("f", CreateMode::IfMissing);
    let opened = world.open("f");
    assert_eq!(world.view("f").append_owner, Some(created.handle.session));
    world.ok(commit(
        "f",
        opened.session,
        PublishKind::Close,
        vec![block(&opened.blocks[0], 5)],
    ));
    let view = world.view("f");
    assert_eq!((view.size, view.append_owner), (5, None));
    assert_ne!(view.object_id, created.handle.file);
    let late = publish(
        created.handle,
        PublishKind::Close,
        1,
        vec![block(&created.blocks[0], 1)],
    );
    assert_eq!(world.refused(late), RefusalKind::Invalidated);
}

#[test]
fn a_create_that_fails_before_its_stream_is_returned_is_undone_by_handle() {
    let mut world = World::fso();
    let created = world.create("f", CreateMode::IfMissing);
    world.ok(rename("f", "g"));
    world.file("f", &[1]);
    let undo = |handle: Handle| {
        crate::command::Command::Delete(crate::command::Delete {
            path: path("f"),
            recursive: false,
            created_by: Some(handle),
        })
    };
    world.ok(undo(created.handle));
    assert!(world.there("f") && !world.there("g"));
    let appended = world.append("f");
    assert_eq!(
        world.refused(undo(appended.handle)),
        RefusalKind::InvalidRequest
    );
    world.ok(delete("f", false));
    let ordinary = {
        world.open("h");
        world.create("h", CreateMode::IfMissing)
    };
    assert!(ordinary.ordinary);
    world.ok(undo(ordinary.handle));
    assert_eq!(
        world.refused(undo(ordinary.handle)),
        RefusalKind::SessionUnknown
    );
}

#[test]
fn a_block_at_an_unknown_holder_is_refused_for_now() {
    let mut world = World::fso();
    let mut create = append("f", CreateMode::IfMissing);
    if let crate::command::Command::AppendFile(append) = &mut create {
        append.holders = vec![7];
    }
    assert_eq!(world.refused(create), RefusalKind::RetryLater);
    assert!(!world.there("f"));
}

#[test]
fn legacy_buckets_append_by_full_key() {
    let mut world = World::new(Layout::Legacy);
    world.file("a/b/f", &[10]);
    let admitted = world.append("a//b/f");
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        12,
        vec![block(&admitted.blocks[0], 2)],
    ));
    assert_eq!(world.view("a/b/f").size, 12);
    assert_eq!(
        world.refused(append("a/b", CreateMode::No)),
        RefusalKind::NotAFile
    );
    assert_eq!(
        world.refused(append("a/b/f/x", CreateMode::IfMissing)),
        RefusalKind::NotAFile
    );
    assert!(world.create("c/d/g", CreateMode::MustBeNew).created);
    assert!(world.there("c/d") && world.there("c"));
}

#[test]
fn of_several_ordinary_writers_the_one_that_has_hsynced_is_told() {
    let mut world = World::fso();
    world.open("f");
    let synced = world.open("f");
    let blocks = vec![block(&synced.blocks[0], 7)];
    world.ok(commit("f", synced.session, PublishKind::Hsync, blocks));
    let refusal = world.refusal(append("f", CreateMode::No));
    assert_eq!(refusal.kind(), RefusalKind::ConflictHsync);
    let told = refusal.conflict.unwrap().handle.unwrap().session;
    assert_eq!(told, synced.session);
}
