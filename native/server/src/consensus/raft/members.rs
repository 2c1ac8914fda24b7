//! Who belongs to the group, and how an operator changes that.

use super::types::Group;
use super::{GroupConsensus, network, types};
use crate::consensus::{NotLeader, ProposeError};
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Why a change of the group was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Another server leads: it is to be asked.
    #[error("{0}")]
    NotLeader(NotLeader),
    /// It cannot be done as things stand.
    #[error("{0}")]
    Refused(String),
    /// A server does not answer; all must, for a group to be made.
    #[error("{0}")]
    Absent(String),
    /// It may have been done: look at the members.
    #[error("{0}; whether it was done is not known")]
    Unknown(String),
}

/// A server of the group as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// Its number.
    pub id: u64,
    /// `host:port` for the other servers.
    pub peer: String,
    /// `host:port` for clients.
    pub client: String,
    /// It has a vote.
    pub votes: bool,
    /// It leads, as far as this server knows.
    pub leads: bool,
    /// The last record that it has, as the leader knows; only the leader does.
    pub reached: Option<u64>,
}

impl From<ProposeError> for GroupError {
    fn from(error: ProposeError) -> GroupError {
        match error {
            ProposeError::NotLeader(not) => GroupError::NotLeader(not),
            error => GroupError::Refused(error.to_string()),
        }
    }
}

impl GroupConsensus {
    /// Makes a group of this server and those of its peers, once and for all. All must be new and reachable.
    ///
    /// # Errors
    /// [`GroupError`]; then there is no group, and it may be called again.
    pub async fn found(&self) -> Result<(), GroupError> {
        let refused = |why: String| GroupError::Refused(why);
        let initialized = self
            .raft
            .is_initialized()
            .await
            .map_err(|error| refused(error.to_string()))?;
        if initialized {
            return Err(refused("this server belongs to a group already".to_owned()));
        }
        let mut members = BTreeMap::new();
        for (id, address) in &self.peers {
            let asked = network::hello(address).await;
            let (found, member, fresh) = asked.map_err(GroupError::Absent)?;
            if found != *id {
                return Err(refused(format!("{address} is server {found}, not {id}")));
            }
            if !fresh {
                return Err(refused(format!("server {id} belongs to a group already")));
            }
            members.insert(found, member);
        }
        if !members.contains_key(&self.seen.me) {
            return Err(refused("the peers do not name this server".to_owned()));
        }
        self.raft
            .initialize(members)
            .await
            .map_err(|error| refused(error.to_string()))
    }

    /// The number of this server.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.seen.me
    }

    /// The members, as this server knows them.
    #[must_use]
    pub fn members(&self) -> Vec<MemberView> {
        let metrics = self.seen.metrics.borrow_watched();
        let config = &metrics.membership_config;
        let voters: BTreeSet<u64> = config.voter_ids().collect();
        let replication = metrics.replication.as_ref();
        config
            .nodes()
            .map(|(id, member)| MemberView {
                id: *id,
                peer: self.peers.get(id).unwrap_or(&member.peer).clone(),
                client: self.seen.client(*id, &member.client),
                votes: voters.contains(id),
                leads: metrics.current_leader == Some(*id),
                reached: if *id == self.seen.me {
                    metrics.last_log_index.map(|index| index + 1)
                } else {
                    replication
                        .and_then(|reached| reached.get(id))
                        .and_then(|reached| reached.as_ref())
                        .map(types::index_of)
                },
            })
            .collect()
    }

    /// Admits the new server that listens at `peer`: it gets log or checkpoint, and a vote when it has caught up. On the leader only.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn admit(&self, peer: &str) -> Result<u64, GroupError> {
        self.leading().map_err(GroupError::from)?;
        let (id, member, fresh) = network::hello(peer).await.map_err(GroupError::Refused)?;
        let known = self.members().into_iter().find(|known| known.id == id);
        match known {
            Some(known) if known.votes => {
                return Err(GroupError::Refused(format!(
                    "server {id} belongs to the group already; a new disk needs a new number"
                )));
            }
            None if !fresh => {
                return Err(GroupError::Refused(format!(
                    "server {id} at {peer} belongs to a group already"
                )));
            }
            _ => {}
        }
        let admitted = self.raft.add_learner(id, member, true).await;
        admitted.map_err(|error| self.unmade(&error))?;
        let voters = openraft::ChangeMembers::AddVoterIds(BTreeSet::from([id]));
        let changed = self.raft.change_membership(voters, true).await;
        changed.map_err(|error| self.unmade(&error))?;
        Ok(id)
    }

    /// Takes a server out of the group. On the leader only.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn dismiss(&self, id: u64) -> Result<(), GroupError> {
        self.leading().map_err(GroupError::from)?;
        let known = self
            .members()
            .into_iter()
            .find(|known| known.id == id)
            .ok_or_else(|| GroupError::Refused(format!("there is no server {id}")))?;
        if id == self.seen.me {
            return Err(GroupError::Refused(
                "the leader does not dismiss itself: transfer the leadership first".to_owned(),
            ));
        }
        if known.votes {
            let voters = openraft::ChangeMembers::RemoveVoters(BTreeSet::from([id]));
            let changed = self.raft.change_membership(voters, false).await;
            changed.map_err(|error| self.unmade(&error))?;
        } else {
            let nodes = openraft::ChangeMembers::RemoveNodes(BTreeSet::from([id]));
            let changed = self.raft.change_membership(nodes, false).await;
            changed.map_err(|error| self.unmade(&error))?;
        }
        Ok(())
    }

    /// Gives the leadership to `id` and returns when it leads. On the leader only.
    ///
    /// # Errors
    /// [`GroupError`].
    pub async fn transfer(&self, id: u64) -> Result<(), GroupError> {
        self.leading().map_err(GroupError::from)?;
        if !self
            .members()
            .iter()
            .any(|member| member.id == id && member.votes)
        {
            return Err(GroupError::Refused(format!("server {id} has no vote")));
        }
        self.raft
            .trigger()
            .transfer_leader(id)
            .await
            .map_err(|error| GroupError::Unknown(error.to_string()))?;
        let leads = self
            .raft
            .wait(Some(Duration::from_secs(10)))
            .current_leader(id, "transferred")
            .await;
        match leads {
            Ok(_) => Ok(()),
            Err(error) => Err(GroupError::Unknown(error.to_string())),
        }
    }

    /// Gives the leadership, if this server has it, to the one that has most, before it stops; waits for that no longer than `at_most`. Without
    /// success another leader is chosen when this one has been silent.
    pub async fn hand_over(&self, at_most: Duration) {
        if self.leading().is_err() {
            return;
        }
        let me = self.seen.me;
        let heir = self
            .members()
            .into_iter()
            .filter(|member| member.votes && member.id != me)
            .max_by_key(|member| member.reached);
        let Some(heir) = heir else { return };
        let handed = tokio::time::timeout(at_most, self.transfer(heir.id)).await;
        match handed {
            Ok(Ok(())) => tracing::info!(to = heir.id, "the leadership was handed over"),
            Ok(Err(error)) => {
                tracing::warn!(to = heir.id, %error, "the leadership was not handed over")
            }
            Err(_) => tracing::warn!(to = heir.id, "the leadership was not handed over in time"),
        }
    }

    fn unmade(
        &self,
        error: &openraft::errors::RaftError<Group, openraft::errors::ClientWriteError<Group>>,
    ) -> GroupError {
        use openraft::errors::{ClientWriteError, RaftError};
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => {
                GroupError::NotLeader(self.seen.not_leader())
            }
            RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)) | RaftError::Fatal(_) => {
                GroupError::Unknown(error.to_string())
            }
            RaftError::APIError(_) => GroupError::Refused(error.to_string()),
        }
    }
}
