use super::MAX_SESSIONS;
use crate::Command;
use crate::command::{Cleanup, CreateMode, Handle, Layout, PublishKind};
use crate::read;
use crate::reply::RefusalKind;
use crate::rows::{Keyspace, Rows};
use crate::testing::{World, allocate, append, block, commit, delete, open_key, publish};

const WEEK: u64 = 7 * 24 * 3_600_000;

fn clean(handle: Handle) -> Command {
    Command::Cleanup(Cleanup {
        sessions: vec![handle],
    })
}

fn open_rows(world: &World) -> usize {
    world
        .rows
        .range(Keyspace::Open, &[], None, 99)
        .unwrap()
        .len()
}

#[test]
fn an_invalidated_session_gives_its_blocks_back_and_is_remembered_for_the_retention() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        let session = world.create("d/f", CreateMode::MustBeNew);
        world.allocate(session.handle);
        world.ok(delete("d/f", false));
        let done = world.tidy();
        assert_eq!((done.sessions, done.blocks), (1, 2));
        assert_eq!(world.tidy(), crate::reply::Cleaned::default());
        assert_eq!(
            world.refused(allocate(session.handle)),
            RefusalKind::Invalidated
        );
        let retention = world.machine.limits().dedupe_retention_ms;
        world.pass(retention - 1);
        assert_eq!(world.tidy().sessions, 0);
        world.pass(1);
        assert_eq!(world.tidy().sessions, 1);
        assert_eq!(open_rows(&world), 0);
        assert_eq!(
            world.refused(allocate(session.handle)),
            RefusalKind::SessionUnknown
        );
    }
}

#[test]
fn an_append_session_ends_at_the_hard_limit_with_what_it_published() {
    for fenced in [false, true] {
        let mut world = World::fso();
        world.file("f", &[10]);
        let session = world.append("f");
        world.allocate(session.handle);
        let synced = vec![block(&session.blocks[0], 5)];
        world.ok(publish(session.handle, PublishKind::Hsync, 15, synced));
        if fenced {
            world.fence("f");
        }
        world.pass(WEEK - 1);
        assert_eq!(world.tidy().sessions, 0);
        assert_eq!(
            world.refused(append("f", CreateMode::No)),
            if fenced {
                RefusalKind::Recovering
            } else {
                RefusalKind::ConflictAppend
            }
        );
        world.pass(1);
        let done = world.tidy();
        assert_eq!((done.sessions, done.blocks), (1, 1));
        assert_eq!(world.view("f").size, 15);
        let late = publish(session.handle, PublishKind::Close, 15, Vec::new());
        assert_eq!(world.refused(late), RefusalKind::Fenced);
        world.append("f");
    }
}

#[test]
fn a_renewal_keeps_a_session_however_old_it_is() {
    let mut world = World::fso();
    let session = world.create("f", CreateMode::MustBeNew);
    for _ in 0..3 {
        world.pass(WEEK - 1);
        world.renew(&[session.handle]);
    }
    assert_eq!(world.tidy().sessions, 0);
    world.ok(clean(session.handle));
    world.ok(publish(session.handle, PublishKind::Close, 0, Vec::new()));
}

#[test]
fn a_killed_ordinary_overwriter_blocks_append_until_its_age_is_reached_and_commits_no_more() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        world.file("f", &[10]);
        let opened = world.open("f");
        world.pass(WEEK - 1);
        world.tidy();
        assert_eq!(
            world.refused(append("f", CreateMode::No)),
            RefusalKind::ConflictOrdinary
        );
        world.pass(1);
        let done = world.tidy();
        assert_eq!((done.sessions, done.blocks), (1, 1));
        world.append("f");
        let late = commit(
            "f",
            opened.session,
            PublishKind::Close,
            vec![block(&opened.blocks[0], 3)],
        );
        assert_eq!(world.refused(late), RefusalKind::KeyNotFound);
        assert_eq!(world.view("f").size, 10);
    }
}

#[test]
fn an_ordinary_writer_that_is_heard_of_stays_and_an_hsynced_one_leaves_what_it_published() {
    let mut world = World::fso();
    let opened = world.open("f");
    let sync = |length| {
        commit(
            "f",
            opened.session,
            PublishKind::Hsync,
            vec![block(&opened.blocks[0], length)],
        )
    };
    for length in [3, 5] {
        world.pass(WEEK - 1);
        world.ok(sync(length));
    }
    assert_eq!(world.tidy().sessions, 0);
    world.pass(WEEK);
    assert_eq!(world.tidy().sessions, 1);
    let file = world.view("f");
    assert_eq!((file.size, file.hsync_session), (5, None));
    assert_eq!(world.refused(sync(9)), RefusalKind::KeyNotFound);
    world.append("f");
}

#[test]
fn lease_time_moves_while_an_ordinary_writer_is_open() {
    let mut world = World::fso();
    assert!(!read::any_session(&world.rows).unwrap());
    let opened = world.open("f");
    assert!(read::any_session(&world.rows).unwrap());
    world.ok(commit("f", opened.session, PublishKind::Close, Vec::new()));
    assert!(!read::any_session(&world.rows).unwrap());
    world.open("f");
    world.pass(WEEK);
    world.tidy();
    assert!(!read::any_session(&world.rows).unwrap());
}

#[test]
fn what_is_not_due_or_not_there_is_left_alone_and_the_batch_is_bounded() {
    let mut world = World::fso();
    let session = world.create("f", CreateMode::MustBeNew);
    let before = world.rows.without_bookkeeping();
    for handle in [
        session.handle,
        Handle {
            session: 1,
            ..session.handle
        },
    ] {
        assert_eq!(
            world.cleaned(clean(handle)),
            crate::reply::Cleaned::default()
        );
    }
    assert_eq!(world.rows.without_bookkeeping(), before);
    let many = Command::Cleanup(Cleanup {
        sessions: vec![session.handle; MAX_SESSIONS + 1],
    });
    assert_eq!(world.refused(many), RefusalKind::InvalidRequest);
}

#[test]
fn writers_of_a_deleted_bucket_end() {
    let mut world = World::fso();
    world.ok(open_key("f", 1));
    world.ok(Command::DeleteBucket(crate::command::BucketName {
        volume: "vol".into(),
        bucket: "bucket".into(),
    }));
    let done = world.tidy();
    assert_eq!((done.sessions, done.blocks), (1, 1));
}
