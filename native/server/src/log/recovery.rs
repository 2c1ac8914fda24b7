//! What a log folder holds after a crash: reads every record once and tells a torn end from damage.
//!
//! Zeros up to the end of the last segment are room that was made ahead, and are cut like a torn end, but are none.
//! A record that does not read back is a torn end only if it is in the last segment and its index is above every durable index that
//! is known: from a record behind it, or from whoever opens the log. Everything else was fsynced once, so something has destroyed it:
//! the open is refused.

use super::LogError;
use super::record::{self, Found, Header, Record};
use super::segment::{self, Head, Segment};
use crate::files::{self, DurableFile};
use bytes::Bytes;
use std::path::{Path, PathBuf};

/// The end of the log that a crash left incomplete, and that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub path: PathBuf,
    /// Bytes that were kept.
    pub kept: u64,
    /// Bytes that were cut.
    pub cut: u64,
}

/// The log as it was found.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// All segments, none empty of records but perhaps the last.
    pub(crate) segments: Vec<Segment>,
    /// Term of the last record; 0 without one.
    pub(crate) last_term: u64,
    /// Index of the last record; one less than the first segment's index without one.
    pub(crate) last_index: u64,
    /// What was cut.
    pub(crate) torn: Option<Torn>,
}

/// Reads and checks the whole log, and cuts a torn end off it, durably. Records up to `floor` are known to have been durable.
pub(crate) fn recover(dir: &Path, floor: u64) -> Result<Recovered, LogError> {
    let mut segments = segment::list(dir)?;
    let mut torn = None;
    let mut end: Option<(u64, u64)> = None;
    for at in 0..segments.len() {
        let last = at + 1 == segments.len();
        let mut segment = segments[at].clone();
        let bytes = Bytes::from(
            std::fs::read(&segment.path).map_err(LogError::io("reading", &segment.path))?,
        );
        match check_header(&segment, &bytes) {
            Ok(nonce) => {
                segment.nonce = nonce;
                segments[at].nonce = nonce;
            }
            Err(bad) => {
                let torn_off = last
                    && matches!(bad, LogError::Damaged { .. })
                    && bytes.len() <= segment::HEADER;
                if torn_off && segment.first > floor {
                    // If the power brings the name back, the next open removes it again.
                    files::remove(&segment.path)
                        .map_err(LogError::io("removing", &segment.path))?;
                    torn = Some(Torn {
                        path: segment.path,
                        kept: 0,
                        cut: segment.bytes,
                    });
                    segments.pop();
                    break;
                }
                return Err(bad);
            }
        }
        if let Some((_, index)) = end
            && segment.first != index + 1
        {
            let detail = format!(
                "it begins at {}, the segment before ends at {index}",
                segment.first
            );
            return Err(LogError::Gap {
                path: segment.path,
                detail,
            });
        }
        let (term, before) = end.unwrap_or((0, segment.first.saturating_sub(1)));
        let scan = scan(&segment, &bytes, term, before)?;
        if scan.good < segment.bytes {
            let damaged = |detail| LogError::Damaged {
                path: segment.path.clone(),
                offset: scan.good,
                detail,
            };
            if !last {
                return Err(damaged(format!(
                    "{} (this is not the last segment)",
                    scan.why
                )));
            }
            let rest = &bytes[usize::try_from(scan.good).unwrap_or(bytes.len())..];
            let is_room = rest.iter().all(|byte| *byte == 0);
            let durable = if is_room {
                floor
            } else {
                highest_durable(rest, scan.index, segment.nonce).max(floor)
            };
            if durable > scan.index {
                return Err(damaged(format!(
                    "{}, but everything up to record {durable} was durable",
                    scan.why
                )));
            }
            cut(&segment, scan.good)?;
            torn = (!is_room).then(|| Torn {
                path: segment.path.clone(),
                kept: scan.good,
                cut: segment.bytes - scan.good,
            });
            segments[at].bytes = scan.good;
        }
        end = Some((scan.term, scan.index));
    }
    // What a killed process wrote and did not sync reads back, but is not durable yet: neither content nor name.
    if let Some(last) = segments.last() {
        sync(last)?;
        segment::sync_dir(dir)?;
    }
    let (last_term, last_index) = end.unwrap_or((0, 0));
    if last_index < floor {
        let detail =
            format!("it ends at {last_index}, but everything up to record {floor} was durable");
        return Err(LogError::Gap {
            path: dir.to_owned(),
            detail,
        });
    }
    Ok(Recovered {
        segments,
        last_term,
        last_index,
        torn,
    })
}

struct Scan {
    /// Bytes up to the end of the last good record.
    good: u64,
    /// Term of the last good record.
    term: u64,
    /// Index of the last good record.
    index: u64,
    /// Why the next one is not good.
    why: String,
}

/// Reads records until the end or the first bad one.
///
/// A record with a good checksum in a wrong place is damage wherever it stands: no crash writes one.
fn scan(segment: &Segment, bytes: &Bytes, term: u64, index: u64) -> Result<Scan, LogError> {
    let mut scan = Scan {
        good: segment::HEADER as u64,
        term,
        index,
        why: String::new(),
    };
    let mut at = segment::HEADER;
    loop {
        match Record::decode(&bytes.slice(at..), segment.nonce) {
            Found::Unknown(kind) => {
                return Err(LogError::Damaged {
                    path: segment.path.clone(),
                    offset: scan.good,
                    detail: format!("a record of kind {kind}, which a newer version wrote"),
                });
            }
            Found::End => return Ok(scan),
            Found::Bad(why) => return Ok(Scan { why, ..scan }),
            Found::Good(record, size) => {
                if record.index != scan.index + 1
                    || record.term < scan.term
                    || record.durable >= record.index
                {
                    let detail = format!(
                        "record {} of term {} stands behind record {} of term {}",
                        record.index, record.term, scan.index, scan.term
                    );
                    return Err(LogError::Damaged {
                        path: segment.path.clone(),
                        offset: scan.good,
                        detail,
                    });
                }
                at += size;
                scan = Scan {
                    good: at as u64,
                    term: record.term,
                    index: record.index,
                    why: String::new(),
                };
            }
        }
    }
}

/// Where the records of `segment` up to `index` end, and the term of the last of them; 0 without one.
pub(crate) fn end_of(segment: &Segment, index: u64) -> Result<(u64, u64), LogError> {
    let bytes = std::fs::read(&segment.path).map_err(LogError::io("reading", &segment.path))?;
    let end = usize::try_from(segment.bytes)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    let bytes = Bytes::from(bytes).slice(..end);
    let (mut at, mut term, mut reached) = (segment::HEADER, 0, segment.first.saturating_sub(1));
    while reached < index {
        match Record::decode(&bytes.slice(at..), segment.nonce) {
            Found::Good(record, size) => {
                at += size;
                term = record.term;
                reached = record.index;
            }
            _ => {
                return Err(LogError::Damaged {
                    path: segment.path.clone(),
                    offset: at as u64,
                    detail: format!("record {} does not read back", reached + 1),
                });
            }
        }
    }
    Ok((at as u64, term))
}

/// The highest durable index in the header of any record behind a bad one, wherever it begins.
fn highest_durable(bytes: &[u8], behind: u64, nonce: u64) -> u64 {
    (1..bytes.len())
        .map_while(|at| bytes.get(at..at + record::HEADER))
        .filter_map(|bytes| Header::decode(bytes, nonce))
        .filter(|header| header.index > behind && header.durable < header.index)
        .map(|header| header.durable)
        .max()
        .unwrap_or(0)
}

/// The nonce of a segment whose header is good.
fn check_header(segment: &Segment, bytes: &Bytes) -> Result<u64, LogError> {
    let damaged = |detail: String| LogError::Damaged {
        path: segment.path.clone(),
        offset: 0,
        detail,
    };
    match segment::read_header(bytes) {
        Head::Good { first, nonce } if first == segment.first => Ok(nonce),
        Head::Good { first, .. } => Err(damaged(format!(
            "the header says that the first index is {first}"
        ))),
        Head::Version(found) => Err(LogError::Version {
            path: segment.path.clone(),
            found,
            known: segment::VERSION,
        }),
        Head::Bad => Err(damaged("the header does not read back".to_owned())),
    }
}

/// Durable with the sync that ends the recovery.
fn cut(segment: &Segment, length: u64) -> Result<(), LogError> {
    let path = &segment.path;
    let file = DurableFile::append(path).map_err(LogError::io("opening", path))?;
    file.cut(length).map_err(LogError::io("cutting", path))
}

fn sync(segment: &Segment) -> Result<(), LogError> {
    let path = &segment.path;
    let file = DurableFile::append(path).map_err(LogError::io("opening", path))?;
    file.sync().map_err(LogError::io("syncing", path))
}
