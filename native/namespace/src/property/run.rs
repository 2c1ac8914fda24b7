//! Runs a random history on the rules and on the model, and compares them.

use super::Step;
use super::model::{Kind, Model, State, Verdict, Via};
use crate::command::{
    Command, CreateMode, Delete, Entry, Handle, Layout, OpenKey, Publish, PublishKind, Request,
    SetTimes, SubmittedBlock, Target,
};
use crate::machine::Machine;
use crate::read;
use crate::reply::{Answer, Decided, GivenBlock, RefusalKind};
use crate::testing::{MemoryRows, World, append, delete, mkdir, open_key, path, publish, rename};
use crate::view::Node;
use std::collections::BTreeMap;

/// A writer as its client knows it.
struct Client {
    /// What it calls with: a handle, or the session at the path that it opened.
    handle: Option<Handle>,
    session: u64,
    opened_as: String,
    prefix: usize,
    blocks: Vec<(GivenBlock, usize)>,
    /// Blocks that the server has acknowledged.
    published: usize,
}

pub(crate) struct Run {
    world: World,
    model: Model,
    clients: Vec<Client>,
    /// What the datanodes hold.
    stored: BTreeMap<(u64, u64), Vec<u8>>,
    /// Calls with their outcomes.
    calls: Vec<(Request, Decided)>,
    /// Sequences below it may be forgotten.
    answered: u64,
    identities: BTreeMap<u32, u64>,
    next_byte: u8,
}

impl Run {
    pub(crate) fn new(layout: Layout) -> Run {
        Run {
            world: World::new(layout),
            model: Model::new(layout == Layout::Legacy),
            clients: Vec::new(),
            stored: BTreeMap::new(),
            calls: Vec::new(),
            answered: 0,
            identities: BTreeMap::new(),
            next_byte: 0,
        }
    }

    /// Sends a command as a fresh call.
    fn send(&mut self, command: Command) -> Decided {
        let request = self.world.request(command);
        let outcome = self.world.send(request.clone());
        self.calls.push((request, outcome.clone()));
        outcome
    }

    fn client(&self, from_latest: usize) -> Option<usize> {
        self.clients.len().checked_sub(from_latest + 1)
    }

    #[track_caller]
    fn agree<T>(outcome: &Decided, verdict: &Verdict<T>) {
        let outcome = outcome
            .as_ref()
            .map(|_| ())
            .map_err(|refusal| refusal.kind());
        let verdict = verdict.as_ref().map(|_| ()).map_err(|kind| *kind);
        assert_eq!(outcome, verdict, "the rules and the model differ");
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Mkdir(at) => {
                let outcome = self.send(mkdir(at));
                Self::agree(&outcome, &self.model.mkdir(at));
            }
            Step::Open {
                path,
                overwrite,
                recursive,
            } => self.open(path, *overwrite, *recursive),
            Step::Append {
                path,
                mode,
                recursive,
            } => self.append(path, *mode, *recursive),
            Step::Write {
                writer,
                bytes,
                new_block,
            } => {
                if let Some(writer) = self.client(*writer) {
                    self.write(writer, *bytes, *new_block);
                }
            }
            Step::Publish {
                writer,
                close,
                whole,
                stale,
                sound,
            } => {
                if let Some(writer) = self.client(*writer) {
                    self.publish(writer, *close, *whole, *stale, *sound);
                }
            }
            Step::Renew(writers) => self.renew(writers),
            Step::Rename { from, to } => {
                let outcome = self.send(rename(from, to));
                Self::agree(&outcome, &self.model.rename(from, to));
            }
            Step::Delete { path, recursive } => {
                let outcome = self.send(delete(path, *recursive));
                Self::agree(&outcome, &self.model.delete(path, *recursive));
            }
            Step::Undo(writer) => {
                let Some(writer) = self.client(*writer) else {
                    return;
                };
                let Some(handle) = self.clients[writer].handle else {
                    return;
                };
                let outcome = self.send(Command::Delete(Delete {
                    path: path("whatever"),
                    recursive: false,
                    created_by: Some(handle),
                }));
                Self::agree(&outcome, &self.model.undo(writer));
            }
            Step::Touch(at) => {
                let outcome = self.send(Command::SetTimes(SetTimes {
                    path: path(at),
                    modified_ms: 5,
                }));
                let there = self.model.files.contains_key(at) || self.model.is_dir(at);
                Self::agree(
                    &outcome,
                    &if there {
                        Ok(())
                    } else {
                        Err(RefusalKind::KeyNotFound)
                    },
                );
            }
            Step::Retry(from_latest) => self.retry(*from_latest),
            Step::Answered(kept) => {
                let Some(last) = self.calls.len().checked_sub(kept + 1) else {
                    return;
                };
                let Some(invocation) = &self.calls[last].0.invocation else {
                    return;
                };
                self.answered = self.answered.max(invocation.sequence);
                let mut request = self.world.request(mkdir("a"));
                request.answered_below = Some(self.answered);
                let outcome = self.world.send(request);
                Self::agree(&outcome, &self.model.mkdir("a"));
            }
            Step::Tick(by) => {
                self.world.lease_ms += by;
                self.world.wall_ms += by;
                self.world.entry(Vec::new());
            }
        }
        self.compare();
    }

    fn open(&mut self, at: &str, overwrite: bool, recursive: bool) {
        let mut command = open_key(at, 1);
        if let Command::OpenKey(open) = &mut command {
            *open = OpenKey {
                overwrite,
                recursive,
                ..open.clone()
            };
        }
        let outcome = self.send(command);
        Self::agree(&outcome, &self.model.open(at, overwrite, recursive));
        if let Ok(Some(Answer::Opened(opened))) = outcome.map(|reply| reply.answer) {
            self.clients.push(Client {
                handle: None,
                session: opened.session,
                opened_as: at.to_owned(),
                prefix: 0,
                blocks: opened.blocks.into_iter().map(|given| (given, 0)).collect(),
                published: 0,
            });
        }
    }

    fn append(&mut self, at: &str, mode: CreateMode, recursive: bool) {
        let mut command = append(at, mode);
        if let Command::AppendFile(append) = &mut command {
            append.recursive = recursive;
        }
        let outcome = self.send(command);
        let verdict = self.model.append(at, mode, recursive);
        Self::agree(&outcome, &verdict);
        let Ok(Some(Answer::Admitted(admitted))) = outcome.map(|reply| reply.answer) else {
            return;
        };
        let kind = self.model.writers[verdict.unwrap()].kind;
        let expected = match kind {
            Kind::Append { created, prefix } => (created, false, prefix),
            Kind::Ordinary { .. } => (false, true, 0),
        };
        let prefix = usize::try_from(admitted.prefix_length).unwrap();
        assert_eq!((admitted.created, admitted.ordinary, prefix), expected);
        self.clients.push(Client {
            handle: Some(admitted.handle),
            session: admitted.handle.session,
            opened_as: at.to_owned(),
            prefix,
            blocks: admitted
                .blocks
                .into_iter()
                .map(|given| (given, 0))
                .collect(),
            published: 0,
        });
    }

    fn target(&self, writer: usize, at: &str) -> Target {
        let client = &self.clients[writer];
        match client.handle {
            Some(handle) => Target {
                handle: Some(handle),
                path: None,
                session: 0,
            },
            None => Target {
                handle: None,
                path: Some(path(at)),
                session: client.session,
            },
        }
    }

    /// The path that the client names: where its writer is now, or where it opened it.
    fn named(&self, writer: usize, stale: bool) -> String {
        if stale {
            self.clients[writer].opened_as.clone()
        } else {
            self.model.writers[writer].path.clone()
        }
    }

    fn write(&mut self, writer: usize, bytes: usize, new_block: bool) {
        if new_block || self.clients[writer].blocks.is_empty() {
            let at = self.named(writer, false);
            let target = self.target(writer, &at);
            let via = if target.handle.is_some() {
                Via::Handle
            } else {
                Via::Path(&at)
            };
            let verdict = self.model.may_write(writer, via);
            let outcome = self.send(Command::AllocateBlock(crate::command::AllocateBlock {
                target,
                holder: 1,
            }));
            Self::agree(&outcome, &verdict);
            let Ok(Some(Answer::Allocated(given))) = outcome.map(|reply| reply.answer) else {
                return;
            };
            self.clients[writer].blocks.push((given, 0));
        }
        let Some((given, length)) = self.clients[writer].blocks.last_mut() else {
            return;
        };
        let stored = self
            .stored
            .entry((given.container, given.local))
            .or_default();
        for _ in 0..bytes {
            self.next_byte = self.next_byte.wrapping_add(1);
            stored.push(self.next_byte);
        }
        *length = stored.len();
    }

    fn publish(&mut self, writer: usize, close: bool, whole: bool, stale: bool, sound: bool) {
        let at = self.named(writer, stale);
        let target = self.target(writer, &at);
        let client = &self.clients[writer];
        let written: Vec<u8> = client
            .blocks
            .iter()
            .flat_map(|(given, _)| {
                self.stored
                    .get(&(given.container, given.local))
                    .cloned()
                    .unwrap_or_default()
            })
            .collect();
        // An appender need not repeat what is published; an ordinary writer does.
        let first = if whole || client.handle.is_none() {
            0
        } else {
            client.published.saturating_sub(1)
        };
        let ordinary = matches!(self.model.writers[writer].kind, Kind::Ordinary { .. });
        let first = if ordinary { 0 } else { first };
        let blocks: Vec<SubmittedBlock> = client.blocks[first..]
            .iter()
            .map(|(given, length)| crate::testing::block(given, *length as u64))
            .collect();
        let size = u64::try_from(client.prefix + written.len()).unwrap() + u64::from(!sound);
        let kind = if close {
            PublishKind::Close
        } else {
            PublishKind::Hsync
        };
        let command = match target.handle {
            Some(handle) => publish(handle, kind, size, blocks),
            None => Command::Publish(Publish {
                target: target.clone(),
                kind: kind as i32,
                size,
                blocks,
                metadata: Vec::new(),
            }),
        };
        let via = if target.handle.is_some() {
            Via::Handle
        } else {
            Via::Path(&at)
        };
        let verdict = self.model.publish(writer, via, close, &written, sound);
        let outcome = self.send(command);
        Self::agree(&outcome, &verdict);
        if outcome.is_ok() {
            let client = &mut self.clients[writer];
            client.published = client
                .blocks
                .iter()
                .rposition(|(_, length)| *length > 0)
                .map_or(0, |last| last + 1);
            // What a block holds beyond its last publication may not be followed by another block's bytes in the middle.
            client.blocks.retain(|(_, length)| *length > 0);
            client.published = client.blocks.len();
        }
    }

    fn renew(&mut self, writers: &[usize]) {
        let writers: Vec<usize> = writers
            .iter()
            .filter_map(|writer| self.client(*writer))
            .filter(|writer| self.clients[*writer].handle.is_some())
            .collect();
        let handles: Vec<Handle> = writers
            .iter()
            .filter_map(|writer| self.clients[*writer].handle)
            .collect();
        let before = self.world.rows.without_bookkeeping();
        for (writer, renewal) in writers.iter().zip(self.world.renew(&handles)) {
            let outcome = if renewal.refused.is_some() {
                Err(renewal.refused())
            } else {
                Ok(())
            };
            assert_eq!(outcome, self.model.renew(*writer));
            if outcome.is_ok() {
                assert_eq!(
                    renewal.last_renewed_ms,
                    self.world.machine.position().lease_ms
                );
            }
        }
        if handles.is_empty() {
            assert_eq!(self.world.rows.without_bookkeeping(), before);
        }
    }

    /// Sends an earlier call again: it gets its first answer, or, when it was reported as answered, no answer.
    fn retry(&mut self, from_latest: usize) {
        let Some(at) = self.calls.len().checked_sub(from_latest + 1) else {
            return;
        };
        let (request, first) = self.calls[at].clone();
        let forgotten = request
            .invocation
            .as_ref()
            .is_some_and(|invocation| invocation.sequence < self.answered);
        let before = self.world.rows.without_bookkeeping();
        let again = self.world.send(request);
        assert_eq!(
            self.world.rows.without_bookkeeping(),
            before,
            "a retry changed rows"
        );
        if forgotten {
            assert_eq!(again.unwrap_err().kind(), RefusalKind::Uncertain);
        } else {
            assert_eq!(again, first);
        }
    }

    /// What a reader gets at a path.
    fn contents(&self, key: &str) -> Vec<u8> {
        let view = self.world.view(key);
        let mut data = Vec::new();
        let mut offset = 0;
        while offset < view.size {
            let range =
                read::blocks_of(&self.world.rows, view.object_id, view.generation, offset, 2)
                    .unwrap()
                    .unwrap();
            for block in &range.blocks {
                let stored = &self.stored[&(block.container, block.local)];
                let length = usize::try_from(block.length).unwrap();
                data.extend_from_slice(&stored[..length]);
            }
            assert!(range.next_offset > offset, "a range that does not advance");
            offset = range.next_offset;
        }
        data
    }

    /// Contents, owners, identities and names agree.
    fn compare(&mut self) {
        let mut seen_files = Vec::new();
        let mut seen_dirs = Vec::new();
        let mut left = vec![String::new()];
        while let Some(at) = left.pop() {
            for node in read::list(&self.world.rows, &path(&at), "", false, false, 1_000)
                .unwrap()
                .unwrap()
            {
                match node {
                    Node::File(file) => seen_files.push(file.path.key),
                    Node::Directory(dir) => {
                        seen_dirs.push(dir.path.key.clone());
                        left.push(dir.path.key);
                    }
                    Node::BucketRoot => panic!("a listing shows the root"),
                }
            }
        }
        seen_files.sort();
        assert_eq!(
            seen_files,
            self.model.files.keys().cloned().collect::<Vec<_>>(),
            "files"
        );
        assert!(
            seen_dirs.iter().all(|dir| self.model.is_dir(dir)),
            "directories"
        );
        assert!(
            self.model.dirs.iter().all(|dir| seen_dirs.contains(dir)),
            "directories"
        );
        for (key, file) in &self.model.files {
            assert_eq!(self.contents(key), file.data, "the contents of {key}");
            let view = self.world.view(key);
            assert_eq!(
                view.append_owner,
                file.owner.map(|owner| self.clients[owner].session),
                "the owner of {key}"
            );
            assert_eq!(
                view.hsync_session,
                file.hsync.map(|writer| self.clients[writer].session),
                "hsync of {key}"
            );
            let known = *self.identities.entry(file.id).or_insert(view.object_id);
            assert_eq!(known, view.object_id, "the identity of {key}");
        }
        let mut identities: Vec<u64> = self.identities.values().copied().collect();
        identities.sort_unstable();
        identities.dedup();
        assert_eq!(
            identities.len(),
            self.identities.len(),
            "two files had one identity"
        );
        for (writer, client) in self.model.writers.iter().zip(&self.clients) {
            let Some(handle) = &client.handle else {
                continue;
            };
            let file = read::session_file(&self.world.rows, handle).unwrap();
            match (writer.state, writer.kind) {
                (State::Active, Kind::Append { .. }) => {
                    assert_eq!(file.unwrap().path.key, writer.path)
                }
                (State::Active, Kind::Ordinary { published, .. }) => {
                    assert_eq!(file.is_ok(), published)
                }
                (State::Invalidated, _) => {
                    assert_eq!(file.unwrap_err().kind(), RefusalKind::Invalidated)
                }
                (State::Unreachable, _) => {
                    assert_eq!(file.unwrap_err().kind(), RefusalKind::Unreachable)
                }
                (State::Ended, _) => {
                    assert_eq!(file.unwrap_err().kind(), RefusalKind::SessionUnknown)
                }
            }
        }
    }

    /// I10: the log gives the same rows again, from the start and from a checkpoint, and with its commands in other entries.
    pub(crate) fn replay(&self) {
        let log = &self.world.log;
        let middle = log.len() / 2;
        let mut rows = MemoryRows::default();
        let mut machine = Machine::open(&rows).unwrap();
        for (index, entry) in (1u64..).zip(log) {
            if usize::try_from(index).unwrap() == middle {
                machine = Machine::open(&rows).unwrap();
            }
            rows.apply(machine.apply(&rows, 1, index, entry).unwrap().changes);
        }
        assert!(rows == self.world.rows, "I10: a replay differs");
        let mut merged: Vec<Entry> = Vec::new();
        for entry in log {
            match merged.last_mut() {
                Some(last) if last.stamp == entry.stamp => {
                    last.requests.extend(entry.requests.iter().cloned())
                }
                _ => merged.push(entry.clone()),
            }
        }
        let mut rows = MemoryRows::default();
        let mut machine = Machine::open(&rows).unwrap();
        for (index, entry) in (1u64..).zip(&merged) {
            rows.apply(machine.apply(&rows, 1, index, entry).unwrap().changes);
        }
        assert!(
            rows.without_bookkeeping() == self.world.rows.without_bookkeeping(),
            "I10: the same commands in larger entries differ"
        );
    }
}
