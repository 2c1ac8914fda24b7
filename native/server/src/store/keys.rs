//! The keys that are there, of the keyspaces whose rows come and go with every session and every answer.
//!
//! The engine keeps a removed row as a marker until it has merged its files, and a range read walks over all of them: with every append to
//! a file the next would cost more. So the keys that live are known here, in order, and ranges of the newest version touch no marker.

use append_namespace::rows::Keyspace;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

/// Those keyspaces. They have as many rows as there are open sessions, their blocks, and answers that may be asked for again.
const SHORT_LIVED: [Keyspace; 5] = [
    Keyspace::Open,
    Keyspace::OpenByName,
    Keyspace::Allocations,
    Keyspace::Dedupe,
    Keyspace::DedupeOrder,
];

/// More rows than this are better walked over than looked up one by one.
const FEW: usize = 512;

#[derive(Debug, Default)]
struct Live {
    keys: BTreeSet<Box<[u8]>>,
    /// The version that changed a row last.
    changed: u64,
}

/// See the module. One thread changes, many read.
#[derive(Debug, Default)]
pub(crate) struct LiveKeys {
    live: [RwLock<Live>; SHORT_LIVED.len()],
}

impl LiveKeys {
    /// The keyspaces whose keys must be told when a store is opened.
    pub(crate) fn keyspaces() -> impl Iterator<Item = Keyspace> {
        SHORT_LIVED.into_iter()
    }

    fn of(&self, keyspace: Keyspace) -> Option<&RwLock<Live>> {
        let at = SHORT_LIVED.iter().position(|known| *known == keyspace)?;
        self.live.get(at)
    }

    /// Records that `version` writes a row, or removes it. Must come before any reader can have that version.
    pub(crate) fn change(&self, keyspace: Keyspace, key: &[u8], version: u64, there: bool) {
        let Some(live) = self.of(keyspace) else {
            return;
        };
        let mut live = live.write().unwrap_or_else(PoisonError::into_inner);
        live.changed = version;
        if there {
            live.keys.insert(key.into());
        } else {
            live.keys.remove(key);
        }
    }

    /// Up to `limit` keys from `from` to before `to`, as of version `at`. Nothing when the keys of that version are not known, because the
    /// keyspace is another or has changed since, or when they are many.
    pub(crate) fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
        at: u64,
    ) -> Option<Vec<Box<[u8]>>> {
        let live = self
            .of(keyspace)?
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if live.changed > at {
            return None;
        }
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = live
            .keys
            .range::<[u8], _>((Bound::Included(from), to))
            .take(limit.min(FEW + 1));
        let keys: Vec<_> = keys.cloned().collect();
        (keys.len() <= FEW).then_some(keys)
    }
}
