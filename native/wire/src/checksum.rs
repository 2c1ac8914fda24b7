//! The checksum rule of chunks, as Ozone's clients and datanodes compute it.
//!
//! A chunk's bytes are cut into windows of `bytesPerChecksum`, counted from the chunk's first byte; the last window may be
//! short. Each window has one CRC of four bytes, most significant first. This module computes and compares; who checks when,
//! and what happens to a bad replica, is decided elsewhere.

use bytes::{BufMut, Bytes, BytesMut};

use crate::datanode::{ChecksumData, ChecksumType};

type Crc = fn(&[u8]) -> u32;

/// Bytes of one CRC in [`ChecksumData::checksums`].
const CRC_LEN: usize = 4;

/// Bytes do not have the checksum that they were stored with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "checksum mismatch in the window of {len} bytes at offset {offset}: recorded {recorded:08x}, computed {computed:08x}"
)]
pub struct Mismatch {
    /// Where the bad window begins, in bytes from the start of the data that was verified.
    pub offset: usize,
    /// Bytes of the bad window that were verified.
    pub len: usize,
    /// The CRC that stands in the [`ChecksumData`].
    pub recorded: u32,
    /// The CRC of the bytes.
    pub computed: u32,
}

/// Why checksums could not be computed, or do not fit the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// The bytes are not those that were stored.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// A type that is not computed here (SHA-256, MD5), or a number that nobody knows.
    #[error("unsupported checksum type {0}")]
    UnsupportedType(i32),
    /// Windows of no bytes.
    #[error("bytesPerChecksum is zero")]
    ZeroWindow,
    /// The list has no entry for a window of the data.
    #[error("no checksum for window {window}")]
    Missing {
        /// Number of the window, counted from the start of the chunk.
        window: usize,
    },
    /// An entry that is not four bytes long.
    #[error("checksum of window {window} has {len} bytes instead of 4")]
    Malformed {
        /// Number of the window, counted from the start of the chunk.
        window: usize,
        /// Length of the entry in bytes.
        len: usize,
    },
}

/// Checksums of `data`, which begins at a chunk's first byte.
///
/// [`ChecksumType::None`] gives a list without entries, and so does empty data.
///
/// # Errors
///
/// [`ChecksumError::UnsupportedType`] for SHA-256 and MD5, [`ChecksumError::ZeroWindow`] if `bytes_per_checksum` is 0.
pub fn compute(
    data: &[u8],
    checksum_type: ChecksumType,
    bytes_per_checksum: u32,
) -> Result<ChecksumData, ChecksumError> {
    let mut computed = ChecksumData {
        r#type: checksum_type.into(),
        bytes_per_checksum,
        checksums: Vec::new(),
    };
    let Some(crc) = algorithm(checksum_type.into())? else {
        return Ok(computed);
    };
    let windows = data.chunks(window_len(bytes_per_checksum)?);
    // One allocation that all entries share.
    let mut entries = BytesMut::with_capacity(windows.len().saturating_mul(CRC_LEN));
    computed.checksums = windows
        .map(|window| {
            entries.put_u32(crc(window));
            entries.split().freeze()
        })
        .collect();
    Ok(computed)
}

/// Compares `data` with the checksums of its chunk.
///
/// `data` begins at the first byte of window `start_window` of the chunk and ends at the end of a window or of the chunk.
/// [`ChecksumType::None`] accepts everything.
///
/// # Errors
///
/// [`ChecksumError::Mismatch`] for the first window that differs, which includes data that ends inside a window; the other
/// kinds if `expected` is unusable or too short for the data.
pub fn verify(
    data: &[u8],
    expected: &ChecksumData,
    start_window: usize,
) -> Result<(), ChecksumError> {
    let Some(crc) = algorithm(expected.r#type)? else {
        return Ok(());
    };
    let window_len = window_len(expected.bytes_per_checksum)?;
    for (index, bytes) in data.chunks(window_len).enumerate() {
        let window = start_window.saturating_add(index);
        let recorded = recorded(&expected.checksums, window)?;
        let computed = crc(bytes);
        if recorded != computed {
            return Err(Mismatch {
                offset: index.saturating_mul(window_len),
                len: bytes.len(),
                recorded,
                computed,
            }
            .into());
        }
    }
    Ok(())
}

fn recorded(checksums: &[Bytes], window: usize) -> Result<u32, ChecksumError> {
    let entry = checksums
        .get(window)
        .ok_or(ChecksumError::Missing { window })?;
    let entry: [u8; CRC_LEN] = entry
        .as_ref()
        .try_into()
        .map_err(|_| ChecksumError::Malformed {
            window,
            len: entry.len(),
        })?;
    Ok(u32::from_be_bytes(entry))
}

/// The function behind a type, or nothing if the type stands for "no checksums".
fn algorithm(checksum_type: i32) -> Result<Option<Crc>, ChecksumError> {
    match ChecksumType::try_from(checksum_type) {
        Ok(ChecksumType::None) => Ok(None),
        Ok(ChecksumType::Crc32) => Ok(Some(crc_fast::crc32_iso_hdlc)),
        Ok(ChecksumType::Crc32c) => Ok(Some(crc_fast::crc32_iscsi)),
        Ok(ChecksumType::Sha256 | ChecksumType::Md5) | Err(_) => {
            Err(ChecksumError::UnsupportedType(checksum_type))
        }
    }
}

fn window_len(bytes_per_checksum: u32) -> Result<usize, ChecksumError> {
    match usize::try_from(bytes_per_checksum) {
        Ok(0) => Err(ChecksumError::ZeroWindow),
        Ok(len) => Ok(len),
        // Wider than memory: all data is one window.
        Err(_) => Ok(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHECK: &[u8] = b"123456789";

    fn entries(data: &[u8], checksum_type: ChecksumType, window: u32) -> Vec<Vec<u8>> {
        compute(data, checksum_type, window)
            .unwrap()
            .checksums
            .iter()
            .map(|entry| entry.to_vec())
            .collect()
    }

    #[test]
    fn published_check_values_come_out_most_significant_byte_first() {
        assert_eq!(
            entries(CHECK, ChecksumType::Crc32c, 16),
            [[0xe3, 0x06, 0x92, 0x83]]
        );
        assert_eq!(
            entries(CHECK, ChecksumType::Crc32, 16),
            [[0xcb, 0xf4, 0x39, 0x26]]
        );
    }

    #[test]
    fn rfc_3720_vectors_hold() {
        assert_eq!(
            entries(&[0; 32], ChecksumType::Crc32c, 32),
            [0x8a91_36aa_u32.to_be_bytes()]
        );
        assert_eq!(
            entries(&[0xff; 32], ChecksumType::Crc32c, 32),
            [0x62a8_ab43_u32.to_be_bytes()]
        );
    }

    #[test]
    fn every_window_has_its_own_checksum_and_the_last_may_be_short() {
        let mut data = CHECK.repeat(2);
        data.extend_from_slice(&CHECK[..4]);
        let windows = entries(&data, ChecksumType::Crc32c, 9);
        assert_eq!(windows.len(), 3);
        assert_eq!(windows[0], windows[1]);
        assert_eq!(windows[2], entries(&CHECK[..4], ChecksumType::Crc32c, 9)[0]);
    }

    #[test]
    fn no_data_and_no_type_have_no_checksums() {
        assert!(entries(&[], ChecksumType::Crc32c, 16).is_empty());
        let none = compute(CHECK, ChecksumType::None, 16).unwrap();
        assert!(none.checksums.is_empty());
        verify(b"other bytes", &none, 0).unwrap();
    }

    #[test]
    fn the_first_bad_window_is_named() {
        let mut data = CHECK.repeat(3);
        let expected = compute(&data, ChecksumType::Crc32c, 9).unwrap();
        data[12] ^= 1;
        data[20] ^= 1;
        let Err(ChecksumError::Mismatch(mismatch)) = verify(&data, &expected, 0) else {
            panic!("a changed byte passed");
        };
        assert_eq!((mismatch.offset, mismatch.len), (9, 9));
        assert_eq!(mismatch.recorded, 0xe306_9283);
    }

    #[test]
    fn data_from_the_middle_of_a_chunk_is_verified_by_its_window() {
        let data: Vec<u8> = (0..40).collect();
        let expected = compute(&data, ChecksumType::Crc32, 8).unwrap();
        verify(&data[16..], &expected, 2).unwrap();
        verify(&data[16..24], &expected, 2).unwrap();
        assert!(matches!(
            verify(&data[16..], &expected, 1),
            Err(ChecksumError::Mismatch(Mismatch { offset: 0, .. }))
        ));
        assert!(matches!(
            verify(&data[16..20], &expected, 2),
            Err(ChecksumError::Mismatch(Mismatch {
                offset: 0,
                len: 4,
                ..
            }))
        ));
    }

    #[test]
    fn unusable_checksum_lists_are_refused_by_name() {
        let mut expected = compute(CHECK, ChecksumType::Crc32c, 4).unwrap();
        assert_eq!(
            verify(&CHECK.repeat(2), &expected, 3),
            Err(ChecksumError::Missing { window: 3 })
        );
        expected.checksums[0] = Bytes::from_static(b"abc");
        assert_eq!(
            verify(CHECK, &expected, 0),
            Err(ChecksumError::Malformed { window: 0, len: 3 })
        );
        expected.bytes_per_checksum = 0;
        assert_eq!(verify(CHECK, &expected, 0), Err(ChecksumError::ZeroWindow));
        expected.r#type = ChecksumType::Md5.into();
        assert_eq!(
            verify(CHECK, &expected, 0),
            Err(ChecksumError::UnsupportedType(5))
        );
        assert_eq!(
            compute(CHECK, ChecksumType::Sha256, 4),
            Err(ChecksumError::UnsupportedType(4))
        );
    }

    proptest! {
        #[test]
        fn what_was_computed_verifies_and_any_flipped_bit_is_found(
            data in prop::collection::vec(any::<u8>(), 1..300),
            window in 1_u32..64,
            crc32c in any::<bool>(),
            place in any::<prop::sample::Index>(),
            bit in 0_u32..8,
        ) {
            let checksum_type = if crc32c { ChecksumType::Crc32c } else { ChecksumType::Crc32 };
            let expected = compute(&data, checksum_type, window).unwrap();
            prop_assert_eq!(verify(&data, &expected, 0), Ok(()));

            let place = place.index(data.len());
            let mut changed = data;
            changed[place] ^= 1 << bit;
            let window = usize::try_from(window).unwrap();
            match verify(&changed, &expected, 0) {
                Err(ChecksumError::Mismatch(mismatch)) => {
                    prop_assert_eq!(mismatch.offset, place / window * window);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
