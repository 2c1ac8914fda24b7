//! What is there after a restart, with and without rows and checkpoints.

use super::*;
use crate::log::LogError;
use std::fs;
use std::path::PathBuf;

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x20;
    fs::write(path, bytes).unwrap();
}

fn open_error(dir: &Path) -> OpenError {
    LocalConsensus::open_with::<Tally>(dir, options()).unwrap_err()
}

#[test]
fn rows_position_and_lease_time_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    write_keys(&consensus, "a", 40);
    let (rows, position) = (dump(&consensus), consensus.position());
    drop(consensus);
    let consensus = open(dir.path());
    assert_eq!((dump(&consensus), consensus.position()), (rows, position));
    write_keys(&consensus, "b", 1);
    let after = consensus.position();
    assert_eq!(
        (after.index, after.command),
        (position.index + 1, position.command + 1)
    );
    assert!(after.lease_ms >= position.lease_ms);
}

#[test]
fn a_replay_from_nothing_gives_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    for _ in 0..3 {
        write_keys(&consensus, "a", 30);
    }
    let rows = dump(&consensus);
    drop(consensus);
    fs::remove_dir_all(dir.path().join("rows")).unwrap();
    let consensus = open(dir.path());
    assert_eq!(dump(&consensus), rows);
}

#[test]
fn two_servers_cannot_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let _consensus = open(dir.path());
    assert!(matches!(open_error(dir.path()), OpenError::Locked(_)));
}

/// Three checkpoints with commands between; gives the rows at the end.
fn with_checkpoints(dir: &Path) -> Vec<u8> {
    let consensus = open(dir);
    for round in 0..3 {
        write_keys(&consensus, &format!("r{round}-"), 60);
        write_keys(&consensus, "again", 10);
        let summary = consensus.checkpoint().unwrap();
        assert_eq!(summary.mark.index, consensus.position().index);
    }
    write_keys(&consensus, "end", 20);
    // The cut is asked of the log thread before the last commands, so it has been done.
    let rows = dump(&consensus);
    let first = files(&dir.join("log")).remove(0);
    let older = Checkpoints::open(&dir.join("checkpoints"))
        .unwrap()
        .newest_first()
        .pop()
        .unwrap();
    let first: u64 = first
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        first > 1 && first <= older.index + 1,
        "the log begins at {first}, the older checkpoint is {}",
        older.index
    );
    assert_eq!(files(&dir.join("checkpoints")).len(), 2);
    rows
}

#[test]
fn after_a_cut_a_restart_finds_everything() {
    let dir = tempfile::tempdir().unwrap();
    let rows = with_checkpoints(dir.path());
    assert_eq!(dump(&open(dir.path())), rows);
}

#[test]
fn lost_rows_come_back_from_checkpoint_and_log() {
    let dir = tempfile::tempdir().unwrap();
    let rows = with_checkpoints(dir.path());
    fs::remove_dir_all(dir.path().join("rows")).unwrap();
    assert_eq!(dump(&open(dir.path())), rows);
    // And stay.
    assert_eq!(dump(&open(dir.path())), rows);
    assert!(!dir.path().join("rows.new").exists());
}

#[test]
fn the_older_checkpoint_serves_when_the_newest_is_lost_or_damaged() {
    for damage in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let rows = with_checkpoints(dir.path());
        let newest = files(&dir.path().join("checkpoints")).pop().unwrap();
        if damage {
            flip(&newest, 100);
        } else {
            fs::remove_file(newest).unwrap();
        }
        fs::remove_dir_all(dir.path().join("rows")).unwrap();
        assert_eq!(dump(&open(dir.path())), rows);
    }
}

#[test]
fn without_rows_and_checkpoints_a_cut_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    with_checkpoints(dir.path());
    fs::remove_dir_all(dir.path().join("rows")).unwrap();
    for file in files(&dir.path().join("checkpoints")) {
        flip(&file, 50);
    }
    match open_error(dir.path()) {
        OpenError::NoCheckpoint { tried, .. } => assert!(tried.contains("damaged"), "{tried}"),
        other => panic!("{other}"),
    }
}

#[test]
fn rows_that_stand_before_a_cut_log_are_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    write_keys(&consensus, "early", 5);
    drop(consensus);
    let aside = dir.path().parent().unwrap().join(format!(
        "{}-aside",
        dir.path().file_name().unwrap().to_str().unwrap()
    ));
    fs::rename(dir.path().join("rows"), &aside).unwrap();
    let rows = with_checkpoints(dir.path());
    fs::remove_dir_all(dir.path().join("rows")).unwrap();
    fs::rename(&aside, dir.path().join("rows")).unwrap();
    assert_eq!(dump(&open(dir.path())), rows);
}

#[test]
fn rot_in_the_log_is_refused_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    write_keys(&consensus, "a", 60);
    drop(consensus);
    let segments = files(&dir.path().join("log"));
    assert!(segments.len() > 2);
    // Even the last record, which no other calls durable: the rows hold it.
    let last = segments.last().unwrap();
    for (path, at) in [
        (&segments[0], 70),
        (&segments[1], 5),
        (last, 30),
        (last, fs::read(last).unwrap().len() - 1),
    ] {
        flip(path, at);
        match open_error(dir.path()) {
            OpenError::Log(LogError::Damaged { path: damaged, .. }) => assert_eq!(&damaged, path),
            other => panic!("{other}"),
        }
        flip(path, at);
    }
    fs::rename(dir.path().join("log"), dir.path().join("rows/elsewhere")).unwrap();
    assert!(matches!(
        open_error(dir.path()),
        OpenError::Log(LogError::Gap { .. })
    ));
    fs::rename(dir.path().join("rows/elsewhere"), dir.path().join("log")).unwrap();
    open(dir.path());
}

#[test]
fn the_duties_take_checkpoints_and_cut_the_log_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let eager = Options {
        checkpoint_log_bytes: 4_000,
        persist_bytes: 1_000,
        persist_every: Duration::from_millis(1),
        ..options()
    };
    let consensus = LocalConsensus::open_with::<Tally>(dir.path(), eager).unwrap();
    let mut round = 0;
    let cut = |dir: &Path| !dir.join("log").join(format!("{:020}.log", 1)).exists();
    while !cut(dir.path()) {
        write_keys(&consensus, &format!("r{round}-"), 20);
        round += 1;
    }
    let rows = dump(&consensus);
    drop(consensus);
    fs::remove_dir_all(dir.path().join("rows")).unwrap();
    assert_eq!(dump(&open(dir.path())), rows);
}
