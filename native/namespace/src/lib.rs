//! The rules: a deterministic state machine over an ordered key-value store.
//!
//! [`Machine::apply`] takes one log [`Entry`] (a stamp and a batch of [`Request`]s) and the rows as they stand, and gives the
//! outcomes and the row changes. The same entries over the same rows give the same result on every replica and in every replay.
//!
//! This crate may not ask a clock, draw a random number, touch a file or a socket, start a thread or know a wire type. Time, holders of
//! new blocks and the caller's name come with the entry.

#[macro_use]
mod guard;

mod admin;
mod append;
mod block;
mod bounds;
mod bucket;
pub mod check;
mod cleanup;
pub mod command;
mod context;
mod dedupe;
mod delete;
mod directory;
mod file;
pub mod ids;
mod key;
mod lease;
pub mod machine;
#[cfg(test)]
mod model;
mod name;
#[cfg(test)]
mod property;
mod publish;
mod quota;
pub mod read;
mod record;
mod recovery;
mod rename;
pub mod reply;
mod resolve;
pub mod rows;
mod session;
mod sweep;
mod table;
#[cfg(test)]
mod testing;
mod times;
mod txn;
pub mod view;
mod volume;

pub use command::{Command, Entry, Request, Stamp};
pub use machine::{Applied, Machine, Position};
pub use reply::{Refusal, RefusalKind, Reply};
pub use rows::{Change, Keyspace, Rows, RowsError};
