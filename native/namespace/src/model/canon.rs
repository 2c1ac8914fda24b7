//! The same state under another numbering is the same state. Ids carry command numbers, times grow without end: before a state is
//! compared, ids are named in the order in which a walk from the root meets them, and times become ages, cut where no rule tells them apart.

use super::facts::{Facts, SeenSession};
use super::state::{HARD, RETENTION, STEP_MS, State, Stream};
use crate::command::{Command, Handle, Request, Target};
use crate::key;
use crate::record::{DedupeRow, FileRow, MarkRow, OpenRow};
use crate::rows::{Keyspace, Rows};
use crate::table;
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};

struct Canon<'a> {
    state: &'a State,
    facts: &'a Facts,
    names: HashMap<u64, u64>,
    sessions: BTreeSet<u64>,
    out: Vec<u8>,
}

/// A state's name: equal for states that no rule, client or datanode can tell apart.
pub(crate) fn name(state: &State) -> u128 {
    let mut canon = Canon {
        state,
        facts: &state.facts,
        names: HashMap::new(),
        sessions: BTreeSet::new(),
        out: Vec::with_capacity(2_048),
    };
    canon.all();
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(&canon.out);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

impl Canon<'_> {
    fn id(&mut self, id: u64) -> u64 {
        if id == 0 {
            return 0;
        }
        let next = u64::try_from(self.names.len()).unwrap_or(u64::MAX) + 1;
        *self.names.entry(id).or_insert(next)
    }

    fn put(&mut self, number: u64) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    fn put_id(&mut self, id: u64) {
        let name = self.id(id);
        self.put(name);
    }

    fn text(&mut self, text: &str) {
        self.put(u64::try_from(text.len()).unwrap_or(u64::MAX));
        self.out.extend_from_slice(text.as_bytes());
    }

    fn message(&mut self, message: &impl Message) {
        let bytes = message.encode_to_vec();
        self.put(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.out.extend_from_slice(&bytes);
    }

    /// Steps since a time, as far as any rule counts.
    fn age(&self, since: u64, cut: u64) -> u64 {
        (self.state.lease_ms.saturating_sub(since) / STEP_MS).min(cut)
    }

    fn all(&mut self) {
        self.id(self.facts.bucket);
        let limits = table::limits(&self.state.rows).unwrap_or_default();
        self.message(&limits);
        for (path, id) in &self.facts.dirs {
            self.text(path);
            self.put_id(*id);
        }
        for (path, id) in &self.facts.paths {
            let file = &self.facts.files[id];
            self.text(path);
            self.file(&file.row);
            self.put(u64::try_from(file.blocks.len()).unwrap_or(u64::MAX));
            for local in &file.blocks {
                self.block(*local);
            }
            for session in [file.row.append_owner, file.row.hsync_session]
                .into_iter()
                .flatten()
            {
                self.session(session);
            }
        }
        for client in &self.state.clients {
            match &client.stream {
                None => self.put(0),
                Some(stream) => self.stream(stream),
            }
        }
        for (command, _, tree) in &self.facts.trees {
            let _ = command;
            self.put_id(tree.directory);
            self.put_id(tree.parent);
        }
        self.hidden();
        let sessions: Vec<u64> = self.facts.sessions.keys().copied().collect();
        for session in sessions {
            self.session(session);
        }
        for stray in &self.state.strays {
            self.stray(stray);
        }
        let left = self.state.left;
        for number in [
            left.appends,
            left.opens,
            left.units,
            left.blocks,
            left.renames,
            left.deletes,
            left.mkdirs,
            left.strays,
            left.switches,
        ] {
            self.out.push(number);
        }
    }

    /// Files and directories below deleted trees, which the sweep still meets.
    fn hidden(&mut self) {
        for keyspace in [Keyspace::Dirs, Keyspace::Files] {
            let rows = self.state.rows.range(keyspace, &[], None, usize::MAX);
            for (key, value) in rows.unwrap_or_default() {
                let parent = key::number_at(&key, 8).unwrap_or_default();
                let reachable = parent == 0
                    || parent == self.facts.bucket
                    || self.facts.dirs.values().any(|id| *id == parent);
                if reachable {
                    continue;
                }
                self.put_id(parent);
                self.out.extend_from_slice(&key[16..]);
                match keyspace {
                    Keyspace::Files => self.file(&FileRow::decode(value).unwrap_or_default()),
                    _ => {
                        let row = crate::record::DirRow::decode(value).unwrap_or_default();
                        self.put_id(row.object_id);
                    }
                }
            }
        }
    }

    fn file(&mut self, row: &FileRow) {
        let row = FileRow {
            object_id: self.id(row.object_id),
            generation: self.id(row.generation),
            update_id: 0,
            created_ms: 0,
            modified_ms: 0,
            append_owner: row.append_owner.map(|id| self.id(id)),
            hsync_session: row.hsync_session.map(|id| self.id(id)),
            ..row.clone()
        };
        self.message(&row);
    }

    fn block(&mut self, local: u64) {
        self.put_id(local);
        match self.facts.blocks.get(&local) {
            None => self.put(0),
            Some(row) => {
                self.put_id(row.session);
                match row.listed {
                    None => self.put(0),
                    Some(listed) => {
                        self.put_id(listed.file);
                        self.put_id(listed.generation);
                        self.put(listed.sequence);
                    }
                }
            }
        }
        self.put(u64::from(self.facts.handed.contains(&local)));
        match self.state.replicas.get(&local) {
            None => self.put(0),
            Some(replica) => {
                self.put(u64::from(replica.sealed) + 1);
                self.put(u64::try_from(replica.start).unwrap_or(u64::MAX));
                self.put(u64::try_from(replica.units.len()).unwrap_or(u64::MAX));
                for (session, number) in &replica.units {
                    self.put_id(*session);
                    self.out.push(*number);
                }
            }
        }
    }

    fn handle(&mut self, handle: Handle) -> Handle {
        Handle {
            bucket: self.id(handle.bucket),
            session: self.id(handle.session),
            file: self.id(handle.file),
        }
    }

    fn stream(&mut self, stream: &Stream) {
        let handle = self.handle(stream.handle);
        self.message(&handle);
        self.text(stream.by_path.unwrap_or_default());
        self.out.push(u8::from(stream.ordinary));
        for number in [
            stream.prefix,
            stream.published,
            stream.acked,
            stream.pieces.len(),
            stream.spare.len(),
        ] {
            self.put(u64::try_from(number).unwrap_or(u64::MAX));
        }
        self.out.push(stream.written);
        self.out.push(stream.asked);
        for piece in &stream.pieces {
            self.block(piece.local);
            self.put(u64::try_from(piece.start).unwrap_or(u64::MAX));
            self.put(u64::try_from(piece.length).unwrap_or(u64::MAX));
        }
        for spare in &stream.spare {
            self.block(*spare);
        }
    }

    fn session(&mut self, id: u64) {
        if !self.sessions.insert(id) {
            return;
        }
        self.put_id(id);
        let Some(seen) = self.facts.sessions.get(&id) else {
            return self.put(0);
        };
        let SeenSession {
            row,
            renewed,
            given,
        } = seen;
        let mut named = OpenRow {
            file: self.id(row.file),
            opened_ms: 0,
            heard_ms: row.heard_ms.map(|heard| self.age(heard, HARD)),
            ..row.clone()
        };
        named.place.bucket = self.id(row.place.bucket);
        named.place.parent = self.id(row.place.parent);
        if let Some(invocation) = &mut named.invocation {
            invocation.sequence = 0;
        }
        if let Some(ended) = &mut named.ended {
            ended.lease_ms = self.age(ended.lease_ms, RETENTION);
        }
        if let Some(ordinary) = &mut named.ordinary {
            ordinary.target = ordinary.target.map(|id| self.id(id));
            if let Some(published) = &mut ordinary.published {
                published.file = self.id(published.file);
                published.generation = self.id(published.generation);
            }
        }
        self.message(&named);
        let age = renewed.map_or(u64::MAX, |renewed| self.age(renewed.last_renewed_ms, HARD));
        self.put(age);
        self.put(u64::try_from(given.len()).unwrap_or(u64::MAX));
        for local in given {
            self.block(*local);
        }
    }

    fn target(&mut self, target: &mut Target) {
        target.session = self.id(target.session);
        if let Some(handle) = target.handle {
            target.handle = Some(self.handle(handle));
        }
    }

    /// A late command, and what the table of answers will say to it.
    fn stray(&mut self, request: &Request) {
        let mut command = request.command.clone();
        match &mut command {
            Some(Command::Publish(publish)) => {
                self.target(&mut publish.target);
                for block in &mut publish.blocks {
                    self.block(block.local);
                    block.local = self.id(block.local);
                }
            }
            Some(Command::AllocateBlock(allocate)) => self.target(&mut allocate.target),
            Some(Command::RenewLeases(renew)) => {
                for handle in &mut renew.sessions {
                    *handle = self.handle(*handle);
                }
            }
            Some(Command::Delete(delete)) => {
                delete.created_by = delete.created_by.map(|handle| self.handle(handle));
            }
            _ => {}
        }
        let named = Request {
            command,
            invocation: None,
            answered_below: None,
            user: String::new(),
        };
        self.message(&named);
        let Some(invocation) = &request.invocation else {
            return;
        };
        self.out.extend_from_slice(&invocation.client);
        let rows = &self.state.rows;
        let mark: Option<MarkRow> =
            table::read(rows, Keyspace::Dedupe, &key::client(&invocation.client))
                .ok()
                .flatten();
        let below = mark.is_some_and(|mark| invocation.sequence < mark.below);
        let known: Option<DedupeRow> =
            table::read(rows, Keyspace::Dedupe, &key::invocation(invocation))
                .ok()
                .flatten();
        self.put(u64::from(below));
        self.put(known.map_or(u64::MAX, |known| self.age(known.lease_ms, RETENTION + 1)));
        self.put(mark.map_or(u64::MAX, |mark| self.age(mark.lease_ms, RETENTION + 1)));
    }
}
