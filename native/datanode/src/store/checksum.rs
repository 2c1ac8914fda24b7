//! The checksum rule of chunks (ozone-wire, "Chunk layout"): one big-endian CRC for each window counted
//! from the chunk's start. Pure functions; who is told about a mismatch is decided elsewhere.

use bytes::{Bytes, BytesMut};

use super::num::{to_u32, to_u64, to_usize};
use super::types::{ChecksumKind, Checksums};

/// Width of one stored value in bytes.
pub(crate) const VALUE_LEN: usize = 4;

/// CRC-32C over the parts one behind the other, as the store's own records use it.
pub(crate) fn record_crc(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    low32(digest.finalize())
}

fn low32(value: u64) -> u32 {
    to_u32(value & u64::from(u32::MAX))
}

fn window_crc(kind: ChecksumKind, window: &[u8]) -> Option<u32> {
    match kind {
        ChecksumKind::None => None,
        ChecksumKind::Crc32 => Some(crc_fast::crc32_iso_hdlc(window)),
        ChecksumKind::Crc32c => Some(crc_fast::crc32_iscsi(window)),
    }
}

/// Checksums over `data` in windows of `bytes_per_checksum` bytes.
#[must_use]
pub fn compute(kind: ChecksumKind, bytes_per_checksum: u32, data: &[u8]) -> Checksums {
    let window = to_usize(u64::from(bytes_per_checksum)).max(1);
    let mut values = BytesMut::new();
    for part in data.chunks(window) {
        if let Some(crc) = window_crc(kind, part) {
            values.extend_from_slice(&crc.to_be_bytes());
        }
    }
    Checksums {
        kind,
        bytes_per_checksum,
        values: values.freeze(),
    }
}

/// How many values a chunk of `len` bytes must carry; `None` when the window is zero.
fn expected_values(sums: &Checksums, len: u64) -> Option<u64> {
    match sums.kind {
        ChecksumKind::None => Some(0),
        _ if sums.bytes_per_checksum == 0 => None,
        _ => Some(len.div_ceil(u64::from(sums.bytes_per_checksum))),
    }
}

/// Does the list of values fit a chunk of `len` bytes?
pub(crate) fn well_formed(sums: &Checksums, len: u64) -> bool {
    let values = to_u64(sums.values.len() / VALUE_LEN);
    sums.values.len().is_multiple_of(VALUE_LEN) && expected_values(sums, len) == Some(values)
}

/// First offset in `data` of a window that does not match. `data` begins on a window border and the
/// values are those of its windows. `None` when all match (or nothing can be checked).
pub(crate) fn first_mismatch(sums: &Checksums, data: &[u8]) -> Option<u64> {
    if sums.kind == ChecksumKind::None {
        return None;
    }
    let window = to_usize(u64::from(sums.bytes_per_checksum)).max(1);
    let mut stored = sums.values.chunks_exact(VALUE_LEN);
    let mut offset = 0u64;
    for part in data.chunks(window) {
        let found = window_crc(sums.kind, part).map(u32::to_be_bytes);
        if stored.next() != found.as_ref().map(<[u8; 4]>::as_slice) {
            return Some(offset);
        }
        offset += to_u64(part.len());
    }
    None
}

/// The values of the windows that cover `from..to` of a chunk; both lie on window borders or at the
/// chunk's end.
pub(crate) fn slice(sums: &Checksums, from: u64, to: u64) -> Checksums {
    if sums.kind == ChecksumKind::None || sums.bytes_per_checksum == 0 {
        return sums.clone();
    }
    let window = u64::from(sums.bytes_per_checksum);
    let at = |windows: u64| {
        to_usize(windows)
            .saturating_mul(VALUE_LEN)
            .min(sums.values.len())
    };
    let values: Bytes = sums
        .values
        .slice(at(from / window)..at(to.div_ceil(window)));
    Checksums {
        kind: sums.kind,
        bytes_per_checksum: sums.bytes_per_checksum,
        values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_both_algorithms_is_the_published_one() {
        let nine = b"123456789";
        let c = compute(ChecksumKind::Crc32c, 16, nine);
        let z = compute(ChecksumKind::Crc32, 16, nine);
        assert_eq!(c.values.as_ref(), 0xE306_9283u32.to_be_bytes());
        assert_eq!(z.values.as_ref(), 0xCBF4_3926u32.to_be_bytes());
    }

    #[test]
    fn a_flipped_bit_is_found_in_its_window() {
        let data: Vec<u8> = (0..50u8).collect();
        let sums = compute(ChecksumKind::Crc32c, 16, &data);
        assert!(well_formed(&sums, 50));
        assert!(!well_formed(&sums, 65));
        assert_eq!(first_mismatch(&sums, &data), None);
        for i in 0..data.len() {
            let mut bad = data.clone();
            bad[i] ^= 0x10;
            assert_eq!(
                first_mismatch(&sums, &bad),
                Some(u64::try_from(i / 16 * 16).unwrap())
            );
        }
    }

    #[test]
    fn a_slice_of_windows_verifies_the_slice_of_bytes() {
        let data: Vec<u8> = (0..50u8).collect();
        let sums = compute(ChecksumKind::Crc32, 16, &data);
        let part = slice(&sums, 16, 50);
        assert_eq!(first_mismatch(&part, &data[16..]), None);
        let part = slice(&sums, 16, 32);
        assert_eq!(part.values.len(), VALUE_LEN);
        assert_eq!(first_mismatch(&part, &data[16..32]), None);
    }

    #[test]
    fn windows_without_a_size_are_refused() {
        let sums = Checksums {
            kind: ChecksumKind::Crc32c,
            bytes_per_checksum: 0,
            values: Bytes::new(),
        };
        assert!(!well_formed(&sums, 1));
        assert!(well_formed(&Checksums::none(), 1));
    }
}
