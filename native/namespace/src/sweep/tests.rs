use crate::Command;
use crate::command::{BucketName, CreateMode, PublishKind, Sweep};
use crate::read;
use crate::reply::{Cleaned, RefusalKind};
use crate::rows::{Keyspace, Rows};
use crate::testing::{World, allocate, block, delete, open_key, publish};

fn rows(world: &World, keyspace: Keyspace) -> usize {
    world.rows.range(keyspace, &[], None, 9_999).unwrap().len()
}

#[test]
fn a_deleted_tree_is_taken_apart_in_bounded_steps() {
    let mut world = World::fso();
    world.file("kept", &[7]);
    let usage = world.bucket();
    for name in 0..5 {
        world.file(&format!("d/{name}"), &[10, 20]);
        world.file(&format!("d/e/f/{name}"), &[10]);
    }
    world.ok(delete("d", true));
    let mut steps = 0;
    while let Some(command) = read::deleted_tree(&world.rows, &[], 3).unwrap().command {
        let done = world.cleaned(command);
        assert!(done.files + done.directories + done.sessions <= 3);
        steps += 1;
    }
    assert!(steps >= 4, "{steps}");
    assert_eq!(
        (world.bucket().used_bytes, world.bucket().used_names),
        (usage.used_bytes, usage.used_names)
    );
    assert_eq!(rows(&world, Keyspace::Files), 1);
    assert_eq!(rows(&world, Keyspace::Dirs), 0);
    assert_eq!(rows(&world, Keyspace::DirParents), 0);
    assert_eq!(rows(&world, Keyspace::DeletedFiles), 10);
}

#[test]
fn sessions_below_a_deleted_directory_end_however_fresh_their_lease_is() {
    let mut world = World::fso();
    let active = world.create("d/e/a", CreateMode::MustBeNew);
    let synced = vec![block(&active.blocks[0], 5)];
    world.ok(publish(active.handle, PublishKind::Hsync, 5, synced));
    let fenced = world.create("d/e/b", CreateMode::MustBeNew);
    world.fence("d/e/b");
    world.ok(open_key("d/e/c", 1));
    world.ok(delete("d", true));
    // Until the sweep comes, time may be renewed and nothing else.
    assert!(world.renew(&[active.handle])[0].refused.is_none());
    assert_eq!(
        world.refused(allocate(active.handle)),
        RefusalKind::Unreachable
    );
    let done = world.tidy();
    assert_eq!((done.files, done.directories), (2, 1));
    for handle in [active.handle, fenced.handle] {
        assert_eq!(
            world.renew(&[handle])[0].refused(),
            RefusalKind::Invalidated
        );
        assert_eq!(world.refused(allocate(handle)), RefusalKind::Invalidated);
    }
    assert!(!read::any_session(&world.rows).unwrap());
    assert_eq!(rows(&world, Keyspace::Allocations), 0);

    // A new tree of the same name is another.
    let again = world.create("d/e/a", CreateMode::MustBeNew);
    assert_eq!(world.tidy(), Cleaned::default());
    world.ok(publish(again.handle, PublishKind::Close, 0, Vec::new()));
}

#[test]
fn a_tree_whose_bucket_is_gone_is_charged_to_nobody() {
    let mut world = World::fso();
    world.create("d/f", CreateMode::MustBeNew);
    world.ok(delete("d", true));
    let deleted = world.run(Command::DeleteBucket(BucketName {
        volume: "vol".into(),
        bucket: "bucket".into(),
    }));
    assert!(deleted.is_ok(), "{deleted:?}");
    world.tidy();
    assert_eq!(rows(&world, Keyspace::Files), 0);
    assert_eq!(rows(&world, Keyspace::Allocations), 0);
}

#[test]
fn a_tree_that_is_gone_already_is_nothing_to_do() {
    let mut world = World::fso();
    let before = world.rows.without_bookkeeping();
    let done = world.cleaned(Command::Sweep(Sweep {
        command: 5,
        ordinal: 0,
        max: 10,
    }));
    assert_eq!(done, Cleaned::default());
    assert_eq!(world.rows.without_bookkeeping(), before);
}
