//! Appending to the container files and making them durable: one file is active, records go behind
//! each other, one thread syncs for everybody who waits (group commit).
//!
//! Rules: a failed write is cut back, so that the file ends with a whole record; a failed fsync (or a
//! failed cut) poisons the log for good, because the kernel may have dropped the dirty pages and a
//! second fsync would lie. Knows nothing of what records mean.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use super::checksum::record_crc;
use super::error::StoreError;
use super::files::{self, ContainerFile, CreateError, Files, RecordRef};
use super::lock;
use super::media::Media;
use super::num::{to_u64, to_usize};
use super::record::{FILE_HEADER_LEN, Header, Kind, padding, record_len};
use super::types::{BlockId, Position};

/// Bytes written without a sync after which one is asked for, so that neither a later commit nor the
/// change to a next file has to wait for a gigabyte.
const BACKGROUND_SYNC_BYTES: u64 = 32 << 20;

/// Payloads up to this length are copied behind their header and written with one call.
const COPY_LIMIT: usize = 128 << 10;

/// Bytes of zeros that are written behind a small record at once. A file that does not grow is synced with one write less than one that does,
/// and without a change of the file system's own.
const ROOM: usize = if cfg!(test) { 512 } else { 256 << 10 };

/// Records up to this length have room made behind them: for longer ones it would be half of what is written.
const ROOM_BEHIND: usize = ROOM / 8;

static ZEROS: [u8; ROOM] = [0; ROOM];

/// Unsynced bytes up to which whoever committed syncs by itself: more take so long that its stream should go on meanwhile.
const SYNC_HERE_BYTES: u64 = 256 << 10;

/// Called once, from any thread, when the store can promise nothing any more, before anybody who waits
/// is told. The process should end. The hook must not call the store.
pub type FatalHook = Arc<dyn Fn(&str) + Send + Sync>;

/// The file that takes records.
pub(crate) struct Active {
    pub(crate) file: Arc<ContainerFile>,
    /// Where the next record goes.
    pub(crate) end: u64,
    /// Length of the file: its records and the room made behind them.
    room: u64,
    /// Up to where this file is known durable.
    pub(crate) durable: u64,
    /// End of the last record when that one is a mark.
    marked: u64,
}

impl Active {
    /// A file that is durable up to `end`; `marked` when its last record says so.
    pub(crate) fn new(file: Arc<ContainerFile>, end: u64, marked: bool) -> Self {
        Self {
            file,
            end,
            room: end,
            durable: end,
            marked: if marked { end } else { 0 },
        }
    }
}

/// What waiters watch.
#[derive(Clone, Debug)]
struct SyncState {
    durable: Position,
    poisoned: Option<Arc<str>>,
}

struct Wanted {
    position: Position,
    stop: bool,
}

/// What the log is made with.
pub(crate) struct LogConfig {
    pub(crate) dir: PathBuf,
    pub(crate) media: Media,
    pub(crate) roll_bytes: u64,
    pub(crate) reserve_bytes: u64,
    pub(crate) on_fatal: Option<FatalHook>,
}

/// The log of one store.
pub(crate) struct Log {
    config: LogConfig,
    pub(crate) files: Files,
    active: Mutex<Active>,
    /// Held by who syncs.
    syncing: Mutex<()>,
    wanted: Mutex<Wanted>,
    wake: Condvar,
    state: watch::Sender<SyncState>,
    /// Why nothing is accepted any more: apart from the state, which changes with every sync, so that whoever waits for this alone is not woken by those.
    fatal: watch::Sender<Option<Arc<str>>>,
}

impl Log {
    /// A log that goes on behind `active`, all of which is durable.
    pub(crate) fn new(config: LogConfig, active: Active) -> Self {
        let files = Files::new(config.dir.clone(), config.media.clone());
        files.insert(Arc::clone(&active.file));
        let durable = Position {
            file: active.file.number,
            offset: active.durable,
        };
        let log = Self {
            config,
            files,
            active: Mutex::new(active),
            syncing: Mutex::default(),
            wanted: Mutex::new(Wanted {
                position: durable,
                stop: false,
            }),
            wake: Condvar::new(),
            state: watch::Sender::new(SyncState {
                durable,
                poisoned: None,
            }),
            fatal: watch::Sender::new(None),
        };
        log.mark(&mut lock(&log.active));
        log
    }

    /// Appends one record. It is in the file, but not durable, when this returns.
    pub(crate) fn append(
        &self,
        kind: Kind,
        block: BlockId,
        offset: u64,
        payload: &[u8],
    ) -> Result<(RecordRef, Position), StoreError> {
        let payload_len = u32::try_from(payload.len()).map_err(|_| StoreError::Invalid {
            block,
            reason: "record too long",
        })?;
        let payload_crc = record_crc(&[payload]);
        let len = record_len(u64::from(payload_len));
        if kind == Kind::Chunk {
            self.config
                .media
                .check_room(&self.config.dir, self.config.reserve_bytes, len)
                .map_err(|e| StoreError::io("write to a container file", e))?;
        }
        let mut active = lock(&self.active);
        self.check()?;
        if active.end > FILE_HEADER_LEN && active.end + len > self.config.roll_bytes {
            self.roll(&mut active)?;
        }
        let at = active.end;
        let header = Header {
            kind,
            payload_len,
            payload_crc,
            block,
            offset,
            durable: active.durable,
        };
        self.write(&mut active, &header, payload)?;
        let position = Position {
            file: active.file.number,
            offset: active.end,
        };
        if active.end - active.durable >= BACKGROUND_SYNC_BYTES {
            self.request(position);
        }
        metrics::counter!("datanode_container_bytes_written_total").increment(len);
        Ok((
            RecordRef {
                file: position.file,
                at,
                payload_len,
            },
            position,
        ))
    }

    /// Writes a record behind the last one.
    fn write(
        &self,
        active: &mut Active,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), StoreError> {
        let (media, file, at) = (&self.config.media, &active.file, active.end);
        let mut head = header.encode(file.nonce, at);
        let done = if payload.len() <= COPY_LIMIT {
            head.extend_from_slice(payload);
            head.extend_from_slice(padding(payload.len()));
            media.write_at(&file.path, &file.file, at, &head)
        } else {
            let body = files::payload_at(at);
            media
                .write_at(&file.path, &file.file, at, &head)
                .and_then(|()| media.write_at(&file.path, &file.file, body, payload))
                .and_then(|()| {
                    let behind = body + to_u64(payload.len());
                    media.write_at(&file.path, &file.file, behind, padding(payload.len()))
                })
        };
        if let Err(error) = done {
            metrics::counter!("datanode_write_failures_total").increment(1);
            // What the failed write left must not stand between this record and the next.
            self.cut_back(active, "cutting back a failed write")?;
            return Err(StoreError::io("write to a container file", error));
        }
        active.end += header.record_len();
        if active.end > active.room {
            active.room = active.end;
            if header.record_len() <= to_u64(ROOM_BEHIND) {
                self.make_room(active)?;
            }
        }
        Ok(())
    }

    /// Makes room behind the last record. Without room on the disk there is none, and records go on as long as they find some.
    fn make_room(&self, active: &mut Active) -> Result<(), StoreError> {
        let end = active
            .end
            .next_multiple_of(to_u64(ROOM))
            .min(self.config.roll_bytes);
        let zeros = to_usize(end.saturating_sub(active.end));
        let file = &active.file;
        let made = self
            .config
            .media
            .write_at(&file.path, &file.file, active.end, &ZEROS[..zeros]);
        match made {
            Ok(()) => active.room = active.room.max(end),
            Err(_) => self.cut_back(active, "cutting back room that could not be made")?,
        }
        Ok(())
    }

    /// Makes the file end behind its last record.
    fn cut_back(&self, active: &mut Active, why: &str) -> Result<(), StoreError> {
        let file = &active.file;
        self.config
            .media
            .cut(&file.path, &file.file, active.end)
            .map_err(|cut| self.poison(format!("{why}: {cut}")))?;
        active.room = active.end;
        Ok(())
    }

    /// Gives the room behind the last record back. Nothing may be written afterwards.
    pub(crate) fn close(&self) {
        let mut active = lock(&self.active);
        if active.room > active.end && self.check().is_ok() {
            // Room that stays is given back by the next open.
            let file = &active.file;
            let _ = self.config.media.cut(&file.path, &file.file, active.end);
            active.room = active.end;
        }
    }

    fn roll(&self, active: &mut Active) -> Result<(), StoreError> {
        // Only the last file may end in a torn record or in room, so the old one is cut and synced before a new one exists.
        let old = Arc::clone(&active.file);
        let grew = active.room > active.end;
        if grew {
            self.cut_back(active, "cutting back the room of a container file")?;
        }
        if grew || active.durable < active.end {
            self.config
                .media
                .sync_data(&old.path, &old.file)
                .map_err(|e| self.poison(format!("fsync of a container file: {e}")))?;
            active.durable = active.end;
        }
        let number = old
            .number
            .checked_add(1)
            .ok_or_else(|| StoreError::io("new container file", numbers_exhausted()))?;
        let created = files::create(&self.config.media, &self.config.dir, number, active.end);
        let file = match created {
            Ok(file) => Arc::new(file),
            Err(CreateError::Write(e)) => return Err(StoreError::io("new container file", e)),
            Err(CreateError::Sync(e)) => {
                return Err(self.poison(format!("fsync of a new container file: {e}")));
            }
        };
        tracing::info!(number, "container file begins");
        metrics::counter!("datanode_container_files_created_total").increment(1);
        self.files.insert(Arc::clone(&file));
        *active = Active::new(file, FILE_HEADER_LEN, true);
        self.publish(Position {
            file: number,
            offset: FILE_HEADER_LEN,
        });
        Ok(())
    }

    /// Asks the sync thread to make everything up to `position` durable.
    pub(crate) fn request(&self, position: Position) {
        let mut wanted = lock(&self.wanted);
        if wanted.position < position {
            wanted.position = position;
            self.wake.notify_one();
        }
    }

    /// Begins to make everything up to `position` durable, and is done with it if nobody syncs and little is
    /// to be synced: two changes of threads take longer than all else of a small commit but the disk.
    pub(crate) fn sync(&self, position: Position) {
        let little = {
            let active = lock(&self.active);
            active.end - active.durable <= SYNC_HERE_BYTES
        };
        let turn = match self.syncing.try_lock() {
            Ok(turn) if little => turn,
            _ => return self.request(position),
        };
        if self.durable_now() < position && self.check().is_ok() {
            // Whoever waits for the position learns of a failure.
            let _ = self.sync_holding(turn);
        }
    }

    /// Up to where the log is durable.
    pub(crate) fn durable_now(&self) -> Position {
        self.state.borrow().durable
    }

    /// Waits until `position` is durable; an error means that it may never be.
    pub(crate) async fn durable(&self, position: Position) -> Result<(), StoreError> {
        if self.durable_now() >= position {
            return Ok(());
        }
        self.request(position);
        let mut states = self.state.subscribe();
        let reached = states
            .wait_for(|s| s.durable >= position || s.poisoned.is_some())
            .await
            .map(|s| (s.durable >= position, s.poisoned.clone()));
        match reached {
            Ok((true, _)) => Ok(()),
            Ok((false, reason)) => Err(StoreError::Poisoned(
                reason.unwrap_or_else(|| Arc::from("unknown")),
            )),
            Err(_) => Err(StoreError::Poisoned(Arc::from("closed"))),
        }
    }

    /// Resolves when the log is poisoned, with the reason.
    pub(crate) async fn failed(&self) -> StoreError {
        let mut fatal = self.fatal.subscribe();
        let reason = fatal.wait_for(Option::is_some).await;
        let reason = reason.ok().and_then(|reason| reason.clone());
        StoreError::Poisoned(reason.unwrap_or_else(|| Arc::from("closed")))
    }

    /// Fails when the log is poisoned.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match &self.state.borrow().poisoned {
            Some(reason) => Err(StoreError::Poisoned(Arc::clone(reason))),
            None => Ok(()),
        }
    }

    fn poison(&self, reason: String) -> StoreError {
        let reason: Arc<str> = Arc::from(reason);
        let mut first = false;
        // Writers are refused from here on, but nobody is woken before the hook has run.
        self.state.send_if_modified(|s| {
            first = s.poisoned.is_none();
            s.poisoned.get_or_insert_with(|| Arc::clone(&reason));
            false
        });
        if first {
            tracing::error!(%reason, "the block store accepts nothing any more");
            if let Some(hook) = &self.config.on_fatal {
                hook(&reason);
            }
        }
        self.state.send_modify(|_| {});
        self.fatal.send_replace(Some(Arc::clone(&reason)));
        StoreError::Poisoned(reason)
    }

    fn publish(&self, durable: Position) {
        self.state.send_if_modified(|s| {
            let advanced = s.durable < durable;
            s.durable = s.durable.max(durable);
            advanced
        });
    }

    /// Body of the sync thread; ends when [`Log::stop`] is called, after a last sync, or when poisoned.
    pub(crate) fn sync_loop(&self) {
        loop {
            let stop = {
                let mut wanted = lock(&self.wanted);
                while !wanted.stop && wanted.position <= self.durable_now() {
                    wanted = self
                        .wake
                        .wait(wanted)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                wanted.stop
            };
            let turn = lock(&self.syncing);
            if self.check().is_err() || self.sync_holding(turn).is_err() || stop {
                return;
            }
        }
    }

    /// Lets the sync thread end.
    pub(crate) fn stop(&self) {
        lock(&self.wanted).stop = true;
        self.wake.notify_one();
    }

    /// Syncs what is written. Nobody may wait for a sync that never ends, so a panic poisons too.
    fn sync_holding(&self, turn: MutexGuard<'_, ()>) -> Result<(), StoreError> {
        let done = catch_unwind(AssertUnwindSafe(|| self.sync_once()))
            .unwrap_or_else(|_| Err(self.poison("a sync panicked".to_owned())));
        drop(turn);
        done
    }

    fn sync_once(&self) -> Result<(), StoreError> {
        let (file, end) = {
            let active = lock(&self.active);
            (Arc::clone(&active.file), active.end)
        };
        let began = Instant::now();
        self.config
            .media
            .sync_data(&file.path, &file.file)
            .map_err(|e| self.poison(format!("fsync of a container file: {e}")))?;
        metrics::histogram!("datanode_fsync_seconds").record(began.elapsed().as_secs_f64());
        self.publish(Position {
            file: file.number,
            offset: end,
        });
        let mut active = lock(&self.active);
        if active.file.number == file.number {
            active.durable = active.durable.max(end);
            self.mark(&mut active);
        }
        Ok(())
    }

    /// When nothing was written since the sync, says in the file itself how much of it is durable, so
    /// that damage found there later is known to be rot. Needs no sync: a lost mark loses only that.
    fn mark(&self, active: &mut Active) {
        if active.end != active.durable || active.marked == active.end {
            return;
        }
        let header = Header {
            kind: Kind::Mark,
            payload_len: 0,
            payload_crc: record_crc(&[]),
            block: BlockId::new(0, 0),
            offset: 0,
            durable: active.durable,
        };
        if self.write(active, &header, &[]).is_ok() {
            active.marked = active.end;
        }
    }
}

fn numbers_exhausted() -> std::io::Error {
    std::io::Error::other("no container file number is left")
}
