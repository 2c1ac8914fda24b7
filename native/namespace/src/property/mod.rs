//! The rules against a plain model: random commands, renames, deletions, overwrites, appends and retries. After each step the contents,
//! owners and identities agree with the model and the invariants hold; in the end the log is replayed.

mod model;
mod run;

use crate::command::{CreateMode, Layout};
use proptest::prelude::*;
use run::Run;

/// One step of a random history.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Mkdir(String),
    Open {
        path: String,
        overwrite: bool,
        recursive: bool,
    },
    Append {
        path: String,
        mode: CreateMode,
        recursive: bool,
    },
    /// Bytes into the writer's last block, or a new one.
    Write {
        writer: usize,
        bytes: usize,
        new_block: bool,
    },
    Publish {
        writer: usize,
        close: bool,
        whole: bool,
        stale: bool,
        sound: bool,
    },
    Renew(Vec<usize>),
    Rename {
        from: String,
        to: String,
    },
    Delete {
        path: String,
        recursive: bool,
    },
    Undo(usize),
    Touch(String),
    /// The same call again.
    Retry(usize),
    /// The client has got all answers so far but some.
    Answered(usize),
    Tick(u64),
}

fn any_path() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just(String::new()),
        20 => prop::collection::vec(prop_oneof![Just("a"), Just("b")], 1..4).prop_map(|names| names.join("/")),
    ]
}

fn any_mode() -> impl Strategy<Value = CreateMode> {
    prop_oneof![
        2 => Just(CreateMode::No),
        2 => Just(CreateMode::IfMissing),
        1 => Just(CreateMode::MustBeNew),
        2 => Just(CreateMode::Overwrite),
    ]
}

/// A writer, counted from the latest: most steps go to writers that are still open.
fn any_writer() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0usize..3, 1 => 3usize..12]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any_path().prop_map(Step::Mkdir),
        4 => (any_path(), prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(path, overwrite, recursive)| Step::Open { path, overwrite, recursive }),
        8 => (any_path(), any_mode(), prop::bool::weighted(0.8))
            .prop_map(|(path, mode, recursive)| Step::Append { path, mode, recursive }),
        8 => (any_writer(), 1usize..5, prop::bool::weighted(0.3))
            .prop_map(|(writer, bytes, new_block)| Step::Write { writer, bytes, new_block }),
        12 => (any_writer(), prop::bool::weighted(0.4), any::<bool>(), prop::bool::weighted(0.15), prop::bool::weighted(0.9))
            .prop_map(|(writer, close, whole, stale, sound)| Step::Publish { writer, close, whole, stale, sound }),
        2 => prop::collection::vec(any_writer(), 0..4).prop_map(Step::Renew),
        6 => (any_path(), any_path()).prop_map(|(from, to)| Step::Rename { from, to }),
        4 => (any_path(), any::<bool>()).prop_map(|(path, recursive)| Step::Delete { path, recursive }),
        1 => any_writer().prop_map(Step::Undo),
        1 => any_path().prop_map(Step::Touch),
        4 => (0usize..20).prop_map(Step::Retry),
        1 => (0usize..6).prop_map(Step::Answered),
        2 => (0u64..3_000).prop_map(Step::Tick),
    ]
}

/// Histories that are tried: `PROPTEST_CASES`, or few enough for every build.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(192)
}

fn check(layout: Layout, steps: &[Step]) {
    let mut run = Run::new(layout);
    for step in steps {
        run.step(step);
    }
    run.replay();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_fso_bucket_behaves_as_the_model(steps in prop::collection::vec(any_step(), 1..70)) {
        check(Layout::FileSystemOptimized, &steps);
    }

    #[test]
    fn a_legacy_bucket_behaves_as_the_model(steps in prop::collection::vec(any_step(), 1..70)) {
        check(Layout::Legacy, &steps);
    }
}
