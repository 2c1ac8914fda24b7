//! One segment: a file with a header and the records behind it, named after its first index.
//!
//! ```text
//! 0   magic        8 bytes, "APNDLOG" and a zero
//! 8   version      u32
//! 12  first index  u64
//! 20  nonce        u64, random
//! 28  crc32c       u32, of the bytes before it
//! 32  records
//! ```

use super::LogError;
use crate::files::{self, DurableFile};
use bytes::{Buf, BufMut};
use crc_fast::CrcAlgorithm;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes before the first record.
pub(crate) const HEADER: usize = 32;
/// The format that this server writes.
pub(crate) const VERSION: u32 = 2;
const MAGIC: &[u8; 8] = b"APNDLOG\0";

/// A segment in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Index of its first record.
    pub(crate) first: u64,
    /// What its records are made with.
    pub(crate) nonce: u64,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// The file.
    pub(crate) path: PathBuf,
}

/// Bytes of zeros that are written behind the last record at once. A file that does not grow is synced with one write less than one that
/// does, and without a change of the file system's own.
const ROOM: usize = if cfg!(test) { 512 } else { 256 << 10 };

static ZEROS: [u8; ROOM] = [0; ROOM];

impl Segment {
    /// Makes room behind the last record of `file`, which ends there, and gives the file's length. Without room on the disk there is none, and
    /// records go on as long as they find some.
    ///
    /// # Errors
    /// [`LogError`], but for a full disk.
    pub(crate) fn make_room(&self, file: &mut DurableFile) -> Result<u64, LogError> {
        let end = self.bytes.next_multiple_of(ROOM as u64);
        let zeros = usize::try_from(end - self.bytes).unwrap_or(ROOM).min(ROOM);
        match file.write_all_at(self.bytes, &ZEROS[..zeros]) {
            Ok(()) => Ok(end),
            Err(source) => match failed("making room in", &self.path, source) {
                LogError::Full { .. } => {
                    file.cut(self.bytes)
                        .map_err(LogError::io("cutting", &self.path))?;
                    Ok(self.bytes)
                }
                failed => Err(failed),
            },
        }
    }
}

/// What a segment's first bytes are.
pub(crate) enum Head {
    /// A header.
    Good {
        /// Index of the first record.
        first: u64,
        /// What the records are made with.
        nonce: u64,
    },
    /// Of another version.
    Version(u32),
    /// No header.
    Bad,
}

pub(crate) fn path_of(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.log"))
}

fn crc(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or_default()
}

fn header(first: u64, nonce: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER);
    out.put_slice(MAGIC);
    out.put_u32_le(VERSION);
    out.put_u64_le(first);
    out.put_u64_le(nonce);
    let sum = crc(&out);
    out.put_u32_le(sum);
    out
}

/// The first version's header was shorter by the nonce.
fn is_first_version(bytes: &[u8]) -> bool {
    let (head, sum) = bytes.split_at(20);
    sum.starts_with(&crc(head).to_le_bytes())
}

pub(crate) fn read_header(bytes: &[u8]) -> Head {
    let Some(mut head) = bytes.get(..HEADER) else {
        return Head::Bad;
    };
    let sum = crc(&head[..HEADER - 4]);
    if &head[..8] != MAGIC {
        return Head::Bad;
    }
    head.advance(8);
    let version = head.get_u32_le();
    let (first, nonce) = (head.get_u64_le(), head.get_u64_le());
    if version == 1 && is_first_version(bytes) {
        return Head::Version(1);
    }
    if sum != head.get_u32_le() {
        return Head::Bad;
    }
    if version == VERSION {
        Head::Good { first, nonce }
    } else {
        Head::Version(version)
    }
}

/// Sorts a failed write into "full" and everything else.
pub(crate) fn failed(action: &'static str, path: &Path, source: io::Error) -> LogError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LogError::Full {
            path: path.to_owned(),
            source,
        },
        _ => LogError::io(action, path)(source),
    }
}

/// Makes an empty segment. File and folder are synced before it returns. After [`LogError::Full`] there is none.
pub(crate) fn create(dir: &Path, first: u64) -> Result<(Segment, DurableFile), LogError> {
    let path = path_of(dir, first);
    let mut file =
        DurableFile::create_new(&path).map_err(|source| failed("creating", &path, source))?;
    let nonce = rand::random();
    if let Err(source) = file.write_all(&header(first, nonce)) {
        let failed = failed("writing", &path, source);
        files::remove(&path).map_err(LogError::io("removing", &path))?;
        return Err(failed);
    }
    file.sync().map_err(LogError::io("syncing", &path))?;
    sync_dir(dir)?;
    Ok((
        Segment {
            first,
            nonce,
            bytes: HEADER as u64,
            path,
        },
        file,
    ))
}

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), LogError> {
    files::sync_dir(dir).map_err(LogError::io("syncing", dir))
}

/// The segments in `dir` by their names, lowest first index first. Their nonces are not read.
pub(crate) fn list(dir: &Path) -> Result<Vec<Segment>, LogError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(LogError::io("listing", dir))? {
        let entry = entry.map_err(LogError::io("listing", dir))?;
        let name = entry.file_name();
        let first = name
            .to_str()
            .and_then(|name| name.strip_suffix(".log"))
            .filter(|digits| digits.len() == 20)
            .and_then(|digits| digits.parse::<u64>().ok());
        let path = entry.path();
        match first {
            Some(first) => {
                let bytes = entry
                    .metadata()
                    .map_err(LogError::io("reading the size of", &path))?
                    .len();
                found.push(Segment {
                    first,
                    nonce: 0,
                    bytes,
                    path,
                });
            }
            None => {
                return Err(LogError::Gap {
                    path,
                    detail: "this is no segment, and nothing else belongs here".to_owned(),
                });
            }
        }
    }
    found.sort_by_key(|segment| segment.first);
    Ok(found)
}
