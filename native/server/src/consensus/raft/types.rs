//! What the consensus library is told about: entries, answers, members; and how they are written on disk and on the wire.
//!
//! The library counts entries from 0, the log from 1: nothing outside this module knows the library's count.

use crate::log::{Kind, Record};
use append_namespace::command::Entry;
use append_namespace::reply::Decided;
use append_wire::peer;
use bytes::Bytes;
use openraft::entry::RaftEntry;
use openraft::vote::RaftVote;
use openraft::{EntryPayload, Membership, StoredMembership};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

openraft::declare_raft_types!(
    /// The types of this group.
    pub(crate) Group:
        D = Commands,
        R = Outcomes,
        NodeId = u64,
        Node = Member,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
);

pub(crate) type LogId = openraft::type_config::alias::LogIdOf<Group>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<Group>;
pub(crate) type GroupEntry = openraft::type_config::alias::EntryOf<Group>;
pub(crate) type Members = openraft::type_config::alias::StoredMembershipOf<Group>;
type Leader = openraft::type_config::alias::CommittedLeaderIdOf<Group>;

/// The commands of one entry, encoded, and decoded where they were made.
#[derive(Clone)]
pub(crate) struct Commands {
    pub(crate) payload: Bytes,
    pub(crate) entry: Option<Arc<Entry>>,
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.payload.len())
    }
}

impl fmt::Display for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One answer for each command of an entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcomes(pub(crate) Vec<Decided>);

/// A server of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// `host:port` where the other servers reach it.
    pub(crate) peer: String,
    /// `host:port` that clients use.
    pub(crate) client: String,
    /// The identity of its data folder.
    pub(crate) folder: String,
}

/// Bytes that a peer or a file gave, and that say nothing of sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Senseless(pub(crate) String);

fn senseless<T>(what: impl Into<String>) -> Result<T, Senseless> {
    Err(Senseless(what.into()))
}

/// The log's index of an entry.
pub(crate) fn index_of(id: &LogId) -> u64 {
    id.index + 1
}

/// The library's name of the record at `index`, which is not 0.
pub(crate) fn log_id(term: u64, index: u64) -> Option<LogId> {
    let index = index.checked_sub(1)?;
    Some(LogId::new(Leader::new(term), index))
}

pub(crate) fn place(id: &LogId) -> peer::Place {
    peer::Place {
        term: id.leader_id.term,
        index: index_of(id),
    }
}

/// Absent is before the first entry.
pub(crate) fn placed(place: Option<peer::Place>) -> Result<Option<LogId>, Senseless> {
    match place {
        None => Ok(None),
        Some(place) => match log_id(place.term, place.index) {
            Some(id) => Ok(Some(id)),
            None => senseless("no record has index 0"),
        },
    }
}

pub(crate) fn vote_to_wire(vote: &Vote) -> peer::Vote {
    peer::Vote {
        term: vote.leader_id().term,
        node: vote.leader_id().voted_for,
        committed: vote.is_committed(),
    }
}

pub(crate) fn vote_from_wire(vote: peer::Vote) -> Vote {
    Vote::from_leader_id(
        openraft::impls::leader_id_std::LeaderId {
            term: vote.term,
            voted_for: vote.node,
        },
        vote.committed,
    )
}

/// A vote that must be there.
pub(crate) fn vote(vote: Option<peer::Vote>) -> Result<Vote, Senseless> {
    match vote {
        Some(vote) => Ok(vote_from_wire(vote)),
        None => senseless("a vote is missing"),
    }
}

/// What the log keeps of an entry.
pub(crate) fn record_of(entry: &GroupEntry) -> (u64, u64, Kind, Bytes) {
    let id = entry.log_id();
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (Kind::Blank, Bytes::new()),
        EntryPayload::Normal(commands) => (Kind::Entry, commands.payload.clone()),
        EntryPayload::Membership(membership) => {
            let members = members_to_wire(Some(&id), membership);
            (Kind::Members, Bytes::from(members.encode_to_vec()))
        }
    };
    (id.leader_id.term, index_of(&id), kind, payload)
}

/// The entry of a record.
pub(crate) fn entry_of(
    term: u64,
    index: u64,
    kind: Kind,
    payload: Bytes,
) -> Result<GroupEntry, Senseless> {
    let Some(id) = log_id(term, index) else {
        return senseless("no record has index 0");
    };
    let payload = match kind {
        Kind::Blank => EntryPayload::Blank,
        Kind::Entry => EntryPayload::Normal(Commands {
            payload,
            entry: None,
        }),
        // Written while the server was alone, and behind the checkpoint with which it became a group's first.
        Kind::Epoch => return senseless("an epoch is not decided by a group"),
        Kind::Members => EntryPayload::Membership(members_from_row(&payload)?.membership().clone()),
    };
    Ok(GroupEntry::new(id, payload))
}

pub(crate) fn entry_of_record(record: Record) -> Result<GroupEntry, Senseless> {
    entry_of(record.term, record.index, record.kind, record.payload)
}

pub(crate) fn entry_from_wire(record: peer::Record) -> Result<GroupEntry, Senseless> {
    let kind = u8::try_from(record.kind).ok().and_then(Kind::from_byte);
    match kind {
        Some(kind) => entry_of(record.term, record.index, kind, record.payload),
        None => senseless(format!("a record of kind {}", record.kind)),
    }
}

pub(crate) fn entry_to_wire(entry: &GroupEntry) -> peer::Record {
    let (term, index, kind, payload) = record_of(entry);
    peer::Record {
        term,
        index,
        kind: kind as u32,
        payload,
    }
}

fn members_to_wire(at: Option<&LogId>, membership: &Membership<u64, Member>) -> peer::Members {
    peer::Members {
        at: at.map(place),
        configs: membership
            .get_joint_config()
            .iter()
            .map(|voters| peer::Voters {
                ids: voters.iter().copied().collect(),
            })
            .collect(),
        nodes: membership
            .nodes()
            .map(|(id, member)| node_to_wire(*id, member))
            .collect(),
    }
}

pub(crate) fn node_to_wire(id: u64, member: &Member) -> peer::Node {
    peer::Node {
        id,
        peer: member.peer.clone(),
        client: member.client.clone(),
        folder: member.folder.clone(),
    }
}

pub(crate) fn node_from_wire(node: peer::Node) -> (u64, Member) {
    (
        node.id,
        Member {
            peer: node.peer,
            client: node.client,
            folder: node.folder,
        },
    )
}

/// The row in which members are kept.
pub(crate) fn members_row(members: &Members) -> Bytes {
    Bytes::from(stored_to_wire(members).encode_to_vec())
}

pub(crate) fn stored_to_wire(members: &Members) -> peer::Members {
    members_to_wire(members.log_id().as_ref(), members.membership())
}

pub(crate) fn members_from_row(row: &[u8]) -> Result<Members, Senseless> {
    match peer::Members::decode(row) {
        Ok(members) => members_from_wire(members),
        Err(error) => senseless(format!("members do not decode: {error}")),
    }
}

pub(crate) fn members_from_wire(members: peer::Members) -> Result<Members, Senseless> {
    let configs: Vec<BTreeSet<u64>> = members
        .configs
        .into_iter()
        .map(|voters| voters.ids.into_iter().collect())
        .collect();
    let nodes: BTreeMap<u64, Member> = members.nodes.into_iter().map(node_from_wire).collect();
    let at = placed(members.at)?;
    if configs.is_empty() && nodes.is_empty() {
        return Ok(StoredMembership::new(at, Membership::default()));
    }
    match Membership::new(configs, nodes) {
        Ok(membership) => Ok(StoredMembership::new(at, membership)),
        Err(error) => senseless(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_votes_keep_their_meaning_on_the_wire() {
        let member = |id: u64| Member {
            peer: format!("h:{id}"),
            client: format!("c:{id}"),
            folder: format!("f{id}"),
        };
        let membership = Membership::new(
            vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 3])],
            BTreeMap::from([(1, member(1)), (2, member(2)), (3, member(3))]),
        )
        .unwrap();
        let stored = Members::new(log_id(4, 9), membership);
        assert_eq!(members_from_row(&members_row(&stored)).unwrap(), stored);
        let none = Members::default();
        assert_eq!(members_from_row(&members_row(&none)).unwrap(), none);
        let vote = peer::Vote {
            term: 3,
            node: 2,
            committed: true,
        };
        assert_eq!(vote_to_wire(&vote_from_wire(vote)), vote);
    }

    #[test]
    fn a_record_without_a_place_or_of_no_kind_is_refused() {
        assert!(entry_of(1, 0, Kind::Blank, Bytes::new()).is_err());
        let record = peer::Record {
            kind: 260,
            index: 1,
            ..peer::Record::default()
        };
        assert!(entry_from_wire(record).is_err());
        assert!(entry_of(1, 1, Kind::Members, Bytes::from_static(b"\xff")).is_err());
    }
}
