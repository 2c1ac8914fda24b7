//! An offline look at a data folder: everything is read, nothing is decided.
//!
//! The folder is opened as a start opens it (the lock, the torn end of the log, rows that must be rebuilt), so what a start would repair
//! is repaired and is no finding. May not propose anything.

use super::checkpoints::Checkpoints;
use super::entries::Decoded;
use super::folder::Folder;
use super::replayed::Replayed;
use super::restore::{Decided, Restored, restore_decided};
use super::{OpenError, Options};
use crate::log::Log;
use crate::store::{Store, View};
use append_namespace::Machine;
use std::path::Path;
use std::sync::Arc;

/// What was found. The folder stays locked while it lives.
pub(crate) struct Inspected {
    /// The rows behind the last entry of the log.
    pub(crate) rows: View,
    /// What is damaged or contradicts the rest, in words.
    pub(crate) findings: Vec<String>,
    /// First and last index of the log.
    pub(crate) log: (u64, u64),
    /// Checkpoints that were read.
    pub(crate) checkpoints: usize,
    _store: Arc<dyn Store>,
    _folder: Folder,
}

/// Reads log, rows and checkpoints in `dir` whole, and replays the log from every checkpoint, and from its beginning while that is there:
/// each must give the rows as they stand (I10). Of the log of a server of a group, that counts only as far as the group is known to have
/// decided it.
///
/// # Errors
/// [`OpenError`] for what would keep a server from starting.
pub(crate) fn inspect(dir: &Path, options: &Options) -> Result<Inspected, OpenError> {
    let folder = Folder::open(dir)?;
    let mut findings = Vec::new();
    let mut bases = Vec::new();
    for stored in Checkpoints::open(&folder.checkpoints())?.newest_first() {
        let mut rows = Replayed::default();
        let loaded = stored.load(|changes| {
            rows.apply(changes);
            Ok(())
        });
        match loaded {
            Ok(mark) => bases.push((format!("checkpoint {}", mark.index), mark.index, rows)),
            Err(error) => findings.push(format!("checkpoint {}: {error}", stored.index)),
        }
    }
    let checkpoints = bases.len();
    let decided = match folder.standing().read()? {
        None => Decided::All,
        Some(standing) if standing.reset.is_some() => Decided::Installed,
        Some(_) => Decided::Applied,
    };
    let Restored { log, store, .. } = restore_decided::<Machine>(&folder, options, decided)?;
    let store: Arc<dyn Store> = Arc::new(store);
    let upto = store.applied().mark.index;
    if decided == Decided::Installed {
        // The log does not begin behind the rows yet, and has nothing that belongs to them.
        bases.retain(|(_, index, _)| *index == upto);
    } else if log.first_index() == 1 {
        bases.push(("the beginning".to_owned(), 0, Replayed::default()));
    }
    let rows = store.applied().rows;
    for (name, index, base) in bases {
        if decided != Decided::Installed && index + 1 < log.first_index() {
            findings.push(format!(
                "{name} ends before the log begins, at {}",
                log.first_index()
            ));
            continue;
        }
        replay(&name, base, &log, upto, &rows, &mut findings)?;
    }
    Ok(Inspected {
        rows,
        findings,
        log: (log.first_index(), log.last_index()),
        checkpoints,
        _store: store,
        _folder: folder,
    })
}

fn replay(
    name: &str,
    mut base: Replayed,
    log: &Log,
    upto: u64,
    rows: &View,
    findings: &mut Vec<String>,
) -> Result<(), OpenError> {
    let mut machine = match Machine::open(&base) {
        Ok(machine) => machine,
        Err(error) => {
            findings.push(format!("{name}: {error}"));
            return Ok(());
        }
    };
    for record in log.reader(machine.position().index + 1) {
        let record = record?;
        if record.index > upto {
            break;
        }
        let Decoded {
            entry,
            members,
            epoch,
        } = Decoded::read(&record).map_err(|error| OpenError::Entry {
            index: record.index,
            detail: error.to_string(),
        })?;
        if let Some(epoch) = epoch {
            machine.raise_epoch(epoch);
        }
        match machine.apply(&base, record.term, record.index, &entry) {
            Ok(mut applied) => {
                applied.changes.extend(members);
                base.apply(applied.changes);
            }
            Err(error) => {
                findings.push(format!(
                    "I10: entry {} behind {name} cannot be applied: {error}",
                    record.index
                ));
                return Ok(());
            }
        }
    }
    if let Some(difference) = base.difference(rows.as_ref())? {
        findings.push(format!(
            "I10: the log replayed from {name} gives other rows: {difference}"
        ));
    }
    Ok(())
}

/// Whether `dir` is a data folder, so that looking at another one makes nothing in it.
pub(crate) fn is_data_folder(dir: &Path) -> bool {
    Folder::is_one(dir)
}
