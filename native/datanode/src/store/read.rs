//! Reading committed bytes and chunk lists back, verified. Every byte that leaves here matched the
//! checksum that was committed with it; what does not match is an error that names block and offset.

use bytes::{Bytes, BytesMut};
use prost::Message;

use super::block::Reader;
use super::checksum;
use super::error::StoreError;
use super::extents::{Extent, Extents, first_gap};
use super::files::{Files, RecordRef, payload_at};
use super::num::{to_u64, to_usize};
use super::record::{CommitPayload, RECORD_HEADER_LEN, load_pairs};
use super::spans::{Spans, Wanted, wanted};
use super::types::{BlockId, BlockView, ChecksumKind, Chunk, Piece};

fn damaged(block: BlockId, offset: u64, detail: &str) -> StoreError {
    metrics::counter!("datanode_checksum_errors_total").increment(1);
    tracing::error!(%block, offset, detail, "stored data is damaged");
    StoreError::Checksum {
        block,
        offset,
        detail: detail.to_owned(),
    }
}

/// Where bytes come from: container files, and what was read of them already.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) files: &'a Files,
    pub(crate) spans: &'a Spans,
}

fn commit(
    source: Source<'_>,
    id: BlockId,
    at: u64,
    record: RecordRef,
) -> Result<CommitPayload, StoreError> {
    source
        .files
        .payload(record, source.spans)
        .map_err(|e| StoreError::io("read of a commit record", e))?
        .and_then(|bytes| CommitPayload::decode(bytes).ok())
        .ok_or_else(|| damaged(id, at, "a commit record is damaged"))
}

/// The committed chunks, as far as their segments begin before `to`.
fn chunks(
    source: Source<'_>,
    id: BlockId,
    reader: &Reader,
    to: u64,
) -> Result<Vec<Chunk>, StoreError> {
    let segments = &reader.segments;
    let mut found = Vec::new();
    for (i, segment) in segments.iter().enumerate() {
        if segment.start >= to {
            break;
        }
        let next = segments.get(i + 1).map_or(reader.chunks, |s| s.first);
        let count = to_usize(u64::from(next.saturating_sub(segment.first)));
        let listed = commit(source, id, segment.start, segment.record)?.chunks;
        let before = found.len();
        found.extend(listed.into_iter().take(count).map_while(|c| c.load()));
        if found.len() - before != count {
            return Err(damaged(
                id,
                segment.start,
                "a commit record lists too few chunks",
            ));
        }
    }
    Ok(found)
}

/// The whole committed state of a block.
pub(crate) fn view(files: &Files, id: BlockId, reader: &Reader) -> Result<BlockView, StoreError> {
    let head = reader.head.ok_or(StoreError::NoSuchBlock(id))?;
    let source = Source {
        files,
        spans: &Spans::default(),
    };
    let head = commit(source, id, reader.length, head)?;
    Ok(BlockView {
        id,
        chunks: chunks(source, id, reader, u64::MAX)?,
        metadata: load_pairs(head.metadata),
        length: reader.length,
        eof: head.eof,
        finalized: reader.finalized,
    })
}

/// Extents up to this length are worth reading together with their neighbours.
const SMALL: u32 = 256 << 10;

/// What a read needs to know, taken while the block was locked.
pub(crate) struct ReadPlan {
    id: BlockId,
    from: u64,
    to: u64,
    /// The segments that hold the range.
    reader: Reader,
    /// All extents of those segments.
    extents: Vec<Extent>,
}

impl ReadPlan {
    /// What reading `from..to` of a block needs; the range lies inside the committed length.
    pub(crate) fn new(id: BlockId, reader: &Reader, extents: &Extents, from: u64, to: u64) -> Self {
        let segments = &reader.segments;
        let first = segments
            .partition_point(|s| s.start <= from)
            .saturating_sub(1);
        let behind = segments.partition_point(|s| s.start < to).max(first);
        let next = segments.get(behind);
        let start = segments.get(first).map_or(0, |s| s.start);
        let end = next.map_or(reader.length, |s| s.start);
        Self {
            id,
            from,
            to,
            extents: extents.range(start, end),
            reader: Reader {
                segments: segments[first..behind].to_vec(),
                chunks: next.map_or(reader.chunks, |s| s.first),
                ..*reader
            },
        }
    }

    /// Bytes that are asked for.
    pub(crate) fn len(&self) -> u64 {
        self.to - self.from
    }

    /// What of the container files will be read: the commits, and the extents if they are small.
    pub(crate) fn wanted(&self, into: &mut Vec<Wanted>) {
        let commits = self.reader.segments.iter().map(|segment| {
            let record = segment.record;
            let len = RECORD_HEADER_LEN + to_usize(u64::from(record.payload_len));
            wanted(record.file, record.at, len)
        });
        into.extend(commits);
        let small = self
            .extents
            .iter()
            .filter(|e| e.len <= SMALL && e.end() > self.from && e.start < self.to);
        into.extend(small.map(|e| wanted(e.file, place(e), to_usize(u64::from(e.len)))));
    }
}

/// The verified bytes of a plan's range, chunk by chunk and widened to the borders of checksum windows.
pub(crate) fn pieces(source: Source<'_>, plan: &ReadPlan) -> Result<Vec<Piece>, StoreError> {
    let (from, to) = (plan.from, plan.to);
    let mut found = Vec::new();
    for chunk in chunks(source, plan.id, &plan.reader, to)? {
        if chunk.end() > from && chunk.offset < to {
            let piece = piece(
                source,
                plan,
                &chunk,
                from.max(chunk.offset),
                to.min(chunk.end()),
            )?;
            found.push(piece);
        }
    }
    let read: usize = found.iter().map(|p| p.data.len()).sum();
    metrics::counter!("datanode_block_bytes_read_total").increment(to_u64(read));
    Ok(found)
}

/// The part of `chunk` from `from` to `to`, widened to whole windows and verified.
fn piece(
    source: Source<'_>,
    plan: &ReadPlan,
    chunk: &Chunk,
    from: u64,
    to: u64,
) -> Result<Piece, StoreError> {
    let (mut low, mut high) = (from - chunk.offset, to - chunk.offset);
    let window = u64::from(chunk.checksums.bytes_per_checksum);
    let summed = chunk.checksums.kind != ChecksumKind::None && window > 0;
    if summed {
        low -= low % window;
        high = high.next_multiple_of(window).min(chunk.len);
    }
    let (low_at, high_at) = (chunk.offset + low, chunk.offset + high);
    let extents: Vec<Extent> = plan
        .extents
        .iter()
        .filter_map(|e| e.cut(low_at, high_at))
        .collect();
    if let Some(gap) = first_gap(&extents, low_at, high_at) {
        return Err(damaged(
            plan.id,
            gap,
            "the record of these bytes is damaged",
        ));
    }
    let data = if summed {
        raw(source, &extents).map_err(|e| StoreError::io("read of a container file", e))?
    } else {
        by_records(source, plan.id, &extents)?
    };
    let checksums = checksum::slice(&chunk.checksums, low, high);
    if let Some(bad) = checksum::first_mismatch(&checksums, &data) {
        return Err(damaged(
            plan.id,
            low_at + bad,
            "the stored bytes do not match their checksum",
        ));
    }
    Ok(Piece {
        name: chunk.name.clone(),
        offset: low_at,
        data,
        checksums,
    })
}

/// Where in its file an extent's first byte stands.
fn place(e: &Extent) -> u64 {
    payload_at(e.record) + u64::from(e.skip)
}

/// The bytes of `extents` one behind the other, not verified.
pub(crate) fn raw(source: Source<'_>, extents: &[Extent]) -> std::io::Result<Bytes> {
    if let [e] = extents
        && let Some((_, bytes)) = source
            .spans
            .get(e.file, place(e), to_usize(u64::from(e.len)))
    {
        return Ok(bytes);
    }
    let len: u64 = extents.iter().map(|e| u64::from(e.len)).sum();
    let mut data = BytesMut::zeroed(to_usize(len));
    let mut at = 0;
    for e in extents {
        let end = at + to_usize(u64::from(e.len));
        source
            .spans
            .fill(source.files, e.file, place(e), &mut data[at..end])?;
        at = end;
    }
    Ok(data.freeze())
}

/// The bytes of `extents`, verified by the checksums of their records: for chunks without checksums.
fn by_records(source: Source<'_>, id: BlockId, extents: &[Extent]) -> Result<Bytes, StoreError> {
    let files = source.files;
    let mut data = BytesMut::new();
    for e in extents {
        let header = files
            .header(e.file, e.record)
            .map_err(|e| StoreError::io("read of a container file", e))?
            .ok_or_else(|| damaged(id, e.start, "the record of these bytes is damaged"))?;
        let record = RecordRef {
            file: e.file,
            at: e.record,
            payload_len: header.payload_len,
        };
        let payload = files
            .payload(record, source.spans)
            .map_err(|e| StoreError::io("read of a container file", e))?
            .ok_or_else(|| damaged(id, e.start, "the record of these bytes is damaged"))?;
        let from = to_usize(u64::from(e.skip));
        let part = payload
            .get(from..from + to_usize(u64::from(e.len)))
            .ok_or_else(|| damaged(id, e.start, "the record of these bytes is too short"))?;
        data.extend_from_slice(part);
    }
    Ok(data.freeze())
}

/// Exactly `offset..offset + len` out of pieces that cover it.
pub(crate) fn trim(pieces: Vec<Piece>, offset: u64, len: u64) -> Bytes {
    let cut = |piece: &Piece| {
        let end = piece.offset + to_u64(piece.data.len());
        let from = to_usize(offset.max(piece.offset) - piece.offset);
        let to = to_usize((offset + len).min(end).saturating_sub(piece.offset));
        piece.data.slice(from..to.max(from))
    };
    match pieces.as_slice() {
        [one] => cut(one),
        many => {
            let mut data = BytesMut::with_capacity(to_usize(len));
            for piece in many {
                data.extend_from_slice(&cut(piece));
            }
            data.freeze()
        }
    }
}
