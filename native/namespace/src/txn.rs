//! The overlay that one entry's commands read and write, with savepoints.
//!
//! A command that is refused is rolled back to its savepoint, so it leaves no change (I5). Later commands of the entry read what
//! earlier ones wrote. Nothing here knows what a row means.

use crate::rows::{Change, Keyspace, Rows, RowsError};
use bytes::Bytes;
use std::collections::BTreeMap;

type Written = BTreeMap<Bytes, Option<Bytes>>;

/// Rows with an entry's changes over them.
pub(crate) struct Txn<'a> {
    rows: &'a dyn Rows,
    written: Vec<Written>,
    undo: Vec<Undo>,
}

struct Undo {
    keyspace: Keyspace,
    key: Bytes,
    before: Option<Option<Bytes>>,
}

/// A point to which a transaction can go back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Savepoint(usize);

impl<'a> Txn<'a> {
    /// A transaction without changes.
    pub(crate) fn new(rows: &'a dyn Rows) -> Txn<'a> {
        Txn {
            rows,
            written: vec![Written::new(); Keyspace::ALL.len()],
            undo: Vec::new(),
        }
    }

    fn of(&self, keyspace: Keyspace) -> &Written {
        &self.written[keyspace as usize]
    }

    fn write(&mut self, keyspace: Keyspace, key: Bytes, value: Option<Bytes>) {
        let before = self.written[keyspace as usize].insert(key.clone(), value);
        self.undo.push(Undo {
            keyspace,
            key,
            before,
        });
    }

    /// Writes a row.
    pub(crate) fn put(
        &mut self,
        keyspace: Keyspace,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) {
        self.write(keyspace, key.into(), Some(value.into()));
    }

    /// Removes a row; nothing happens if there is none.
    pub(crate) fn remove(&mut self, keyspace: Keyspace, key: impl Into<Bytes>) {
        self.write(keyspace, key.into(), None);
    }

    /// Where a refused command goes back to.
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.len())
    }

    /// Takes back everything written since `to`.
    pub(crate) fn rollback(&mut self, to: Savepoint) {
        while self.undo.len() > to.0 {
            let Some(undo) = self.undo.pop() else { return };
            let rows = &mut self.written[undo.keyspace as usize];
            match undo.before {
                Some(before) => rows.insert(undo.key, before),
                None => rows.remove(&undo.key),
            };
        }
    }

    /// All changes, in the order of keyspaces and keys.
    pub(crate) fn into_changes(self) -> Vec<Change> {
        Keyspace::ALL
            .into_iter()
            .zip(self.written)
            .flat_map(|(keyspace, rows)| {
                rows.into_iter().map(move |(key, value)| Change {
                    keyspace,
                    key,
                    value,
                })
            })
            .collect()
    }
}

impl Rows for Txn<'_> {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, RowsError> {
        match self.of(keyspace).get(key) {
            Some(value) => Ok(value.clone()),
            None => self.rows.get(keyspace, key),
        }
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
        let upper = match to {
            Some(to) => std::ops::Bound::Excluded(to),
            None => std::ops::Bound::Unbounded,
        };
        let mut over = self
            .of(keyspace)
            .range::<[u8], _>((std::ops::Bound::Included(from), upper))
            .peekable();
        if over.peek().is_none() {
            return self.rows.range(keyspace, from, to, limit);
        }
        let mut found = Vec::new();
        let mut page_from = from.to_vec();
        // The overlay may hide rows of the store, so the store is read in pages until enough are left.
        'pages: while found.len() < limit {
            let page = self.rows.range(keyspace, &page_from, to, limit)?;
            let full = page.len() == limit;
            if let Some((last, _)) = page.last() {
                page_from = last.to_vec();
                page_from.push(0);
            }
            for (key, value) in page {
                while let Some((own, written)) = over.next_if(|(own, _)| **own < key) {
                    if let Some(written) = written {
                        found.push((own.clone(), written.clone()));
                        if found.len() == limit {
                            break 'pages;
                        }
                    }
                }
                let shown = match over.next_if(|(own, _)| **own == key) {
                    Some((_, written)) => written.clone(),
                    None => Some(value),
                };
                if let Some(shown) = shown {
                    found.push((key, shown));
                    if found.len() == limit {
                        break 'pages;
                    }
                }
            }
            if !full {
                for (own, written) in over.by_ref() {
                    if let Some(written) = written {
                        found.push((own.clone(), written.clone()));
                        if found.len() == limit {
                            break;
                        }
                    }
                }
                break;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryRows;

    fn filled() -> MemoryRows {
        let mut rows = MemoryRows::default();
        for key in [b"a", b"c", b"e", b"g"] {
            rows.put(Keyspace::Files, key, b"old");
        }
        rows
    }

    fn keys(rows: &dyn Rows, from: &[u8], to: Option<&[u8]>, limit: usize) -> Vec<String> {
        rows.range(Keyspace::Files, from, to, limit)
            .unwrap()
            .into_iter()
            .map(|(key, value)| {
                format!(
                    "{}={}",
                    String::from_utf8_lossy(&key),
                    String::from_utf8_lossy(&value)
                )
            })
            .collect()
    }

    #[test]
    fn a_range_merges_what_was_written_and_hides_what_was_removed() {
        let rows = filled();
        let mut txn = Txn::new(&rows);
        txn.put(Keyspace::Files, &b"b"[..], &b"new"[..]);
        txn.put(Keyspace::Files, &b"c"[..], &b"new"[..]);
        txn.remove(Keyspace::Files, &b"a"[..]);
        txn.remove(Keyspace::Files, &b"e"[..]);
        txn.put(Keyspace::Files, &b"z"[..], &b"new"[..]);
        assert_eq!(
            keys(&txn, b"", None, 100),
            ["b=new", "c=new", "g=old", "z=new"]
        );
        assert_eq!(keys(&txn, b"c", Some(b"z"), 100), ["c=new", "g=old"]);
        for limit in 0..4 {
            let all = ["b=new", "c=new", "g=old", "z=new"];
            assert_eq!(keys(&txn, b"", None, limit), all[..limit]);
        }
    }

    #[test]
    fn rollback_takes_back_only_what_came_after_the_savepoint() {
        let rows = filled();
        let mut txn = Txn::new(&rows);
        txn.put(Keyspace::Files, &b"a"[..], &b"first"[..]);
        let savepoint = txn.savepoint();
        txn.put(Keyspace::Files, &b"a"[..], &b"second"[..]);
        txn.remove(Keyspace::Files, &b"c"[..]);
        txn.put(Keyspace::Meta, &b"x"[..], &b"y"[..]);
        txn.rollback(savepoint);
        assert_eq!(keys(&txn, b"", Some(b"d"), 9), ["a=first", "c=old"]);
        let changes = txn.into_changes();
        assert_eq!(changes.len(), 1);
    }
}
