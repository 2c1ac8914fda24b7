//! Files that tell what is in them: records that name who wrote them, in which session and where in it. Whatever became of their writers,
//! a reader can say of each byte whose it is, or that it is nobody's.

use std::fmt;

use crate::noise;

/// Folders that clients which record their history work in; nothing moves from one to another.
pub const FOLDERS: u32 = 5;
/// Names in each of them.
pub const NAMES: u32 = 3;

/// Bytes before a record's content.
const HEADER: usize = 20;
const MAGIC: [u8; 4] = *b"rec:";

/// One record's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// The client process.
    pub client: u32,
    /// Its session.
    pub session: u32,
    /// The number in the session, from 0.
    pub number: u32,
}

/// A record as it stands in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Which.
    pub record: Record,
    /// Where it begins.
    pub at: u64,
    /// Bytes of it that are there.
    pub length: u64,
    /// All of it is there.
    pub whole: bool,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.client, self.session, self.number)
    }
}

impl Record {
    fn length(self) -> usize {
        let mixed = self
            .client
            .wrapping_mul(31)
            .wrapping_add(self.session)
            .wrapping_mul(31)
            .wrapping_add(self.number);
        usize::try_from(mixed % 6000).unwrap_or(0) + 1
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::from(MAGIC);
        for field in [self.client, self.session, self.number] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(self.sum().to_le_bytes());
        let seed =
            u64::from(self.client) << 48 | u64::from(self.session) << 24 | u64::from(self.number);
        bytes.extend(noise(seed, self.length()));
        bytes
    }

    fn sum(self) -> u32 {
        [self.client, self.session, self.number]
            .iter()
            .fold(0x9e37_79b9, |sum: u32, field| {
                (sum ^ field).wrapping_mul(0x85eb_ca6b).rotate_left(13)
            })
    }

    fn at(bytes: &[u8]) -> Option<Record> {
        let header = bytes.get(..HEADER)?.strip_prefix(&MAGIC)?;
        let mut fields = header
            .chunks_exact(4)
            .filter_map(|field| Some(u32::from_le_bytes(field.try_into().ok()?)));
        let record = Record {
            client: fields.next()?,
            session: fields.next()?,
            number: fields.next()?,
        };
        (fields.next()? == record.sum()).then_some(record)
    }
}

/// The records of a file's content. One may be cut short where its session was recovered.
///
/// # Errors
/// What stands at a place where no record's bytes stand.
pub fn decode(content: &[u8]) -> Result<Vec<Placed>, String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < content.len() {
        let rest = &content[at..];
        let Some(record) = Record::at(rest) else {
            // Less than a header of one that was cut short.
            let next = (1..HEADER.min(rest.len()))
                .find(|skip| Record::at(&rest[*skip..]).is_some())
                .unwrap_or(rest.len());
            let torn = &rest[..next];
            if next >= HEADER || !(torn.starts_with(&MAGIC) || MAGIC.starts_with(torn)) {
                return Err(format!("at {at} stands no record"));
            }
            at += next;
            continue;
        };
        let bytes = record.bytes();
        let same = rest
            .iter()
            .zip(&bytes)
            .take_while(|(left, right)| left == right)
            .count();
        let cut_well = at + same == content.len() || rest[same..].starts_with(&MAGIC[..1]);
        if same < bytes.len() && !cut_well {
            return Err(format!(
                "record {record} at {at} is right for {same} of {} bytes",
                bytes.len()
            ));
        }
        found.push(Placed {
            record,
            at: at as u64,
            length: same as u64,
            whole: same == bytes.len(),
        });
        at += same;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(session: u32, number: u32) -> Record {
        Record {
            client: 7,
            session,
            number,
        }
    }

    #[test]
    fn what_was_written_is_named_and_a_cut_is_told() {
        let (first, second) = (record(1, 0), record(2, 0));
        let mut content = first.bytes();
        content.truncate(content.len() - 1);
        let cut = content.len() as u64;
        content.extend(second.bytes());
        let found = decode(&content).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].record, found[0].length, found[0].whole),
            (first, cut, false)
        );
        assert_eq!(
            (found[1].record, found[1].at, found[1].whole),
            (second, cut, true)
        );
        let mut headless = first.bytes();
        headless.truncate(9);
        headless.extend(second.bytes());
        assert_eq!(decode(&headless).unwrap().len(), 1);
    }

    #[test]
    fn a_wrong_byte_is_found_wherever_it_stands() {
        let mut content = record(1, 0).bytes();
        content.extend(record(1, 1).bytes());
        for at in (0..content.len()).step_by(37) {
            let mut bad = content.clone();
            bad[at] ^= 0x55;
            let found = decode(&bad);
            let all = found
                .is_ok_and(|found| found.len() == 2 && found.iter().all(|placed| placed.whole));
            assert!(!all, "byte {at}");
        }
    }
}
