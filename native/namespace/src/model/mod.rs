//! An exhaustive check of the real [`crate::Machine::apply`] in small worlds: every history of appenders, an ordinary writer, crashes, copies
//! and delays of commands, lease time, recovery, renames and deletions, up to the bounds of a scope. Contents are symbolic: each unit says
//! which session wrote it and as its how-manieth, so that a lost, doubled or foreign byte is seen and not only a wrong length.
//!
//! The machine is opened from its rows before every command, so each step is a restart of the server as well. What must come out is said by
//! `oracle`, which shares no code with the rules.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the checker is no rule: it may ask a clock and keep states by their hash"
)]

mod actions;
mod canon;
mod directed;
mod facts;
#[cfg(feature = "mutants")]
mod mutants;
mod oracle;
mod probes;
mod random;
mod scopes;
mod search;
mod state;

use actions::Seen;
use std::time::Duration;

/// Explores the scopes and prints their figures; panics at a violation, with the way to it.
fn run(scopes: &[actions::Scope], each: Duration) -> Seen {
    let mut seen = Seen::new();
    let (mut states, mut transitions, mut deepest, mut seconds) = (0, 0, 0, 0.0);
    for scope in scopes {
        let report = search::explore(scope, &mut seen, each);
        println!("{}", report.line(scope));
        assert!(report.violation.is_none(), "{}", report.line(scope));
        states += report.states;
        transitions += report.transitions;
        deepest = deepest.max(report.depth);
        seconds += report.seconds;
    }
    for ((op, outcome), count) in &seen {
        println!("  {op}: {outcome}: {count}");
    }
    println!("model: {states} states, {transitions} transitions, depth {deepest}, {seconds:.1} s");
    seen
}

#[test]
fn every_short_history_keeps_the_invariants() {
    let seen = run(&scopes::short(), Duration::from_secs(600));
    let missing = scopes::unseen(&seen);
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

#[test]
#[ignore = "takes long: `make model`"]
fn every_longer_history_keeps_the_invariants() {
    let minutes = std::env::var("MINUTES")
        .ok()
        .and_then(|text| text.parse().ok());
    let scopes = scopes::long();
    let each =
        Duration::from_secs(minutes.unwrap_or(30) * 60) / u32::try_from(scopes.len()).unwrap_or(1);
    let seen = run(&scopes, each);
    let missing = scopes::unseen(&seen);
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

#[test]
fn guards_that_no_small_world_meets_hold() {
    directed::check().unwrap();
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// `SEED` and `STEPS` say which histories, and how many steps; without them a short run whose seed is the same every time.
#[test]
fn random_histories_keep_the_invariants() {
    let seed = number("SEED").unwrap_or(1);
    let mut seen = Seen::new();
    let began = std::time::Instant::now();
    let walked = random::walk(seed, number("STEPS").unwrap_or(30_000), &mut seen);
    for ((op, outcome), count) in &seen {
        println!("  {op}: {outcome}: {count}");
    }
    println!(
        "random: seed {seed}, {} steps in {} histories, {:.1} s",
        walked.steps,
        walked.histories,
        began.elapsed().as_secs_f64()
    );
    if let Some((why, own, layout, way)) = walked.violation {
        panic!("{why}\nSEED={own} STEPS=1 ({layout:?}) walks it again:\n{way:#?}");
    }
}
