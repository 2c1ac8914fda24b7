//! A randomized run of the same model: long histories with more of everything, from a seed. Each history begins in a fresh world.

use super::actions::{Action, Scope, Seen, op};
use super::oracle::Violation;
use super::search::sound;
use super::state::{Budget, State};
use crate::command::Layout;
use std::collections::BTreeSet;

/// Steps of one history.
const HISTORY: u64 = 120;

/// The world of one history.
fn scope(layout: Layout) -> Scope {
    Scope {
        name: "random",
        layout,
        clients: 4,
        budget: Budget {
            appends: 8,
            opens: 4,
            units: 4,
            blocks: 4,
            renames: 6,
            deletes: 4,
            mkdirs: 4,
            strays: 8,
            switches: 2,
        },
        files: &["d/f", "e/g", "e/f"],
        renames: if layout == Layout::Legacy {
            &[
                ("d/f", "e/f"),
                ("e/f", "d/f"),
                ("e/g", "d/f"),
                ("d/f", "e/g"),
                ("d/f", "d/f"),
                ("d/f", "x/f"),
                ("d/f", "d/f/f"),
            ]
        } else {
            &[
                ("d/f", "e/f"),
                ("e/f", "d/f"),
                ("e/g", "d/f"),
                ("d", "e"),
                ("e/d", "d"),
                ("d", "d/x"),
                ("d/f", "d/f"),
                ("d/f", "x/f"),
            ]
        },
        deletes: &[
            ("d/f", false),
            ("e/f", false),
            ("e/g", false),
            ("d", true),
            ("d", false),
        ],
        crashes: true,
        creates: true,
        depth: 0,
        states: 0,
        probe_one_in: 8,
    }
}

/// SplitMix64: the same numbers on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let length = u64::try_from(from.len()).ok()?;
        let at = self.next().checked_rem(length)?;
        from.get(usize::try_from(at).ok()?)
    }
}

/// What a run found.
pub(crate) struct Walked {
    pub(crate) steps: u64,
    pub(crate) histories: u64,
    /// The violation, the seed of its history, its layout, and the way to it.
    pub(crate) violation: Option<(Violation, u64, Layout, Vec<Action>)>,
}

/// Walks `steps` steps from `seed`. A history's own seed is `seed` plus its number, so that it can be walked alone.
pub(crate) fn walk(seed: u64, steps: u64, seen: &mut Seen) -> Walked {
    let mut walked = Walked {
        steps: 0,
        histories: 0,
        violation: None,
    };
    while walked.steps < steps && walked.violation.is_none() {
        let own = seed.wrapping_add(walked.histories);
        let layout = if own.is_multiple_of(2) {
            Layout::FileSystemOptimized
        } else {
            Layout::Legacy
        };
        let mut way = Vec::new();
        if let Err(why) = history(own, layout, seen, &mut way) {
            walked.violation = Some((why, own, layout, way.clone()));
        }
        walked.steps += u64::try_from(way.len()).unwrap_or(u64::MAX).max(1);
        walked.histories += 1;
    }
    walked
}

fn history(
    seed: u64,
    layout: Layout,
    seen: &mut Seen,
    way: &mut Vec<Action>,
) -> Result<(), Violation> {
    let scope = scope(layout);
    let mut random = Random(seed);
    let mut state = State::first(layout, scope.clients, scope.budget);
    for step in 0..HISTORY {
        let actions = state.actions(&scope);
        // First what kind, then which: else the kinds with many variants would be all that happens.
        let kinds: Vec<&str> = actions
            .iter()
            .map(|action| op(*action))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let Some(kind) = random.pick(&kinds).copied() else {
            break;
        };
        let variants: Vec<Action> = actions
            .into_iter()
            .filter(|action| op(*action) == kind)
            .collect();
        let Some(action) = random.pick(&variants).copied() else {
            break;
        };
        way.push(action);
        state = state.step(action, &scope, seen)?;
        sound(
            &state,
            (seed.wrapping_add(step)).is_multiple_of(scope.probe_one_in),
        )?;
    }
    Ok(())
}
