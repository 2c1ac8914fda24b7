//! What the transition table wants of a command, from the facts alone: whether it is to be accepted, and what it may change.

use super::actions::{Scope, Seen};
use super::facts::{Facts, SeenFile, SeenSession, Unit};
use super::state::{HARD, RETENTION, SOFT, STEP_MS, State};
use crate::command::{Command, CreateMode, Handle, Layout, Publish, PublishKind, Request, Target};
use crate::key;
use crate::record::{DedupeRow, MarkRow};
use crate::reply::{Answer, Decided, Phase, RefusalKind};
use crate::rows::Keyspace;
use crate::table;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What is wrong.
pub(crate) type Violation = String;

/// What must become of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Accept,
    Refuse,
    /// Either; what it changes is checked all the same.
    Open,
}

fn must(accept: bool) -> Expect {
    if accept {
        Expect::Accept
    } else {
        Expect::Refuse
    }
}

/// What must become of a call that its client makes now, for the first time, and soundly.
pub(crate) fn expect(state: &State, request: &Request, scope: &Scope) -> Expect {
    let facts = &state.facts;
    let age = |since: u64| state.lease_ms.saturating_sub(since) / STEP_MS;
    match &request.command {
        Some(Command::AppendFile(append)) => {
            let limits = table::limits(&state.rows).unwrap_or_default();
            if !limits.append_enabled {
                return Expect::Refuse;
            }
            let at = append.path.key.as_str();
            let ordinary = facts
                .place(at, scope.layout)
                .and_then(|(parent, name)| facts.ordinary_at(parent, &name));
            match (facts.at(at), append.create() == CreateMode::No) {
                (None, true) => Expect::Refuse,
                (Some(file), true) => must(
                    file.row.append_owner.is_none()
                        && file.row.hsync_session.is_none()
                        && ordinary.is_none(),
                ),
                (Some(file), false) => must(overwritable(facts, file)),
                (None, false) => Expect::Open,
            }
        }
        Some(Command::OpenKey(open)) => match facts.at(&open.path.key) {
            Some(file) if !overwritable(facts, file) => Expect::Refuse,
            _ => Expect::Open,
        },
        Some(Command::AllocateBlock(allocate)) => {
            writes(facts, &allocate.target, Phase::Active, scope)
        }
        Some(Command::Publish(publish)) => match publish.kind() {
            PublishKind::Recovery => writes(facts, &publish.target, Phase::Recovering, scope),
            PublishKind::Hsync | PublishKind::Close => commits(facts, publish, scope),
        },
        Some(Command::StartRecovery(start)) => {
            let Some(file) = facts.at(&start.path.key) else {
                return Expect::Refuse;
            };
            let Some(owner) = file.row.append_owner.or(file.row.hsync_session) else {
                return Expect::Refuse;
            };
            let Some(session) = facts.sessions.get(&owner) else {
                return Expect::Refuse;
            };
            let own = session.row.invocation.as_ref().map(|call| &call.client)
                == request.invocation.as_ref().map(|call| &call.client);
            let since = last_heard(session);
            must(session.phase() == Phase::Recovering || own || age(since) >= SOFT)
        }
        Some(Command::Rename(rename)) if scope.layout == Layout::FileSystemOptimized => {
            // An ordinary writer that has hsynced keeps its file where it is.
            let held = facts.at(&rename.from.key).is_some_and(|file| {
                file.row.hsync_session.is_some() && file.row.append_owner.is_none()
            });
            if held && rename.from.key != rename.to {
                Expect::Refuse
            } else {
                Expect::Open
            }
        }
        Some(Command::Delete(delete)) if !delete.recursive => {
            let inside = format!("{}/", delete.path.key);
            let mut below = facts.paths.keys().chain(facts.dirs.keys());
            if below.any(|path| path.starts_with(&inside)) {
                Expect::Refuse
            } else {
                Expect::Open
            }
        }
        _ => Expect::Open,
    }
}

fn last_heard(session: &SeenSession) -> u64 {
    match (&session.renewed, session.is_append()) {
        (Some(renewed), _) => renewed.last_renewed_ms,
        (None, true) => u64::MAX,
        (None, false) => session.row.heard_ms.unwrap_or_default(),
    }
}

/// May an overwriter open or commit here? Not over an appender that did not create the file.
fn overwritable(facts: &Facts, file: &SeenFile) -> bool {
    let owner = file.row.append_owner.and_then(|id| facts.sessions.get(&id));
    owner.is_none_or(|owner| {
        owner
            .row
            .append
            .as_ref()
            .is_some_and(|append| append.created)
    })
}

/// The guard of allocation, publication and recovery.
fn writes(facts: &Facts, target: &Target, phase: Phase, scope: &Scope) -> Expect {
    let id = target
        .handle
        .map_or(target.session, |handle| handle.session);
    let Some(session) = facts.sessions.get(&id) else {
        return Expect::Refuse;
    };
    if session.phase() != phase {
        return Expect::Refuse;
    }
    // Without a handle the path must be where the writer stands.
    if let (None, Some(path)) = (target.handle, &target.path) {
        let place = &session.row.place;
        let stands = (place.parent, place.name.clone());
        if session.is_append() || facts.place(&path.key, scope.layout) != Some(stands) {
            return Expect::Refuse;
        }
    }
    match target.handle {
        Some(handle) if session.is_append() => must(
            handle.file == session.row.file
                && facts
                    .owned_by(id)
                    .is_some_and(|file| file.row.object_id == handle.file),
        ),
        _ if !facts.reaches(&session.row) => Expect::Refuse,
        _ => Expect::Open,
    }
}

fn commits(facts: &Facts, publish: &Publish, scope: &Scope) -> Expect {
    let expect = writes(facts, &publish.target, Phase::Active, scope);
    let id = publish
        .target
        .handle
        .map_or(publish.target.session, |handle| handle.session);
    let Some(session) = facts.sessions.get(&id).filter(|seen| !seen.is_append()) else {
        return expect;
    };
    let place = &session.row.place;
    let there = facts
        .files
        .values()
        .find(|file| stands_at(facts, file, place.parent, &place.name));
    if there.is_some_and(|file| !overwritable(facts, file)) {
        return Expect::Refuse;
    }
    // What it hsynced must still stand there.
    let published = session
        .row
        .ordinary
        .as_ref()
        .and_then(|part| part.published);
    if let Some(published) = published
        && !there.is_some_and(|file| {
            (file.row.object_id, file.row.generation) == (published.file, published.generation)
        })
    {
        return Expect::Refuse;
    }
    expect
}

fn stands_at(facts: &Facts, file: &SeenFile, parent: u64, name: &str) -> bool {
    if parent == 0 {
        return file.path == name;
    }
    let (above, leaf) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let id = if above.is_empty() {
        Some(&facts.bucket)
    } else {
        facts.dirs.get(above)
    };
    id == Some(&parent) && leaf == name
}

/// What the table of answers has for a call.
enum Remembered {
    Nothing,
    Answer(Decided),
    Forgotten,
}

impl State {
    fn remembered(&self, request: &Request) -> Remembered {
        let Some(invocation) = &request.invocation else {
            return Remembered::Nothing;
        };
        if matches!(request.command, Some(Command::RenewLeases(_))) {
            return Remembered::Nothing;
        }
        let mark: Option<MarkRow> = table::read(
            &self.rows,
            Keyspace::Dedupe,
            &key::client(&invocation.client),
        )
        .ok()
        .flatten();
        if mark.is_some_and(|mark| invocation.sequence < mark.below) {
            return Remembered::Forgotten;
        }
        let known: Option<DedupeRow> =
            table::read(&self.rows, Keyspace::Dedupe, &key::invocation(invocation))
                .ok()
                .flatten();
        match known {
            Some(row) => Remembered::Answer(match row.refusal {
                Some(refusal) => Err(refusal),
                None => Ok(row.reply.unwrap_or_default()),
            }),
            None => Remembered::Nothing,
        }
    }

    /// A command arrives at the server. Everything that the table says of it is checked.
    pub(crate) fn arrive(
        &mut self,
        request: &Request,
        expect: Expect,
        op: &'static str,
        seen: &mut Seen,
        scope: &Scope,
    ) -> Result<Decided, Violation> {
        let facts = Rc::clone(&self.facts);
        let remembered = self.remembered(request);
        let delivered = self.deliver(Some(request))?;
        let outcome = delivered.outcome;
        self.last = Some((Rc::new(request.clone()), outcome.clone()));
        let told = match &outcome {
            Ok(reply) => told(reply.answer.as_ref()),
            Err(refusal) => format!("{:?}", refusal.kind()),
        };
        *seen.entry((op, told.clone())).or_default() += 1;
        if outcome.is_err() && delivered.touched {
            return Err(format!("I5: {op} was refused ({told}) and changed rows"));
        }
        match remembered {
            // It may fall out of the table with this very entry.
            Remembered::Answer(first) if first == outcome && !delivered.touched => {
                return Ok(outcome);
            }
            Remembered::Answer(_) if self.past_retention(request) => {}
            Remembered::Answer(first) => {
                return Err(format!(
                    "I5: {op}, once decided as {first:?}, became {outcome:?} when it came again"
                ));
            }
            Remembered::Forgotten => {
                let uncertain = outcome
                    .as_ref()
                    .is_err_and(|refusal| refusal.kind() == RefusalKind::Uncertain);
                if !uncertain && !self.past_retention(request) {
                    return Err(format!(
                        "I5: {op}, whose answer was given, was decided again: {outcome:?}"
                    ));
                }
                if uncertain {
                    return Ok(outcome);
                }
            }
            Remembered::Nothing => {}
        }
        match (expect, outcome.is_ok()) {
            (Expect::Accept, false) => {
                return Err(format!("{op} must be accepted: {told}"));
            }
            (Expect::Refuse, true) => {
                return Err(format!("I4: {op} must be refused and was accepted"));
            }
            _ => {}
        }
        self.see(scope.layout);
        if let Some(broken) = self.facts.broken.first() {
            return Err(broken.clone());
        }
        let change = Change {
            before: &facts,
            after: &self.facts,
            lease_ms: self.lease_ms,
            op,
        };
        if let (Some(command), Ok(reply)) = (&request.command, &outcome) {
            change.check(command, reply.answer.as_ref())?;
        }
        Ok(outcome)
    }

    fn past_retention(&self, request: &Request) -> bool {
        // After the call: if the row is gone or is a new one, the old one was too old.
        match self.remembered(request) {
            Remembered::Nothing => true,
            Remembered::Forgotten => false,
            Remembered::Answer(_) => {
                let at = request.invocation.as_ref().map(key::invocation);
                let row: Option<DedupeRow> = at.and_then(|at| {
                    table::read(&self.rows, Keyspace::Dedupe, &at)
                        .ok()
                        .flatten()
                });
                row.is_some_and(|row| row.lease_ms == self.lease_ms)
            }
        }
    }

    /// The last call at once again: the same answer, and nothing changes.
    pub(crate) fn again(&self) -> Result<(), Violation> {
        let Some((request, first)) = &self.last else {
            return Ok(());
        };
        if request.invocation.is_none() || matches!(request.command, Some(Command::RenewLeases(_)))
        {
            return Ok(());
        }
        let mut copy = self.clone();
        let delivered = copy.deliver(Some(request))?;
        if delivered.touched || &delivered.outcome != first {
            return Err(format!(
                "I5: a call was answered {first:?}, and {:?} when it came twice",
                delivered.outcome
            ));
        }
        Ok(())
    }
}

/// How an accepted command is counted.
fn told(answer: Option<&Answer>) -> String {
    let refused = |kind: RefusalKind| format!("{kind:?}");
    let text = match answer {
        Some(Answer::Admitted(admitted)) if admitted.ordinary => "ok, ordinary",
        Some(Answer::Admitted(admitted)) if admitted.created => "ok, created",
        Some(Answer::Fenced(fenced)) if fenced.joined => "ok, joined",
        Some(Answer::Renewed(renewed)) => {
            let first = renewed.results.first();
            return match first.filter(|renewal| renewal.refused.is_some()) {
                Some(renewal) => refused(renewal.refused()),
                None => "ok".to_owned(),
            };
        }
        Some(Answer::Cleaned(cleaned)) if cleaned.sessions == 0 && cleaned.files == 0 => {
            "ok, nothing due"
        }
        Some(Answer::RenamedKeys(renamed)) => {
            return match renamed.refused.first() {
                Some(first) => refused(first.refusal.kind()),
                None => "ok".to_owned(),
            };
        }
        _ => "ok",
    };
    text.to_owned()
}

/// A change, before and after.
struct Change<'a> {
    before: &'a Facts,
    after: &'a Facts,
    lease_ms: u64,
    op: &'static str,
}

impl Change<'_> {
    fn check(&self, command: &Command, answer: Option<&Answer>) -> Result<(), Violation> {
        self.contents(command)?;
        self.sessions(command)?;
        self.effect(command, answer)
    }

    /// I2, I3, I4: contents only grow, at their end, and by their owner's publications. I12: paths change by renames alone.
    fn contents(&self, command: &Command) -> Result<(), Violation> {
        let op = self.op;
        let publishes = match command {
            Command::Publish(publish) => Some(session_of(&publish.target)),
            _ => None,
        };
        for (id, old) in &self.before.files {
            let path = &old.path;
            let Some(new) = self.after.files.get(id) else {
                let may = matches!(
                    command,
                    Command::Delete(_)
                        | Command::DeleteKeys(_)
                        | Command::Publish(_)
                        | Command::AppendFile(_)
                );
                if !may {
                    return Err(format!("{op} took {path} away"));
                }
                continue;
            };
            if new.path != *path && !matches!(command, Command::Rename(_) | Command::RenameKeys(_))
            {
                return Err(format!("I12: {op} moved {path} to {}", new.path));
            }
            if new.row.generation != old.row.generation {
                let writer = publishes
                    .and_then(|id| self.before.sessions.get(&id))
                    .and_then(|seen| seen.row.ordinary.as_ref());
                if writer.is_none() || old.row.append_owner.is_some() {
                    return Err(format!("I3: {op} replaced the content of {path}"));
                }
                // An overwrite keeps the identity that it saw when it opened, and no other.
                if writer.is_some_and(|writer| writer.target != Some(*id)) {
                    return Err(format!("I12: {op} took the identity of {path}"));
                }
                continue;
            }
            if !new.content.starts_with(&old.content) {
                return Err(format!(
                    "I3: {op} made {:?} of what {path} had: {:?}",
                    new.content, old.content
                ));
            }
            if !new.blocks.starts_with(&old.blocks) {
                return Err(format!("I2: {op} changed the blocks of {path}"));
            }
            let grew = new.content != old.content;
            let owner = old.row.append_owner.or(old.row.hsync_session);
            if grew && (publishes.is_none() || publishes != owner) {
                return Err(format!("I4: {op} changed {path}, which is not its own"));
            }
        }
        for file in self.after.files.values() {
            whole(&file.content).map_err(|why| format!("{op} left {}: {why}", file.path))?;
        }
        Ok(())
    }

    /// Phases, owners and leases change by nothing but what the table names.
    fn sessions(&self, command: &Command) -> Result<(), Violation> {
        let op = self.op;
        for (id, old) in &self.before.sessions {
            let new = self.after.sessions.get(id);
            let now = new.map_or(Phase::Invalidated, SeenSession::phase);
            let named = match command {
                Command::Publish(publish) => session_of(&publish.target) == *id,
                _ => false,
            };
            let may = match (old.phase(), now) {
                (before, after) if before == after => true,
                (Phase::Active, Phase::Recovering) => matches!(command, Command::StartRecovery(_)),
                (Phase::Active | Phase::Recovering, Phase::Invalidated) => match command {
                    Command::Publish(_) => named || !old.is_append() || created(old),
                    Command::AppendFile(_) => created(old),
                    Command::Delete(_) | Command::Sweep(_) => true,
                    Command::Cleanup(_) => self.due(old),
                    _ => false,
                },
                _ => false,
            };
            if !may {
                return Err(format!(
                    "{op} brought session {id} from {:?} to {now:?}",
                    old.phase()
                ));
            }
            if let (None, Some(ended)) = (new, old.row.ended) {
                let age = self.lease_ms.saturating_sub(ended.lease_ms) / STEP_MS;
                if age < RETENTION {
                    return Err(format!("{op} forgot how session {id} ended"));
                }
            }
            let Some(new) = new else { continue };
            if new.row.append != old.row.append || new.row.file != old.row.file {
                return Err(format!("I2: {op} changed the prefix of session {id}"));
            }
            if let (Some(old), Some(new)) = (old.renewed, new.renewed)
                && old != new
            {
                let renews = matches!(command, Command::RenewLeases(_));
                if !renews || new.last_renewed_ms < old.last_renewed_ms {
                    return Err(format!("{op} changed the lease of session {id}"));
                }
            }
        }
        Ok(())
    }

    fn due(&self, session: &SeenSession) -> bool {
        let age = self.lease_ms.saturating_sub(last_heard(session)) / STEP_MS;
        age >= HARD || !self.before.reaches(&session.row)
    }

    /// What an accepted command must have done.
    fn effect(&self, command: &Command, answer: Option<&Answer>) -> Result<(), Violation> {
        let op = self.op;
        let wrong = |what: &str| Err(format!("{op} was accepted, and {what}"));
        match (command, answer) {
            (Command::AppendFile(append), Some(Answer::Admitted(admitted)))
                if !admitted.ordinary =>
            {
                let id = admitted.handle.session;
                let Some(file) = self.after.owned_by(id) else {
                    return wrong("the session owns nothing");
                };
                let session = self.after.sessions.get(&id);
                let fresh = session.is_some_and(|session| {
                    session.phase() == Phase::Active
                        && last_heard(session) == self.lease_ms
                        && !self.before.sessions.contains_key(&id)
                });
                if !fresh || file.path != append.path.key {
                    return wrong("the session is not fresh or is elsewhere");
                }
                if usize::try_from(admitted.prefix_length) != Ok(file.content.len()) {
                    return wrong("the prefix is not what the file has");
                }
                let others = self.before.at(&append.path.key);
                if others.is_some_and(|file| file.row.append_owner.is_some()) && !admitted.created {
                    return wrong("the file had an owner");
                }
            }
            (Command::Publish(publish), _) => {
                let id = session_of(&publish.target);
                let mine = |file: &&SeenFile| {
                    file.row.append_owner == Some(id) || file.row.hsync_session == Some(id)
                };
                let holds = self.after.files.values().any(|file| mine(&file));
                let ends = publish.kind() != PublishKind::Hsync;
                let phase = self.after.sessions.get(&id).map(SeenSession::phase);
                if ends && (holds || phase.is_some_and(|phase| phase != Phase::Invalidated)) {
                    return wrong("the session goes on");
                }
                let before = self.before.owned_by(id).map(|file| file.row.object_id);
                let after = before.and_then(|id| self.after.files.get(&id));
                if after.is_some_and(|file| file.row.size != publish.size) {
                    return wrong("the length is not what was published");
                }
                if before.is_some() && after.is_none() {
                    return wrong("the file is gone");
                }
            }
            (Command::StartRecovery(_), Some(Answer::Fenced(fenced))) => {
                let session = self.after.sessions.get(&fenced.handle.session);
                if !session.is_some_and(|session| session.phase() == Phase::Recovering) {
                    return wrong("the session is not fenced");
                }
            }
            (Command::RenewLeases(renew), Some(Answer::Renewed(renewed))) => {
                for (handle, renewal) in renew.sessions.iter().zip(&renewed.results) {
                    self.renewed(handle, renewal.refused.is_none())?;
                }
            }
            (Command::Delete(delete), _) if self.after.at(&delete.path.key).is_some() => {
                return wrong("the file is still there");
            }
            (Command::Delete(_), _) => {
                for (id, old) in &self.before.files {
                    let gone = !self.after.files.contains_key(id);
                    for session in [old.row.append_owner, old.row.hsync_session]
                        .into_iter()
                        .flatten()
                    {
                        let live = self
                            .after
                            .sessions
                            .get(&session)
                            .is_some_and(|seen| seen.phase() != Phase::Invalidated);
                        let reached = self
                            .after
                            .sessions
                            .get(&session)
                            .is_some_and(|seen| self.after.reaches(&seen.row));
                        if gone && live && reached {
                            return wrong("a session of the file lives on");
                        }
                    }
                }
            }
            (Command::Cleanup(_), _) => {
                for (id, old) in &self.before.sessions {
                    let live = self
                        .after
                        .sessions
                        .get(id)
                        .is_some_and(|seen| seen.phase() != Phase::Invalidated);
                    // What is below a deleted directory waits for the sweep.
                    let age = self.lease_ms.saturating_sub(last_heard(old)) / STEP_MS;
                    if live && age >= HARD {
                        return wrong("a session whose time is over lives on");
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn renewed(&self, handle: &Handle, accepted: bool) -> Result<(), Violation> {
        let session = self
            .before
            .sessions
            .get(&handle.session)
            .filter(|seen| seen.is_append());
        let live = session
            .is_some_and(|seen| seen.phase() == Phase::Active && seen.row.file == handle.file);
        if accepted && !live {
            return Err("I4: a session was renewed that is not live".into());
        }
        let owned = self.before.owned_by(handle.session).is_some();
        if !accepted && live && owned {
            return Err("a live session was not renewed".into());
        }
        if accepted {
            let after = self.after.sessions.get(&handle.session);
            let at = after.and_then(|seen| seen.renewed);
            if at.map(|at| at.last_renewed_ms) != Some(self.lease_ms) {
                return Err("a renewal did not count".into());
            }
        }
        Ok(())
    }
}

fn created(session: &SeenSession) -> bool {
    session
        .row
        .append
        .as_ref()
        .is_some_and(|append| append.created)
}

fn session_of(target: &Target) -> u64 {
    target
        .handle
        .map_or(target.session, |handle| handle.session)
}

/// No unit twice, none missing: each session's units stand together, from its first on.
fn whole(content: &[Unit]) -> Result<(), Violation> {
    let mut done = BTreeSet::new();
    let mut last: Option<Unit> = None;
    for (session, number) in content {
        let follows = match last {
            Some((before, at)) if before == *session => *number == at + 1,
            _ => *number == 0 && done.insert(*session),
        };
        if !follows {
            return Err(format!("{content:?} has a unit twice or a hole"));
        }
        last = Some((*session, *number));
    }
    Ok(())
}
