//! The rules of a block's life, one test each.

use super::*;

const B: BlockId = BlockId::new(7, 1);

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("containers"));
    (dir, store)
}

#[test]
fn a_committed_block_reads_back_also_after_a_restart() {
    let (dir, store) = store();
    let mut chunks = Vec::new();
    append(&store, B, &mut chunks, &bytes(1, 100));
    append(&store, B, &mut chunks, &bytes(2, 33));
    let expected = [bytes(1, 100), bytes(2, 33)].concat();
    let view = store.view(B).unwrap();
    assert_eq!((view.length, view.chunks.clone()), (133, chunks));
    assert_eq!(view.metadata[0].0, "appendStart");
    assert_eq!(all(&store, B).unwrap(), expected);
    drop(store);
    let store = open(&dir.path().join("containers"));
    assert_eq!(store.view(B).unwrap(), view);
    assert_eq!(all(&store, B).unwrap(), expected);
    for (from, len) in [(0, 0), (5, 20), (90, 40), (99, 2), (132, 1)] {
        let got = store.read_exact(B, from, len).unwrap();
        assert_eq!(got, expected[to_usize(from)..to_usize(from + len)]);
    }
    assert!(matches!(
        store.read(B, 130, 4),
        Err(StoreError::OutOfRange { length: 133, .. })
    ));
}

#[test]
fn bytes_that_were_never_committed_are_not_shown() {
    let (dir, store) = store();
    let data = bytes(3, 50);
    store.write_chunk(B, &chunk(0, &data), &data).unwrap();
    assert!(matches!(store.view(B), Err(StoreError::NoSuchBlock(_))));
    assert!(matches!(
        store.committed_length(B),
        Err(StoreError::NoSuchBlock(_))
    ));
    drop(store);
    // A writer that goes on after a restart finds its bytes.
    let store = open(&dir.path().join("containers"));
    assert!(matches!(store.view(B), Err(StoreError::NoSuchBlock(_))));
    let done = store.put_block(&put(B, vec![chunk(0, &data)])).unwrap();
    wait(store.durable(done.at)).unwrap();
    assert_eq!(all(&store, B).unwrap(), data);
}

#[test]
fn an_uncommitted_tail_may_be_replaced_and_committed_bytes_may_not() {
    let (_dir, store) = store();
    let (first, second) = (bytes(1, 40), bytes(2, 40));
    store.write_chunk(B, &chunk(0, &first), &first).unwrap();
    store.write_chunk(B, &chunk(0, &second), &second).unwrap();
    let done = store.put_block(&put(B, vec![chunk(0, &second)])).unwrap();
    wait(store.durable(done.at)).unwrap();
    assert_eq!(all(&store, B).unwrap(), second);
    store.write_chunk(B, &chunk(0, &second), &second).unwrap();
    assert!(matches!(
        store.write_chunk(B, &chunk(0, &first), &first),
        Err(StoreError::CommittedBytes { committed: 40, .. })
    ));
    assert_eq!(all(&store, B).unwrap(), second);
}

#[test]
fn a_longer_retry_over_committed_bytes_adds_only_its_end() {
    let (_dir, store) = store();
    let data = bytes(5, 60);
    let mut chunks = Vec::new();
    append(&store, B, &mut chunks, &data[..25]);
    store.write_chunk(B, &chunk(0, &data), &data).unwrap();
    let done = store.put_block(&put(B, vec![chunk(0, &data)])).unwrap();
    wait(store.durable(done.at)).unwrap();
    assert_eq!(store.view(B).unwrap().chunks.len(), 1);
    assert_eq!(all(&store, B).unwrap(), data);
}

#[test]
fn a_commit_never_shortens_and_names_only_what_was_written() {
    let (_dir, store) = store();
    let mut chunks = Vec::new();
    append(&store, B, &mut chunks, &bytes(1, 20));
    append(&store, B, &mut chunks, &bytes(2, 20));
    assert!(matches!(
        store.put_block(&put(B, chunks[..1].to_vec())),
        Err(StoreError::LengthBelowCommitted {
            offered: 20,
            committed: 40,
            ..
        })
    ));
    let mut longer = chunks.clone();
    longer.push(chunk(40, &bytes(3, 20)));
    assert!(matches!(
        store.put_block(&put(B, longer)),
        Err(StoreError::MissingData { offset: 40, .. })
    ));
    let mut apart = chunks.clone();
    apart.push(chunk(41, &bytes(3, 20)));
    assert!(matches!(
        store.put_block(&put(B, apart)),
        Err(StoreError::Invalid { .. })
    ));
    // The same once more is fine and writes nothing.
    let before = lens(&store);
    let again = store.put_block(&put(B, chunks.clone())).unwrap();
    assert_eq!(again.length, 40);
    assert_eq!(lens(&store), before);
}

fn lens(store: &Store) -> u64 {
    store.log.durable_now().offset
}

#[test]
fn a_commit_with_checksums_of_other_bytes_is_refused() {
    let (_dir, store) = store();
    let (data, other) = (bytes(1, 40), bytes(2, 40));
    assert!(matches!(
        store.write_chunk(B, &chunk(0, &other), &data),
        Err(StoreError::WriteChecksum { offset: 0, .. })
    ));
    store.write_chunk(B, &chunk(0, &data), &data).unwrap();
    assert!(matches!(
        store.put_block(&put(B, vec![chunk(0, &other)])),
        Err(StoreError::WriteChecksum { .. })
    ));
    let mut short = chunk(0, &data);
    short.checksums.values.truncate(4);
    assert!(matches!(
        store.put_block(&put(B, vec![short])),
        Err(StoreError::Invalid { .. })
    ));
}

#[test]
fn an_incremental_list_may_add_chunks_or_grow_the_last() {
    let (dir, store) = store();
    let data = bytes(9, 90);
    let mut chunks = Vec::new();
    append(&store, B, &mut chunks, &data[..30]);
    append(&store, B, &mut chunks, &data[30..40]);
    // The last chunk grows from 10 to 35 bytes, of which only 25 are sent, and one more follows.
    store
        .write_chunk(B, &chunk(40, &data[40..65]), &data[40..65])
        .unwrap();
    store
        .write_chunk(B, &chunk(65, &data[65..]), &data[65..])
        .unwrap();
    let done = store
        .put_block(&PutBlock {
            incremental: true,
            ..put(B, vec![chunk(30, &data[30..65]), chunk(65, &data[65..])])
        })
        .unwrap();
    wait(store.durable(done.at)).unwrap();
    let view = store.view(B).unwrap();
    let cuts: Vec<_> = view.chunks.iter().map(|c| (c.offset, c.len)).collect();
    assert_eq!(cuts, [(0, 30), (30, 35), (65, 25)]);
    assert_eq!(all(&store, B).unwrap(), data);
    drop(store);
    let store = open(&dir.path().join("containers"));
    assert_eq!(all(&store, B).unwrap(), data);
    assert!(matches!(
        store.put_block(&PutBlock {
            incremental: true,
            ..put(B, vec![chunk(31, &data[31..])])
        }),
        Err(StoreError::MissingData { .. })
    ));
}

#[test]
fn finalizing_fences_the_writer_for_good() {
    let (dir, store) = store();
    assert!(matches!(store.finalize(B), Err(StoreError::NoSuchBlock(_))));
    let mut chunks = Vec::new();
    let data = bytes(1, 20);
    append(&store, B, &mut chunks, &data);
    let done = store.finalize(B).unwrap();
    assert_eq!(done.length, 20);
    wait(store.durable(done.at)).unwrap();
    drop(store);
    let store = open(&dir.path().join("containers"));
    assert!(store.view(B).unwrap().finalized);
    assert!(matches!(
        store.write_chunk(B, &chunk(20, &data), &data),
        Err(StoreError::Finalized(_))
    ));
    assert_eq!(store.finalize(B).unwrap().length, 20);
    assert_eq!(store.put_block(&put(B, chunks.clone())).unwrap().length, 20);
    let mut eof = put(B, chunks);
    eof.eof = true;
    assert!(matches!(
        store.put_block(&eof),
        Err(StoreError::Finalized(_))
    ));
}

#[test]
fn what_a_writer_had_under_way_comes_too_late_once_its_block_is_finalized() {
    let (dir, store) = store();
    let mut chunks = Vec::new();
    append(&store, B, &mut chunks, &bytes(1, 20));
    // Written, and the commit is still on its way.
    let late = bytes(2, 30);
    store.write_chunk(B, &chunk(20, &late), &late).unwrap();
    let done = store.finalize(B).unwrap();
    wait(store.durable(done.at)).unwrap();
    let whole = put(B, vec![chunks[0].clone(), chunk(20, &late)]);
    let added = PutBlock {
        incremental: true,
        ..put(B, vec![chunk(20, &late)])
    };
    drop(store);
    let store = open(&dir.path().join("containers"));
    for commit in [&whole, &added] {
        assert!(matches!(
            store.put_block(commit),
            Err(StoreError::Finalized(_))
        ));
    }
    assert!(matches!(
        store.write_chunk(B, &chunk(50, &late), &late),
        Err(StoreError::Finalized(_))
    ));
    assert_eq!(store.view(B).unwrap().length, 20);
    assert_eq!(all(&store, B).unwrap(), bytes(1, 20));
}

#[test]
fn a_deleted_id_is_spent_even_when_the_block_never_arrived() {
    let (dir, store) = store();
    let other = BlockId::new(7, 2);
    let data = bytes(1, 20);
    append(&store, B, &mut Vec::new(), &data);
    for id in [B, other, B] {
        let at = store.delete(id).unwrap();
        wait(store.durable(at)).unwrap();
    }
    drop(store);
    let store = open(&dir.path().join("containers"));
    for id in [B, other] {
        assert!(matches!(store.view(id), Err(StoreError::NoSuchBlock(_))));
        assert!(matches!(
            store.write_chunk(id, &chunk(0, &data), &data),
            Err(StoreError::Deleted(_))
        ));
        assert!(matches!(
            store.put_block(&put(id, vec![chunk(0, &data)])),
            Err(StoreError::Deleted(_))
        ));
    }
}

#[test]
fn an_empty_commit_makes_a_block_of_no_length() {
    let (dir, store) = store();
    let done = store.put_block(&put(B, Vec::new())).unwrap();
    wait(store.durable(done.at)).unwrap();
    drop(store);
    let store = open(&dir.path().join("containers"));
    assert_eq!(store.view(B).unwrap().length, 0);
    assert!(all(&store, B).unwrap().is_empty());
}

#[test]
fn listing_goes_by_container_and_skips_what_is_not_committed() {
    let (_dir, store) = store();
    let data = bytes(1, 10);
    for local in [5, 1, 3, i64::MAX] {
        append(&store, BlockId::new(7, local), &mut Vec::new(), &data);
    }
    append(&store, BlockId::new(8, 2), &mut Vec::new(), &data);
    store
        .write_chunk(BlockId::new(7, 4), &chunk(0, &data), &data)
        .unwrap();
    let locals = |from, count| -> Vec<i64> {
        let views = store.list(7, from, count).unwrap();
        views.iter().map(|v| v.id.local).collect()
    };
    assert_eq!(locals(i64::MIN, 10), [1, 3, 5, i64::MAX]);
    assert_eq!(locals(3, 2), [3, 5]);
    assert!(store.list(9, 0, 10).unwrap().is_empty());
}

#[test]
fn chunks_without_checksums_are_verified_by_their_records() {
    let (dir, store) = store();
    let data = bytes(1, 100);
    let plain =
        |from: usize, to: usize| chunk_with(ChecksumKind::None, 0, to_u64(from), &data[from..to]);
    store.write_chunk(B, &plain(0, 60), &data[..60]).unwrap();
    store.write_chunk(B, &plain(50, 100), &data[50..]).unwrap();
    let done = store.put_block(&put(B, vec![plain(0, 100)])).unwrap();
    wait(store.durable(done.at)).unwrap();
    assert_eq!(store.read_exact(B, 45, 20).unwrap(), data[45..65]);
    drop(store);
    let path = container_files(&dir.path().join("containers")).remove(0);
    let mut file = std::fs::read(&path).unwrap();
    let at = file.windows(8).position(|w| w == &data[..8]).unwrap();
    file[at + 3] ^= 1;
    std::fs::write(&path, file).unwrap();
    let store = open(&dir.path().join("containers"));
    assert!(matches!(
        store.read(B, 0, 10),
        Err(StoreError::Checksum { offset: 0, .. })
    ));
    assert_eq!(store.read_exact(B, 60, 40).unwrap(), data[60..]);
}

#[test]
fn small_blocks_lie_one_behind_the_other() {
    let (dir, store) = store();
    let data = bytes(1, 4096);
    for local in 0..50 {
        let id = BlockId::new(1, local);
        store
            .write_chunk(
                id,
                &chunk_with(ChecksumKind::Crc32c, 16384, 0, &data),
                &data,
            )
            .unwrap();
        let list = vec![chunk_with(ChecksumKind::Crc32c, 16384, 0, &data)];
        store.put_block(&put(id, list)).unwrap();
    }
    drop(store);
    let files = container_files(&dir.path().join("containers"));
    assert_eq!(files.len(), 1);
    let len = std::fs::metadata(&files[0]).unwrap().len();
    assert!(
        len < 50 * 4096 * 108 / 100,
        "{len} bytes for 50 blocks of 4 KiB"
    );
}

/// Blocks of several appends each, interleaved, and a store that has them durable.
fn interleaved() -> (tempfile::TempDir, Store, Vec<BlockId>) {
    let (dir, store) = store();
    let ids: Vec<_> = (0..20).map(|local| BlockId::new(1, local)).collect();
    let mut lists = vec![Vec::new(); ids.len()];
    for round in 0..3 {
        for (id, list) in ids.iter().zip(&mut lists) {
            append(
                &store,
                *id,
                list,
                &bytes(id.local.cast_unsigned() * 10 + round, 3000),
            );
        }
    }
    (dir, store, ids)
}

#[test]
fn ranges_that_are_read_together_are_what_each_is_alone() {
    let (_dir, store, ids) = interleaved();
    let mut ranges: Vec<_> = ids.iter().map(|id| (*id, 0, 9000)).collect();
    ranges.extend(ids.iter().rev().map(|id| (*id, 2999, 2)));
    ranges.push((ids[3], 8999, 1));
    ranges.push((ids[3], 0, 0));
    let together = store.read_ranges(&ranges, u64::MAX).unwrap();
    assert_eq!(together.len(), ranges.len());
    for ((id, offset, len), pieces) in ranges.into_iter().zip(together) {
        let alone = match len {
            0 => Vec::new(),
            _ => store.read(id, offset, len).unwrap(),
        };
        assert_eq!(pieces, alone, "{id} {offset} {len}");
    }
}

#[test]
fn an_answer_of_many_ranges_ends_where_its_room_does_or_before_an_error() {
    let (_dir, store, ids) = interleaved();
    let ranges: Vec<_> = ids.iter().map(|id| (*id, 0, 3000)).collect();
    let found = store.read_ranges(&ranges, 7000).unwrap();
    let lengths: Vec<usize> = found
        .iter()
        .map(|pieces| pieces.iter().map(|piece| piece.data.len()).sum())
        .collect();
    assert_eq!(lengths.len(), 3);
    assert_eq!(lengths[..2], [3000, 3000]);
    assert!(lengths[2] >= 1000, "widened to a window at most");
    let gone = (BlockId::new(9, 9), 0, 1);
    let found = store.read_ranges(&[ranges[0], gone, ranges[1]], u64::MAX);
    assert_eq!(found.unwrap().len(), 1);
    for first in [gone, (ids[0], 8999, 2)] {
        assert!(
            store
                .read_ranges(&[(ids[0], 0, 0), first, ranges[1]], u64::MAX)
                .is_err()
        );
    }
}

#[test]
fn a_damaged_block_among_many_is_not_read_and_does_not_hide_those_before_it() {
    let (dir, store, ids) = interleaved();
    drop(store);
    let folder = dir.path().join("containers");
    let file = &container_files(&folder)[0];
    let mut all = std::fs::read(file).unwrap();
    let part = bytes(70, 3000);
    let at = all.windows(part.len()).position(|w| w == part).unwrap();
    all[at + 100] ^= 1;
    std::fs::write(file, all).unwrap();
    let store = open(&folder);
    let ranges: Vec<_> = ids.iter().map(|id| (*id, 0, 3000)).collect();
    assert_eq!(store.read_ranges(&ranges, u64::MAX).unwrap().len(), 7);
    assert!(matches!(
        store.read_ranges(&ranges[7..], u64::MAX),
        Err(StoreError::Checksum { .. })
    ));
    assert_eq!(store.read_ranges(&ranges[8..], u64::MAX).unwrap().len(), 12);
}

#[test]
fn full_files_are_followed_by_the_next_and_blocks_do_not_care() {
    let dir = tempfile::tempdir().unwrap();
    let options = || StoreOptions {
        roll_bytes: 1000,
        ..StoreOptions::default()
    };
    let store = Store::open(dir.path(), options()).unwrap();
    let mut chunks = Vec::new();
    for n in 0..20 {
        append(&store, B, &mut chunks, &bytes(n, 100));
    }
    let expected: Vec<u8> = (0..20).flat_map(|n| bytes(n, 100)).collect();
    assert_eq!(all(&store, B).unwrap(), expected);
    drop(store);
    assert!(container_files(dir.path()).len() > 3);
    let store = Store::open(dir.path(), options()).unwrap();
    assert!(store.damage().is_empty());
    assert_eq!(all(&store, B).unwrap(), expected);
}

#[test]
fn many_writers_share_syncs_and_each_is_served() {
    let (_dir, store) = store();
    std::thread::scope(|scope| {
        for local in 0..16 {
            let store = &store;
            scope.spawn(move || {
                let mut chunks = Vec::new();
                for n in 0..10 {
                    append(store, BlockId::new(1, local), &mut chunks, &bytes(n, 64));
                }
            });
        }
    });
    for local in 0..16 {
        let expected: Vec<u8> = (0..10).flat_map(|n| bytes(n, 64)).collect();
        assert_eq!(all(&store, BlockId::new(1, local)).unwrap(), expected);
    }
}

#[test]
fn refused_requests_leave_nothing_in_memory() {
    let (_dir, store) = store();
    for local in 0..100 {
        let id = BlockId::new(7, local);
        let refused = store.put_block(&put(id, vec![chunk(0, b"never written")]));
        assert!(matches!(refused, Err(StoreError::MissingData { .. })));
    }
    assert_eq!(store.block_count(), 0);
    // What was written stays, also when the commit is refused.
    let id = BlockId::new(7, 0);
    store.write_chunk(id, &chunk(0, b"abc"), b"abc").unwrap();
    assert!(store.put_block(&put(id, vec![chunk(0, b"abcd")])).is_err());
    let done = store.put_block(&put(id, vec![chunk(0, b"abc")])).unwrap();
    wait(store.durable(done.at)).unwrap();
    assert_eq!(all(&store, id).unwrap(), b"abc");
}
