//! One log entry in, outcomes and row changes out.
//!
//! The machine keeps no rows: it reads through [`Rows`] and gives [`Change`]s, which its caller applies as one batch before the next
//! entry. It may not ask a clock.

use crate::command::{Command, Entry, LAYOUT_APPEND, Limits, RULES, Request};
use crate::context::{Context, Ruled, Stop};
use crate::dedupe::{self, Count, Known};
use crate::ids::{COMMAND_BITS, IdSource, MAX_EPOCH};
use crate::reply::{Decided, Refusal, RefusalKind, Reply};
use crate::rows::{Change, Keyspace, Rows, RowsError};
use crate::txn::Txn;
use crate::{
    admin, append, block, bounds, bucket, cleanup, delete, directory, file, key, lease, publish,
    recovery, rename, sweep, table, times, volume,
};

/// How far the history has been applied. The row `Meta/"position"`, written with every entry.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Position {
    /// Term of the last applied entry.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// Log index of the last applied entry.
    #[prost(uint64, tag = "2")]
    pub index: u64,
    /// Commands applied so far; contiguous, counted by `apply`.
    #[prost(uint64, tag = "3")]
    pub command: u64,
    /// Lease time, ms. Never goes back.
    #[prost(uint64, tag = "4")]
    pub lease_ms: u64,
    /// Raised by a restore that lost part of the log, so that no id is issued twice.
    #[prost(uint32, tag = "5")]
    pub epoch: u32,
}

/// What one entry did.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// One per request, in the order of the requests.
    pub outcomes: Vec<Decided>,
    /// The rows that changed, the position row among them; at most one change per key.
    pub changes: Vec<Change>,
    /// The position after the entry.
    pub position: Position,
}

/// The deterministic state machine. Not shared between threads: one thread applies.
#[derive(Debug, Clone)]
pub struct Machine {
    position: Position,
    limits: Limits,
    layout: u32,
}

impl Machine {
    /// A machine that stands where the rows stand.
    ///
    /// # Errors
    /// [`RowsError`] when the rows cannot be read, or have a layout that this version does not know.
    pub fn open(rows: &dyn Rows) -> Result<Machine, RowsError> {
        let layout = table::layout(rows)?;
        if layout > LAYOUT_APPEND {
            return Err(RowsError::NewerLayout {
                found: layout,
                known: LAYOUT_APPEND,
            });
        }
        Ok(Machine {
            position: table::position(rows)?,
            limits: table::limits(rows)?,
            layout,
        })
    }

    /// The position after the last entry.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The finalized layout; 0 before the first finalization.
    #[must_use]
    pub fn layout(&self) -> u32 {
        self.layout
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// From the next entry on, ids are of `epoch`, if that is a later one: a part of the history was lost, and what it gave out must not be
    /// given out again.
    pub fn raise_epoch(&mut self, epoch: u32) {
        self.position.epoch = self.position.epoch.max(epoch);
    }

    /// Applies one entry to `rows` as they stand after the entry before it. Changes nothing in place: the caller applies the changes.
    ///
    /// # Errors
    /// [`RowsError`] when the rows cannot be read, the entry was applied before, it holds a command of a newer version, or such a version
    /// decided it by rules of its own ([`RowsError::NewerRules`]); the machine then stands where it stood.
    pub fn apply(
        &mut self,
        rows: &dyn Rows,
        term: u64,
        index: u64,
        entry: &Entry,
    ) -> Result<Applied, RowsError> {
        if index <= self.position.index {
            return Err(table::corrupt(
                Keyspace::Meta,
                format!("entry {index} comes after entry {}", self.position.index),
            ));
        }
        if entry.stamp.rules > RULES {
            return Err(RowsError::NewerRules {
                found: entry.stamp.rules,
                known: RULES,
            });
        }
        let mut txn = Txn::new(rows);
        let mut count = Count::read(rows)?;
        let mut limits = self.limits;
        let mut layout = self.layout;
        let mut position = Position {
            term,
            index,
            lease_ms: self.position.lease_ms.max(entry.stamp.lease_ms),
            ..self.position
        };
        dedupe::expire(
            &mut txn,
            &mut count,
            entry.requests.len(),
            position.lease_ms,
            &limits,
        )?;
        let mut outcomes = Vec::with_capacity(entry.requests.len());
        for request in &entry.requests {
            position.command += 1;
            let step = Step {
                position,
                wall_ms: entry.stamp.wall_ms,
                rules: entry.stamp.rules,
                limits,
                layout,
            };
            outcomes.push(step.request(&mut txn, &mut count, request)?);
            match request.command {
                Some(Command::Configure(_)) => limits = table::limits(&txn)?,
                Some(Command::Finalize(_)) => layout = table::layout(&txn)?,
                _ => {}
            }
        }
        count.write(&mut txn);
        table::write(&mut txn, Keyspace::Meta, key::POSITION.to_vec(), &position);
        self.position = position;
        self.limits = limits;
        self.layout = layout;
        Ok(Applied {
            outcomes,
            changes: txn.into_changes(),
            position,
        })
    }
}

/// What the commands of one entry share, and the number of the one at work.
struct Step {
    position: Position,
    wall_ms: u64,
    rules: u32,
    limits: Limits,
    layout: u32,
}

impl Step {
    fn request(
        &self,
        txn: &mut Txn<'_>,
        count: &mut Count,
        request: &Request,
    ) -> Result<Decided, RowsError> {
        let Some(command) = &request.command else {
            return Err(table::corrupt(
                Keyspace::Meta,
                "the log holds a command that this version does not know",
            ));
        };
        if guard!(UserNamed, request.user.is_empty()) {
            return Ok(Err(Refusal::new(
                RefusalKind::PermissionDenied,
                "a command needs a user",
            )));
        }
        let lease_ms = self.position.lease_ms;
        let remember = match dedupe::look_up(txn, count, request, command, lease_ms, &self.limits)?
        {
            Known::Answer(decided) => return Ok(decided),
            Known::New(at) => at,
        };
        let outcome = self.decide(txn, request, command)?;
        if let Some(at) = remember {
            dedupe::remember(txn, count, at, &request.user, command, &outcome, lease_ms);
        }
        Ok(outcome)
    }

    /// Decides one command; a refusal takes back what it wrote.
    fn decide(
        &self,
        txn: &mut Txn<'_>,
        request: &Request,
        command: &Command,
    ) -> Result<Decided, RowsError> {
        let Some(epoch) = u8::try_from(self.position.epoch)
            .ok()
            .filter(|epoch| *epoch <= MAX_EPOCH)
        else {
            return Err(table::corrupt(
                Keyspace::Meta,
                "the epoch does not fit an id",
            ));
        };
        if self.position.command >> COMMAND_BITS != 0 {
            return Err(table::corrupt(
                Keyspace::Meta,
                "the command numbers of this epoch are used up",
            ));
        }
        let savepoint = txn.savepoint();
        let mut ctx = Context {
            txn,
            command: self.position.command,
            ids: IdSource::new(epoch, self.position.command),
            lease_ms: self.position.lease_ms,
            wall_ms: self.wall_ms,
            user: &request.user,
            invocation: request.invocation.as_ref(),
            limits: self.limits,
            layout: self.layout,
            rules: self.rules,
            deletions: 0,
        };
        match rule(&mut ctx, command) {
            Ok(reply) => Ok(Ok(reply)),
            Err(Stop::Refused(refusal)) => {
                if guard!(RefusalTakesBack) {
                    txn.rollback(savepoint);
                }
                Ok(Err(refusal))
            }
            Err(Stop::Rows(error)) => Err(error),
        }
    }
}

/// The rule of each command.
fn rule(ctx: &mut Context<'_, '_>, command: &Command) -> Ruled<Reply> {
    bounds::check(command, &ctx.limits)?;
    match command {
        Command::CreateVolume(command) => volume::create(ctx, command),
        Command::SetVolume(command) => volume::set(ctx, command),
        Command::DeleteVolume(command) => volume::delete(ctx, command),
        Command::CreateBucket(command) => bucket::create(ctx, command),
        Command::SetBucket(command) => bucket::set(ctx, command),
        Command::DeleteBucket(command) => bucket::delete(ctx, command),
        Command::CreateDirectory(command) => directory::create(ctx, command),
        Command::OpenKey(command) => file::open(ctx, command),
        Command::AllocateBlock(command) => block::allocate(ctx, command),
        Command::Publish(command) => publish::publish(ctx, command),
        Command::AppendFile(command) => append::append(ctx, command),
        Command::RenewLeases(command) => lease::renew(ctx, command),
        Command::Rename(command) => rename::rename(ctx, command),
        Command::Delete(command) => delete::delete(ctx, command),
        Command::DeleteKeys(command) => delete::delete_keys(ctx, command),
        Command::SetTimes(command) => times::set(ctx, command),
        Command::RegisterHolder(command) => admin::register_holder(ctx, command),
        Command::Configure(command) => admin::configure(ctx, command),
        Command::StartRecovery(command) => recovery::start(ctx, command),
        Command::RenameKeys(command) => rename::rename_keys(ctx, command),
        Command::Cleanup(command) => cleanup::cleanup(ctx, command),
        Command::Sweep(command) => sweep::sweep(ctx, command),
        Command::Finalize(command) => admin::finalize(ctx, command),
    }
}

#[cfg(test)]
mod tests;
