//! Every kind of damage to the rows is noticed and named.

use super::*;
use crate::command::{CreateMode, PublishKind};
use crate::rows::Change;
use crate::testing::{MemoryRows, World, block, publish};

/// A directory with a closed file of two blocks, a file that an append session has synced, and an ordinary writer.
fn world() -> World {
    let mut world = World::fso();
    world.mkdir("d").unwrap();
    world.file("d/closed", &[10, 20]);
    let admitted = world.create("open", CreateMode::IfMissing);
    let given = world.allocate(admitted.handle);
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        100,
        vec![block(&given, 100)],
    ));
    world.open("ordinary");
    world
}

fn rules(rows: &MemoryRows) -> BTreeSet<&'static str> {
    let found = check(rows).unwrap();
    found.into_iter().map(|violation| violation.rule).collect()
}

fn first(rows: &MemoryRows, keyspace: Keyspace) -> (Bytes, Bytes) {
    rows.range(keyspace, &[], None, 1).unwrap().remove(0)
}

fn without(rows: &MemoryRows, keyspace: Keyspace) -> MemoryRows {
    let mut rows = rows.clone();
    let (key, _) = first(&rows, keyspace);
    rows.apply(vec![Change {
        keyspace,
        key,
        value: None,
    }]);
    rows
}

fn edited<M: Message + Default>(
    rows: &MemoryRows,
    keyspace: Keyspace,
    edit: impl FnOnce(&mut M),
) -> MemoryRows {
    let mut rows = rows.clone();
    let (key, value) = first(&rows, keyspace);
    let mut row = M::decode(value).unwrap();
    edit(&mut row);
    rows.put(keyspace, &key, &row.encode_to_vec());
    rows
}

#[test]
fn sound_rows_break_nothing() {
    let world = world();
    assert_eq!(check(&world.rows), Ok(Vec::new()));
    let mut lengths: Vec<u64> = published(&world.rows)
        .unwrap()
        .into_iter()
        .map(|block| block.length)
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [10, 20, 100]);
}

#[test]
fn a_row_that_is_lost_is_noticed_in_every_keyspace() {
    let rows = world().rows;
    for (keyspace, rule) in [
        (Keyspace::Volumes, "rows"),
        (Keyspace::Buckets, "I7"),
        (Keyspace::Dirs, "rows"),
        (Keyspace::DirParents, "rows"),
        (Keyspace::Files, "I7"),
        (Keyspace::FilePlaces, "I12"),
        (Keyspace::Lists, "I2"),
        (Keyspace::Blocks, "I2"),
        (Keyspace::Open, "I1"),
        (Keyspace::Renewals, "rows"),
        (Keyspace::OpenByName, "rows"),
        (Keyspace::Dedupe, "rows"),
        (Keyspace::DedupeOrder, "rows"),
    ] {
        let found = rules(&without(&rows, keyspace));
        assert!(found.contains(rule), "{keyspace:?}: {found:?}");
    }
}

#[test]
fn a_row_that_does_not_decode_is_noticed() {
    let mut rows = world().rows;
    let (key, _) = first(&rows, Keyspace::Files);
    rows.put(Keyspace::Files, &key, b"\xff\xff");
    assert!(rules(&rows).contains("rows"));
    assert!(published(&rows).is_err());
}

#[test]
fn contradictions_are_named_by_their_invariant() {
    let rows = world().rows;
    let expect = |broken: MemoryRows, rule: &str| {
        let found = check(&broken).unwrap();
        let rules: BTreeSet<_> = found.iter().map(|violation| violation.rule).collect();
        assert!(rules.contains(rule), "{rule}: {found:?}");
    };
    expect(
        edited(&rows, Keyspace::Files, |row: &mut FileRow| {
            row.append_owner = Some(4711);
        }),
        "I1",
    );
    expect(
        edited(&rows, Keyspace::Lists, |row: &mut ListRow| row.start = 7),
        "I2",
    );
    expect(
        edited(&rows, Keyspace::Lists, |row: &mut ListRow| row.local += 1),
        "I2",
    );
    expect(
        edited(&rows, Keyspace::Buckets, |row: &mut BucketRow| {
            row.used_bytes += 1;
        }),
        "I7",
    );
    expect(
        edited(&rows, Keyspace::Blocks, |row: &mut BlockRow| {
            row.listed = None;
        }),
        "I9",
    );
    expect(
        edited(&rows, Keyspace::Open, |row: &mut OpenRow| {
            row.place.name = "elsewhere".to_owned();
        }),
        "I12",
    );
}
