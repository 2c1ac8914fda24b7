//! Appending, syncing, cutting and reading back.

use super::LogError;
use super::record::{Found, Kind, MAX_PAYLOAD, Record};
use super::recovery::{self, Torn};
use super::segment::{self, Segment};
use crate::files::{self, DurableFile};
use bytes::Bytes;
use std::path::{Path, PathBuf};

/// The log in one folder. One owner writes; nobody else may touch the folder meanwhile.
///
/// After an error of [`Log::append`] or [`Log::sync`] every later call answers [`LogError::Poisoned`]: what the disk holds is not
/// known, and a second fsync that succeeds would prove nothing.
#[derive(Debug)]
pub struct Log {
    dir: PathBuf,
    segment_bytes: u64,
    segments: Vec<Segment>,
    file: Option<DurableFile>,
    /// Length of the last segment's file: its records and the room made behind them.
    room: u64,
    last_term: u64,
    last_index: u64,
    durable: u64,
    poisoned: bool,
    buffer: Vec<u8>,
}

impl Log {
    /// Opens the log in `dir`, which must exist, checks all of it, and cuts a torn end; a new segment begins after `segment_bytes`.
    /// Records up to `floor` are known to have been durable, by rows or a checkpoint that hold them: without them the log is refused.
    ///
    /// # Errors
    /// [`LogError`]; damage leaves the folder as it was.
    pub fn open(
        dir: &Path,
        segment_bytes: u64,
        floor: u64,
    ) -> Result<(Log, Option<Torn>), LogError> {
        let found = recovery::recover(dir, floor)?;
        let file = match found.segments.last() {
            Some(last) => {
                Some(DurableFile::append(&last.path).map_err(LogError::io("opening", &last.path))?)
            }
            None => None,
        };
        let log = Log {
            dir: dir.to_owned(),
            segment_bytes,
            segments: found.segments,
            file,
            room: 0,
            last_term: found.last_term,
            last_index: found.last_index,
            durable: found.last_index,
            poisoned: false,
            buffer: Vec::new(),
        };
        Ok((log, found.torn))
    }

    /// Index of the first record that is kept; one more than [`Log::last_index`] when there is none.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        self.segments
            .first()
            .map_or(self.last_index + 1, |segment| segment.first)
    }

    /// Index of the last record written; 0 before the first.
    #[must_use]
    pub fn last_index(&self) -> u64 {
        self.last_index
    }

    /// Term of the last record written; 0 before the first.
    #[must_use]
    pub fn last_term(&self) -> u64 {
        self.last_term
    }

    /// The highest index that is fsynced.
    #[must_use]
    pub fn durable_index(&self) -> u64 {
        self.durable
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Bytes of the segments that begin above `index`, which is nearly what the log holds behind it.
    #[must_use]
    pub fn bytes_above(&self, index: u64) -> u64 {
        self.segments
            .iter()
            .filter(|segment| segment.first > index)
            .map(|segment| segment.bytes)
            .sum()
    }

    /// Writes one record at the next index and gives that. It is not durable before [`Log::sync`].
    ///
    /// # Errors
    /// [`LogError`]; all but [`LogError::TooLarge`] and [`LogError::Full`] poison the log.
    pub fn append(&mut self, term: u64, kind: Kind, payload: Bytes) -> Result<u64, LogError> {
        self.alive()?;
        let index = self.last_index + 1;
        if payload.len() > MAX_PAYLOAD {
            return Err(LogError::TooLarge {
                bytes: payload.len(),
            });
        }
        self.poisoned = true;
        if self
            .segments
            .last()
            .is_none_or(|segment| segment.bytes >= self.segment_bytes)
        {
            self.roll(index).inspect_err(|error| {
                self.poisoned = !matches!(error, LogError::Full { .. });
            })?;
        }
        let (Some(file), Some(segment)) = (self.file.as_mut(), self.segments.last_mut()) else {
            return Err(LogError::Poisoned);
        };
        self.buffer.clear();
        Record {
            term,
            index,
            durable: self.durable,
            kind,
            payload,
        }
        .encode(segment.nonce, &mut self.buffer)?;
        if let Err(source) = file.write_all_at(segment.bytes, &self.buffer) {
            let failed = segment::failed("writing", &segment.path, source);
            if matches!(failed, LogError::Full { .. }) {
                // What was written of it must not stand between the last record and the next.
                file.cut(segment.bytes)
                    .map_err(LogError::io("cutting", &segment.path))?;
                self.room = segment.bytes;
                self.poisoned = false;
            }
            return Err(failed);
        }
        segment.bytes += self.buffer.len() as u64;
        if segment.bytes > self.room {
            self.room = segment.make_room(file)?;
        }
        self.last_index = index;
        self.last_term = term;
        self.poisoned = false;
        Ok(index)
    }

    /// Makes every record written so far durable.
    ///
    /// # Errors
    /// [`LogError`]; it poisons the log, and the process should end.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.alive()?;
        if self.durable == self.last_index {
            return Ok(());
        }
        self.sync_file()?;
        self.durable = self.last_index;
        Ok(())
    }

    /// Removes whole segments of which every record has an index below `index`, oldest first. The last segment always stays.
    /// Gives the bytes freed.
    ///
    /// # Errors
    /// [`LogError`]; some of the segments may be gone already, which the next open accepts.
    pub fn cut(&mut self, index: u64) -> Result<u64, LogError> {
        let mut freed = 0;
        while let [first, second, ..] = self.segments.as_slice()
            && second.first <= index
        {
            files::remove(&first.path).map_err(LogError::io("removing", &first.path))?;
            freed += first.bytes;
            self.segments.remove(0);
            segment::sync_dir(&self.dir)?;
        }
        Ok(freed)
    }

    /// Removes every record above `index`, durably, the newest first: a crash meanwhile leaves a log that is shorter, never one with a gap.
    /// Only what no majority has may be removed.
    ///
    /// # Errors
    /// [`LogError`]; it poisons the log.
    pub fn truncate(&mut self, index: u64) -> Result<(), LogError> {
        self.alive()?;
        if index >= self.last_index {
            return Ok(());
        }
        self.poisoned = true;
        self.file = None;
        while let Some(last) = self.segments.last()
            && last.first > index
            && last.first > self.first_index()
        {
            files::remove(&last.path).map_err(LogError::io("removing", &last.path))?;
            segment::sync_dir(&self.dir)?;
            self.segments.pop();
        }
        let Some(last) = self.segments.last_mut() else {
            return Err(LogError::Poisoned);
        };
        let (end, term) = recovery::end_of(last, index)?;
        let file = DurableFile::append(&last.path).map_err(LogError::io("opening", &last.path))?;
        file.cut(end).map_err(LogError::io("cutting", &last.path))?;
        file.sync().map_err(LogError::io("syncing", &last.path))?;
        last.bytes = end;
        self.room = end;
        self.file = Some(file);
        self.last_index = index.max(last.first - 1);
        self.last_term = term;
        self.durable = self.last_index;
        self.poisoned = false;
        Ok(())
    }

    /// Forgets everything and goes on behind record `index` of `term`, which a checkpoint holds. A crash meanwhile leaves a folder for which
    /// [`Log::restart`] must be called again.
    ///
    /// # Errors
    /// [`LogError`]; it poisons the log.
    pub fn reset(&mut self, term: u64, index: u64) -> Result<(), LogError> {
        self.alive()?;
        self.poisoned = true;
        self.file = None;
        Log::restart(&self.dir, index)?;
        let (log, _) = Log::open(&self.dir, self.segment_bytes, index)?;
        *self = log;
        self.last_term = term;
        Ok(())
    }

    /// Removes all segments in `dir` and makes an empty one behind record `index`.
    ///
    /// # Errors
    /// [`LogError`]; the folder may then hold no segment.
    pub fn restart(dir: &Path, index: u64) -> Result<(), LogError> {
        for segment in segment::list(dir)?.iter().rev() {
            files::remove(&segment.path).map_err(LogError::io("removing", &segment.path))?;
        }
        segment::sync_dir(dir)?;
        segment::create(dir, index + 1).map(|_| ())
    }

    /// Reads records from `index` on, as far as they are written now.
    #[must_use]
    pub fn reader(&self, index: u64) -> LogReader {
        self.view().reader(index)
    }

    /// The log as it is written now, for readers on other threads. Void for records that are removed later.
    #[must_use]
    pub fn view(&self) -> LogView {
        LogView {
            dir: self.dir.clone(),
            segments: self.segments.clone(),
        }
    }

    fn alive(&self) -> Result<(), LogError> {
        if self.poisoned {
            Err(LogError::Poisoned)
        } else {
            Ok(())
        }
    }

    fn sync_file(&mut self) -> Result<(), LogError> {
        if let (Some(file), Some(segment)) = (&self.file, self.segments.last()) {
            self.poisoned = true;
            file.sync()
                .map_err(LogError::io("syncing", &segment.path))?;
            self.poisoned = false;
        }
        Ok(())
    }

    /// Everything before is synced first, without the room behind it: recovery takes anything but records in any but the last segment for
    /// damage.
    fn roll(&mut self, first: u64) -> Result<(), LogError> {
        self.give_room_back()?;
        self.sync_file()?;
        self.poisoned = true;
        let (segment, file) = segment::create(&self.dir, first)?;
        self.room = segment.bytes;
        self.segments.push(segment);
        self.file = Some(file);
        Ok(())
    }

    fn give_room_back(&mut self) -> Result<(), LogError> {
        if let (Some(file), Some(segment)) = (&self.file, self.segments.last())
            && self.room > segment.bytes
        {
            file.cut(segment.bytes)
                .map_err(LogError::io("cutting", &segment.path))?;
            self.room = segment.bytes;
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.poisoned {
            // Room that stays is given back by the next open.
            let _ = self.give_room_back();
        }
    }
}

/// What a log held at one moment.
#[derive(Debug, Clone)]
pub struct LogView {
    dir: PathBuf,
    segments: Vec<Segment>,
}

impl LogView {
    /// Index of the first record; none without a segment.
    #[must_use]
    pub fn first_index(&self) -> Option<u64> {
        self.segments.first().map(|segment| segment.first)
    }

    /// Reads records from `index` on.
    #[must_use]
    pub fn reader(&self, index: u64) -> LogReader {
        let mut segments = self.segments.clone();
        let skip = segments
            .iter()
            .rposition(|segment| segment.first <= index)
            .unwrap_or(0);
        segments.drain(..skip);
        segments.reverse();
        LogReader {
            segments,
            bytes: Bytes::new(),
            nonce: 0,
            at: 0,
            path: self.dir.clone(),
            from: index,
        }
    }
}

/// Records in the order of their indexes. Ends behind the last that was written when it was made.
#[derive(Debug)]
pub struct LogReader {
    /// What is still to be read, the next one last.
    segments: Vec<Segment>,
    bytes: Bytes,
    nonce: u64,
    at: usize,
    path: PathBuf,
    from: u64,
}

impl LogReader {
    fn read(&mut self) -> Result<Option<Record>, LogError> {
        loop {
            let rest = self.bytes.slice(self.at.min(self.bytes.len())..);
            match Record::decode(&rest, self.nonce) {
                Found::Good(record, size) => {
                    self.at += size;
                    if record.index >= self.from {
                        return Ok(Some(record));
                    }
                }
                Found::Unknown(kind) => {
                    return Err(LogError::Damaged {
                        path: self.path.clone(),
                        offset: self.at as u64,
                        detail: format!("a record of kind {kind}"),
                    });
                }
                Found::Bad(detail) => {
                    return Err(LogError::Damaged {
                        path: self.path.clone(),
                        offset: self.at as u64,
                        detail,
                    });
                }
                Found::End => {
                    let Some(segment) = self.segments.pop() else {
                        return Ok(None);
                    };
                    let bytes = std::fs::read(&segment.path)
                        .map_err(LogError::io("reading", &segment.path))?;
                    let end = usize::try_from(segment.bytes)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len());
                    self.bytes = Bytes::from(bytes).slice(..end);
                    self.nonce = segment.nonce;
                    self.at = segment::HEADER;
                    self.path = segment.path;
                }
            }
        }
    }
}

impl Iterator for LogReader {
    type Item = Result<Record, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
