//! One record, byte by byte.
//!
//! ```text
//! 0   crc32c of the header    u32, little endian like everything here; of the segment's nonce and the bytes from 4 to 37
//! 4   crc32c of the payload   u32
//! 8   length of the payload   u32
//! 12  term                    u64
//! 20  index                   u64
//! 28  durable                 u64, the highest index known to be fsynced when this was written
//! 36  kind                    u8
//! 37  payload
//! ```
//!
//! The nonce keeps bytes that a client sent from ever being taken for a record of the log that they stand in, and a header has a checksum
//! of its own so that looking for records in bytes that are none costs nothing, whatever they are.

use super::LogError;
use bytes::{Buf, BufMut, Bytes};
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes before the payload.
pub(crate) const HEADER: usize = 37;

/// Bytes of payload that one record may have.
pub const MAX_PAYLOAD: usize = 64 << 20;

/// What a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An encoded `Entry` of the namespace.
    Entry = 1,
    /// Nothing: the first record of a leader.
    Blank = 2,
    /// The encoded members of the group.
    Members = 3,
    /// The epoch from here on, u32, little endian: part of what was decided before is lost.
    Epoch = 4,
}

impl Kind {
    /// The kind with this number.
    pub(crate) fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Entry),
            2 => Some(Kind::Blank),
            3 => Some(Kind::Members),
            4 => Some(Kind::Epoch),
            _ => None,
        }
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The term of the leader that made it.
    pub term: u64,
    /// Its place: one more than the record before.
    pub index: u64,
    /// The highest index known to be fsynced when this was written; always below `index`.
    pub durable: u64,
    /// What the payload is.
    pub kind: Kind,
    /// The content.
    pub payload: Bytes,
}

/// What stands at a place where a record should begin.
#[derive(Debug)]
pub(crate) enum Found {
    /// A good record and the bytes that it takes.
    Good(Record, usize),
    /// Nothing: the file ends here.
    End,
    /// Bytes that are no record, and why.
    Bad(String),
    /// A good record of a kind that a newer version writes.
    Unknown(u8),
}

/// A record without its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    payload_sum: u32,
    length: usize,
    term: u64,
    /// See [`Record::index`].
    pub(crate) index: u64,
    /// See [`Record::durable`].
    pub(crate) durable: u64,
    kind: u8,
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize()).unwrap_or_default()
}

fn header_sum(nonce: u64, header: &[u8]) -> u32 {
    crc(&[&nonce.to_le_bytes(), header])
}

impl Header {
    /// The header at the beginning of `bytes`, if there is one of the segment with `nonce`.
    pub(crate) fn decode(bytes: &[u8], nonce: u64) -> Option<Header> {
        let header = bytes.get(..HEADER)?;
        let mut fields = header;
        if fields.get_u32_le() != header_sum(nonce, &header[4..]) {
            return None;
        }
        Some(Header {
            payload_sum: fields.get_u32_le(),
            length: usize::try_from(fields.get_u32_le()).ok()?,
            term: fields.get_u64_le(),
            index: fields.get_u64_le(),
            durable: fields.get_u64_le(),
            kind: fields.get_u8(),
        })
    }
}

impl Record {
    /// Writes the record behind what `out` holds, as it stands in the segment with `nonce`.
    ///
    /// # Errors
    /// [`LogError::TooLarge`].
    pub(crate) fn encode(&self, nonce: u64, out: &mut Vec<u8>) -> Result<(), LogError> {
        let length = u32::try_from(self.payload.len())
            .ok()
            .filter(|_| self.payload.len() <= MAX_PAYLOAD)
            .ok_or(LogError::TooLarge {
                bytes: self.payload.len(),
            })?;
        let start = out.len();
        out.put_u32_le(0);
        out.put_u32_le(crc(&[&self.payload]));
        out.put_u32_le(length);
        out.put_u64_le(self.term);
        out.put_u64_le(self.index);
        out.put_u64_le(self.durable);
        out.put_u8(self.kind as u8);
        let sum = header_sum(nonce, &out[start + 4..]);
        out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        out.put_slice(&self.payload);
        Ok(())
    }

    /// Reads what stands at the beginning of `bytes`, which reach to the end of the file, in the segment with `nonce`.
    pub(crate) fn decode(bytes: &Bytes, nonce: u64) -> Found {
        if bytes.is_empty() {
            return Found::End;
        }
        let Some(header) = Header::decode(bytes, nonce) else {
            return Found::Bad("there is no header of a record".to_owned());
        };
        let end = HEADER.saturating_add(header.length);
        if header.length > MAX_PAYLOAD || bytes.len() < end {
            return Found::Bad(format!("the file ends inside a record of {end} bytes"));
        }
        let payload = bytes.slice(HEADER..end);
        if crc(&[&payload]) != header.payload_sum {
            return Found::Bad("the checksum of the payload does not fit".to_owned());
        }
        let Some(kind) = Kind::from_byte(header.kind) else {
            return Found::Unknown(header.kind);
        };
        let record = Record {
            term: header.term,
            index: header.index,
            durable: header.durable,
            kind,
            payload,
        };
        Found::Good(record, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: u64 = 0x0123_4567_89ab_cdef;

    fn sample() -> Record {
        Record {
            term: 3,
            index: 12,
            durable: 11,
            kind: Kind::Entry,
            payload: Bytes::from_static(b"content"),
        }
    }

    #[test]
    fn a_record_reads_back_and_tells_its_size() {
        let mut out = Vec::new();
        sample().encode(NONCE, &mut out).unwrap();
        let size = out.len();
        out.extend_from_slice(b"behind");
        match Record::decode(&Bytes::from(out), NONCE) {
            Found::Good(record, taken) => assert_eq!((record, taken), (sample(), size)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut out = Vec::new();
        sample().encode(NONCE, &mut out).unwrap();
        for bit in 0..out.len() * 8 {
            let mut copy = out.clone();
            copy[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(Record::decode(&Bytes::from(copy), NONCE), Found::Bad(_)),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_record_of_another_segment_is_none() {
        let mut out = Vec::new();
        sample().encode(NONCE, &mut out).unwrap();
        assert!(matches!(
            Record::decode(&Bytes::from(out), NONCE + 1),
            Found::Bad(_)
        ));
    }

    #[test]
    fn a_kind_of_a_newer_version_is_not_called_bad() {
        let mut out = Vec::new();
        sample().encode(NONCE, &mut out).unwrap();
        out[HEADER - 1] = 77;
        let sum = header_sum(NONCE, &out[4..HEADER]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(
            Record::decode(&Bytes::from(out), NONCE),
            Found::Unknown(77)
        ));
    }

    #[test]
    fn zeros_are_no_record() {
        assert!(matches!(
            Record::decode(&Bytes::from(vec![0; 200]), NONCE),
            Found::Bad(_)
        ));
    }

    #[test]
    fn a_payload_beyond_the_limit_is_refused() {
        let record = Record {
            payload: Bytes::from(vec![0; MAX_PAYLOAD + 1]),
            ..sample()
        };
        assert!(matches!(
            record.encode(NONCE, &mut Vec::new()),
            Err(LogError::TooLarge { .. })
        ));
    }
}
