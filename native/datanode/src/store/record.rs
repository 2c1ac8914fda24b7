//! The bytes of container files: the file header and the records behind it. Encoding and decoding
//! only; no file is touched here.
//!
//! ```text
//! file   := header header record*           the header stands twice: one copy may rot
//! header := magic "apC1" | format u16 | 0 u16 | number u32 | 0 u32 | nonce u64 | length of the file before u64
//!           | 0 u64 .. | crc32c u32                                                     64 bytes
//! record := magic "apR1" | kind u8 | 0 u24 | payload length u32 | payload crc32c u32 | container i64 | local i64
//!           | offset in the block u64 | durable u64 | header crc32c u32 | 0 u32          56 bytes
//!           payload | zeros up to a multiple of 8
//! ```
//!
//! All numbers are little-endian. The header's checksum also covers the file's random nonce and the
//! record's own position, so that a copy of a container file stored *inside* a block can never be
//! taken for records. `durable` is the length of this file that was known durable when the record was
//! written: damage below any such mark is rot, damage above all of them is a torn tail.

use bytes::Bytes;
use prost::Message;

use super::checksum::record_crc;
use super::num::{to_u64, to_usize};
use super::types::{BlockId, ChecksumKind, Checksums, Chunk, KeyValue};

/// Version of the format described above.
pub(crate) const FORMAT: u16 = 1;
/// Length of one copy of the file header.
pub(crate) const FILE_HEADER_COPY: usize = 64;
/// Where the first record begins.
pub(crate) const FILE_HEADER_LEN: u64 = 128;
/// Length of a record's header.
pub(crate) const RECORD_HEADER_LEN: usize = 56;
/// Records begin at multiples of this.
pub(crate) const ALIGN: u64 = 8;

const FILE_MAGIC: &[u8; 4] = b"apC1";
/// First bytes of every record.
pub(crate) const RECORD_MAGIC: &[u8; 4] = b"apR1";

/// Reads the little-endian number of `N` bytes at `at`; the caller has checked the length.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// What stands at the start of a container file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) format: u16,
    pub(crate) number: u32,
    pub(crate) nonce: u64,
    /// Final length of the file with the number before, 0 for the first.
    pub(crate) previous_len: u64,
}

impl FileHeader {
    /// Both copies, as they are written.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(FILE_HEADER_COPY);
        copy.extend_from_slice(FILE_MAGIC);
        copy.extend_from_slice(&self.format.to_le_bytes());
        copy.extend_from_slice(&[0; 2]);
        copy.extend_from_slice(&self.number.to_le_bytes());
        copy.extend_from_slice(&[0; 4]);
        copy.extend_from_slice(&self.nonce.to_le_bytes());
        copy.extend_from_slice(&self.previous_len.to_le_bytes());
        copy.resize(FILE_HEADER_COPY - 4, 0);
        let crc = record_crc(&[&copy]);
        copy.extend_from_slice(&crc.to_le_bytes());
        copy.repeat(2)
    }

    /// The first intact copy in `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        bytes
            .chunks_exact(FILE_HEADER_COPY)
            .take(2)
            .find_map(Self::decode_copy)
    }

    fn decode_copy(copy: &[u8]) -> Option<Self> {
        let crc = u32::from_le_bytes(field(copy, FILE_HEADER_COPY - 4)?);
        if copy.get(..4)? != FILE_MAGIC || record_crc(&[&copy[..FILE_HEADER_COPY - 4]]) != crc {
            return None;
        }
        Some(Self {
            format: u16::from_le_bytes(field(copy, 4)?),
            number: u32::from_le_bytes(field(copy, 8)?),
            nonce: u64::from_le_bytes(field(copy, 16)?),
            previous_len: u64::from_le_bytes(field(copy, 24)?),
        })
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes of a block; the payload is the bytes and nothing else.
    Chunk,
    /// A commit; the payload is a [`CommitPayload`].
    Commit,
    /// The block is closed to writers. No payload.
    Finalize,
    /// The block is gone and its id is spent. No payload.
    Delete,
    /// Carries only the durable mark. No payload.
    Mark,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Self::Chunk => 1,
            Self::Commit => 2,
            Self::Finalize => 3,
            Self::Delete => 4,
            Self::Mark => 5,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Chunk,
            2 => Self::Commit,
            3 => Self::Finalize,
            4 => Self::Delete,
            5 => Self::Mark,
            _ => return None,
        })
    }
}

/// A record without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) payload_len: u32,
    pub(crate) payload_crc: u32,
    pub(crate) block: BlockId,
    pub(crate) offset: u64,
    pub(crate) durable: u64,
}

/// Length on disk of a record with a payload of `payload` bytes.
pub(crate) const fn record_len(payload: u64) -> u64 {
    (RECORD_HEADER_LEN as u64 + payload).next_multiple_of(ALIGN)
}

impl Header {
    /// Length of the whole record on disk.
    pub(crate) fn record_len(&self) -> u64 {
        record_len(u64::from(self.payload_len))
    }

    /// The header as it stands at `position` of the file with `nonce`.
    pub(crate) fn encode(&self, nonce: u64, position: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_HEADER_LEN);
        out.extend_from_slice(RECORD_MAGIC);
        out.push(self.kind.number());
        out.extend_from_slice(&[0; 3]);
        out.extend_from_slice(&self.payload_len.to_le_bytes());
        out.extend_from_slice(&self.payload_crc.to_le_bytes());
        out.extend_from_slice(&self.block.container.to_le_bytes());
        out.extend_from_slice(&self.block.local.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.durable.to_le_bytes());
        let crc = header_crc(nonce, position, &out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out
    }

    /// The header at the start of `bytes`, or `None` when there is no intact one for this place.
    pub(crate) fn decode(bytes: &[u8], nonce: u64, position: u64) -> Option<Self> {
        let bytes = bytes.get(..RECORD_HEADER_LEN)?;
        let crc = u32::from_le_bytes(field(bytes, 48)?);
        if bytes.get(..4)? != RECORD_MAGIC || header_crc(nonce, position, &bytes[..48]) != crc {
            return None;
        }
        Some(Self {
            kind: Kind::from_number(bytes[4])?,
            payload_len: u32::from_le_bytes(field(bytes, 8)?),
            payload_crc: u32::from_le_bytes(field(bytes, 12)?),
            block: BlockId {
                container: i64::from_le_bytes(field(bytes, 16)?),
                local: i64::from_le_bytes(field(bytes, 24)?),
            },
            offset: u64::from_le_bytes(field(bytes, 32)?),
            durable: u64::from_le_bytes(field(bytes, 40)?),
        })
    }
}

fn header_crc(nonce: u64, position: u64, header: &[u8]) -> u32 {
    record_crc(&[&nonce.to_le_bytes(), &position.to_le_bytes(), header])
}

/// Payload of a commit: the difference to the commit before it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CommitPayload {
    /// Number of this commit among the block's, from 1 without a gap: a missing one is noticed.
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    /// How many chunks of the list before stay.
    #[prost(uint32, tag = "2")]
    pub(crate) kept: u32,
    /// The chunks behind those.
    #[prost(message, repeated, tag = "3")]
    pub(crate) chunks: Vec<StoredChunk>,
    /// Block metadata, whole.
    #[prost(message, repeated, tag = "4")]
    pub(crate) metadata: Vec<StoredPair>,
    /// The writer said that the block is complete.
    #[prost(bool, tag = "5")]
    pub(crate) eof: bool,
    /// Committed length in bytes.
    #[prost(uint64, tag = "6")]
    pub(crate) length: u64,
}

/// A chunk as a commit stores it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredChunk {
    #[prost(uint64, tag = "1")]
    pub(crate) offset: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) len: u64,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    /// 0 none, 1 CRC-32, 2 CRC-32C.
    #[prost(uint32, tag = "4")]
    pub(crate) checksum_kind: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) bytes_per_checksum: u32,
    #[prost(bytes = "bytes", tag = "6")]
    pub(crate) checksums: Bytes,
    #[prost(bytes = "bytes", tag = "7")]
    pub(crate) stripe_checksum: Bytes,
    #[prost(message, repeated, tag = "8")]
    pub(crate) metadata: Vec<StoredPair>,
}

/// A metadata entry.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredPair {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, optional, tag = "2")]
    pub(crate) value: Option<String>,
}

/// Metadata in its stored form.
pub(crate) fn store_pairs(pairs: &[KeyValue]) -> Vec<StoredPair> {
    pairs
        .iter()
        .map(|(key, value)| StoredPair {
            key: key.clone(),
            value: value.clone(),
        })
        .collect()
}

/// Metadata from its stored form.
pub(crate) fn load_pairs(pairs: Vec<StoredPair>) -> Vec<KeyValue> {
    pairs.into_iter().map(|p| (p.key, p.value)).collect()
}

impl From<&Chunk> for StoredChunk {
    fn from(chunk: &Chunk) -> Self {
        Self {
            offset: chunk.offset,
            len: chunk.len,
            name: chunk.name.clone(),
            checksum_kind: match chunk.checksums.kind {
                ChecksumKind::None => 0,
                ChecksumKind::Crc32 => 1,
                ChecksumKind::Crc32c => 2,
            },
            bytes_per_checksum: chunk.checksums.bytes_per_checksum,
            checksums: chunk.checksums.values.clone(),
            stripe_checksum: chunk.stripe_checksum.clone(),
            metadata: store_pairs(&chunk.metadata),
        }
    }
}

impl StoredChunk {
    /// The chunk, or `None` when the fields contradict each other.
    pub(crate) fn load(self) -> Option<Chunk> {
        let kind = match self.checksum_kind {
            0 => ChecksumKind::None,
            1 => ChecksumKind::Crc32,
            2 => ChecksumKind::Crc32c,
            _ => return None,
        };
        self.offset.checked_add(self.len)?;
        Some(Chunk {
            name: self.name,
            offset: self.offset,
            len: self.len,
            checksums: Checksums {
                kind,
                bytes_per_checksum: self.bytes_per_checksum,
                values: self.checksums,
            },
            stripe_checksum: self.stripe_checksum,
            metadata: load_pairs(self.metadata),
        })
    }
}

/// Zeros that fill a record with `payload` bytes up to its length on disk.
pub(crate) fn padding(payload: usize) -> &'static [u8] {
    const ZEROS: [u8; 8] = [0; 8];
    let used = to_u64(RECORD_HEADER_LEN + payload);
    &ZEROS[..to_usize(used.next_multiple_of(ALIGN) - used)]
}

const _: () = assert!(FILE_HEADER_LEN.is_multiple_of(ALIGN));
const _: () = assert!((RECORD_HEADER_LEN as u64).is_multiple_of(ALIGN));

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::Commit,
            payload_len: 77,
            payload_crc: 0xdead_beef,
            block: BlockId::new(-3, i64::MAX),
            offset: 1 << 40,
            durable: 4096,
        }
    }

    #[test]
    fn a_record_header_survives_its_encoding_and_only_at_its_place() {
        let h = header();
        let bytes = h.encode(7, 1024);
        assert_eq!(bytes.len(), RECORD_HEADER_LEN);
        assert_eq!(Header::decode(&bytes, 7, 1024), Some(h));
        assert_eq!(Header::decode(&bytes, 8, 1024), None);
        assert_eq!(Header::decode(&bytes, 7, 1032), None);
        assert_eq!(Header::decode(&bytes[..40], 7, 1024), None);
    }

    #[test]
    fn every_flipped_bit_of_the_covered_header_is_noticed() {
        let bytes = header().encode(7, 1024);
        for bit in 0..52 * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bad, 7, 1024), None, "bit {bit}");
        }
    }

    #[test]
    fn a_file_header_is_read_from_either_copy() {
        let h = FileHeader {
            format: FORMAT,
            number: 9,
            nonce: 12345,
            previous_len: 1 << 30,
        };
        let bytes = h.encode();
        assert_eq!(to_u64(bytes.len()), FILE_HEADER_LEN);
        for i in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[i] ^= 1;
            assert_eq!(FileHeader::decode(&bad), Some(h));
        }
        let mut bad = bytes;
        bad[10] ^= 1;
        bad[70] ^= 1;
        assert_eq!(FileHeader::decode(&bad), None);
    }

    #[test]
    fn a_chunk_survives_its_stored_form() {
        let chunk = Chunk {
            name: "5_chunk_1".into(),
            offset: 10,
            len: 20,
            checksums: super::super::checksum::compute(ChecksumKind::Crc32, 16, &[1; 20]),
            stripe_checksum: Bytes::from_static(b"abcd"),
            metadata: vec![("full".into(), None), ("k".into(), Some(String::new()))],
        };
        let bytes = StoredChunk::from(&chunk).encode_to_vec();
        let back = StoredChunk::decode(bytes.as_slice()).unwrap().load();
        assert_eq!(back, Some(chunk));
    }
}
