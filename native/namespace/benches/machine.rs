//! What one command costs the rules, on rows in memory: no log, no disk, no network.
//!
//! `cargo bench -p append-namespace`. A publication must cost the same however long the file is, so each bench of a file runs on a
//! short and on a long one.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark stops at the first surprise"
)]

use append_namespace::command::{
    AppendFile, BucketName, Command, CreateBucket, CreateDirectory, CreateMode, CreateVolume,
    Delete, Finalize, Handle, Holder, Invocation, KeyPath, LAYOUT_APPEND, Layout, Publish,
    PublishKind, Rename, SubmittedBlock, Target,
};
use append_namespace::reply::{Admitted, Answer, Reply};
use append_namespace::{Change, Entry, Keyspace, Machine, Request, Rows, RowsError, Stamp, read};
use bytes::Bytes;
use divan::Bencher;
use std::collections::BTreeMap;

/// Blocks that the file has when a bench begins.
const BLOCKS: [u64; 2] = [1_000, 50_000];
/// Bytes of one append.
const LENGTH: u64 = 4096;

fn main() {
    divan::main();
}

/// Admission, and the publication that ends the session.
#[divan::bench(args = BLOCKS, sample_count = 50, sample_size = 10)]
fn append_cycle(bencher: Bencher<'_, '_>, blocks: u64) {
    let mut world = World::with_file(blocks);
    bencher.bench_local(|| world.append_cycle());
}

/// An hsync that makes the last block longer.
#[divan::bench(args = BLOCKS, sample_count = 50, sample_size = 20)]
fn hsync(bencher: Bencher<'_, '_>, blocks: u64) {
    let mut world = World::with_file(blocks);
    let admitted = world.admit();
    let mut written = 0;
    bencher.bench_local(|| {
        written += LENGTH;
        world.publish(&admitted, PublishKind::Hsync, written);
    });
}

/// Sixteen appends in one entry each way, as the log batches them.
#[divan::bench(sample_count = 50, sample_size = 5)]
fn append_cycles_of_sixteen(bencher: Bencher<'_, '_>) {
    let mut world = World::new();
    let files: Vec<String> = (0..16).map(|n| format!("many/file{n}")).collect();
    for file in &files {
        let created = world.admitted(file, CreateMode::MustBeNew);
        world.publish(&created, PublishKind::Close, LENGTH);
    }
    bencher
        .counter(divan::counter::ItemsCount::new(files.len()))
        .bench_local(|| {
            let admissions = files
                .iter()
                .map(|file| append(file, CreateMode::No))
                .collect();
            let admitted: Vec<Admitted> =
                world.entry(admissions).into_iter().map(admission).collect();
            let closes = admitted
                .iter()
                .map(|admitted| publication(admitted, PublishKind::Close, LENGTH))
                .collect();
            world.entry(closes)
        });
}

/// A directory in one of 10,000.
#[divan::bench(sample_count = 50, sample_size = 20)]
fn mkdir(bencher: Bencher<'_, '_>) {
    let mut world = World::with_directories(10_000);
    let mut next = 10_000;
    bencher.bench_local(|| {
        next += 1;
        world.run(directory(next))
    });
}

/// A directory in one of 10,000, there and back.
#[divan::bench(sample_count = 50, sample_size = 20)]
fn rename_twice(bencher: Bencher<'_, '_>) {
    let mut world = World::with_directories(10_000);
    bencher.bench_local(|| {
        for (from, to) in [("dir/5000", "dir/moved"), ("dir/moved", "dir/5000")] {
            world.run(Command::Rename(Rename {
                from: path(from),
                to: to.into(),
                expected_update: None,
            }));
        }
    });
}

/// A directory in one of 10,000, made and deleted.
#[divan::bench(sample_count = 50, sample_size = 20)]
fn mkdir_and_delete(bencher: Bencher<'_, '_>) {
    let mut world = World::with_directories(10_000);
    bencher.bench_local(|| {
        world.run(directory(10_001));
        world.run(Command::Delete(Delete {
            path: path("dir/10001"),
            ..Delete::default()
        }))
    });
}

/// The status of a directory in one of 10,000.
#[divan::bench(sample_count = 50, sample_size = 100)]
fn status(bencher: Bencher<'_, '_>) {
    let world = World::with_directories(10_000);
    let path = path("dir/5000");
    bencher.bench_local(|| read::status(&world.rows, &path).unwrap().unwrap());
}

/// Rows, the machine over them, and a client that forgets its answers.
struct World {
    rows: MemoryRows,
    machine: Machine,
    sequence: u64,
}

impl World {
    fn new() -> World {
        let rows = MemoryRows::default();
        let machine = Machine::open(&rows).unwrap();
        let mut world = World {
            rows,
            machine,
            sequence: 0,
        };
        world.run(Command::Finalize(Finalize {
            layout: LAYOUT_APPEND,
        }));
        world.run(Command::RegisterHolder(Holder {
            uuid: "holder".into(),
            host: "h".into(),
            port: 1,
            number: 0,
        }));
        world.run(Command::CreateVolume(CreateVolume {
            volume: "vol".into(),
            quota_bytes: -1,
            quota_names: -1,
            ..CreateVolume::default()
        }));
        world.run(Command::CreateBucket(CreateBucket {
            name: BucketName {
                volume: "vol".into(),
                bucket: "bucket".into(),
            },
            layout: Layout::FileSystemOptimized.into(),
            quota_bytes: -1,
            quota_names: -1,
            ..CreateBucket::default()
        }));
        world
    }

    /// With a file of so many blocks, each by an append of its own.
    fn with_file(blocks: u64) -> World {
        let mut world = World::new();
        let created = world.admitted("dir/file", CreateMode::MustBeNew);
        world.publish(&created, PublishKind::Close, LENGTH);
        for _ in 1..blocks {
            world.append_cycle();
        }
        world
    }

    /// With so many directories in one.
    fn with_directories(count: u32) -> World {
        let mut world = World::new();
        for number in 0..count {
            world.run(directory(number));
        }
        world
    }

    fn entry(&mut self, commands: Vec<Command>) -> Vec<Reply> {
        let requests = commands
            .into_iter()
            .map(|command| {
                self.sequence += 1;
                Request {
                    user: "alice".into(),
                    invocation: Some(Invocation {
                        client: Bytes::from_static(b"client-1"),
                        sequence: self.sequence,
                    }),
                    // As our client does, so that the table of remembered answers stays as short as in real life.
                    answered_below: self.sequence.checked_sub(32),
                    command: Some(command),
                }
            })
            .collect();
        let entry = Entry {
            stamp: Stamp {
                lease_ms: 1_000,
                wall_ms: 1_000_000,
                rules: append_namespace::command::RULES,
            },
            requests,
        };
        let index = self.machine.position().index + 1;
        let applied = self.machine.apply(&self.rows, 1, index, &entry).unwrap();
        self.rows.apply(applied.changes);
        applied.outcomes.into_iter().map(Result::unwrap).collect()
    }

    fn run(&mut self, command: Command) -> Reply {
        self.entry(vec![command]).remove(0)
    }

    fn admitted(&mut self, key: &str, create: CreateMode) -> Admitted {
        admission(self.run(append(key, create)))
    }

    fn admit(&mut self) -> Admitted {
        self.admitted("dir/file", CreateMode::No)
    }

    fn publish(&mut self, admitted: &Admitted, kind: PublishKind, written: u64) {
        self.run(publication(admitted, kind, written));
    }

    fn append_cycle(&mut self) {
        let admitted = self.admit();
        self.publish(&admitted, PublishKind::Close, LENGTH);
    }
}

fn path(key: &str) -> KeyPath {
    KeyPath {
        volume: "vol".into(),
        bucket: "bucket".into(),
        key: key.into(),
    }
}

fn directory(number: u32) -> Command {
    Command::CreateDirectory(CreateDirectory {
        path: path(&format!("dir/{number}")),
        ..CreateDirectory::default()
    })
}

fn append(key: &str, create: CreateMode) -> Command {
    Command::AppendFile(AppendFile {
        path: path(key),
        create: create.into(),
        recursive: true,
        holders: vec![1],
        lease_owner: "bench".into(),
        ..AppendFile::default()
    })
}

fn admission(reply: Reply) -> Admitted {
    match reply.answer {
        Some(Answer::Admitted(admitted)) => admitted,
        other => panic!("{other:?}"),
    }
}

/// Publishes the session's first block with `written` bytes in it.
fn publication(admitted: &Admitted, kind: PublishKind, written: u64) -> Command {
    let given = &admitted.blocks[0];
    let handle: Handle = admitted.handle;
    Command::Publish(Publish {
        target: Target {
            handle: Some(handle),
            path: None,
            session: 0,
        },
        kind: kind.into(),
        size: admitted.prefix_length + written,
        blocks: vec![SubmittedBlock {
            container: given.container,
            local: given.local,
            bcsid: 1,
            start_in_block: 0,
            length: written,
        }],
        metadata: Vec::new(),
    })
}

/// Rows in maps, one for each keyspace.
#[derive(Default)]
struct MemoryRows(BTreeMap<Keyspace, BTreeMap<Bytes, Bytes>>);

impl MemoryRows {
    fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            let rows = self.0.entry(change.keyspace).or_default();
            match change.value {
                Some(value) => rows.insert(change.key, value),
                None => rows.remove(&change.key),
            };
        }
    }
}

impl Rows for MemoryRows {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, RowsError> {
        Ok(self
            .0
            .get(&keyspace)
            .and_then(|rows| rows.get(key))
            .cloned())
    }

    fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, RowsError> {
        let Some(rows) = self.0.get(&keyspace) else {
            return Ok(Vec::new());
        };
        Ok(rows
            .range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Unbounded))
            .take_while(|(key, _)| to.is_none_or(|to| key.as_ref() < to))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}
