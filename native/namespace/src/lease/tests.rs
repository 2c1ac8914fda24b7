use super::*;
use crate::command::Command;
use crate::testing::{World, append};

#[test]
fn renew_moves_the_lease_and_nothing_else() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let admitted = world.append("f");
    let before = world.view("f");
    let answers = crate::rows::Rows::range(&world.rows, Keyspace::Dedupe, &[], None, 99)
        .unwrap()
        .len();
    world.lease_ms += 5_000;
    let renewal = world.renew(&[admitted.handle]).remove(0);
    assert_eq!((renewal.last_renewed_ms, renewal.renewals), (6_000, 1));
    assert_eq!(world.view("f"), before);
    // Renewals are not remembered: they are idempotent.
    assert_eq!(
        crate::rows::Rows::range(&world.rows, Keyspace::Dedupe, &[], None, 99)
            .unwrap()
            .len(),
        answers
    );
    // Lease time that was stamped lower does not go back.
    world.lease_ms = 2_000;
    let renewal = world.renew(&[admitted.handle]).remove(0);
    assert_eq!((renewal.last_renewed_ms, renewal.renewals), (6_000, 2));
}

#[test]
fn one_session_that_is_gone_does_not_keep_the_others_from_renewing() {
    let mut world = World::fso();
    world.file("f", &[10]);
    world.file("g", &[10]);
    let (f, g) = (world.append("f").handle, world.append("g").handle);
    let opened = world.open("h");
    let ordinary = Handle {
        bucket: f.bucket,
        session: opened.session,
        file: 0,
    };
    let gone = Handle { session: 77, ..f };
    let wrong = Handle { file: g.file, ..f };
    let results = world.renew(&[gone, f, wrong, ordinary, g]);
    let kinds: Vec<_> = results
        .iter()
        .map(|renewal| renewal.refused.map(|_| renewal.refused()))
        .collect();
    assert_eq!(
        kinds,
        [
            Some(RefusalKind::SessionUnknown),
            None,
            Some(RefusalKind::IdentityMismatch),
            Some(RefusalKind::SessionUnknown),
            None
        ]
    );
    assert_eq!(results[4].handle, g);
}

#[test]
fn a_batch_is_bounded() {
    let mut world = World::fso();
    world.limit(|limits| limits.max_renew_batch = 2);
    let handle = world
        .create("f", crate::command::CreateMode::IfMissing)
        .handle;
    world.renew(&[handle, handle]);
    let three = Command::RenewLeases(RenewLeases {
        sessions: vec![handle; 3],
    });
    assert_eq!(world.refused(three), RefusalKind::InvalidRequest);
    assert!(world.renew(&[]).is_empty());
}

#[test]
fn the_lease_does_not_expire_by_itself() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let admitted = world.append("f");
    world.lease_ms += 8 * 24 * 3_600_000;
    assert_eq!(
        world.refused(append("f", crate::command::CreateMode::No)),
        RefusalKind::ConflictAppend
    );
    assert!(world.renew(&[admitted.handle])[0].refused.is_none());
    world.allocate(admitted.handle);
}
