//! Failures while the node runs: the caller is told the truth, the process is told to end, and the next open is sound.

use super::*;
use crate::files::power;

/// Options whose fatal hook writes the reason down.
fn recording() -> (Options, Arc<Mutex<Vec<String>>>) {
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let record = reasons.clone();
    let on_fatal: OnFatal = Arc::new(move |reason| record.lock().unwrap().push(reason.to_owned()));
    (
        Options {
            on_fatal,
            ..options()
        },
        reasons,
    )
}

#[test]
fn a_log_that_cannot_be_written_ends_everything_once() {
    let dir = tempfile::tempdir().unwrap();
    let (options, reasons) = recording();
    let options = Options {
        segment_bytes: 1,
        ..options
    };
    let consensus = LocalConsensus::open_with::<Tally>(dir.path(), options).unwrap();
    write_keys(&consensus, "a", 2);
    std::fs::create_dir(dir.path().join("log").join(format!("{:020}.log", 3))).unwrap();
    assert_eq!(propose(&consensus, "b"), Err(ProposeError::OutcomeUnknown));
    assert_eq!(propose(&consensus, "c"), Err(ProposeError::Stopped));
    assert!(block_on(consensus.read_barrier()).is_err());
    consensus.shutdown();
    let reasons = reasons.lock().unwrap();
    assert!(
        reasons.len() == 1 && reasons[0].contains("log"),
        "{reasons:?}"
    );
}

#[test]
fn rules_that_panic_leave_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let (options, reasons) = recording();
    let consensus = LocalConsensus::open_with::<Tally>(dir.path(), options).unwrap();
    assert_eq!(
        propose(&consensus, "panic"),
        Err(ProposeError::OutcomeUnknown)
    );
    wait_until(|| !reasons.lock().unwrap().is_empty());
    assert_eq!(propose(&consensus, "a"), Err(ProposeError::Stopped));
}

#[test]
fn rows_that_cannot_be_read_are_rebuilt_at_the_next_open() {
    let dir = tempfile::tempdir().unwrap();
    let (options, reasons) = recording();
    let consensus = LocalConsensus::open_with::<Tally>(dir.path(), options).unwrap();
    write_keys(&consensus, "a", 10);
    let rows = dump(&consensus);
    assert_eq!(
        propose(&consensus, "unreadable"),
        Err(ProposeError::OutcomeUnknown)
    );
    wait_until(|| !reasons.lock().unwrap().is_empty());
    drop(consensus);
    assert!(dir.path().join("rows.suspect").exists());

    // The entry is in the log and cannot be applied by these rules; with rules that can, everything is there.
    match LocalConsensus::open_with::<Tally>(dir.path(), super::options()) {
        Err(OpenError::Rows(RowsError::Store(_))) => {}
        other => panic!("{other:?}"),
    }
    let consensus = LocalConsensus::open_with::<Forgiving>(dir.path(), super::options()).unwrap();
    assert_eq!(consensus.position().command, 10);
    let files = consensus
        .view()
        .range(Keyspace::Files, b"", None, 100)
        .unwrap();
    assert_eq!(files.len(), 10);
    assert_ne!(dump(&consensus), rows);
    assert!(!dir.path().join("rows.suspect").exists());
}

/// The same rules, but what cannot be read changes nothing.
struct Forgiving(Tally);

impl Rules for Forgiving {
    fn open(rows: &dyn Rows) -> Result<Forgiving, RowsError> {
        Tally::open(rows).map(Forgiving)
    }

    fn position(&self) -> Position {
        self.0.position()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn apply(
        &mut self,
        rows: &dyn Rows,
        term: u64,
        index: u64,
        entry: &Entry,
    ) -> Result<Applied, RowsError> {
        let unreadable = entry.requests == [request("unreadable")];
        let empty = Entry {
            stamp: entry.stamp,
            requests: Vec::new(),
        };
        self.0
            .apply(rows, term, index, if unreadable { &empty } else { entry })
    }

    fn raise_epoch(&mut self, epoch: u32) {
        self.0.raise_epoch(epoch);
    }

    fn any_session(rows: &dyn Rows) -> Result<bool, RowsError> {
        Tally::any_session(rows)
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_node_serving() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    write_keys(&consensus, "a", 10);
    consensus.checkpoint().unwrap();
    write_keys(&consensus, "b", 10);
    let blocked = dir
        .path()
        .join("checkpoints")
        .join(format!("{:020}.new", consensus.position().index));
    std::fs::create_dir(&blocked).unwrap();
    assert!(matches!(
        consensus.checkpoint(),
        Err(CheckpointFailure::Io { .. })
    ));
    write_keys(&consensus, "c", 1);
    consensus.checkpoint().unwrap();
}

fn log_bytes(dir: &Path) -> u64 {
    std::fs::read_dir(dir.join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

#[test]
fn a_full_disk_refuses_commands_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let ticking = Options {
        tick: Duration::from_millis(1),
        ..options()
    };
    let consensus = LocalConsensus::open_with::<Tally>(dir.path(), ticking).unwrap();
    write_keys(&consensus, "a", 3);
    propose(&consensus, "open").unwrap().unwrap();
    let pretend = |full| {
        let space = &consensus.shared_for_test().space;
        space
            .pretend_full
            .store(full, std::sync::atomic::Ordering::Release);
    };
    pretend(true);
    assert_eq!(propose(&consensus, "b"), Err(ProposeError::NoSpace));
    // No lease runs out while nobody can renew: no tick is written.
    let before = log_bytes(dir.path());
    let began = std::time::Instant::now();
    wait_until(|| began.elapsed() > Duration::from_millis(20));
    assert_eq!(propose(&consensus, "b"), Err(ProposeError::NoSpace));
    assert_eq!(log_bytes(dir.path()), before);
    assert!(row(&consensus, "a0").is_some());
    assert!(block_on(consensus.read_barrier()).is_ok());
    assert!(matches!(
        consensus.checkpoint(),
        Err(CheckpointFailure::NoSpace)
    ));
    pretend(false);
    write_keys(&consensus, "c", 3);
    consensus.checkpoint().unwrap();

    // Nor does a write that finds no room all the same end anything.
    power::room(&dir.path().join("log"), Some(10));
    assert_eq!(propose(&consensus, "d"), Err(ProposeError::NoSpace));
    power::room(&dir.path().join("log"), None);
    write_keys(&consensus, "e", 3);
    let position = consensus.position();
    drop(consensus);
    let consensus = open(dir.path());
    assert_eq!(consensus.position().command, position.command);
    assert!(row(&consensus, "e2").is_some() && row(&consensus, "d").is_none());
}

#[test]
fn rows_persisted_by_several_at_once_are_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    let shared = consensus.shared_for_test();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Acquire) && !shared.has_failed() {
                    shared.persist().unwrap();
                }
            });
        }
        write_keys(&consensus, "a", 200);
        done.store(true, std::sync::atomic::Ordering::Release);
    });
    shared.persist().unwrap();
    let left = shared
        .unpersisted
        .load(std::sync::atomic::Ordering::Acquire);
    assert_eq!(left, 0);
}

#[test]
fn a_command_beyond_the_limit_is_refused_and_a_large_one_goes_alone() {
    let dir = tempfile::tempdir().unwrap();
    let small = Options {
        command_bytes: 100_000,
        batch_bytes: 1_000,
        ..options()
    };
    let consensus = LocalConsensus::open_with::<Tally>(dir.path(), small).unwrap();
    let key = "k".repeat(60_000);
    propose(&consensus, &key).unwrap().unwrap();
    assert!(row(&consensus, &key).is_some());
    assert!(matches!(
        propose(&consensus, &"k".repeat(100_000)),
        Err(ProposeError::TooLarge { limit: 100_000, .. })
    ));
}
