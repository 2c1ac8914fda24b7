//! The offline check of a server's data folder: reads everything in it and names whatever is wrong.
//!
//! Opens the folder as a start does, so what a start repairs (the torn end of a log or of a container file, rows that can be rebuilt) is
//! repaired and is no finding; repairs nothing else. Of a server of a group, that part of its log counts which it knows to be decided, and
//! blocks are not looked at: they are on datanodes. Holds in memory the rows once for each replay, and the ids of all blocks.

use crate::consensus::{self, OpenError, inspect, is_data_folder};
use crate::server::{BLOCKS_FOLDER, OM_FOLDER};
use append_datanode::{BlockId, Datanode, Store, StoreError, StoreOptions};
use append_namespace::{RowsError, check};
use std::path::{Path, PathBuf};

/// Bytes of a block read at once.
const READ: u64 = 8 << 20;

/// What was read, and what is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Each thing that is wrong, in words that begin with the invariant where one is broken. Empty for a sound folder.
    pub violations: Vec<String>,
    /// First and last index of the log.
    pub log: (u64, u64),
    /// Checkpoints that read back.
    pub checkpoints: usize,
    /// Blocks that files name.
    pub published: usize,
    /// Committed bytes of blocks, all read and verified.
    pub bytes: u64,
}

/// Why a folder could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum FsckError {
    /// It is no data folder of a server; nothing was made in it.
    #[error("{} is no data folder of a server", .0.display())]
    NoData(PathBuf),
    /// A server has it open.
    #[error("{} is in use: stop the server first", .0.display())]
    InUse(PathBuf),
}

/// Checks the data folder `data`, which no server may have open. Blocks; reads every byte.
///
/// # Errors
/// [`FsckError`] when there is nothing that could be checked. Whatever would keep a server from starting is a violation in the report.
pub fn fsck(data: &Path) -> Result<Report, FsckError> {
    let om = data.join(OM_FOLDER);
    if !is_data_folder(&om) {
        return Err(FsckError::NoData(data.to_owned()));
    }
    let mut report = Report::default();
    let inspected = match inspect(&om, &consensus::Options::default()) {
        Ok(inspected) => Some(inspected),
        Err(OpenError::Locked(_)) => return Err(FsckError::InUse(data.to_owned())),
        Err(error) => {
            report.violations.push(format!("metadata: {error}"));
            None
        }
    };
    let blocks = data.join(BLOCKS_FOLDER);
    // A server of a group has none: its blocks are on datanodes, whose folders are theirs.
    let opened = blocks
        .is_dir()
        .then(|| Datanode::open(&blocks, StoreOptions::default()))
        .transpose();
    let datanode = match opened {
        Ok(datanode) => datanode,
        Err(append_datanode::OpenError::InUse(_)) => {
            return Err(FsckError::InUse(data.to_owned()));
        }
        Err(error) => {
            report.violations.push(format!("blocks: {error}"));
            None
        }
    };
    if let Some(datanode) = &datanode {
        containers(datanode.store(), &mut report);
    }
    if let Some(inspected) = inspected {
        report.log = inspected.log;
        report.checkpoints = inspected.checkpoints;
        report.violations.extend(inspected.findings);
        let store = datanode.as_ref().map(|datanode| datanode.store().as_ref());
        if let Err(error) = names(inspected.rows.as_ref(), store, &mut report) {
            report.violations.push(format!("rows: {error}"));
        }
    }
    Ok(report)
}

/// Reads every committed block whole.
fn containers(store: &Store, report: &mut Report) {
    for damage in store.damage() {
        report.violations.push(format!(
            "blocks: {} is damaged in {:?}{}",
            damage.path.display(),
            damage.range,
            damage
                .block
                .map(|block| format!(", which block {block} needs"))
                .unwrap_or_default()
        ));
    }
    for id in store.ids() {
        match whole(store, id) {
            Ok(bytes) => report.bytes += bytes,
            // Never committed, or deleted.
            Err(StoreError::NoSuchBlock(_)) => {}
            Err(error) => report.violations.push(format!("block {id}: {error}")),
        }
    }
}

fn whole(store: &Store, id: BlockId) -> Result<u64, StoreError> {
    let length = store.view(id)?.length;
    let mut at = 0;
    while at < length {
        let count = READ.min(length - at);
        store.read_exact(id, at, count)?;
        at += count;
    }
    Ok(length)
}

/// The invariants of the rows, and that the blocks are there which the files need.
fn names(
    rows: &dyn append_namespace::Rows,
    store: Option<&Store>,
    report: &mut Report,
) -> Result<(), RowsError> {
    let broken = check::check(rows)?;
    report
        .violations
        .extend(broken.iter().map(ToString::to_string));
    let published = check::published(rows)?;
    report.published = published.len();
    let Some(store) = store else { return Ok(()) };
    for block in published {
        let Some(id) = block_id(block.container, block.local) else {
            report.violations.push(format!(
                "rows: {} needs block {}/{}, which no datanode can have",
                block.file, block.container, block.local
            ));
            continue;
        };
        let fault = match store.committed_length(id) {
            Ok(length) if length >= block.length => continue,
            Ok(length) => format!("has {length} bytes of {}", block.length),
            Err(error) => error.to_string(),
        };
        report
            .violations
            .push(format!("I3: block {id} of {}: {fault}", block.file));
    }
    let given = check::given_blocks(rows)?;
    for id in store.ids() {
        let known = u64::try_from(id.container)
            .ok()
            .zip(u64::try_from(id.local).ok())
            .is_some_and(|id| given.contains(&id));
        if !known && store.committed_length(id).is_ok() {
            report
                .violations
                .push(format!("I9: block {id} has bytes and was given to nobody"));
        }
    }
    Ok(())
}

fn block_id(container: u64, local: u64) -> Option<BlockId> {
    Some(BlockId::new(
        i64::try_from(container).ok()?,
        i64::try_from(local).ok()?,
    ))
}
