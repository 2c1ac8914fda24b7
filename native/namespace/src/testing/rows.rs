//! Rows in memory.

use crate::rows::{Change, Keyspace, Rows, RowsError};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Rows in a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemoryRows {
    rows: BTreeMap<(Keyspace, Bytes), Bytes>,
}

impl MemoryRows {
    pub(crate) fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) {
        self.rows.insert(
            (keyspace, Bytes::copy_from_slice(key)),
            Bytes::copy_from_slice(value),
        );
    }

    /// The rows without those that every entry may change: position, remembered answers.
    pub(crate) fn without_bookkeeping(&self) -> MemoryRows {
        let mut rows = self.rows.clone();
        rows.retain(|(keyspace, key), _| match keyspace {
            Keyspace::Dedupe | Keyspace::DedupeOrder => false,
            Keyspace::Meta => key.as_ref() == crate::key::LIMITS,
            _ => true,
        });
        MemoryRows { rows }
    }

    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change.value {
                Some(value) => self.rows.insert((change.keyspace, change.key), value),
                None => self.rows.remove(&(change.keyspace, change.key)),
            };
        }
    }
}

impl Rows for MemoryRows {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, RowsError> {
        Ok(self
            .rows
            .get(&(keyspace, Bytes::copy_from_slice(key)))
            .cloned())
    }

    fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, RowsError> {
        let from = (keyspace, Bytes::copy_from_slice(from));
        Ok(self
            .rows
            .range(from..)
            .take_while(|((of, key), _)| *of == keyspace && to.is_none_or(|to| key.as_ref() < to))
            .take(limit)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }
}

/// Rows that keep a mark where a row was removed, as a log-structured store does until it compacts, and count what a scan meets.
#[derive(Debug, Default)]
pub(crate) struct MarkedRows {
    rows: BTreeMap<(Keyspace, Bytes), Option<Bytes>>,
    met: std::cell::Cell<u64>,
}

impl MarkedRows {
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            self.rows
                .insert((change.keyspace, change.key), change.value);
        }
    }

    /// Rows and marks that scans have met since the last call.
    pub(crate) fn met(&self) -> u64 {
        self.met.take()
    }
}

impl Rows for MarkedRows {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, RowsError> {
        let row = self.rows.get(&(keyspace, Bytes::copy_from_slice(key)));
        Ok(row.cloned().flatten())
    }

    fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, RowsError> {
        let from = (keyspace, Bytes::copy_from_slice(from));
        Ok(self
            .rows
            .range(from..)
            .take_while(|((of, key), _)| *of == keyspace && to.is_none_or(|to| key.as_ref() < to))
            .inspect(|_| self.met.set(self.met.get() + 1))
            .filter_map(|((_, key), value)| Some((key.clone(), value.clone()?)))
            .take(limit)
            .collect())
    }
}
