//! Encodes file statuses as `io.libappend.fs.StatusPage` decodes them: one array per call instead of one object per entry.
//!
//! The layout is described at that class; the golden bytes below stand in its test too.

/// Bits of an entry's first byte.
pub(crate) const IS_DIRECTORY: u8 = 1;
pub(crate) const IS_ENCRYPTED: u8 = 2;
pub(crate) const IS_ERASURE_CODED: u8 = 4;

/// One status as Java gets it. Sizes are bytes, times milliseconds since the epoch.
pub(crate) struct Entry<'a> {
    pub(crate) bits: u8,
    pub(crate) length: u64,
    pub(crate) block_size: u64,
    pub(crate) modified: i64,
    pub(crate) accessed: i64,
    pub(crate) replication: i16,
    /// Permission bits, -1 if the server keeps none.
    pub(crate) permission: i16,
    /// Relative to the listed path, empty for that path itself.
    pub(crate) name: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) group: &'a str,
}

/// Encodes a page; `more` says that entries follow it.
pub(crate) fn encode<'a>(
    more: bool,
    entries: impl ExactSizeIterator<Item = Entry<'a>>,
) -> Result<Vec<u8>, TooLong> {
    let mut out = Vec::with_capacity(5 + entries.len() * 64);
    out.push(u8::from(more));
    let count = i32::try_from(entries.len()).map_err(|_| TooLong)?;
    out.extend_from_slice(&count.to_be_bytes());
    for entry in entries {
        out.push(entry.bits);
        out.extend_from_slice(&entry.length.to_be_bytes());
        out.extend_from_slice(&entry.block_size.to_be_bytes());
        out.extend_from_slice(&entry.modified.to_be_bytes());
        out.extend_from_slice(&entry.accessed.to_be_bytes());
        out.extend_from_slice(&entry.replication.to_be_bytes());
        out.extend_from_slice(&entry.permission.to_be_bytes());
        for text in [entry.name, entry.owner, entry.group] {
            let length = u16::try_from(text.len()).map_err(|_| TooLong)?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
    Ok(out)
}

/// A text above 64 KiB or a page above 2^31 entries, neither of which a server sends.
#[derive(Debug, thiserror::Error)]
#[error("a file status from the server is too long for Java")]
pub(crate) struct TooLong;

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "01\
        00000002\
        00000000000000010000000000100000000000019000000001000001900000000200\
        01ffff0006c3a4203a2e780005616c6963650000\
        07000000000000000000000000000000000000000000000000ffffffffffffffff\
        000301ed000000000001\
        67";

    #[test]
    fn java_reads_what_we_write() {
        let entries = vec![
            Entry {
                bits: 0,
                length: 256,
                block_size: 256 << 20,
                modified: 0x190_0000_0001,
                accessed: 0x190_0000_0002,
                replication: 1,
                permission: -1,
                name: "ä :.x",
                owner: "alice",
                group: "",
            },
            Entry {
                bits: IS_DIRECTORY | IS_ENCRYPTED | IS_ERASURE_CODED,
                length: 0,
                block_size: 0,
                modified: 0,
                accessed: -1,
                replication: 3,
                permission: 0o755,
                name: "",
                owner: "",
                group: "g",
            },
        ];
        let page = encode(true, entries.into_iter()).unwrap();
        let hex: String = page.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN.replace(char::is_whitespace, ""));
    }
}
