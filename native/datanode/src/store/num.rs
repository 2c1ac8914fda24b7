//! Conversions between the widths of lengths and offsets. They saturate: every caller compares the
//! result with a real length afterwards, so a saturated value is refused and never wraps.

/// A file offset or length as an index into memory.
pub(crate) fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A length in memory as a file length.
pub(crate) fn to_u64(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// A length as a 32-bit field of a record.
pub(crate) fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
