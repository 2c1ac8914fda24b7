//! Walks the records of one container file from front to back. A place that holds no intact record is
//! noted as damage and the walk goes on at the next intact one; what the damage means (torn tail or
//! rot) is decided by [`mod@super::recover`]. Changes nothing.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::num::{to_u64, to_usize};
use super::record::{ALIGN, FILE_HEADER_LEN, Header, RECORD_HEADER_LEN, RECORD_MAGIC};

/// Read ahead while records are small.
const WINDOW: u64 = 256 << 10;
/// Records longer than this are skipped, not read.
const SKIP: u64 = 64 << 10;
/// Read behind a record that was skipped.
const SMALL_WINDOW: u64 = 4 << 10;
/// Unit in which an unreadable place is given up.
const SECTOR: u64 = 4 << 10;

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Position and header of each intact record, in order. Payloads are not verified.
    pub(crate) records: Vec<(u64, Header)>,
    /// Places without an intact record header.
    pub(crate) damaged: Vec<Range<u64>>,
    /// Highest durable mark of any record.
    pub(crate) durable: u64,
    /// The first place that the disk could not read.
    pub(crate) unreadable: Option<u64>,
}

struct Reader<'a> {
    file: &'a File,
    len: u64,
    start: u64,
    buffer: Vec<u8>,
    unreadable: Option<u64>,
}

impl Reader<'_> {
    /// Bytes at `at`, at least `want` of them unless the file ends; `window` is how many to read when
    /// they are not in memory.
    fn at(&mut self, at: u64, want: u64, window: u64) -> &[u8] {
        let end = (at + want).min(self.len);
        if at < self.start || end > self.start + to_u64(self.buffer.len()) {
            let len = window.max(want).min(self.len.saturating_sub(at));
            self.start = at;
            self.buffer.clear();
            self.buffer.resize(to_usize(len), 0);
            if self.file.read_exact_at(&mut self.buffer, at).is_err() {
                self.by_sectors();
            }
        }
        &self.buffer[to_usize(at - self.start)..]
    }

    /// Reads the buffer again in small pieces; those that cannot be read stay zero.
    fn by_sectors(&mut self) {
        self.buffer.fill(0);
        let mut at = self.start;
        for piece in self.buffer.chunks_mut(to_usize(SECTOR)) {
            if self.file.read_exact_at(piece, at).is_err() {
                piece.fill(0);
                self.unreadable.get_or_insert(at);
            }
            at += to_u64(piece.len());
        }
    }
}

/// Walks the records of `file`, whose header has `nonce` and which is `len` bytes long.
pub(crate) fn scan(file: &File, nonce: u64, len: u64) -> Scan {
    let mut found = Scan::default();
    let mut reader = Reader {
        file,
        len,
        start: 0,
        buffer: Vec::new(),
        unreadable: None,
    };
    let header_len = to_u64(RECORD_HEADER_LEN);
    let mut pos = FILE_HEADER_LEN;
    let mut window = WINDOW;
    while pos < len {
        let header = Header::decode(reader.at(pos, header_len, window), nonce, pos)
            .filter(|h| pos + h.record_len() <= len);
        if let Some(header) = header {
            found.durable = found.durable.max(header.durable);
            found.records.push((pos, header));
            window = if header.record_len() > SKIP {
                SMALL_WINDOW
            } else {
                WINDOW
            };
            pos += header.record_len();
        } else {
            let next = resync(&mut reader, nonce, pos + ALIGN).unwrap_or(len);
            found.damaged.push(pos..next);
            pos = next;
        }
    }
    found.unreadable = reader.unreadable;
    found
}

/// The first intact record at or behind `from`.
fn resync(reader: &mut Reader<'_>, nonce: u64, from: u64) -> Option<u64> {
    let header_len = to_u64(RECORD_HEADER_LEN);
    let mut pos = from;
    while pos + header_len <= reader.len {
        let len = reader.len;
        let bytes = reader.at(pos, header_len, WINDOW);
        if bytes.starts_with(RECORD_MAGIC)
            && Header::decode(bytes, nonce, pos).is_some_and(|h| pos + h.record_len() <= len)
        {
            return Some(pos);
        }
        pos += ALIGN;
    }
    None
}
