//! Open sessions, as waiters, their own writers and operators see them.

use super::{ReadResult, behind, shown, tell, text};
use crate::bucket;
use crate::command::{Handle, KeyPath};
use crate::key::{self, Place};
use crate::record::OpenRow;
use crate::reply::{AppendStatus, Phase, Refusal, RefusalKind};
use crate::resolve::{self, At};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::session;
use crate::table;
use crate::view::{FileView, OpenFileView};

/// Rows that are read at once while all of a keyspace are counted.
const COUNT_PAGE: usize = 4_096;

/// The writer that stands at a path, ordinary writers that have committed nothing included; nothing if the file is closed. A path at which
/// nothing stands and nobody writes is `FileNotFound`.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn append_status(rows: &dyn Rows, path: &KeyPath) -> ReadResult<Option<AppendStatus>> {
    let row = tell!(bucket::get(rows, &path.volume, &path.bucket)?);
    let text = tell!(text(&row, path));
    let (found, committed) = match resolve::locate(rows, &row, &text)? {
        At::File(place, file) => {
            let owner = session::owner(rows, &place, &file)?;
            let hsync = session::hsynced(rows, &place, &file)?;
            let found = match owner.or(hsync) {
                Some(found) => Some(found),
                None => session::ordinary_at(rows, &place)?,
            };
            (found, true)
        }
        At::Missing(missing) => match missing.place() {
            Some(place) => (session::ordinary_at(rows, &place)?, false),
            None => (None, false),
        },
        At::Root | At::Directory(_) => (None, true),
        At::BelowFile => (None, false),
    };
    match found {
        Some(found) => {
            let lease_ms = table::position(rows)?.lease_ms;
            let limits = table::limits(rows)?;
            Ok(Ok(Some(session::status(
                rows,
                found.id,
                &found.open,
                lease_ms,
                &limits,
            )?)))
        }
        None if committed => Ok(Ok(None)),
        None => Ok(Err(super::not_found(path))),
    }
}

/// The committed file of a session, wherever it is now. `SessionUnknown`, `IdentityMismatch`, `Invalidated`, `Unreachable` as for a write;
/// `KeyNotFound` for an ordinary writer that has committed nothing.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn session_file(rows: &dyn Rows, handle: &Handle) -> ReadResult<FileView> {
    let refuse = |kind, why: String| Ok(Err(Refusal::new(kind, why)));
    let Some(open) = table::open(rows, handle.bucket, handle.session)? else {
        return refuse(
            RefusalKind::SessionUnknown,
            format!("there is no session {}", handle.session),
        );
    };
    if open.file != handle.file {
        return refuse(
            RefusalKind::IdentityMismatch,
            format!("session {} writes another file", handle.session),
        );
    }
    if session::phase(&open) == Phase::Invalidated {
        return Ok(Err(session::over(handle.session, &open)));
    }
    let place = Place::from(open.place.clone());
    let row = table::bucket_by_id(rows, handle.bucket)?;
    let path = resolve::path_of(rows, &place)?;
    let (Some(row), Some(path)) = (row, path) else {
        let why = format!(
            "a directory above the file of session {} was deleted",
            handle.session
        );
        return refuse(RefusalKind::Unreachable, why);
    };
    let written = open
        .ordinary
        .and_then(|ordinary| ordinary.published)
        .map_or(open.file, |published| published.file);
    match table::file(rows, &place)?.filter(|file| file.object_id == written) {
        Some(file) => Ok(Ok(shown::file(rows, &row, &path, place.parent, file)?)),
        None => refuse(
            RefusalKind::KeyNotFound,
            format!("writer {} has committed nothing", handle.session),
        ),
    }
}

/// At most `max` open sessions behind `token` (empty for the first), of one bucket or of all; the token of the next page, if there is one;
/// and how many there are altogether. Invalidated sessions that wait for their cleanup are among them.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn open_files(
    rows: &dyn Rows,
    bucket: Option<(&str, &str)>,
    token: &[u8],
    max: usize,
) -> ReadResult<(Vec<OpenFileView>, Option<Vec<u8>>, u64)> {
    let prefix = match bucket {
        Some((volume, bucket)) => key::one(tell!(bucket::get(rows, volume, bucket)?).object_id),
        None => Vec::new(),
    };
    let from = behind(token, token.is_empty());
    let page = table::below(rows, Keyspace::Open, &prefix, &from, max.saturating_add(1))?;
    let more = page.len() > max;
    let lease_ms = table::position(rows)?.lease_ms;
    let limits = table::limits(rows)?;
    let mut found = Vec::new();
    let mut next = None;
    for (key, value) in page.into_iter().take(max) {
        let session = key::number_at(&key, 8)
            .ok_or_else(|| table::corrupt(Keyspace::Open, "a key without a session"))?;
        let open: OpenRow = table::decode(Keyspace::Open, &value)?;
        let place = Place::from(open.place.clone());
        // Below a deleted directory only the name itself is left to show.
        let path = resolve::path_of(rows, &place)?.unwrap_or_else(|| place.name.clone());
        let path = match table::bucket_by_id(rows, place.bucket)? {
            Some(row) => shown::path(&row, &path),
            None => KeyPath {
                key: path,
                ..KeyPath::default()
            },
        };
        found.push(OpenFileView {
            path,
            session,
            object_id: open.file,
            opened_ms: open.opened_ms,
            replication: open.replication.clone(),
            status: session::status(rows, session, &open, lease_ms, &limits)?,
        });
        next = Some(key.to_vec());
    }
    let mut total = 0;
    let mut from = prefix.clone();
    loop {
        let page = table::below(rows, Keyspace::Open, &prefix, &from, COUNT_PAGE)?;
        total += u64::try_from(page.len()).unwrap_or(u64::MAX);
        match page.last() {
            Some((last, _)) if page.len() == COUNT_PAGE => from = behind(last, false),
            _ => break,
        }
    }
    Ok(Ok((found, next.filter(|_| more), total)))
}

/// Is any session open, whose time may run out? While one is, the leader commits ticks so that lease time advances.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn any_session(rows: &dyn Rows) -> Result<bool, RowsError> {
    Ok(table::leases(rows)? > 0 || table::writers(rows)? > 0)
}
