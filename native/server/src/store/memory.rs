//! The store in memory, for tests: the twin that the disk store is compared with. Keeps every version of every row.

use super::{Applied, Mark, Store, StoreError};
use append_namespace::rows::{Change, Keyspace, Rows, RowsError};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, RwLock};

/// The versions of one row, oldest first.
type Versions = Vec<(u64, Option<Bytes>)>;

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<(Keyspace, Bytes), Versions>,
    version: u64,
    mark: Mark,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    state: Arc<RwLock<State>>,
}

struct MemoryView {
    state: Arc<RwLock<State>>,
    version: u64,
}

impl Store for MemoryStore {
    fn apply(&self, mark: Mark, changes: &[Change]) -> Result<(), StoreError> {
        let mut state = self.state.write().unwrap();
        let version = state.version + 1;
        for change in changes {
            let versions = state
                .rows
                .entry((change.keyspace, change.key.clone()))
                .or_default();
            versions.push((version, change.value.clone()));
        }
        state.version = version;
        state.mark = mark;
        Ok(())
    }

    fn applied(&self) -> Applied {
        let state = self.state.read().unwrap();
        Applied {
            mark: state.mark,
            rows: Arc::new(MemoryView {
                state: self.state.clone(),
                version: state.version,
            }),
        }
    }

    fn persist(&self) -> Result<Mark, StoreError> {
        Ok(self.state.read().unwrap().mark)
    }

    fn size(&self) -> u64 {
        0
    }
}

impl MemoryView {
    fn as_of(&self, versions: &Versions) -> Option<Bytes> {
        versions
            .iter()
            .rev()
            .find(|(version, _)| *version <= self.version)
            .and_then(|(_, row)| row.clone())
    }
}

impl Rows for MemoryView {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, RowsError> {
        let state = self.state.read().unwrap();
        let versions = state.rows.get(&(keyspace, Bytes::copy_from_slice(key)));
        Ok(versions.and_then(|versions| self.as_of(versions)))
    }

    fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, RowsError> {
        let state = self.state.read().unwrap();
        let from = (keyspace, Bytes::copy_from_slice(from));
        Ok(state
            .rows
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(|((at, key), _)| *at == keyspace && to.is_none_or(|to| key.as_ref() < to))
            .filter_map(|((_, key), versions)| Some((key.clone(), self.as_of(versions)?)))
            .take(limit)
            .collect())
    }
}
