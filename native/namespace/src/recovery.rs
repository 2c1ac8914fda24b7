//! Recovery: fences a writer whose time is over, so that a helper may settle and publish what it left.
//!
//! The completion is a publication of kind recovery ([`crate::publish`]). Nothing here talks to a datanode.

use crate::bucket;
use crate::command::StartRecovery;
use crate::context::{Context, Ruled, answer, refuse};
use crate::name;
use crate::reply::{Answer, AppendStatus, Fenced, Phase, Refusal, RefusalKind, Reply};
use crate::resolve::{self, At};
use crate::session::{self, Session};
use crate::table;

/// Fences the writer of the file at a path; a recovery that runs already is joined. An append session may be fenced when its lease is
/// over by the applied renewals, at once by the client that owns it or by force. An ordinary writer that has hsynced has no lease: the
/// soft limit counts from when it was last heard of.
pub(crate) fn start(ctx: &mut Context<'_, '_>, command: &StartRecovery) -> Ruled<Reply> {
    let path = &command.path;
    let row = bucket::get(ctx.txn, &path.volume, &path.bucket)??;
    let text = name::key(bucket::layout(&row), &path.key)?.text;
    let (place, file) = match resolve::locate(ctx.txn, &row, &text)? {
        At::Root | At::Directory(_) => {
            return refuse(RefusalKind::NotAFile, format!("{path} is a directory"));
        }
        At::Missing(_) | At::BelowFile => {
            return refuse(RefusalKind::KeyNotFound, format!("{path} is not there"));
        }
        At::File(place, file) => (place, file),
    };
    let writer = match session::owner(ctx.txn, &place, &file)? {
        Some(owner) => Some(owner),
        None => session::hsynced(ctx.txn, &place, &file)?,
    };
    let Some(mut session) = writer else {
        return refuse(
            RefusalKind::AlreadyClosed,
            format!("{path} is closed: there is nothing to recover"),
        );
    };
    let status = session::status(
        ctx.txn,
        session.id,
        &session.open,
        ctx.lease_ms,
        &ctx.limits,
    )?;
    let append = session.open.append.is_some();
    let joined = session::phase(&session.open) == Phase::Recovering;
    if guard!(RecoverCapable, append && !command.append_only) {
        return Err(left_alone(status, joined, &path.to_string()).into());
    }
    if !joined {
        let may = status.remaining_ms == 0 || command.force || is_owner(ctx, &session);
        if guard!(RecoverEligible, !may) {
            return Err(too_early(status, &path.to_string()).into());
        }
        session.open.phase = Phase::Recovering as i32;
        table::put_open(ctx.txn, session.id, &session.open);
    }
    answer(Answer::Fenced(Fenced {
        handle: session.open.handle(session.id),
        append,
        joined,
    }))
}

/// Does the client that opened the session ask? Its own lost stream must not lock it out.
fn is_owner(ctx: &Context<'_, '_>, session: &Session) -> bool {
    let opened = session.open.invocation.as_ref();
    session.open.user == ctx.user
        && opened
            .zip(ctx.invocation)
            .is_some_and(|(opened, asks)| opened.client == asks.client)
}

/// A caller that could not finish the recovery of an append session changes nothing (wire H2).
fn left_alone(status: AppendStatus, recovering: bool, what: &str) -> Refusal {
    let over = status.remaining_ms == 0;
    let conflict = session::conflict(status, what);
    if recovering || !over {
        return conflict;
    }
    Refusal {
        kind: RefusalKind::Recovering as i32,
        detail: format!("{what} waits for a client that can recover append sessions"),
        ..conflict
    }
}

fn too_early(status: AppendStatus, what: &str) -> Refusal {
    Refusal {
        kind: RefusalKind::NotEligible as i32,
        detail: format!(
            "{what} is held by {} and may be recovered in {} ms",
            status.owner, status.remaining_ms
        ),
        conflict: Some(Box::new(status)),
    }
}

#[cfg(test)]
mod tests;
