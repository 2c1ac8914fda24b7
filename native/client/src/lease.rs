//! The renewer: keeps the leases of all open sessions of a file system, in batches, whether or not data flows.
//!
//! A renewal that the server refuses marks its session and no other, and the stream's next call fails. A server that cannot be
//! reached ends nobody: its lease clock stands still as well, and it is asked again.
//!
//! *A process that was stopped.* The lease runs on the server's clock, and nobody compares times of two machines. What this side
//! knows is how long it has not heard from the server. Once that comes near the lease, a stream asks before its next step; it
//! never goes on in the belief that nothing happened.

mod batches;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use append_wire::om::{AppendCode, RenewAppendLeasesResponse};
use rand::Rng;
use tokio::sync::Notify;

use crate::Result;
use crate::error::{Error, ErrorKind, table};
use crate::om::OmClient;
use crate::runtime;
use crate::status::SessionHandle;

/// Parts of the soft limit after which a session is renewed.
const RENEWALS_PER_SOFT_LIMIT: u32 = 4;

/// The soft limit of a server that names none.
const DEFAULT_SOFT_LIMIT: Duration = Duration::from_secs(60);

/// No renewal follows another sooner.
const SHORTEST_PERIOD: Duration = Duration::from_millis(50);

/// Of the soft limit, in eighths: having heard nothing for longer, a stream asks before it goes on. The rest is for the way of a
/// request and for clocks that do not run alike.
const TRUSTED_EIGHTHS: u32 = 6;

/// Sessions that ended without the server's word and are remembered, at most.
const MOST_LOST: usize = 10_000;

/// The lease of one session, shared by its stream and the renewer.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) handle: SessionHandle,
    /// Time from one renewal to the next, at most.
    period: Duration,
    /// How long the session is taken for alive without a word from the server.
    trusted: Duration,
    state: Mutex<LeaseState>,
}

#[derive(Debug)]
struct LeaseState {
    ended: Option<(ErrorKind, String)>,
    /// When the last request about this session was sent that was answered, or failed on its way: from then on this process has
    /// been awake.
    awake: Instant,
    /// When it is to be renewed next.
    due: Instant,
    /// Its stream is being closed.
    closing: bool,
}

impl Lease {
    fn new(handle: SessionHandle, period: Duration, soft_limit: Duration) -> Lease {
        let now = Instant::now();
        Lease {
            handle,
            period,
            trusted: soft_limit * TRUSTED_EIGHTHS / 8,
            state: Mutex::new(LeaseState {
                ended: None,
                awake: now,
                due: now + jittered(period),
                closing: false,
            }),
        }
    }

    /// Fails once the session is known to be over.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.state().ended {
            None => Ok(()),
            Some((kind, text)) => {
                Err(Error::new(*kind, text.clone()).with_session(self.handle.session))
            }
        }
    }

    /// The server said that the session is over. The first reason stays.
    pub(crate) fn end(&self, kind: ErrorKind, text: impl Into<String>) {
        self.state()
            .ended
            .get_or_insert_with(|| (kind, text.into()));
    }

    /// The stream writes no more: another append may wait for its end.
    pub(crate) fn closing(&self) {
        self.state().closing = true;
    }

    /// Nothing was heard for so long that the session may be over without this process knowing.
    fn in_doubt(&self) -> bool {
        let state = self.state();
        state.ended.is_none() && state.awake.elapsed() >= self.trusted
    }

    /// A request sent at this time came to an end; the next follows after its period, or sooner after a failure.
    fn tried(&self, sent: Instant, failed: bool) {
        let wait = if failed {
            self.period / RENEWALS_PER_SOFT_LIMIT
        } else {
            jittered(self.period)
        };
        let mut state = self.state();
        state.awake = state.awake.max(sent);
        state.due = Instant::now() + wait;
    }

    fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A period less up to a quarter, so that clients that began together do not renew together.
fn jittered(period: Duration) -> Duration {
    let quarter = u64::try_from((period / 4).as_micros()).unwrap_or(u64::MAX);
    period - Duration::from_micros(rand::rng().random_range(0..=quarter))
}

/// Renews the sessions of one file system.
#[derive(Debug)]
pub(crate) struct Renewer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    om: Arc<OmClient>,
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<u64, Arc<Lease>>,
    /// Sessions of ours whose streams are gone while the server may still hold them.
    lost: HashSet<u64>,
    running: bool,
    /// When the renewer looks next.
    next: Option<Instant>,
}

impl Renewer {
    pub(crate) fn new(om: Arc<OmClient>) -> Renewer {
        Renewer(Arc::new(Inner {
            om,
            state: Mutex::default(),
            changed: Arc::default(),
        }))
    }

    /// Keeps a session from now on.
    pub(crate) fn keep(
        &self,
        handle: SessionHandle,
        soft_limit: Option<Duration>,
    ) -> Result<Arc<Lease>> {
        let runtime = runtime::handle()?;
        let limit = self.soft_limit(soft_limit);
        let lease = Arc::new(Lease::new(handle, self.period(limit), limit));
        let due = lease.state().due;
        let (start, sooner) = {
            let mut state = self.0.state();
            state.leases.insert(handle.session, Arc::clone(&lease));
            let start = !std::mem::replace(&mut state.running, true);
            (start, state.next.is_none_or(|next| due < next))
        };
        if start {
            let changed = Arc::clone(&self.0.changed);
            runtime.spawn(batches::renew(Arc::downgrade(&self.0), changed));
        } else if sooner {
            self.0.changed.notify_one();
        }
        Ok(lease)
    }

    /// Lets a session go: it has ended, or will with the call that follows. The renewer learns of it when it looks next: waking it for each
    /// session that comes and goes would cost more than all else that happens here.
    pub(crate) fn forget(&self, session: u64) {
        self.0.state().leases.remove(&session);
    }

    /// Lets a session go that the server may still hold: nobody here will end it, so the next append may recover it.
    pub(crate) fn lose(&self, session: u64) {
        {
            let mut state = self.0.state();
            if state.lost.len() < MOST_LOST {
                state.lost.insert(session);
            }
        }
        self.forget(session);
    }

    /// Whether a session is one of this file system's streams that is open and not being closed.
    pub(crate) fn holds(&self, session: u64) -> bool {
        let lease = self.0.state().leases.get(&session).cloned();
        lease.is_some_and(|lease| {
            let state = lease.state();
            state.ended.is_none() && !state.closing
        })
    }

    /// Whether a session was ours and nobody here will end it. Asked once: the caller takes it over.
    pub(crate) fn take_lost(&self, session: u64) -> bool {
        self.0.state().lost.remove(&session)
    }

    /// Asks the server about a session of which nothing was heard for nearly as long as its lease, as after the process was
    /// stopped. A server that cannot be asked decides nothing: what the stream sends next will meet it.
    pub(crate) async fn make_sure(&self, lease: &Arc<Lease>) -> Result<()> {
        if lease.in_doubt() {
            let batch = [Arc::clone(lease)];
            // Apart, because each write would carry it along otherwise.
            Box::pin(batches::renew_batch(
                &self.0,
                &batch,
                Instant::now() + lease.period,
            ))
            .await;
        }
        lease.check()
    }

    fn soft_limit(&self, told: Option<Duration>) -> Duration {
        let feature = self.0.om.features().append.as_ref();
        told.or_else(|| {
            feature
                .and_then(|f| f.soft_limit_ms)
                .map(Duration::from_millis)
        })
        .unwrap_or(DEFAULT_SOFT_LIMIT)
    }

    fn period(&self, limit: Duration) -> Duration {
        let feature = self.0.om.features().append.as_ref();
        let suggested = feature
            .and_then(|f| f.suggested_renew_ms)
            .map(Duration::from_millis);
        let quarter = limit / RENEWALS_PER_SOFT_LIMIT;
        suggested
            .map_or(quarter, |suggested| suggested.min(quarter))
            .max(SHORTEST_PERIOD)
    }
}

impl Drop for Renewer {
    fn drop(&mut self) {
        self.0.changed.notify_one();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the sessions that were refused.
fn note(leases: &[Arc<Lease>], response: &RenewAppendLeasesResponse) {
    for (lease, result) in leases.iter().zip(&response.results) {
        let code = result.code();
        let same = result
            .handle
            .as_ref()
            .is_some_and(|handle| handle.session_id() == lease.handle.session);
        if same
            && code != AppendCode::RetryLater
            && let Some(kind) = table::of_code(code)
        {
            tracing::info!(
                session = lease.handle.session,
                code = code.as_str_name(),
                "a session is over"
            );
            lease.end(
                kind,
                format!(
                    "the server ended session {} of file {} ({})",
                    lease.handle.session,
                    lease.handle.file,
                    code.as_str_name()
                ),
            );
        }
    }
}
