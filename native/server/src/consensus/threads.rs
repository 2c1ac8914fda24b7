//! The two threads of a proposal: one writes and syncs, one applies and answers. While one entry is applied the next is synced; an entry
//! with nothing before and behind it is applied where it was synced. A proposer whose thread may block takes the first one's turn itself
//! when nobody has it: nothing is gained by waking another thread for one command.

use super::ProposeError;
use super::queue::{Answer, Waiting, Work};
use super::rules::Rules;
use super::shared::{Shared, Standing, gauge, lock};
use super::stamp::Stamper;
use crate::log::{Kind, Log, LogError};
use crate::store::Mark;
use append_namespace::command::Entry;
use append_namespace::read;
use append_namespace::rows::{Change, Keyspace, RowsError};
use bytes::Bytes;
use prost::Message;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Instant, SystemTime};

/// The first term of a node that is alone. One that was in a group goes on in the group's last.
pub(crate) const TERM: u64 = 1;

/// Commands in an entry that the log thread applies itself.
const APPLIED_HERE: usize = 4;

/// More commands than this in the last entry: callers come together, and one fsync for many is worth more than a thread's change saved.
const CROWD: usize = 2;

/// A durable entry on its way to be applied.
pub(crate) struct Logged {
    term: u64,
    index: u64,
    bytes: u64,
    entry: Entry,
    answers: Vec<Answer>,
}

/// Why a thread ends early.
type Failure = String;

/// Runs `body`, and fails the whole consensus when it fails or panics: a caller must never wait for a thread that is gone.
pub(crate) fn guarded(shared: &Shared, name: &str, body: impl FnOnce() -> Result<(), Failure>) {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => shared.fail(&reason),
        Err(_) => shared.fail(&format!("the {name} thread panicked")),
    }
}

thread_local! {
    static LENT: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread may from now on be used to write and sync the log, and blocks for as long as that takes.
pub(crate) fn lend_thread() {
    LENT.set(true);
}

/// Whether the calling thread was lent.
pub(crate) fn is_lent() -> bool {
    LENT.get()
}

/// What logging takes: whoever holds it has the turn.
pub(crate) struct Writer<R> {
    log: Log,
    stamper: Stamper,
    /// Gone when the log thread has ended, or a turn has failed.
    pipeline: Option<Pipeline<R>>,
    /// When the last entry was made.
    quiet_since: Instant,
    /// Commands of the last entry.
    crowd: usize,
}

/// The turn to log, for callers that know no rules.
pub(crate) trait Turn: Send + Sync {
    /// Logs and applies what waits, on the calling thread, if nobody else is at it; else the log thread will.
    fn take(&self, shared: &Arc<Shared>);
}

impl<R: Rules> Turn for Mutex<Writer<R>> {
    fn take(&self, shared: &Arc<Shared>) {
        let mut writer = match self.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Whoever has the turn may have looked before this caller's command was there; the log thread looks after that turn.
            Err(TryLockError::WouldBlock) => return shared.queue.wake(),
        };
        if writer.crowd > CROWD {
            drop(writer);
            return shared.queue.wake();
        }
        let (batch, more) = shared.queue.take_commands();
        if !batch.is_empty() {
            guarded(shared, "log", || writer.log(shared, batch).map(drop));
        }
        drop(writer);
        if more || !shared.queue.is_empty() {
            shared.queue.wake();
        }
    }
}

/// The log thread: does what nobody else does, ticks among it. Ends when the queue is closed and empty.
pub(crate) fn write<R: Rules>(
    shared: &Arc<Shared>,
    writer: &Mutex<Writer<R>>,
) -> Result<(), Failure> {
    // Also when the rules panic.
    let _ending = Ending(writer);
    loop {
        // Woken each tick even without sessions: one may have been admitted meanwhile.
        let (tick, crowd) = {
            let writer = lock(writer);
            (writer.quiet_since + shared.options.tick, writer.crowd)
        };
        shared.queue.wait(tick);
        if crowd > CROWD {
            // Callers that were answered a moment ago are on their way back: whoever can run now comes into this entry and not the next.
            std::thread::yield_now();
        }
        let mut writer = lock(writer);
        let batch = match shared.queue.take() {
            Work::Closed => return Ok(()),
            Work::Cut(below) => {
                writer.cut(below);
                continue;
            }
            Work::Idle => {
                let now = Instant::now();
                if now < writer.quiet_since + shared.options.tick {
                    continue;
                }
                if !shared.sessions.load(Ordering::Acquire) {
                    writer.quiet_since = now;
                    continue;
                }
                Vec::new()
            }
            Work::Batch(batch) => batch,
        };
        if !writer.log(shared, batch)? {
            return Ok(());
        }
    }
}

/// The end of the log thread: the thread that applies ends when nothing more can come.
struct Ending<'a, R>(&'a Mutex<Writer<R>>);

impl<R> Drop for Ending<'_, R> {
    fn drop(&mut self) {
        lock(self.0).pipeline = None;
    }
}

impl<R: Rules> Writer<R> {
    pub(crate) fn new(log: Log, stamper: Stamper, pipeline: Pipeline<R>) -> Writer<R> {
        Writer {
            log,
            stamper,
            pipeline: Some(pipeline),
            quiet_since: Instant::now(),
            crowd: 0,
        }
    }

    fn cut(&mut self, below: u64) {
        // The files that stay are whole; a failure to remove costs space only.
        match self.log.cut(below) {
            Ok(freed) => {
                tracing::info!(
                    below,
                    freed,
                    first = self.log.first_index(),
                    "the log was cut"
                );
            }
            Err(error) => tracing::error!(%error, below, "the log could not be cut"),
        }
    }

    /// Makes an entry of `batch`, durable, and has it applied. False when nothing more is to come.
    fn log(&mut self, shared: &Arc<Shared>, batch: Vec<Waiting>) -> Result<bool, Failure> {
        // Put back only by a turn that went well: whoever has the next one must not log past an entry that was not applied, also when it
        // comes before the failure is told, or behind a panic.
        let pipeline = self.pipeline.take().filter(|_| !shared.has_failed());
        let Some(pipeline) = pipeline else {
            for waiting in batch {
                let _ = waiting.answer.send(Err(ProposeError::Stopped));
            }
            return Ok(false);
        };
        let more = self.enter(shared, batch, &pipeline)?;
        if more {
            self.pipeline = Some(pipeline);
        }
        Ok(more)
    }

    fn enter(
        &mut self,
        shared: &Arc<Shared>,
        batch: Vec<Waiting>,
        pipeline: &Pipeline<R>,
    ) -> Result<bool, Failure> {
        self.quiet_since = Instant::now();
        let Some(batch) = room_for(shared, batch) else {
            return Ok(true);
        };
        self.crowd = batch.len();
        let stamp = self.stamper.next(self.quiet_since, SystemTime::now());
        metrics::histogram!("append_log_batch_commands")
            .record(f64::from(u32::try_from(batch.len()).unwrap_or(u32::MAX)));
        let (requests, answers) = batch
            .into_iter()
            .map(|waiting| (waiting.request, waiting.answer))
            .unzip();
        let entry = Entry { stamp, requests };
        let payload = Bytes::from(entry.encode_to_vec());
        let bytes = payload.len() as u64;
        let term = self.log.last_term().max(TERM);
        let index = match self.log.append(term, Kind::Entry, payload) {
            Ok(index) => index,
            Err(error @ LogError::Full { .. }) => {
                refuse(answers, &error.to_string());
                return Ok(true);
            }
            Err(error) => return Err(error.to_string()),
        };
        let started = Instant::now();
        self.log.sync().map_err(|error| error.to_string())?;
        metrics::histogram!("append_log_sync_seconds").record(started.elapsed().as_secs_f64());
        metrics::gauge!("append_log_bytes").set(gauge(self.log.bytes()));
        let logged = Logged {
            term,
            index,
            bytes,
            entry,
            answers,
        };
        // When the thread that applies has failed, it has said why; whoever waits learns that the outcome is unknown.
        pipeline.pass(shared, logged)
    }
}

/// The batch, when there is room for it. Without room nothing is written, a tick neither: lease time stands still while nobody can renew.
fn room_for(shared: &Shared, batch: Vec<Waiting>) -> Option<Vec<Waiting>> {
    let bytes: u64 = batch.iter().map(Waiting::bytes).sum();
    if shared.space.has(bytes) {
        return Some(batch);
    }
    let answers = batch.into_iter().map(|waiting| waiting.answer).collect();
    refuse(answers, "less is free than the reserve");
    None
}

fn refuse(answers: Vec<Answer>, reason: &str) {
    if answers.is_empty() {
        return;
    }
    tracing::error!(reason, "the disk is full: commands are refused");
    metrics::counter!("append_proposals_refused_full").increment(1);
    for answer in answers {
        let _ = answer.send(Err(ProposeError::NoSpace));
    }
}

/// The thread that applies. Ends when the log thread has ended and everything logged is applied.
pub(crate) fn apply<R: Rules>(
    shared: &Arc<Shared>,
    applier: &Applier<R>,
    entries: &Receiver<Logged>,
) -> Result<(), Failure> {
    for logged in entries {
        applier.apply(shared, logged)?;
        applier.waiting.fetch_sub(1, Ordering::AcqRel);
    }
    Ok(())
}

/// Applies entries in their order, on whichever thread has the turn.
pub(crate) struct Applier<R> {
    machine: Mutex<R>,
    /// Entries that were passed to the thread that applies and are not applied yet.
    waiting: AtomicUsize,
}

/// The log thread's end of the pipeline.
pub(crate) struct Pipeline<R> {
    pub(crate) applier: Arc<Applier<R>>,
    pub(crate) out: SyncSender<Logged>,
}

impl<R: Rules> Pipeline<R> {
    /// Has an entry applied: here when it is small, everything before it is applied and nothing else waits to be logged, because then the
    /// change to another thread would only take time; else by the thread that applies. Tells whether that thread is still there.
    fn pass(&self, shared: &Shared, logged: Logged) -> Result<bool, Failure> {
        let alone = logged.answers.len() <= APPLIED_HERE
            && self.applier.waiting.load(Ordering::Acquire) == 0
            && shared.queue.is_empty();
        if alone {
            return self.applier.apply(shared, logged).map(|()| true);
        }
        self.applier.waiting.fetch_add(1, Ordering::AcqRel);
        Ok(self.out.send(logged).is_ok())
    }
}

impl<R: Rules> Applier<R> {
    pub(crate) fn new(machine: R) -> Applier<R> {
        Applier {
            machine: Mutex::new(machine),
            waiting: AtomicUsize::new(0),
        }
    }

    fn apply(&self, shared: &Shared, logged: Logged) -> Result<(), Failure> {
        let mut machine = lock(&self.machine);
        let mark = Mark {
            term: logged.term,
            index: logged.index,
        };
        let rows = shared.store.applied().rows;
        let applied = machine
            .apply(rows.as_ref(), mark.term, mark.index, &logged.entry)
            .map_err(|error| suspect(shared, logged.index, &error))?;
        drop(rows);
        if applied.outcomes.len() != logged.answers.len() {
            return Err(format!(
                "entry {} has {} outcomes for {} commands",
                logged.index,
                applied.outcomes.len(),
                logged.answers.len()
            ));
        }
        shared
            .store
            .apply(mark, &applied.changes)
            .map_err(|error| error.to_string())?;
        note_layout(shared, &applied.changes)?;
        if applied
            .changes
            .iter()
            .any(|change| change.keyspace == Keyspace::Open)
        {
            note_sessions::<R>(shared).map_err(|error| suspect(shared, logged.index, &error))?;
        }
        shared.stand(Standing {
            position: applied.position,
            limits: machine.limits(),
        });
        metrics::gauge!("append_applied_index").set(gauge(mark.index));
        for (answer, outcome) in logged.answers.into_iter().zip(applied.outcomes) {
            // A caller that has gone needs no answer.
            let _ = answer.send(Ok::<_, ProposeError>(outcome));
        }
        shared.count_applied(logged.bytes);
        Ok(())
    }
}

/// Remembers whether a lease runs.
pub(crate) fn note_sessions<R: Rules>(shared: &Shared) -> Result<(), RowsError> {
    let any = R::any_session(shared.store.applied().rows.as_ref())?;
    shared.sessions.store(any, Ordering::Release);
    Ok(())
}

/// Before anybody is told of a finalization, older servers refuse the folder.
pub(crate) fn note_layout(shared: &Shared, changes: &[Change]) -> Result<(), Failure> {
    if !read::finalizes(changes) {
        return Ok(());
    }
    shared
        .folder
        .raise_format()
        .map_err(|error| error.to_string())
}

/// A row that cannot be read is not read again by a restart: the rows are rebuilt. Those that only a newer version can go on with are whole.
fn suspect(shared: &Shared, index: u64, error: &RowsError) -> Failure {
    if !error.is_newer() {
        shared.folder.suspect_rows();
    }
    format!("entry {index} cannot be applied: {error}")
}
