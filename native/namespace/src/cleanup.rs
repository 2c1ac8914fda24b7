//! Ending of sessions that nobody ends: invalidated ones, and those whose time is over. Proposed by the leader's duty; each session is
//! looked at again here, because time has passed since the duty looked.
//!
//! Nothing published is taken back: of an expired session what it published stays, and only what it was given and never published goes to
//! reclamation. Every publication is in the rows, so that nothing synced is lost without asking a datanode.

use crate::command::{Cleanup, Handle, Limits};
use crate::context::{Context, Ruled, answer, refuse};
use crate::key::{self, Place};
use crate::record::{Ended, OpenRow};
use crate::reply::{Answer, Cleaned, Phase, RefusalKind, Reply};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::session::{self, Session};
use crate::table;

/// Sessions in one command.
pub(crate) const MAX_SESSIONS: usize = 256;
/// Allocations that one command takes from its sessions.
const MAX_ALLOCATIONS: usize = 4_096;

/// What is to be done about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing yet.
    Nothing,
    /// An ordinary writer of an older version: its time begins now.
    Begin,
    /// Its time is over, or its bucket is gone.
    End(RefusalKind),
    /// It is over: its allocations go.
    Release,
    /// The retention is over: nobody needs to be told any more.
    Forget,
}

/// What is due about a session at lease time `lease_ms`.
pub(crate) fn due(
    rows: &dyn Rows,
    id: u64,
    open: &OpenRow,
    lease_ms: u64,
    limits: &Limits,
) -> Result<Due, RowsError> {
    let past = |since: u64, limit: u64| lease_ms >= since.saturating_add(limit);
    if session::phase(open) == Phase::Invalidated {
        return Ok(match open.ended {
            Some(ended) if !ended.released => Due::Release,
            Some(ended)
                if holds!(
                    CleanupRetention,
                    past(ended.lease_ms, limits.dedupe_retention_ms)
                ) =>
            {
                Due::Forget
            }
            Some(_) => Due::Nothing,
            None => Due::Release,
        });
    }
    let place = Place::from(open.place.clone());
    if open.append.is_some() {
        let renewal = table::renewal(rows, place.bucket, id)?.unwrap_or_default();
        if holds!(
            CleanupLease,
            past(renewal.last_renewed_ms, limits.hard_limit_ms)
        ) {
            return Ok(Due::End(RefusalKind::Fenced));
        }
    } else {
        let hsynced = open
            .ordinary
            .as_ref()
            .is_some_and(|ordinary| ordinary.published.is_some());
        let limit = if hsynced {
            limits.hard_limit_ms
        } else {
            limits.ordinary_expiry_ms()
        };
        match open.heard_ms {
            None => return Ok(Due::Begin),
            Some(heard) if holds!(CleanupHeard, past(heard, limit)) => {
                return Ok(Due::End(RefusalKind::Invalidated));
            }
            Some(_) => {}
        }
    }
    // Below a deleted directory the sweep ends sessions; a deleted bucket has none.
    if table::bucket_by_id(rows, place.bucket)?.is_some() {
        Ok(Due::Nothing)
    } else {
        Ok(Due::End(RefusalKind::Invalidated))
    }
}

/// Does what is due about the named sessions, as much as one command may.
pub(crate) fn cleanup(ctx: &mut Context<'_, '_>, command: &Cleanup) -> Ruled<Reply> {
    if command.sessions.len() > MAX_SESSIONS {
        return refuse(
            RefusalKind::InvalidRequest,
            format!("at most {MAX_SESSIONS} sessions are cleaned up at once"),
        );
    }
    let mut cleaned = Cleaned::default();
    let mut left = MAX_ALLOCATIONS;
    for handle in &command.sessions {
        clean(ctx, handle, &mut left, &mut cleaned)?;
    }
    answer(Answer::Cleaned(cleaned))
}

fn clean(
    ctx: &mut Context<'_, '_>,
    handle: &Handle,
    left: &mut usize,
    cleaned: &mut Cleaned,
) -> Ruled<()> {
    let id = handle.session;
    let Some(mut open) = table::open(ctx.txn, handle.bucket, id)? else {
        return Ok(());
    };
    if guard!(CleanupSameFile, open.file != handle.file) {
        return Ok(());
    }
    let place = Place::from(open.place.clone());
    match due(ctx.txn, id, &open, ctx.lease_ms, &ctx.limits)? {
        Due::Nothing => return Ok(()),
        Due::Begin => {
            open.heard_ms = Some(ctx.lease_ms);
            table::put_open(ctx.txn, id, &open);
            return Ok(());
        }
        Due::Forget => {
            ctx.txn.remove(Keyspace::Open, key::two(place.bucket, id));
            cleaned.sessions += 1;
            return Ok(());
        }
        Due::End(told) => {
            let session = Session { id, open, place };
            end(ctx, &session, told)?;
        }
        Due::Release => {}
    }
    release(ctx, handle, left, cleaned)
}

/// Ends a session whose time is over: its file is closed at what is published.
fn end(ctx: &mut Context<'_, '_>, session: &Session, told: RefusalKind) -> Ruled<()> {
    if let Some(mut file) = table::file(ctx.txn, &session.place)? {
        let (owner, hsync) = (file.append_owner, file.hsync_session);
        file.append_owner = owner.filter(|owner| *owner != session.id);
        file.hsync_session = hsync.filter(|hsync| *hsync != session.id);
        if (file.append_owner, file.hsync_session) != (owner, hsync) {
            table::put_file(ctx.txn, &session.place, &file);
        }
    }
    ctx.end_later(session, told)
}

fn release(
    ctx: &mut Context<'_, '_>,
    handle: &Handle,
    left: &mut usize,
    cleaned: &mut Cleaned,
) -> Ruled<()> {
    let Some(mut open) = table::open(ctx.txn, handle.bucket, handle.session)? else {
        return Ok(());
    };
    if *left == 0 {
        cleaned.more = true;
        return Ok(());
    }
    let session = Session {
        id: handle.session,
        place: Place::from(open.place.clone()),
        open: open.clone(),
    };
    let (taken, freed) = ctx.release(&session, *left)?;
    cleaned.blocks += u64::try_from(freed).unwrap_or(u64::MAX);
    let all = taken < *left;
    *left -= taken;
    if !all {
        cleaned.more = true;
        return Ok(());
    }
    let told = open
        .ended
        .map_or(RefusalKind::Invalidated, |ended| ended.told());
    open.ended = Some(Ended {
        told: told as i32,
        lease_ms: ctx.lease_ms,
        released: true,
    });
    table::put_open(ctx.txn, handle.session, &open);
    cleaned.sessions += 1;
    Ok(())
}

#[cfg(test)]
mod tests;
