//! What durability costs: the log alone, and commands through log, rows and answers, by how many share an fsync.
//!
//! `cargo bench -p append-server`. Files go to the temporary folder: set `TMPDIR` to a folder on the disk that is meant.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark stops at the first surprise"
)]

use append_namespace::Request;
use append_namespace::command::{Command, CreateVolume, Invocation};
use append_server::consensus::{Consensus, LocalConsensus, Options};
use append_server::log::{Kind, Log};
use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use std::sync::Arc;

/// About what one command takes in the log, bytes.
const COMMAND: usize = 300;
const SEGMENT: u64 = 64 << 20;

fn main() {
    divan::main();
}

/// One record of so many commands, and its fsync.
#[divan::bench(args = [1, 16, 256], sample_count = 100, sample_size = 1)]
fn log_append_and_sync(bencher: Bencher<'_, '_>, commands: usize) {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    let payload = Bytes::from(vec![7; commands * COMMAND]);
    bencher.counter(ItemsCount::new(commands)).bench_local(|| {
        log.append(1, Kind::Entry, payload.clone()).unwrap();
        log.sync().unwrap();
    });
}

/// Opening a log of 10,000 records, each of which is read and checked.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn log_open(bencher: Bencher<'_, '_>) {
    const RECORDS: usize = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), SEGMENT, 0).unwrap();
    for _ in 0..RECORDS {
        log.append(1, Kind::Entry, Bytes::from(vec![7; COMMAND]))
            .unwrap();
    }
    log.sync().unwrap();
    drop(log);
    bencher
        .counter(ItemsCount::new(RECORDS))
        .bench_local(|| Log::open(dir.path(), SEGMENT, 0).unwrap());
}

/// So many commands proposed at once, until each is durable, applied and answered.
#[divan::bench(args = [1, 16, 256], sample_count = 50, sample_size = 1)]
fn proposals(bencher: Bencher<'_, '_>, commands: u64) {
    let dir = tempfile::tempdir().unwrap();
    let consensus = LocalConsensus::open(dir.path(), Options::default()).unwrap();
    let mut sequence = 0;
    bencher.counter(ItemsCount::new(commands)).bench_local(|| {
        sequence += commands;
        propose(&consensus, sequence, commands);
    });
    consensus.shutdown();
}

fn propose(consensus: &Arc<LocalConsensus>, sequence: u64, commands: u64) {
    // All are queued before the first is waited for: that is what makes them one batch.
    let answers: Vec<_> = (sequence..sequence + commands)
        .map(|number| consensus.propose(volume(number)))
        .collect();
    for answer in answers {
        block_on(answer).unwrap().unwrap();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

fn volume(number: u64) -> Request {
    Request {
        user: "alice".into(),
        invocation: Some(Invocation {
            client: Bytes::from_static(b"client-1"),
            sequence: number,
        }),
        answered_below: number.checked_sub(1_000),
        command: Some(Command::CreateVolume(CreateVolume {
            volume: format!("volume-{number}"),
            quota_bytes: -1,
            quota_names: -1,
            ..CreateVolume::default()
        })),
    }
}
