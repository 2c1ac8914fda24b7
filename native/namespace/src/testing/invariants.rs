//! The invariants of the design, checked over all rows. Slow and plain on purpose.

use super::MemoryRows;
use crate::bucket;
use crate::command::Layout;
use crate::key::{self, Place};
use crate::quota;
use crate::record::{
    AllocationRow, BlockRow, BucketRow, DedupeRow, DeletedFileRow, DirRow, FileRow, ListRow,
    MarkRow, OpenRow, PlaceRow, RenewalRow, VolumeRow,
};
use crate::reply::Phase;
use crate::rows::{Keyspace, Rows};
use crate::session;
use crate::table;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// All rows of one keyspace, decoded.
fn all<M: Message + Default>(rows: &MemoryRows, keyspace: Keyspace) -> Vec<(Vec<u8>, M)> {
    rows.range(keyspace, &[], None, usize::MAX)
        .unwrap()
        .into_iter()
        .map(|(key, value)| (key.to_vec(), M::decode(value).unwrap()))
        .collect()
}

fn number(key: &[u8], at: usize) -> u64 {
    key::number_at(key, at).unwrap()
}

fn place_in(keyspace: Keyspace, key: &[u8]) -> Place {
    Place {
        bucket: number(key, 0),
        parent: number(key, 8),
        name: table::name_in(keyspace, key).unwrap(),
    }
}

/// Panics when the rows break an invariant.
pub(crate) fn check(rows: &MemoryRows) {
    places(rows);
    owners(rows);
    lists(rows);
    usage(rows);
    allocations(rows);
    answers(rows);
}

/// Files and directories stand where their places say, and nothing else does; no two files share an identity.
fn places(rows: &MemoryRows) {
    let files: BTreeMap<u64, Place> = all::<FileRow>(rows, Keyspace::Files)
        .into_iter()
        .map(|(key, row)| (row.object_id, place_in(Keyspace::Files, &key)))
        .collect();
    assert_eq!(
        files.len(),
        all::<FileRow>(rows, Keyspace::Files).len(),
        "two files share an identity"
    );
    let places: BTreeMap<u64, Place> = all::<PlaceRow>(rows, Keyspace::FilePlaces)
        .into_iter()
        .map(|(key, row)| (number(&key, 0), row.into()))
        .collect();
    assert_eq!(files, places, "file places");
    let dirs: BTreeMap<u64, Place> = all::<DirRow>(rows, Keyspace::Dirs)
        .into_iter()
        .map(|(key, row)| (row.object_id, place_in(Keyspace::Dirs, &key)))
        .collect();
    let parents: BTreeMap<u64, Place> = all::<PlaceRow>(rows, Keyspace::DirParents)
        .into_iter()
        .map(|(key, row)| (number(&key, 8), row.into()))
        .collect();
    assert_eq!(dirs, parents, "directory places");
    for place in files.values() {
        assert!(
            table::dir(rows, place).unwrap().is_none(),
            "{place:?} is a file and a directory"
        );
    }
}

/// I1, and the rows of sessions that belong together.
fn owners(rows: &MemoryRows) {
    let mut owners = BTreeSet::new();
    for (key, file) in all::<FileRow>(rows, Keyspace::Files) {
        let place = place_in(Keyspace::Files, &key);
        if let Some(owner) = file.append_owner {
            let open = table::open(rows, place.bucket, owner)
                .unwrap()
                .expect("I1: the owner is open");
            assert!(
                open.append.is_some() && open.file == file.object_id,
                "I1: the owner's kind and file"
            );
            assert_ne!(
                session::phase(&open),
                Phase::Invalidated,
                "I1: the owner's phase"
            );
            assert_eq!(
                Place::from(open.place),
                place,
                "I12: the session is where its file is"
            );
            assert!(owners.insert(owner), "I1: two files of one owner");
        }
        if let Some(session) = file.hsync_session {
            let open = table::open(rows, place.bucket, session)
                .unwrap()
                .expect("the hsync session is open");
            assert_ne!(
                session::phase(&open),
                Phase::Invalidated,
                "the hsync session's phase"
            );
            assert_eq!(
                Place::from(open.place),
                place,
                "I12: the hsync session is where its file is"
            );
        }
    }
    let named: BTreeSet<Vec<u8>> = rows
        .range(Keyspace::OpenByName, &[], None, usize::MAX)
        .unwrap()
        .into_iter()
        .map(|(key, _)| key.to_vec())
        .collect();
    let leased: BTreeSet<Vec<u8>> = all::<RenewalRow>(rows, Keyspace::Renewals)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    let (mut expected_names, mut expected_leases) = (BTreeSet::new(), BTreeSet::new());
    for (key, open) in all::<OpenRow>(rows, Keyspace::Open) {
        let id = number(&key, 8);
        assert_eq!(number(&key, 0), open.place.bucket);
        if session::phase(&open) == Phase::Invalidated {
            continue;
        }
        expected_names.insert(key::open_by_name(&open.place.clone().into(), id));
        if open.append.is_some() {
            assert!(owners.contains(&id), "I1: session {id} owns no file");
            expected_leases.insert(key);
        }
    }
    assert_eq!(named, expected_names, "the index by name");
    assert_eq!(leased, expected_leases, "the leases");
}

/// Lists are gapless and ascending, and a block stands in one list at most, once.
fn lists(rows: &MemoryRows) {
    let mut listed = BTreeSet::new();
    for (key, row) in all::<ListRow>(rows, Keyspace::Lists) {
        assert!(
            listed.insert((row.container, row.local)),
            "a block stands in two lists"
        );
        let block: BlockRow =
            table::read(rows, Keyspace::Blocks, &key::two(row.container, row.local))
                .unwrap()
                .unwrap();
        let at = block.listed.expect("a listed block says where");
        assert_eq!(
            (at.file, at.generation, at.sequence),
            (number(&key, 0), number(&key, 8), number(&key, 16))
        );
    }
    for (_, file) in all::<FileRow>(rows, Keyspace::Files) {
        let prefix = key::two(file.object_id, file.generation);
        let list = table::below(rows, Keyspace::Lists, &prefix, &prefix, usize::MAX).unwrap();
        assert_eq!(
            u64::try_from(list.len()).unwrap(),
            file.block_count,
            "the list's length"
        );
        let mut before = None;
        for (sequence, (key, value)) in list.iter().enumerate() {
            assert_eq!(number(key, 16), u64::try_from(sequence).unwrap());
            let row = ListRow::decode(value.clone()).unwrap();
            match before {
                None => assert_eq!(row.start, 0),
                Some(before) => assert!(row.start > before, "a block without bytes"),
            }
            before = Some(row.start);
        }
        assert!(
            before.is_none_or(|start| start < file.size) && (before.is_some() || file.size == 0)
        );
        if file.size > 0 {
            assert_eq!(
                file.replicated_size,
                quota::replicated(&file.replication, file.size)
            );
        }
    }
}

/// I7.
fn usage(rows: &MemoryRows) {
    let mut buckets = BTreeMap::new();
    let mut of_volume: BTreeMap<String, u64> = BTreeMap::new();
    for (_, row) in all::<BucketRow>(rows, Keyspace::Buckets) {
        *of_volume.entry(row.volume.clone()).or_default() += 1;
        buckets.insert(row.object_id, (row, 0u64, 0u64));
    }
    for (key, file) in all::<FileRow>(rows, Keyspace::Files) {
        let place = place_in(Keyspace::Files, &key);
        // What a deleted bucket left behind waits for the sweep and is charged to nobody.
        if let Some((bucket, bytes, names)) = buckets.get_mut(&place.bucket) {
            *bytes += file.replicated_size;
            *names += 1;
            assert_eq!(
                place.parent == 0,
                bucket::layout(bucket) != Layout::FileSystemOptimized
            );
        }
    }
    for (key, _) in all::<DirRow>(rows, Keyspace::Dirs) {
        if let Some((_, _, names)) = buckets.get_mut(&number(&key, 0)) {
            *names += 1;
        }
    }
    for (row, bytes, names) in buckets.values() {
        assert_eq!(
            (row.used_bytes, row.used_names),
            (*bytes, *names),
            "I7: bucket {}",
            row.bucket
        );
    }
    for (key, row) in all::<VolumeRow>(rows, Keyspace::Volumes) {
        let name = String::from_utf8(key).unwrap();
        assert_eq!(
            row.used_names,
            of_volume.get(&name).copied().unwrap_or(0),
            "buckets of {name}"
        );
    }
}

/// I9: a block is listed, or a session's to fill, or handed to reclamation.
fn allocations(rows: &MemoryRows) {
    let mut held = BTreeSet::new();
    for (key, row) in all::<AllocationRow>(rows, Keyspace::Allocations) {
        let (bucket, session, local) = (number(&key, 0), number(&key, 8), number(&key, 16));
        assert!(
            table::open(rows, bucket, session).unwrap().is_some(),
            "an allocation without a session"
        );
        held.insert((row.container, local));
    }
    for (_, row) in all::<DeletedFileRow>(rows, Keyspace::DeletedFiles) {
        for block in row.unused {
            assert!(
                held.insert((block.container, block.local)),
                "an unused block is given back twice"
            );
        }
    }
    for (key, row) in all::<BlockRow>(rows, Keyspace::Blocks) {
        let id = (number(&key, 0), number(&key, 8));
        assert!(
            row.listed.is_some() || held.contains(&id),
            "I9: block {id:?} is lost"
        );
    }
}

/// The table of answers, its order of expiry and its count agree.
fn answers(rows: &MemoryRows) {
    let mut entries = 0u64;
    let mut ordered = BTreeSet::new();
    let mut marks = BTreeSet::new();
    for (at, value) in rows.range(Keyspace::Dedupe, &[], None, usize::MAX).unwrap() {
        if at.len() == usize::from(at[0]) + 1 {
            MarkRow::decode(value).unwrap();
            marks.insert(at.to_vec());
        } else {
            entries += 1;
            ordered.insert(key::expiry(DedupeRow::decode(value).unwrap().lease_ms, &at));
        }
    }
    let mut found = BTreeSet::new();
    let mut found_marks = BTreeSet::new();
    for (order, _) in rows
        .range(Keyspace::DedupeOrder, &[], None, usize::MAX)
        .unwrap()
    {
        if marks.contains(&order[8..]) {
            assert!(found_marks.insert(order[8..].to_vec()));
        } else {
            found.insert(order.to_vec());
        }
    }
    assert_eq!(found, ordered, "the order of expiry");
    assert_eq!(found_marks, marks, "the order of marks");
    let count = rows
        .get(Keyspace::Meta, key::DEDUPE_COUNT)
        .unwrap()
        .map_or(0, |value| number(&value, 0));
    assert_eq!(count, entries, "the number of answers");
}
