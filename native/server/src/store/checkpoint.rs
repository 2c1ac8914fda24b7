//! The checkpoint format: all rows of one position in one checksummed stream, in order, independent of the engine that holds them.
//!
//! ```text
//! header   magic "APNDCKPT" | version u32 | term u64 | index u64 | crc32c u32 of the bytes before
//! piece    keyspace u8 | rows u32 | length u32 | crc32c u32 of the 9 bytes before and the body | body
//! body     rows times: key length u32 | row length u32 | key | row
//! trailer  a piece of keyspace 255 whose body holds, for each keyspace in order, number u8 | rows u64, then the crc32c u32 over
//!          the checksums of all pieces before it
//! ```
//! Numbers are little endian. Keyspaces come in the order of their numbers, keys in the order of their bytes, each once.

use super::{Mark, View};
use append_namespace::rows::{Change, Keyspace, RowsError};
use bytes::{Buf, BufMut, Bytes};
use crc_fast::{CrcAlgorithm, Digest};
use std::io::{self, Read, Write};

/// The format that this server writes.
pub const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"APNDCKPT";
const HEADER: usize = 32;
const PIECE_HEADER: usize = 13;
const TRAILER: u8 = 255;
/// A piece ends behind the row that takes it here.
const PIECE_BYTES: usize = 1 << 20;
/// No row comes near this; a larger length is damage, not a reason to ask for memory.
const MAX_PIECE: usize = 256 << 20;
/// Rows asked of a view at a time.
const PAGE: usize = 1_024;

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The stream failed.
    #[error("the stream failed: {0}")]
    Io(#[from] io::Error),
    /// The rows cannot be read.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The stream does not read back.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(String),
    /// A newer version wrote it.
    #[error("the checkpoint has format {0}, this server reads {VERSION}")]
    Version(u32),
    /// Whoever takes the rows failed.
    #[error("the rows cannot be taken: {0}")]
    Sink(String),
}

/// What a checkpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The position of its rows.
    pub mark: Mark,
    /// Rows of all keyspaces.
    pub rows: u64,
    /// Bytes of the stream.
    pub bytes: u64,
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize()).unwrap_or_default()
}

fn too_long<T>(_: T) -> CheckpointError {
    CheckpointError::Io(io::Error::new(
        io::ErrorKind::InvalidInput,
        "a row or a piece is too long for the format",
    ))
}

struct Writer<W> {
    out: W,
    sums: Digest,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn piece(&mut self, keyspace: u8, rows: u32, body: &[u8]) -> Result<(), CheckpointError> {
        let mut header = Vec::with_capacity(PIECE_HEADER);
        header.put_u8(keyspace);
        header.put_u32_le(rows);
        header.put_u32_le(u32::try_from(body.len()).map_err(too_long)?);
        let sum = crc(&[&header, body]);
        header.put_u32_le(sum);
        self.sums.update(&sum.to_le_bytes());
        self.put(&header)?;
        Ok(self.put(body)?)
    }
}

/// Writes all rows of `view`, which stand at `mark`.
///
/// # Errors
/// [`CheckpointError`]; what was written is worthless then.
pub fn write(view: &View, mark: Mark, out: impl Write) -> Result<Summary, CheckpointError> {
    let mut writer = Writer {
        out,
        sums: Digest::new(CrcAlgorithm::Crc32Iscsi),
        bytes: 0,
    };
    let mut header = Vec::with_capacity(HEADER);
    header.put_slice(MAGIC);
    header.put_u32_le(VERSION);
    header.put_u64_le(mark.term);
    header.put_u64_le(mark.index);
    header.put_u32_le(crc(&[&header]));
    writer.put(&header)?;

    let mut counts = Vec::new();
    let mut total = 0;
    for keyspace in Keyspace::ALL {
        let rows = write_keyspace(view, keyspace, &mut writer)?;
        counts.put_u8(keyspace as u8);
        counts.put_u64_le(rows);
        total += rows;
    }
    let sums = u32::try_from(writer.sums.finalize()).unwrap_or_default();
    counts.put_u32_le(sums);
    writer.piece(TRAILER, 0, &counts)?;
    writer.out.flush()?;
    Ok(Summary {
        mark,
        rows: total,
        bytes: writer.bytes,
    })
}

fn write_keyspace(
    view: &View,
    keyspace: Keyspace,
    writer: &mut Writer<impl Write>,
) -> Result<u64, CheckpointError> {
    let (mut from, mut total) = (Vec::new(), 0);
    let (mut body, mut rows) = (Vec::new(), 0u32);
    loop {
        let page = view.range(keyspace, &from, None, PAGE)?;
        for (key, row) in &page {
            body.put_u32_le(u32::try_from(key.len()).map_err(too_long)?);
            body.put_u32_le(u32::try_from(row.len()).map_err(too_long)?);
            body.put_slice(key);
            body.put_slice(row);
            rows += 1;
            total += 1;
            if body.len() >= PIECE_BYTES {
                writer.piece(keyspace as u8, rows, &body)?;
                body.clear();
                rows = 0;
            }
        }
        match page.last() {
            Some((key, _)) if page.len() == PAGE => {
                from.clear();
                from.extend_from_slice(key);
                from.push(0);
            }
            _ => break,
        }
    }
    if rows > 0 {
        writer.piece(keyspace as u8, rows, &body)?;
    }
    Ok(total)
}

/// Where the checkpoint stands that `input` begins with.
///
/// # Errors
/// [`CheckpointError`].
pub fn mark(input: impl Read) -> Result<Mark, CheckpointError> {
    Reader {
        input,
        bytes: 0,
        sums: Digest::new(CrcAlgorithm::Crc32Iscsi),
    }
    .header()
}

/// Reads a whole checkpoint and gives its rows to `sink`, a piece at a time. Only when it returns well was everything there.
///
/// # Errors
/// [`CheckpointError`]; what `sink` got is worthless then.
pub fn read(
    input: impl Read,
    mut sink: impl FnMut(Vec<Change>) -> Result<(), String>,
) -> Result<Summary, CheckpointError> {
    let mut reader = Reader {
        input,
        bytes: 0,
        sums: Digest::new(CrcAlgorithm::Crc32Iscsi),
    };
    let mark = reader.header()?;
    let mut order = Order::default();
    loop {
        let sums = u32::try_from(reader.sums.clone().finalize()).unwrap_or_default();
        let (number, rows, body) = reader.piece()?;
        if number == TRAILER {
            let total = order.check_trailer(body, sums)?;
            reader.end()?;
            return Ok(Summary {
                mark,
                rows: total,
                bytes: reader.bytes,
            });
        }
        sink(order.rows(number, rows, body)?).map_err(CheckpointError::Sink)?;
    }
}

fn damaged<T>(detail: impl Into<String>) -> Result<T, CheckpointError> {
    Err(CheckpointError::Damaged(detail.into()))
}

struct Reader<R> {
    input: R,
    bytes: u64,
    sums: Digest,
}

impl<R: Read> Reader<R> {
    fn take(&mut self, length: usize) -> Result<Bytes, CheckpointError> {
        let mut bytes = vec![0; length];
        match self.input.read_exact(&mut bytes) {
            Ok(()) => {
                self.bytes += length as u64;
                Ok(Bytes::from(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                damaged("it ends too early")
            }
            Err(error) => Err(error.into()),
        }
    }

    fn header(&mut self) -> Result<Mark, CheckpointError> {
        let mut header = self.take(HEADER)?;
        let sum = crc(&[&header[..HEADER - 4]]);
        if &header[..8] != MAGIC {
            return damaged("this is no checkpoint");
        }
        header.advance(8);
        let (version, term, index) = (
            header.get_u32_le(),
            header.get_u64_le(),
            header.get_u64_le(),
        );
        if header.get_u32_le() != sum {
            return damaged("the header's checksum does not fit");
        }
        if version != VERSION {
            return Err(CheckpointError::Version(version));
        }
        Ok(Mark { term, index })
    }

    fn piece(&mut self) -> Result<(u8, u32, Bytes), CheckpointError> {
        let header = self.take(PIECE_HEADER)?;
        let mut fields = header.clone();
        let (number, rows, length) = (fields.get_u8(), fields.get_u32_le(), fields.get_u32_le());
        let expected = fields.get_u32_le();
        let length = match usize::try_from(length) {
            Ok(length) if length <= MAX_PIECE => length,
            _ => return damaged(format!("a piece of {length} bytes")),
        };
        let body = self.take(length)?;
        if crc(&[&header[..PIECE_HEADER - 4], &body]) != expected {
            return damaged(format!(
                "the checksum of a piece before byte {} does not fit",
                self.bytes
            ));
        }
        self.sums.update(&expected.to_le_bytes());
        Ok((number, rows, body))
    }

    fn end(&mut self) -> Result<(), CheckpointError> {
        match self.input.read(&mut [0])? {
            0 => Ok(()),
            _ => damaged("something follows its end"),
        }
    }
}

/// Checks that pieces come in order, and counts.
#[derive(Default)]
struct Order {
    last: Option<(Keyspace, Bytes)>,
    counts: [u64; Keyspace::ALL.len()],
}

impl Order {
    fn rows(
        &mut self,
        number: u8,
        rows: u32,
        mut body: Bytes,
    ) -> Result<Vec<Change>, CheckpointError> {
        let Some(keyspace) = Keyspace::ALL.get(usize::from(number)).copied() else {
            return damaged(format!("this version knows no keyspace {number}"));
        };
        let mut changes = Vec::new();
        while body.has_remaining() {
            let (Ok(key_length), Ok(row_length)) = (body.try_get_u32_le(), body.try_get_u32_le())
            else {
                return damaged("a row is cut off");
            };
            let (Ok(key_length), Ok(row_length)) =
                (usize::try_from(key_length), usize::try_from(row_length))
            else {
                return damaged("a row is too long");
            };
            if key_length
                .checked_add(row_length)
                .is_none_or(|length| length > body.len())
            {
                return damaged("a row is cut off");
            }
            let key = body.split_to(key_length);
            let value = Some(body.split_to(row_length));
            let here = (keyspace, key.clone());
            if self.last.as_ref().is_some_and(|last| *last >= here) {
                return damaged("rows are not in order");
            }
            self.last = Some(here);
            changes.push(Change {
                keyspace,
                key,
                value,
            });
        }
        if u32::try_from(changes.len()) != Ok(rows) {
            return damaged("a piece has another number of rows than it says");
        }
        self.counts[keyspace as usize] += u64::from(rows);
        Ok(changes)
    }

    fn check_trailer(&self, mut body: Bytes, sums: u32) -> Result<u64, CheckpointError> {
        let mut seen = [0; Keyspace::ALL.len()];
        while body.len() > 4 {
            let (Ok(number), Ok(rows)) = (body.try_get_u8(), body.try_get_u64_le()) else {
                return damaged("the trailer does not decode");
            };
            match seen.get_mut(usize::from(number)) {
                Some(count) => *count = rows,
                None => return damaged(format!("this version knows no keyspace {number}")),
            }
        }
        if seen != self.counts || body.try_get_u32_le() != Ok(sums) {
            return damaged("the trailer tells of other pieces");
        }
        Ok(seen.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::store::memory::MemoryStore;

    fn sample(rows: u32) -> MemoryStore {
        let store = MemoryStore::default();
        let row = |keyspace, at: u32| Change {
            keyspace,
            key: Bytes::copy_from_slice(&at.to_be_bytes()),
            value: Some(Bytes::from(vec![b'x'; (at % 700) as usize])),
        };
        let mut changes: Vec<_> = (0..rows).map(|at| row(Keyspace::Files, at)).collect();
        changes.push(Change {
            keyspace: Keyspace::Meta,
            key: Bytes::new(),
            value: Some(Bytes::from_static(b"empty key")),
        });
        changes.push(row(Keyspace::Holders, 1));
        store.apply(Mark { term: 2, index: 9 }, &changes).unwrap();
        store
    }

    fn encoded(store: &MemoryStore) -> (Vec<u8>, Summary) {
        let applied = store.applied();
        let mut out = Vec::new();
        let summary = write(&applied.rows, applied.mark, &mut out).unwrap();
        (out, summary)
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let store = sample(5_000);
        let (bytes, summary) = encoded(&store);
        assert_eq!(
            summary,
            Summary {
                mark: Mark { term: 2, index: 9 },
                rows: 5_002,
                bytes: bytes.len() as u64
            }
        );
        let copy = MemoryStore::default();
        let mut pieces = 0;
        let read = read(bytes.as_slice(), |changes| {
            pieces += 1;
            copy.apply(Mark::default(), &changes)
                .map_err(|error| error.to_string())
        });
        assert_eq!(read.unwrap(), summary);
        assert!(pieces > 3);
        copy.apply(summary.mark, &[]).unwrap();
        assert_eq!(encoded(&copy).0, bytes);
    }

    #[test]
    fn every_flipped_byte_and_every_truncation_is_noticed() {
        let (bytes, _) = encoded(&sample(20));
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            assert!(read(broken.as_slice(), |_| Ok(())).is_err(), "byte {at}");
            assert!(read(&bytes[..at], |_| Ok(())).is_err(), "cut to {at}");
        }
        let longer = [bytes.as_slice(), b"x"].concat();
        assert!(matches!(
            read(longer.as_slice(), |_| Ok(())),
            Err(CheckpointError::Damaged(_))
        ));
    }

    #[test]
    fn a_lost_piece_is_noticed() {
        let (bytes, _) = encoded(&sample(20));
        // Meta's piece is the first: header 13, one row of 8 bytes of lengths and "empty key".
        let length = PIECE_HEADER + 8 + 9;
        let without = [&bytes[..HEADER], &bytes[HEADER + length..]].concat();
        assert!(matches!(
            read(without.as_slice(), |_| Ok(())),
            Err(CheckpointError::Damaged(_))
        ));
    }

    #[test]
    fn a_sink_that_fails_ends_the_read() {
        let (bytes, _) = encoded(&sample(20));
        assert!(matches!(
            read(bytes.as_slice(), |_| Err("full".to_owned())),
            Err(CheckpointError::Sink(_))
        ));
    }
}
