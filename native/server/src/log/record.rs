//! One record, byte by byte.
//!
//! ```text
//! 0   length of the payload   u32, little endian like everything here
//! 4   crc32c                  u32, of all bytes behind it, with the length before them
//! 8   term                    u64
//! 16  index                   u64
//! 24  durable                 u64, the highest index known to be fsynced when this was written
//! 32  kind                    u8
//! 33  payload
//! ```

use super::LogError;
use bytes::{Buf, BufMut, Bytes};
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes before the payload.
pub(crate) const HEADER: usize = 33;

/// Bytes of payload that one record may have.
pub const MAX_PAYLOAD: usize = 64 << 20;

/// What a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An encoded `Entry` of the namespace.
    Entry = 1,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Entry),
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
}

fn checksum(length: u32, behind: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&length.to_le_bytes());
    digest.update(behind);
    u32::try_from(digest.finalize()).unwrap_or_default()
}

impl Record {
    /// Writes the record behind what `out` holds.
    ///
    /// # Errors
    /// [`LogError::TooLarge`].
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), LogError> {
        let length = u32::try_from(self.payload.len())
            .ok()
            .filter(|_| self.payload.len() <= MAX_PAYLOAD)
            .ok_or(LogError::TooLarge {
                bytes: self.payload.len(),
            })?;
        let start = out.len();
        out.put_u32_le(length);
        out.put_u32_le(0);
        out.put_u64_le(self.term);
        out.put_u64_le(self.index);
        out.put_u64_le(self.durable);
        out.put_u8(self.kind as u8);
        out.put_slice(&self.payload);
        let sum = checksum(length, &out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
        Ok(())
    }

    /// Reads what stands at the beginning of `bytes`, which reach to the end of the file.
    pub(crate) fn decode(bytes: &Bytes) -> Found {
        if bytes.is_empty() {
            return Found::End;
        }
        if bytes.len() < HEADER {
            return Found::Bad(format!("{} bytes are no whole record", bytes.len()));
        }
        let mut header = bytes.slice(..HEADER);
        let length = header.get_u32_le();
        let expected = header.get_u32_le();
        let (term, index, durable) = (
            header.get_u64_le(),
            header.get_u64_le(),
            header.get_u64_le(),
        );
        let kind = header.get_u8();
        let end = match usize::try_from(length) {
            Ok(length) if length <= MAX_PAYLOAD => HEADER + length,
            _ => return Found::Bad(format!("a length of {length}")),
        };
        if bytes.len() < end {
            return Found::Bad(format!("the file ends inside a record of {end} bytes"));
        }
        if checksum(length, &bytes[8..end]) != expected {
            return Found::Bad("the checksum does not fit".to_owned());
        }
        match Kind::from_byte(kind) {
            Some(kind) => Found::Good(
                Record {
                    term,
                    index,
                    durable,
                    kind,
                    payload: bytes.slice(HEADER..end),
                },
                end,
            ),
            None => Found::Bad(format!(
                "a record of kind {kind}, which this version does not know"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        sample().encode(&mut out).unwrap();
        let size = out.len();
        out.extend_from_slice(b"behind");
        match Record::decode(&Bytes::from(out)) {
            Found::Good(record, taken) => assert_eq!((record, taken), (sample(), size)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut out = Vec::new();
        sample().encode(&mut out).unwrap();
        for bit in 0..out.len() * 8 {
            let mut copy = out.clone();
            copy[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(Record::decode(&Bytes::from(copy)), Found::Bad(_)),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn zeros_are_no_record() {
        assert!(matches!(
            Record::decode(&Bytes::from(vec![0; 200])),
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
            record.encode(&mut Vec::new()),
            Err(LogError::TooLarge { .. })
        ));
    }
}
