//! From what a data folder holds to rows that stand where the log ends.

use super::checkpoints::Checkpoints;
use super::folder::Folder;
use super::rules::Rules;
use super::{OpenError, Options};
use crate::log::Log;
use crate::store::{DiskStore, Mark, Store, StoreError};
use append_namespace::command::Entry;
use prost::Message;
use std::sync::Arc;

/// Everything open and at one position.
pub(crate) struct Restored<R> {
    pub(crate) log: Log,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) machine: R,
    pub(crate) checkpoints: Checkpoints,
}

/// Opens log, checkpoints and rows, rebuilds the rows if they are lost, and applies what the log has beyond them.
pub(crate) fn restore<R: Rules>(
    folder: &Folder,
    options: &Options,
) -> Result<Restored<R>, OpenError> {
    let checkpoints = Checkpoints::open(&folder.checkpoints())?;
    let rows = open_rows(folder, options)?;
    let found = match &rows {
        Ok(store) => store.applied().mark.index,
        Err(_) => 0,
    };
    // Rows and checkpoints come from records that were durable, so the log must have them.
    let floor = found.max(checkpoints.newest().unwrap_or(0));
    let (log, torn) = Log::open(&folder.log(), options.segment_bytes, floor)?;
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
    let machine = replay::<R>(&log, &store)?;
    Ok(Restored {
        log,
        store: Arc::new(store),
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

/// Applies what the log has beyond the rows.
fn replay<R: Rules>(log: &Log, store: &DiskStore) -> Result<R, OpenError> {
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
    let count = (log.last_index() + 1).saturating_sub(from);
    if count > 0 {
        tracing::info!(from, count, "the log is replayed");
    }
    for record in log.reader(from) {
        let record = record?;
        let entry = Entry::decode(record.payload).map_err(|error| OpenError::Entry {
            index: record.index,
            detail: error.to_string(),
        })?;
        let rows = store.applied().rows;
        let applied = machine.apply(rows.as_ref(), record.term, record.index, &entry)?;
        store.apply(
            Mark {
                term: record.term,
                index: record.index,
            },
            &applied.changes,
        )?;
    }
    let reached = store.applied().mark.index;
    if reached == log.last_index() {
        Ok(machine)
    } else {
        Err(OpenError::Position {
            rules: reached,
            store: log.last_index(),
        })
    }
}
