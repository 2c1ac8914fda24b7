//! The runtime that the process shares, and blocking on it within a [`Wait`].

pub(crate) mod park;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::wait::Wait;

struct Shared {
    runtime: Runtime,
    process: u32,
}

static SHARED: OnceLock<std::result::Result<Shared, String>> = OnceLock::new();

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
    let _entered = shared()?.enter();
    park::drive(wait, work)
}

/// Work that goes on in the runtime if whoever waits for it stops waiting.
pub(crate) fn carried<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Carried<T> {
    Carried {
        work: Work::Held(Box::pin(work)),
        begun: false,
    }
}

/// See [`carried`]. A caller that blocks drives it itself; else it is the runtime's from the first look on. Ends with a text
/// if the work panicked or cannot run.
pub(crate) struct Carried<T: Send + 'static> {
    work: Work<T>,
    begun: bool,
}

enum Work<T> {
    Held(Pin<Box<dyn Future<Output = T> + Send>>),
    Given(JoinHandle<T>),
    Over,
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = std::result::Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.begun = true;
        if !park::is_here() {
            self.work = match std::mem::replace(&mut self.work, Work::Over) {
                Work::Held(work) => Work::Given(handle().map_err(|e| e.to_string())?.spawn(work)),
                other => other,
            };
        }
        let ended = match &mut self.work {
            Work::Held(work) => match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
                Ok(poll) => ready!(poll.map(Ok)),
                Err(_) => Err("it panicked".to_owned()),
            },
            Work::Given(task) => ready!(Pin::new(task).poll(cx)).map_err(|e| e.to_string()),
            Work::Over => Err("it has ended before".to_owned()),
        };
        self.work = Work::Over;
        Poll::Ready(ended)
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        if let Work::Held(work) = std::mem::replace(&mut self.work, Work::Over)
            && self.begun
            && let Ok(runtime) = handle()
        {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::CancelToken;
    use std::cell::Cell;
    use std::time::Duration;

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

    #[test]
    fn carried_work_outlives_the_caller_that_began_it() {
        let (go, gate) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = carried(async move {
            gate.await.unwrap();
            tell.send(std::thread::current().name().map(str::to_owned))
                .unwrap();
        });
        let wait = Wait::at_most(Duration::from_millis(1));
        let given_up = block_on(&wait, async { Ok(work.await) });
        assert_eq!(given_up.unwrap_err().kind(), ErrorKind::Timeout);
        go.send(()).unwrap();
        let name = block_on(&Wait::unbounded(), async { Ok(told.await.unwrap()) }).unwrap();
        assert_eq!(name.as_deref(), Some("libappend"));
    }

    #[test]
    fn carried_work_is_driven_by_its_caller_and_its_panic_contained() {
        let here = std::thread::current().id();
        let work = carried(async { std::thread::current().id() });
        assert_eq!(
            block_on(&Wait::unbounded(), async { Ok(work.await) }).unwrap(),
            Ok(here)
        );
        let bad = carried(async { panic!("as a test wants it") });
        let ended: std::result::Result<(), String> =
            block_on(&Wait::unbounded(), async { Ok(bad.await) }).unwrap();
        assert!(ended.unwrap_err().contains("panicked"));
        // Never begun, never done.
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        drop(carried(async move { tell.send(()).unwrap() }));
        let told = block_on(&Wait::unbounded(), async { Ok(told.await) }).unwrap();
        assert!(told.is_err());
    }
}
