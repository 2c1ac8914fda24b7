//! Orders commands: batches them into log entries, makes them durable, applies them, and answers after that.
//!
//! May not look into a command: what a request does is decided by `append-namespace`.

mod checkpoints;
mod duties;
mod entries;
mod error;
mod folder;
mod inspect;
mod local;
mod membership;
mod options;
mod queue;
mod raft;
mod replayed;
mod restore;
mod rules;
mod shared;
mod space;
mod stamp;
#[cfg(test)]
mod tests;
mod threads;

pub use crate::store::View;
pub(crate) use inspect::{inspect, is_data_folder};
pub(crate) use threads::lend_thread;

pub use error::{CheckpointFailure, Leading, NotLeader, OpenError, ProposeError};
pub use local::LocalConsensus;
pub use options::{OnFatal, Options};
pub use raft::{GroupConsensus, GroupError, GroupOptions, MemberView, grow, leave};

use append_namespace::Position;
use append_namespace::command::{Limits, Request};
use append_namespace::reply::Decided;
use std::future::Future;
use std::pin::Pin;

/// The answer of a proposal, when it comes.
pub type Proposal = Pin<Box<dyn Future<Output = Result<Decided, ProposeError>> + Send + 'static>>;

/// A view that shows everything answered before it was asked for, when it comes.
pub type Barrier = Pin<Box<dyn Future<Output = Result<View, ProposeError>> + Send + 'static>>;

/// A replicated state machine as its callers see it. All methods may be called from any thread and do not block.
pub trait Consensus: Send + Sync {
    /// Proposes one command and gives its decided answer, after it is durable and applied: every [`Consensus::view`] taken after the
    /// answer shows it.
    ///
    /// The command is queued by the call itself; dropping the returned future takes nothing back. A request without a command is refused
    /// and not proposed.
    ///
    /// # Errors
    /// [`ProposeError`], each kind with what the caller may do.
    fn propose(&self, request: Request) -> Proposal;

    /// The applied rows as of now. Old rows are kept for as long as it lives: drop it soon.
    fn view(&self) -> View;

    /// A view that shows every command answered anywhere before this call. On one node that is the applied state.
    ///
    /// # Errors
    /// [`ProposeError::Stopped`] when nobody can say.
    fn read_barrier(&self) -> Barrier;

    /// The applied position. A view taken later stands there or further.
    fn position(&self) -> Position;

    /// The named limits in force at the applied position.
    fn limits(&self) -> Limits;
}
