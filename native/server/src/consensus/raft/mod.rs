//! Consensus of a group: the majority's logs decide. By library, over the log, the rows and the checkpoints of a server that is alone.
//!
//! A group is made once, by word of an operator, and a server belongs to it by the identity of its data folder. A restart decides nothing:
//! an empty folder waits to be admitted, and one that was admitted goes on where it stood.

mod barrier;
mod grow;
mod log_store;
mod machine;
mod members;
mod network;
mod propose;
mod seen;
mod service;
mod swap;
#[cfg(test)]
mod tests;
mod types;

pub use grow::{grow, leave};
pub use members::{GroupError, MemberView};

use super::folder::Folder;
use super::membership::Standing as Promised;
use super::queue::{Bounds, Queue};
use super::restore::{Decided, Restored, restore_decided};
use super::shared::{Shared, Standing, lock};
use super::threads::{self, guarded};
use super::{
    Barrier, CheckpointFailure, Consensus, OpenError, Options, Proposal, ProposeError, View, duties,
};
use crate::store::Store;
use crate::store::checkpoint::Summary;
use append_namespace::command::{Limits, Request};
use append_namespace::{Machine, Position, Refusal, RefusalKind};
use log_store::LogStore;
use machine::RowsMachine;
use network::Peers;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Config, Raft, SnapshotPolicy};
use seen::Seen;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use swap::SwapStore;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use types::{Group, Member};

/// The library, with our rows.
pub(crate) type GroupRaft = Raft<Group, RowsMachine>;
type Metrics = openraft::type_config::alias::WatchReceiverOf<Group, openraft::RaftMetrics<Group>>;

/// Workers of the group's own runtime: what serves clients must not delay a heartbeat.
const WORKERS: usize = 2;
/// Time for a checkpoint to reach a peer.
const SNAPSHOT: Duration = Duration::from_secs(3_600);

/// How a server takes part in a group.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// Its number, not 0; for ever the same for one data folder.
    pub id: u64,
    /// `host:port` where the other servers reach it.
    pub peer: String,
    /// `host:port` that clients use.
    pub client: String,
    /// Where each server is reached, itself included: for the making of a group, and instead of what the group remembers.
    pub peers: BTreeMap<u64, String>,
    /// Time between signs of life of the leader.
    pub heartbeat: Duration,
    /// Least silence beyond the leader's lease after which a server wants to lead. The lease is [`GroupOptions::election_max`].
    pub election_min: Duration,
    /// Most silence beyond the leader's lease.
    pub election_max: Duration,
    /// Entries that are kept behind a checkpoint for servers that come back soon: others get the checkpoint.
    pub kept: u64,
}

impl GroupOptions {
    /// A sign of life each 250 ms; another leader after about two seconds of silence.
    #[must_use]
    pub fn new(id: u64, peer: impl Into<String>, client: impl Into<String>) -> GroupOptions {
        GroupOptions {
            id,
            peer: peer.into(),
            client: client.into(),
            peers: BTreeMap::new(),
            heartbeat: Duration::from_millis(250),
            election_min: Duration::from_millis(700),
            election_max: Duration::from_millis(1_200),
            kept: 10_000,
        }
    }
}

/// A member of a group. Dropping it shuts it down.
pub struct GroupConsensus {
    shared: Arc<Shared>,
    raft: GroupRaft,
    log: LogStore,
    seen: Seen,
    barriers: barrier::Barriers,
    peers: BTreeMap<u64, String>,
    peer_address: SocketAddr,
    threads: Mutex<Vec<JoinHandle<()>>>,
    runtime: Mutex<Option<Runtime>>,
}

impl std::fmt::Debug for GroupConsensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupConsensus")
            .field("me", &self.seen.me)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

/// The promise of a folder, made when it is new.
fn promised(folder: &Folder, id: u64) -> Result<Promised, OpenError> {
    let refused = |detail: String| OpenError::NotOfGroup {
        path: folder.root().to_owned(),
        detail,
    };
    if id == 0 {
        return Err(refused(
            "cannot be that of server 0: numbers begin at 1".to_owned(),
        ));
    }
    let file = folder.standing();
    match file.read()? {
        Some(promised) if promised.id == id => Ok(promised),
        Some(promised) => Err(refused(format!(
            "is that of server {} and not of server {id}",
            promised.id
        ))),
        None if !folder.is_fresh()? => Err(refused(
            "is that of a server that is alone: `append admin grow` makes it the first of a group"
                .to_owned(),
        )),
        None => {
            let promised = Promised {
                id,
                folder: uuid::Uuid::new_v4().to_string(),
                ..Promised::default()
            };
            file.write(&promised).map_err(|source| OpenError::Io {
                action: "writing the group file in",
                path: folder.root().to_owned(),
                source,
            })?;
            Ok(promised)
        }
    }
}

fn config(options: &GroupOptions) -> Result<Arc<Config>, OpenError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Config {
        cluster_name: "append".to_owned(),
        heartbeat_interval: millis(options.heartbeat),
        election_timeout_min: millis(options.election_min),
        election_timeout_max: millis(options.election_max),
        install_snapshot_timeout: millis(SNAPSHOT),
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: options.kept,
        // Entries are given up in batches, but not in larger ones than are kept.
        purge_batch_size: options.kept.clamp(1, 1_024),
        max_payload_entries: 64,
        enable_pre_vote: Some(true),
        ..Config::default()
    }
    .validate()
    .map(Arc::new)
    .map_err(|error| OpenError::Group(error.to_string()))
}

impl GroupConsensus {
    /// Opens the data folder `dir` as that of server [`GroupOptions::id`], making it when it is missing, and takes part in its group, which
    /// reaches it at `listener`. A new folder waits until [`GroupConsensus::found`] is called on one server, or until it is admitted. Blocks;
    /// must not be called from a tokio worker.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        dir: &Path,
        options: Options,
        group: &GroupOptions,
        listener: TcpListener,
    ) -> Result<Arc<GroupConsensus>, OpenError> {
        let folder = Folder::open(dir)?;
        let promised = promised(&folder, group.id)?;
        let installing = promised.reset.is_some();
        let decided = if installing {
            Decided::Installed
        } else {
            Decided::Applied
        };
        let Restored {
            log,
            store,
            machine,
            checkpoints,
        } = restore_decided::<Machine>(&folder, &options, decided)?;
        let standing = Standing {
            position: machine.position(),
            limits: machine.limits(),
        };
        let lost_checkpoint = installing && checkpoints.newest() < Some(standing.position.index);
        let queue = Queue::new(Bounds {
            batch_commands: options.batch_commands,
            batch_bytes: options.batch_bytes,
            command_bytes: options.command_bytes,
            queue_commands: options.queue_commands,
            queue_bytes: options.queue_bytes,
        });
        let unexported = log.bytes_above(checkpoints.newest().unwrap_or(0));
        let promises = folder.standing();
        let store = Arc::new(SwapStore::new(Arc::new(store)));
        let shared = Arc::new(Shared::new(
            folder,
            options,
            queue,
            Arc::clone(&store) as Arc<dyn Store>,
            standing,
            checkpoints,
        ));
        shared.unexported.store(unexported, Ordering::Release);
        threads::note_sessions::<Machine>(&shared)?;
        if lost_checkpoint {
            shared.checkpoint()?;
        }
        let failing = Arc::clone(&shared);
        let me = Member {
            peer: group.peer.clone(),
            client: group.client.clone(),
            folder: promised.folder.clone(),
        };
        let log = LogStore::start(
            log,
            promised,
            promises,
            Arc::new(move |reason: &str| failing.fail(reason)),
        )
        .map_err(OpenError::Thread)?;
        let rows = RowsMachine::new(Arc::clone(&shared), store, log.clone(), machine);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("append-group")
            .enable_all()
            .build()
            .map_err(OpenError::Thread)?;
        let peers = Peers {
            addresses: Arc::new(group.peers.clone()),
        };
        let config = config(group)?;
        let raft = runtime
            .block_on(Raft::new(group.id, config, peers, log.clone(), rows))
            .map_err(|error| OpenError::Group(error.to_string()))?;
        let peer_address = listener.local_addr().map_err(OpenError::Thread)?;
        listener.set_nonblocking(true).map_err(OpenError::Thread)?;
        let served = service::server(service::Served {
            id: group.id,
            me,
            raft: raft.clone(),
            checkpoints: shared.folder.checkpoints(),
            incoming: Arc::default(),
        });
        let listener = runtime
            .block_on(async { tokio::net::TcpListener::from_std(listener) })
            .map_err(OpenError::Thread)?;
        runtime.spawn(
            tonic::transport::Server::builder()
                .tcp_nodelay(true)
                .initial_stream_window_size(Some(4 << 20))
                .initial_connection_window_size(Some(8 << 20))
                .add_service(served)
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        let metrics = raft.metrics();
        runtime.spawn(watch(Arc::clone(&shared), metrics.clone()));
        let seen = Seen::start(runtime.handle(), metrics, group.id, group.peers.clone());
        let barriers =
            barrier::Barriers::start(runtime.handle(), raft.clone(), Arc::clone(&shared));
        let consensus = Arc::new(GroupConsensus {
            shared,
            raft,
            log,
            seen,
            barriers,
            peers: group.peers.clone(),
            peer_address,
            threads: Mutex::default(),
            runtime: Mutex::default(),
        });
        consensus.start_threads(runtime)?;
        Ok(consensus)
    }

    fn start_threads(&self, runtime: Runtime) -> Result<(), OpenError> {
        let proposer = propose::Proposer::new(
            self.raft.clone(),
            self.seen.clone(),
            self.log.clone(),
            runtime.handle().clone(),
        );
        let shared = Arc::clone(&self.shared);
        let raft = self.raft.clone();
        let handle = runtime.handle().clone();
        let spawn = |name: &'static str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(body)
                .map_err(OpenError::Thread)
        };
        let proposing = Arc::clone(&shared);
        let mut threads = lock(&self.threads);
        threads.push(spawn(
            "append-propose",
            Box::new(move || {
                guarded(&proposing, "append-propose", || proposer.run(&proposing));
            }),
        )?);
        threads.push(spawn(
            "append-duties",
            Box::new(move || {
                guarded(&shared, "append-duties", || {
                    duties::run_with(&shared, || {
                        handle
                            .block_on(raft.trigger().snapshot())
                            .map_err(|error| error.to_string())
                    })
                });
            }),
        )?);
        *lock(&self.runtime) = Some(runtime);
        Ok(())
    }

    /// Where the other servers reach this one.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer_address
    }

    /// Waits until this server leads, and has applied what those before it decided, in a later term than `after`; gives that term. None when
    /// the server stops.
    pub async fn led(&self, after: u64) -> Option<u64> {
        self.seen.clone().led(&self.shared, after).await
    }

    /// Whether a leader is known, this server included.
    #[must_use]
    pub fn knows_leader(&self) -> bool {
        self.seen.leader().is_some()
    }

    /// The term in which this server leads and has applied what those before it decided.
    ///
    /// # Errors
    /// [`ProposeError`] as a proposal would.
    pub fn leading(&self) -> Result<u64, ProposeError> {
        if self.shared.has_failed() {
            return Err(ProposeError::Stopped);
        }
        self.seen.leading(&self.shared)
    }

    /// Exports the applied rows; see [`super::LocalConsensus::checkpoint`].
    ///
    /// # Errors
    /// [`CheckpointFailure`].
    pub fn checkpoint(&self) -> Result<Summary, CheckpointFailure> {
        self.shared.checkpoint()
    }

    /// Takes nothing more and persists the rows. Blocks until that is done; a second call does nothing. Must not be called from a tokio worker.
    pub fn shutdown(&self) {
        let Some(runtime) = lock(&self.runtime).take() else {
            return;
        };
        self.shared.queue.close();
        self.shared.stop.store(true, Ordering::Release);
        self.shared.ring(true);
        for thread in lock(&self.threads).drain(..) {
            // A panic was caught and told inside.
            let _ = thread.join();
        }
        if let Err(error) = runtime.block_on(self.raft.shutdown()) {
            tracing::error!(%error, "the group's library did not stop in good order");
        }
        runtime.shutdown_timeout(Duration::from_secs(5));
        self.log.stop();
        if !self.shared.has_failed()
            && let Err(error) = self.shared.persist()
        {
            self.shared.fail(&error.to_string());
        }
    }
}

#[cfg(test)]
impl GroupConsensus {
    /// Takes a checkpoint and forgets the log behind it.
    async fn compact_for_test(&self) {
        let at = self.position().index;
        self.raft.trigger().snapshot().await.unwrap();
        let taken = self.raft.wait(Some(Duration::from_secs(60)));
        taken
            .metrics(
                |metrics| {
                    metrics
                        .snapshot
                        .as_ref()
                        .is_some_and(|id| types::index_of(id) >= at)
                },
                "a checkpoint",
            )
            .await
            .unwrap();
        self.raft.trigger().purge_log(at - 1).await.unwrap();
        let cut = self.raft.wait(Some(Duration::from_secs(60)));
        cut.metrics(
            |metrics| {
                metrics
                    .purged
                    .as_ref()
                    .is_some_and(|id| types::index_of(id) >= at)
            },
            "a cut log",
        )
        .await
        .unwrap();
    }
}

/// Fails the server when the library gives up, and says who leads.
async fn watch(shared: Arc<Shared>, mut metrics: Metrics) {
    let mut told = None;
    loop {
        let (term, leader) = {
            let metrics = metrics.borrow_watched();
            (metrics.current_term, metrics.current_leader)
        };
        if let Some(leader) = leader
            && told != Some((term, leader))
        {
            told = Some((term, leader));
            tracing::info!(term, leader, "the group has a leader");
        }
        let running = metrics.borrow_watched().running_state.clone();
        if let Err(error) = running {
            if !shared.stop.load(Ordering::Acquire) {
                shared.fail(&format!("the group: {error}"));
            }
            return;
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

impl Drop for GroupConsensus {
    fn drop(&mut self) {
        // In a tokio worker nothing may block: the runtime is left to end by itself.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.shared.queue.close();
            self.shared.stop.store(true, Ordering::Release);
            self.shared.ring(true);
            if let Some(runtime) = lock(&self.runtime).take() {
                runtime.shutdown_background();
            }
        } else {
            self.shutdown();
        }
    }
}

impl Consensus for GroupConsensus {
    fn propose(&self, request: Request) -> Proposal {
        // In the log it would look like a command of a newer version, at which every replay stops.
        if request.command.is_none() {
            let refusal = Refusal::new(RefusalKind::InvalidRequest, "the request holds no command");
            return Box::pin(std::future::ready(Ok(Err(refusal))));
        }
        let pushed = self.leading().and_then(|_| self.shared.queue.push(request));
        match pushed {
            Ok(answer) => {
                Box::pin(async move { answer.await.unwrap_or(Err(ProposeError::OutcomeUnknown)) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn view(&self) -> View {
        self.shared.store.applied().rows
    }

    fn read_barrier(&self) -> Barrier {
        match self.leading() {
            Ok(_) => {
                let answer = self.barriers.ask();
                let seen = self.seen.clone();
                Box::pin(async move {
                    answer.await.map_err(|failed| match failed {
                        barrier::Failed::NotLeader => ProposeError::NotLeader(seen.not_leader()),
                        barrier::Failed::Stopped => ProposeError::Stopped,
                    })
                })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn position(&self) -> Position {
        self.shared.standing().position
    }

    fn limits(&self) -> Limits {
        self.shared.standing().limits
    }
}
