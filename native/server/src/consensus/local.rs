//! Consensus of one node: its own log is the majority.

use super::folder::Folder;
use super::queue::{Bounds, Queue};
use super::restore::{Restored, restore};
use super::rules::Rules;
use super::shared::{Shared, Standing, lock};
use super::stamp::Stamper;
use super::threads::{self, Applier, Pipeline, Turn, Writer, guarded};
use super::{
    Barrier, CheckpointFailure, Consensus, OpenError, Options, Proposal, ProposeError, View, duties,
};
use crate::store::checkpoint::Summary;
use append_namespace::command::{Limits, Request};
use append_namespace::{Machine, Position, Refusal, RefusalKind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// Entries that may be durable and not yet applied.
const PIPELINE: usize = 4;

/// The only member of its group. Dropping it shuts it down.
pub struct LocalConsensus {
    shared: Arc<Shared>,
    turn: Arc<dyn Turn>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    /// Log and apply.
    pipeline: Vec<JoinHandle<()>>,
    duties: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for LocalConsensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalConsensus")
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl LocalConsensus {
    /// Opens the data folder `dir`, making it when it is missing, and applies what the log has beyond the rows. The folder must be the
    /// consensus's own: a new one must be empty. Blocks; with much to replay or to rebuild, for long.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed but a torn end of the log that was cut and rows that were rebuilt.
    pub fn open(dir: &Path, options: Options) -> Result<Arc<LocalConsensus>, OpenError> {
        LocalConsensus::open_with::<Machine>(dir, options)
    }

    /// As [`LocalConsensus::open`], with other rules.
    pub(crate) fn open_with<R: Rules>(
        dir: &Path,
        options: Options,
    ) -> Result<Arc<LocalConsensus>, OpenError> {
        let folder = Folder::open(dir)?;
        let Restored {
            log,
            store,
            machine,
            checkpoints,
        } = restore::<R>(&folder, &options)?;
        let queue = Queue::new(Bounds {
            batch_commands: options.batch_commands,
            batch_bytes: options.batch_bytes,
            command_bytes: options.command_bytes,
            queue_commands: options.queue_commands,
            queue_bytes: options.queue_bytes,
        });
        let unexported = log.bytes_above(checkpoints.newest().unwrap_or(0));
        let standing = Standing {
            position: machine.position(),
            limits: machine.limits(),
        };
        let shared = Arc::new(Shared::new(
            folder,
            options,
            queue,
            store,
            standing,
            checkpoints,
        ));
        shared.unexported.store(unexported, Ordering::Release);
        threads::note_sessions::<R>(&shared)?;

        let stamper = Stamper::new(standing.position.lease_ms, Instant::now());
        let (out, entries) = sync_channel(PIPELINE);
        let applier = Arc::new(Applier::new(machine));
        let pipeline = Pipeline {
            applier: Arc::clone(&applier),
            out,
        };
        let writer = Arc::new(Mutex::new(Writer::new(log, stamper, pipeline)));
        let consensus = Arc::new(LocalConsensus {
            shared: shared.clone(),
            turn: Arc::clone(&writer) as Arc<dyn Turn>,
            threads: Mutex::default(),
        });
        let mut threads = lock(&consensus.threads);
        let write = consensus.spawn("append-log", move |shared| threads::write(shared, &writer))?;
        threads.pipeline.push(write);
        let apply = consensus.spawn("append-apply", move |shared| {
            threads::apply(shared, &applier, &entries)
        })?;
        threads.pipeline.push(apply);
        threads.duties = Some(consensus.spawn("append-duties", duties::run)?);
        drop(threads);
        Ok(consensus)
    }

    fn spawn(
        &self,
        name: &'static str,
        body: impl FnOnce(&Arc<Shared>) -> Result<(), String> + Send + 'static,
    ) -> Result<JoinHandle<()>, OpenError> {
        let shared = self.shared.clone();
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || guarded(&shared, name, || body(&shared)))
            .map_err(OpenError::Thread)
    }

    /// Exports the applied rows, verifies what was written, keeps it beside the one before, and lets the log be cut behind the older.
    /// Blocks for as long as that takes; proposals go on.
    ///
    /// # Errors
    /// [`CheckpointFailure`]; the checkpoints that were there stay.
    pub fn checkpoint(&self) -> Result<Summary, CheckpointFailure> {
        self.shared.checkpoint()
    }

    /// Takes nothing more, finishes what is queued, and persists the rows. Blocks until that is done; a second call does nothing.
    ///
    /// The folder stays locked until the consensus and all views of it are dropped.
    pub fn shutdown(&self) {
        self.shared.queue.close();
        self.shared.stop.store(true, Ordering::Release);
        let mut threads = lock(&self.threads);
        if threads.pipeline.is_empty() {
            return;
        }
        for thread in threads.pipeline.drain(..) {
            // A panic was caught and told inside.
            let _ = thread.join();
        }
        self.shared.ring(true);
        if let Some(duties) = threads.duties.take() {
            let _ = duties.join();
        }
        if !self.shared.has_failed()
            && let Err(error) = self.shared.persist()
        {
            self.shared.fail(&error.to_string());
        }
    }
}

#[cfg(test)]
impl LocalConsensus {
    pub(crate) fn shared_for_test(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for LocalConsensus {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Consensus for LocalConsensus {
    fn propose(&self, request: Request) -> Proposal {
        // In the log it would look like a command of a newer version, at which every replay stops.
        if request.command.is_none() {
            let refusal = Refusal::new(RefusalKind::InvalidRequest, "the request holds no command");
            return Box::pin(std::future::ready(Ok(Err(refusal))));
        }
        let pushed = if threads::is_lent() {
            let pushed = self.shared.queue.push_quietly(request);
            if pushed.is_ok() {
                self.turn.take(&self.shared);
            }
            pushed
        } else {
            self.shared.queue.push(request)
        };
        match pushed {
            Ok(answer) => {
                Box::pin(async move { answer.await.unwrap_or(Err(ProposeError::OutcomeUnknown)) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn view(&self) -> View {
        self.shared.store.applied().rows
    }

    fn read_barrier(&self) -> Barrier {
        let view = if self.shared.has_failed() {
            Err(ProposeError::Stopped)
        } else {
            Ok(self.view())
        };
        Box::pin(std::future::ready(view))
    }

    fn position(&self) -> Position {
        self.shared.standing().position
    }

    fn limits(&self) -> Limits {
        self.shared.standing().limits
    }
}
