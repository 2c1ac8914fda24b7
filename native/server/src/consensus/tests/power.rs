//! The whole folder under power cuts. The rows' engine is not traced: its files are lost in every image, so log and checkpoints must
//! bring everything back.

use super::*;
use crate::files::power::{self, Check, Op, Skip};

/// Enough for several segments and a cut between two checkpoints.
fn small() -> Options {
    Options {
        segment_bytes: 250,
        ..options()
    }
}

/// Proposes keys `from..to` and notes each as promised.
fn promise(root: &Path, consensus: &LocalConsensus, keys: std::ops::Range<u64>) {
    for key in keys {
        propose(consensus, &format!("k{key}")).unwrap().unwrap();
        power::told(root, key);
    }
}

fn scenario() -> Vec<Op> {
    let root = power::folder();
    power::trace(root.path());
    let data = root.path().join("new/data");
    let consensus = LocalConsensus::open_with::<Tally>(&data, small()).unwrap();
    for round in 0..3 {
        promise(root.path(), &consensus, round * 6..round * 6 + 6);
        consensus.checkpoint().unwrap();
    }
    promise(root.path(), &consensus, 18..20);
    drop(consensus);
    let consensus = LocalConsensus::open_with::<Tally>(&data, small()).unwrap();
    promise(root.path(), &consensus, 20..21);
    consensus.checkpoint().unwrap();
    promise(root.path(), &consensus, 21..22);
    drop(consensus);
    power::finish(root.path())
}

fn check(image: &Path, told: &[u64]) -> Result<(), String> {
    let consensus = LocalConsensus::open_with::<Tally>(&image.join("new/data"), small())
        .map_err(|error| error.to_string())?;
    match told
        .iter()
        .find(|key| row(&consensus, &format!("k{key}")).is_none())
    {
        Some(key) => Err(format!("{key} was promised and is lost")),
        None => Ok(()),
    }
}

#[test]
fn what_was_answered_survives_a_power_cut_anywhere() {
    let trace = scenario();
    let cuts = trace
        .iter()
        .filter(|op| matches!(op, Op::Remove(path) if path.starts_with("new/data/log")))
        .count();
    assert!(cuts > 2, "{cuts}");
    power::cut_everywhere(&trace, 3, &|_| false, &check).unwrap();
}

#[test]
fn what_was_answered_survives_a_kill_and_a_power_cut_behind_it() {
    let again = |image: &Path| {
        let data = image.join("new/data");
        let consensus = LocalConsensus::open_with::<Tally>(&data, small()).unwrap();
        // Often the one that the killed process has just made.
        consensus.checkpoint().unwrap();
        let first = consensus.position().command + 1_000;
        promise(image, &consensus, first..first + 2);
        consensus.checkpoint().unwrap();
        promise(image, &consensus, first + 2..first + 3);
    };
    power::kill_then_cut(&scenario(), 1, 4, &again, &|_| false, &check).unwrap();
}

#[test]
fn without_any_one_of_the_syncs_something_is_lost() {
    let trace = scenario();
    let below = |path: &Path, dir: &str| path.starts_with(dir);
    let skips: [(&str, Skip<'_>); 6] = [
        (
            "FORMAT",
            &|op| matches!(op, Op::Sync(path) if path.ends_with("FORMAT.new")),
        ),
        (
            "the data folder",
            &|op| matches!(op, Op::SyncDir(path) if path == Path::new("new/data")),
        ),
        (
            "its parents",
            &|op| matches!(op, Op::SyncDir(path) if path == Path::new("new") || path == Path::new("")),
        ),
        (
            "the log",
            &|op| matches!(op, Op::Sync(path) | Op::SyncDir(path) if below(path, "new/data/log")),
        ),
        (
            "a checkpoint's content",
            &|op| matches!(op, Op::Sync(path) if below(path, "new/data/checkpoints")),
        ),
        (
            "a checkpoint's name",
            &|op| matches!(op, Op::SyncDir(path) if below(path, "new/data/checkpoints")),
        ),
    ];
    let check: Check<'_> = &check;
    for (what, skip) in skips {
        assert!(
            power::cut_everywhere(&trace, 6, skip, check).is_err(),
            "the sync of {what} is idle"
        );
    }
}
