//! A world in which tests run commands. Every command is checked: the invariants hold after it, and a refusal left no change (I5).

use super::MemoryRows;
use crate::check::check;
use crate::command::{
    AllocateBlock, AppendFile, BucketName, Command, CreateBucket, CreateDirectory, CreateMode,
    CreateVolume, Delete, Entry, Finalize, Handle, Holder, Invocation, KeyPath, LAYOUT_APPEND,
    Layout, Limits, OpenKey, Publish, PublishKind, Rename, RenewLeases, Replication, Request,
    Stamp, StartRecovery, SubmittedBlock, Target,
};
use crate::machine::Machine;
use crate::read;
use crate::reply::{
    Admitted, Answer, Cleaned, Decided, Fenced, GivenBlock, Opened, Refusal, RefusalKind, Renewal,
    Reply,
};
use crate::view::{BucketView, FileView, Node};

/// A path in the world's bucket of the layout under test.
pub(crate) fn path(key: &str) -> KeyPath {
    KeyPath {
        volume: "vol".into(),
        bucket: "bucket".into(),
        key: key.into(),
    }
}

/// A given block, filled with `length` bytes.
pub(crate) fn block(given: &GivenBlock, length: u64) -> SubmittedBlock {
    SubmittedBlock {
        container: given.container,
        local: given.local,
        bcsid: 0,
        start_in_block: 0,
        length,
    }
}

/// Rows, the machine over them, and the leader's clocks.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) rows: MemoryRows,
    pub(crate) machine: Machine,
    pub(crate) log: Vec<Entry>,
    pub(crate) lease_ms: u64,
    pub(crate) wall_ms: u64,
    sequence: u64,
}

impl World {
    /// A world without anything in it.
    pub(crate) fn empty() -> World {
        let rows = MemoryRows::default();
        let machine = Machine::open(&rows).unwrap();
        World {
            rows,
            machine,
            log: Vec::new(),
            lease_ms: 1_000,
            wall_ms: 1_000_000,
            sequence: 0,
        }
    }

    /// A world with a holder, the volume `vol` and its bucket `bucket`.
    pub(crate) fn new(layout: Layout) -> World {
        let mut world = World::empty();
        world.ok(Command::Finalize(Finalize {
            layout: LAYOUT_APPEND,
        }));
        world.ok(Command::RegisterHolder(Holder {
            uuid: "holder".into(),
            host: "h".into(),
            port: 1,
            number: 0,
        }));
        world.ok(Command::CreateVolume(CreateVolume {
            volume: "vol".into(),
            owner: "hadoop".into(),
            quota_bytes: -1,
            quota_names: -1,
            ..CreateVolume::default()
        }));
        world.ok(Command::CreateBucket(new_bucket("bucket", layout)));
        world
    }

    /// A world with an FSO bucket.
    pub(crate) fn fso() -> World {
        World::new(Layout::FileSystemOptimized)
    }

    /// Applies an entry, checks the invariants and gives the outcomes.
    pub(crate) fn entry(&mut self, requests: Vec<Request>) -> Vec<Decided> {
        let entry = Entry {
            stamp: Stamp {
                lease_ms: self.lease_ms,
                wall_ms: self.wall_ms,
                rules: crate::command::RULES,
            },
            requests,
        };
        let index = self.machine.position().index + 1;
        let applied = self.machine.apply(&self.rows, 1, index, &entry).unwrap();
        self.rows.apply(applied.changes);
        self.log.push(entry);
        assert_eq!(check(&self.rows), Ok(Vec::new()));
        applied.outcomes
    }

    /// A request of the default user with a fresh invocation.
    pub(crate) fn request(&mut self, command: Command) -> Request {
        self.request_by("client-1", command)
    }

    /// As [`World::request`], by another client.
    pub(crate) fn request_by(&mut self, client: &str, command: Command) -> Request {
        self.sequence += 1;
        Request {
            user: "alice".into(),
            invocation: Some(Invocation {
                client: client.as_bytes().to_vec().into(),
                sequence: self.sequence,
            }),
            answered_below: None,
            command: Some(command),
        }
    }

    /// Runs one request in an entry of its own.
    pub(crate) fn send(&mut self, request: Request) -> Decided {
        let before = self.rows.clone();
        let outcome = self.entry(vec![request]).remove(0);
        if outcome.is_err() {
            assert_eq!(
                before.without_bookkeeping(),
                self.rows.without_bookkeeping(),
                "a refusal changed rows"
            );
        }
        outcome
    }

    pub(crate) fn run(&mut self, command: Command) -> Decided {
        self.wall_ms += 10;
        let request = self.request(command);
        self.send(request)
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn ok(&mut self, command: Command) -> Reply {
        self.run(command).unwrap()
    }

    /// Runs a command that must be refused.
    #[track_caller]
    pub(crate) fn refused(&mut self, command: Command) -> RefusalKind {
        self.refusal(command).kind()
    }

    #[track_caller]
    pub(crate) fn refusal(&mut self, command: Command) -> Refusal {
        self.run(command).unwrap_err()
    }

    pub(crate) fn limit(&mut self, change: impl FnOnce(&mut Limits)) {
        let mut limits = self.machine.limits();
        change(&mut limits);
        self.ok(Command::Configure(limits));
    }

    pub(crate) fn mkdir(&mut self, key: &str) -> Decided {
        self.run(mkdir(key))
    }

    /// Commits a file with one block per length by an ordinary writer.
    #[track_caller]
    pub(crate) fn file(&mut self, key: &str, lengths: &[u64]) -> FileView {
        let opened = self.open_with(key, lengths.len());
        let blocks = opened
            .blocks
            .iter()
            .zip(lengths)
            .map(|(given, length)| block(given, *length))
            .collect();
        self.ok(commit(key, opened.session, PublishKind::Close, blocks));
        self.view(key)
    }

    #[track_caller]
    pub(crate) fn open(&mut self, key: &str) -> Opened {
        self.open_with(key, 1)
    }

    #[track_caller]
    pub(crate) fn open_with(&mut self, key: &str, blocks: usize) -> Opened {
        match self.ok(open_key(key, blocks)).answer {
            Some(Answer::Opened(opened)) => opened,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn append(&mut self, key: &str) -> Admitted {
        self.create(key, CreateMode::No)
    }

    #[track_caller]
    pub(crate) fn create(&mut self, key: &str, mode: CreateMode) -> Admitted {
        match self.ok(append(key, mode)).answer {
            Some(Answer::Admitted(admitted)) => admitted,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn allocate(&mut self, handle: Handle) -> GivenBlock {
        match self.ok(allocate(handle)).answer {
            Some(Answer::Allocated(given)) => given,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn renew(&mut self, handles: &[Handle]) -> Vec<Renewal> {
        match self
            .ok(Command::RenewLeases(RenewLeases {
                sessions: handles.to_vec(),
            }))
            .answer
        {
            Some(Answer::Renewed(renewed)) => renewed.results,
            other => panic!("{other:?}"),
        }
    }

    /// Lets lease time pass.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.lease_ms += ms;
        self.entry(Vec::new());
    }

    /// Starts a recovery by force.
    #[track_caller]
    pub(crate) fn fence(&mut self, key: &str) -> Fenced {
        match self.ok(recover(key, true)).answer {
            Some(Answer::Fenced(fenced)) => fenced,
            other => panic!("{other:?}"),
        }
    }

    /// Proposes what the leader's duty would, until nothing is due; gives what was done.
    pub(crate) fn tidy(&mut self) -> Cleaned {
        let mut done = Cleaned::default();
        while let Some(command) = read::deleted_tree(&self.rows, &[], 2).unwrap().command {
            add(&mut done, self.cleaned(command));
        }
        let mut from = Vec::new();
        loop {
            let look = read::due_sessions(&self.rows, &from, 3).unwrap();
            if let Some(command) = look.command {
                add(&mut done, self.cleaned(command));
            }
            match look.next {
                Some(next) => from = next,
                None => return done,
            }
        }
    }

    #[track_caller]
    pub(crate) fn cleaned(&mut self, command: Command) -> Cleaned {
        match self.ok(command).answer {
            Some(Answer::Cleaned(cleaned)) => cleaned,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn view(&self, key: &str) -> FileView {
        match read::status(&self.rows, &path(key)).unwrap() {
            Ok(Node::File(file)) => *file,
            other => panic!("{key}: {other:?}"),
        }
    }

    pub(crate) fn there(&self, key: &str) -> bool {
        read::status(&self.rows, &path(key)).unwrap().is_ok()
    }

    pub(crate) fn bucket(&self) -> BucketView {
        read::bucket(&self.rows, "vol", "bucket").unwrap().unwrap()
    }

    /// (container, local, length) of each block of a file.
    pub(crate) fn blocks(&self, key: &str) -> Vec<(u64, u64, u64)> {
        let range = read::blocks(&self.rows, &self.view(key), 0, usize::MAX)
            .unwrap()
            .unwrap();
        range
            .blocks
            .iter()
            .map(|block| (block.container, block.local, block.length))
            .collect()
    }
}

pub(crate) fn new_bucket(bucket: &str, layout: Layout) -> CreateBucket {
    CreateBucket {
        name: BucketName {
            volume: "vol".into(),
            bucket: bucket.into(),
        },
        layout: layout as i32,
        replication: Some(Replication { kind: 1, factor: 1 }),
        quota_bytes: -1,
        quota_names: -1,
        ..CreateBucket::default()
    }
}

pub(crate) fn mkdir(key: &str) -> Command {
    Command::CreateDirectory(CreateDirectory {
        path: path(key),
        ..CreateDirectory::default()
    })
}

pub(crate) fn open_key(key: &str, blocks: usize) -> Command {
    Command::OpenKey(OpenKey {
        path: path(key),
        as_file: true,
        recursive: true,
        overwrite: true,
        holders: vec![1; blocks],
        ..OpenKey::default()
    })
}

pub(crate) fn commit(
    key: &str,
    session: u64,
    kind: PublishKind,
    blocks: Vec<SubmittedBlock>,
) -> Command {
    Command::Publish(Publish {
        target: Target {
            handle: None,
            path: Some(path(key)),
            session,
        },
        kind: kind as i32,
        size: blocks.iter().map(|block| block.length).sum(),
        blocks,
        metadata: Vec::new(),
    })
}

pub(crate) fn append(key: &str, mode: CreateMode) -> Command {
    Command::AppendFile(AppendFile {
        path: path(key),
        create: mode as i32,
        recursive: true,
        holders: vec![1],
        lease_owner: "libappend".into(),
        ..AppendFile::default()
    })
}

pub(crate) fn allocate(handle: Handle) -> Command {
    Command::AllocateBlock(AllocateBlock {
        target: Target {
            handle: Some(handle),
            path: None,
            session: 0,
        },
        holder: 1,
    })
}

pub(crate) fn publish(
    handle: Handle,
    kind: PublishKind,
    size: u64,
    blocks: Vec<SubmittedBlock>,
) -> Command {
    Command::Publish(Publish {
        target: Target {
            handle: Some(handle),
            path: None,
            session: 0,
        },
        kind: kind as i32,
        size,
        blocks,
        metadata: Vec::new(),
    })
}

fn add(done: &mut Cleaned, cleaned: Cleaned) {
    done.sessions += cleaned.sessions;
    done.files += cleaned.files;
    done.directories += cleaned.directories;
    done.blocks += cleaned.blocks;
}

pub(crate) fn recover(key: &str, force: bool) -> Command {
    Command::StartRecovery(StartRecovery {
        path: path(key),
        append_only: true,
        force,
    })
}

pub(crate) fn rename(from: &str, to: &str) -> Command {
    Command::Rename(Rename {
        from: path(from),
        to: to.into(),
        expected_update: None,
    })
}

pub(crate) fn delete(key: &str, recursive: bool) -> Command {
    Command::Delete(Delete {
        path: path(key),
        recursive,
        created_by: None,
    })
}
