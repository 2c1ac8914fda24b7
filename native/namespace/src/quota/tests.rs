use crate::command::{CreateMode, PublishKind, Replication};
use crate::reply::RefusalKind;
use crate::testing::{World, append, block, delete, publish};

#[test]
fn what_cannot_be_counted_is_refused_and_can_be_deleted_afterwards() {
    let mut world = World::fso();
    world.limit(|limits| limits.block_size = u64::MAX);
    world.file("small", &[100]);
    let huge = world.create("huge", CreateMode::MustBeNew);
    let length = u64::MAX - 200;
    let given = world.allocate(huge.handle);
    world.ok(publish(
        huge.handle,
        PublishKind::Close,
        length,
        vec![block(&given, length)],
    ));
    let more = world.create("more", CreateMode::MustBeNew);
    let given = world.allocate(more.handle);
    let refused = world.refused(publish(
        more.handle,
        PublishKind::Close,
        length,
        vec![block(&given, length)],
    ));
    assert_eq!(refused, RefusalKind::QuotaExceeded);
    world.ok(delete("huge", false));
    world.ok(delete("small", false));
    assert_eq!(world.bucket().used_bytes, 0);
}

#[test]
fn replicas_that_cannot_be_counted_are_freed_as_they_were_charged() {
    let mut world = World::fso();
    world.limit(|limits| limits.block_size = u64::MAX);
    world.file("small", &[100]);
    let mut command = append("huge", CreateMode::MustBeNew);
    if let crate::command::Command::AppendFile(append) = &mut command {
        append.replication = Some(Replication {
            kind: 1,
            factor: i32::MAX,
        });
    }
    let Some(crate::reply::Answer::Admitted(huge)) = world.ok(command).answer else {
        panic!()
    };
    let given = world.allocate(huge.handle);
    let length = 1 << 60;
    let outcome = world.run(publish(
        huge.handle,
        PublishKind::Close,
        length,
        vec![block(&given, length)],
    ));
    assert_eq!(
        outcome.map_err(|refusal| refusal.kind()),
        Err(RefusalKind::QuotaExceeded)
    );
    world.ok(delete("huge", false));
    world.ok(delete("small", false));
    assert_eq!(world.bucket().used_bytes, 0);
}
