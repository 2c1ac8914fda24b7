//! The thread that persists rows and takes checkpoints while the others serve.

use super::shared::{Shared, lock};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Runs until it is told to stop.
pub(crate) fn run(shared: &Arc<Shared>) -> Result<(), String> {
    run_with(shared, || {
        shared
            .checkpoint()
            .map(|_| ())
            .map_err(|error| error.to_string())
    })
}

/// As [`run`], with another way to a checkpoint.
pub(crate) fn run_with(
    shared: &Arc<Shared>,
    checkpoint: impl Fn() -> Result<(), String>,
) -> Result<(), String> {
    let mut persisted_at = Instant::now();
    let mut failed_at: Option<Instant> = None;
    loop {
        if wait(shared, shared.options.persist_every) {
            return Ok(());
        }
        let unpersisted = shared.unpersisted.load(Ordering::Acquire);
        let due = persisted_at.elapsed() >= shared.options.persist_every;
        if unpersisted >= shared.options.persist_bytes || (due && unpersisted > 0) {
            shared.persist().map_err(|error| error.to_string())?;
            persisted_at = Instant::now();
        }
        let may_retry = failed_at.is_none_or(|at| at.elapsed() >= shared.options.checkpoint_retry);
        if may_retry && shared.unexported.load(Ordering::Acquire) > checkpoint_threshold(shared) {
            failed_at = checkpoint().is_err().then(Instant::now);
        }
    }
}

fn checkpoint_threshold(shared: &Shared) -> u64 {
    shared
        .options
        .checkpoint_log_bytes
        .max(shared.store.size() / 2)
}

/// Waits for the bell or for `at_most`; tells whether to stop.
fn wait(shared: &Shared, at_most: Duration) -> bool {
    let deadline = Instant::now() + at_most;
    let mut bell = lock(&shared.bell);
    loop {
        if bell.stop {
            return true;
        }
        if std::mem::take(&mut bell.rung) {
            return false;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        bell = shared
            .rung
            .wait_timeout(bell, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}
