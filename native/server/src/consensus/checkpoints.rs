//! The checkpoint files: written aside, verified by reading them back, renamed, and the two newest kept.

use super::CheckpointFailure;
use crate::files::{self, DurableFile, sync_dir};
use crate::store::checkpoint::{self, CheckpointError, Summary};
use crate::store::{Applied, Mark};
use append_namespace::rows::{Change, Keyspace};
use bytes::Bytes;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// How many are kept. The log reaches back to the older one, so the loss of either loses nothing.
const KEPT: usize = 2;
const BUFFER: usize = 1 << 20;

/// A checkpoint file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Log index of its position.
    pub(crate) index: u64,
    path: PathBuf,
    /// Read back whole since this process started.
    verified: bool,
}

/// The checkpoints in one folder, oldest first.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    dir: PathBuf,
    stored: Vec<Stored>,
}

fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(std::io::Error) -> CheckpointFailure + 'a {
    move |source| CheckpointFailure::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

fn format(path: &Path) -> impl FnOnce(CheckpointError) -> CheckpointFailure + '_ {
    move |source| CheckpointFailure::Format {
        path: path.to_owned(),
        source,
    }
}

impl Checkpoints {
    /// Looks what is in `dir` and removes what a crash left unfinished.
    pub(crate) fn open(dir: &Path) -> Result<Checkpoints, CheckpointFailure> {
        let mut stored = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed("listing", dir))? {
            let path = entry.map_err(failed("listing", dir))?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if name.ends_with(".new") {
                files::remove(&path).map_err(failed("removing", &path))?;
            } else if let Some(index) = name
                .strip_suffix(".checkpoint")
                .and_then(|digits| digits.parse().ok())
            {
                stored.push(Stored {
                    index,
                    path,
                    verified: false,
                });
            }
        }
        stored.sort_by_key(|stored| stored.index);
        Ok(Checkpoints {
            dir: dir.to_owned(),
            stored,
        })
    }

    /// The file of the newest one.
    pub(crate) fn newest_path(&self) -> Option<PathBuf> {
        self.stored.last().map(|stored| stored.path.clone())
    }

    /// Keeps the checkpoint at `path`, which was read back whole, as the only one: the log that the others need is not there.
    pub(crate) fn adopt(&mut self, path: &Path, index: u64) -> Result<(), CheckpointFailure> {
        let kept = self.dir.join(format!("{index:020}.checkpoint"));
        let aside = self.dir.join("incoming.new");
        let path = if path.parent() == Some(self.dir.as_path()) {
            path
        } else {
            let mut from = File::open(path).map_err(failed("opening", path))?;
            let mut to = DurableFile::create(&aside).map_err(failed("creating", &aside))?;
            io::copy(&mut from, &mut to).map_err(failed("copying", path))?;
            to.sync().map_err(failed("syncing", &aside))?;
            aside.as_path()
        };
        if path != kept {
            files::rename(path, &kept).map_err(failed("renaming", path))?;
            sync_dir(&self.dir).map_err(failed("syncing", &self.dir))?;
        }
        for old in std::mem::take(&mut self.stored) {
            if old.path != kept {
                files::remove(&old.path).map_err(failed("removing", &old.path))?;
            }
        }
        sync_dir(&self.dir).map_err(failed("syncing", &self.dir))?;
        self.stored.push(Stored {
            index,
            path: kept,
            verified: true,
        });
        Ok(())
    }

    /// Log index of the newest one.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.stored.last().map(|stored| stored.index)
    }

    /// All of them, newest first.
    pub(crate) fn newest_first(&self) -> Vec<Stored> {
        self.stored.iter().rev().cloned().collect()
    }

    /// Exports `applied` and keeps it beside the one before. An equal one that is there already is verified instead. Gives up when
    /// `stop` becomes true.
    pub(crate) fn take(
        &mut self,
        applied: &Applied,
        stop: &AtomicBool,
    ) -> Result<Summary, CheckpointFailure> {
        let index = applied.mark.index;
        if let Some(equal) = self.stored.iter_mut().find(|stored| stored.index == index)
            && let Ok(summary) = verify(&equal.path)
            && summary.mark == applied.mark
        {
            equal.verified = true;
            return Ok(summary);
        }
        let path = self.dir.join(format!("{index:020}.checkpoint"));
        let temporary = self.dir.join(format!("{index:020}.new"));
        let summary = write(applied, &temporary, stop).map_err(|error| {
            // Best effort: the next open removes it too.
            let _ = files::remove(&temporary);
            if stop.load(Ordering::Acquire) {
                CheckpointFailure::Stopped
            } else {
                error
            }
        })?;
        files::rename(&temporary, &path).map_err(failed("renaming", &temporary))?;
        sync_dir(&self.dir).map_err(failed("syncing", &self.dir))?;
        self.stored.retain(|stored| stored.index != index);
        self.stored.push(Stored {
            index,
            path,
            verified: true,
        });
        self.stored.sort_by_key(|stored| stored.index);
        self.prune()?;
        Ok(summary)
    }

    /// The index below which the log is not needed: everything up to the older of two checkpoints that read back.
    ///
    /// One that does not read back is set aside, and then there is nothing to cut until the next is taken.
    pub(crate) fn log_needed_from(&mut self) -> Result<Option<u64>, CheckpointFailure> {
        self.set_damaged_aside()?;
        let older = self.stored.len().checked_sub(KEPT);
        Ok(older
            .and_then(|at| self.stored.get(at))
            .map(|older| older.index + 1))
    }

    /// Reads back whatever was not yet. Fails with what is wrong with the first that does not read back, and has set it aside then.
    fn set_damaged_aside(&mut self) -> Result<(), CheckpointFailure> {
        for at in 0..self.stored.len() {
            let stored = &mut self.stored[at];
            if stored.verified {
                continue;
            }
            if let Err(error) = verify(&stored.path) {
                let path = stored.path.clone();
                files::rename(&path, &path.with_extension("damaged"))
                    .map_err(failed("renaming", &path))?;
                self.stored.remove(at);
                return Err(error);
            }
            stored.verified = true;
        }
        Ok(())
    }

    /// Removes the oldest beyond those that are kept. A damaged one does not count as kept.
    fn prune(&mut self) -> Result<(), CheckpointFailure> {
        while self.stored.len() > KEPT {
            let before = self.stored.len();
            if let Err(error) = self.set_damaged_aside() {
                if self.stored.len() == before {
                    return Err(error);
                }
                tracing::error!(%error, "a checkpoint does not read back and was set aside");
                continue;
            }
            let oldest = self.stored.remove(0);
            files::remove(&oldest.path).map_err(failed("removing", &oldest.path))?;
            // The log is cut next: one that a power cut brings back could not be replayed from, and would count as one of the two.
            sync_dir(&self.dir).map_err(failed("syncing", &self.dir))?;
        }
        Ok(())
    }
}

/// Passes writes on until `stop` is true.
struct Stoppable<'a, W> {
    out: W,
    stop: &'a AtomicBool,
}

impl<W: Write> Write for Stoppable<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Acquire) {
            return Err(io::Error::other("stopped"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write(applied: &Applied, path: &Path, stop: &AtomicBool) -> Result<Summary, CheckpointFailure> {
    let mut file = DurableFile::create(path).map_err(failed("creating", path))?;
    let mut out = BufWriter::with_capacity(
        BUFFER,
        Stoppable {
            out: &mut file,
            stop,
        },
    );
    let written = checkpoint::write(&applied.rows, applied.mark, &mut out).map_err(format(path))?;
    drop(out);
    file.sync().map_err(failed("syncing", path))?;
    let read = verify(path)?;
    if read != written {
        let detail = format!("written were {written:?}, read back {read:?}");
        return Err(format(path)(CheckpointError::Damaged(detail)));
    }
    Ok(written)
}

/// Gives the rows of a checkpoint file to `sink`, wherever it lies.
pub(crate) fn read_file(
    path: &Path,
    sink: impl FnMut(Vec<Change>) -> Result<(), String>,
) -> Result<Summary, CheckpointFailure> {
    load(path, sink)
}

/// Where a checkpoint stands, and one row of it, without reading what comes behind the row's keyspace. For one that was read whole before.
pub(crate) fn peek(
    path: &Path,
    keyspace: Keyspace,
    key: &[u8],
) -> Result<(Mark, Option<Bytes>), CheckpointFailure> {
    let file = File::open(path).map_err(failed("opening", path))?;
    let mut found = None;
    let mark = checkpoint::mark(&file).map_err(format(path))?;
    let mut file = BufReader::with_capacity(BUFFER, file);
    file.rewind().map_err(failed("reading", path))?;
    let read = checkpoint::read(file, |changes| {
        for change in changes {
            if change.keyspace > keyspace {
                return Err("enough".to_owned());
            }
            if change.keyspace == keyspace && change.key == key {
                found = change.value;
                return Err("enough".to_owned());
            }
        }
        Ok(())
    });
    match read {
        Ok(_) | Err(CheckpointError::Sink(_)) => Ok((mark, found)),
        Err(error) => Err(format(path)(error)),
    }
}

fn verify(path: &Path) -> Result<Summary, CheckpointFailure> {
    load(path, |_| Ok(()))
}

fn load(
    path: &Path,
    sink: impl FnMut(Vec<Change>) -> Result<(), String>,
) -> Result<Summary, CheckpointFailure> {
    let file = File::open(path).map_err(failed("opening", path))?;
    checkpoint::read(BufReader::with_capacity(BUFFER, file), sink).map_err(format(path))
}

impl Stored {
    /// Gives its rows to `sink`. Only when this returns well was everything there.
    pub(crate) fn load(
        &self,
        sink: impl FnMut(Vec<Change>) -> Result<(), String>,
    ) -> Result<Mark, CheckpointFailure> {
        let mark = load(&self.path, sink)?.mark;
        if mark.index == self.index {
            Ok(mark)
        } else {
            let detail = format!("its name says {}, its header {}", self.index, mark.index);
            Err(format(&self.path)(CheckpointError::Damaged(detail)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::store::memory::MemoryStore;
    use append_namespace::Keyspace;
    use bytes::Bytes;

    static GO: AtomicBool = AtomicBool::new(false);

    fn applied(index: u64) -> Applied {
        let store = MemoryStore::default();
        let row = Change {
            keyspace: Keyspace::Files,
            key: Bytes::copy_from_slice(&index.to_be_bytes()),
            value: Some(Bytes::from_static(b"row")),
        };
        store.apply(Mark { term: 1, index }, &[row]).unwrap();
        store.applied()
    }

    fn indexes(checkpoints: &Checkpoints) -> Vec<u64> {
        checkpoints
            .newest_first()
            .iter()
            .map(|stored| stored.index)
            .collect()
    }

    #[test]
    fn the_two_newest_are_kept_and_the_log_is_needed_behind_the_older() {
        let dir = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::open(dir.path()).unwrap();
        assert_eq!(checkpoints.log_needed_from().unwrap(), None);
        checkpoints.take(&applied(5), &GO).unwrap();
        assert_eq!(checkpoints.log_needed_from().unwrap(), None);
        checkpoints.take(&applied(5), &GO).unwrap();
        assert_eq!(indexes(&checkpoints), [5]);
        checkpoints.take(&applied(9), &GO).unwrap();
        assert_eq!(checkpoints.log_needed_from().unwrap(), Some(6));
        checkpoints.take(&applied(12), &GO).unwrap();
        assert_eq!(indexes(&checkpoints), [12, 9]);
        let mut again = Checkpoints::open(dir.path()).unwrap();
        assert_eq!((indexes(&again), again.newest()), (vec![12, 9], Some(12)));
        assert_eq!(again.log_needed_from().unwrap(), Some(10));
    }

    #[test]
    fn a_damaged_one_does_not_count_and_does_not_let_the_log_be_cut() {
        let dir = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::open(dir.path()).unwrap();
        checkpoints.take(&applied(5), &GO).unwrap();
        checkpoints.take(&applied(9), &GO).unwrap();
        let older = checkpoints.newest_first()[1].path.clone();
        let mut bytes = std::fs::read(&older).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&older, bytes).unwrap();
        let mut again = Checkpoints::open(dir.path()).unwrap();
        assert!(again.newest_first()[1].load(|_| Ok(())).is_err());
        assert!(again.log_needed_from().is_err());
        assert_eq!(again.log_needed_from().unwrap(), None);
        again.take(&applied(12), &GO).unwrap();
        assert_eq!(again.log_needed_from().unwrap(), Some(10));
    }

    #[test]
    fn a_good_one_is_not_given_up_for_a_damaged_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::open(dir.path()).unwrap();
        checkpoints.take(&applied(5), &GO).unwrap();
        checkpoints.take(&applied(9), &GO).unwrap();
        let newer = checkpoints.newest_first()[0].path.clone();
        let mut bytes = std::fs::read(&newer).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&newer, bytes).unwrap();
        let mut again = Checkpoints::open(dir.path()).unwrap();
        again.take(&applied(12), &GO).unwrap();
        assert_eq!(indexes(&again), [12, 5]);
        assert!(newer.with_extension("damaged").exists());
        assert_eq!(again.log_needed_from().unwrap(), Some(6));
    }

    #[test]
    fn a_stopped_one_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::open(dir.path()).unwrap();
        let stopped = checkpoints.take(&applied(5), &AtomicBool::new(true));
        assert!(matches!(stopped, Err(CheckpointFailure::Stopped)));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_crash_left_unfinished_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("00000000000000000007.new");
        std::fs::write(&left, b"half").unwrap();
        let checkpoints = Checkpoints::open(dir.path()).unwrap();
        assert!(!left.exists());
        assert_eq!(checkpoints.newest(), None);
    }
}
