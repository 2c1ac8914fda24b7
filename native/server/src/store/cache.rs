//! Rows in memory before the disk store's own reads, which cost tens of microseconds even when nothing is read from disk.
//!
//! Every entry tells from which version of the store on it holds. A reader at an older version does not get it, so a view never sees a
//! row of its future.

use append_namespace::rows::Keyspace;
use bytes::Bytes;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

const SHARDS: usize = 16;
/// About what an entry takes beside its bytes.
const OVERHEAD: usize = 128;

/// A bounded cache of single rows, absent ones included.
#[derive(Debug)]
pub(crate) struct RowCache {
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    /// Bytes of one generation of one shard.
    generation: usize,
}

/// Two generations: what the older one still holds is dropped when the younger is full, unless it was read meanwhile.
#[derive(Debug, Default)]
struct Shard {
    young: HashMap<Vec<u8>, Entry>,
    old: HashMap<Vec<u8>, Entry>,
    bytes: usize,
    /// The version that changed a row of this shard last.
    changed: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    since: u64,
    row: Option<Bytes>,
}

impl RowCache {
    /// A cache of about `bytes`.
    pub(crate) fn new(bytes: usize) -> RowCache {
        RowCache {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            generation: bytes / (2 * SHARDS),
        }
    }

    /// The row as of version `at`, if it is known: `Some(None)` when there is no such row.
    pub(crate) fn get(&self, keyspace: Keyspace, key: &[u8], at: u64) -> Option<Option<Bytes>> {
        let full = full_key(keyspace, key);
        self.with_shard(&full, |shard| {
            if let Some(entry) = shard.young.get(&full) {
                return (entry.since <= at).then(|| entry.row.clone());
            }
            let entry = shard.old.remove(&full)?;
            let row = (entry.since <= at).then(|| entry.row.clone());
            shard.insert(full.clone(), entry, self.generation);
            row
        })
    }

    /// Remembers what a reader at version `at` found in the store, unless the shard has changed since.
    pub(crate) fn fill(&self, keyspace: Keyspace, key: &[u8], at: u64, row: Option<Bytes>) {
        let full = full_key(keyspace, key);
        self.with_shard(&full, |shard| {
            if shard.changed <= at {
                shard.insert(full.clone(), Entry { since: at, row }, self.generation);
            }
        });
    }

    /// Records that `version` writes `row`. Must come before any reader can have that version.
    pub(crate) fn change(&self, keyspace: Keyspace, key: &[u8], version: u64, row: Option<Bytes>) {
        let full = full_key(keyspace, key);
        self.with_shard(&full, |shard| {
            shard.changed = version;
            shard.old.remove(&full);
            shard.insert(
                full.clone(),
                Entry {
                    since: version,
                    row,
                },
                self.generation,
            );
        });
    }

    fn with_shard<T>(&self, full: &[u8], act: impl FnOnce(&mut Shard) -> T) -> T {
        let hash = usize::try_from(self.hasher.hash_one(full) % SHARDS as u64).unwrap_or(0);
        act(&mut self.shards[hash]
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shard {
    fn insert(&mut self, key: Vec<u8>, entry: Entry, generation: usize) {
        let length = key.len();
        let size = |entry: &Entry| OVERHEAD + length + entry.row.as_ref().map_or(0, Bytes::len);
        if self.bytes + size(&entry) > generation {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += size(&entry);
        // A row that changes with every entry must not drive out the others.
        if let Some(replaced) = self.young.insert(key, entry) {
            self.bytes = self.bytes.saturating_sub(size(&replaced));
        }
    }
}

fn full_key(keyspace: Keyspace, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(1 + key.len());
    full.push(keyspace as u8);
    full.extend_from_slice(key);
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: Keyspace = Keyspace::Files;

    #[test]
    fn a_reader_sees_only_what_held_at_its_version() {
        let cache = RowCache::new(1 << 20);
        cache.change(K, b"a", 5, Some(Bytes::from_static(b"five")));
        assert_eq!(cache.get(K, b"a", 4), None);
        assert_eq!(
            cache.get(K, b"a", 5),
            Some(Some(Bytes::from_static(b"five")))
        );
        cache.change(K, b"a", 6, None);
        assert_eq!(cache.get(K, b"a", 5), None);
        assert_eq!(cache.get(K, b"a", 9), Some(None));
        assert_eq!(cache.get(Keyspace::Dirs, b"a", 9), None);
    }

    #[test]
    fn a_late_fill_of_an_old_reader_is_dropped() {
        let cache = RowCache::new(1 << 20);
        cache.change(K, b"a", 6, Some(Bytes::from_static(b"new")));
        cache.fill(K, b"a", 5, Some(Bytes::from_static(b"old")));
        assert_eq!(
            cache.get(K, b"a", 7),
            Some(Some(Bytes::from_static(b"new")))
        );
    }

    #[test]
    fn a_row_that_changes_often_takes_the_room_of_one() {
        let cache = RowCache::new(SHARDS * 2 * 4_096);
        for at in 0..8u8 {
            cache.change(K, &[at], 1, Some(Bytes::from_static(b"kept")));
        }
        for version in 2..10_000 {
            cache.change(K, b"hot", version, Some(Bytes::from_static(b"changed")));
        }
        for at in 0..8u8 {
            assert!(cache.get(K, &[at], 10_000).is_some());
        }
    }

    #[test]
    fn it_stays_within_its_bound_and_keeps_what_is_read() {
        let cache = RowCache::new(SHARDS * 2 * 4_096);
        cache.change(K, b"hot", 1, Some(Bytes::from_static(b"hot")));
        for at in 0..10_000u64 {
            cache.change(
                K,
                &at.to_be_bytes(),
                at + 2,
                Some(Bytes::from(vec![0; 100])),
            );
            assert!(cache.get(K, b"hot", at + 2).is_some());
        }
        let held: usize = cache
            .shards
            .iter()
            .map(|shard| {
                let shard = shard.lock().unwrap();
                shard.young.len() + shard.old.len()
            })
            .sum();
        assert!(
            held <= SHARDS * 2 * (4_096 / (OVERHEAD + 100)) + 1,
            "{held}"
        );
    }
}
