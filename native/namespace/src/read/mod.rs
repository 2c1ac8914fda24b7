//! What the rows say, for those who answer readers. Nothing here changes a row.
//!
//! Every function reads the rows as of one applied position. The outer error is a broken store, the inner one an answer.

mod blocks;
mod duties;
mod list;
mod recovery;
mod sessions;
mod shown;

pub use blocks::{blocks, blocks_of};
pub use duties::{Look, deleted_tree, due_sessions};
pub use list::{keys, list};
pub use recovery::recovery;
pub use sessions::{any_session, append_status, open_files, session_file};

use crate::bucket as buckets_rule;
use crate::command::{Holder, KeyPath, Layout, Limits};
use crate::key;
use crate::machine::Position;
use crate::name;
use crate::record::{BucketRow, VolumeRow};
use crate::reply::{Refusal, RefusalKind};
use crate::resolve::{self, At};
use crate::rows::{Change, Keyspace, Rows, RowsError};
use crate::table;
use crate::view::{BucketView, Node, VolumeView};

/// A read's answer, or why there is none; outside, a store that failed.
pub type ReadResult<T> = Result<Result<T, Refusal>, RowsError>;

/// Ends a read with an answer's refusal inside a [`ReadResult`].
macro_rules! tell {
    ($answer:expr) => {
        match $answer {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}
pub(crate) use tell;

/// How far the history has been applied; all zero for a fresh store.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn position(rows: &dyn Rows) -> Result<Position, RowsError> {
    table::position(rows)
}

/// The finalized layout; 0 before the first finalization.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn layout(rows: &dyn Rows) -> Result<u32, RowsError> {
    table::layout(rows)
}

/// Whether the changes finalize a layout.
#[must_use]
pub fn finalizes(changes: &[Change]) -> bool {
    let layout = |change: &Change| change.keyspace == Keyspace::Meta && change.key == key::LAYOUT;
    changes.iter().any(layout)
}

/// The limits in force; [`Limits::starting`] until they are set.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn limits(rows: &dyn Rows) -> Result<Limits, RowsError> {
    table::limits(rows)
}

/// A volume; `VolumeNotFound`.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn volume(rows: &dyn Rows, volume: &str) -> ReadResult<VolumeView> {
    Ok(match table::volume(rows, volume)? {
        Some(row) => Ok(shown::volume(volume, row)),
        None => Err(no_volume(volume)),
    })
}

/// At most `max` volumes behind `after` whose names start with `prefix`, of one owner if one is named, in the order of their names.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn volumes(
    rows: &dyn Rows,
    owner: Option<&str>,
    prefix: &str,
    after: &str,
    max: usize,
) -> ReadResult<Vec<VolumeView>> {
    let mut found = Vec::new();
    let mut from = behind(after.as_bytes(), after.is_empty());
    while found.len() < max {
        let page = table::below(rows, Keyspace::Volumes, prefix.as_bytes(), &from, max)?;
        let full = page.len() == max;
        for (key, value) in page {
            from = behind(&key, false);
            let row: VolumeRow = table::decode(Keyspace::Volumes, &value)?;
            if owner.is_none_or(|owner| owner == row.owner) && found.len() < max {
                found.push(shown::volume(&String::from_utf8_lossy(&key), row));
            }
        }
        if !full {
            break;
        }
    }
    Ok(Ok(found))
}

/// A bucket; `VolumeNotFound`, `BucketNotFound`.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn bucket(rows: &dyn Rows, volume: &str, bucket: &str) -> ReadResult<BucketView> {
    Ok(buckets_rule::get(rows, volume, bucket)?.map(shown::bucket))
}

/// At most `max` buckets of a volume behind `after` whose names start with `prefix`, in the order of their names; `VolumeNotFound`.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn buckets(
    rows: &dyn Rows,
    volume: &str,
    prefix: &str,
    after: &str,
    max: usize,
) -> ReadResult<Vec<BucketView>> {
    if table::volume(rows, volume)?.is_none() {
        return Ok(Err(no_volume(volume)));
    }
    let from = behind(&key::bucket(volume, after), after.is_empty());
    let page = table::below(
        rows,
        Keyspace::Buckets,
        &key::bucket(volume, prefix),
        &from,
        max,
    )?;
    let mut found = Vec::with_capacity(page.len());
    for (_, value) in page {
        found.push(shown::bucket(table::decode(Keyspace::Buckets, &value)?));
    }
    Ok(Ok(found))
}

/// What stands at a path; `FileNotFound` when nothing does. In LEGACY and OBJECT_STORE a key that ends in a slash, or any key below, makes
/// a directory.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn status(rows: &dyn Rows, path: &KeyPath) -> ReadResult<Node> {
    let row = tell!(buckets_rule::get(rows, &path.volume, &path.bucket)?);
    let text = tell!(text(&row, path));
    match stands(rows, &row, &text)? {
        Some(at) => Ok(Ok(shown::node(rows, &row, &text, at)?)),
        None => Ok(Err(not_found(path))),
    }
}

/// The normalised key of a path. A key that nobody may write is a key that is not there.
fn text(row: &BucketRow, path: &KeyPath) -> Result<String, Refusal> {
    name::key(buckets_rule::layout(row), &path.key)
        .map(|key| key.text)
        .map_err(|_| not_found(path))
}

/// What stands at a key, as a reader sees it.
fn stands(rows: &dyn Rows, row: &BucketRow, text: &str) -> Result<Option<At>, RowsError> {
    match resolve::locate(rows, row, text)? {
        At::Missing(_) | At::BelowFile => {}
        at => return Ok(Some(at)),
    }
    if buckets_rule::layout(row) != Layout::ObjectStore {
        return Ok(None);
    }
    let directory = text.trim_end_matches('/');
    if directory.is_empty() {
        return Ok(text.chars().all(|c| c == '/').then_some(At::Root));
    }
    Ok(resolve::key_directory(rows, row.object_id, directory)?.map(At::Directory))
}

/// A block holder.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn holder(rows: &dyn Rows, number: u32) -> Result<Option<Holder>, RowsError> {
    table::holder(rows, number)
}

/// All block holders, in the order of their numbers.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn holders(rows: &dyn Rows) -> Result<Vec<Holder>, RowsError> {
    rows.range(Keyspace::Holders, &[], None, usize::MAX)?
        .into_iter()
        .map(|(_, value)| table::decode(Keyspace::Holders, &value))
        .collect()
}

/// The first key behind `key`, or the key itself when everything from it on is wanted.
fn behind(key: &[u8], inclusive: bool) -> Vec<u8> {
    let mut from = key.to_vec();
    if !inclusive {
        from.push(0);
    }
    from
}

fn no_volume(volume: &str) -> Refusal {
    Refusal::new(
        RefusalKind::VolumeNotFound,
        format!("there is no volume {volume}"),
    )
}

fn not_found(path: &KeyPath) -> Refusal {
    Refusal::new(RefusalKind::FileNotFound, format!("{path} is not there"))
}

#[cfg(test)]
mod tests;
