//! When sessions are renewed and how many at a time.
//!
//! Sessions that come due near each other go together, so that many sessions cost few requests; several requests are under way at
//! once, so that a slow way to the server does not add up.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use append_wire::om::{AppendCode, RenewAppendLeasesRequest, Type};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{Inner, Lease, note};
use crate::error::ErrorKind;
use crate::om::Effect;
use crate::status::from_wire;

/// Sessions in one request to a server that names no bound.
const DEFAULT_BATCH: usize = 100;

/// Requests under way at once.
const AT_ONCE: usize = 8;

/// Of a session's period: how much sooner than due it is renewed when others are.
const EARLY_PARTS: u32 = 4;

/// Runs as long as there are sessions, and the file system that they are of.
pub(super) async fn renew(renewer: Weak<Inner>, changed: Arc<Notify>) {
    while let Some(inner) = renewer.upgrade() {
        let now = Instant::now();
        let (due, next) = {
            let mut state = inner.state();
            if state.leases.is_empty() {
                state.running = false;
                state.next = None;
                return;
            }
            let next = state.leases.values().map(|lease| lease.state().due).min();
            state.next = next;
            let ready = next.is_some_and(|next| next <= now);
            let due: Vec<_> = if ready {
                let due =
                    |lease: &&Arc<Lease>| lease.state().due <= now + lease.period / EARLY_PARTS;
                state.leases.values().filter(due).cloned().collect()
            } else {
                Vec::new()
            };
            (due, next)
        };
        if due.is_empty() {
            drop(inner);
            let wake = next.unwrap_or(now);
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                () = changed.notified() => {}
            }
            continue;
        }
        renew_all(&inner, &due).await;
    }
}

async fn renew_all(inner: &Arc<Inner>, leases: &[Arc<Lease>]) {
    let batch = inner
        .om
        .features()
        .append
        .as_ref()
        .and_then(|feature| usize::try_from(feature.max_renew_batch()).ok())
        .filter(|batch| *batch > 0)
        .unwrap_or(DEFAULT_BATCH);
    // Nothing is waited for longer than until the soonest must be tried again.
    let period = leases.iter().map(|lease| lease.period).min();
    let deadline = Instant::now() + period.unwrap_or(Duration::ZERO);
    let mut under_way = JoinSet::new();
    for leases in leases.chunks(batch) {
        if under_way.len() >= AT_ONCE {
            under_way.join_next().await;
        }
        let (inner, leases) = (Arc::clone(inner), leases.to_vec());
        under_way.spawn(async move { renew_batch(&inner, &leases, deadline).await });
    }
    while under_way.join_next().await.is_some() {}
}

/// Renews sessions in one request, and notes what came of it for each.
pub(super) async fn renew_batch(inner: &Inner, leases: &[Arc<Lease>], deadline: Instant) {
    let om = &inner.om;
    let mut request = om.request(Type::RenewAppendLeases);
    request.renew_append_leases_request = Some(Box::new(RenewAppendLeasesRequest {
        sessions: leases
            .iter()
            .map(|lease| from_wire::to_handle(lease.handle))
            .collect(),
    }));
    let sent = Instant::now();
    let answer = om.call_until(request, Effect::Change, deadline).await;
    let failed = answer.is_err();
    match answer {
        Ok(response) => {
            if let Some(results) = response.renew_append_leases_response {
                note(leases, &results);
                let over = leases
                    .iter()
                    .zip(&results.results)
                    .filter(|(_, result)| result.code() != AppendCode::Ok)
                    .count();
                tracing::trace!(sessions = leases.len(), over, "renewed");
            }
        }
        Err(error) if error.kind() == ErrorKind::Closed => {
            let mut state = inner.state();
            for lease in leases {
                lease.end(ErrorKind::Closed, "the file system is closed");
                state.leases.remove(&lease.handle.session);
            }
        }
        Err(error) => {
            tracing::warn!(sessions = leases.len(), %error, "leases could not be renewed");
        }
    }
    for lease in leases {
        lease.tried(sent, failed);
        // One that is over is not asked about again; its stream says so.
        if lease.check().is_err() {
            inner.state().leases.remove(&lease.handle.session);
        }
    }
}
