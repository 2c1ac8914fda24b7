//! The log as the library sees it: appends that answer when they are durable, votes, cuts, and readers.
//!
//! One thread does all that is written, in the order in which it was asked for: records, votes, cuts. Everything that waits when a sync
//! ends shares the next one. What was appended can be read at once, from memory.

use super::types::{Group, GroupEntry, LogId, Senseless, Vote};
use super::types::{entry_of, entry_of_record, index_of, log_id, place, placed, record_of};
use super::types::{vote_from_wire, vote_to_wire};
use crate::consensus::membership::{Standing, StandingFile};
use crate::consensus::shared::{gauge, lock};
use crate::log::{Kind, Log, LogError, LogReader, LogView};
use bytes::Bytes;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// Bytes of records kept in memory for readers, beside those that are not durable yet.
const KEPT: usize = 64 << 20;
/// Bytes that one read for a peer gives at most, but at least one record.
const READ: usize = 4 << 20;

/// Called once with the reason when the log cannot go on.
pub(crate) type Fail = Arc<dyn Fn(&str) + Send + Sync>;

/// See the module.
#[derive(Clone)]
pub(crate) struct LogStore {
    inner: Arc<Inner>,
}

struct Inner {
    tail: Mutex<Tail>,
    standing: Mutex<Standing>,
    work: Mutex<Option<Sender<Work>>>,
    /// Records below it may be removed for all that checkpoints need.
    may_cut: AtomicU64,
    /// Index of the last durable record; none once the log has failed.
    durable: watch::Sender<Option<u64>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Tail {
    /// Index of the first record in memory.
    first: u64,
    records: VecDeque<(u64, Kind, Bytes)>,
    bytes: usize,
    /// Term and index of the last record; index 0 without one.
    last: (u64, u64),
    /// Everything below `first`.
    disk: LogView,
    /// Raised when records were taken back: what was read ahead is void.
    changes: u64,
}

enum Work {
    Append(Vec<(u64, Kind, Bytes)>, IOFlushed<Group>),
    Change(
        Box<dyn FnOnce(&mut Standing) + Send>,
        oneshot::Sender<io::Result<()>>,
    ),
    Truncate(u64, oneshot::Sender<io::Result<()>>),
    Purge(LogId, oneshot::Sender<io::Result<()>>),
    #[cfg(test)]
    BeginForTest(u64, oneshot::Sender<io::Result<()>>),
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl From<Senseless> for io::Error {
    fn from(error: Senseless) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl LogStore {
    /// Takes the log over and starts its thread.
    pub(crate) fn start(
        log: Log,
        standing: Standing,
        file: StandingFile,
        fail: Fail,
    ) -> io::Result<LogStore> {
        let (work, todo) = channel();
        let inner = Arc::new(Inner {
            tail: Mutex::new(Tail {
                first: log.last_index() + 1,
                records: VecDeque::new(),
                bytes: 0,
                last: (log.last_term(), log.last_index()),
                disk: log.view(),
                changes: 0,
            }),
            standing: Mutex::new(standing),
            work: Mutex::new(Some(work)),
            may_cut: AtomicU64::new(0),
            durable: watch::Sender::new(Some(log.durable_index())),
            thread: Mutex::new(None),
        });
        let writer = Writer {
            log,
            file,
            inner: Arc::clone(&inner),
        };
        let thread = std::thread::Builder::new()
            .name("append-log".to_owned())
            .spawn(move || writer.run(&todo, &fail))?;
        *lock(&inner.thread) = Some(thread);
        Ok(LogStore { inner })
    }

    /// Lets records below `index` go once the library does not want them either.
    pub(crate) fn may_cut(&self, index: u64) {
        self.inner.may_cut.fetch_max(index, Ordering::AcqRel);
    }

    /// Waits until a record that is in the log is durable here. A majority has it as soon as two others do, but what a server's rows hold must
    /// be in its own log: a start takes a log that ends before its rows for a damaged one.
    pub(crate) async fn durable(&self, index: u64) -> io::Result<()> {
        let mut durable = self.inner.durable.subscribe();
        let known = *durable.borrow_and_update();
        if known >= Some(index) || (known.is_some() && index > lock(&self.inner.tail).last.1) {
            return Ok(());
        }
        let reached = durable.wait_for(|durable| durable.is_none_or(|durable| durable >= index));
        match reached.await.map(|durable| *durable) {
            Ok(Some(_)) => Ok(()),
            _ => Err(other("the log has failed")),
        }
    }

    /// Changes what the server promised, durably, after everything that was asked for before.
    pub(crate) async fn change(
        &self,
        change: impl FnOnce(&mut Standing) + Send + 'static,
    ) -> io::Result<()> {
        self.ask(|done| Work::Change(Box::new(change), done)).await
    }

    /// Ends the thread when it has done what was asked for.
    pub(crate) fn stop(&self) {
        lock(&self.inner.work).take();
        if let Some(thread) = lock(&self.inner.thread).take() {
            // A panic was told inside.
            let _ = thread.join();
        }
    }

    fn send(&self, work: Work) -> io::Result<()> {
        match lock(&self.inner.work).as_ref() {
            Some(sender) => sender.send(work).map_err(|_| other("the log has failed")),
            None => Err(other("the log is closed")),
        }
    }

    async fn ask(
        &self,
        work: impl FnOnce(oneshot::Sender<io::Result<()>>) -> Work,
    ) -> io::Result<()> {
        let (done, answer) = oneshot::channel();
        self.send(work(done))?;
        answer.await.map_err(|_| other("the log has failed"))?
    }

    fn reader(&self) -> Reader {
        Reader {
            store: self.clone(),
            ahead: None,
        }
    }
}

#[cfg(test)]
impl LogStore {
    /// The library's tests begin some logs behind the first place; a log of ours never does, and is given a beginning there.
    async fn begin_for_test(&self, first: Option<&GroupEntry>) -> io::Result<()> {
        use openraft::entry::RaftEntry;
        let begins = first.map_or(1, |entry| index_of(&entry.log_id()));
        if lock(&self.inner.tail).last.1 > 0 || begins == 1 {
            return Ok(());
        }
        self.ask(|done| Work::BeginForTest(begins, done)).await
    }
}

impl RaftLogStorage<Group> for LogStore {
    type LogReader = Reader;

    async fn get_log_state(&mut self) -> io::Result<LogState<Group>> {
        let cut = placed(lock(&self.inner.standing).cut)?;
        let (term, index) = lock(&self.inner.tail).last;
        let last = log_id(term, index).filter(|last| Some(last.index) > cut.map(|cut| cut.index));
        Ok(LogState {
            last_purged_log_id: cut,
            last_log_id: last.or(cut),
        })
    }

    async fn get_log_reader(&mut self) -> Reader {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let vote = vote_to_wire(vote);
        self.change(move |standing| standing.vote = Some(vote))
            .await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Group>) -> io::Result<()>
    where
        I: IntoIterator<Item = GroupEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        #[cfg(test)]
        let mut entries = entries.into_iter().peekable();
        #[cfg(test)]
        self.begin_for_test(entries.peek()).await?;
        {
            let mut tail = lock(&self.inner.tail);
            for entry in entries {
                let (term, index, kind, payload) = record_of(&entry);
                if tail.last.1 + 1 != index {
                    return Err(other(format!(
                        "record {index} is to stand behind record {}",
                        tail.last.1
                    )));
                }
                tail.last = (term, index);
                tail.bytes += payload.len();
                tail.records.push_back((term, kind, payload.clone()));
                records.push((term, kind, payload));
            }
        }
        self.send(Work::Append(records, callback))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let keep = last.as_ref().map_or(0, index_of);
        self.ask(|done| Work::Truncate(keep, done)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        self.ask(|done| Work::Purge(upto, done)).await
    }
}

/// Reads records, and the vote.
pub(crate) struct Reader {
    store: LogStore,
    /// Where the last read from disk ended, its state of changes, and its rest.
    ahead: Option<(u64, u64, LogReader)>,
}

impl Reader {
    /// Records from `from` up to before `end`, as many as have `most` bytes and at least one.
    fn read(&mut self, from: u64, end: u64, most: usize) -> io::Result<Vec<GroupEntry>> {
        let cut = lock(&self.store.inner.standing)
            .cut
            .map_or(0, |cut| cut.index);
        let mut at = from.max(cut + 1);
        let mut found = Vec::new();
        let mut bytes = 0;
        let (disk, first, end, changes) = {
            let tail = lock(&self.store.inner.tail);
            let end = end.min(tail.last.1 + 1);
            at = at.max(tail.disk.first_index().unwrap_or(tail.first));
            let disk = (at < tail.first.min(end)).then(|| tail.disk.clone());
            (disk, tail.first, end, tail.changes)
        };
        if let Some(disk) = disk {
            let mut reader = match self.ahead.take() {
                Some((next, when, reader)) if next == at && when == changes => reader,
                _ => disk.reader(at),
            };
            while at < first.min(end) && (found.is_empty() || bytes < most) {
                let Some(record) = reader.next() else {
                    return Err(other(format!("record {at} is missing")));
                };
                let record = record.map_err(other)?;
                if record.index != at {
                    return Err(other(format!("record {at} is missing")));
                }
                bytes += record.payload.len();
                found.push(entry_of_record(record)?);
                at += 1;
            }
            self.ahead = Some((at, changes, reader));
        }
        let tail = lock(&self.store.inner.tail);
        if tail.changes != changes {
            return Err(other("the log changed while it was read"));
        }
        while at < end && (found.is_empty() || bytes < most) {
            let slot = at
                .checked_sub(tail.first)
                .and_then(|slot| usize::try_from(slot).ok());
            let Some((term, kind, payload)) = slot.and_then(|slot| tail.records.get(slot)) else {
                // It went to disk meanwhile: what was read so far is a beginning.
                drop(tail);
                if found.is_empty() {
                    return self.read(from, end, most);
                }
                found.extend(self.read(at, end, most.saturating_sub(bytes))?);
                return Ok(found);
            };
            bytes += payload.len();
            found.push(entry_of(*term, at, *kind, payload.clone())?);
            at += 1;
        }
        Ok(found)
    }
}

impl RaftLogReader<Group> for Reader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<GroupEntry>> {
        // The library counts from 0.
        let from = match range.start_bound() {
            Bound::Included(at) => at + 1,
            Bound::Excluded(at) => at + 2,
            Bound::Unbounded => 1,
        };
        let end = match range.end_bound() {
            Bound::Included(at) => at.saturating_add(2),
            Bound::Excluded(at) => at.saturating_add(1),
            Bound::Unbounded => u64::MAX,
        };
        self.read(from, end, usize::MAX)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> io::Result<Vec<GroupEntry>> {
        self.read(start + 1, end.saturating_add(1), READ)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(lock(&self.store.inner.standing).vote.map(vote_from_wire))
    }
}

struct Writer {
    log: Log,
    file: StandingFile,
    inner: Arc<Inner>,
}

/// Tells those who wait that nothing becomes durable any more, also behind a panic.
struct Failing(Option<Arc<Inner>>);

impl Drop for Failing {
    fn drop(&mut self) {
        if let Some(inner) = &self.0 {
            inner.durable.send_replace(None);
        }
    }
}

impl Writer {
    fn run(mut self, todo: &Receiver<Work>, fail: &Fail) {
        let mut failing = Failing(Some(Arc::clone(&self.inner)));
        let mut next = None;
        while let Some(work) = next.take().or_else(|| todo.recv().ok()) {
            let done = match work {
                Work::Append(records, flushed) => {
                    let mut waiting = vec![flushed];
                    let mut written = self.write(records);
                    while written.is_ok() {
                        match todo.try_recv() {
                            Ok(Work::Append(records, flushed)) => {
                                waiting.push(flushed);
                                written = self.write(records);
                            }
                            Ok(work) => {
                                next = Some(work);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    let synced = written.and_then(|()| self.sync());
                    for flushed in waiting {
                        flushed.io_completed(match &synced {
                            Ok(()) => Ok(()),
                            Err(error) => Err(other(error)),
                        });
                    }
                    synced.map_err(other)
                }
                Work::Change(change, done) => answer(done, self.change(change)),
                Work::Truncate(keep, done) => answer(done, self.truncate(keep).map_err(other)),
                Work::Purge(upto, done) => answer(done, self.purge(&upto)),
                #[cfg(test)]
                Work::BeginForTest(index, done) => answer(done, self.begin_for_test(index)),
            };
            if let Err(error) = done {
                fail(&format!("the log: {error}"));
                return;
            }
            let durable = self.log.durable_index();
            self.inner.durable.send_if_modified(|known| {
                let changes = *known != Some(durable);
                *known = Some(durable);
                changes
            });
        }
        failing.0 = None;
    }

    fn write(&mut self, records: Vec<(u64, Kind, Bytes)>) -> Result<(), LogError> {
        for (term, kind, payload) in records {
            self.log.append(term, kind, payload)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        let started = Instant::now();
        self.log.sync()?;
        metrics::histogram!("append_log_sync_seconds").record(started.elapsed().as_secs_f64());
        metrics::gauge!("append_log_bytes").set(gauge(self.log.bytes()));
        let mut tail = lock(&self.inner.tail);
        if tail.bytes > KEPT {
            while tail.bytes > KEPT / 2 && tail.first <= self.log.durable_index() {
                let Some((_, _, payload)) = tail.records.pop_front() else {
                    break;
                };
                tail.bytes -= payload.len();
                tail.first += 1;
            }
            tail.disk = self.log.view();
        }
        Ok(())
    }

    #[cfg(test)]
    fn begin_for_test(&mut self, index: u64) -> io::Result<()> {
        self.log.reset(0, index - 1).map_err(other)?;
        let mut tail = lock(&self.inner.tail);
        tail.first = index;
        tail.last = (0, index - 1);
        tail.disk = self.log.view();
        Ok(())
    }

    fn change(&mut self, change: impl FnOnce(&mut Standing)) -> io::Result<()> {
        let mut standing = lock(&self.inner.standing).clone();
        change(&mut standing);
        self.file.write(&standing)?;
        *lock(&self.inner.standing) = standing;
        Ok(())
    }

    fn truncate(&mut self, keep: u64) -> Result<(), LogError> {
        self.log.truncate(keep)?;
        let cut = lock(&self.inner.standing).cut;
        let mut tail = lock(&self.inner.tail);
        while tail.first + tail.records.len() as u64 > self.log.last_index() + 1 {
            let Some((_, _, payload)) = tail.records.pop_back() else {
                tail.first = self.log.last_index() + 1;
                break;
            };
            tail.bytes -= payload.len();
        }
        let mut last = (self.log.last_term(), self.log.last_index());
        if let Some(cut) = cut
            && last.1 <= cut.index
        {
            last = (cut.term, cut.index);
        }
        tail.last = last;
        tail.disk = self.log.view();
        tail.changes += 1;
        Ok(())
    }

    fn purge(&mut self, upto: &LogId) -> io::Result<()> {
        let cut = place(upto);
        self.change(|standing| standing.cut = Some(cut))?;
        if cut.index > self.log.last_index() {
            // A checkpoint from elsewhere reaches beyond the log.
            self.log.reset(cut.term, cut.index).map_err(other)?;
            let mut tail = lock(&self.inner.tail);
            tail.records.clear();
            tail.bytes = 0;
            tail.first = cut.index + 1;
            tail.last = (cut.term, cut.index);
            tail.disk = self.log.view();
            tail.changes += 1;
        } else {
            let below = self
                .inner
                .may_cut
                .load(Ordering::Acquire)
                .min(cut.index + 1);
            // The files that stay are whole; a failure to remove costs space only.
            match self.log.cut(below) {
                Ok(0) => {}
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
            lock(&self.inner.tail).disk = self.log.view();
        }
        if lock(&self.inner.standing)
            .reset
            .is_some_and(|reset| reset.index <= cut.index)
        {
            self.change(|standing| standing.reset = None)?;
        }
        Ok(())
    }
}

/// Tells who asked, and passes a failure on.
fn answer(done: oneshot::Sender<io::Result<()>>, result: io::Result<()>) -> io::Result<()> {
    let failed = result.as_ref().err().map(other);
    // Whoever has gone needs no answer.
    let _ = done.send(result);
    failed.map_or(Ok(()), Err)
}
