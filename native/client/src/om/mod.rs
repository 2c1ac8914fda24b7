//! The OM as its client sees it: one call in, one decided answer out, whatever connections and leaders do meanwhile.
//!
//! A mutating call has one identity over all its resends. If its answer cannot be had and it may have been carried out, the error
//! is [`ErrorKind::OutcomeUnknown`]; nothing here guesses.

mod classify;
mod connection;
mod direct;
mod invocation;
mod link;
mod round;
mod server;

#[cfg(test)]
mod failover_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use append_wire::hrpc::CallIdentity;
use append_wire::om::{AppendFeature, OmRequest, OmResponse, ServiceListRequest, Type, UserInfo};
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;

use crate::Result;
use crate::config::Settings;
use crate::config::address::Node;
use crate::error::{Error, ErrorKind};
use crate::runtime::park;
use classify::Hint;
use invocation::Invocations;
use link::{Attempt, Opening, rpc_attempt};
use round::Round;
use server::Server;

/// The client version that Ozone's servers must know to answer in full.
const CLIENT_VERSION: u32 = 3;

/// First wait before the same servers are tried again.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// A connection may be dead without a word, as when its server lost power: it is not trusted for longer than this.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// What the servers of this OM can do.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Features {
    /// The lowest OM version of the group; "future" counts as the highest.
    pub(crate) om_version: i32,
    /// Set if every OM advertises appending.
    pub(crate) append: Option<AppendFeature>,
}

impl Features {
    /// New commands may be sent.
    pub(crate) fn knows_append(&self) -> bool {
        self.append.as_ref().is_some_and(AppendFeature::supported)
    }

    /// Appending works, not only its commands.
    pub(crate) fn can_append(&self) -> bool {
        self.append
            .as_ref()
            .is_some_and(|f| f.supported() && f.finalized() && f.enabled())
    }

    /// Sessions may exist, and can be recovered.
    pub(crate) fn can_recover(&self) -> bool {
        self.append
            .as_ref()
            .is_some_and(|f| f.supported() && f.finalized())
    }
}

/// What a call does if it is sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: it can be sent as often as one likes.
    Read,
    /// It changes something, and carries an identity.
    Change,
}

/// When a call gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Each server is tried once; waiting is for servers that answer but do not lead yet.
    OneRound,
    /// Servers that are away are waited for.
    UntilDeadline,
    /// As before; and when the answer of a request that may have arrived was lost, until this time.
    UntilDecided { until: Instant },
}

/// A client of one OM or one group of them. Thread-safe.
#[derive(Debug)]
pub(crate) struct OmClient {
    servers: Vec<Server>,
    current: AtomicUsize,
    opening: Arc<Opening>,
    name: String,
    invocations: Invocations,
    call_ids: AtomicI32,
    call_timeout: Duration,
    /// How long the outcome of a change is asked for once its answer was lost.
    outcome_timeout: Duration,
    /// How long one attempt is listened to where there are other servers.
    attempt_timeout: Duration,
    /// A connection that leaves a call without an answer for this long is not used for another.
    silence: Duration,
    failover_wait: Duration,
    failover_attempts: u32,
    features: Features,
}

impl OmClient {
    /// Connects to the first server that answers and asks what the group can.
    pub(crate) async fn connect(
        nodes: Vec<Node>,
        user: &str,
        settings: &Settings,
    ) -> Result<OmClient> {
        let identity: [u8; 16] = uuid::Uuid::new_v4().into_bytes();
        let (client, _) = identity.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let mut silence = settings.connect_timeout.min(LONGEST_SILENCE);
        if nodes.len() > 1 {
            silence = silence.min(settings.attempt_timeout);
        }
        let mut om = OmClient {
            servers: nodes.into_iter().map(Server::new).collect(),
            current: AtomicUsize::new(0),
            opening: Arc::new(Opening::new(identity, user, settings)),
            name: format!("client-{:012x}", rand::random::<u64>() >> 16),
            invocations: Invocations::new(*client),
            call_ids: AtomicI32::new(0),
            call_timeout: settings.call_timeout,
            outcome_timeout: settings.outcome_timeout,
            attempt_timeout: settings.attempt_timeout,
            silence,
            failover_wait: settings.failover_wait,
            failover_attempts: settings.failover_attempts,
            features: Features::default(),
        };
        let mut request = om.request(Type::ServiceList);
        request.service_list_request = Some(Box::new(ServiceListRequest {}));
        let deadline = Instant::now() + settings.connect_timeout;
        let response =
            Box::pin(om.drive(request, Effect::Read, deadline, Patience::OneRound)).await?;
        om.features = features(&response);
        Ok(om)
    }

    /// What the group advertised when this client connected.
    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    /// The user in whose name calls are made.
    pub(crate) fn user(&self) -> &str {
        self.opening.user()
    }

    /// An empty request of a kind.
    pub(crate) fn request(&self, kind: Type) -> OmRequest {
        OmRequest {
            cmd_type: kind.into(),
            client_id: self.name.clone(),
            version: Some(CLIENT_VERSION),
            user_info: Some(UserInfo {
                user_name: Some(self.opening.user().to_owned()),
                ..UserInfo::default()
            }),
            ..OmRequest::default()
        }
    }

    /// Makes a call within the configured time. Answers with a status other than OK are errors.
    pub(crate) async fn call(&self, request: OmRequest, effect: Effect) -> Result<OmResponse> {
        let deadline = Instant::now() + self.call_timeout;
        self.call_until(request, effect, deadline).await
    }

    /// As [`OmClient::call`], until this time if the configured one is not earlier.
    pub(crate) async fn call_until(
        &self,
        request: OmRequest,
        effect: Effect,
        deadline: Instant,
    ) -> Result<OmResponse> {
        let deadline = deadline.min(Instant::now() + self.call_timeout);
        // Boxed, as all that waits for a call would else be as large as a request several times over.
        Box::pin(self.drive(request, effect, deadline, Patience::UntilDeadline)).await
    }

    /// Makes a change whose outcome must be known: when its answer was lost, it is asked for again, under the same identity, for as
    /// long as servers remember it for certain.
    pub(crate) async fn decide(&self, request: OmRequest) -> Result<OmResponse> {
        let now = Instant::now();
        let patience = if self.features.knows_append() {
            Patience::UntilDecided {
                until: now + self.outcome_timeout,
            }
        } else {
            Patience::UntilDeadline
        };
        Box::pin(self.drive(request, Effect::Change, now + self.call_timeout, patience)).await
    }

    async fn drive(
        &self,
        mut request: OmRequest,
        effect: Effect,
        deadline: Instant,
        patience: Patience,
    ) -> Result<OmResponse> {
        let invocation = match effect {
            Effect::Read => None,
            Effect::Change => {
                let invocation = self.invocations.begin();
                request.invocation_id = Some(Bytes::from(invocation.id));
                Some(invocation)
            }
        };
        let call = Call {
            om: self,
            effect,
            deadline,
            patience,
            call_id: self.next_call_id(),
        };
        let named = invocation
            .as_ref()
            .map(|invocation| invocation.id.to_string());
        let answered_below = || {
            invocation
                .as_ref()
                .map(invocation::Invocation::answered_below)
        };
        call.run(&mut request, answered_below)
            .await
            .map_err(|error| match named {
                Some(id) => error.with_request(id),
                None => error,
            })
    }

    fn next_call_id(&self) -> i32 {
        self.call_ids.fetch_add(1, Ordering::Relaxed) & i32::MAX
    }

    /// Lets go of all connections; calls under way fail.
    pub(crate) async fn close(&self) {
        for server in &self.servers {
            server.close().await;
        }
    }
}

/// One logical call over all its attempts.
struct Call<'a> {
    om: &'a OmClient,
    effect: Effect,
    deadline: Instant,
    patience: Patience,
    call_id: i32,
}

impl Call<'_> {
    async fn run(
        &self,
        request: &mut OmRequest,
        answered_below: impl Fn() -> Option<u64>,
    ) -> Result<OmResponse> {
        let mut waits = self.waits();
        let mut maybe_done = false;
        let mut attempts: u32 = 0;
        let mut answered = false;
        let first = self.om.current.load(Ordering::Relaxed) % self.om.servers.len();
        let mut round = Round::new(&self.om.servers, first, self.om.attempt_timeout);
        loop {
            request.answered_below = answered_below();
            let at = round.at();
            let deadline = round.listen_until(self.attempt_deadline(maybe_done));
            let attempt = self.attempt(at, request, attempts, deadline).await;
            attempts = attempts.saturating_add(1);
            match &attempt {
                Attempt::Unreachable { .. } if Instant::now() >= deadline => round.fell_silent(),
                Attempt::Unreachable { .. } => {}
                _ => round.heard(),
            }
            let (last, wait);
            match attempt {
                Attempt::Answer(response) if classify::wants_retry(&response) => {
                    wait = true;
                    last = classify::refusal(&response).unwrap_or_else(|| unreachable(""));
                }
                Attempt::Answer(response) => {
                    self.lead(at);
                    return match classify::refusal(&response) {
                        None => Ok(*response),
                        Some(error) => Err(error),
                    };
                }
                Attempt::Refused(error) if maybe_done => return Err(unknown(&error)),
                Attempt::Refused(error) => return Err(error),
                Attempt::NotReady(why) => {
                    wait = true;
                    answered = true;
                    last = Error::new(ErrorKind::Unavailable, why);
                }
                Attempt::NotLeader(hint) => {
                    answered = true;
                    round.does_not_lead();
                    wait = self.move_on(&mut round, hint.as_ref());
                    last = Error::new(ErrorKind::Unavailable, "no server leads");
                }
                Attempt::Unreachable { why, maybe_sent } => {
                    maybe_done |= maybe_sent && self.effect == Effect::Change;
                    wait = self.move_on(&mut round, None);
                    last = unreachable(why);
                    if maybe_done && !self.om.can_resend() {
                        return Err(unknown(&last));
                    }
                    if wait && !answered && self.patience == Patience::OneRound {
                        return Err(last);
                    }
                }
            }
            let wait = if wait {
                round.pause(waits.next().unwrap_or(self.om.failover_wait))
            } else {
                Duration::ZERO
            };
            if Instant::now() + wait >= self.end(maybe_done)
                || round.rounds() > self.om.failover_attempts
            {
                return Err(match last.kind() {
                    _ if maybe_done => unknown(&last),
                    ErrorKind::Connect if self.patience != Patience::OneRound => {
                        last.with_kind(ErrorKind::Timeout)
                    }
                    _ => last,
                });
            }
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// When the call gives up.
    fn end(&self, maybe_done: bool) -> Instant {
        match self.patience {
            Patience::UntilDecided { until } if maybe_done => until.max(self.deadline),
            _ => self.deadline,
        }
    }

    /// Until when one attempt may be waited for: a server that says nothing is not asked once only.
    fn attempt_deadline(&self, maybe_done: bool) -> Instant {
        let longest = Instant::now() + self.om.call_timeout;
        self.end(maybe_done).min(longest)
    }

    async fn attempt(
        &self,
        at: usize,
        request: &OmRequest,
        attempts: u32,
        deadline: Instant,
    ) -> Attempt {
        let Some(server) = self.om.servers.get(at) else {
            return Attempt::Unreachable {
                why: "no such server".to_owned(),
                maybe_sent: false,
            };
        };
        let identity = CallIdentity {
            client_id: self.om.opening.client_id(),
            call_id: self.call_id,
            retry_count: i32::try_from(attempts).unwrap_or(i32::MAX),
        };
        // A caller that blocks reads its own answer. Ozone's servers are not asked to hold more than one connection of a client.
        if park::is_here() && self.om.features.knows_append() && self.om.opening.direct().is_some()
        {
            match park::until(deadline, server.direct(&self.om.opening)).await {
                Some(Ok(Some(lent))) => {
                    let outcome = lent.call(identity, request, deadline).await;
                    return match rpc_attempt(outcome) {
                        Attempt::Unreachable { why, maybe_sent } => {
                            server.unreachable(&why, maybe_sent)
                        }
                        attempt => attempt,
                    };
                }
                Some(Ok(None)) => {}
                Some(Err(attempt)) => return attempt,
                None => return server.unreachable("no connection in time", false),
            }
        }
        let link = match park::until(deadline, server.link(&self.om.opening)).await {
            Some(Ok(link)) => link,
            Some(Err(attempt)) => return attempt,
            None => return server.unreachable("no connection in time", false),
        };
        let sent = Instant::now();
        match park::until(deadline, link.attempt(identity, request)).await {
            Some(Attempt::Unreachable { why, maybe_sent }) => server.unreachable(&why, maybe_sent),
            Some(attempt) => attempt,
            None => {
                if sent.elapsed() >= self.om.silence {
                    server.forget(&link);
                }
                server.unreachable("no answer in time", true)
            }
        }
    }

    /// Turns to the next server, or to the one that the hint names, and other calls with it unless one of them has found another
    /// already. True when a pause is due.
    fn move_on(&self, round: &mut Round<'_>, hint: Option<&Hint>) -> bool {
        let current = &self.om.current;
        let from = round.at();
        let pause = round.turn(hint, current.load(Ordering::Relaxed));
        let _ = current.compare_exchange(from, round.at(), Ordering::Relaxed, Ordering::Relaxed);
        pause
    }

    /// This server answers: it is the one that calls begin with. Reads that need no leader are answered by others too, and say nothing.
    fn lead(&self, at: usize) {
        if self.effect == Effect::Change {
            self.om.current.store(at, Ordering::Relaxed);
        }
    }

    fn waits(&self) -> impl Iterator<Item = Duration> + use<> {
        ExponentialBuilder::default()
            .with_min_delay(FIRST_WAIT.min(self.om.failover_wait))
            .with_max_delay(self.om.failover_wait)
            .with_jitter()
            .without_max_times()
            .build()
    }
}

impl OmClient {
    /// A resent change meets its first answer: by the identity in the request on servers that know it, by call id over Hadoop
    /// RPC on Ozone's.
    fn can_resend(&self) -> bool {
        self.features.knows_append() || self.opening.has_retry_identity()
    }
}

fn unreachable(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Connect, why)
}

fn unknown(last: &Error) -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        format!(
            "the server may have done it, its answer was lost: {}",
            last.text()
        ),
    )
}

fn features(response: &OmResponse) -> Features {
    let list = response.service_list_response.as_deref();
    let oms: Vec<_> = list
        .into_iter()
        .flat_map(|list| &list.service_info)
        .filter(|info| info.node_type() == append_wire::hdds::NodeType::Om)
        .collect();
    let version = |version: i32| if version < 0 { i32::MAX } else { version };
    Features {
        om_version: oms
            .iter()
            .map(|om| version(om.om_version()))
            .min()
            .unwrap_or(0),
        append: match oms.first() {
            Some(first) if oms.iter().all(|om| om.append.is_some()) => first.append,
            _ => None,
        },
    }
}
