use super::*;
use crate::command::{CreateMode, PublishKind};
use crate::reply::Answer;
use crate::testing::{World, append, block, commit, delete, mkdir, open_key, publish};

#[test]
fn fnv_is_the_published_function() {
    assert_eq!(fnv128(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    assert_eq!(fnv128(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
}

#[test]
fn a_retry_gets_the_first_answer_and_changes_nothing() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let admission = world.request(append("f", CreateMode::No));
    let first = world.send(admission.clone()).unwrap();
    let rows = world.rows.without_bookkeeping();
    assert_eq!(world.send(admission).unwrap(), first);
    assert_eq!(world.rows.without_bookkeeping(), rows);
    let Some(Answer::Admitted(admitted)) = first.answer else {
        panic!()
    };
    let close = publish(
        admitted.handle,
        PublishKind::Close,
        13,
        vec![block(&admitted.blocks[0], 3)],
    );
    let close = world.request(close);
    world.send(close.clone()).unwrap();
    let again = world.append("f");
    world.send(close).unwrap();
    assert_eq!(world.view("f").append_owner, Some(again.handle.session));
}

#[test]
fn a_retry_in_the_same_entry_gets_the_first_answer() {
    let mut world = World::fso();
    let request = world.request(mkdir("d"));
    let outcomes = world.entry(vec![request.clone(), request]);
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(
        outcomes[0].as_ref().unwrap().answer,
        Some(Answer::DirectoryExisted(false))
    );
}

#[test]
fn refusals_are_remembered_too() {
    let mut world = World::fso();
    let request = world.request(append("f", CreateMode::No));
    let first = world.send(request.clone()).unwrap_err();
    world.file("f", &[10]);
    assert_eq!(world.send(request).unwrap_err(), first);
}

#[test]
fn what_may_be_tried_again_is_not_remembered() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let mut unlucky = append("f", CreateMode::No);
    if let Command::AppendFile(append) = &mut unlucky {
        append.holders = vec![9];
    }
    let request = world.request(unlucky);
    assert_eq!(
        world.send(request.clone()).unwrap_err().kind(),
        RefusalKind::RetryLater
    );
    // The leader picks another holder for the same call.
    let lucky = Request {
        command: Some(append("f", CreateMode::No)),
        ..request
    };
    let first = world.send(lucky.clone()).unwrap();
    let mut elsewhere = lucky;
    if let Some(Command::AppendFile(append)) = &mut elsewhere.command {
        append.holders = vec![9];
    }
    assert_eq!(world.send(elsewhere).unwrap(), first);
}

#[test]
fn an_invocation_is_bound_to_its_command_and_its_user() {
    let mut world = World::fso();
    let request = world.request(mkdir("d"));
    world.send(request.clone()).unwrap();
    let other = Request {
        command: Some(mkdir("e")),
        ..request.clone()
    };
    assert_eq!(
        world.send(other).unwrap_err().kind(),
        RefusalKind::InvalidRequest
    );
    let bob = Request {
        user: "bob".into(),
        ..request.clone()
    };
    assert_eq!(
        world.send(bob).unwrap_err().kind(),
        RefusalKind::InvalidRequest
    );
    assert!(!world.there("e"));
    world.send(request).unwrap();
}

#[test]
fn answers_below_the_mark_are_freed_and_unknown_from_then_on() {
    let mut world = World::fso();
    let first = world.request(mkdir("a"));
    world.send(first.clone()).unwrap();
    let second = world.request(mkdir("b"));
    world.send(second.clone()).unwrap();
    let mark = second.invocation.as_ref().unwrap().sequence;
    let third = Request {
        answered_below: Some(mark),
        ..world.request(mkdir("c"))
    };
    world.send(third).unwrap();
    assert_eq!(
        world.send(first).unwrap_err().kind(),
        RefusalKind::Uncertain
    );
    world.send(second).unwrap();
    let count = Count::read(&world.rows).unwrap();
    assert_eq!(count.now, 2);
    // A mark does not go back, and holds for renewals' invocations too.
    let late = Request {
        answered_below: Some(0),
        ..world.request(mkdir("d"))
    };
    world.send(late).unwrap();
    let handles = Vec::new();
    let renewal = Request {
        answered_below: Some(mark + 1),
        ..world.request(Command::RenewLeases(crate::command::RenewLeases {
            sessions: handles,
        }))
    };
    world.send(renewal).unwrap();
    assert_eq!(Count::read(&world.rows).unwrap().now, 2);
}

#[test]
fn another_clients_mark_frees_nothing() {
    let mut world = World::fso();
    let first = world.request(mkdir("a"));
    world.send(first.clone()).unwrap();
    let mut other = world.request(mkdir("b"));
    other.invocation = Some(Invocation {
        client: (&b"client-10"[..]).into(),
        sequence: 9,
    });
    other.answered_below = Some(9);
    world.send(other).unwrap();
    assert_eq!(
        world.send(first).unwrap().answer,
        Some(Answer::DirectoryExisted(false))
    );
}

#[test]
fn answers_and_marks_fall_out_after_the_retention_of_lease_time() {
    let mut world = World::fso();
    let request = world.request(mkdir("a"));
    world.send(request.clone()).unwrap();
    let marked = Request {
        answered_below: Some(1),
        ..world.request(mkdir("b"))
    };
    world.send(marked).unwrap();
    world.lease_ms += world.machine.limits().dedupe_retention_ms;
    world.entry(Vec::new());
    assert_eq!(
        world.send(request.clone()).unwrap().answer,
        Some(Answer::DirectoryExisted(false))
    );
    world.lease_ms += 1;
    world.entry(Vec::new());
    world.lease_ms += 2 * world.machine.limits().dedupe_retention_ms;
    world.entry(Vec::new());
    world.entry(Vec::new());
    assert_eq!(Count::read(&world.rows).unwrap().now, 0);
    assert!(
        world
            .rows
            .range(Keyspace::Dedupe, &[], None, 9)
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        world.send(request).unwrap().answer,
        Some(Answer::DirectoryExisted(true))
    );
}

#[test]
fn one_entry_expires_a_bounded_number() {
    let mut world = World::fso();
    for _ in 0..EXPIRED_PER_ENTRY + 10 {
        world.mkdir("a").unwrap();
    }
    let before = Count::read(&world.rows).unwrap().now;
    world.lease_ms += 2 * world.machine.limits().dedupe_retention_ms;
    world.entry(Vec::new());
    let left = Count::read(&world.rows).unwrap().now;
    assert_eq!(before - left, u64::try_from(EXPIRED_PER_ENTRY).unwrap());
    world.entry(Vec::new());
    assert_eq!(Count::read(&world.rows).unwrap().now, 0);
}

#[test]
fn a_full_table_refuses_newcomers_and_never_those_who_are_in() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let admitted = world.append("f");
    let writer = world.open("g");
    let full = Count::read(&world.rows).unwrap().now + 1;
    world.limit(|limits| limits.dedupe_max = full);
    let waiting = world.request(mkdir("d"));
    assert_eq!(
        world.send(waiting.clone()).unwrap_err().kind(),
        RefusalKind::RetryLater
    );
    for command in [
        open_key("h", 0),
        append("h", CreateMode::IfMissing),
        delete("f", false),
    ] {
        assert_eq!(world.refused(command), RefusalKind::RetryLater);
    }
    world.allocate(admitted.handle);
    world.renew(&[admitted.handle]);
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        11,
        vec![block(&admitted.blocks[0], 1)],
    ));
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        12,
        vec![block(&admitted.blocks[0], 2)],
    ));
    world.ok(commit("g", writer.session, PublishKind::Close, Vec::new()));
    world.limit(|limits| limits.dedupe_max = 1_000);
    world.send(waiting).unwrap();
}

#[test]
fn calls_without_an_identity_or_a_user_are_told_so() {
    let mut world = World::fso();
    let duty = Request {
        invocation: None,
        ..world.request(mkdir("a"))
    };
    let before = Count::read(&world.rows).unwrap().now;
    world.send(duty).unwrap();
    assert_eq!(Count::read(&world.rows).unwrap().now, before);
    let nobody = Request {
        user: String::new(),
        ..world.request(mkdir("b"))
    };
    assert_eq!(
        world.send(nobody).unwrap_err().kind(),
        RefusalKind::PermissionDenied
    );
    for client in [Vec::new(), vec![1; MAX_CLIENT_BYTES + 1]] {
        let mut odd = world.request(mkdir("b"));
        odd.invocation = Some(Invocation {
            client: client.into(),
            sequence: 1,
        });
        assert_eq!(
            world.send(odd).unwrap_err().kind(),
            RefusalKind::InvalidRequest
        );
    }
}
