//! Recovery of the log from any bytes: it opens with records that were written, each at its place, or says why not. What opened once opens
//! again with the same records, and takes more.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use append_server::log::{Kind, Log, LogError, Record};
use bytes::Bytes;

use crate::patch::{Input, one, patch};
use crate::scratch;

const SEGMENT: u64 = 300;
const RECORDS: u64 = 12;

/// Name and content of each segment of a good log.
static GOOD: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let (mut log, _) = Log::open(folder.path(), SEGMENT, 0).unwrap();
    for index in 1..=RECORDS {
        log.append(1 + index / 5, Kind::Entry, payload(index))
            .unwrap();
        // Some records share a sync.
        if index % 3 != 0 {
            log.sync().unwrap();
        }
    }
    drop(log);
    let mut files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                PathBuf::from(entry.file_name()),
                std::fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    assert!(files.len() > 2);
    files
});

fn payload(index: u64) -> Bytes {
    let bytes = index
        .to_le_bytes()
        .repeat(usize::try_from(index % 4).unwrap() * 4 + 1);
    bytes.into()
}

fn read(log: &Log) -> Vec<Record> {
    log.reader(0).map(|record| record.unwrap()).collect()
}

/// Everything in the folder.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

pub(crate) fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let (mode, floor) = (input.byte(), u64::from(input.byte()) % (RECORDS + 2));
    // Half of the executions know of nothing that was durable but what the records say.
    let floor = if mode & 2 == 0 { 0 } else { floor };
    let patched = mode & 1 == 1;
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    if patched {
        let mut files = GOOD.clone();
        while !input.is_empty() {
            let number = usize::from(input.byte()) % files.len();
            patch(&mut input, &mut files[number].1);
        }
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
    } else {
        let name = "00000000000000000001.log";
        std::fs::write(folder.path().join(name), input.0).unwrap();
    }
    let before = contents(folder.path());
    match Log::open(folder.path(), SEGMENT, floor) {
        Ok((mut log, _)) => {
            let records = read(&log);
            for (at, record) in (log.first_index()..).zip(&records) {
                assert_eq!(record.index, at);
                if patched {
                    assert_eq!(record.payload, payload(at), "record {at} is another");
                }
            }
            assert!(log.last_index() >= floor);
            let next = log
                .append(log.last_term(), Kind::Entry, payload(99))
                .unwrap();
            log.sync().unwrap();
            drop(log);
            let (log, torn) = Log::open(folder.path(), SEGMENT, next).unwrap();
            assert_eq!(torn, None);
            let again = read(&log);
            assert_eq!(again.len(), records.len() + 1);
            assert_eq!(again[..records.len()], records);
        }
        Err(LogError::Damaged { .. } | LogError::Version { .. }) => {
            assert!(contents(folder.path()) == before, "damage was changed");
        }
        Err(LogError::Gap { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let first = GOOD[0].1.clone();
    let mut found = vec![vec![1, 0], vec![3, 12], [vec![0, 0], first].concat()];
    for file in 0..u8::try_from(GOOD.len()).unwrap() {
        for at in [0, 8, 12, 20, 28, 32, 36, 40, 44, 60, 68, 69, 100, 170, 250] {
            for mode in [1, 3] {
                let with = |change| [vec![mode, 9, file], change].concat();
                found.push(with(one(0, at, 1, &[])));
                found.push(with(one(2, at, 0, &[])));
                found.push(with(one(3, at, 40, &[])));
            }
        }
    }
    found
}
