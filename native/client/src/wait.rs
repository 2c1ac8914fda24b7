//! How long a caller waits and how he stops waiting: deadlines on the monotonic clock and a token that cancels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Cancels the calls that hold a clone of it. Thread-safe; cancelled once is cancelled for good.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<State>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    wake: Notify,
}

impl CancelToken {
    /// A token that nobody cancelled.
    #[must_use]
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Ends the wait of every call with this token, now and later, with [`crate::ErrorKind::Cancelled`].
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        self.0.wake.notify_waiters();
    }

    /// Whether somebody cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Returns when somebody cancels.
    pub async fn cancelled(&self) {
        loop {
            let woken = self.0.wake.notified();
            tokio::pin!(woken);
            // Registered before the flag is read, so that a cancel between the two is not missed.
            woken.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            woken.await;
        }
    }
}

/// What bounds one blocking call. The default waits as long as the client's own limits allow (time-outs of connections and
/// retries from the configuration) and cannot be cancelled.
#[derive(Clone, Copy, Default)]
pub struct Wait<'a> {
    /// The call ends with [`crate::ErrorKind::Timeout`] at this time.
    pub deadline: Option<Instant>,
    /// The call ends with [`crate::ErrorKind::Cancelled`] when this is cancelled.
    pub cancel: Option<&'a CancelToken>,
    /// Asked on the calling thread about ten times a second while the call waits: true ends it with
    /// [`crate::ErrorKind::Cancelled`]. For callers that can only look themselves, as at a Java thread's interrupt status.
    pub interrupted: Option<&'a dyn Fn() -> bool>,
}

impl<'a> Wait<'a> {
    /// No bound of the caller's own.
    #[must_use]
    pub fn unbounded() -> Wait<'a> {
        Wait::default()
    }

    /// Ends after this time.
    #[must_use]
    pub fn at_most(time: Duration) -> Wait<'a> {
        Wait {
            deadline: Instant::now().checked_add(time),
            ..Wait::default()
        }
    }

    /// Ends when the token is cancelled.
    #[must_use]
    pub fn until(cancel: &'a CancelToken) -> Wait<'a> {
        Wait {
            cancel: Some(cancel),
            ..Wait::default()
        }
    }

    /// As before, and asks this on the calling thread.
    #[must_use]
    pub fn or_interrupted(mut self, interrupted: &'a dyn Fn() -> bool) -> Wait<'a> {
        self.interrupted = Some(interrupted);
        self
    }
}
