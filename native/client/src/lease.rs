//! The renewer: keeps the leases of all open sessions of a file system, in batches, whether or not data flows.
//!
//! A renewal that the server refuses marks its session, and the stream's next call fails. A server that cannot be reached ends
//! nobody: its lease clock stands still as well, and it is asked again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use append_wire::om::{AppendCode, RenewAppendLeasesRequest, RenewAppendLeasesResponse, Type};

use crate::Result;
use crate::error::{Error, ErrorKind, table};
use crate::om::{Effect, OmClient};
use crate::runtime;
use crate::status::{SessionHandle, from_wire};

/// Parts of the soft limit after which a session is renewed.
const RENEWALS_PER_SOFT_LIMIT: u32 = 4;

/// The soft limit of a server that names none.
const DEFAULT_SOFT_LIMIT: Duration = Duration::from_secs(60);

/// Sessions in one request to a server that names no bound.
const DEFAULT_BATCH: usize = 100;

/// No renewal follows another sooner.
const SHORTEST_PERIOD: Duration = Duration::from_millis(50);

/// The lease of one session, shared by its stream and the renewer.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) handle: SessionHandle,
    period: Duration,
    ended: Mutex<Option<(ErrorKind, String)>>,
}

impl Lease {
    /// Fails once the session is known to be over.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.ended() {
            None => Ok(()),
            Some((kind, text)) => {
                Err(Error::new(*kind, text.clone()).with_session(self.handle.session))
            }
        }
    }

    /// The server said that the session is over. The first reason stays.
    pub(crate) fn end(&self, kind: ErrorKind, text: impl Into<String>) {
        self.ended().get_or_insert_with(|| (kind, text.into()));
    }

    fn ended(&self) -> MutexGuard<'_, Option<(ErrorKind, String)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews the sessions of one file system.
#[derive(Debug)]
pub(crate) struct Renewer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    om: Arc<OmClient>,
    state: Mutex<State>,
    changed: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<u64, Arc<Lease>>,
    running: bool,
}

impl Renewer {
    pub(crate) fn new(om: Arc<OmClient>) -> Renewer {
        Renewer(Arc::new(Inner {
            om,
            state: Mutex::default(),
            changed: tokio::sync::Notify::new(),
        }))
    }

    /// Keeps a session from now on.
    pub(crate) fn keep(
        &self,
        handle: SessionHandle,
        soft_limit: Option<Duration>,
    ) -> Result<Arc<Lease>> {
        let runtime = runtime::handle()?;
        let lease = Arc::new(Lease {
            handle,
            period: self.period(soft_limit),
            ended: Mutex::default(),
        });
        let start = {
            let mut state = self.0.state();
            state.leases.insert(handle.session, Arc::clone(&lease));
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            runtime.spawn(renew(Arc::clone(&self.0)));
        } else {
            self.0.changed.notify_one();
        }
        Ok(lease)
    }

    /// Lets a session go.
    pub(crate) fn forget(&self, session: u64) {
        self.0.state().leases.remove(&session);
        self.0.changed.notify_one();
    }

    /// Whether a session is one of this file system's open streams.
    pub(crate) fn holds(&self, session: u64) -> bool {
        self.0.state().leases.contains_key(&session)
    }

    fn period(&self, soft_limit: Option<Duration>) -> Duration {
        let feature = self.0.om.features().append.as_ref();
        let limit = soft_limit
            .or_else(|| {
                feature
                    .and_then(|f| f.soft_limit_ms)
                    .map(Duration::from_millis)
            })
            .unwrap_or(DEFAULT_SOFT_LIMIT);
        let suggested = feature
            .and_then(|f| f.suggested_renew_ms)
            .map(Duration::from_millis);
        let quarter = limit / RENEWALS_PER_SOFT_LIMIT;
        suggested
            .map_or(quarter, |suggested| suggested.min(quarter))
            .max(SHORTEST_PERIOD)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs as long as there are sessions.
async fn renew(inner: Arc<Inner>) {
    let mut last = Instant::now();
    loop {
        let (leases, period) = {
            let mut state = inner.state();
            let period = state.leases.values().map(|lease| lease.period).min();
            let Some(period) = period else {
                state.running = false;
                return;
            };
            (state.leases.values().cloned().collect::<Vec<_>>(), period)
        };
        let next = last + period;
        if Instant::now() < next {
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                () = inner.changed.notified() => {}
            }
            continue;
        }
        last = Instant::now();
        renew_all(&inner, &leases, last + period).await;
    }
}

async fn renew_all(inner: &Inner, leases: &[Arc<Lease>], deadline: Instant) {
    let om = &inner.om;
    let batch = om
        .features()
        .append
        .as_ref()
        .and_then(|feature| usize::try_from(feature.max_renew_batch()).ok())
        .filter(|batch| *batch > 0)
        .unwrap_or(DEFAULT_BATCH);
    for leases in leases.chunks(batch) {
        let mut request = om.request(Type::RenewAppendLeases);
        request.renew_append_leases_request = Some(Box::new(RenewAppendLeasesRequest {
            sessions: leases
                .iter()
                .map(|lease| from_wire::to_handle(lease.handle))
                .collect(),
        }));
        match om.call_until(request, Effect::Change, deadline).await {
            Ok(response) => {
                if let Some(results) = response.renew_append_leases_response {
                    note(leases, &results);
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
                format!("the server ended the session ({})", code.as_str_name()),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_wire::om::renew_append_leases_response::Renewal;

    fn lease(session: u64) -> Arc<Lease> {
        Arc::new(Lease {
            handle: SessionHandle {
                bucket: 1,
                session,
                file: 3,
            },
            period: SHORTEST_PERIOD,
            ended: Mutex::default(),
        })
    }

    #[test]
    fn only_sessions_that_were_refused_end() {
        let leases = [lease(1), lease(2), lease(3), lease(4)];
        let codes = [
            AppendCode::Ok,
            AppendCode::Fenced,
            AppendCode::RetryLater,
            AppendCode::Invalidated,
        ];
        let results = leases.iter().zip(codes).map(|(lease, code)| Renewal {
            handle: Some(from_wire::to_handle(lease.handle)),
            code: Some(code.into()),
            ..Renewal::default()
        });
        note(
            &leases,
            &RenewAppendLeasesResponse {
                results: results.collect(),
            },
        );
        let kinds = leases.map(|lease| lease.check().err().map(|error| error.kind()));
        assert_eq!(
            kinds,
            [
                None,
                Some(ErrorKind::StaleSession),
                None,
                Some(ErrorKind::NotFound)
            ]
        );
    }

    #[test]
    fn an_answer_about_another_session_is_not_believed() {
        let leases = [lease(1)];
        let result = Renewal {
            handle: Some(from_wire::to_handle(lease(9).handle)),
            code: Some(AppendCode::SessionUnknown.into()),
            ..Renewal::default()
        };
        note(
            &leases,
            &RenewAppendLeasesResponse {
                results: vec![result],
            },
        );
        leases[0].check().unwrap();
    }

    #[test]
    fn the_first_reason_stays() {
        let lease = lease(5);
        lease.end(ErrorKind::StaleSession, "fenced");
        lease.end(ErrorKind::NotFound, "gone");
        let error = lease.check().unwrap_err();
        assert_eq!(
            (error.kind(), error.session()),
            (ErrorKind::StaleSession, Some(5))
        );
    }
}
