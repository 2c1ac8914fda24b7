//! Consensus of one node: its own log is the majority.

use super::{Consensus, Options, Proposal, ProposeError, View};
use append_namespace::command::{Limits, Request};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

/// Why a data folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not built yet.
    #[error("unsupported: {0}")]
    Unsupported(&'static str),
}

/// The only member of its group.
#[derive(Debug)]
pub struct LocalConsensus {}

impl LocalConsensus {
    /// Opens the data folder `dir`, creating it when it is missing, and replays what the log has beyond the rows.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed but a torn end of the log that was cut.
    pub fn open(_dir: &Path, _options: Options) -> Result<Arc<LocalConsensus>, OpenError> {
        Err(OpenError::Unsupported("the log is not connected"))
    }

    /// Takes nothing more, finishes what is queued, and persists the rows. Blocks until that is done.
    pub fn shutdown(&self) {}
}

impl Consensus for LocalConsensus {
    fn propose(&self, _request: Request) -> Proposal {
        Box::pin(async { Err(ProposeError::Stopped) })
    }

    fn view(&self) -> View {
        unreachable!("cannot be opened")
    }

    fn read_barrier(&self) -> Pin<Box<dyn Future<Output = Result<View, ProposeError>> + Send + 'static>> {
        Box::pin(async { Err(ProposeError::Stopped) })
    }

    fn limits(&self) -> Limits {
        Limits::starting()
    }
}
