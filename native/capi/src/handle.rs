//! The contract of handles.
//!
//! A handle is typed in C as a pointer to an incomplete struct, but it is a number of a [`Table`] and points nowhere. So a handle
//! that is null, was closed, belongs to another type or was never given out is found by comparing numbers and refused; nothing
//! that C holds is ever dereferenced or freed. Values are shared: a call that is under way keeps what it uses alive when another
//! thread closes the handle.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::call::Fault;
use crate::table::{Missing, Table};

/// The handles of one type: `T` is what stands behind them, `H` the incomplete struct of C.
pub(crate) struct Handles<T, H> {
    table: Table<T>,
    name: &'static str,
    handle: PhantomData<fn(H)>,
}

impl<T, H> Handles<T, H> {
    /// See [`Table::new`]; `name` is the type's name in C.
    pub(crate) const fn new(tag: u8, name: &'static str) -> Handles<T, H> {
        Handles {
            table: Table::new(tag),
            name,
            handle: PhantomData,
        }
    }

    /// Gives a value to C.
    pub(crate) fn give(&self, value: T) -> Result<*mut H, Fault> {
        self.table
            .insert(value)
            .map(std::ptr::without_provenance_mut)
            .ok_or(Fault::Handles)
    }

    /// The value of a handle.
    pub(crate) fn get(&self, handle: *const H) -> Result<Arc<T>, Fault> {
        self.table
            .get(handle.addr())
            .map_err(|missing| self.fault(missing))
    }

    /// Closes a handle.
    pub(crate) fn take(&self, handle: *const H) -> Result<Arc<T>, Fault> {
        self.table
            .remove(handle.addr())
            .map_err(|missing| self.fault(missing))
    }

    fn fault(&self, missing: Missing) -> Fault {
        match missing {
            Missing::Null => Fault::Null(self.name),
            Missing::Closed => Fault::Closed(self.name),
            Missing::Foreign => Fault::Foreign(self.name),
        }
    }
}

/// For calls that do nothing once their handle is closed.
pub(crate) fn unless_closed<T>(found: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match found {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Closed(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}
