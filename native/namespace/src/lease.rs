//! Renewal of leases. A renewal grants nothing but time: no walk to the root, no effect on content.

use crate::command::{Handle, RenewLeases};
use crate::context::{Context, Ruled, answer, refuse};
use crate::key::{self, Place};
use crate::reply::{Answer, Phase, RefusalKind, Renewal, Renewed, Reply};
use crate::rows::Keyspace;
use crate::session;
use crate::table;

/// Renews each session of a bounded batch; a session that cannot be renewed does not keep the others from it.
pub(crate) fn renew(ctx: &mut Context<'_, '_>, command: &RenewLeases) -> Ruled<Reply> {
    let bound = usize::try_from(ctx.limits.max_renew_batch).unwrap_or(usize::MAX);
    if guard!(RenewBound, command.sessions.len() > bound) {
        return refuse(
            RefusalKind::InvalidRequest,
            format!(
                "{} sessions in one renewal, at most {bound} are allowed",
                command.sessions.len()
            ),
        );
    }
    let mut results = Vec::with_capacity(command.sessions.len());
    for handle in &command.sessions {
        results.push(renew_one(ctx, handle)?);
    }
    answer(Answer::Renewed(Renewed { results }))
}

fn renew_one(ctx: &mut Context<'_, '_>, handle: &Handle) -> Ruled<Renewal> {
    let lease = table::renewal(ctx.txn, handle.bucket, handle.session)?;
    let mut renewal = Renewal {
        handle: *handle,
        refused: None,
        last_renewed_ms: lease.map_or(0, |lease| lease.last_renewed_ms),
        renewals: lease.map_or(0, |lease| lease.renewals),
    };
    if let Some(kind) = refusal(ctx, handle)? {
        renewal.refused = Some(kind as i32);
        return Ok(renewal);
    }
    let mut lease = lease.ok_or_else(|| {
        table::corrupt(
            Keyspace::Renewals,
            format!("session {} is active and has no lease", handle.session),
        )
    })?;
    lease.last_renewed_ms = lease.last_renewed_ms.max(ctx.lease_ms);
    lease.renewals += 1;
    table::write(
        ctx.txn,
        Keyspace::Renewals,
        key::two(handle.bucket, handle.session),
        &lease,
    );
    renewal.last_renewed_ms = lease.last_renewed_ms;
    renewal.renewals = lease.renewals;
    Ok(renewal)
}

fn refusal(ctx: &Context<'_, '_>, handle: &Handle) -> Ruled<Option<RefusalKind>> {
    let Some(open) = table::open(ctx.txn, handle.bucket, handle.session)? else {
        return Ok(Some(RefusalKind::SessionUnknown));
    };
    if open.append.is_none() {
        return Ok(Some(RefusalKind::SessionUnknown));
    }
    if guard!(RenewSameFile, open.file != handle.file) {
        return Ok(Some(RefusalKind::IdentityMismatch));
    }
    match session::phase(&open) {
        Phase::Recovering if guard!(RenewFenced) => return Ok(Some(RefusalKind::Fenced)),
        Phase::Invalidated if guard!(RenewInvalidated) => {
            return Ok(Some(session::over(handle.session, &open).kind()));
        }
        Phase::Active | Phase::Recovering | Phase::Invalidated => {}
    }
    let owned = table::file(ctx.txn, &Place::from(open.place))?.is_some_and(|file| {
        file.append_owner == Some(handle.session) && file.object_id == handle.file
    });
    Ok(guard!(RenewOwned, !owned).then_some(RefusalKind::Invalidated))
}

#[cfg(test)]
mod tests;
