use super::*;
use crate::command::{CreateMode, Holder, PublishKind, Stamp};
use crate::reply::Answer;
use crate::testing::{MarkedRows, MemoryRows, World, append, block, mkdir, publish};

#[test]
fn a_fresh_store_starts_with_the_starting_limits() {
    let machine = Machine::open(&MemoryRows::default()).unwrap();
    assert_eq!(
        (machine.position(), machine.limits()),
        (Position::default(), Limits::starting())
    );
}

#[test]
fn the_position_counts_commands_and_lease_time_never_goes_back() {
    let mut world = World::empty();
    world.lease_ms = 500;
    let requests = vec![world.request(mkdir("a")), world.request(mkdir("b"))];
    world.entry(requests);
    let position = world.machine.position();
    assert_eq!(
        (
            position.term,
            position.index,
            position.command,
            position.lease_ms
        ),
        (1, 1, 2, 500)
    );
    world.lease_ms = 400;
    world.entry(Vec::new());
    assert_eq!(
        (
            world.machine.position().index,
            world.machine.position().command
        ),
        (2, 2)
    );
    assert_eq!(world.machine.position().lease_ms, 500);
    assert_eq!(
        crate::read::position(&world.rows).unwrap(),
        world.machine.position()
    );
    assert_eq!(
        Machine::open(&world.rows).unwrap().position(),
        world.machine.position()
    );
}

#[test]
fn an_entry_is_applied_once() {
    let mut world = World::fso();
    let entry = Entry {
        stamp: Stamp::default(),
        requests: Vec::new(),
    };
    let at = world.machine.position();
    assert!(
        world
            .machine
            .apply(&world.rows, 1, at.index, &entry)
            .is_err()
    );
    assert_eq!(world.machine.position(), at);
}

#[test]
fn a_command_of_a_newer_version_stops_the_machine() {
    let mut world = World::fso();
    let at = world.machine.position();
    let unknown = Request {
        command: None,
        ..world.request(mkdir("a"))
    };
    let entry = Entry {
        stamp: Stamp::default(),
        requests: vec![unknown],
    };
    assert!(
        world
            .machine
            .apply(&world.rows, 1, at.index + 1, &entry)
            .is_err()
    );
    assert_eq!(world.machine.position(), at);
}

#[test]
fn commands_of_one_entry_see_the_earlier_ones_and_a_refused_one_leaves_nothing() {
    let mut world = World::fso();
    let requests = vec![
        world.request(append("d/f", CreateMode::MustBeNew)),
        world.request(append("d/f", CreateMode::MustBeNew)),
        world.request(append("d/g/", CreateMode::MustBeNew)),
        world.request(append("e/f:g", CreateMode::MustBeNew)),
        world.request(append("d/f/g", CreateMode::MustBeNew)),
    ];
    let outcomes = world.entry(requests);
    let kinds: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().err().map(|refusal| refusal.kind()))
        .collect();
    assert_eq!(
        kinds,
        [
            None,
            Some(RefusalKind::FileExists),
            None,
            Some(RefusalKind::InvalidKeyName),
            Some(RefusalKind::NotAFile)
        ]
    );
    assert!(!world.there("e"));
}

#[test]
fn limits_hold_from_the_command_that_sets_them() {
    let mut world = World::fso();
    world.file("f", &[1]);
    let off = Limits {
        append_enabled: false,
        ..world.machine.limits()
    };
    let requests = vec![
        world.request(Command::Configure(off)),
        world.request(append("f", CreateMode::No)),
    ];
    let outcomes = world.entry(requests);
    assert_eq!(
        outcomes[1].as_ref().unwrap_err().kind(),
        RefusalKind::AppendDisabled
    );
    assert_eq!(world.machine.limits(), off);
    let nonsense = Limits {
        max_blocks_per_file: 0,
        ..off
    };
    assert_eq!(
        world.refused(Command::Configure(nonsense)),
        RefusalKind::InvalidRequest
    );
}

#[test]
fn holders_keep_their_number() {
    let mut world = World::empty();
    let register = |uuid: &str, port| {
        Command::RegisterHolder(Holder {
            number: 0,
            uuid: uuid.into(),
            host: "h".into(),
            port,
        })
    };
    let number = |world: &mut World, command| match world.ok(command).answer {
        Some(crate::reply::Answer::HolderNumber(number)) => number,
        other => panic!("{other:?}"),
    };
    assert_eq!(number(&mut world, register("a", 1)), 1);
    assert_eq!(number(&mut world, register("b", 2)), 2);
    assert_eq!(number(&mut world, register("a", 3)), 1);
    assert_eq!(
        crate::read::holder(&world.rows, 1).unwrap().unwrap().port,
        3
    );
    assert_eq!(crate::read::holders(&world.rows).unwrap().len(), 2);
    assert_eq!(world.refused(register("", 1)), RefusalKind::InvalidRequest);
}

#[test]
fn an_entry_decided_by_newer_rules_stops_the_machine() {
    let mut world = World::fso();
    let before = world.machine.position();
    let mut entry = Entry {
        stamp: Stamp {
            lease_ms: 0,
            wall_ms: 0,
            rules: crate::command::RULES + 1,
        },
        requests: vec![world.request(append("f", CreateMode::MustBeNew))],
    };
    for requests in [entry.requests.clone(), Vec::new()] {
        entry.requests = requests;
        let refused = world
            .machine
            .apply(&world.rows, 1, before.index + 1, &entry);
        let error = refused.unwrap_err();
        assert!(matches!(error, RowsError::NewerRules { .. }), "{error}");
        assert!(error.is_newer());
        assert_eq!(world.machine.position(), before);
    }
}

#[test]
fn a_raised_epoch_issues_other_ids() {
    let mut world = World::fso();
    let mut raised = world.clone();
    let position = Position {
        epoch: 1,
        ..world.machine.position()
    };
    raised.rows.put(
        Keyspace::Meta,
        key::POSITION,
        &prost::Message::encode_to_vec(&position),
    );
    raised.machine = Machine::open(&raised.rows).unwrap();
    let (before, after) = (world.file("f", &[1]), raised.file("f", &[1]));
    assert!(after.object_id > before.object_id);
    assert_ne!(after.generation, before.generation);
}

#[test]
fn an_epoch_that_does_not_fit_an_id_stops_the_machine() {
    let mut world = World::fso();
    let position = Position {
        epoch: 128,
        ..world.machine.position()
    };
    world.rows.put(
        Keyspace::Meta,
        key::POSITION,
        &prost::Message::encode_to_vec(&position),
    );
    let mut machine = Machine::open(&world.rows).unwrap();
    let entry = Entry {
        stamp: Stamp::default(),
        requests: vec![world.request(mkdir("a"))],
    };
    assert!(
        machine
            .apply(&world.rows, 1, position.index + 1, &entry)
            .is_err()
    );
}

/// What commands cost must not grow with what came and went before: a scan that begins in front of removed rows passes them all.
#[test]
fn the_ten_thousandth_append_meets_no_more_rows_than_the_first() {
    let mut world = World::fso();
    let mut rows = MarkedRows::default();
    let mut machine = Machine::open(&rows).unwrap();
    let (mut index, mut lease_ms) = (0, 0);
    let mut run = |rows: &mut MarkedRows, mut request: Request| {
        index += 1;
        lease_ms += 500;
        let sequence = request.invocation.as_ref().map(|call| call.sequence);
        request.answered_below = sequence.filter(|sequence| sequence % 2 == 0);
        let stamp = Stamp {
            lease_ms,
            wall_ms: lease_ms,
            rules: crate::command::RULES,
        };
        let entry = Entry {
            stamp,
            requests: vec![request],
        };
        let applied = machine.apply(rows, 1, index, &entry).unwrap();
        rows.apply(applied.changes);
        assert!(crate::read::any_session(rows).is_ok());
        applied.outcomes.into_iter().next().unwrap().unwrap()
    };
    for entry in std::mem::take(&mut world.log) {
        for request in entry.requests {
            run(&mut rows, request);
        }
    }
    rows.met();
    let mut met = Vec::new();
    for cycle in 1..=10_000u64 {
        let admission = world.request(append("f", CreateMode::IfMissing));
        let Some(Answer::Admitted(admitted)) = run(&mut rows, admission).answer else {
            panic!("cycle {cycle} was not admitted");
        };
        let close = world.request(publish(
            admitted.handle,
            PublishKind::Close,
            cycle,
            vec![block(&admitted.blocks[0], 1)],
        ));
        run(&mut rows, close);
        met.push(rows.met());
    }
    let first: u64 = met[..1_000].iter().sum();
    let last: u64 = met[9_000..].iter().sum();
    assert!(last <= first * 2, "{last} rows and marks, at first {first}");
}

#[test]
fn append_waits_for_its_layout_and_a_log_of_before_needs_none() {
    let finalize = |layout| Command::Finalize(crate::command::Finalize { layout });
    let mut world = World::fso();
    world.file("f", &[1]);
    // As a version without layouts left it.
    world.rows.apply(vec![crate::Change {
        keyspace: Keyspace::Meta,
        key: crate::key::LAYOUT.into(),
        value: None,
    }]);
    world.machine = Machine::open(&world.rows).unwrap();
    for mode in [CreateMode::No, CreateMode::MustBeNew] {
        assert_eq!(world.refused(append("f", mode)), RefusalKind::NotFinalized);
    }
    let mut old = world.machine.clone();
    let entry = Entry {
        stamp: Stamp {
            lease_ms: 0,
            wall_ms: 0,
            rules: 0,
        },
        requests: vec![world.request(append("f", CreateMode::No))],
    };
    let index = old.position().index + 1;
    let applied = old.apply(&world.rows, 1, index, &entry).unwrap();
    assert!(applied.outcomes[0].is_ok(), "it was answered before");

    assert_eq!(world.refused(finalize(1)), RefusalKind::InvalidRequest);
    world.open("ordinary");
    world.ok(finalize(crate::command::LAYOUT_APPEND));
    world.ok(finalize(crate::command::LAYOUT_APPEND));
    world.append("f");

    world.rows.put(
        Keyspace::Meta,
        crate::key::LAYOUT,
        &crate::key::one(u64::from(crate::command::LAYOUT_APPEND) + 1),
    );
    assert!(matches!(
        Machine::open(&world.rows),
        Err(RowsError::NewerLayout { .. })
    ));
}
