//! One node under load, restarts, losses and kills, with rules that only count.

mod crash;
mod faults;
mod lent;
mod power;
mod real;
mod restart;

use super::checkpoints::Checkpoints;
use super::rules::Rules;
use super::*;
use crate::store::{Mark, checkpoint};
use append_namespace::command::{Command, Entry, KeyPath, SetTimes};
use append_namespace::reply::{Refusal, RefusalKind, Reply};
use append_namespace::rows::{Change, Keyspace, Rows, RowsError};
use append_namespace::{Applied, Position};
use bytes::Bytes;
use prost::Message;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Rules for tests: a command writes a row at its key that holds its command number.
///
/// Some keys do more: `open` and `close` begin and end a session, `refuse` is refused, `panic` and `unreadable` are what they say.
#[derive(Debug)]
pub(super) struct Tally {
    position: Position,
}

const POSITION: &[u8] = b"position";

fn change(keyspace: Keyspace, key: &[u8], value: Option<Vec<u8>>) -> Change {
    Change {
        keyspace,
        key: Bytes::copy_from_slice(key),
        value: value.map(Bytes::from),
    }
}

impl Rules for Tally {
    fn open(rows: &dyn Rows) -> Result<Tally, RowsError> {
        let position = match rows.get(Keyspace::Meta, POSITION)? {
            Some(row) => Position::decode(row).map_err(|error| RowsError::Corrupt {
                keyspace: Keyspace::Meta,
                detail: error.to_string(),
            })?,
            None => Position::default(),
        };
        Ok(Tally { position })
    }

    fn position(&self) -> Position {
        self.position
    }

    fn limits(&self) -> Limits {
        Limits {
            max_blocks_per_file: self.position.command,
            ..Limits::starting()
        }
    }

    fn apply(
        &mut self,
        rows: &dyn Rows,
        term: u64,
        index: u64,
        entry: &Entry,
    ) -> Result<Applied, RowsError> {
        assert_eq!(self.position.index + 1, index);
        self.position.term = term;
        self.position.index = index;
        self.position.lease_ms = self.position.lease_ms.max(entry.stamp.lease_ms);
        let (mut outcomes, mut changes) = (Vec::new(), Vec::new());
        for request in &entry.requests {
            self.position.command += 1;
            let Some(Command::SetTimes(SetTimes { path, .. })) = &request.command else {
                panic!("{request:?}")
            };
            let number = self.position.command.to_be_bytes().to_vec();
            match path.key.as_str() {
                "open" => changes.push(change(Keyspace::Open, b"session", Some(number))),
                "close" => changes.push(change(Keyspace::Open, b"session", None)),
                "refuse" => {
                    outcomes.push(Err(Refusal::new(RefusalKind::InvalidRequest, "as asked")));
                    continue;
                }
                "panic" => panic!("as asked"),
                "unreadable" => return Err(RowsError::Store("as asked".to_owned())),
                key => {
                    // Reads what the entry before wrote, so that a replay over other rows gives other rows.
                    let before = rows
                        .get(Keyspace::Files, key.as_bytes())?
                        .map_or(0, |row| row.len() / 8);
                    let row = number.repeat(before % 5 + 1);
                    changes.push(change(Keyspace::Files, key.as_bytes(), Some(row)));
                }
            }
            outcomes.push(Ok(Reply::default()));
        }
        changes.push(change(
            Keyspace::Meta,
            POSITION,
            Some(self.position.encode_to_vec()),
        ));
        Ok(Applied {
            outcomes,
            changes,
            position: self.position,
        })
    }

    fn raise_epoch(&mut self, epoch: u32) {
        self.position.epoch = self.position.epoch.max(epoch);
    }

    fn any_session(rows: &dyn Rows) -> Result<bool, RowsError> {
        Ok(!rows.range(Keyspace::Open, b"", None, 1)?.is_empty())
    }
}

pub(super) fn request(key: &str) -> Request {
    let path = KeyPath {
        volume: "v".to_owned(),
        bucket: "b".to_owned(),
        key: key.to_owned(),
    };
    let command = Some(Command::SetTimes(SetTimes {
        path,
        modified_ms: 0,
    }));
    Request {
        user: "tester".to_owned(),
        command,
        ..Request::default()
    }
}

/// Small sizes, so that little work rolls segments; duties only when a test asks.
pub(super) fn options() -> Options {
    Options {
        segment_bytes: 2_000,
        checkpoint_log_bytes: u64::MAX,
        persist_every: Duration::from_secs(3_600),
        cache_bytes: 1 << 20,
        on_fatal: Arc::new(|reason| panic!("{reason}")),
        ..Options::default()
    }
}

pub(super) fn open(dir: &Path) -> Arc<LocalConsensus> {
    LocalConsensus::open_with::<Tally>(dir, options()).unwrap()
}

/// Waits for a proposal on this thread.
pub(super) fn propose(consensus: &LocalConsensus, key: &str) -> Result<Decided, ProposeError> {
    block_on(consensus.propose(request(key)))
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

pub(super) fn write_keys(consensus: &LocalConsensus, prefix: &str, count: usize) {
    for at in 0..count {
        propose(consensus, &format!("{prefix}{at}"))
            .unwrap()
            .unwrap();
    }
}

/// All rows of a view, byte by byte.
pub(super) fn dump(consensus: &LocalConsensus) -> Vec<u8> {
    let mut out = Vec::new();
    let position = consensus.position();
    checkpoint::write(
        &consensus.view(),
        Mark {
            term: position.term,
            index: position.index,
        },
        &mut out,
    )
    .unwrap();
    out
}

pub(super) fn row(consensus: &LocalConsensus, key: &str) -> Option<Bytes> {
    consensus
        .view()
        .get(Keyspace::Files, key.as_bytes())
        .unwrap()
}

/// Waits until `condition` holds; the test's own time limit is the only one.
pub(super) fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn an_answer_comes_after_the_command_is_visible() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    assert_eq!(propose(&consensus, "a").unwrap(), Ok(Reply::default()));
    assert_eq!(row(&consensus, "a").unwrap(), 1u64.to_be_bytes().as_slice());
    let refusal = propose(&consensus, "refuse").unwrap().unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::InvalidRequest as i32);
    assert_eq!(consensus.position().command, 2);
    assert_eq!(consensus.limits().max_blocks_per_file, 2);
    let view = block_on(consensus.read_barrier()).unwrap();
    assert!(view.get(Keyspace::Files, b"a").unwrap().is_some());
}

#[test]
fn many_proposers_are_all_answered_and_share_entries() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    // All of them are queued before the first is waited for, so the log thread cannot take them one by one.
    let answers: Vec<Proposal> = (0..1_000)
        .map(|at| consensus.propose(request(&format!("k{at}"))))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let consensus = &consensus;
            scope.spawn(move || write_keys(consensus, &format!("t{thread}-"), 50));
        }
        for answer in answers {
            block_on(answer).unwrap().unwrap();
        }
    });
    let position = consensus.position();
    assert_eq!(position.command, 1_200);
    assert!(position.index < 900, "{position:?}");
    let rows = consensus
        .view()
        .range(Keyspace::Files, b"", None, 10_000)
        .unwrap();
    let mut numbers: Vec<_> = rows.iter().map(|(_, row)| row.clone()).collect();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 1_200);
}

#[test]
fn a_request_without_a_command_never_comes_into_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    let empty = Request {
        command: None,
        ..request("a")
    };
    assert!(block_on(consensus.propose(empty)).unwrap().is_err());
    assert_eq!(consensus.position(), Position::default());
}

#[test]
fn a_dropped_answer_takes_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    drop(consensus.propose(request("a")));
    propose(&consensus, "b").unwrap().unwrap();
    assert!(row(&consensus, "a").is_some());
}

#[test]
fn shutdown_answers_what_is_queued_and_refuses_what_follows() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    let answers: Vec<Proposal> = (0..500)
        .map(|at| consensus.propose(request(&format!("k{at}"))))
        .collect();
    consensus.shutdown();
    for answer in answers {
        block_on(answer).unwrap().unwrap();
    }
    assert_eq!(propose(&consensus, "late"), Err(ProposeError::Stopped));
    consensus.shutdown();
}

#[test]
fn lease_time_moves_by_itself_while_a_session_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let ticking = Options {
        tick: Duration::from_millis(2),
        ..options()
    };
    let consensus = LocalConsensus::open_with::<Tally>(dir.path(), ticking.clone()).unwrap();
    propose(&consensus, "open").unwrap().unwrap();
    let before = consensus.position();
    wait_until(|| consensus.position().lease_ms >= before.lease_ms + 20);
    assert_eq!(consensus.position().command, before.command);
    drop(consensus);
    // A session that is there at the open ticks without any command.
    let consensus = LocalConsensus::open_with::<Tally>(dir.path(), ticking).unwrap();
    let before = consensus.position();
    wait_until(|| consensus.position().lease_ms > before.lease_ms);
    propose(&consensus, "close").unwrap().unwrap();
    assert!(
        !consensus
            .shared_for_test()
            .sessions
            .load(std::sync::atomic::Ordering::Acquire)
    );
}
