//! What a killed process, a cut file and rotten bits leave behind.

use super::super::files::number_of;
use super::super::record::{FILE_HEADER_LEN, FileHeader, Header, record_len};
use super::super::scan::scan;
use super::*;

/// A small store and, for each commit, its block, its bytes and where its record ends.
struct Story {
    dir: tempfile::TempDir,
    commits: Vec<(BlockId, Vec<u8>, u64)>,
}

fn story() -> Story {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut commits = Vec::new();
    for round in 0..2u64 {
        for local in 0..2i64 {
            let id = BlockId::new(1, local);
            let mut data = all(&store, id).unwrap_or_default();
            let mut chunks = store.view(id).map(|v| v.chunks).unwrap_or_default();
            let more = bytes(round * 10 + local.unsigned_abs(), 21);
            append(&store, id, &mut chunks, &more);
            data.extend_from_slice(&more);
            let end = store.put_block(&put(id, chunks)).unwrap().at.offset;
            commits.push((id, data, end));
        }
    }
    drop(store);
    Story { dir, commits }
}

fn only_file(dir: &Path) -> PathBuf {
    let files = container_files(dir);
    assert_eq!(files.len(), 1);
    files[0].clone()
}

#[test]
fn a_file_cut_at_any_byte_keeps_every_commit_that_is_whole() {
    let story = story();
    let whole = std::fs::read(only_file(story.dir.path())).unwrap();
    let name = only_file(story.dir.path());
    let name = name.file_name().unwrap();
    for len in 0..whole.len() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), &whole[..len]).unwrap();
        let store = open(dir.path());
        for local in 0..2 {
            let id = BlockId::new(1, local);
            let expected = story
                .commits
                .iter()
                .rfind(|(block, _, end)| *block == id && *end <= to_u64(len))
                .map(|(_, data, _)| data.clone());
            match (all(&store, id), expected) {
                (Ok(data), Some(expected)) => assert_eq!(data, expected, "cut at {len}"),
                (Err(StoreError::NoSuchBlock(_)), None) => {}
                other => panic!("cut at {len}: {other:?}"),
            }
        }
        // And it goes on from there.
        append(&store, BlockId::new(2, 0), &mut Vec::new(), b"more");
        drop(store);
        let store = open(dir.path());
        assert!(store.damage().is_empty());
        assert_eq!(all(&store, BlockId::new(2, 0)).unwrap(), b"more");
    }
}

#[test]
fn garbage_behind_the_last_record_is_cut_off() {
    let story = story();
    let path = only_file(story.dir.path());
    let mut file = std::fs::read(&path).unwrap();
    let len = file.len();
    file.extend_from_slice(&bytes(77, 5000));
    file.resize(20_000, 0);
    std::fs::write(&path, file).unwrap();
    let store = open(story.dir.path());
    assert!(store.damage().is_empty());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), to_u64(len));
    for (id, data, _) in &story.commits[2..] {
        assert_eq!(&all(&store, *id).unwrap(), data);
    }
}

#[test]
fn room_that_a_killed_process_made_ahead_is_no_damage_and_stands_in_the_last_file_only() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        roll_bytes: 2000,
        ..StoreOptions::default()
    };
    let store = Store::open(dir.path(), options).unwrap();
    let id = |n| BlockId::new(1, n);
    for n in 0..20 {
        append(&store, id(n), &mut Vec::new(), &bytes(n.unsigned_abs(), 21));
        let killed = tempfile::tempdir().unwrap();
        let files = container_files(dir.path());
        for file in &files {
            std::fs::copy(file, killed.path().join(file.file_name().unwrap())).unwrap();
        }
        let file_name = files.last().unwrap().file_name().unwrap();
        let last = std::fs::read(killed.path().join(file_name)).unwrap();
        let written = last.len() - last.iter().rev().take_while(|byte| **byte == 0).count();
        let again = open(killed.path());
        assert!(again.damage().is_empty(), "{n}: {:?}", again.damage());
        for n in 0..=n {
            let data = bytes(n.unsigned_abs(), 21);
            assert_eq!(all(&again, id(n)).unwrap(), data);
        }
        drop(again);
        let kept = std::fs::read(killed.path().join(file_name)).unwrap();
        assert_eq!(kept[..written], last[..written]);
        // Zeros that belong to the last record, and the mark of the open.
        let most = to_u64(written).next_multiple_of(8) + 8 + record_len(0);
        assert!(to_u64(kept.len()) <= most, "{n}: {} of {most}", kept.len());
    }
    assert!(container_files(dir.path()).len() > 2);
}

#[test]
fn no_flipped_bit_gives_wrong_bytes_or_a_silent_loss() {
    let story = story();
    let path = only_file(story.dir.path());
    let whole = std::fs::read(&path).unwrap();
    let nonce = FileHeader::decode(&whole).unwrap().nonce;
    let records: Vec<(u64, Header)> = scan(
        &std::fs::File::open(&path).unwrap(),
        nonce,
        to_u64(whole.len()),
    )
    .records;
    for at in 0..whole.len() {
        let mut bad = whole.clone();
        bad[at] ^= 1 << (at % 8);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(path.file_name().unwrap()), &bad).unwrap();
        let store = open(dir.path());
        let hit = records
            .iter()
            .find(|(start, h)| (*start..start + h.record_len()).contains(&to_u64(at)))
            .map(|(_, h)| h.block);
        for local in 0..2 {
            let id = BlockId::new(1, local);
            let expected = &story.commits.iter().rfind(|(b, ..)| *b == id).unwrap().1;
            match all(&store, id) {
                Ok(data) => assert_eq!(&data, expected, "bit at {at}"),
                Err(StoreError::Checksum { block, .. }) => {
                    assert_eq!((block, Some(id)), (id, hit), "bit at {at}");
                }
                Err(other) => panic!("bit at {at}: {other}"),
            }
        }
    }
}

#[test]
fn a_rotten_place_in_the_middle_hides_nothing_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let big = bytes(1, 300_000);
    let id = |n| BlockId::new(1, n);
    append(&store, id(1), &mut Vec::new(), b"before");
    append(&store, id(2), &mut Vec::new(), &big);
    append(&store, id(3), &mut Vec::new(), b"behind");
    drop(store);
    let path = only_file(dir.path());
    let mut file = std::fs::read(&path).unwrap();
    let at = file.windows(16).position(|w| w == &big[..16]).unwrap();
    // The header of the big chunk goes.
    file[at - 50..at - 10].fill(0xFF);
    std::fs::write(&path, file).unwrap();
    let store = open(dir.path());
    assert_eq!(store.damage().len(), 1);
    assert_eq!(store.damage()[0].block, None);
    assert_eq!(all(&store, id(1)).unwrap(), b"before");
    assert_eq!(all(&store, id(3)).unwrap(), b"behind");
    assert!(matches!(
        store.read(id(2), 100_000, 10),
        Err(StoreError::Checksum { block, .. }) if block == id(2)
    ));
    // What was in the lost record nobody knows, so no block is said to be absent.
    assert!(matches!(
        store.view(id(4)),
        Err(StoreError::Checksum { .. })
    ));
}

#[test]
fn a_lost_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let options = || StoreOptions {
        roll_bytes: 400,
        ..StoreOptions::default()
    };
    let store = Store::open(dir.path(), options()).unwrap();
    for n in 0..8 {
        append(&store, BlockId::new(1, n), &mut Vec::new(), &bytes(1, 100));
    }
    drop(store);
    let files = container_files(dir.path());
    assert!(files.len() > 3);
    std::fs::remove_file(&files[1]).unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    assert_eq!(store.damage().len(), 1);
    let lost = (0..8)
        .filter(|n| match all(&store, BlockId::new(1, *n)) {
            Ok(data) => {
                assert_eq!(data, bytes(1, 100));
                false
            }
            Err(StoreError::Checksum { .. }) => true,
            Err(e) => panic!("{e}"),
        })
        .count();
    assert!((1..8).contains(&lost), "{lost} lost");
}

#[test]
fn a_shortened_older_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let options = || StoreOptions {
        roll_bytes: 700,
        ..StoreOptions::default()
    };
    let store = Store::open(dir.path(), options()).unwrap();
    for n in 0..8 {
        append(&store, BlockId::new(1, n), &mut Vec::new(), &bytes(1, 100));
    }
    drop(store);
    let first = &container_files(dir.path())[0];
    let file = std::fs::read(first).unwrap();
    let nonce = FileHeader::decode(&file).unwrap().nonce;
    let records = scan(
        &std::fs::File::open(first).unwrap(),
        nonce,
        to_u64(file.len()),
    )
    .records;
    std::fs::write(first, &file[..to_usize(records[2].0)]).unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    assert!(!store.damage().is_empty());
    assert!(all(&store, BlockId::new(1, 0)).is_ok());
    assert!(matches!(
        all(&store, BlockId::new(1, 1)),
        Err(StoreError::Checksum { .. })
    ));
}

#[test]
fn records_inside_the_payload_of_a_damaged_one_are_not_taken_for_real() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    append(&store, BlockId::new(1, 1), &mut Vec::new(), b"real");
    // A block that holds a copy of the very container file it is stored in.
    let copy = std::fs::read(only_file(dir.path())).unwrap();
    append(&store, BlockId::new(1, 2), &mut Vec::new(), &copy);
    drop(store);
    let path = only_file(dir.path());
    let mut file = std::fs::read(&path).unwrap();
    let at = file.windows(copy.len()).rposition(|w| w == copy).unwrap();
    file[at - 20] ^= 1;
    std::fs::write(&path, file).unwrap();
    let store = open(dir.path());
    assert_eq!(store.damage().len(), 1);
    assert_eq!(all(&store, BlockId::new(1, 1)).unwrap(), b"real");
}

#[test]
fn a_file_whose_creation_was_cut_short_is_made_again() {
    let story = story();
    for junk in [vec![], vec![0; 64], vec![0; to_usize(FILE_HEADER_LEN)]] {
        std::fs::write(story.dir.path().join("0000000002.data"), junk).unwrap();
        let store = open(story.dir.path());
        assert!(store.damage().is_empty());
        append(&store, BlockId::new(3, 3), &mut Vec::new(), b"x");
        drop(store);
        let store = open(story.dir.path());
        assert!(store.damage().is_empty());
        assert_eq!(all(&store, BlockId::new(3, 3)).unwrap(), b"x");
        drop(store);
        let second = &container_files(story.dir.path())[1];
        assert_eq!(
            number_of(second.file_name().unwrap().to_str().unwrap()),
            Some(2)
        );
        std::fs::remove_file(second).unwrap();
    }
}

#[test]
fn a_newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let header = FileHeader {
        format: 2,
        number: 1,
        nonce: 0,
        previous_len: 0,
    };
    std::fs::write(dir.path().join("0000000001.data"), header.encode()).unwrap();
    assert!(matches!(
        Store::open(dir.path(), StoreOptions::default()),
        Err(OpenError::NewerFormat { found: 2, .. })
    ));
}
