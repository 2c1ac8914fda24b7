//! The container files of a store: their names, their headers, and reading records from them. Opens
//! files on demand and keeps a bounded number open. Never writes behind the header of a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::checksum::record_crc;
use super::lock;
use super::media::Media;
use super::num::{to_u64, to_usize};
use super::record::{FILE_HEADER_LEN, FORMAT, FileHeader, Header, RECORD_HEADER_LEN};
use super::spans::Spans;

/// Container files kept open at once; well below the usual limit of 1,024 descriptors.
const MAX_OPEN: usize = 256;

/// An open container file.
#[derive(Debug)]
pub(crate) struct ContainerFile {
    pub(crate) number: u32,
    pub(crate) nonce: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: File,
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordRef {
    pub(crate) file: u32,
    pub(crate) at: u64,
    pub(crate) payload_len: u32,
}

/// Name of container file `number` in `dir`.
pub(crate) fn path_of(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:010}.data"))
}

/// Number of the container file called `name`, `None` for anything else.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".data")?;
    (digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

/// Creates container file `number`: its header and its name are durable when this returns.
pub(crate) fn create(
    media: &Media,
    dir: &Path,
    number: u32,
    previous_len: u64,
) -> Result<ContainerFile, CreateError> {
    let path = path_of(dir, number);
    // A creation that failed half-way leaves at most a header; such a file holds nothing.
    if std::fs::metadata(&path).is_ok_and(|m| m.len() <= FILE_HEADER_LEN) {
        std::fs::remove_file(&path).map_err(CreateError::Write)?;
    }
    let file = media.create(&path).map_err(CreateError::Write)?;
    let nonce = uuid::Uuid::new_v4().as_u64_pair().1;
    let header = FileHeader {
        format: FORMAT,
        number,
        nonce,
        previous_len,
    };
    if let Err(error) = media.write_at(&path, &file, 0, &header.encode()) {
        // A header that is there would say that the file before has ended. If this fails too, the next try removes it.
        let _ = std::fs::remove_file(&path);
        return Err(CreateError::Write(error));
    }
    media.sync_data(&path, &file).map_err(CreateError::Sync)?;
    media.sync_dir(dir).map_err(CreateError::Sync)?;
    Ok(ContainerFile {
        number,
        nonce,
        path,
        file,
    })
}

/// Why a container file could not be created.
#[derive(Debug)]
pub(crate) enum CreateError {
    /// Nothing is lost; it may be tried again.
    Write(io::Error),
    /// An fsync failed: the store must stop.
    Sync(io::Error),
}

impl CreateError {
    pub(crate) fn into_io(self) -> io::Error {
        match self {
            Self::Write(e) | Self::Sync(e) => e,
        }
    }
}

/// The files of one store.
pub(crate) struct Files {
    dir: PathBuf,
    media: Media,
    open: Mutex<BTreeMap<u32, Arc<ContainerFile>>>,
}

impl Files {
    pub(crate) fn new(dir: PathBuf, media: Media) -> Self {
        Self {
            dir,
            media,
            open: Mutex::new(BTreeMap::new()),
        }
    }

    /// Adds an open file.
    pub(crate) fn insert(&self, file: Arc<ContainerFile>) {
        let mut open = lock(&self.open);
        while open.len() >= MAX_OPEN {
            open.pop_first();
        }
        open.insert(file.number, file);
    }

    /// File `number`, opened when it is not.
    pub(crate) fn get(&self, number: u32) -> io::Result<Arc<ContainerFile>> {
        if let Some(file) = lock(&self.open).get(&number) {
            return Ok(Arc::clone(file));
        }
        let path = path_of(&self.dir, number);
        let file = self.media.open(&path)?;
        let mut bytes = vec![0; to_usize(FILE_HEADER_LEN)];
        file.read_exact_at(&mut bytes, 0)?;
        let header = FileHeader::decode(&bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "damaged file header"))?;
        let opened = Arc::new(ContainerFile {
            number,
            nonce: header.nonce,
            path,
            file,
        });
        self.insert(Arc::clone(&opened));
        Ok(opened)
    }

    /// The verified payload of a record; `None` when it is damaged. Its bytes are taken from `spans` if they are there.
    pub(crate) fn payload(&self, record: RecordRef, spans: &Spans) -> io::Result<Option<Bytes>> {
        let len = RECORD_HEADER_LEN + to_usize(u64::from(record.payload_len));
        if let Some((file, bytes)) = spans.get(record.file, record.at, len) {
            return Ok(verified(bytes, file.nonce, record));
        }
        let file = self.get(record.file)?;
        read_payload(&file.file, file.nonce, record)
    }

    /// The header of the record at `at` of file `number`; `None` when it is damaged.
    pub(crate) fn header(&self, number: u32, at: u64) -> io::Result<Option<Header>> {
        let file = self.get(number)?;
        let mut bytes = [0; RECORD_HEADER_LEN];
        file.file.read_exact_at(&mut bytes, at)?;
        Ok(Header::decode(&bytes, file.nonce, at))
    }

    /// Fills `out` with the bytes at `at` of file `number`, without any verification.
    pub(crate) fn read(&self, number: u32, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.get(number)?.file.read_exact_at(out, at)
    }
}

/// The verified payload of a record of `file`; `None` when it is damaged.
pub(crate) fn read_payload(
    file: &File,
    nonce: u64,
    record: RecordRef,
) -> io::Result<Option<Bytes>> {
    let mut bytes = vec![0; RECORD_HEADER_LEN + to_usize(u64::from(record.payload_len))];
    match file.read_exact_at(&mut bytes, record.at) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    Ok(verified(Bytes::from(bytes), nonce, record))
}

/// The payload out of a whole record's bytes; `None` when they are damaged.
fn verified(bytes: Bytes, nonce: u64, record: RecordRef) -> Option<Bytes> {
    let intact = Header::decode(&bytes, nonce, record.at).is_some_and(|h| {
        h.payload_len == record.payload_len
            && h.payload_crc == record_crc(&[&bytes[RECORD_HEADER_LEN..]])
    });
    intact.then(|| bytes.slice(RECORD_HEADER_LEN..))
}

/// Where the payload of the record at `at` begins.
pub(crate) fn payload_at(at: u64) -> u64 {
    at + to_u64(RECORD_HEADER_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_and_strangers_are_left_alone() {
        let path = path_of(Path::new("/x"), 42);
        let name = path.file_name().and_then(|n| n.to_str()).unwrap();
        assert_eq!(number_of(name), Some(42));
        for stranger in ["42.data", "0000000042.tmp", "00000000x2.data", "lost+found"] {
            assert_eq!(number_of(stranger), None, "{stranger}");
        }
    }
}
