//! Orders commands: batches them into log entries, makes them durable, applies them, and answers after that.
//!
//! May not look into a command: what a request does is decided by `append-namespace`.

mod local;
mod options;

pub use local::{LocalConsensus, OpenError};
pub use options::{OnFatal, Options};

use append_namespace::command::{Limits, Request};
use append_namespace::reply::Decided;
use append_namespace::rows::Rows;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The answer of a proposal, when it comes.
pub type Proposal = Pin<Box<dyn Future<Output = Result<Decided, ProposeError>> + Send + 'static>>;

/// Rows as of one applied position, for readers on any thread.
pub type View = Arc<dyn Rows + Send + Sync>;

/// Why a proposal has no decided answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// The queue is full. Nothing was proposed: the caller may come again.
    #[error("too many commands wait; come again")]
    Busy,
    /// The request alone is larger than an entry may be. Nothing was proposed, and the same request never will be.
    #[error("the command has {bytes} bytes, an entry takes {limit}")]
    TooLarge {
        /// Bytes of the encoded request.
        bytes: usize,
        /// Bytes that an entry takes.
        limit: usize,
    },
    /// The consensus has stopped. Nothing was proposed.
    #[error("the consensus has stopped")]
    Stopped,
    /// The process stops while the command may or may not be in the log. Only a retry with the same invocation tells.
    #[error("the outcome of the command is not known")]
    OutcomeUnknown,
}

/// A replicated state machine as its callers see it. All methods may be called from any thread.
pub trait Consensus: Send + Sync {
    /// Proposes one command and gives its decided answer, after it is durable and applied: every [`Consensus::view`] taken after the
    /// answer shows it.
    ///
    /// The command is queued by the call itself; dropping the returned future takes nothing back.
    ///
    /// # Errors
    /// [`ProposeError`], each kind with what the caller may do.
    fn propose(&self, request: Request) -> Proposal;

    /// The applied rows as of now. Holds them still for as long as it lives: drop it soon.
    fn view(&self) -> View;

    /// A view that shows every command answered anywhere before this call. On one node that is the applied state.
    ///
    /// # Errors
    /// [`ProposeError::Stopped`] when nobody can say.
    fn read_barrier(&self) -> Pin<Box<dyn Future<Output = Result<View, ProposeError>> + Send + 'static>>;

    /// The named limits in force at the applied position.
    fn limits(&self) -> Limits;
}
