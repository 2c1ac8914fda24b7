//! The log under power cuts: whatever a sync promised is there, whatever else happened, and no sync is idle.

use super::*;
use crate::files::power::{self, Op};
use bytes::Bytes;
use std::cell::Cell;

const SEGMENT: u64 = 120;

fn payload(index: u64) -> Bytes {
    Bytes::from(format!("record {index}"))
}

/// Opens the log, writes `count` records in groups, and notes what each sync and each open promises.
fn write(root: &Path, count: u64, group: u64) {
    let (mut log, _) = Log::open(root, SEGMENT, 0).unwrap();
    power::told(root, log.last_index());
    for at in 1..=count {
        let index = log.last_index() + 1;
        log.append(1, Kind::Entry, payload(index)).unwrap();
        if at % group == 0 {
            log.sync().unwrap();
            power::told(root, index);
        }
    }
}

/// Everything told is there, as it was written, behind `first`.
fn check(image: &Path, told: &[u64]) -> Result<(), String> {
    let (log, _) = Log::open(image, SEGMENT, 0).map_err(|error| error.to_string())?;
    let durable = told.iter().max().copied().unwrap_or(0);
    if log.last_index() < durable {
        return Err(format!(
            "{durable} was promised, {} is there",
            log.last_index()
        ));
    }
    for record in log.reader(0) {
        let record = record.map_err(|error| error.to_string())?;
        if record.payload != payload(record.index) {
            return Err(format!("record {} is another", record.index));
        }
    }
    Ok(())
}

/// Groups over several segments, a process that ends without a sync, the next that goes on, and a cut.
fn scenario() -> Vec<Op> {
    let root = power::folder();
    power::trace(root.path());
    write(root.path(), 12, 3);
    write(root.path(), 8, 5);
    let (mut log, _) = Log::open(root.path(), SEGMENT, 0).unwrap();
    log.cut(log.last_index()).unwrap();
    drop(log);
    write(root.path(), 2, 1);
    power::finish(root.path())
}

fn is_header(path: &Path, trace: &[Op], at: usize) -> bool {
    matches!(&trace[at.saturating_sub(2)..at], [Op::Create(made), Op::Write(..)] if made == path)
}

#[test]
fn what_was_synced_survives_a_power_cut_anywhere() {
    power::cut_everywhere(&scenario(), 16, &|_| false, &check).unwrap();
}

#[test]
fn what_was_synced_survives_a_kill_and_a_power_cut_behind_it() {
    power::kill_then_cut(
        &scenario(),
        1,
        8,
        &|image| write(image, 3, 1),
        &|_| false,
        &check,
    )
    .unwrap();
}

#[test]
fn what_a_killed_process_wrote_is_made_durable_before_it_is_shown() {
    let trace = scenario();
    let opened = Cell::new(false);
    let again = |image: &Path| {
        opened.set(false);
        write(image, 1, 1);
    };
    // Ignores what the open syncs, not what the record behind it does.
    let cut = |ignored: fn(&Op) -> bool| {
        let skip = |op: &Op| {
            opened.set(opened.get() || matches!(op, Op::Told(_)));
            !opened.get() && ignored(op)
        };
        power::kill_then_cut(&trace, 1, 16, &again, &skip, &check)
    };
    cut(|_| false).unwrap();
    assert!(cut(|op| matches!(op, Op::SyncDir(_))).is_err());

    let show = |image: &Path| write(image, 0, 1);
    let lazy = |op: &Op| matches!(op, Op::Sync(_));
    assert!(power::kill_then_cut(&trace, 1, 16, &show, &lazy, &check).is_err());
}

#[test]
fn without_any_one_of_the_syncs_something_is_lost() {
    let trace = scenario();
    let headers: Vec<usize> = (0..trace.len())
        .filter(|at| matches!(&trace[*at], Op::Sync(path) if is_header(path, &trace, *at)))
        .collect();
    assert!(headers.len() > 3);
    let header = |op: &Op| {
        headers
            .iter()
            .any(|at| std::ptr::eq(&raw const trace[*at], op))
    };
    let content = |op: &Op| matches!(op, Op::Sync(_)) && !header(op);
    let names = |op: &Op| matches!(op, Op::SyncDir(_));
    let fails = |skip: power::Skip<'_>| power::cut_everywhere(&trace, 64, skip, &check).is_err();
    assert!(fails(&header), "the sync of a new segment's header is idle");
    assert!(fails(&content), "the sync of records is idle");
    assert!(fails(&names), "the sync of the folder is idle");
}
