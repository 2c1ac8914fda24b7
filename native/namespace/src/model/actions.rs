//! What may happen next in a state, and what it does.

use super::facts::Replica;
use super::oracle::{self, Expect, Violation};
use super::state::{Budget, Piece, STEP_MS, State, Stream, submitted};
use crate::command::{
    BucketName, Cleanup, Command, CreateMode, Handle, KeyRename, Layout, Limits, Publish,
    PublishKind, RenameKeys, RenewLeases, Request, StartRecovery, Sweep, Target,
};
use crate::reply::{Answer, Decided, Phase, RefusalKind};
use crate::table;
use crate::testing::{append, delete, mkdir, open_key, path, rename};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How a command reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// At once, and its answer comes back.
    Now,
    /// So, and a copy of it stays in the network.
    Twice,
    /// It stays in the network, and its caller ends without an answer.
    Late,
}

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Append(usize, &'static str, How),
    Create(usize, &'static str, How),
    Open(usize, &'static str, How),
    Allocate(usize, How),
    /// A unit into the last block, or into the next one.
    Write(usize, bool),
    /// The last block failed in mid-write: what is not acknowledged goes into the next one again.
    Resend(usize),
    Hsync(usize, How),
    Close(usize, How),
    Renew(usize, How),
    /// The process ends and knows nothing any more.
    Crash(usize),
    StartRecovery(usize, &'static str, How),
    Complete(usize, &'static str, How),
    Rename(&'static str, &'static str),
    RenameKeys(&'static str, &'static str),
    Delete(&'static str, bool),
    Mkdir(&'static str),
    /// A command of the network arrives and stays there no longer.
    Arrive(usize),
    Tick,
    Cleanup,
    Sweep(usize),
    Switch,
}

/// Adds an action in every way in which its command may reach the server.
type Ways<'a> = dyn Fn(&mut Vec<Action>, &dyn Fn(How) -> Action) + 'a;

/// What a check looks at.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) name: &'static str,
    pub(crate) layout: Layout,
    pub(crate) clients: usize,
    pub(crate) budget: Budget,
    /// Paths that are appended to, created, opened, recovered.
    pub(crate) files: &'static [&'static str],
    pub(crate) renames: &'static [(&'static str, &'static str)],
    pub(crate) deletes: &'static [(&'static str, bool)],
    /// Clients crash, streams fail in mid-write.
    pub(crate) crashes: bool,
    /// An own create that overwrites.
    pub(crate) creates: bool,
    /// Steps at most; longer histories are cut.
    pub(crate) depth: usize,
    /// States at most.
    pub(crate) states: usize,
    /// In one of so many states bad input is tried.
    pub(crate) probe_one_in: u64,
}

/// Commands by outcome, as they were seen.
pub(crate) type Seen = BTreeMap<(&'static str, String), u64>;

impl State {
    /// Everything that may happen next.
    pub(crate) fn actions(&self, scope: &Scope) -> Vec<Action> {
        let mut found = Vec::new();
        let ways = |found: &mut Vec<Action>, make: &dyn Fn(How) -> Action| {
            found.push(make(How::Now));
            if self.left.strays > 0 {
                found.push(make(How::Twice));
                found.push(make(How::Late));
            }
        };
        for client in 0..self.clients.len() {
            match &self.clients[client].stream {
                Some(stream) => self.stream_actions(scope, client, stream, &mut found, &ways),
                None => {
                    for at in scope.files {
                        if self.left.appends > 0 {
                            ways(&mut found, &|how| Action::Append(client, at, how));
                            if scope.creates {
                                found.push(Action::Create(client, at, How::Now));
                            }
                        }
                        // The last client is one of Ozone's.
                        if self.left.opens > 0 && client + 1 == self.clients.len() {
                            ways(&mut found, &|how| Action::Open(client, at, how));
                        }
                        self.recovery_actions(client, at, &mut found, &ways);
                    }
                }
            }
        }
        self.namespace_actions(scope, &mut found);
        for stray in 0..self.strays.len() {
            found.push(Action::Arrive(stray));
        }
        if !self.facts.sessions.is_empty() || !self.strays.is_empty() {
            found.push(Action::Tick);
            found.push(Action::Cleanup);
        }
        for tree in 0..self.facts.trees.len() {
            found.push(Action::Sweep(tree));
        }
        if self.left.switches > 0 {
            found.push(Action::Switch);
        }
        found
    }

    fn stream_actions(
        &self,
        scope: &Scope,
        client: usize,
        stream: &Stream,
        found: &mut Vec<Action>,
        ways: &Ways<'_>,
    ) {
        let sealed = |local: u64| {
            self.replicas
                .get(&local)
                .is_some_and(|replica| replica.sealed)
        };
        if stream.written < self.left.units {
            let last = stream.pieces.last().map(|piece| piece.local);
            let here = last.or(stream.spare.first().copied());
            if here.is_some_and(|local| !sealed(local)) {
                found.push(Action::Write(client, false));
            }
            if last.is_some() && stream.spare.first().is_some_and(|local| !sealed(*local)) {
                found.push(Action::Write(client, true));
            }
        }
        if scope.crashes && stream.length() > stream.acked && !stream.ordinary {
            let spare = stream.spare.first();
            if !stream.pieces.is_empty() && spare.is_some_and(|local| !sealed(*local)) {
                found.push(Action::Resend(client));
            }
        }
        if stream.spare.is_empty() && stream.asked < self.left.blocks {
            ways(found, &|how| Action::Allocate(client, how));
        }
        ways(found, &|how| Action::Hsync(client, how));
        ways(found, &|how| Action::Close(client, how));
        if !stream.ordinary {
            found.push(Action::Renew(client, How::Now));
            if self.left.strays > 0 {
                found.push(Action::Renew(client, How::Twice));
            }
        }
        if scope.crashes {
            found.push(Action::Crash(client));
        }
    }

    fn recovery_actions(
        &self,
        client: usize,
        at: &'static str,
        found: &mut Vec<Action>,
        ways: &Ways<'_>,
    ) {
        let Some(file) = self.facts.at(at) else {
            return;
        };
        if let Some(owner) = file.row.append_owner.or(file.row.hsync_session) {
            ways(found, &|how| Action::StartRecovery(client, at, how));
            let recovering = self
                .facts
                .sessions
                .get(&owner)
                .is_some_and(|seen| seen.phase() == Phase::Recovering);
            if recovering {
                ways(found, &|how| Action::Complete(client, at, how));
            }
        }
    }

    fn namespace_actions(&self, scope: &Scope, found: &mut Vec<Action>) {
        if self.left.renames > 0 {
            for (from, to) in scope.renames {
                found.push(Action::Rename(from, to));
                if scope.layout == Layout::Legacy {
                    found.push(Action::RenameKeys(from, to));
                }
            }
        }
        if self.left.deletes > 0 {
            for (at, recursive) in scope.deletes {
                found.push(Action::Delete(at, *recursive));
            }
        }
        if self.left.mkdirs > 0 && !self.facts.dirs.contains_key("d") {
            found.push(Action::Mkdir("d"));
        }
    }

    /// The state after an action; nothing if the action is not to be taken here.
    pub(crate) fn step(
        &self,
        action: Action,
        scope: &Scope,
        seen: &mut Seen,
    ) -> Result<State, Violation> {
        let mut next = self.clone();
        next.last = None;
        match action {
            Action::Write(client, into_next) => next.write(client, into_next),
            Action::Resend(client) => next.resend(client),
            Action::Crash(client) => next.clients[client].stream = None,
            Action::Arrive(at) => {
                let request = next.strays.remove(at);
                let _answer = next.arrive(&request, Expect::Open, "late", seen, scope)?;
            }
            Action::Tick => {
                next.lease_ms += STEP_MS;
                next.arrive_entry()?;
            }
            Action::Cleanup | Action::Sweep(_) | Action::Switch => {
                if action == Action::Switch {
                    next.left.switches -= 1;
                }
                let request = next.duty(action);
                let _answer = next.arrive(&request, Expect::Accept, op(action), seen, scope)?;
            }
            _ => next.command(action, scope, seen)?,
        }
        Ok(next)
    }

    /// A tick: an entry without commands changes nothing that anybody sees.
    fn arrive_entry(&mut self) -> Result<(), Violation> {
        let delivered = self.deliver(None)?;
        if delivered.touched {
            return Err("a tick changed rows".into());
        }
        Ok(())
    }

    fn duty(&self, action: Action) -> Request {
        let command = match action {
            Action::Sweep(tree) => {
                let (command, ordinal, _) = self.facts.trees[tree];
                Command::Sweep(Sweep {
                    command,
                    ordinal,
                    max: 1,
                })
            }
            Action::Switch => {
                let limits = table::limits(&self.rows).unwrap_or_default();
                Command::Configure(Limits {
                    append_enabled: !limits.append_enabled,
                    ..limits
                })
            }
            _ => Command::Cleanup(Cleanup {
                sessions: self
                    .facts
                    .sessions
                    .iter()
                    .map(|(id, seen)| Handle {
                        bucket: self.facts.bucket,
                        session: *id,
                        file: seen.row.file,
                    })
                    .collect(),
            }),
        };
        Request {
            user: "om".into(),
            command: Some(command),
            ..Request::default()
        }
    }

    fn command(&mut self, action: Action, scope: &Scope, seen: &mut Seen) -> Result<(), Violation> {
        let (client, how, command) = self.say(action);
        let request = self.call(client, command);
        match how {
            How::Late => {
                self.left.strays -= 1;
                self.clients[client].stream = None;
                self.strays.push(Rc::new(request));
                return Ok(());
            }
            How::Twice => {
                self.left.strays -= 1;
                self.strays.push(Rc::new(request.clone()));
            }
            How::Now => {}
        }
        let expect = oracle::expect(self, &request, scope);
        let outcome = self.arrive(&request, expect, op(action), seen, scope)?;
        self.hear(client, action, &outcome);
        Ok(())
    }

    /// The command of an action; what it spends.
    fn say(&mut self, action: Action) -> (usize, How, Command) {
        match action {
            Action::Append(client, at, how) => {
                self.left.appends -= 1;
                (client, how, append(at, CreateMode::No))
            }
            Action::Create(client, at, how) => {
                self.left.appends -= 1;
                (client, how, append(at, CreateMode::Overwrite))
            }
            Action::Open(client, at, how) => {
                self.left.opens -= 1;
                (client, how, open_key(at, 1))
            }
            Action::Allocate(client, how) => {
                let command = self.stream(client, |stream| {
                    stream.asked += 1;
                    stream.allocation()
                });
                (client, how, command)
            }
            Action::Hsync(client, how) => {
                let say = |stream: &mut Stream| stream.publication(PublishKind::Hsync);
                (client, how, self.stream(client, say))
            }
            Action::Close(client, how) => {
                let say = |stream: &mut Stream| stream.publication(PublishKind::Close);
                (client, how, self.stream(client, say))
            }
            Action::Renew(client, how) => {
                let say = |stream: &mut Stream| {
                    Command::RenewLeases(RenewLeases {
                        sessions: vec![stream.handle],
                    })
                };
                (client, how, self.stream(client, say))
            }
            Action::StartRecovery(client, at, how) => {
                let command = Command::StartRecovery(StartRecovery {
                    path: path(at),
                    append_only: true,
                    force: false,
                });
                (client, how, command)
            }
            Action::Complete(client, at, how) => (client, how, self.completion(at)),
            Action::Rename(from, to) => {
                self.left.renames -= 1;
                (0, How::Now, rename(from, to))
            }
            Action::RenameKeys(from, to) => {
                self.left.renames -= 1;
                let command = Command::RenameKeys(RenameKeys {
                    bucket: BucketName {
                        volume: path("").volume,
                        bucket: path("").bucket,
                    },
                    renames: vec![KeyRename {
                        from: from.into(),
                        to: to.into(),
                    }],
                });
                (0, How::Now, command)
            }
            Action::Delete(at, recursive) => {
                self.left.deletes -= 1;
                (0, How::Now, delete(at, recursive))
            }
            _ => {
                self.left.mkdirs = self.left.mkdirs.saturating_sub(1);
                (0, How::Now, mkdir("d"))
            }
        }
    }

    fn stream<T>(&mut self, client: usize, say: impl FnOnce(&mut Stream) -> T) -> T {
        let stream = self.clients[client].stream.as_mut();
        say(stream.expect("the action is offered for an open stream"))
    }

    /// What a helper publishes: it seals the blocks at the datanodes, cuts each where the next begins, and stops behind the first that does
    /// not reach the next.
    fn completion(&mut self, at: &str) -> Command {
        let facts = Rc::clone(&self.facts);
        let none = || mkdir("d");
        let Some(file) = facts.at(at) else {
            return none();
        };
        let Some(owner) = file.row.append_owner.or(file.row.hsync_session) else {
            return none();
        };
        let session = &facts.sessions[&owner];
        let mut left: Vec<u64> = session.given.clone();
        let mut size = 0;
        let mut pieces: Vec<Piece> = Vec::new();
        if session.is_append() {
            size = file.content.len();
            let last = file.blocks.last().filter(|last| left.contains(last));
            left.retain(|local| !file.blocks.contains(local) || Some(local) == last);
        }
        for local in &left {
            if let Some(replica) = self.replicas.get_mut(local) {
                replica.sealed = true;
            }
        }
        // What was given before the last published block and is not published itself was sent again into that or before it.
        let published = left.iter().position(|local| file.blocks.contains(local));
        let held: Vec<(u64, &Replica)> = left[published.unwrap_or(0)..]
            .iter()
            .filter_map(|local| Some((*local, self.replicas.get(local)?)))
            .collect();
        for (at, (local, replica)) in held.iter().enumerate() {
            let end = replica.start + replica.units.len();
            let next = held.get(at + 1).map(|(_, next)| next.start);
            let reaches = next.is_none_or(|next| next <= end);
            let end = next.map_or(end, |next| next.min(end));
            pieces.push(Piece {
                local: *local,
                start: replica.start,
                length: end.saturating_sub(replica.start),
            });
            if !reaches {
                break;
            }
        }
        pieces.retain(|piece| piece.length > 0);
        let size = pieces.last().map_or(size, |last| last.start + last.length);
        Command::Publish(Publish {
            target: if session.is_append() {
                Target {
                    handle: Some(session.row.handle(owner)),
                    path: None,
                    session: 0,
                }
            } else {
                Target {
                    handle: None,
                    path: Some(path(at)),
                    session: owner,
                }
            },
            kind: PublishKind::Recovery as i32,
            size: u64::try_from(size).unwrap_or(u64::MAX),
            blocks: pieces.iter().map(submitted).collect(),
            metadata: Vec::new(),
        })
    }

    fn write(&mut self, client: usize, into_next: bool) {
        let (local, start, unit) = self.stream(client, |stream| {
            let unit = (stream.handle.session, stream.written);
            stream.written += 1;
            if into_next || stream.pieces.is_empty() {
                let start = stream.length();
                let local = stream.spare.remove(0);
                stream.pieces.push(Piece {
                    local,
                    start,
                    length: 1,
                });
                (local, start, unit)
            } else {
                let last = stream.pieces.len() - 1;
                stream.pieces[last].length += 1;
                (stream.pieces[last].local, stream.pieces[last].start, unit)
            }
        });
        let replica = self.replicas.entry(local).or_insert(Replica {
            start,
            ..Replica::default()
        });
        replica.units.push(unit);
    }

    fn resend(&mut self, client: usize) {
        let stream = self.clients[client].stream.as_mut();
        let stream = stream.expect("the action is offered for an open stream");
        let last = stream.pieces.len() - 1;
        let failed = stream.pieces[last];
        let start = failed.start.max(stream.acked);
        let kept = start - failed.start;
        let units = self.replicas[&failed.local].units[kept..failed.length].to_vec();
        let local = stream.spare.remove(0);
        let again = Piece {
            local,
            start,
            length: units.len(),
        };
        stream.pieces[last].length = kept;
        if kept == 0 {
            stream.pieces.pop();
        }
        stream.pieces.push(again);
        let replica = Replica {
            units,
            start,
            sealed: false,
        };
        self.replicas.insert(local, replica);
    }

    /// What the caller makes of its answer.
    fn hear(&mut self, client: usize, action: Action, outcome: &Decided) {
        let answer = outcome.as_ref().ok().and_then(|reply| reply.answer.clone());
        let known = &mut self.clients[client];
        match (action, answer) {
            (Action::Append(..) | Action::Create(..), Some(Answer::Admitted(admitted))) => {
                known.stream = Some(Stream {
                    handle: admitted.handle,
                    by_path: None,
                    ordinary: admitted.ordinary,
                    prefix: usize::try_from(admitted.prefix_length).unwrap_or(usize::MAX),
                    pieces: Vec::new(),
                    spare: admitted.blocks.iter().map(|block| block.local).collect(),
                    published: 0,
                    acked: usize::try_from(admitted.published_length).unwrap_or(usize::MAX),
                    written: 0,
                    asked: 1,
                });
            }
            (Action::Open(_, at, _), Some(Answer::Opened(opened))) => {
                known.stream = Some(Stream {
                    handle: Handle {
                        bucket: opened.bucket,
                        session: opened.session,
                        file: 0,
                    },
                    by_path: Some(at),
                    ordinary: true,
                    prefix: 0,
                    pieces: Vec::new(),
                    spare: opened.blocks.iter().map(|block| block.local).collect(),
                    published: 0,
                    acked: 0,
                    written: 0,
                    asked: 1,
                });
            }
            (Action::Allocate(..), Some(Answer::Allocated(given))) => {
                if let Some(stream) = &mut known.stream {
                    stream.spare.push(given.local);
                }
            }
            (Action::Hsync(..), Some(_)) => {
                if let Some(stream) = &mut known.stream {
                    stream.acked = stream.length();
                    stream.published = stream.pieces.len();
                }
            }
            (Action::Close(..), _) => known.stream = None,
            (Action::Hsync(..) | Action::Allocate(..), None) => {
                let over = outcome.as_ref().is_err_and(|refusal| {
                    !matches!(
                        refusal.kind(),
                        RefusalKind::RetryLater | RefusalKind::ConflictAppend
                    )
                });
                if over {
                    known.stream = None;
                }
            }
            _ => {}
        }
    }
}

/// The name under which an action is counted.
pub(crate) fn op(action: Action) -> &'static str {
    match action {
        Action::Append(..) => "append",
        Action::Create(..) => "create",
        Action::Open(..) => "open",
        Action::Allocate(..) => "allocate",
        Action::Write(..) => "write",
        Action::Resend(..) => "resend",
        Action::Hsync(..) => "hsync",
        Action::Close(..) => "close",
        Action::Renew(..) => "renew",
        Action::Crash(..) => "crash",
        Action::StartRecovery(..) => "start recovery",
        Action::Complete(..) => "complete recovery",
        Action::Rename(..) => "rename",
        Action::RenameKeys(..) => "rename keys",
        Action::Delete(..) => "delete",
        Action::Mkdir(..) => "mkdir",
        Action::Arrive(..) => "late",
        Action::Tick => "tick",
        Action::Cleanup => "cleanup",
        Action::Sweep(..) => "sweep",
        Action::Switch => "switch",
    }
}
