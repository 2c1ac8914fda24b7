//! The store on disk: one fjall database, one keyspace for each of the namespace's.
//!
//! Rows stand under a one byte prefix. Beside them every keyspace keeps the index of the last batch that touched it, and `meta` keeps
//! the position and all those indexes: at open they must agree, else some keyspace has more or less than the others and the store is
//! invalid. A keyspace is made when its first row comes: each costs the engine a dozen fsyncs. Only plain keyspaces are used, without
//! clear, FIFO or key-value separation.

use super::cache::RowCache;
use super::keys::LiveKeys;
use super::{Applied, Mark, Store, StoreError};
use append_namespace::rows::{Change, Keyspace, Rows, RowsError};
use bytes::{Buf, BufMut, Bytes};
use fjall::{Database, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use hashbrown::HashSet;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Below 192 MiB writers stall, far above it a reopen takes long.
const JOURNAL_BYTES: u64 = 256 << 20;
const MEMTABLE_BYTES: u64 = 16 << 20;
const WORKERS: usize = 2;
/// Before every row's key.
const ROW: u8 = 1;
/// Where a keyspace keeps the index of the last batch that touched it.
const TOUCHED: [u8; 1] = [0];
/// Where `meta` keeps the position and what [`TOUCHED`] must be everywhere.
const POSITION: [u8; 2] = [0, 1];
/// What fjall takes, less the prefix.
const MAX_KEY: usize = 65_534;

/// Rows in a folder.
pub struct DiskStore {
    tables: Arc<Tables>,
    current: Mutex<Current>,
}

struct Tables {
    database: Database,
    /// By the keyspace's number; those that never had a row are not there.
    keyspaces: Vec<OnceLock<fjall::Keyspace>>,
    cache: RowCache,
    live: LiveKeys,
    /// Ranges that the engine was asked for.
    #[cfg(test)]
    scans: std::sync::atomic::AtomicUsize,
}

impl Tables {
    fn get(&self, keyspace: Keyspace) -> Option<&fjall::Keyspace> {
        self.keyspaces[keyspace as usize].get()
    }

    /// The keyspace, made if it is not there. Only the writer may call it.
    fn get_or_make(&self, keyspace: Keyspace) -> fjall::Result<&fjall::Keyspace> {
        let slot = &self.keyspaces[keyspace as usize];
        if let Some(table) = slot.get() {
            return Ok(table);
        }
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let table = self.database.keyspace(keyspace.name(), options)?;
        Ok(slot.get_or_init(|| table))
    }
}

struct Current {
    applied: Applied,
    version: u64,
    /// By the keyspace's number.
    touched: Vec<u64>,
}

struct DiskView {
    snapshot: Snapshot,
    tables: Arc<Tables>,
    version: u64,
}

impl std::fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskStore")
            .field("mark", &self.lock().applied.mark)
            .finish_non_exhaustive()
    }
}

impl DiskStore {
    /// Opens the store in `dir`, or makes an empty one, with about `cache_bytes` of memory for reads.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the rows must be rebuilt; [`StoreError::Unavailable`] when that would not help.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<DiskStore, StoreError> {
        // The engine asserts some things about its own files; a panic of it is one more way to say that they are damaged.
        let opened = catch_unwind(AssertUnwindSafe(|| open_tables(dir, cache_bytes)));
        let tables = Arc::new(match opened {
            Ok(opened) => opened?,
            Err(_) => {
                return Err(StoreError::Invalid(
                    "the engine gave up on its files".to_owned(),
                ));
            }
        });
        let (mark, touched) = check(&tables)?;
        let rows = Arc::new(DiskView {
            snapshot: tables.database.snapshot(),
            tables: tables.clone(),
            version: 0,
        });
        let current = Mutex::new(Current {
            applied: Applied { mark, rows },
            version: 0,
            touched,
        });
        Ok(DiskStore { tables, current })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_tables(dir: &Path, cache_bytes: u64) -> Result<Tables, StoreError> {
    let database = Database::builder(dir)
        .cache_size(cache_bytes / 2)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(WORKERS)
        .open()
        .map_err(open_error)?;
    let cache = RowCache::new(usize::try_from(cache_bytes / 2).unwrap_or(usize::MAX));
    let tables = Tables {
        database,
        keyspaces: Keyspace::ALL.map(|_| OnceLock::new()).into(),
        cache,
        live: LiveKeys::default(),
        #[cfg(test)]
        scans: std::sync::atomic::AtomicUsize::new(0),
    };
    for keyspace in Keyspace::ALL {
        if keyspace == Keyspace::Meta || tables.database.keyspace_exists(keyspace.name()) {
            tables.get_or_make(keyspace).map_err(open_error)?;
        }
    }
    for keyspace in LiveKeys::keyspaces() {
        let Some(table) = tables.get(keyspace) else {
            continue;
        };
        for row in table.range(vec![ROW]..vec![ROW + 1]) {
            let key = row.key().map_err(open_error)?;
            tables.live.change(keyspace, &key[1..], 0, true);
        }
    }
    Ok(tables)
}

/// What the system refuses for reasons of its own must not cost the rows.
fn open_error(error: fjall::Error) -> StoreError {
    use std::io::ErrorKind::{
        OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let kind = match &error {
        fjall::Error::Locked => {
            return StoreError::Unavailable("another process has them open".to_owned());
        }
        fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) => {
            if matches!(io.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                return StoreError::Unavailable(error.to_string());
            }
            Some(io.kind())
        }
        _ => None,
    };
    match kind {
        Some(OutOfMemory | PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull) => {
            StoreError::Unavailable(error.to_string())
        }
        _ => StoreError::Invalid(error.to_string()),
    }
}

/// Every keyspace must stand at the position that `meta` tells.
fn check(tables: &Tables) -> Result<(Mark, Vec<u64>), StoreError> {
    let invalid = |error: fjall::Error| StoreError::Invalid(error.to_string());
    let get = |keyspace, key: &[u8]| {
        tables
            .get(keyspace)
            .map_or(Ok(None), |table| table.get(key))
            .map_err(invalid)
    };
    let (mark, touched) = match get(Keyspace::Meta, &POSITION)? {
        Some(row) => decode_position(&row)?,
        None => (Mark::default(), vec![0; Keyspace::ALL.len()]),
    };
    for keyspace in Keyspace::ALL {
        let row = get(keyspace, &TOUCHED)?;
        let found = match row.as_deref() {
            None => 0,
            Some(row) => row.try_into().map(u64::from_le_bytes).map_err(|_| {
                StoreError::Invalid(format!(
                    "the position of {} does not decode",
                    keyspace.name()
                ))
            })?,
        };
        let expected = touched[keyspace as usize];
        if found != expected {
            let detail = format!(
                "{} was last changed at {found}, meta says {expected}",
                keyspace.name()
            );
            return Err(StoreError::Invalid(detail));
        }
    }
    Ok((mark, touched))
}

fn encode_position(mark: Mark, touched: &[u64]) -> Vec<u8> {
    let mut row = Vec::with_capacity(16 + 8 * touched.len());
    row.put_u64_le(mark.term);
    row.put_u64_le(mark.index);
    for index in touched {
        row.put_u64_le(*index);
    }
    row
}

/// A store of an older version has fewer keyspaces: the new ones are untouched.
fn decode_position(mut row: &[u8]) -> Result<(Mark, Vec<u64>), StoreError> {
    let most = 16 + 8 * Keyspace::ALL.len();
    if row.len() < 16 || row.len() > most || !row.len().is_multiple_of(8) {
        return Err(StoreError::Invalid(
            "the position does not decode".to_owned(),
        ));
    }
    let mark = Mark {
        term: row.get_u64_le(),
        index: row.get_u64_le(),
    };
    let mut touched = Vec::with_capacity(Keyspace::ALL.len());
    while row.has_remaining() {
        touched.push(row.get_u64_le());
    }
    touched.resize(Keyspace::ALL.len(), 0);
    Ok((mark, touched))
}

fn row_key(key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(1 + key.len());
    full.push(ROW);
    full.extend_from_slice(key);
    full
}

#[cfg(test)]
impl DiskStore {
    pub(super) fn scans(&self) -> usize {
        self.tables.scans.load(std::sync::atomic::Ordering::Acquire)
    }
}

impl Store for DiskStore {
    fn apply(&self, mark: Mark, changes: &[Change]) -> Result<(), StoreError> {
        let failed = |error: fjall::Error| StoreError::Failed(error.to_string());
        let (version, mut touched) = {
            let current = self.lock();
            (current.version + 1, current.touched.clone())
        };
        let tables = &self.tables;
        let mut batch = tables.database.batch();
        // All rows of a batch share one sequence number, so only the last change of a key may go in.
        let mut seen = HashSet::with_capacity(changes.len());
        for change in changes.iter().rev() {
            if change.key.len() > MAX_KEY {
                return Err(StoreError::Failed(format!(
                    "a key of {} bytes",
                    change.key.len()
                )));
            }
            if !seen.insert((change.keyspace, &change.key)) {
                continue;
            }
            let keyspace = tables.get_or_make(change.keyspace).map_err(failed)?;
            touched[change.keyspace as usize] = mark.index;
            match &change.value {
                Some(row) => batch.insert(keyspace, row_key(&change.key), row.as_ref()),
                None => batch.remove(keyspace, row_key(&change.key)),
            }
            let there = change.value.is_some();
            tables
                .live
                .change(change.keyspace, &change.key, version, there);
            tables
                .cache
                .change(change.keyspace, &change.key, version, change.value.clone());
        }
        for keyspace in Keyspace::ALL {
            if touched[keyspace as usize] == mark.index {
                batch.insert(
                    tables.get_or_make(keyspace).map_err(failed)?,
                    TOUCHED,
                    mark.index.to_le_bytes(),
                );
            }
        }
        let meta = tables.get_or_make(Keyspace::Meta).map_err(failed)?;
        batch.insert(meta, POSITION, encode_position(mark, &touched));
        batch.commit().map_err(failed)?;
        let rows = Arc::new(DiskView {
            snapshot: tables.database.snapshot(),
            tables: tables.clone(),
            version,
        });
        *self.lock() = Current {
            applied: Applied { mark, rows },
            version,
            touched,
        };
        Ok(())
    }

    fn applied(&self) -> Applied {
        self.lock().applied.clone()
    }

    fn persist(&self) -> Result<Mark, StoreError> {
        let mark = self.lock().applied.mark;
        self.tables
            .database
            .persist(PersistMode::SyncAll)
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(mark)
    }

    fn size(&self) -> u64 {
        self.tables
            .keyspaces
            .iter()
            .filter_map(OnceLock::get)
            .map(fjall::Keyspace::disk_space)
            .sum()
    }
}

impl DiskView {
    fn live_row(&self, keyspace: Keyspace, key: Box<[u8]>) -> Result<(Bytes, Bytes), RowsError> {
        match self.get(keyspace, &key)? {
            Some(row) => Ok((Bytes::from(key), row)),
            None => Err(RowsError::Store(format!(
                "a row of {} is known and not there",
                keyspace.name()
            ))),
        }
    }
}

fn rows_error(error: fjall::Error) -> RowsError {
    RowsError::Store(error.to_string())
}

impl Rows for DiskView {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, RowsError> {
        // Names come from clients: the engine panics at a key that it could not keep.
        if key.len() > MAX_KEY {
            return Ok(None);
        }
        if let Some(row) = self.tables.cache.get(keyspace, key, self.version) {
            return Ok(row);
        }
        let row = match self.tables.get(keyspace) {
            Some(table) => self.snapshot.get(table, row_key(key)).map_err(rows_error)?,
            None => None,
        };
        let row = row.map(|row| Bytes::copy_from_slice(&row));
        self.tables
            .cache
            .fill(keyspace, key, self.version, row.clone());
        Ok(row)
    }

    fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, RowsError> {
        if to.is_some_and(|to| to <= from) {
            return Ok(Vec::new());
        }
        let live = &self.tables.live;
        if let Some(keys) = live.range(keyspace, from, to, limit, self.version) {
            return keys
                .into_iter()
                .map(|key| self.live_row(keyspace, key))
                .collect();
        }
        let Some(table) = self.tables.get(keyspace) else {
            return Ok(Vec::new());
        };
        #[cfg(test)]
        self.tables
            .scans
            .fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        let begin = match from.get(..MAX_KEY) {
            // No row is as long as the bound, so those behind what fits of it are those behind it.
            Some(fits) if from.len() > MAX_KEY => Bound::Excluded(row_key(fits)),
            _ => Bound::Included(row_key(from)),
        };
        let end = match to {
            Some(to) if to.len() > MAX_KEY => Bound::Included(row_key(&to[..MAX_KEY])),
            Some(to) => Bound::Excluded(row_key(to)),
            None => Bound::Excluded(vec![ROW + 1]),
        };
        self.snapshot
            .range(table, (begin, end))
            .take(limit)
            .map(|guard| {
                let (key, row) = guard.into_inner().map_err(rows_error)?;
                Ok((
                    Bytes::copy_from_slice(&key[1..]),
                    Bytes::copy_from_slice(&row),
                ))
            })
            .collect()
    }
}
