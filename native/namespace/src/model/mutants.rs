//! Every guard of the transition table left out in turn: the model check or the randomized run must notice.

use super::actions::{Scope, Seen};
use super::{directed, random, scopes, search};
use crate::guard::{Guard, leave_out};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Guards that another rule covers: leaving one out changes no outcome that these checks can see. Each with what covers it.
const COVERED: &[(Guard, &str)] = &[
    (
        Guard::AdmitNoHsync,
        "a writer that has hsynced is found by its name as well",
    ),
    (
        Guard::CommitSamePublished,
        "whoever deletes or replaces what it hsynced ends the writer",
    ),
    (
        Guard::RenewSameFile,
        "the committed owner is looked for in the file that the handle names",
    ),
    (
        Guard::RenewInvalidated,
        "a session that is over owns no file (I1)",
    ),
    (
        Guard::RenewOwned,
        "a session that is not over owns its file (I1)",
    ),
];

/// Who noticed that a guard is left out.
fn noticed(found: &mut dyn FnMut() -> Option<String>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(found)) {
        Ok(found) => found,
        Err(_) => Some("the rules panicked".to_owned()),
    }
}

fn by_search(scope: &Scope, states: usize) -> Option<String> {
    let scope = Scope {
        states,
        probe_one_in: 1,
        ..scope.clone()
    };
    let report = search::explore(&scope, &mut Seen::new(), Duration::from_secs(60));
    let (why, way) = report.violation?;
    Some(format!(
        "model check, {} (step {}): {why}",
        scope.name,
        way.len()
    ))
}

fn by_walk(steps: u64) -> Option<String> {
    let walked = random::walk(1, steps, &mut Seen::new());
    let (why, ..) = walked.violation?;
    Some(format!("randomized run (step {}): {why}", walked.steps))
}

/// The checks one after the other, small before large. Cases written for one guard come last and are called so: they are no search.
fn catcher() -> Option<String> {
    let scopes = scopes::short();
    for (states, steps) in [(600, 4_000), (3_000, 25_000)] {
        for scope in &scopes {
            if let Some(why) = noticed(&mut || by_search(scope, states)) {
                return Some(why);
            }
        }
        if let Some(why) = noticed(&mut || by_walk(steps)) {
            return Some(why);
        }
        if let Some(why) = noticed(&mut || directed::check().err()) {
            return Some(format!("a case of its own only: {why}"));
        }
    }
    None
}

#[test]
fn every_guard_that_is_left_out_is_missed() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut survived = Vec::new();
    let (mut caught, mut alone) = (0, 0);
    for guard in Guard::ALL {
        leave_out(Some(*guard));
        let by = catcher();
        leave_out(None);
        let covered = COVERED.iter().find(|(covered, _)| covered == guard);
        match (&by, covered) {
            (Some(by), _) => {
                caught += 1;
                alone += usize::from(by.starts_with("a case of its own"));
                println!(
                    "mutant {guard:?}: {}",
                    by.lines().next().unwrap_or_default()
                );
            }
            (None, Some((_, why))) => println!("mutant {guard:?}: covered: {why}"),
            (None, None) => println!("mutant {guard:?}: NOT NOTICED"),
        }
        if by.is_none() != covered.is_some() {
            survived.push(*guard);
        }
    }
    drop(std::panic::take_hook());
    println!(
        "mutants: {} guards, {caught} noticed ({alone} of them by a case of their own only), {} covered by another rule, {} not as they should be",
        Guard::ALL.len(),
        COVERED.len(),
        survived.len()
    );
    assert!(survived.is_empty(), "not as they should be: {survived:?}");
}
