//! The data folder: who has it, what version wrote it, and what stands where.
//!
//! ```text
//! FORMAT        one line: the version of everything beside it
//! LOCK          locked while a server has the folder open
//! log/          segments
//! checkpoints/  exported states
//! rows/         the store; can be rebuilt from the two above
//! rows-N/       the store, when it came from elsewhere for the Nth time
//! group         what a server of a group may not forget
//! rows.new/     a store that is being rebuilt
//! rows.suspect  a row could not be read: rebuild at the next open
//! ```

use super::OpenError;
use super::membership::{Standing, StandingFile};
use crate::files::{self, DurableFile, create_dirs, sync_dir};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The version of the folder before a layout is finalized: older servers may go on with it.
const FORMAT: &str = "libappend server data, version 1\n";
/// The version once a layout is finalized, which servers from before there were layouts refuse. Those look for no layout in the rows.
const FORMAT_FINALIZED: &str = "libappend server data, version 2\n";
const FORMAT_FILE: &str = "FORMAT";

/// An open data folder. Unlocked when dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    /// Which folder of rows is the one.
    generation: AtomicU32,
    /// Holds the lock.
    _lock: File,
}

fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> OpenError + 'a {
    move |source| OpenError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

impl Folder {
    /// Whether a server has begun to use `root`.
    pub(crate) fn is_one(root: &Path) -> bool {
        root.join(FORMAT_FILE).is_file()
    }

    /// Opens `root`, or makes it.
    pub(crate) fn open(root: &Path) -> Result<Folder, OpenError> {
        create_dirs(root).map_err(io("creating", root))?;
        let lock_path = root.join("LOCK");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(io("opening", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(root.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io("locking", &lock_path)(source)),
        }
        let folder = Folder {
            root: root.to_owned(),
            generation: AtomicU32::new(0),
            _lock: lock,
        };
        folder.check_format()?;
        for dir in [folder.log(), folder.checkpoints()] {
            create_dirs(&dir).map_err(io("creating", &dir))?;
        }
        if let Some(standing) = folder.standing().read()? {
            folder.use_rows(standing.rows);
        }
        folder.remove_other_rows()?;
        Ok(folder)
    }

    /// What the server promised to its group.
    pub(crate) fn standing(&self) -> StandingFile {
        StandingFile::new(&self.root)
    }

    /// Refuses a folder of a group to a server that is alone: not all of its log is decided.
    pub(crate) fn check_alone(&self) -> Result<(), OpenError> {
        match self.standing().read()? {
            None => Ok(()),
            Some(Standing { id, .. }) => Err(OpenError::Grouped {
                path: self.root.clone(),
                id,
            }),
        }
    }

    /// Whether nothing was ever written to the log, and no checkpoint taken.
    pub(crate) fn is_fresh(&self) -> Result<bool, OpenError> {
        for dir in [self.log(), self.checkpoints()] {
            if std::fs::read_dir(&dir)
                .map_err(io("listing", &dir))?
                .next()
                .is_some()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// From now on the rows are those of this generation.
    pub(crate) fn use_rows(&self, generation: u32) {
        self.generation.store(generation, Ordering::Release);
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// An empty place for the rows of a generation that is to come.
    pub(crate) fn place_rows(&self, generation: u32) -> Result<PathBuf, OpenError> {
        let path = self.rows_of(generation);
        remove_dir(&path)?;
        Ok(path)
    }

    fn rows_of(&self, generation: u32) -> PathBuf {
        match generation {
            0 => self.root.join("rows"),
            n => self.root.join(format!("rows-{n}")),
        }
    }

    /// Rows of other generations are left over from a checkpoint that came from elsewhere, or from one that did not come to its end.
    fn remove_other_rows(&self) -> Result<(), OpenError> {
        let used = self.rows();
        for entry in std::fs::read_dir(&self.root).map_err(io("listing", &self.root))? {
            let path = entry.map_err(io("listing", &self.root))?.path();
            let is_rows = path
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name == "rows" || name.starts_with("rows-"));
            if is_rows && path != used {
                remove_dir(&path)?;
            }
        }
        Ok(())
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    pub(crate) fn rows(&self) -> PathBuf {
        self.rows_of(self.generation())
    }

    /// Says that the rows must be rebuilt at the next open. Best effort: the process is ending.
    pub(crate) fn suspect_rows(&self) {
        let path = self.suspect();
        if let Err(error) = File::create(&path)
            .and_then(|file| file.sync_all())
            .and_then(|()| sync_dir(&self.root))
        {
            tracing::error!(%error, path = %path.display(), "the rows could not be marked as suspect");
        }
    }

    pub(crate) fn rows_are_suspect(&self) -> Result<bool, OpenError> {
        let path = self.suspect();
        path.try_exists().map_err(io("looking for", &path))
    }

    /// An empty place for new rows.
    pub(crate) fn begin_rows(&self) -> Result<PathBuf, OpenError> {
        let path = self.root.join("rows.new");
        remove_dir(&path)?;
        Ok(path)
    }

    /// Puts the new rows in the place of the old ones. They must be closed and durable.
    pub(crate) fn finish_rows(&self, new: &Path) -> Result<(), OpenError> {
        let rows = self.rows();
        remove_dir(&rows)?;
        std::fs::rename(new, &rows).map_err(io("renaming", new))?;
        sync_dir(&self.root).map_err(io("syncing", &self.root))?;
        let suspect = self.suspect();
        match std::fs::remove_file(&suspect) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io("removing", &suspect)(error))
            }
            _ => Ok(()),
        }
    }

    fn suspect(&self) -> PathBuf {
        self.root.join("rows.suspect")
    }

    /// A folder without a format is taken only if nothing else is in it: it may be anybody's.
    fn check_format(&self) -> Result<(), OpenError> {
        let path = self.root.join(FORMAT_FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) if text == FORMAT || text == FORMAT_FINALIZED => return Ok(()),
            Ok(text) => {
                let found = text.lines().next().unwrap_or_default().to_owned();
                return Err(OpenError::Format { path, found });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(io("reading", &path)(source)),
        }
        for entry in std::fs::read_dir(&self.root).map_err(io("listing", &self.root))? {
            let name = entry.map_err(io("listing", &self.root))?.file_name();
            if name != "LOCK" && name != "FORMAT.new" && name != "lost+found" {
                return Err(OpenError::Foreign {
                    path: self.root.clone(),
                    name: name.to_string_lossy().into_owned(),
                });
            }
        }
        self.write_format(FORMAT)
    }

    /// Makes servers from before there were layouts refuse the folder, durably. There is no way back.
    pub(crate) fn raise_format(&self) -> Result<(), OpenError> {
        let path = self.root.join(FORMAT_FILE);
        let found = std::fs::read_to_string(&path).map_err(io("reading", &path))?;
        if found == FORMAT_FINALIZED {
            return Ok(());
        }
        self.write_format(FORMAT_FINALIZED)
    }

    fn write_format(&self, version: &str) -> Result<(), OpenError> {
        let path = self.root.join(FORMAT_FILE);
        let temporary = self.root.join("FORMAT.new");
        let write = || -> std::io::Result<()> {
            let mut file = DurableFile::create(&temporary)?;
            file.write_all(version.as_bytes())?;
            file.sync()?;
            files::rename(&temporary, &path)?;
            sync_dir(&self.root)
        };
        write().map_err(io("writing", &path))
    }
}

fn remove_dir(path: &Path) -> Result<(), OpenError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io("removing", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = Folder::open(dir.path()).unwrap();
        assert!(matches!(
            Folder::open(dir.path()),
            Err(OpenError::Locked(_))
        ));
        drop(first);
        Folder::open(dir.path()).unwrap();
    }

    #[test]
    fn a_folder_of_another_version_or_with_other_things_in_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join(FORMAT_FILE),
            "libappend server data, version 3\n",
        )
        .unwrap();
        match Folder::open(dir.path()) {
            Err(OpenError::Format { found, .. }) => assert!(found.ends_with("version 3")),
            other => panic!("{other:?}"),
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.doc"), "").unwrap();
        assert!(matches!(
            Folder::open(dir.path()),
            Err(OpenError::Foreign { .. })
        ));
    }

    #[test]
    fn a_raised_format_stays_and_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let said = || std::fs::read_to_string(dir.path().join(FORMAT_FILE)).unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        assert_eq!(said(), FORMAT);
        folder.raise_format().unwrap();
        folder.raise_format().unwrap();
        drop(folder);
        Folder::open(dir.path()).unwrap();
        assert_eq!(said(), FORMAT_FINALIZED);
    }

    #[test]
    fn a_crash_while_the_format_is_written_can_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("FORMAT.new"), "libapp").unwrap();
        Folder::open(dir.path()).unwrap();
    }
}
