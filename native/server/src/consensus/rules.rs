//! What the consensus needs of the state machine, so that its own tests need no volume and no key.

use append_namespace::command::{Entry, Limits};
use append_namespace::rows::{Rows, RowsError};
use append_namespace::{Applied, Machine, Position, read};

/// A deterministic state machine over rows. One thread applies.
pub(crate) trait Rules: Sized + Send + 'static {
    /// A machine that stands where the rows stand.
    fn open(rows: &dyn Rows) -> Result<Self, RowsError>;
    /// The position after the last entry.
    fn position(&self) -> Position;
    /// The limits in force.
    fn limits(&self) -> Limits;
    /// One entry: outcomes and changes.
    fn apply(
        &mut self,
        rows: &dyn Rows,
        term: u64,
        index: u64,
        entry: &Entry,
    ) -> Result<Applied, RowsError>;
    /// From the next entry on, ids are of this epoch, if it is a later one.
    fn raise_epoch(&mut self, epoch: u32);
    /// Whether a lease runs, so that lease time must move.
    fn any_session(rows: &dyn Rows) -> Result<bool, RowsError>;
}

impl Rules for Machine {
    fn open(rows: &dyn Rows) -> Result<Machine, RowsError> {
        Machine::open(rows)
    }

    fn position(&self) -> Position {
        Machine::position(self)
    }

    fn limits(&self) -> Limits {
        Machine::limits(self)
    }

    fn apply(
        &mut self,
        rows: &dyn Rows,
        term: u64,
        index: u64,
        entry: &Entry,
    ) -> Result<Applied, RowsError> {
        Machine::apply(self, rows, term, index, entry)
    }

    fn raise_epoch(&mut self, epoch: u32) {
        Machine::raise_epoch(self, epoch);
    }

    fn any_session(rows: &dyn Rows) -> Result<bool, RowsError> {
        read::any_session(rows)
    }
}
