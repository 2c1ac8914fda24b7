//! The invariants of the design, checked over all rows: what the tests of the rules and an offline check of a data folder share.
//!
//! Slow and plain on purpose, and nothing of it shares code with the rules that it checks, keys and decoding aside. Changes no row. Reads
//! everything, and keeps in memory the ids and places that are compared.

use crate::bucket;
use crate::command::Layout;
use crate::key::{self, Place};
use crate::quota;
use crate::record::{
    AllocationRow, BlockRow, BucketRow, DedupeRow, DeletedFileRow, DirRow, FileRow, ListRow,
    MarkRow, OpenRow, PlaceRow, RenewalRow, VolumeRow,
};
use crate::reply::Phase;
use crate::rows::{Keyspace, Rows, RowsError};
use crate::session;
use crate::table;
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// Rows read at once.
const PAGE: usize = 1_000;

/// A rule that the rows break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant by its name in the design (`I1` to `I12`), or `rows` for rows that contradict each other in another way.
    pub rule: &'static str,
    /// What is wrong, with ids and names.
    pub detail: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

/// A block that a file's list names, with what the file needs of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedBlock {
    /// Container.
    pub container: u64,
    /// Number in the container.
    pub local: u64,
    /// The number of the datanode that holds it.
    pub holder: u32,
    /// Bytes that the block must have from its start.
    pub length: u64,
    /// The file: bucket id, parent id and name.
    pub file: String,
}

/// All that the rows break; empty when they hold every invariant that rows alone can show: I1, I7, I9 and I12, and that lists, places,
/// indexes and remembered answers agree with each other.
///
/// # Errors
/// [`RowsError`] when the store fails. A row that does not decode is a violation, not an error.
pub fn check(rows: &dyn Rows) -> Result<Vec<Violation>, RowsError> {
    let mut checker = Checker {
        rows,
        found: Vec::new(),
    };
    for part in [
        Checker::places,
        Checker::owners,
        Checker::lists,
        Checker::usage,
        Checker::allocations,
        Checker::answers,
    ] {
        match part(&mut checker) {
            Err(error @ RowsError::Corrupt { .. }) => checker.broken("rows", error.to_string()),
            other => other?,
        }
    }
    Ok(checker.found)
}

/// Every block that the list of a file names, in the order of the files. A block that two lists name comes twice.
///
/// # Errors
/// [`RowsError`] when the store fails or a row does not decode.
pub fn published(rows: &dyn Rows) -> Result<Vec<PublishedBlock>, RowsError> {
    let mut found = Vec::new();
    for (key, file) in all::<FileRow>(rows, Keyspace::Files)? {
        let place = place_in(Keyspace::Files, &key)?;
        let list = list_of(rows, &file)?;
        for (at, (_, row)) in list.iter().enumerate() {
            let end = list.get(at + 1).map_or(file.size, |(_, next)| next.start);
            let block: Option<BlockRow> = block_row(rows, row)?;
            found.push(PublishedBlock {
                container: row.container,
                local: row.local,
                holder: block.map_or(0, |block| block.holder),
                length: row.start_in_block + end.saturating_sub(row.start),
                file: shown(&place),
            });
        }
    }
    Ok(found)
}

/// The ids (container, local) of all blocks that were given out and are not forgotten.
///
/// # Errors
/// [`RowsError`] when the store fails or a key is too short.
pub fn given_blocks(rows: &dyn Rows) -> Result<BTreeSet<(u64, u64)>, RowsError> {
    let mut found = BTreeSet::new();
    each(rows, Keyspace::Blocks, |key, _| {
        let id = (
            number(Keyspace::Blocks, key, 0)?,
            number(Keyspace::Blocks, key, 8)?,
        );
        found.insert(id);
        Ok(())
    })?;
    Ok(found)
}

fn shown(place: &Place) -> String {
    format!(
        "{:?} in directory {} of bucket {}",
        place.name, place.parent, place.bucket
    )
}

/// Gives every row of a keyspace to `take`, in order.
fn each(
    rows: &dyn Rows,
    keyspace: Keyspace,
    mut take: impl FnMut(&Bytes, Bytes) -> Result<(), RowsError>,
) -> Result<(), RowsError> {
    let mut from = Vec::new();
    loop {
        let page = rows.range(keyspace, &from, None, PAGE)?;
        let more = page.len() == PAGE;
        for (key, value) in page {
            take(&key, value)?;
            from.clear();
            from.extend_from_slice(&key);
            from.push(0);
        }
        if !more {
            return Ok(());
        }
    }
}

/// All rows of one keyspace, decoded.
fn all<M: Message + Default>(
    rows: &dyn Rows,
    keyspace: Keyspace,
) -> Result<Vec<(Bytes, M)>, RowsError> {
    let mut found = Vec::new();
    each(rows, keyspace, |key, value| {
        found.push((key.clone(), table::decode(keyspace, &value)?));
        Ok(())
    })?;
    Ok(found)
}

fn number(keyspace: Keyspace, key: &[u8], at: usize) -> Result<u64, RowsError> {
    key::number_at(key, at).ok_or_else(|| table::corrupt(keyspace, "a key is too short"))
}

fn place_in(keyspace: Keyspace, key: &[u8]) -> Result<Place, RowsError> {
    Ok(Place {
        bucket: number(keyspace, key, 0)?,
        parent: number(keyspace, key, 8)?,
        name: table::name_in(keyspace, key)?,
    })
}

fn list_of(rows: &dyn Rows, file: &FileRow) -> Result<Vec<(u64, ListRow)>, RowsError> {
    let prefix = key::two(file.object_id, file.generation);
    table::below(rows, Keyspace::Lists, &prefix, &prefix, usize::MAX)?
        .into_iter()
        .map(|(key, value)| {
            Ok((
                number(Keyspace::Lists, &key, 16)?,
                table::decode(Keyspace::Lists, &value)?,
            ))
        })
        .collect()
}

fn block_row(rows: &dyn Rows, listed: &ListRow) -> Result<Option<BlockRow>, RowsError> {
    table::read(
        rows,
        Keyspace::Blocks,
        &key::two(listed.container, listed.local),
    )
}

struct Checker<'a> {
    rows: &'a dyn Rows,
    found: Vec<Violation>,
}

impl Checker<'_> {
    fn broken(&mut self, rule: &'static str, detail: impl Into<String>) {
        self.found.push(Violation {
            rule,
            detail: detail.into(),
        });
    }

    fn expect(&mut self, holds: bool, rule: &'static str, detail: impl FnOnce() -> String) {
        if !holds {
            self.broken(rule, detail());
        }
    }

    /// What stands in one of two sets alone.
    fn same<T: Ord + std::fmt::Debug>(
        &mut self,
        rule: &'static str,
        what: &str,
        found: &BTreeSet<T>,
        expected: &BTreeSet<T>,
    ) {
        for odd in found.difference(expected) {
            self.broken(rule, format!("{what}: {odd:?} should not be there"));
        }
        for odd in expected.difference(found) {
            self.broken(rule, format!("{what}: {odd:?} is missing"));
        }
    }

    /// Files and directories stand where their places say, and nothing else does; no two files share an identity.
    fn places(&mut self) -> Result<(), RowsError> {
        let rows = self.rows;
        let mut files = BTreeMap::new();
        for (key, row) in all::<FileRow>(rows, Keyspace::Files)? {
            let place = place_in(Keyspace::Files, &key)?;
            if table::dir(rows, &place)?.is_some() {
                self.broken(
                    "rows",
                    format!("{} is a file and a directory", shown(&place)),
                );
            }
            if let Some(other) = files.insert(row.object_id, place) {
                self.broken(
                    "rows",
                    format!(
                        "two files are file {}: one is {}",
                        row.object_id,
                        shown(&other)
                    ),
                );
            }
        }
        let mut places = BTreeSet::new();
        for (key, row) in all::<PlaceRow>(rows, Keyspace::FilePlaces)? {
            places.insert((number(Keyspace::FilePlaces, &key, 0)?, Place::from(row)));
        }
        let files = files.into_iter().collect();
        self.same("I12", "places of files", &places, &files);
        let mut dirs = BTreeSet::new();
        for (key, row) in all::<DirRow>(rows, Keyspace::Dirs)? {
            dirs.insert((row.object_id, place_in(Keyspace::Dirs, &key)?));
        }
        let mut parents = BTreeSet::new();
        for (key, row) in all::<PlaceRow>(rows, Keyspace::DirParents)? {
            parents.insert((number(Keyspace::DirParents, &key, 8)?, Place::from(row)));
        }
        self.same("rows", "places of directories", &parents, &dirs);
        Ok(())
    }

    /// I1, I12, and the rows of sessions that belong together.
    fn owners(&mut self) -> Result<(), RowsError> {
        let rows = self.rows;
        let mut owners = BTreeSet::new();
        for (key, file) in all::<FileRow>(rows, Keyspace::Files)? {
            let place = place_in(Keyspace::Files, &key)?;
            if let Some(owner) = file.append_owner {
                let open = table::open(rows, place.bucket, owner)?;
                let appends = open
                    .as_ref()
                    .is_some_and(|open| open.append.is_some() && open.file == file.object_id);
                self.expect(appends, "I1", || {
                    format!(
                        "{} is owned by {owner}, which is no append session of it",
                        shown(&place)
                    )
                });
                self.session_of(&place, owner, open);
                self.expect(owners.insert(owner), "I1", || {
                    format!("session {owner} owns two files")
                });
            }
            if let Some(session) = file.hsync_session {
                let open = table::open(rows, place.bucket, session)?;
                self.session_of(&place, session, open);
            }
        }
        let mut named = BTreeSet::new();
        each(rows, Keyspace::OpenByName, |key, _| {
            named.insert(key.to_vec());
            Ok(())
        })?;
        let leased: BTreeSet<Vec<u8>> = all::<RenewalRow>(rows, Keyspace::Renewals)?
            .into_iter()
            .map(|(key, _)| key.to_vec())
            .collect();
        let (mut expected_names, mut expected_leases) = (BTreeSet::new(), BTreeSet::new());
        for (key, open) in all::<OpenRow>(rows, Keyspace::Open)? {
            let id = number(Keyspace::Open, &key, 8)?;
            self.expect(
                number(Keyspace::Open, &key, 0)? == open.place.bucket,
                "rows",
                || format!("session {id} is in two buckets"),
            );
            if session::phase(&open) == Phase::Invalidated {
                continue;
            }
            self.expect(open.ended.is_none(), "I4", || {
                format!("session {id} is over and may write")
            });
            if open.append.is_none() {
                expected_names.insert(key::open_by_name(&open.place.clone().into(), id));
            } else {
                self.expect(owners.contains(&id), "I1", || {
                    format!("append session {id} owns no file")
                });
                expected_leases.insert(key.to_vec());
            }
        }
        self.same("rows", "sessions by name", &named, &expected_names);
        self.same("rows", "leases", &leased, &expected_leases);
        if table::layout(rows)? > 0 {
            let counted = table::writers(rows)?;
            self.expect(usize::try_from(counted) == Ok(named.len()), "rows", || {
                format!(
                    "{counted} ordinary writers are counted, {} are open",
                    named.len()
                )
            });
        }
        let counted = table::leases(rows)?;
        self.expect(usize::try_from(counted) == Ok(leased.len()), "rows", || {
            format!("{counted} leases are counted, {} run", leased.len())
        });
        Ok(())
    }

    /// The session that a file names is open, and where the file is.
    fn session_of(&mut self, place: &Place, session: u64, open: Option<OpenRow>) {
        let live = open.filter(|open| session::phase(open) != Phase::Invalidated);
        let Some(open) = live else {
            return self.broken(
                "I1",
                format!("session {session} of {} is not open", shown(place)),
            );
        };
        let stands = Place::from(open.place);
        self.expect(stands == *place, "I12", || {
            format!(
                "session {session} stands at {}, its file at {}",
                shown(&stands),
                shown(place)
            )
        });
    }

    /// Lists are gapless and ascending, and a block stands in one list at most, once (I2, I12).
    fn lists(&mut self) -> Result<(), RowsError> {
        let rows = self.rows;
        let mut listed = BTreeSet::new();
        for (key, row) in all::<ListRow>(rows, Keyspace::Lists)? {
            let id = (row.container, row.local);
            self.expect(listed.insert(id), "I12", || {
                format!("block {id:?} stands in two lists")
            });
            let here = (
                number(Keyspace::Lists, &key, 0)?,
                number(Keyspace::Lists, &key, 8)?,
                number(Keyspace::Lists, &key, 16)?,
            );
            let says = block_row(rows, &row)?
                .and_then(|block| block.listed)
                .map(|at| (at.file, at.generation, at.sequence));
            self.expect(says == Some(here), "I2", || {
                format!("block {id:?} is listed at {here:?} and says {says:?}")
            });
        }
        for (key, file) in all::<FileRow>(rows, Keyspace::Files)? {
            let place = place_in(Keyspace::Files, &key)?;
            self.list(&place, &file)?;
        }
        Ok(())
    }

    fn list(&mut self, place: &Place, file: &FileRow) -> Result<(), RowsError> {
        let list = list_of(self.rows, file)?;
        self.expect(
            u64::try_from(list.len()) == Ok(file.block_count),
            "I2",
            || {
                format!(
                    "{} has {} blocks, its list {}",
                    shown(place),
                    file.block_count,
                    list.len()
                )
            },
        );
        let mut before = None;
        for (expected, (sequence, row)) in (0u64..).zip(&list) {
            let follows = before.map_or(row.start == 0, |before| row.start > before);
            self.expect(*sequence == expected && follows, "I2", || {
                format!(
                    "the list of {} has {row:?} at {sequence} behind {before:?}",
                    shown(place)
                )
            });
            before = Some(row.start);
        }
        let ends = before.map_or(file.size == 0, |start| start < file.size);
        self.expect(ends, "I2", || {
            format!(
                "the list of {} ends at {before:?}, the file at {}",
                shown(place),
                file.size
            )
        });
        let replicated = quota::replicated(&file.replication, file.size);
        self.expect(
            file.size == 0 || file.replicated_size == replicated,
            "I7",
            || {
                format!(
                    "{} is charged {} for {replicated} bytes",
                    shown(place),
                    file.replicated_size
                )
            },
        );
        Ok(())
    }

    /// I7.
    fn usage(&mut self) -> Result<(), RowsError> {
        let rows = self.rows;
        let mut buckets = BTreeMap::new();
        let mut of_volume: BTreeMap<String, u64> = BTreeMap::new();
        for (_, row) in all::<BucketRow>(rows, Keyspace::Buckets)? {
            *of_volume.entry(row.volume.clone()).or_default() += 1;
            buckets.insert(row.object_id, (row, 0u64, 0u64));
        }
        for (key, file) in all::<FileRow>(rows, Keyspace::Files)? {
            let place = place_in(Keyspace::Files, &key)?;
            // What a deleted bucket left behind waits for the sweep and is charged to nobody.
            if let Some((bucket, bytes, names)) = buckets.get_mut(&place.bucket) {
                *bytes += file.replicated_size;
                *names += 1;
                let by_key = bucket::layout(bucket) != Layout::FileSystemOptimized;
                self.expect((place.parent == 0) == by_key, "rows", || {
                    format!("{} does not fit its bucket's layout", shown(&place))
                });
            }
        }
        for (key, _) in all::<DirRow>(rows, Keyspace::Dirs)? {
            if let Some((_, _, names)) = buckets.get_mut(&number(Keyspace::Dirs, &key, 0)?) {
                *names += 1;
            }
        }
        for (row, bytes, names) in buckets.values() {
            self.expect(
                (row.used_bytes, row.used_names) == (*bytes, *names),
                "I7",
                || {
                    format!(
                        "bucket {}/{} is charged {} bytes and {} names, it has {bytes} and {names}",
                        row.volume, row.bucket, row.used_bytes, row.used_names
                    )
                },
            );
        }
        for (key, row) in all::<VolumeRow>(rows, Keyspace::Volumes)? {
            let name = String::from_utf8_lossy(&key).into_owned();
            let has = of_volume.remove(&name).unwrap_or(0);
            self.expect(row.used_names == has, "I7", || {
                format!(
                    "volume {name} is charged {} buckets, it has {has}",
                    row.used_names
                )
            });
        }
        for (name, _) in of_volume {
            self.broken(
                "rows",
                format!("there are buckets in volume {name}, which is not there"),
            );
        }
        Ok(())
    }

    /// I9: a block is listed, or a session's to fill, or handed to reclamation.
    fn allocations(&mut self) -> Result<(), RowsError> {
        let rows = self.rows;
        let mut held = BTreeSet::new();
        for (key, row) in all::<AllocationRow>(rows, Keyspace::Allocations)? {
            let at = |at| number(Keyspace::Allocations, &key, at);
            let (bucket, session, local) = (at(0)?, at(8)?, at(16)?);
            let open = table::open(rows, bucket, session)?;
            self.expect(open.is_some(), "I9", || {
                format!("block {local} belongs to session {session}, which is not there")
            });
            let released = open
                .and_then(|open| open.ended)
                .is_some_and(|ended| ended.released);
            self.expect(!released, "I9", || {
                format!("block {local} belongs to session {session}, whose blocks were released")
            });
            held.insert((row.container, local));
        }
        for (_, row) in all::<DeletedFileRow>(rows, Keyspace::DeletedFiles)? {
            for block in row.unused {
                let id = (block.container, block.local);
                self.expect(held.insert(id), "I9", || {
                    format!("unused block {id:?} is given back twice")
                });
            }
        }
        for (key, row) in all::<BlockRow>(rows, Keyspace::Blocks)? {
            let id = (
                number(Keyspace::Blocks, &key, 0)?,
                number(Keyspace::Blocks, &key, 8)?,
            );
            self.expect(row.listed.is_some() || held.contains(&id), "I9", || {
                format!("block {id:?} is lost")
            });
        }
        Ok(())
    }

    /// The table of answers, its order of expiry and its count agree.
    fn answers(&mut self) -> Result<(), RowsError> {
        let rows = self.rows;
        let mut entries = 0u64;
        let mut ordered = BTreeSet::new();
        let mut marks = BTreeSet::new();
        each(rows, Keyspace::Dedupe, |at, value| {
            let client = at.first().copied().unwrap_or_default();
            if at.len() == usize::from(client) + 1 {
                table::decode::<MarkRow>(Keyspace::Dedupe, &value)?;
                marks.insert(at.to_vec());
            } else {
                entries += 1;
                let row: DedupeRow = table::decode(Keyspace::Dedupe, &value)?;
                ordered.insert(key::expiry(row.lease_ms, at));
            }
            Ok(())
        })?;
        let mut found = BTreeSet::new();
        let mut found_marks = Vec::new();
        each(rows, Keyspace::DedupeOrder, |order, _| {
            match order.get(8..) {
                Some(mark) if marks.contains(mark) => found_marks.push(mark.to_vec()),
                _ => {
                    found.insert(order.to_vec());
                }
            }
            Ok(())
        })?;
        self.same("rows", "order of answers", &found, &ordered);
        let twice = found_marks.len();
        let found_marks: BTreeSet<Vec<u8>> = found_marks.into_iter().collect();
        self.expect(found_marks.len() == twice, "rows", || {
            "a client's mark stands twice in the order of answers".to_owned()
        });
        self.same("rows", "order of marks", &found_marks, &marks);
        let count = match rows.get(Keyspace::Meta, key::DEDUPE_COUNT)? {
            Some(row) => number(Keyspace::Meta, &row, 0)?,
            None => 0,
        };
        self.expect(count == entries, "rows", || {
            format!("{count} answers are counted, {entries} are there")
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
