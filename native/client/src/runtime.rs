//! The runtime that the process shares, and blocking on it within a [`Wait`].

use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::wait::Wait;

struct Shared {
    runtime: Runtime,
    process: u32,
}

static SHARED: OnceLock<std::result::Result<Shared, String>> = OnceLock::new();

/// How often a caller's interrupt is looked at.
const LOOK: Duration = Duration::from_millis(100);

fn shared() -> Result<&'static Runtime> {
    let shared = SHARED.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
        Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("libappend")
            .enable_all()
            .build()
            .map(|runtime| Shared {
                runtime,
                process: std::process::id(),
            })
            .map_err(|e| e.to_string())
    });
    match shared {
        // A forked child has the memory but not the threads: waiting for them would never end.
        Ok(shared) if shared.process != std::process::id() => Err(Error::new(
            ErrorKind::Io,
            "the process was forked after the client's threads were started",
        )),
        Ok(shared) => Ok(&shared.runtime),
        Err(e) => Err(Error::new(
            ErrorKind::Io,
            format!("starting the client's threads: {e}"),
        )),
    }
}

/// The shared runtime.
pub(crate) fn handle() -> Result<&'static Handle> {
    Ok(shared()?.handle())
}

/// Drives a future on the calling thread until it is done or the wait ends.
pub(crate) fn block_on<T>(wait: &Wait<'_>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = shared()?;
    if wait.cancel.is_none() && wait.deadline.is_none() && wait.interrupted.is_none() {
        return runtime.block_on(work);
    }
    runtime.block_on(async {
        tokio::pin!(work);
        loop {
            let now = Instant::now();
            let mut next = wait.deadline;
            if wait.interrupted.is_some() {
                next = Some(next.map_or(now + LOOK, |deadline| deadline.min(now + LOOK)));
            }
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = cancelled(wait) => return Err(Error::new(ErrorKind::Cancelled, "cancelled by the caller")),
                () = until(next) => {}
            }
            if wait.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::new(ErrorKind::Timeout, "the caller's deadline passed"));
            }
            if wait.interrupted.is_some_and(|interrupted| interrupted()) {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted by the caller"));
            }
        }
    })
}

async fn cancelled(wait: &Wait<'_>) {
    match wait.cancel {
        Some(cancel) => cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::CancelToken;
    use std::cell::Cell;

    #[test]
    fn a_wait_ends_by_token_deadline_or_interrupt() {
        let never = || std::future::pending::<Result<()>>();
        let token = CancelToken::new();
        token.cancel();
        assert_eq!(
            block_on(&Wait::until(&token), never()).unwrap_err().kind(),
            ErrorKind::Cancelled
        );
        let wait = Wait::at_most(Duration::from_millis(1));
        assert_eq!(
            block_on(&wait, never()).unwrap_err().kind(),
            ErrorKind::Timeout
        );
        let looks = Cell::new(0);
        let interrupted = || {
            looks.set(looks.get() + 1);
            looks.get() == 2
        };
        let wait = Wait::unbounded().or_interrupted(&interrupted);
        assert_eq!(
            block_on(&wait, never()).unwrap_err().kind(),
            ErrorKind::Cancelled
        );
        assert_eq!(looks.get(), 2);
    }

    #[test]
    fn a_cancel_from_another_thread_wakes_the_caller() {
        let token = CancelToken::new();
        let other = token.clone();
        let thread = std::thread::spawn(move || other.cancel());
        let result = block_on(&Wait::until(&token), std::future::pending::<Result<()>>());
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled);
        thread.join().unwrap();
    }
}
