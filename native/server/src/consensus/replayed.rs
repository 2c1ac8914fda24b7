//! Rows in memory into which a log is replayed, to be compared with those on disk.

use append_namespace::rows::{Change, Keyspace, Rows, RowsError};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Rows read at once.
const PAGE: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    rows: BTreeMap<Keyspace, BTreeMap<Bytes, Bytes>>,
}

impl Replayed {
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            let rows = self.rows.entry(change.keyspace).or_default();
            match change.value {
                Some(value) => rows.insert(change.key, value),
                None => rows.remove(&change.key),
            };
        }
    }

    /// The first row that `others` have, have not, or have otherwise.
    pub(crate) fn difference(&self, others: &dyn Rows) -> Result<Option<String>, RowsError> {
        for keyspace in Keyspace::ALL {
            let mut from = Vec::new();
            loop {
                let mine = self.range(keyspace, &from, None, PAGE)?;
                let other = others.range(keyspace, &from, None, PAGE)?;
                if let Some(at) =
                    (0..mine.len().max(other.len())).find(|&at| mine.get(at) != other.get(at))
                {
                    let key = [mine.get(at), other.get(at)]
                        .into_iter()
                        .flatten()
                        .map(|(key, _)| key)
                        .min();
                    return Ok(Some(format!(
                        "{} at {:02x?}",
                        keyspace.name(),
                        key.map_or(&[][..], |key| key)
                    )));
                }
                match mine.last() {
                    Some((key, _)) if mine.len() == PAGE => {
                        from.clear();
                        from.extend_from_slice(key);
                        from.push(0);
                    }
                    _ => break,
                }
            }
        }
        Ok(None)
    }
}

impl Rows for Replayed {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, RowsError> {
        Ok(self
            .rows
            .get(&keyspace)
            .and_then(|rows| rows.get(key))
            .cloned())
    }

    fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, RowsError> {
        let Some(rows) = self.rows.get(&keyspace) else {
            return Ok(Vec::new());
        };
        Ok(rows
            .range(Bytes::copy_from_slice(from)..)
            .take_while(|(key, _)| to.is_none_or(|to| key.as_ref() < to))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}
