//! One state of the model: the rows of the real machine, what the datanodes hold, what each client knows, and what is still on its way.

use super::facts::{Facts, Replica, Replicas};
use crate::command::{
    AllocateBlock, Command, Entry, Handle, Invocation, Layout, Limits, Publish, PublishKind, RULES,
    Request, Stamp, SubmittedBlock, Target,
};
use crate::machine::Machine;
use crate::reply::Decided;
use crate::rows::{Change, Keyspace, Rows};
use crate::testing::{MemoryRows, World};
use std::rc::Rc;

/// A step of lease time, ms. Larger than the rules' own steps of expiry.
pub(crate) const STEP_MS: u64 = 1_000;
/// Lease times of the model, in steps.
pub(crate) const SOFT: u64 = 2;
pub(crate) const HARD: u64 = 3;
pub(crate) const RETENTION: u64 = 4;

/// The limits of the model.
pub(crate) fn limits(before: Limits) -> Limits {
    Limits {
        soft_limit_ms: SOFT * STEP_MS,
        hard_limit_ms: HARD * STEP_MS,
        open_expire_ms: Some(HARD * STEP_MS),
        dedupe_retention_ms: RETENTION * STEP_MS,
        ..before
    }
}

/// A block that a writer has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) local: u64,
    /// Offset in the file of its first byte.
    pub(crate) start: usize,
    /// Bytes that the file needs of it; the datanode may hold more.
    pub(crate) length: usize,
}

/// An open stream as its client knows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stream {
    pub(crate) handle: Handle,
    /// An ordinary writer that calls by this path, without a handle.
    pub(crate) by_path: Option<&'static str>,
    /// It is an ordinary writer, whatever it calls with.
    pub(crate) ordinary: bool,
    pub(crate) prefix: usize,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) spare: Vec<u64>,
    /// Pieces that the server has acknowledged.
    pub(crate) published: usize,
    /// Length that the server has acknowledged.
    pub(crate) acked: usize,
    /// Units written.
    pub(crate) written: u8,
    /// Blocks asked for.
    pub(crate) asked: u8,
}

impl Stream {
    pub(crate) fn length(&self) -> usize {
        self.pieces
            .last()
            .map_or(self.prefix, |last| last.start + last.length)
    }

    pub(crate) fn target(&self) -> Target {
        match self.by_path {
            Some(at) => Target {
                handle: None,
                path: Some(crate::testing::path(at)),
                session: self.handle.session,
            },
            None => Target {
                handle: Some(self.handle),
                path: None,
                session: 0,
            },
        }
    }

    /// The publication of all that it has written.
    pub(crate) fn publication(&self, kind: PublishKind) -> Command {
        let first = if self.ordinary {
            0
        } else {
            self.published.saturating_sub(1)
        };
        Command::Publish(Publish {
            target: self.target(),
            kind: kind as i32,
            size: u64::try_from(self.length()).unwrap_or(u64::MAX),
            blocks: self.pieces[first..].iter().map(submitted).collect(),
            metadata: Vec::new(),
        })
    }

    pub(crate) fn allocation(&self) -> Command {
        Command::AllocateBlock(AllocateBlock {
            target: self.target(),
            holder: 1,
        })
    }
}

pub(crate) fn submitted(piece: &Piece) -> SubmittedBlock {
    SubmittedBlock {
        container: 1,
        local: piece.local,
        bcsid: 0,
        start_in_block: 0,
        length: u64::try_from(piece.length).unwrap_or(u64::MAX),
    }
}

/// A client: a process that opens one stream after the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Client {
    pub(crate) sequence: u64,
    pub(crate) stream: Option<Stream>,
}

/// What may still be done, so that the space ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Admissions by append, and creations.
    pub(crate) appends: u8,
    /// Ordinary writers.
    pub(crate) opens: u8,
    /// Units of one stream.
    pub(crate) units: u8,
    /// Blocks that one stream asks for.
    pub(crate) blocks: u8,
    pub(crate) renames: u8,
    pub(crate) deletes: u8,
    pub(crate) mkdirs: u8,
    /// Copies and late commands in the network, all in all.
    pub(crate) strays: u8,
    /// Switches of the feature.
    pub(crate) switches: u8,
}

/// A state.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) rows: MemoryRows,
    pub(crate) replicas: Replicas,
    pub(crate) lease_ms: u64,
    pub(crate) clients: Vec<Client>,
    /// Commands made earlier that may still arrive. Nobody waits for their answers.
    pub(crate) strays: Vec<Rc<Request>>,
    pub(crate) left: Budget,
    pub(crate) facts: Rc<Facts>,
    /// The last call and its answer.
    pub(crate) last: Option<(Rc<Request>, Decided)>,
}

/// What one command did.
pub(crate) struct Delivered {
    pub(crate) outcome: Decided,
    /// Rows changed, bookkeeping aside.
    pub(crate) touched: bool,
}

fn bookkeeping(change: &Change) -> bool {
    match change.keyspace {
        Keyspace::Dedupe | Keyspace::DedupeOrder => true,
        Keyspace::Meta => change.key.as_ref() != crate::key::LIMITS,
        _ => false,
    }
}

impl State {
    /// Two directories, a file with content in one, an empty one in the other.
    pub(crate) fn first(layout: Layout, clients: usize, left: Budget) -> State {
        let mut world = World::new(layout);
        world.limit(|before| *before = limits(*before));
        world.mkdir("d").unwrap();
        world.mkdir("e").unwrap();
        let full = world.file("d/f", &[1]);
        world.file("e/g", &[]);
        let mut state = State {
            rows: world.rows,
            replicas: Replicas::new(),
            lease_ms: world.lease_ms,
            clients: vec![
                Client {
                    sequence: 0,
                    stream: None
                };
                clients
            ],
            strays: Vec::new(),
            left,
            facts: Rc::new(Facts::default()),
            last: None,
        };
        let seen = Facts::read(&state.rows, &state.replicas, layout);
        if let Some(local) = seen
            .files
            .get(&full.object_id)
            .and_then(|file| file.blocks.first())
        {
            let replica = Replica {
                units: vec![(0, 0)],
                start: 0,
                sealed: false,
            };
            state.replicas.insert(*local, replica);
        }
        state.see(layout);
        state
    }

    /// Reads the rows again, and forgets what no row and no client knows of.
    pub(crate) fn see(&mut self, layout: Layout) {
        let facts = Facts::read(&self.rows, &self.replicas, layout);
        self.facts = Rc::new(facts);
    }

    /// A call of a client. The first client says what it has got answers for, the others do not.
    pub(crate) fn call(&mut self, client: usize, command: Command) -> Request {
        let known = &mut self.clients[client];
        known.sequence += 1;
        let id = [
            b"model-",
            [b'0' + u8::try_from(client).unwrap_or(9)].as_slice(),
        ]
        .concat();
        Request {
            user: "alice".into(),
            invocation: Some(Invocation {
                client: id.into(),
                sequence: known.sequence,
            }),
            answered_below: (client == 0).then_some(known.sequence),
            command: Some(command),
        }
    }

    /// Lets the machine, opened from the rows as after a restart, apply one entry.
    pub(crate) fn deliver(&mut self, request: Option<&Request>) -> Result<Delivered, String> {
        let mut machine = Machine::open(&self.rows).map_err(|error| error.to_string())?;
        let entry = Entry {
            stamp: Stamp {
                lease_ms: self.lease_ms,
                wall_ms: 1,
                rules: RULES,
            },
            requests: request.into_iter().cloned().collect(),
        };
        let index = machine.position().index + 1;
        let applied = machine
            .apply(&self.rows, 1, index, &entry)
            .map_err(|error| format!("the rows are corrupt: {error}"))?;
        let touched = applied.changes.iter().any(|change| {
            !bookkeeping(change)
                && self.rows.get(change.keyspace, &change.key).ok().flatten() != change.value
        });
        self.rows.apply(applied.changes);
        let outcome = applied
            .outcomes
            .into_iter()
            .next()
            .unwrap_or_else(|| Ok(Default::default()));
        Ok(Delivered { outcome, touched })
    }
}
