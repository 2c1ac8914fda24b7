//! Breadth-first search of all states. A plain one: `stateright` (MIT) explores as well, but it wants states that are cheap to hash and a
//! pool of threads, and brings a web server; here the name of a state is a walk over rows, one core must do, and guards are left out by thread.

use super::actions::{Action, Scope, Seen};
use super::canon;
use super::oracle::Violation;
use super::state::State;
use crate::check::check;
use std::collections::HashSet;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) states: usize,
    pub(crate) transitions: u64,
    pub(crate) depth: usize,
    /// Steps of the longest histories that were all taken.
    pub(crate) complete: usize,
    /// Every state of the scope was seen.
    pub(crate) whole: bool,
    pub(crate) seconds: f64,
    /// The first violation and the steps that lead to it.
    pub(crate) violation: Option<(Violation, Vec<Action>)>,
}

impl Report {
    /// One line of figures.
    pub(crate) fn line(&self, scope: &Scope) -> String {
        let mut line = format!(
            "model {}: {} states, {} transitions, depth {}, {:.1} s, {}",
            scope.name,
            self.states,
            self.transitions,
            self.depth,
            self.seconds,
            if self.whole {
                "the whole space".to_owned()
            } else {
                format!("cut: all histories of {} steps, some longer", self.complete)
            },
        );
        if let Some((why, steps)) = &self.violation {
            let _ = write!(line, "\nviolation: {why}");
            for step in steps {
                let _ = write!(line, "\n  {step:?}");
            }
        }
        line
    }
}

/// Explores a scope, until everything was seen, a bound of it is met, the time is over or something is wrong.
pub(crate) fn explore(scope: &Scope, seen: &mut Seen, time: Duration) -> Report {
    let began = Instant::now();
    let mut report = Report::default();
    let first = State::first(scope.layout, scope.clients, scope.budget);
    let mut known = HashSet::from([canon::name(&first)]);
    // Where each state came from, to tell the way to a violation.
    let mut ways: Vec<(u32, Option<Action>)> = vec![(0, None)];
    let mut level = vec![(0u32, first)];
    let way = |ways: &[(u32, Option<Action>)], mut at: u32, last: Action| {
        let mut steps = vec![last];
        while let (before, Some(action)) = ways[at as usize] {
            steps.push(action);
            at = before;
        }
        steps.reverse();
        steps
    };
    'search: while !level.is_empty() && report.depth < scope.depth {
        report.depth += 1;
        let mut next = Vec::new();
        for (at, state) in std::mem::take(&mut level) {
            for action in state.actions(scope) {
                report.transitions += 1;
                let after = match state.step(action, scope, seen) {
                    Ok(after) => after,
                    Err(why) => {
                        report.violation = Some((why, way(&ways, at, action)));
                        break 'search;
                    }
                };
                let name = canon::name(&after);
                if !known.insert(name) {
                    continue;
                }
                let probe = (name & 0xffff).is_multiple_of(u128::from(scope.probe_one_in));
                if let Err(why) = sound(&after, probe) {
                    report.violation = Some((why, way(&ways, at, action)));
                    break 'search;
                }
                let number = u32::try_from(ways.len()).unwrap_or(u32::MAX);
                ways.push((at, Some(action)));
                next.push((number, after));
            }
            if known.len() >= scope.states || began.elapsed() >= time {
                level.push((at, state));
                break 'search;
            }
        }
        level = next;
        report.complete = report.depth;
    }
    report.whole = level.is_empty() && report.violation.is_none();
    report.states = known.len();
    report.seconds = began.elapsed().as_secs_f64();
    report
}

/// What is looked at in each new state: the invariants over all rows, the last call coming twice, and in some of them bad input.
pub(crate) fn sound(state: &State, probe: bool) -> Result<(), Violation> {
    let broken = check(&state.rows).map_err(|error| error.to_string())?;
    if let Some(broken) = broken.first() {
        return Err(broken.to_string());
    }
    state.again()?;
    if probe { state.probe() } else { Ok(()) }
}
