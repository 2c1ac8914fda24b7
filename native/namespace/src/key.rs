//! The keys of the rows: fixed-width numbers in big-endian order first, names last, so that no escape is needed and the order of the
//! bytes is the order of the rows.

use crate::command::Invocation;
use crate::ids::Id;

/// The row of the applied position in `Meta`.
pub(crate) const POSITION: &[u8] = b"position";
/// The row of the limits in `Meta`.
pub(crate) const LIMITS: &[u8] = b"limits";
/// The finalized layout, in `Meta`; absent before the first finalization.
pub(crate) const LAYOUT: &[u8] = b"layout";
/// The number of ordinary writers that are open, in `Meta`; right once a layout is finalized.
pub(crate) const WRITER_COUNT: &[u8] = b"writer-count";
/// The number of leases that run, in `Meta`.
pub(crate) const LEASE_COUNT: &[u8] = b"lease-count";
/// The lease time below which no answer waits for its expiry, in `Meta`.
pub(crate) const DEDUPE_EXPIRED: &[u8] = b"dedupe-expired";
/// The number of dedupe entries in `Meta`.
pub(crate) const DEDUPE_COUNT: &[u8] = b"dedupe-count";

/// Where a file, a directory or an uncommitted writer stands. Outside FSO the parent is 0 and the name the full key; a directory's name
/// then ends in a slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The bucket's id.
    pub(crate) bucket: Id,
    /// The parent directory's id; the bucket's at the top of an FSO bucket.
    pub(crate) parent: Id,
    /// The name below the parent.
    pub(crate) name: String,
}

fn numbers<const N: usize>(parts: [u64; N]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_be_bytes()).collect()
}

/// Key of a bucket: volume, a zero byte (no name holds one), bucket.
pub(crate) fn bucket(volume: &str, bucket: &str) -> Vec<u8> {
    [volume.as_bytes(), &[0], bucket.as_bytes()].concat()
}

/// Key of one number.
pub(crate) fn one(id: u64) -> Vec<u8> {
    numbers([id])
}

/// Key of two numbers: (bucket, directory), (bucket, session), (container, local).
pub(crate) fn two(first: u64, second: u64) -> Vec<u8> {
    numbers([first, second])
}

/// Key of three numbers: (file, generation, sequence), (bucket, session, block).
pub(crate) fn three(first: u64, second: u64, third: u64) -> Vec<u8> {
    numbers([first, second, third])
}

/// Key of a file or an FSO directory.
pub(crate) fn place(place: &Place) -> Vec<u8> {
    named(place.bucket, place.parent, &place.name)
}

/// Key of a name below a parent; with an empty name the start of the parent's range.
pub(crate) fn named(bucket: Id, parent: Id, name: &str) -> Vec<u8> {
    let mut key = numbers([bucket, parent]);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Start of the sessions that are open at a name. The zero byte ends the name (no name holds one).
pub(crate) fn open_name(place: &Place) -> Vec<u8> {
    let mut key = self::place(place);
    key.push(0);
    key
}

/// Key of one session that is open at a name.
pub(crate) fn open_by_name(place: &Place, session: Id) -> Vec<u8> {
    let mut key = open_name(place);
    key.extend_from_slice(&session.to_be_bytes());
    key
}

/// Key of a deletion: command and ordinal.
pub(crate) fn deletion(command: u64, ordinal: u32) -> Vec<u8> {
    let mut key = numbers([command]);
    key.extend_from_slice(&ordinal.to_be_bytes());
    key
}

/// Key of a client's answered mark, and the start of its entries. A client's bytes are at most 255 (checked when a request comes in).
pub(crate) fn client(client: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(client.len() + 9);
    key.push(u8::try_from(client.len()).unwrap_or(u8::MAX));
    key.extend_from_slice(client);
    key
}

/// Key of a decided answer.
pub(crate) fn invocation(invocation: &Invocation) -> Vec<u8> {
    answer(&invocation.client, invocation.sequence)
}

/// Key of a decided answer by its parts.
pub(crate) fn answer(client: &[u8], sequence: u64) -> Vec<u8> {
    let mut key = self::client(client);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// The sequence at the end of an answer's key.
pub(crate) fn sequence(answer: &[u8]) -> Option<u64> {
    answer.last_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Key of a dedupe row in the order of expiry.
pub(crate) fn expiry(lease_ms: u64, dedupe_key: &[u8]) -> Vec<u8> {
    let mut key = numbers([lease_ms]);
    key.extend_from_slice(dedupe_key);
    key
}

/// Key of a holder.
pub(crate) fn holder(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// The first key behind everything that starts with `prefix`; nothing if there is no such key.
pub(crate) fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

/// The eight bytes at `at` as a number.
pub(crate) fn number_at(key: &[u8], at: usize) -> Option<u64> {
    let bytes = key.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_one_parent_stand_together_in_the_order_of_their_names() {
        let keys = [
            named(1, 2, "a"),
            named(1, 2, "a/b"),
            named(1, 2, "b"),
            named(1, 3, ""),
            named(2, 0, "z"),
        ];
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn sessions_of_a_name_do_not_mix_with_those_of_a_longer_name() {
        let short = Place {
            bucket: 1,
            parent: 1,
            name: "a".into(),
        };
        let long = Place {
            bucket: 1,
            parent: 1,
            name: "ab".into(),
        };
        assert!(open_by_name(&short, u64::MAX).starts_with(&open_name(&short)));
        assert!(!open_by_name(&long, 0).starts_with(&open_name(&short)));
    }

    #[test]
    fn behind_a_prefix_is_the_next_prefix() {
        assert_eq!(behind(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(behind(&[1, 255]), Some(vec![2]));
        assert_eq!(behind(&[255, 255]), None);
    }
}
