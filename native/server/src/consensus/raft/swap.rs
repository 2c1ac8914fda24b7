//! A store that can be replaced whole. Views of the old one stay good for as long as they live.

use crate::store::{Applied, Mark, Store, StoreError};
use append_namespace::rows::Change;
use std::sync::{Arc, PoisonError, RwLock};

/// See the module.
pub(crate) struct SwapStore {
    current: RwLock<Arc<dyn Store>>,
}

impl SwapStore {
    pub(crate) fn new(store: Arc<dyn Store>) -> SwapStore {
        SwapStore {
            current: RwLock::new(store),
        }
    }

    /// Puts another store in the place of this one. Nobody may apply meanwhile.
    pub(crate) fn swap(&self, store: Arc<dyn Store>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = store;
    }

    fn current(&self) -> Arc<dyn Store> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for SwapStore {
    fn apply(&self, mark: Mark, changes: &[Change]) -> Result<(), StoreError> {
        self.current().apply(mark, changes)
    }

    fn applied(&self) -> Applied {
        self.current().applied()
    }

    fn persist(&self) -> Result<Mark, StoreError> {
        self.current().persist()
    }

    fn size(&self) -> u64 {
        self.current().size()
    }
}
