//! Every touch of the disk that changes it goes through here, so that tests can make it fail and can
//! see what an fsync really covered. Reads go to the files directly. Knows nothing of records.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(test)]
use std::sync::Arc;

/// The part of the disk, of what it holds in all, that the reserve takes at most.
const LARGEST_PART: u64 = 10;

/// Bytes of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

/// What a test may do to the disk.
#[cfg(test)]
pub(crate) trait Faults: Send + Sync {
    /// Called before `len` bytes are written to `path`; `Some((n, e))` writes `n` of them and fails.
    fn write(&self, path: &Path, len: usize) -> Option<(usize, io::Error)>;
    /// Called when the bytes of `path` are about to be made durable.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Called when the names in `dir` are about to be made durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// What the disk says of its room, instead of the real one.
    fn room(&self) -> Option<Room> {
        None
    }
    /// Called when `path` is cut to `len`.
    fn cut(&self, path: &Path, len: u64) -> io::Result<()>;
}

/// Access to the disk.
#[derive(Clone, Default)]
pub(crate) struct Media {
    #[cfg(test)]
    pub(crate) faults: Option<Arc<dyn Faults>>,
}

impl Media {
    /// Creates `path`, which must not exist, for reading and writing.
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
    }

    /// Opens `path` for reading and writing.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(path)
    }

    /// Writes all of `bytes` at `offset`. On an error some of them may be there.
    #[cfg_attr(not(test), allow(unused_variables))]
    pub(crate) fn write_at(
        &self,
        path: &Path,
        file: &File,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        #[cfg(test)]
        if let Some((part, error)) = self
            .faults
            .as_ref()
            .and_then(|f| f.write(path, bytes.len()))
        {
            file.write_all_at(&bytes[..part], offset)?;
            return Err(error);
        }
        file.write_all_at(bytes, offset)
    }

    /// Makes the bytes of `file` durable, its length included.
    #[cfg_attr(not(test), allow(unused_variables))]
    pub(crate) fn sync_data(&self, path: &Path, file: &File) -> io::Result<()> {
        #[cfg(test)]
        if let Some(faults) = &self.faults {
            faults.sync(path)?;
        }
        file.sync_data()
    }

    /// Makes the names in `dir` durable.
    pub(crate) fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        #[cfg(test)]
        if let Some(faults) = &self.faults {
            faults.sync_dir(dir)?;
        }
        File::open(dir)?.sync_all()
    }

    /// Makes the folder `dir` and what is missing above it, their names durable. The name of what is there
    /// is made durable too: a process that was killed may have made it last.
    pub(crate) fn create_dirs(&self, dir: &Path) -> io::Result<()> {
        let above = |path: &Path| match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".").to_owned()),
            parent => parent.map(Path::to_owned),
        };
        let mut missing = Vec::new();
        let mut at = dir.to_owned();
        while !at.try_exists()? {
            let Some(parent) = above(&at) else { break };
            missing.push(std::mem::replace(&mut at, parent));
        }
        if let Some(parent) = above(&at) {
            match self.sync_dir(&parent) {
                // Whoever may not read it has not made a name in it.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        for made in missing.iter().rev() {
            match std::fs::create_dir(made) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                created => created?,
            }
            if let Some(parent) = above(made) {
                self.sync_dir(&parent)?;
            }
        }
        Ok(())
    }

    /// Fails when `len` more bytes on the disk of `dir` would leave less than `reserve` free, or than
    /// a tenth of the disk when that is less. What cannot be asked is not in the way.
    pub(crate) fn check_room(&self, dir: &Path, reserve: u64, len: u64) -> io::Result<()> {
        let Some(disk) = self.room(dir) else {
            return Ok(());
        };
        let reserve = reserve.min(disk.total / LARGEST_PART);
        if disk.free < reserve.saturating_add(len) {
            metrics::counter!("datanode_writes_refused_full_total").increment(1);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn room(&self, dir: &Path) -> Option<Room> {
        #[cfg(test)]
        if let Some(room) = self.faults.as_ref().and_then(|f| f.room()) {
            return Some(room);
        }
        let disk = rustix::fs::statvfs(dir).ok()?;
        Some(Room {
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            total: disk.f_blocks.saturating_mul(disk.f_frsize),
        })
    }

    /// Cuts `file` to `len` bytes.
    #[cfg_attr(not(test), allow(unused_variables))]
    pub(crate) fn cut(&self, path: &Path, file: &File, len: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Some(faults) = &self.faults {
            faults.cut(path, len)?;
        }
        file.set_len(len)
    }
}
