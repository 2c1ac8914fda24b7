//! Room on the disk: commands are refused while there is still enough of it for what must go on, the rows' own upkeep above all.

use std::path::PathBuf;

/// The part of a disk, of what it holds in all, that the reserve takes at most.
const LARGEST_PART: u64 = 20;

/// The room on the disk of a folder.
#[derive(Debug)]
pub(crate) struct Space {
    dir: PathBuf,
    /// Bytes that stay free.
    reserve: u64,
    #[cfg(test)]
    pub(crate) pretend_full: std::sync::atomic::AtomicBool,
}

impl Space {
    /// Of the disk that holds `dir`, `reserve` bytes are not to be written, but never more than a twentieth of it.
    pub(crate) fn new(dir: PathBuf, reserve: u64) -> Space {
        Space {
            dir,
            reserve,
            #[cfg(test)]
            pretend_full: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Whether `bytes` more can be written. What cannot be asked is not in the way: the write itself will tell.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        #[cfg(test)]
        if self.pretend_full.load(std::sync::atomic::Ordering::Acquire) {
            return false;
        }
        match rustix::fs::statvfs(&self.dir) {
            Ok(disk) => {
                let unit = disk.f_frsize;
                let free = disk.f_bavail.saturating_mul(unit);
                let reserve = self
                    .reserve
                    .min(disk.f_blocks.saturating_mul(unit) / LARGEST_PART);
                free >= reserve.saturating_add(bytes)
            }
            Err(error) => {
                tracing::debug!(%error, dir = %self.dir.display(), "the room on the disk is not known");
                true
            }
        }
    }
}
