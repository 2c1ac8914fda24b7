//! Ends a command that is interrupted without leaving its file held: open streams are aborted, temporary files deleted.
//!
//! The command itself may sit in a read of standard input, so this runs on a thread of its own and ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use append_client::{FileSystem, WriteStream};
use tokio::signal::unix::{SignalKind, signal};

use super::remote::ABORT_TIME;

/// A stream that is open, and the file to delete after it.
struct Open {
    stream: Arc<WriteStream>,
    leftover: Option<(FileSystem, String)>,
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// A signal came and the process is about to end with its code.
static ENDING: AtomicBool = AtomicBool::new(false);

fn open_streams() -> MutexGuard<'static, Vec<Open>> {
    // The list stays usable whatever panicked while it was held: it is only pushed to and removed from.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a stream off the list when it is done with.
pub(crate) struct Guard(Arc<WriteStream>);

impl Drop for Guard {
    fn drop(&mut self) {
        open_streams().retain(|open| !Arc::ptr_eq(&open.stream, &self.0));
    }
}

/// Lists a stream until the guard is dropped; `leftover` is deleted when the stream is cut short.
pub(crate) fn guard(stream: &Arc<WriteStream>, leftover: Option<(FileSystem, String)>) -> Guard {
    open_streams().push(Open {
        stream: Arc::clone(stream),
        leftover,
    });
    Guard(Arc::clone(stream))
}

/// Starts waiting for interrupts (SIGINT, SIGTERM, SIGHUP). The process then ends with 128 and the signal's number.
pub(crate) fn watch() {
    let watcher = thread::Builder::new()
        .name("interrupts".to_owned())
        .spawn(|| {
            let runtime = match tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
            {
                Ok(runtime) => runtime,
                Err(error) => return tracing::warn!(%error, "interrupts are not watched"),
            };
            runtime.block_on(async {
                match next_signal().await {
                    Ok(code) => {
                        clean_up().await;
                        std::process::exit(code);
                    }
                    Err(error) => tracing::warn!(%error, "interrupts are not watched"),
                }
            });
        });
    if let Err(error) = watcher {
        tracing::warn!(%error, "interrupts are not watched");
    }
}

/// Returns unless a signal came: then the process ends from the other thread, with the signal's code, once it has cleaned up. A
/// command calls this before it ends by itself, since its input may have ended by the same cause as the signal.
pub(crate) fn settle() {
    while ENDING.load(Ordering::SeqCst) {
        thread::park_timeout(Duration::from_secs(1));
    }
}

async fn next_signal() -> std::io::Result<i32> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(tokio::select! {
        _ = interrupt.recv() => 130,
        _ = terminate.recv() => 143,
        _ = hang_up.recv() => 129,
    })
}

async fn clean_up() {
    let open: Vec<Open> = open_streams().drain(..).collect();
    for Open { stream, leftover } in open {
        stream.abort(ABORT_TIME).await;
        if let Some((fs, path)) = leftover {
            let deleted = tokio::time::timeout(ABORT_TIME, fs.delete(&path, false)).await;
            if !matches!(deleted, Ok(Ok(_))) {
                tracing::warn!(path, "the temporary file stays");
            }
        }
    }
}
