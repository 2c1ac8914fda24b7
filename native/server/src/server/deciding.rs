//! Who decides: this server alone, or its group; and what a group's leader does before it serves.

use super::{StartError, configure};
use crate::config::Options;
use crate::consensus::{
    Barrier, CheckpointFailure, Consensus, GroupConsensus, GroupError, GroupOptions,
    LocalConsensus, MemberView, Proposal, ProposeError, View,
};
use crate::http::{Changed, Grouping};
use crate::om::{Listed, Roster};
use crate::server::OM_FOLDER;
use crate::store::checkpoint::Summary;
use append_namespace::Position;
use append_namespace::command::{Limits, Request};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time between two tries to found a group while a server is missing.
const ABSENT: Duration = Duration::from_millis(200);
/// Time that another server has to take the leadership over: less than it takes to choose one.
const HAND_OVER: Duration = Duration::from_secs(2);
/// Time between two tries of a leader to make ready.
const AGAIN: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Clone)]
pub(super) enum Deciding {
    Alone(Arc<LocalConsensus>),
    Grouped(Arc<Leader>),
}

/// A member of a group. Serves only while it leads, and only after it has made ready in its term.
pub(super) struct Leader {
    group: Arc<GroupConsensus>,
    /// The term in which it has made ready.
    ready: AtomicU64,
}

/// `host:port` where clients reach a server.
pub(super) fn client(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// A member as clients are told of it; nothing while its address for them is not known.
fn listed(member: MemberView) -> Option<Listed> {
    let (host, port) = member.client.rsplit_once(':')?;
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    Some(Listed {
        id: member.id,
        host: inner.unwrap_or(host).to_owned(),
        rpc_port: port.parse().ok().filter(|port| *port != 0)?,
        leads: member.leads,
    })
}

/// The part in its group of a server that clients reach at `client`.
pub(super) fn group_options(options: &Options, client: &str) -> GroupOptions {
    let settings = &options.group;
    let own = settings
        .peers
        .get(&settings.id)
        .cloned()
        .unwrap_or_default();
    GroupOptions {
        peers: settings.peers.clone(),
        heartbeat: options.heartbeat,
        // Far enough apart that two servers seldom want to lead at once.
        election_min: options.election * 7 / 12,
        election_max: options.election,
        kept: options.log_kept,
        ..GroupOptions::new(settings.id, own, client)
    }
}

impl Deciding {
    /// Opens the data folder of a server that is alone. Blocks.
    pub(super) fn alone(options: &Options) -> Result<Arc<LocalConsensus>, StartError> {
        let om = options.data.join(OM_FOLDER);
        Ok(LocalConsensus::open(&om, options.consensus.clone())?)
    }

    /// Opens the data folder of a server of a group, which the others reach at `peers` and clients at `client`. Blocks.
    pub(super) fn grouped(
        options: &Options,
        client: &str,
        peers: TcpListener,
    ) -> Result<Arc<Leader>, StartError> {
        let om = options.data.join(OM_FOLDER);
        let group = group_options(options, client);
        let group = GroupConsensus::open(&om, options.consensus.clone(), &group, peers)?;
        Ok(Arc::new(Leader {
            group,
            ready: AtomicU64::new(0),
        }))
    }

    pub(super) fn consensus(&self) -> Arc<dyn Consensus> {
        match self {
            Deciding::Alone(alone) => Arc::clone(alone) as Arc<dyn Consensus>,
            Deciding::Grouped(leader) => Arc::clone(leader) as Arc<dyn Consensus>,
        }
    }

    /// The number of this server in its group, and who else is in it.
    pub(super) fn part(&self) -> Option<(u64, Roster)> {
        let Deciding::Grouped(leader) = self else {
            return None;
        };
        let group = Arc::clone(&leader.group);
        let roster = move || {
            let members = group.members().into_iter();
            members.filter_map(listed).collect()
        };
        Some((leader.group.id(), Arc::new(roster)))
    }

    /// Takes a checkpoint. Blocks.
    pub(super) fn checkpoint(&self) -> Result<Summary, CheckpointFailure> {
        match self {
            Deciding::Alone(alone) => alone.checkpoint(),
            Deciding::Grouped(leader) => leader.group.checkpoint(),
        }
    }

    /// Has another server lead before this one stops.
    pub(super) async fn hand_over(&self) {
        if let Deciding::Grouped(leader) = self {
            leader.group.hand_over(HAND_OVER).await;
        }
    }

    /// Stops. Blocks.
    pub(super) fn shutdown(&self) {
        match self {
            Deciding::Alone(alone) => alone.shutdown(),
            Deciding::Grouped(leader) => leader.group.shutdown(),
        }
    }

    /// Whether requests are served, here or by the leader that this server sends callers to.
    pub(super) async fn serves(&self) -> bool {
        let barrier = self.consensus().read_barrier();
        match barrier.await {
            Ok(_) => true,
            Err(ProposeError::NotLeader(not)) => not.leader.is_some(),
            Err(_) => false,
        }
    }

    /// Does what an operator asks of the group.
    pub(super) async fn group(&self, asked: Grouping) -> Changed {
        let Deciding::Grouped(leader) = self else {
            return Err("this server belongs to no group".to_owned());
        };
        let group = &leader.group;
        let failed = |error: GroupError| error.to_string();
        match asked {
            Grouping::Members => {}
            Grouping::Transfer(id) => group.transfer(id).await.map_err(failed)?,
            Grouping::Admit(peer) => {
                group.admit(&peer).await.map_err(failed)?;
            }
            Grouping::Dismiss(id) => group.dismiss(id).await.map_err(failed)?,
        }
        Ok(group.members())
    }
}

impl Leader {
    /// Makes the group, once all its servers answer.
    pub(super) async fn found(&self) -> Result<(), StartError> {
        let mut told = false;
        loop {
            match self.group.found().await {
                Ok(()) => return Ok(()),
                Err(GroupError::Absent(why)) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(why, "the group is founded when all its servers answer");
                    }
                    tokio::time::sleep(ABSENT).await;
                }
                Err(error) => return Err(StartError::Found(error)),
            }
        }
    }

    /// Makes ready in each term in which this server leads, until `stop`: gives the group its layout and the limits of this server's
    /// configuration before anybody is served.
    pub(super) async fn make_ready(self: Arc<Self>, options: Options, stop: CancellationToken) {
        let mut done = 0;
        loop {
            let term = tokio::select! {
                () = stop.cancelled() => return,
                term = self.group.led(done) => term,
            };
            let Some(term) = term else { return };
            match configure(&*self.group, &options).await {
                Ok(()) => {
                    self.ready.store(term, Ordering::Release);
                    done = term;
                    tracing::info!(term, id = options.group.id, "this server leads its group");
                }
                Err(error @ StartError::Refused { .. }) => {
                    (options.consensus.on_fatal)(&error.to_string());
                    return;
                }
                // Another leads, or will.
                Err(error) => {
                    tracing::debug!(%error, term, "not ready");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    fn check(&self) -> Result<(), ProposeError> {
        if self.group.leading()? == self.ready.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(ProposeError::NotReady)
        }
    }
}

impl Consensus for Leader {
    fn propose(&self, request: Request) -> Proposal {
        match self.check() {
            Ok(()) => self.group.propose(request),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn view(&self) -> View {
        self.group.view()
    }

    fn read_barrier(&self) -> Barrier {
        match self.check() {
            Ok(()) => self.group.read_barrier(),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn position(&self) -> Position {
        self.group.position()
    }

    fn limits(&self) -> Limits {
        self.group.limits()
    }
}
