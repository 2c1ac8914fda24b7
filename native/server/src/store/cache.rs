//! Rows in memory before the disk store's own reads, which cost tens of microseconds even when nothing is read from disk.
//!
//! Every entry tells from which version of the store on it holds. A reader at an older version does not get it, so a view never sees a
//! row of its future.

use append_namespace::rows::Keyspace;
use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;
/// About what an entry takes beside its bytes.
const OVERHEAD: usize = 128;

/// A bounded cache of single rows, absent ones included.
#[derive(Debug)]
pub(crate) struct RowCache {
    hasher: DefaultHashBuilder,
    shards: Vec<Mutex<Shard>>,
    /// Bytes of one generation of one shard.
    generation: usize,
}

/// Two generations: what the older one still holds is dropped when the younger is full, unless it was read meanwhile.
#[derive(Debug, Default)]
struct Shard {
    young: HashTable<Entry>,
    old: HashTable<Entry>,
    bytes: usize,
    /// The version that changed a row of this shard last.
    changed: u64,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    keyspace: Keyspace,
    key: Box<[u8]>,
    since: u64,
    row: Option<Bytes>,
}

impl Entry {
    fn size(&self) -> usize {
        OVERHEAD + self.key.len() + self.row.as_ref().map_or(0, Bytes::len)
    }

    fn is(&self, keyspace: Keyspace, key: &[u8]) -> bool {
        self.keyspace == keyspace && *self.key == *key
    }

    fn as_of(&self, at: u64) -> Option<Option<Bytes>> {
        (self.since <= at).then(|| self.row.clone())
    }
}

impl RowCache {
    /// A cache of about `bytes`.
    pub(crate) fn new(bytes: usize) -> RowCache {
        RowCache {
            hasher: DefaultHashBuilder::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            generation: bytes / (2 * SHARDS),
        }
    }

    /// The row as of version `at`, if it is known: `Some(None)` when there is no such row.
    pub(crate) fn get(&self, keyspace: Keyspace, key: &[u8], at: u64) -> Option<Option<Bytes>> {
        let hash = self.hash(keyspace, key);
        let mut shard = self.shard(hash);
        if let Some(entry) = shard.young.find(hash, |entry| entry.is(keyspace, key)) {
            return entry.as_of(at);
        }
        let entry = shard.take_old(hash, keyspace, key)?;
        let row = entry.as_of(at);
        shard.insert(entry, self.generation);
        row
    }

    /// Remembers what a reader at version `at` found in the store, unless the shard has changed since.
    pub(crate) fn fill(&self, keyspace: Keyspace, key: &[u8], at: u64, row: Option<Bytes>) {
        let hash = self.hash(keyspace, key);
        let mut shard = self.shard(hash);
        if shard.changed <= at {
            shard.insert(entry(hash, keyspace, key, at, row), self.generation);
        }
    }

    /// Records that `version` writes `row`. Must come before any reader can have that version.
    pub(crate) fn change(&self, keyspace: Keyspace, key: &[u8], version: u64, row: Option<Bytes>) {
        let hash = self.hash(keyspace, key);
        let mut shard = self.shard(hash);
        shard.changed = version;
        shard.take_old(hash, keyspace, key);
        shard.insert(entry(hash, keyspace, key, version, row), self.generation);
    }

    fn hash(&self, keyspace: Keyspace, key: &[u8]) -> u64 {
        self.hasher.hash_one((keyspace as u8, key))
    }

    /// The tables take the lowest and the highest bits of a hash.
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let at = usize::try_from((hash >> 32) % SHARDS as u64).unwrap_or(0);
        self.shards[at]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(hash: u64, keyspace: Keyspace, key: &[u8], since: u64, row: Option<Bytes>) -> Entry {
    Entry {
        hash,
        keyspace,
        key: key.into(),
        since,
        row,
    }
}

impl Shard {
    fn take_old(&mut self, hash: u64, keyspace: Keyspace, key: &[u8]) -> Option<Entry> {
        let found = self
            .old
            .find_entry(hash, |entry| entry.is(keyspace, key))
            .ok()?;
        Some(found.remove().0)
    }

    fn insert(&mut self, entry: Entry, generation: usize) {
        if self.bytes + entry.size() > generation {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += entry.size();
        let held = self
            .young
            .find_mut(entry.hash, |held| held.is(entry.keyspace, &entry.key));
        match held {
            // A row that changes with every entry must not drive out the others.
            Some(held) => {
                self.bytes = self.bytes.saturating_sub(held.size());
                *held = entry;
            }
            None => {
                self.young
                    .insert_unique(entry.hash, entry, |entry| entry.hash);
            }
        }
    }
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
