//! The table of decided answers: a retry gets the first answer, after failover and restart too.
//!
//! An entry is bound to its command and its user. A caller that tells what it has got answers for frees those entries, and a later retry
//! below that mark is told that the outcome is unknown; other entries fall out after the retention of lease time, a bounded number with
//! each log entry.

use crate::command::{Command, Invocation, Limits, Request};
use crate::key;
use crate::record::{DedupeRow, MarkRow};
use crate::reply::{Decided, Refusal, RefusalKind};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::table;
use crate::txn::Txn;
use bytes::Bytes;
use prost::Message;

/// Entries that one request may free below its mark.
const FREED_PER_REQUEST: usize = 64;
/// Entries that one log entry may expire, beside two for each of its requests.
const EXPIRED_PER_ENTRY: usize = 64;
/// Lease time between two looks for answers to expire, ms.
const EXPIRY_STEP_MS: u64 = 1_000;
/// Bytes of a client's id at most.
const MAX_CLIENT_BYTES: usize = 64;

/// The number of entries, counted while an entry of the log is applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count {
    now: u64,
    stored: u64,
}

/// What the table says to a request.
#[derive(Debug)]
pub(crate) enum Known {
    /// Nothing; decide it, and remember the answer if there is a key.
    New(Option<Bytes>),
    /// Answer this and decide nothing.
    Answer(Decided),
}

impl Count {
    /// The count as the rows have it.
    pub(crate) fn read(rows: &dyn Rows) -> Result<Count, RowsError> {
        let stored = table::number(rows, key::DEDUPE_COUNT)?;
        Ok(Count {
            now: stored,
            stored,
        })
    }

    /// Writes the count if it changed.
    pub(crate) fn write(self, txn: &mut Txn<'_>) {
        if self.now != self.stored {
            txn.put(Keyspace::Meta, key::DEDUPE_COUNT, key::one(self.now));
        }
    }

    fn add(&mut self) {
        self.now += 1;
    }

    fn free(&mut self) -> Result<(), RowsError> {
        self.now = self.now.checked_sub(1).ok_or_else(|| {
            table::corrupt(
                Keyspace::Meta,
                "there are more dedupe entries than were counted",
            )
        })?;
        Ok(())
    }
}

/// Looks a request up before it is decided, and moves its client's mark.
pub(crate) fn look_up(
    txn: &mut Txn<'_>,
    count: &mut Count,
    request: &Request,
    command: &Command,
    lease_ms: u64,
    limits: &Limits,
) -> Result<Known, RowsError> {
    let Some(invocation) = &request.invocation else {
        return Ok(Known::New(None));
    };
    if invocation.client.is_empty() || invocation.client.len() > MAX_CLIENT_BYTES {
        let why = format!(
            "a client's id has 1 to {MAX_CLIENT_BYTES} bytes, not {}",
            invocation.client.len()
        );
        return Ok(Known::Answer(Err(Refusal::new(
            RefusalKind::InvalidRequest,
            why,
        ))));
    }
    let below = move_mark(txn, count, invocation, request.answered_below, lease_ms)?;
    if matches!(command, Command::RenewLeases(_)) {
        return Ok(Known::New(None));
    }
    if guard!(AnswerForgotten, invocation.sequence < below) {
        let why = format!(
            "the answer of call {} was given and is not known any more",
            invocation.sequence
        );
        return Ok(Known::Answer(Err(Refusal::new(
            RefusalKind::Uncertain,
            why,
        ))));
    }
    let at = key::invocation(invocation);
    if let Some(known) = table::read::<DedupeRow>(txn, Keyspace::Dedupe, &at)?
        && guard!(AnswerKept)
    {
        if guard!(AnswerBound, known.digest != digest(&request.user, command)) {
            let why = format!(
                "call {} was another command or another user's",
                invocation.sequence
            );
            return Ok(Known::Answer(Err(Refusal::new(
                RefusalKind::InvalidRequest,
                why,
            ))));
        }
        return Ok(Known::Answer(match (known.reply, known.refusal) {
            (Some(reply), None) => Ok(reply),
            (None, Some(refusal)) => Err(refusal),
            _ => {
                return Err(table::corrupt(
                    Keyspace::Dedupe,
                    "an entry without an answer",
                ));
            }
        }));
    }
    if count.now >= limits.dedupe_max && waits_for_room(command) {
        let why = "the table of answers is full; come again later";
        return Ok(Known::Answer(Err(Refusal::new(
            RefusalKind::RetryLater,
            why,
        ))));
    }
    Ok(Known::New(Some(at.into())))
}

/// Remembers an answer.
pub(crate) fn remember(
    txn: &mut Txn<'_>,
    count: &mut Count,
    at: Bytes,
    user: &str,
    command: &Command,
    outcome: &Decided,
    lease_ms: u64,
) {
    if outcome
        .as_ref()
        .is_err_and(|refusal| refusal.kind() == RefusalKind::RetryLater)
    {
        return;
    }
    let row = DedupeRow {
        digest: digest(user, command),
        reply: outcome.as_ref().ok().cloned(),
        refusal: outcome.as_ref().err().cloned(),
        lease_ms,
    };
    txn.put(
        Keyspace::DedupeOrder,
        key::expiry(lease_ms, &at),
        Bytes::new(),
    );
    txn.put(Keyspace::Dedupe, at, row.encode_to_vec());
    count.add();
}

/// Takes out what is older than the retention.
pub(crate) fn expire(
    txn: &mut Txn<'_>,
    count: &mut Count,
    requests: usize,
    lease_ms: u64,
    limits: &Limits,
) -> Result<(), RowsError> {
    let Some(before) = lease_ms.checked_sub(limits.dedupe_retention_ms) else {
        return Ok(());
    };
    // What went before is passed over: a scan from the start would meet every answer that was ever freed, with each entry.
    let from = table::number(txn, key::DEDUPE_EXPIRED)?;
    if before.saturating_sub(from) < EXPIRY_STEP_MS {
        return Ok(());
    }
    let bound = EXPIRED_PER_ENTRY.saturating_add(requests.saturating_mul(2));
    let due = txn.range(
        Keyspace::DedupeOrder,
        &key::one(from),
        Some(&key::one(before)),
        bound,
    )?;
    let reached = match due.last() {
        Some((last, _)) if due.len() == bound => key::number_at(last, 0).unwrap_or(from),
        _ => before,
    };
    txn.put(Keyspace::Meta, key::DEDUPE_EXPIRED, key::one(reached));
    for (order, _) in due {
        let at = order.slice(8.min(order.len())..);
        txn.remove(Keyspace::DedupeOrder, order);
        if is_mark(&at) {
            if let Some(mark) = table::read::<MarkRow>(txn, Keyspace::Dedupe, &at)? {
                if mark.lease_ms < before {
                    txn.remove(Keyspace::Dedupe, at);
                } else {
                    txn.put(
                        Keyspace::DedupeOrder,
                        key::expiry(mark.lease_ms, &at),
                        Bytes::new(),
                    );
                }
            }
        } else {
            txn.remove(Keyspace::Dedupe, at);
            count.free()?;
        }
    }
    Ok(())
}

/// A client's mark has its key without a sequence.
fn is_mark(at: &[u8]) -> bool {
    at.first()
        .is_some_and(|length| at.len() == usize::from(*length) + 1)
}

/// Moves a client's mark up and frees what is below; answers the mark.
fn move_mark(
    txn: &mut Txn<'_>,
    count: &mut Count,
    invocation: &Invocation,
    told: Option<u64>,
    lease_ms: u64,
) -> Result<u64, RowsError> {
    let at = key::client(&invocation.client);
    let known: Option<MarkRow> = table::read(txn, Keyspace::Dedupe, &at)?;
    let before = known.map_or(0, |mark| mark.below);
    let below = told.unwrap_or(0).max(before);
    if below == 0 {
        return Ok(0);
    }
    if known.is_none() {
        txn.put(
            Keyspace::DedupeOrder,
            key::expiry(lease_ms, &at),
            Bytes::new(),
        );
    }
    let from = known.map_or(0, |mark| mark.freed);
    let first = key::answer(&invocation.client, from);
    let last = key::answer(&invocation.client, below);
    let mut removed = 0;
    let mut freed = below;
    for (entry, value) in txn.range(Keyspace::Dedupe, &first, Some(&last), FREED_PER_REQUEST)? {
        let row: DedupeRow = table::decode(Keyspace::Dedupe, &value)?;
        removed += 1;
        if removed == FREED_PER_REQUEST {
            freed = key::sequence(&entry).map_or(from, |sequence| sequence + 1);
        }
        txn.remove(Keyspace::DedupeOrder, key::expiry(row.lease_ms, &entry));
        txn.remove(Keyspace::Dedupe, entry);
        count.free()?;
    }
    let mark = MarkRow {
        below,
        lease_ms,
        freed,
    };
    if known != Some(mark) {
        table::write(txn, Keyspace::Dedupe, at, &mark);
    }
    Ok(below)
}

/// Admissions and namespace commands wait for room in the table; work of writers that are in never does.
fn waits_for_room(command: &Command) -> bool {
    !matches!(
        command,
        Command::AllocateBlock(_)
            | Command::Publish(_)
            | Command::RenewLeases(_)
            | Command::RegisterHolder(_)
            | Command::Configure(_)
            | Command::StartRecovery(_)
            | Command::Cleanup(_)
            | Command::Sweep(_)
            | Command::Finalize(_)
    )
}

/// What binds an invocation to its command and user. Holders are the leader's choice and differ between tries, so they do not count.
fn digest(user: &str, command: &Command) -> Bytes {
    let mut command = command.clone();
    match &mut command {
        Command::OpenKey(open) => open.holders.clear(),
        Command::AppendFile(append) => append.holders.clear(),
        Command::AllocateBlock(allocate) => allocate.holder = 0,
        _ => {}
    }
    let bound = Request {
        user: user.to_owned(),
        command: Some(command),
        ..Request::default()
    };
    Bytes::copy_from_slice(&fnv128(&bound.encode_to_vec()).to_be_bytes())
}

/// FNV-1a with 128 bits: the same on every machine and in every version. It tells mistakes apart, not attackers.
fn fnv128(bytes: &[u8]) -> u128 {
    bytes.iter().fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d,
        |hash: u128, byte| {
            (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        },
    )
}

#[cfg(test)]
mod tests;
