//! From what a data folder holds to rows that stand where the log ends.

use super::checkpoints::Checkpoints;
use super::entries::Decoded;
use super::folder::Folder;
use super::rules::Rules;
use super::{OpenError, Options};
use crate::log::Log;
use crate::store::{DiskStore, Mark, Store, StoreError};
use append_namespace::read;
use std::sync::Arc;

/// Everything open and at one position.
pub(crate) struct Restored<R, S = Arc<dyn Store>> {
    pub(crate) log: Log,
    pub(crate) store: S,
    pub(crate) machine: R,
    pub(crate) checkpoints: Checkpoints,
}

/// How far the log is known to be decided when a folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decided {
    /// All of it: the node is alone.
    All,
    /// What rows and checkpoints hold; the group tells the rest.
    Applied,
    /// What the rows hold: they came from elsewhere, and the log does not begin behind them yet.
    Installed,
}

/// Opens log, checkpoints and rows, rebuilds the rows if they are lost, and applies what the log has beyond them.
pub(crate) fn restore<R: Rules>(
    folder: &Folder,
    options: &Options,
) -> Result<Restored<R>, OpenError> {
    folder.check_alone()?;
    let Restored {
        log,
        store,
        machine,
        checkpoints,
    } = restore_decided(folder, options, Decided::All)?;
    Ok(Restored {
        log,
        store: Arc::new(store),
        machine,
        checkpoints,
    })
}

/// As [`restore`], and applies only what is decided.
pub(crate) fn restore_decided<R: Rules>(
    folder: &Folder,
    options: &Options,
    decided: Decided,
) -> Result<Restored<R, DiskStore>, OpenError> {
    let checkpoints = Checkpoints::open(&folder.checkpoints())?;
    let rows = open_rows(folder, options)?;
    let found = match &rows {
        Ok(store) => store.applied().mark.index,
        Err(_) => 0,
    };
    // Rows and checkpoints come from records that were durable, so the log must have them.
    let floor = found.max(checkpoints.newest().unwrap_or(0));
    let durable = match decided {
        Decided::All | Decided::Applied => floor,
        Decided::Installed => 0,
    };
    let (log, torn) = Log::open(&folder.log(), options.segment_bytes, durable)?;
    if let Some(torn) = torn {
        tracing::warn!(
            path = %torn.path.display(),
            kept = torn.kept,
            cut = torn.cut,
            "the log had a torn end, which was cut: nothing in it had been answered"
        );
    }
    let store = match rows {
        Ok(store) if found + 1 >= log.first_index() => store,
        Ok(store) => {
            drop(store);
            let why = format!(
                "they end at {found}, the log begins at {}",
                log.first_index()
            );
            rebuild(folder, options, &log, &checkpoints, &why)?
        }
        Err(why) => rebuild(folder, options, &log, &checkpoints, &why)?,
    };
    let upto = match decided {
        Decided::All => log.last_index(),
        Decided::Applied => floor,
        Decided::Installed => store.applied().mark.index,
    };
    let machine = replay::<R>(&log, &store, upto)?;
    // The process may have ended between the finalization and this.
    if read::layout(store.applied().rows.as_ref())? > 0 {
        folder.raise_format()?;
    }
    Ok(Restored {
        log,
        store,
        machine,
        checkpoints,
    })
}

/// The rows, or why they must be rebuilt.
fn open_rows(folder: &Folder, options: &Options) -> Result<Result<DiskStore, String>, OpenError> {
    if folder.rows_are_suspect()? {
        return Ok(Err(
            "a row could not be read when the server ran last".to_owned()
        ));
    }
    match DiskStore::open(&folder.rows(), options.cache_bytes) {
        Ok(store) => Ok(Ok(store)),
        Err(StoreError::Invalid(why)) => Ok(Err(why)),
        Err(error) => Err(error.into()),
    }
}

/// Makes the rows anew from the newest checkpoint that reads back and that the log goes on from.
fn rebuild(
    folder: &Folder,
    options: &Options,
    log: &Log,
    checkpoints: &Checkpoints,
    why: &str,
) -> Result<DiskStore, OpenError> {
    tracing::warn!(why, "the rows are rebuilt");
    metrics::counter!("append_rows_rebuilt").increment(1);
    let new = folder.begin_rows()?;
    let mut tried = Vec::new();
    for stored in checkpoints
        .newest_first()
        .iter()
        .filter(|stored| stored.index + 1 >= log.first_index())
    {
        let store = DiskStore::open(&new, options.cache_bytes)?;
        let loaded = stored.load(|changes| {
            store
                .apply(Mark::default(), &changes)
                .map_err(|error| error.to_string())
        });
        match loaded {
            Ok(mark) => {
                store.apply(mark, &[])?;
                store.persist()?;
                drop(store);
                folder.finish_rows(&new)?;
                tracing::info!(index = mark.index, "the rows were taken from a checkpoint");
                return Ok(DiskStore::open(&folder.rows(), options.cache_bytes)?);
            }
            Err(error) => {
                tracing::error!(%error, index = stored.index, "a checkpoint cannot be used");
                tried.push(error.to_string());
                drop(store);
                folder.begin_rows()?;
            }
        }
    }
    if log.first_index() == 1 {
        let store = DiskStore::open(&new, options.cache_bytes)?;
        store.persist()?;
        drop(store);
        folder.finish_rows(&new)?;
        return Ok(DiskStore::open(&folder.rows(), options.cache_bytes)?);
    }
    Err(OpenError::NoCheckpoint {
        rows: why.to_owned(),
        first: log.first_index(),
        tried: tried.join("; "),
    })
}

/// Applies what the log has beyond the rows, up to record `upto`.
fn replay<R: Rules>(log: &Log, store: &DiskStore, upto: u64) -> Result<R, OpenError> {
    let applied = store.applied();
    let mut machine = R::open(applied.rows.as_ref())?;
    let position = machine.position();
    if position.index != applied.mark.index {
        return Err(OpenError::Position {
            rules: position.index,
            store: applied.mark.index,
        });
    }
    let from = applied.mark.index + 1;
    let count = (upto + 1).saturating_sub(from);
    if count > 0 {
        tracing::info!(from, count, "the log is replayed");
    }
    for record in log.reader(from) {
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
        let rows = store.applied().rows;
        let mut applied = machine.apply(rows.as_ref(), record.term, record.index, &entry)?;
        applied.changes.extend(members);
        store.apply(
            Mark {
                term: record.term,
                index: record.index,
            },
            &applied.changes,
        )?;
    }
    let reached = store.applied().mark.index;
    if reached >= upto {
        Ok(machine)
    } else {
        Err(OpenError::Position {
            rules: reached,
            store: upto,
        })
    }
}
