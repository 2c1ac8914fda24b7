//! Rows in memory, and a small world of them: buckets of each layout, directories, files of several blocks, writers of each kind, deleted
//! content, remembered answers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use append_namespace::command::{
    AllocateBlock, AppendFile, BucketName, Command, CreateBucket, CreateDirectory, CreateMode,
    CreateVolume, Delete, DeleteKeys, Finalize, Handle, Holder, Invocation, KeyPath, LAYOUT_APPEND,
    Layout, OpenKey, Publish, PublishKind, Rename, RenewLeases, SetTimes, SubmittedBlock, Target,
    VolumeName,
};
use append_namespace::reply::{Admitted, Answer, Decided, GivenBlock};
use append_namespace::{Change, Entry, Keyspace, Machine, Request, Rows, RowsError, Stamp};
use bytes::Bytes;

/// Rows in maps, one for each keyspace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MemoryRows(pub(crate) BTreeMap<Keyspace, BTreeMap<Bytes, Bytes>>);

impl MemoryRows {
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
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
        let rows = self.0.get(&keyspace);
        Ok(rows.and_then(|rows| rows.get(key)).cloned())
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
        let behind = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        Ok(rows
            .range::<[u8], _>(behind)
            .take_while(|(key, _)| to.is_none_or(|to| key.as_ref() < to))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}

/// Rows, and the entries that made them.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) rows: MemoryRows,
    pub(crate) machine: Machine,
    pub(crate) entries: Vec<Entry>,
    sequence: u64,
}

/// The world that bodies start from.
pub(crate) static WORLD: LazyLock<World> = LazyLock::new(World::made);

pub(crate) fn path(layout: &str, key: &str) -> KeyPath {
    KeyPath {
        volume: "vol".into(),
        bucket: layout.into(),
        key: key.into(),
    }
}

/// A command of each kind that can meet the world's rows.
pub(crate) fn commands() -> Vec<Command> {
    let mut found = vec![
        Command::DeleteVolume(VolumeName {
            volume: "vol".into(),
        }),
        Command::DeleteBucket(BucketName {
            volume: "vol".into(),
            bucket: "fso".into(),
        }),
    ];
    for layout in ["fso", "legacy"] {
        found.extend([
            directory(layout, "d/e/f"),
            append(layout, "d/file", CreateMode::No),
            append(layout, "d/held", CreateMode::No),
            append(layout, "d/new", CreateMode::IfMissing),
            append(layout, "d/file2", CreateMode::Overwrite),
            open(layout, "d/other"),
            rename(layout, "d/file", "d/renamed"),
            rename(layout, "d", "g"),
            Command::SetTimes(SetTimes {
                path: path(layout, "g/renamed"),
                modified_ms: 5,
            }),
            Command::DeleteKeys(DeleteKeys {
                bucket: BucketName {
                    volume: "vol".into(),
                    bucket: layout.into(),
                },
                keys: vec!["g/file2".into(), "none".into()],
            }),
            delete(layout, "g", true),
        ]);
    }
    found
}

fn directory(layout: &str, key: &str) -> Command {
    Command::CreateDirectory(CreateDirectory {
        path: path(layout, key),
        owner: "fuzz".into(),
        ..CreateDirectory::default()
    })
}

fn append(layout: &str, key: &str, create: CreateMode) -> Command {
    Command::AppendFile(AppendFile {
        path: path(layout, key),
        create: create.into(),
        recursive: true,
        holders: vec![1],
        lease_owner: "fuzz".into(),
        ..AppendFile::default()
    })
}

fn open(layout: &str, key: &str) -> Command {
    Command::OpenKey(OpenKey {
        path: path(layout, key),
        as_file: true,
        recursive: true,
        overwrite: true,
        holders: vec![1],
        ..OpenKey::default()
    })
}

fn rename(layout: &str, from: &str, to: &str) -> Command {
    Command::Rename(Rename {
        from: path(layout, from),
        to: to.into(),
        ..Rename::default()
    })
}

fn delete(layout: &str, key: &str, recursive: bool) -> Command {
    Command::Delete(Delete {
        path: path(layout, key),
        recursive,
        ..Delete::default()
    })
}

fn submitted(given: &GivenBlock, length: u64) -> SubmittedBlock {
    SubmittedBlock {
        container: given.container,
        local: given.local,
        bcsid: 1,
        start_in_block: 0,
        length,
    }
}

fn publish(handle: Handle, kind: PublishKind, size: u64, blocks: Vec<SubmittedBlock>) -> Command {
    Command::Publish(Publish {
        target: Target {
            handle: Some(handle),
            ..Target::default()
        },
        kind: kind.into(),
        size,
        blocks,
        ..Publish::default()
    })
}

impl World {
    fn made() -> World {
        let rows = MemoryRows::default();
        let mut world = World {
            machine: Machine::open(&rows).unwrap(),
            rows,
            entries: Vec::new(),
            sequence: 0,
        };
        world.must(Command::Finalize(Finalize {
            layout: LAYOUT_APPEND,
        }));
        world.must(Command::RegisterHolder(Holder {
            uuid: "holder".into(),
            host: "h".into(),
            port: 1,
            ..Holder::default()
        }));
        world.must(Command::CreateVolume(CreateVolume {
            volume: "vol".into(),
            owner: "fuzz".into(),
            quota_bytes: -1,
            quota_names: -1,
            ..CreateVolume::default()
        }));
        for (name, layout) in [
            ("fso", Layout::FileSystemOptimized),
            ("legacy", Layout::Legacy),
            ("obs", Layout::ObjectStore),
        ] {
            world.must(Command::CreateBucket(CreateBucket {
                name: BucketName {
                    volume: "vol".into(),
                    bucket: name.into(),
                },
                layout: layout.into(),
                owner: "fuzz".into(),
                quota_bytes: 1 << 40,
                quota_names: -1,
                ..CreateBucket::default()
            }));
        }
        for layout in ["fso", "legacy"] {
            world.fill(layout);
        }
        world
    }

    fn fill(&mut self, layout: &str) {
        self.must(directory(layout, "d/e/f"));
        for key in ["d/file", "d/file2", "d/gone", "d/held"] {
            self.append_to(layout, key, CreateMode::MustBeNew, PublishKind::Close);
            self.append_to(layout, key, CreateMode::No, PublishKind::Close);
        }
        // A writer that has synced, one that has not, an ordinary one, one whose file is gone, and one whose file moved.
        let held = self.append_to(layout, "d/held", CreateMode::No, PublishKind::Hsync);
        self.must(append(layout, "d/idle", CreateMode::IfMissing));
        self.must(open(layout, "d/ordinary"));
        self.append_to(
            layout,
            "d/e/lost",
            CreateMode::MustBeNew,
            PublishKind::Hsync,
        );
        self.must(delete(layout, "d/gone", false));
        self.must(delete(layout, "d/e", true));
        self.must(rename(layout, "d/idle", "d/moved"));
        self.must(Command::RenewLeases(RenewLeases {
            sessions: vec![held],
        }));
    }

    /// Admits, takes a second block, publishes both.
    fn append_to(
        &mut self,
        layout: &str,
        key: &str,
        create: CreateMode,
        kind: PublishKind,
    ) -> Handle {
        let admitted: Admitted = match self.must(append(layout, key, create)) {
            Some(Answer::Admitted(admitted)) => admitted,
            other => panic!("{other:?}"),
        };
        let allocate = Command::AllocateBlock(AllocateBlock {
            target: Target {
                handle: Some(admitted.handle),
                ..Target::default()
            },
            holder: 1,
        });
        self.must(allocate);
        let first = submitted(&admitted.blocks[0], 4096);
        let size = admitted.prefix_length + 4096;
        self.must(publish(admitted.handle, kind, size, vec![first]));
        admitted.handle
    }

    fn must(&mut self, command: Command) -> Option<Answer> {
        self.run(command)
            .expect("a command of the world is taken")
            .answer
    }

    fn run(&mut self, command: Command) -> Decided {
        let entry = self.entry(command);
        let index = self.machine.position().index + 1;
        let applied = self.machine.apply(&self.rows, 1, index, &entry).unwrap();
        self.rows.apply(applied.changes);
        self.entries.push(entry);
        applied.outcomes.into_iter().next().unwrap()
    }

    /// An entry of one command with an identity of its own.
    pub(crate) fn entry(&mut self, command: Command) -> Entry {
        self.sequence += 1;
        Entry {
            stamp: Stamp {
                lease_ms: 1_000 + self.sequence,
                wall_ms: 1_000_000 + self.sequence,
                rules: append_namespace::command::RULES,
            },
            requests: vec![Request {
                user: "fuzz".into(),
                invocation: Some(Invocation {
                    client: Bytes::from_static(b"client-1"),
                    sequence: self.sequence,
                }),
                answered_below: None,
                command: Some(command),
            }],
        }
    }
}
