//! Streams that read.

use bytes::Bytes;

use crate::Result;
use crate::error::Error;
use crate::path::FsPath;

/// A file that is being read, at the length that it had when it was opened. Thread-safe: positioned reads run side by side.
#[derive(Debug)]
pub struct Reader {
    path: FsPath,
}

impl Reader {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &FsPath {
        &self.path
    }

    /// Visible length in bytes, fixed at open: what is published, and for a file that is being written what its writer has
    /// synced since.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length in bytes, not of a collection"
    )]
    pub fn len(&self) -> u64 {
        0
    }

    /// Reads at a position into `target`: as many bytes as fit and are there; 0 at or after the end. Fewer than fit only at the
    /// end of the file.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Checksum`] and never wrong bytes; [`crate::ErrorKind::NotFound`] when the file is gone and its
    /// blocks with it.
    pub async fn read_at(&self, position: u64, target: &mut [u8]) -> Result<usize> {
        Err(Error::unsupported(format!(
            "reading {} bytes at {position}",
            target.len()
        )))
    }

    /// As [`Reader::read_at`] into new memory, without a copy where the bytes of one answer suffice.
    ///
    /// # Errors
    /// As [`Reader::read_at`].
    pub async fn bytes_at(&self, position: u64, length: usize) -> Result<Bytes> {
        Err(Error::unsupported(format!(
            "reading {length} bytes at {position}"
        )))
    }

    /// Drops what was read ahead; the next read gets it back.
    pub fn unbuffer(&self) {}
}
