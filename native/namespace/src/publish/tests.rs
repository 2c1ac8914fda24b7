use super::*;
use crate::command::{Command, CreateMode, Layout, Pair, SetTimes};
use crate::testing::{World, allocate, block, commit, delete, open_key, path, publish, rename};

/// A world in which `f` has a prefix of 10 bytes and an appender.
fn appended() -> (World, crate::reply::Admitted) {
    let mut world = World::fso();
    world.file("f", &[10]);
    let admitted = world.append("f");
    (world, admitted)
}

#[test]
fn hsync_publishes_the_suffix_and_keeps_the_owner() {
    let (mut world, admitted) = appended();
    let before = world.view("f");
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        14,
        vec![block(&admitted.blocks[0], 4)],
    ));
    let view = world.view("f");
    assert_eq!(
        (view.size, view.block_count, view.generation),
        (14, 2, before.generation)
    );
    assert_eq!(view.append_owner, Some(admitted.handle.session));
    assert_eq!(view.hsync_session, Some(admitted.handle.session));
    assert!(view.modified_ms > before.modified_ms && view.update_id > before.update_id);
    assert_eq!(world.bucket().used_bytes, 14);
    let second = world.allocate(admitted.handle);
    let blocks = vec![block(&admitted.blocks[0], 6), block(&second, 3)];
    world.ok(publish(admitted.handle, PublishKind::Hsync, 19, blocks));
    assert_eq!(world.bucket().used_bytes, 19);
    // From the last published block on is enough.
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        21,
        vec![block(&second, 5)],
    ));
    let lengths: Vec<u64> = world
        .blocks("f")
        .iter()
        .map(|(_, _, length)| *length)
        .collect();
    assert_eq!(lengths, [10, 6, 5]);
    let view = world.view("f");
    assert_eq!(
        (view.append_owner, view.hsync_session, view.prefix_length),
        (None, None, None)
    );
    assert_eq!(
        (world.bucket().used_bytes, world.bucket().used_names),
        (21, 1)
    );
}

#[test]
fn an_empty_append_leaves_length_time_blocks_and_quota() {
    let mut world = World::fso();
    let before = world.file("f", &[256]);
    let usage = world.bucket();
    for _ in 0..5 {
        let admitted = world.append("f");
        world.ok(publish(
            admitted.handle,
            PublishKind::Close,
            256,
            Vec::new(),
        ));
        let empty = world.append("f");
        world.ok(publish(
            empty.handle,
            PublishKind::Close,
            256,
            vec![block(&empty.blocks[0], 0)],
        ));
        assert_eq!(world.view("f"), before);
        assert_eq!(world.bucket(), usage);
    }
    world.append("f");
}

#[test]
fn an_unchanged_hsync_changes_nothing() {
    let (mut world, admitted) = appended();
    let blocks = vec![block(&admitted.blocks[0], 4)];
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        14,
        blocks.clone(),
    ));
    let before = world.rows.without_bookkeeping();
    world.ok(publish(admitted.handle, PublishKind::Hsync, 14, blocks));
    world.ok(publish(admitted.handle, PublishKind::Hsync, 14, Vec::new()));
    assert_eq!(world.rows.without_bookkeeping(), before);
}

#[test]
fn close_moves_the_time_when_bytes_were_published_before() {
    let (mut world, admitted) = appended();
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        14,
        vec![block(&admitted.blocks[0], 4)],
    ));
    world.ok(Command::SetTimes(SetTimes {
        path: path("f"),
        modified_ms: 1_000,
    }));
    assert_eq!(world.view("f").modified_ms, 1_000);
    world.ok(publish(admitted.handle, PublishKind::Close, 14, Vec::new()));
    assert_eq!(world.view("f").modified_ms, world.wall_ms);
}

#[test]
fn publication_merges_with_attributes_that_changed_meanwhile() {
    let mut world = World::fso();
    let mut open = open_key("f", 1);
    if let Command::OpenKey(open) = &mut open {
        open.metadata = vec![
            Pair {
                key: "k".into(),
                value: "v".into(),
            },
            Pair {
                key: "ETag".into(),
                value: "whole".into(),
            },
        ];
    }
    let Some(crate::reply::Answer::Opened(opened)) = world.ok(open).answer else {
        panic!()
    };
    world.ok(commit(
        "f",
        opened.session,
        PublishKind::Close,
        vec![block(&opened.blocks[0], 10)],
    ));
    assert_eq!(world.view("f").metadata.len(), 2);
    let admitted = world.append("f");
    world.ok(Command::SetTimes(SetTimes {
        path: path("f"),
        modified_ms: 77,
    }));
    world.ok(publish(admitted.handle, PublishKind::Hsync, 10, Vec::new()));
    let view = world.view("f");
    assert_eq!(
        (
            view.modified_ms,
            view.metadata.len(),
            view.append_owner.is_some()
        ),
        (77, 2, true)
    );
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        11,
        vec![block(&admitted.blocks[0], 1)],
    ));
    assert_eq!(
        world.view("f").metadata,
        [Pair {
            key: "k".into(),
            value: "v".into()
        }]
    );
}

#[test]
fn a_publication_that_does_not_fit_is_refused_and_changes_nothing() {
    let (mut world, admitted) = appended();
    let prefix = world.blocks("f")[0];
    let prefix = SubmittedBlock {
        container: prefix.0,
        local: prefix.1,
        length: 10,
        ..SubmittedBlock::default()
    };
    let first = block(&admitted.blocks[0], 4);
    let second = block(&world.allocate(admitted.handle), 3);
    let third = block(&world.allocate(admitted.handle), 2);
    let other = {
        let opened = world.open("g");
        block(&opened.blocks[0], 5)
    };
    let unknown = SubmittedBlock {
        container: 9,
        local: 9,
        length: 4,
        ..SubmittedBlock::default()
    };
    let handle = admitted.handle;
    for kind in [PublishKind::Hsync, PublishKind::Close] {
        for (size, blocks) in [
            (15, vec![first]),
            (13, vec![first]),
            (9, Vec::new()),
            (11, Vec::new()),
            (14, vec![unknown]),
            (15, vec![other]),
            (14, vec![prefix, first]),
            (20, vec![prefix, prefix]),
            (18, vec![first, first]),
            (
                u64::MAX,
                vec![SubmittedBlock {
                    length: u64::MAX,
                    ..first
                }],
            ),
        ] {
            assert_eq!(
                world.refused(publish(handle, kind, size, blocks)),
                RefusalKind::BadPublication,
                "{size}"
            );
        }
    }
    world.ok(publish(handle, PublishKind::Hsync, 17, vec![first, second]));
    let grown = |block: SubmittedBlock, by: u64| SubmittedBlock {
        length: block.length + by,
        ..block
    };
    let moved = SubmittedBlock {
        start_in_block: 1,
        ..second
    };
    for (why, size, blocks) in [
        (
            "shorter than published",
            16,
            vec![
                first,
                SubmittedBlock {
                    length: 2,
                    ..second
                },
            ],
        ),
        ("only a part of what is published", 14, vec![first]),
        ("behind the last published block", 19, vec![third]),
        ("an earlier block grew", 18, vec![grown(first, 1), second]),
        (
            "the last block shrank under a new one",
            18,
            vec![
                SubmittedBlock {
                    length: 2,
                    ..second
                },
                third,
            ],
        ),
        ("another order", 17, vec![second, first]),
        ("another start in the block", 17, vec![first, moved]),
        ("length went down", 16, Vec::new()),
    ] {
        assert_eq!(
            world.refused(publish(handle, PublishKind::Hsync, size, blocks.clone())),
            RefusalKind::BadPublication,
            "{why}"
        );
        assert_eq!(
            world.refused(publish(handle, PublishKind::Close, size, blocks)),
            RefusalKind::BadPublication,
            "{why}"
        );
    }
    world.ok(publish(
        handle,
        PublishKind::Close,
        20,
        vec![grown(second, 1), third],
    ));
}

#[test]
fn publication_past_the_most_blocks_is_refused() {
    let (mut world, admitted) = appended();
    let second = world.allocate(admitted.handle);
    world.limit(|limits| limits.max_blocks_per_file = 2);
    let blocks = vec![block(&admitted.blocks[0], 1), block(&second, 1)];
    assert_eq!(
        world.refused(publish(admitted.handle, PublishKind::Close, 12, blocks)),
        RefusalKind::TooManyBlocks
    );
    assert_eq!(
        world.refused(allocate(admitted.handle)),
        RefusalKind::TooManyBlocks
    );
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        11,
        vec![block(&admitted.blocks[0], 1)],
    ));
}

#[test]
fn close_ends_the_session_and_hands_unused_blocks_to_reclamation() {
    let (mut world, admitted) = appended();
    let unused = world.allocate(admitted.handle);
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        14,
        vec![block(&admitted.blocks[0], 4)],
    ));
    for keyspace in [
        Keyspace::Open,
        Keyspace::OpenByName,
        Keyspace::Renewals,
        Keyspace::Allocations,
    ] {
        assert!(
            crate::rows::Rows::range(&world.rows, keyspace, &[], None, 1)
                .unwrap()
                .is_empty()
        );
    }
    let rows = crate::rows::Rows::range(&world.rows, Keyspace::DeletedFiles, &[], None, 9).unwrap();
    let row: crate::record::DeletedFileRow =
        table::decode(Keyspace::DeletedFiles, &rows[0].1).unwrap();
    assert_eq!(
        row.unused,
        [crate::record::BlockName {
            container: unused.container,
            local: unused.local
        }]
    );
    let late = publish(admitted.handle, PublishKind::Close, 14, Vec::new());
    assert_eq!(world.refused(late), RefusalKind::Uncertain);
    assert_eq!(
        world.refused(allocate(admitted.handle)),
        RefusalKind::SessionUnknown
    );
    assert_eq!(
        world.renew(&[admitted.handle])[0].refused(),
        RefusalKind::SessionUnknown
    );
}

#[test]
fn a_handle_that_names_another_file_is_refused() {
    let (mut world, admitted) = appended();
    let wrong = crate::command::Handle {
        file: admitted.handle.file + 1,
        ..admitted.handle
    };
    assert_eq!(
        world.refused(publish(wrong, PublishKind::Close, 10, Vec::new())),
        RefusalKind::IdentityMismatch
    );
    assert_eq!(
        world.refused(allocate(wrong)),
        RefusalKind::IdentityMismatch
    );
    assert_eq!(
        world.renew(&[wrong])[0].refused(),
        RefusalKind::IdentityMismatch
    );
    let elsewhere = crate::command::Handle {
        bucket: admitted.handle.bucket + 1,
        ..admitted.handle
    };
    assert_eq!(
        world.refused(allocate(elsewhere)),
        RefusalKind::SessionUnknown
    );
}

#[test]
fn a_fenced_writer_can_do_nothing() {
    let (mut world, admitted) = appended();
    world.fence("f");
    for kind in [PublishKind::Hsync, PublishKind::Close] {
        let late = publish(
            admitted.handle,
            kind,
            14,
            vec![block(&admitted.blocks[0], 4)],
        );
        assert_eq!(world.refused(late), RefusalKind::Fenced);
    }
    assert_eq!(
        world.refused(allocate(admitted.handle)),
        RefusalKind::Fenced
    );
    assert_eq!(
        world.renew(&[admitted.handle])[0].refused(),
        RefusalKind::Fenced
    );
}

#[test]
fn a_block_holds_no_more_than_its_capacity() {
    let mut world = World::fso();
    world.limit(|limits| limits.block_size = 100);
    let session = world.create("f", CreateMode::MustBeNew);
    let close = |length| {
        publish(
            session.handle,
            PublishKind::Close,
            length,
            vec![block(&session.blocks[0], length)],
        )
    };
    assert_eq!(world.refused(close(101)), RefusalKind::BadPublication);
    world.ok(close(100));
}

#[test]
fn deleting_the_file_invalidates_its_session() {
    let (mut world, admitted) = appended();
    world.ok(delete("f", false));
    let late = publish(
        admitted.handle,
        PublishKind::Close,
        14,
        vec![block(&admitted.blocks[0], 4)],
    );
    assert_eq!(world.refused(late.clone()), RefusalKind::Invalidated);
    assert_eq!(
        world.refused(allocate(admitted.handle)),
        RefusalKind::Invalidated
    );
    assert_eq!(
        world.renew(&[admitted.handle])[0].refused(),
        RefusalKind::Invalidated
    );
    assert!(!world.there("f"));
    world.file("f", &[3]);
    assert_eq!(world.refused(late), RefusalKind::Invalidated);
    assert_eq!((world.view("f").size, world.bucket().used_bytes), (3, 3));
}

#[test]
fn deleting_an_ancestor_stops_allocation_and_publication_but_not_renewal() {
    let mut world = World::fso();
    world.file("a/b/c/f", &[10]);
    let admitted = world.append("a/b/c/f");
    world.ok(delete("a", true));
    let late = publish(
        admitted.handle,
        PublishKind::Hsync,
        14,
        vec![block(&admitted.blocks[0], 4)],
    );
    assert_eq!(world.refused(late.clone()), RefusalKind::Unreachable);
    assert_eq!(
        world.refused(allocate(admitted.handle)),
        RefusalKind::Unreachable
    );
    assert!(world.renew(&[admitted.handle])[0].refused.is_none());
    // The same path again is another tree.
    world.file("a/b/c/f", &[3]);
    assert_eq!(world.refused(late), RefusalKind::Unreachable);
    assert_eq!(world.view("a/b/c/f").size, 3);
}

#[test]
fn renaming_the_file_or_an_ancestor_keeps_the_session() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        world.file("logs/current", &[10]);
        let admitted = world.append("logs/current");
        world.lease_ms += 1_000;
        world.ok(rename("logs/current", "logs/previous"));
        world.file("logs/current", &[3]);
        world.ok(publish(
            admitted.handle,
            PublishKind::Hsync,
            14,
            vec![block(&admitted.blocks[0], 4)],
        ));
        if layout == Layout::FileSystemOptimized {
            world.ok(rename("logs", "old"));
            world.mkdir("logs").unwrap();
            world.ok(rename("old/current", "logs/current"));
        } else {
            world.ok(rename("logs/previous", "old/previous"));
        }
        let status = crate::read::append_status(&world.rows, &path("old/previous"))
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!((status.last_renewed_ms, status.renewals), (1_000, 0));
        assert_eq!(
            world.refused(crate::testing::append("old/previous", CreateMode::No)),
            RefusalKind::ConflictAppend
        );
        let next = world.allocate(admitted.handle);
        let blocks = vec![block(&admitted.blocks[0], 4), block(&next, 5)];
        world.ok(publish(admitted.handle, PublishKind::Close, 19, blocks));
        assert_eq!(
            (
                world.view("old/previous").size,
                world.view("logs/current").size
            ),
            (19, 3)
        );
        world.append("logs/current");
    }
}

#[test]
fn publication_past_the_space_quota_is_refused() {
    let (mut world, admitted) = appended();
    let set = |quota: i64| {
        Command::SetBucket(crate::command::SetBucket {
            name: crate::command::BucketName {
                volume: "vol".into(),
                bucket: "bucket".into(),
            },
            quota_bytes: Some(quota),
            ..crate::command::SetBucket::default()
        })
    };
    world.ok(set(12));
    let close = |size: u64| {
        publish(
            admitted.handle,
            PublishKind::Close,
            size,
            vec![block(&admitted.blocks[0], size - 10)],
        )
    };
    assert_eq!(world.refused(close(13)), RefusalKind::QuotaExceeded);
    assert_eq!(
        world.refused(allocate(admitted.handle)),
        RefusalKind::QuotaExceeded
    );
    assert_eq!(world.refused(set(9)), RefusalKind::QuotaExceeded);
    world.ok(close(12));
    assert_eq!(world.bucket().used_bytes, 12);
}

#[test]
fn commit_sequences_are_kept_with_the_block() {
    let (mut world, admitted) = appended();
    let given = SubmittedBlock {
        bcsid: 7,
        ..block(&admitted.blocks[0], 4)
    };
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        14,
        vec![given],
    ));
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        14,
        vec![SubmittedBlock { bcsid: 9, ..given }],
    ));
    let range = crate::read::blocks(&world.rows, &world.view("f"), 0, 9)
        .unwrap()
        .unwrap();
    assert_eq!((range.blocks[1].bcsid, range.blocks[1].holder), (9, 1));
}
