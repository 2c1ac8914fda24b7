//! Ends a command that is interrupted without leaving its file held: open streams are aborted, temporary files deleted.
//!
//! The command itself may sit in a read of standard input, so this runs on a thread of its own and ends the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use append_client::{FileSystem, WriteStream};
use tokio::signal::unix::{SignalKind, signal};

use super::remote::ABORT_TIME;

/// A stream that is open, and the file to delete after it.
struct Open {
    stream: Arc<WriteStream>,
    leftover: Option<(FileSystem, String)>,
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

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
