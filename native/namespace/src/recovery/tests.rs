use crate::command::{CreateMode, Handle, PublishKind, StartRecovery};
use crate::read;
use crate::reply::{Phase, RefusalKind};
use crate::rows::{Keyspace, Rows};
use crate::testing::{
    World, allocate, append, block, commit, delete, open_key, path, publish, recover, rename,
};
use crate::{Command, command::Layout};

/// By a client that is not the owner.
fn by_another(world: &mut World, command: Command) -> crate::reply::Decided {
    let request = world.request_by("client-2", command);
    world.send(request)
}

fn kind(outcome: crate::reply::Decided) -> RefusalKind {
    outcome.unwrap_err().kind()
}

fn recovery(handle: Handle, size: u64, blocks: Vec<crate::command::SubmittedBlock>) -> Command {
    publish(handle, PublishKind::Recovery, size, blocks)
}

#[test]
fn others_wait_for_the_soft_limit_of_the_last_renewal_and_the_owner_does_not() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        world.file("d/f", &[10]);
        let session = world.append("d/f");
        world.pass(59_000);
        world.renew(&[session.handle]);
        world.pass(59_999);
        let early = by_another(&mut world, recover("d/f", false)).unwrap_err();
        assert_eq!(early.kind(), RefusalKind::NotEligible);
        assert_eq!(early.conflict.unwrap().remaining_ms, 1);
        assert!(world.renew(&[session.handle])[0].refused.is_none());
        world.pass(60_000);
        by_another(&mut world, recover("d/f", false)).unwrap();
        assert_eq!(
            world.renew(&[session.handle])[0].refused(),
            RefusalKind::Fenced
        );

        world.file("g", &[10]);
        world.append("g");
        world.ok(recover("g", false));
    }
}

#[test]
fn a_caller_that_cannot_finish_changes_nothing() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let session = world.append("f");
    let ozones = || {
        Command::StartRecovery(StartRecovery {
            path: path("f"),
            append_only: false,
            force: true,
        })
    };
    assert_eq!(world.refused(ozones()), RefusalKind::ConflictAppend);
    world.pass(60_000);
    assert_eq!(world.refused(ozones()), RefusalKind::Recovering);
    assert!(world.renew(&[session.handle])[0].refused.is_none());
    world.fence("f");
    assert_eq!(world.refused(ozones()), RefusalKind::Recovering);
}

#[test]
fn a_recovery_is_joined_and_ends_at_what_was_settled() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        world.file("d/f", &[10]);
        let session = world.append("d/f");
        let second = world.allocate(session.handle);
        let third = world.allocate(session.handle);
        let fourth = world.allocate(session.handle);
        let synced = vec![block(&session.blocks[0], 5), block(&second, 2)];
        world.ok(publish(session.handle, PublishKind::Hsync, 17, synced));
        let fenced = world.fence("d/f");
        assert!(fenced.append && !fenced.joined);
        let again = by_another(&mut world, recover("d/f", false)).unwrap();
        assert!(matches!(again.answer, Some(crate::reply::Answer::Fenced(again)) if again.joined));

        let view = read::recovery(&world.rows, &fenced.handle, 9)
            .unwrap()
            .unwrap();
        let told: Vec<(u64, u64)> = view
            .blocks
            .iter()
            .map(|block| (block.local, block.published))
            .collect();
        assert_eq!(
            told,
            [(second.local, 2), (third.local, 0), (fourth.local, 0)]
        );
        assert_eq!(
            (view.file.size, view.prefix_length, view.left_out),
            (17, 10, 0)
        );
        let few = read::recovery(&world.rows, &fenced.handle, 1)
            .unwrap()
            .unwrap();
        assert_eq!((few.blocks.len(), few.left_out), (1, 2));

        // The session follows its file, and so does the helper.
        world.ok(rename("d/f", "g"));
        let settled = vec![block(&second, 4), block(&third, 3)];
        let before = world.bucket().used_bytes;
        by_another(&mut world, recovery(fenced.handle, 22, settled)).unwrap();
        assert_eq!(world.view("g").size, 22);
        assert_eq!(world.bucket().used_bytes, before + 5);
        assert_eq!(world.view("g").append_owner, None);
        assert_eq!(world.view("g").hsync_session, None);
        let lengths: Vec<u64> = world.blocks("g").iter().map(|block| block.2).collect();
        assert_eq!(lengths, [10, 5, 4, 3]);
        // The fourth block went to reclamation.
        assert!(
            world
                .rows
                .range(Keyspace::Allocations, &[], None, 1)
                .unwrap()
                .is_empty()
        );
        for late in [
            publish(session.handle, PublishKind::Close, 17, Vec::new()),
            publish(session.handle, PublishKind::Hsync, 17, Vec::new()),
            recovery(session.handle, 22, Vec::new()),
            allocate(session.handle),
        ] {
            assert_eq!(world.refused(late), RefusalKind::Fenced);
        }
        world.append("g");
    }
}

#[test]
fn fault_16_a_file_without_blocks_recovers_to_its_published_length() {
    let mut world = World::fso();
    let created = world.create("f", CreateMode::MustBeNew);
    let fenced = world.fence("f");
    assert_eq!(fenced.handle, created.handle);
    world.ok(recovery(fenced.handle, 0, Vec::new()));
    assert_eq!(world.view("f").size, 0);
    assert_eq!(
        world.refused(recover("f", true)),
        RefusalKind::AlreadyClosed
    );
}

#[test]
fn fault_18_nothing_published_falls_away() {
    let mut world = World::fso();
    let session = world.create("f", CreateMode::MustBeNew);
    let synced = vec![block(&session.blocks[0], 8)];
    world.ok(publish(session.handle, PublishKind::Hsync, 8, synced));
    let fenced = world.fence("f");
    for (size, length) in [(7, 7), (0, 0), (9, 8)] {
        let blocks = vec![block(&session.blocks[0], length)];
        let short = recovery(fenced.handle, size, blocks);
        assert_eq!(world.refused(short), RefusalKind::BadPublication);
    }
    world.ok(recovery(fenced.handle, 8, Vec::new()));
}

#[test]
fn blocks_of_others_in_another_order_or_too_long_are_refused() {
    let mut world = World::fso();
    world.limit(|limits| limits.block_size = 10);
    let session = world.create("f", CreateMode::MustBeNew);
    let second = world.allocate(session.handle);
    let other = world.create("g", CreateMode::MustBeNew);
    let fenced = world.fence("f");
    let first = session.blocks[0];
    for blocks in [
        vec![block(&second, 2), block(&first, 2)],
        vec![block(&first, 2), block(&first, 2)],
        vec![block(&other.blocks[0], 4)],
        vec![block(&first, 11)],
    ] {
        let size = blocks.iter().map(|block| block.length).sum();
        let refused = world.refused(recovery(fenced.handle, size, blocks));
        assert_eq!(refused, RefusalKind::BadPublication);
    }
    // Of another session, of one that is not fenced, of none.
    assert_eq!(
        world.refused(recovery(other.handle, 0, Vec::new())),
        RefusalKind::BadPublication
    );
    let forged = Handle {
        session: u64::MAX >> 1,
        ..fenced.handle
    };
    assert_eq!(
        world.refused(recovery(forged, 0, Vec::new())),
        RefusalKind::SessionUnknown
    );
    let elsewhere = Handle {
        file: other.handle.file,
        ..fenced.handle
    };
    assert_eq!(
        world.refused(recovery(elsewhere, 0, Vec::new())),
        RefusalKind::IdentityMismatch
    );
}

#[test]
fn a_file_that_is_deleted_or_cut_off_is_not_recovered() {
    let mut world = World::fso();
    world.mkdir("d").unwrap();
    for (key, gone, told) in [
        ("f", "f", RefusalKind::Invalidated),
        ("d/f", "d", RefusalKind::Unreachable),
    ] {
        world.create(key, CreateMode::MustBeNew);
        let fenced = world.fence(key);
        world.ok(delete(gone, true));
        assert_eq!(world.refused(recovery(fenced.handle, 0, Vec::new())), told);
        let seen = read::recovery(&world.rows, &fenced.handle, 9).unwrap();
        assert_eq!(seen.unwrap_err().kind(), told);
    }
}

#[test]
fn what_cannot_be_recovered_is_said_by_type() {
    let mut world = World::fso();
    world.mkdir("d").unwrap();
    world.file("f", &[1]);
    for (key, told) in [
        ("d", RefusalKind::NotAFile),
        ("", RefusalKind::NotAFile),
        ("missing", RefusalKind::KeyNotFound),
        ("f/below", RefusalKind::KeyNotFound),
        ("f", RefusalKind::AlreadyClosed),
    ] {
        assert_eq!(world.refused(recover(key, true)), told, "{key}");
    }
    // An ordinary writer that has published nothing holds nothing.
    world.open("f");
    assert_eq!(
        world.refused(recover("f", true)),
        RefusalKind::AlreadyClosed
    );
}

#[test]
fn an_hsynced_ordinary_writer_is_recovered_by_path() {
    let mut world = World::fso();
    let opened = world.open("f");
    let given = opened.blocks[0];
    world.ok(commit(
        "f",
        opened.session,
        PublishKind::Hsync,
        vec![block(&given, 5)],
    ));
    world.pass(59_999);
    assert_eq!(
        kind(by_another(&mut world, recover("f", false))),
        RefusalKind::NotEligible
    );
    world.pass(1);
    by_another(&mut world, recover("f", false)).unwrap();
    let late = commit(
        "f",
        opened.session,
        PublishKind::Close,
        vec![block(&given, 9)],
    );
    assert_eq!(world.refused(late), RefusalKind::Fenced);
    assert_eq!(
        world.refused(append("f", CreateMode::No)),
        RefusalKind::ConflictHsync
    );
    let short = commit(
        "f",
        opened.session,
        PublishKind::Recovery,
        vec![block(&given, 4)],
    );
    assert_eq!(world.refused(short), RefusalKind::BadPublication);
    world.ok(commit(
        "f",
        opened.session,
        PublishKind::Recovery,
        vec![block(&given, 7)],
    ));
    assert_eq!(world.view("f").size, 7);
    world.append("f");
}

#[test]
fn a_recovering_session_keeps_others_out_and_gives_way_where_an_active_one_does() {
    let mut world = World::fso();
    world.file("f", &[10]);
    world.append("f");
    world.fence("f");
    assert_eq!(
        world.refused(append("f", CreateMode::No)),
        RefusalKind::Recovering
    );
    assert_eq!(world.refused(open_key("f", 0)), RefusalKind::Recovering);
    let created = world.create("g", CreateMode::MustBeNew);
    world.fence("g");
    // A killed creator's file can be created over at once.
    world.create("g", CreateMode::Overwrite);
    let gone = read::session_file(&world.rows, &created.handle).unwrap();
    assert_eq!(gone.unwrap_err().kind(), RefusalKind::Invalidated);
    let status = read::append_status(&world.rows, &path("f"))
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(status.phase(), Phase::Recovering);
}
