//! One log entry in, outcomes and row changes out.
//!
//! The machine keeps no rows: it reads through [`Rows`] and gives [`Change`]s, which its caller applies as one batch before the next
//! entry. It may not ask a clock.

use crate::command::{Entry, Limits};
use crate::reply::{Decided, Refusal, RefusalKind};
use crate::rows::{Change, Rows, RowsError};

/// How far the history has been applied. The row `Meta/"position"`, written with every entry.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Position {
    /// Term of the last applied entry.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// Log index of the last applied entry.
    #[prost(uint64, tag = "2")]
    pub index: u64,
    /// Commands applied so far; contiguous, counted by `apply`.
    #[prost(uint64, tag = "3")]
    pub command: u64,
    /// Lease time, ms. Never goes back.
    #[prost(uint64, tag = "4")]
    pub lease_ms: u64,
    /// Raised by a restore that lost part of the log, so that no id is issued twice.
    #[prost(uint32, tag = "5")]
    pub epoch: u32,
}

/// What one entry did.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// One per request, in the order of the requests.
    pub outcomes: Vec<Decided>,
    /// The rows that changed, the position row among them; at most one change per key.
    pub changes: Vec<Change>,
    /// The position after the entry.
    pub position: Position,
}

/// The deterministic state machine. Not shared between threads: one thread applies.
#[derive(Debug, Clone)]
pub struct Machine {
    position: Position,
    limits: Limits,
}

impl Machine {
    /// A machine that stands where the rows stand.
    ///
    /// # Errors
    /// [`RowsError`] when the rows cannot be read.
    pub fn open(rows: &dyn Rows) -> Result<Machine, RowsError> {
        Ok(Machine { position: crate::read::position(rows)?, limits: crate::read::limits(rows)? })
    }

    /// The position after the last entry.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Applies one entry to `rows` as they stand after the entry before it. Changes nothing in place: the caller applies the changes.
    ///
    /// # Errors
    /// [`RowsError`] when the rows cannot be read; the machine then stands where it stood.
    pub fn apply(&mut self, rows: &dyn Rows, term: u64, index: u64, entry: &Entry) -> Result<Applied, RowsError> {
        let _ = rows;
        self.position.term = term;
        self.position.index = index;
        let outcomes = entry.requests.iter().map(|_| Err(Refusal::new(RefusalKind::Unsupported, "not built"))).collect();
        Ok(Applied { outcomes, changes: Vec::new(), position: self.position })
    }
}
