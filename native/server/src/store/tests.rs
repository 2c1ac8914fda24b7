//! The disk store against its twin in memory, and against damage to its folder.

use super::memory::MemoryStore;
use super::*;
use append_namespace::rows::Keyspace;
use bytes::Bytes;
use proptest::prelude::*;
use std::fs;
use std::path::Path;

const CACHE: u64 = 64 << 10;

fn change(keyspace: Keyspace, key: &[u8], value: Option<&[u8]>) -> Change {
    Change {
        keyspace,
        key: Bytes::copy_from_slice(key),
        value: value.map(Bytes::copy_from_slice),
    }
}

fn mark(index: u64) -> Mark {
    Mark { term: 1, index }
}

fn dump(applied: &Applied) -> Vec<u8> {
    let mut out = Vec::new();
    checkpoint::write(&applied.rows, applied.mark, &mut out).unwrap();
    out
}

#[test]
fn a_batch_is_seen_whole_and_a_view_stands_still() {
    let dir = tempfile::tempdir().unwrap();
    let store = DiskStore::open(dir.path(), CACHE).unwrap();
    let before = store.applied();
    store
        .apply(
            mark(1),
            &[
                change(Keyspace::Files, b"a", Some(b"1")),
                change(Keyspace::Dirs, b"", Some(b"root")),
                change(Keyspace::Files, b"a", Some(b"2")),
            ],
        )
        .unwrap();
    let between = store.applied();
    store
        .apply(
            mark(2),
            &[
                change(Keyspace::Files, b"a", None),
                change(Keyspace::Files, b"b", Some(b"3")),
            ],
        )
        .unwrap();
    let after = store.applied();

    assert_eq!(before.rows.get(Keyspace::Files, b"a").unwrap(), None);
    assert_eq!(
        between.rows.get(Keyspace::Files, b"a").unwrap().unwrap(),
        "2"
    );
    assert_eq!(
        between.rows.get(Keyspace::Dirs, b"").unwrap().unwrap(),
        "root"
    );
    assert_eq!(between.rows.get(Keyspace::Files, b"b").unwrap(), None);
    assert_eq!(after.rows.get(Keyspace::Files, b"a").unwrap(), None);
    assert_eq!(
        after.rows.range(Keyspace::Files, b"", None, 9).unwrap(),
        [(Bytes::from("b"), Bytes::from("3"))]
    );
    assert_eq!(
        between
            .rows
            .range(Keyspace::Files, b"a", Some(b"b"), 9)
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        between
            .rows
            .range(Keyspace::Files, b"b", Some(b"a"), 9)
            .unwrap(),
        []
    );
    assert_eq!(
        (before.mark, between.mark, after.mark),
        (Mark::default(), mark(1), mark(2))
    );
}

#[test]
fn rows_and_position_are_there_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let expected = {
        let store = DiskStore::open(dir.path(), CACHE).unwrap();
        for index in 1..50u64 {
            store
                .apply(
                    mark(index),
                    &[change(Keyspace::Lists, &index.to_be_bytes(), Some(b"row"))],
                )
                .unwrap();
        }
        assert_eq!(store.persist().unwrap(), mark(49));
        dump(&store.applied())
    };
    let store = DiskStore::open(dir.path(), CACHE).unwrap();
    assert_eq!(dump(&store.applied()), expected);
}

#[test]
fn a_keyspace_that_stands_elsewhere_makes_the_store_invalid() {
    for (keyspace, ahead) in [("files", 9u64), ("files", 1), ("open", 3)] {
        let dir = tempfile::tempdir().unwrap();
        {
            let store = DiskStore::open(dir.path(), CACHE).unwrap();
            store
                .apply(mark(1), &[change(Keyspace::Files, b"a", Some(b"1"))])
                .unwrap();
            store
                .apply(mark(2), &[change(Keyspace::Files, b"a", Some(b"2"))])
                .unwrap();
        }
        {
            let database = fjall::Database::builder(dir.path()).open().unwrap();
            let table = database
                .keyspace(keyspace, fjall::KeyspaceCreateOptions::default)
                .unwrap();
            table.insert([0], ahead.to_le_bytes()).unwrap();
        }
        assert!(
            matches!(
                DiskStore::open(dir.path(), CACHE),
                Err(StoreError::Invalid(_))
            ),
            "{keyspace} {ahead}"
        );
    }
}

#[test]
fn a_store_that_is_open_elsewhere_is_not_called_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let _open = DiskStore::open(dir.path(), CACHE).unwrap();
    assert!(matches!(
        DiskStore::open(dir.path(), CACHE),
        Err(StoreError::Unavailable(_))
    ));
}

#[test]
fn a_folder_with_missing_or_broken_files_is_invalid_or_stands_at_one_position() {
    let (dir, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let states = {
        let store = DiskStore::open(dir.path(), CACHE).unwrap();
        let mut states = vec![dump(&store.applied())];
        for index in 1..20u64 {
            let key = index.to_be_bytes();
            store
                .apply(
                    mark(index),
                    &[
                        change(Keyspace::Files, &key, Some(b"row")),
                        change(Keyspace::Open, &key, Some(b"session")),
                    ],
                )
                .unwrap();
            states.push(dump(&store.applied()));
        }
        store.persist().unwrap();
        states
    };
    let all = files(dir.path());
    for broken in &all {
        for truncate in [true, false] {
            let root = image.path().join("rows");
            let _ = fs::remove_dir_all(&root);
            copy(dir.path(), &root);
            let target = root.join(broken.strip_prefix(dir.path()).unwrap());
            if truncate {
                let length = fs::metadata(&target).unwrap().len();
                fs::File::options()
                    .write(true)
                    .open(&target)
                    .unwrap()
                    .set_len(length.min(2_000) / 2)
                    .unwrap();
            } else {
                fs::remove_file(&target).unwrap();
            }
            match DiskStore::open(&root, CACHE) {
                Ok(store) => assert!(
                    states.contains(&dump(&store.applied())),
                    "{}",
                    broken.display()
                ),
                Err(StoreError::Invalid(_)) => {}
                Err(other) => panic!("{}: {other}", broken.display()),
            }
        }
    }
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn ranges_of_what_comes_and_goes_walk_over_nothing_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let short_lived = [
        Keyspace::Open,
        Keyspace::OpenByName,
        Keyspace::Allocations,
        Keyspace::Dedupe,
        Keyspace::DedupeOrder,
    ];
    let check = |store: &DiskStore, expected: usize| {
        for keyspace in short_lived {
            let rows = store.applied().rows;
            assert_eq!(
                rows.range(keyspace, b"", None, 9).unwrap().len(),
                expected,
                "{}",
                keyspace.name()
            );
        }
        assert_eq!(store.scans(), 0);
    };
    let store = DiskStore::open(dir.path(), CACHE).unwrap();
    for index in 1..100u64 {
        let key = index.to_be_bytes();
        let all = |value: Option<&[u8]>| short_lived.map(|keyspace| change(keyspace, &key, value));
        store.apply(mark(2 * index), &all(Some(b"row"))).unwrap();
        check(&store, 1);
        store.apply(mark(2 * index + 1), &all(None)).unwrap();
        check(&store, 0);
    }
    let many: Vec<Change> = (0..2_000u64)
        .map(|at| change(Keyspace::Open, &at.to_be_bytes(), Some(b"row")))
        .collect();
    store.apply(mark(300), &many).unwrap();
    drop(store);
    let store = DiskStore::open(dir.path(), CACHE).unwrap();
    let rows = store.applied().rows;
    assert_eq!(rows.range(Keyspace::Open, b"", None, 9).unwrap().len(), 9);
    assert_eq!(store.scans(), 0);
    assert_eq!(
        rows.range(Keyspace::Open, b"", None, 9_999).unwrap().len(),
        2_000
    );
    assert_eq!(store.scans(), 1);
}

#[test]
fn keys_that_are_too_long_to_be_there_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = DiskStore::open(dir.path(), CACHE).unwrap();
    let twin = MemoryStore::default();
    let longest = vec![b'k'; 65_534];
    let mut rows: Vec<Change> = [b"a".as_slice(), b"z", &longest]
        .into_iter()
        .flat_map(|key| COMPARED.map(|keyspace| change(keyspace, key, Some(b"row"))))
        .collect();
    rows.push(change(Keyspace::Volumes, b"v", Some(b"row")));
    store.apply(mark(1), &rows).unwrap();
    twin.apply(mark(1), &rows).unwrap();
    let bounds = [0, 1, 65_533, 65_534, 65_535, 65_536, 100_000].map(|length| vec![b'k'; length]);
    let (disk, memory) = (store.applied().rows, twin.applied().rows);
    for keyspace in COMPARED.into_iter().chain([Keyspace::Volumes]) {
        for from in &bounds {
            assert_eq!(
                disk.get(keyspace, from).unwrap(),
                memory.get(keyspace, from).unwrap()
            );
            for to in bounds.iter().map(Some).chain([None]) {
                let to = to.map(Vec::as_slice).filter(|to| *to > from.as_slice());
                assert_eq!(
                    disk.range(keyspace, from, to, 9).unwrap(),
                    memory.range(keyspace, from, to, 9).unwrap(),
                    "{} {} {:?}",
                    keyspace.name(),
                    from.len(),
                    to.map(<[u8]>::len)
                );
            }
        }
    }
}

/// One of each kind that the store treats in its own way.
const COMPARED: [Keyspace; 3] = [Keyspace::Files, Keyspace::Open, Keyspace::Dedupe];

#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<(u8, u8, Option<u8>)>),
    Look,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let change = (0u8..3, 0u8..12, proptest::option::of(any::<u8>()));
    prop_oneof![
        6 => proptest::collection::vec(change, 0..8).prop_map(Step::Apply),
        3 => Just(Step::Look),
        1 => Just(Step::Reopen),
    ]
}

fn key(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        number => vec![0xff; usize::from(number % 4)]
            .into_iter()
            .chain([number])
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn disk_and_memory_give_the_same_rows(steps in proptest::collection::vec(step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let twin = MemoryStore::default();
        let mut store = DiskStore::open(dir.path(), CACHE).unwrap();
        let mut held: Vec<(Applied, Applied)> = Vec::new();
        let mut index = 0;
        for step in steps {
            match step {
                Step::Apply(changes) => {
                    index += 1;
                    let changes: Vec<Change> = changes
                        .into_iter()
                        .map(|(keyspace, number, value)| Change {
                            keyspace: COMPARED[usize::from(keyspace)],
                            key: Bytes::from(key(number)),
                            value: value.map(|value| Bytes::from(vec![value])),
                        })
                        .collect();
                    store.apply(mark(index), &changes).unwrap();
                    twin.apply(mark(index), &changes).unwrap();
                }
                Step::Look => held.push((store.applied(), twin.applied())),
                Step::Reopen => {
                    held.clear();
                    drop(store);
                    store = DiskStore::open(dir.path(), CACHE).unwrap();
                }
            }
            for (disk, memory) in held.iter().chain([&(store.applied(), twin.applied())]) {
                prop_assert_eq!(disk.mark, memory.mark);
                for keyspace in &COMPARED {
                    for number in 0..12 {
                        let key = key(number);
                        prop_assert_eq!(disk.rows.get(*keyspace, &key).unwrap(), memory.rows.get(*keyspace, &key).unwrap());
                        let to = [0xff, 0xff];
                        for limit in [1, 3, 100] {
                            prop_assert_eq!(
                                disk.rows.range(*keyspace, &key, Some(&to), limit).unwrap(),
                                memory.rows.range(*keyspace, &key, Some(&to), limit).unwrap()
                            );
                        }
                    }
                }
                prop_assert_eq!(dump(disk), dump(memory));
            }
        }
    }
}
