//! Whatever happens to the files, a log gives back an exact beginning of what was written, or refuses.

use super::*;
use crate::files::power;
use bytes::Bytes;
use proptest::prelude::*;
use std::fs;

const SEGMENT: u64 = 300;

fn payload(index: u64, length: usize) -> Bytes {
    Bytes::from(
        (0..length)
            .map(|at| u8::try_from((at as u64 * 7 + index) % 251).unwrap())
            .collect::<Vec<u8>>(),
    )
}

/// Writes one record for each length; syncs after each, as the consensus does.
fn write(dir: &Path, lengths: &[usize], segment_bytes: u64) {
    let (mut log, torn) = Log::open(dir, segment_bytes, 0).unwrap();
    assert_eq!(torn, None);
    for length in lengths {
        let index = log.last_index() + 1;
        log.append(1, Kind::Entry, payload(index, *length)).unwrap();
        log.sync().unwrap();
    }
}

fn read(log: &Log, from: u64) -> Vec<Record> {
    log.reader(from).collect::<Result<_, _>>().unwrap()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for file in files(from) {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// Opens and checks that what is there is a beginning of `lengths`; gives how many records.
fn beginning(dir: &Path, lengths: &[usize]) -> Result<usize, LogError> {
    let (log, _) = Log::open(dir, SEGMENT, 0)?;
    let records = read(&log, 0);
    for (at, record) in records.iter().enumerate() {
        assert_eq!(record.index, at as u64 + 1);
        assert_eq!(record.payload, payload(record.index, lengths[at]));
    }
    assert_eq!(log.last_index(), records.len() as u64);
    Ok(records.len())
}

#[test]
fn room_that_a_killed_process_made_ahead_is_no_torn_end_and_stands_in_the_last_segment_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), 2000, 0).unwrap().0;
    for index in 1..60 {
        log.append(1, Kind::Entry, payload(index, 50)).unwrap();
        log.sync().unwrap();
        let killed = tempfile::tempdir().unwrap();
        copy(dir.path(), killed.path());
        let (again, torn) = Log::open(killed.path(), 2000, index).unwrap();
        assert_eq!(torn, None, "{index}");
        assert_eq!(again.last_index(), index);
        assert_eq!(read(&again, 0).len() as u64, index);
        assert_eq!(again.bytes(), log.bytes());
    }
    assert!(files(dir.path()).len() > 2);
    let grown: u64 = files(dir.path())
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .sum();
    assert!(grown > log.bytes());
}

#[test]
fn records_come_back_across_segments_and_opens() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[100; 5], SEGMENT);
    write(dir.path(), &[100; 5], SEGMENT);
    assert!(files(dir.path()).len() > 2);
    let (log, _) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    assert_eq!(
        (
            log.first_index(),
            log.last_index(),
            log.durable_index(),
            log.last_term()
        ),
        (1, 10, 10, 1)
    );
    assert_eq!(
        read(&log, 7)
            .iter()
            .map(|record| record.index)
            .collect::<Vec<_>>(),
        [7, 8, 9, 10]
    );
    assert_eq!(read(&log, 11), []);
    assert_eq!(read(&log, 3)[0].durable, 2);
}

#[test]
fn a_reader_ends_where_the_log_ended_when_it_was_made() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[10; 3], SEGMENT);
    let (mut log, _) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    let reader = log.reader(1);
    log.append(1, Kind::Entry, payload(4, 10)).unwrap();
    assert_eq!(reader.count(), 3);
}

#[test]
fn cutting_removes_whole_segments_below_the_index_and_keeps_the_last() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[100; 10], SEGMENT);
    let (mut log, _) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    let before = log.bytes();
    let freed = log.cut(5).unwrap();
    assert!(freed > 0 && log.first_index() <= 5 && log.first_index() > 1);
    assert_eq!(log.bytes(), before - freed);
    log.cut(1_000).unwrap();
    drop(log);
    let (mut log, _) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    assert_eq!(files(dir.path()).len(), 1);
    assert_eq!(log.last_index(), 10);
    assert_eq!(log.append(1, Kind::Entry, payload(11, 5)).unwrap(), 11);
}

#[test]
fn truncated_at_any_byte_the_log_is_an_exact_beginning() {
    let lengths = [0, 40, 1, 120, 90, 0, 33, 60];
    let (dir, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(dir.path(), &lengths, SEGMENT);
    let last = files(dir.path()).pop().unwrap();
    let whole = fs::read(&last).unwrap();
    let first = segment::list(dir.path()).unwrap().pop().unwrap().first;
    let in_last = lengths.len() - usize::try_from(first - 1).unwrap();
    for length in 0..whole.len() {
        copy(dir.path(), image.path());
        fs::write(
            image.path().join(last.file_name().unwrap()),
            &whole[..length],
        )
        .unwrap();
        let kept = beginning(image.path(), &lengths).unwrap();
        assert!(
            kept >= lengths.len() - in_last && kept < lengths.len(),
            "cut to {length}: {kept}"
        );
        // The cut is durable: a second open finds nothing to cut, and writing goes on at the next index.
        let (mut log, torn) = Log::open(image.path(), SEGMENT, 0).unwrap();
        assert_eq!(torn, None);
        assert_eq!(
            log.append(1, Kind::Entry, Bytes::new()).unwrap(),
            kept as u64 + 1
        );
    }
}

#[test]
fn a_flipped_byte_is_refused_unless_it_hits_the_last_record() {
    let lengths = [30, 40, 1, 120, 90, 0, 33, 60];
    let (dir, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(dir.path(), &lengths, SEGMENT);
    let all = files(dir.path());
    for file in &all {
        let whole = fs::read(file).unwrap();
        let last_record = whole.len() - (super::record::HEADER + 60);
        for at in 0..whole.len() {
            copy(dir.path(), image.path());
            let mut broken = whole.clone();
            broken[at] ^= 0x40;
            fs::write(image.path().join(file.file_name().unwrap()), &broken).unwrap();
            let torn = file == all.last().unwrap() && at >= last_record;
            match beginning(image.path(), &lengths) {
                Ok(kept) => assert!(
                    torn && kept == lengths.len() - 1,
                    "byte {at} of {}",
                    file.display()
                ),
                Err(error) => {
                    assert!(!torn, "byte {at} of {}: {error}", file.display());
                    // A refusal changes nothing.
                    assert_eq!(
                        fs::read(image.path().join(file.file_name().unwrap())).unwrap(),
                        broken
                    );
                }
            }
        }
    }
}

#[test]
fn a_hole_of_zeros_before_durable_records_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[50; 6], 10_000);
    let file = files(dir.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let record = super::record::HEADER + 50;
    bytes[segment::HEADER + record..segment::HEADER + 3 * record].fill(0);
    fs::write(&file, bytes).unwrap();
    match Log::open(dir.path(), 10_000, 0) {
        Err(LogError::Damaged { offset, .. }) => {
            assert_eq!(offset, (segment::HEADER + record) as u64)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unsynced_records_lost_out_of_order_are_a_torn_end() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (mut log, _) = Log::open(dir.path(), 10_000, 0).unwrap();
        log.append(1, Kind::Entry, payload(1, 50)).unwrap();
        log.sync().unwrap();
        for index in 2..5 {
            log.append(1, Kind::Entry, payload(index, 50)).unwrap();
        }
    }
    let file = files(dir.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let record = super::record::HEADER + 50;
    bytes[segment::HEADER + record..segment::HEADER + 2 * record].fill(0);
    fs::write(&file, &bytes).unwrap();
    let (log, torn) = Log::open(dir.path(), 10_000, 0).unwrap();
    assert_eq!(log.last_index(), 1);
    assert_eq!(torn.unwrap().cut, 3 * record as u64);
}

#[test]
fn a_missing_segment_a_foreign_file_and_a_newer_format_are_refused() {
    let (dir, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(dir.path(), &[100; 10], SEGMENT);
    copy(dir.path(), image.path());
    fs::remove_file(&files(image.path())[1]).unwrap();
    assert!(matches!(
        Log::open(image.path(), SEGMENT, 0),
        Err(LogError::Gap { .. })
    ));

    copy(dir.path(), image.path());
    fs::write(image.path().join("notes.txt"), b"?").unwrap();
    assert!(matches!(
        Log::open(image.path(), SEGMENT, 0),
        Err(LogError::Gap { .. })
    ));

    copy(dir.path(), image.path());
    let first = &files(image.path())[0];
    let mut bytes = fs::read(first).unwrap();
    for (version, length) in [(1, 20), (3, segment::HEADER - 4)] {
        bytes[8] = version;
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..length]);
        bytes[length..length + 4].copy_from_slice(&u32::try_from(sum).unwrap().to_le_bytes());
        fs::write(first, &bytes).unwrap();
        match Log::open(image.path(), SEGMENT, 0) {
            Err(LogError::Version { found, known, .. }) => {
                assert_eq!((found, known), (u32::from(version), 2))
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The nonce of a segment.
fn nonce(segment: &[u8]) -> u64 {
    match segment::read_header(segment) {
        segment::Head::Good { nonce, .. } => nonce,
        _ => panic!(),
    }
}

#[test]
fn what_a_client_sent_is_not_taken_for_a_record_when_it_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    let mut fake = vec![0; 100];
    let inner = Record {
        term: 1,
        index: 9,
        durable: 8,
        kind: Kind::Entry,
        payload: Bytes::from_static(b"never acknowledged"),
    };
    for guess in 0..50 {
        inner.encode(guess, &mut fake).unwrap();
    }
    let kept = fake.len();
    fake.resize(kept + 500, 0);
    {
        let (mut log, _) = Log::open(dir.path(), 10_000, 0).unwrap();
        log.append(1, Kind::Entry, payload(1, 50)).unwrap();
        log.sync().unwrap();
        log.append(1, Kind::Entry, Bytes::from(fake)).unwrap();
    }
    let file = files(dir.path()).remove(0);
    let length = fs::metadata(&file).unwrap().len();
    let torn = fs::File::options().write(true).open(&file).unwrap();
    torn.set_len(length - 400).unwrap();
    let (log, torn) = Log::open(dir.path(), 10_000, 0).unwrap();
    assert_eq!(log.last_index(), 1);
    assert!(torn.is_some());
}

#[test]
fn a_record_of_a_newer_version_is_refused_and_never_cut() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[50, 50], 10_000);
    let file = files(dir.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - (super::record::HEADER + 50);
    bytes[last + super::record::HEADER - 1] = 9;
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&nonce(&bytes).to_le_bytes());
    digest.update(&bytes[last + 4..last + super::record::HEADER]);
    let sum = u32::try_from(digest.finalize()).unwrap();
    bytes[last..last + 4].copy_from_slice(&sum.to_le_bytes());
    fs::write(&file, &bytes).unwrap();
    assert!(matches!(
        Log::open(dir.path(), 10_000, 0),
        Err(LogError::Damaged { .. })
    ));
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_header_that_is_whole_tells_what_was_durable_even_without_its_payload() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[50, 50, 50], 10_000);
    let file = files(dir.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let record = super::record::HEADER + 50;
    let last = bytes.len() - record;
    bytes[last - 1] ^= 1;
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    assert!(matches!(
        Log::open(dir.path(), 10_000, 0),
        Err(LogError::Damaged { .. })
    ));
}

#[test]
fn what_is_known_to_be_durable_is_never_cut() {
    let (dir, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lengths = [60; 5];
    write(dir.path(), &lengths, 10_000);
    let file = files(dir.path()).remove(0);
    let whole = fs::read(&file).unwrap();
    for kept in 0..whole.len() {
        copy(dir.path(), image.path());
        let target = image.path().join(file.file_name().unwrap());
        fs::write(&target, &whole[..kept]).unwrap();
        assert!(Log::open(image.path(), 10_000, 5).is_err(), "cut to {kept}");
        assert_eq!(fs::read(&target).unwrap().len(), kept);
    }
    fs::remove_file(&file).unwrap();
    assert!(matches!(
        Log::open(dir.path(), 10_000, 5),
        Err(LogError::Gap { .. })
    ));
}

#[test]
fn a_record_that_is_too_large_leaves_the_log_usable() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    let large = Bytes::from(vec![0; MAX_PAYLOAD + 1]);
    assert!(matches!(
        log.append(1, Kind::Entry, large),
        Err(LogError::TooLarge { .. })
    ));
    assert_eq!(log.append(1, Kind::Entry, Bytes::new()).unwrap(), 1);
}

#[test]
fn a_record_without_room_leaves_the_log_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    let mut next = 1;
    for room in 0..500 {
        power::room(dir.path(), Some(room));
        let refused = log.append(1, Kind::Entry, payload(next, 20));
        power::room(dir.path(), None);
        match refused {
            Ok(index) => assert_eq!(index, next),
            Err(LogError::Full { .. }) => {
                assert_eq!(log.last_index(), next - 1);
                assert_eq!(log.append(1, Kind::Entry, payload(next, 20)).unwrap(), next);
            }
            Err(error) => panic!("{error}"),
        }
        log.sync().unwrap();
        next += 1;
    }
    drop(log);
    assert!(files(dir.path()).len() > 3);
    let (log, torn) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    assert_eq!((log.last_index(), torn), (next - 1, None));
    for (record, index) in log.reader(0).zip(1..) {
        assert_eq!(record.unwrap().payload, payload(index, 20));
    }
}

#[test]
fn a_failed_write_poisons() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), 1, 0).unwrap();
    log.append(1, Kind::Entry, Bytes::new()).unwrap();
    // The next record needs a new segment, whose file exists already.
    fs::write(segment::path_of(dir.path(), 2), b"in the way").unwrap();
    assert!(matches!(
        log.append(1, Kind::Entry, Bytes::new()),
        Err(LogError::Io { .. })
    ));
    assert!(matches!(
        log.append(1, Kind::Entry, Bytes::new()),
        Err(LogError::Poisoned)
    ));
    assert!(matches!(log.sync(), Err(LogError::Poisoned)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_damage_gives_a_beginning_or_a_refusal(
        lengths in proptest::collection::vec(0usize..200, 1..12),
        cut in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u8..=255), 0..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &lengths, SEGMENT);
        let all = files(dir.path());
        for (file, at, mask) in flips {
            let file = file.get(&all);
            let mut bytes = fs::read(file).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= mask;
            fs::write(file, bytes).unwrap();
        }
        let last = all.last().unwrap();
        let bytes = fs::read(last).unwrap();
        fs::write(last, &bytes[..cut.index(bytes.len() + 1)]).unwrap();
        if let Ok(kept) = beginning(dir.path(), &lengths) {
            prop_assert!(kept <= lengths.len());
        }
    }
}

proptest! {
    /// Whatever is appended, synced, truncated and killed in between, the log reads back as it was written.
    #[test]
    fn a_log_that_is_truncated_and_killed_is_what_was_written(
        steps in proptest::collection::vec((0..10_u8, 0..400_usize), 1..60),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let copies = tempfile::tempdir().unwrap();
        let mut here = dir.path().to_owned();
        let mut log = Log::open(&here, 3000, 0).unwrap().0;
        let mut written: Vec<Bytes> = Vec::new();
        for (number, (step, size)) in steps.into_iter().enumerate() {
            match step {
                0..=5 => {
                    let more = payload(number as u64, size);
                    log.append(1, Kind::Entry, more.clone()).unwrap();
                    written.push(more);
                    if step < 4 {
                        log.sync().unwrap();
                    }
                }
                6 | 7 => {
                    let keep = written.len().saturating_sub(size % 7);
                    log.truncate(keep as u64).unwrap();
                    written.truncate(keep);
                }
                _ => {
                    let to = copies.path().join(number.to_string());
                    copy(&here, &to);
                    let durable = log.durable_index();
                    log = Log::open(&to, 3000, durable).unwrap().0;
                    here = to;
                }
            }
            let found: Vec<_> = read(&log, 0).into_iter().map(|record| record.payload).collect();
            prop_assert_eq!(&found, &written);
        }
    }
}
