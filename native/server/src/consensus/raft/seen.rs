//! The group as this server sees it: who leads, and where clients reach the others.

use super::{Metrics, network};
use crate::consensus::shared::{Shared, lock};
use crate::consensus::{Leading, NotLeader, ProposeError};
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;

/// Time between two questions where clients reach the others.
const ASK: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) metrics: Metrics,
    pub(super) me: u64,
    /// `host:port` where clients reach a server, as it said itself; the group remembers only what was so when it was admitted.
    clients: Arc<Mutex<BTreeMap<u64, String>>>,
}

impl Seen {
    /// Begins to ask the members, at `peers` or where the group remembers them.
    pub(super) fn start(
        runtime: &Handle,
        metrics: Metrics,
        me: u64,
        peers: BTreeMap<u64, String>,
    ) -> Seen {
        let seen = Seen {
            metrics,
            me,
            clients: Arc::default(),
        };
        runtime.spawn(seen.clone().ask(peers));
        seen
    }

    async fn ask(self, peers: BTreeMap<u64, String>) {
        let mut silent = BTreeSet::new();
        loop {
            let members: Vec<_> = {
                let metrics = self.metrics.borrow_watched();
                let nodes = metrics.membership_config.nodes();
                nodes.map(|(id, member)| (*id, member.clone())).collect()
            };
            for (id, member) in members {
                let address = peers.get(&id).unwrap_or(&member.peer);
                if id == self.me {
                    continue;
                }
                let why = match network::hello(address).await {
                    Ok((found, said, _)) if (found, &said.folder) == (id, &member.folder) => {
                        lock(&self.clients).insert(id, said.client);
                        None
                    }
                    Ok((found, ..)) if found != id => Some(format!("it is server {found}")),
                    Ok(_) => Some("it has another folder than the group admitted".to_owned()),
                    Err(why) => Some(why),
                };
                // What was known of one that does not answer is kept.
                match why {
                    Some(why) if silent.insert(id) => {
                        tracing::warn!(id, address, why, "a server of the group does not answer");
                    }
                    None if silent.remove(&id) => {
                        tracing::info!(id, address, "a server of the group answers again");
                    }
                    Some(_) | None => {}
                }
            }
            tokio::time::sleep(ASK).await;
        }
    }

    /// Where clients reach server `id`.
    pub(super) fn client(&self, id: u64, admitted: &str) -> String {
        let known = lock(&self.clients).get(&id).cloned();
        known.unwrap_or_else(|| admitted.to_owned())
    }

    /// The leader, as far as it is known, this server included.
    pub(super) fn leader(&self) -> Option<u64> {
        self.metrics.borrow_watched().current_leader
    }

    /// What a server that does not lead answers.
    pub(super) fn not_leader(&self) -> NotLeader {
        let leader = {
            let metrics = self.metrics.borrow_watched();
            metrics
                .current_leader
                .filter(|leader| *leader != self.me)
                .and_then(|id| {
                    let member = metrics.membership_config.get_node(&id)?;
                    Some((id, member.client.clone()))
                })
        };
        let leader = leader.map(|(id, admitted)| Leading {
            id,
            client: self.client(id, &admitted),
        });
        NotLeader {
            me: self.me,
            leader,
        }
    }

    /// The term in which the server leads and has applied its first entry: everything decided before is applied then.
    pub(super) fn leading(&self, shared: &Shared) -> Result<u64, ProposeError> {
        let (leads, term) = {
            let metrics = self.metrics.borrow_watched();
            if metrics.running_state.is_err() {
                return Err(ProposeError::Stopped);
            }
            (metrics.state == ServerState::Leader, metrics.current_term)
        };
        if !leads {
            return Err(ProposeError::NotLeader(self.not_leader()));
        }
        if shared.standing().position.term == term {
            Ok(term)
        } else {
            Err(ProposeError::NotReady)
        }
    }

    /// Waits until the server leads, and is ready, in a later term than `after`; gives that term. None when the group's library has ended.
    pub(super) async fn led(&mut self, shared: &Shared, after: u64) -> Option<u64> {
        loop {
            match self.leading(shared) {
                Ok(term) if term > after => return Some(term),
                Err(ProposeError::Stopped) => return None,
                _ => {}
            }
            self.metrics.changed().await.ok()?;
        }
    }
}
