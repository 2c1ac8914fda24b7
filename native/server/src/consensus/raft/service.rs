//! What the other servers of the group may ask of this one.

use super::GroupRaft;
use super::machine::CheckpointData;
use super::types::{
    Member, Vote, entry_from_wire, members_from_wire, node_to_wire, place, placed, vote,
    vote_to_wire,
};
use crate::files::DurableFile;
use append_wire::peer;
use append_wire::peer::peers_server::{Peers, PeersServer};
use crc_fast::CrcAlgorithm;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest,
};
use openraft::storage::{Snapshot, SnapshotMeta};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status, Streaming};

/// The CRC32C of a piece.
pub(crate) fn sum(body: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, body)).unwrap_or_default()
}

/// This server as its peers see it.
pub(crate) struct Served {
    pub(crate) id: u64,
    pub(crate) me: Member,
    pub(crate) raft: GroupRaft,
    /// Where checkpoints are kept.
    pub(crate) checkpoints: PathBuf,
    /// One checkpoint comes in at a time.
    pub(crate) incoming: Arc<Mutex<()>>,
}

/// The routes of the service.
pub(crate) fn server(served: Served) -> PeersServer<Served> {
    PeersServer::new(served)
        .max_decoding_message_size(super::network::MESSAGE)
        .max_encoding_message_size(super::network::MESSAGE)
}

fn bad(why: impl std::fmt::Display) -> Status {
    Status::invalid_argument(why.to_string())
}

fn broken(why: impl std::fmt::Display) -> Status {
    Status::unavailable(why.to_string())
}

impl Served {
    /// Refuses what is meant for another server, or for this one with the disk that it had before.
    fn check(&self, to: Option<&peer::To>) -> Result<(), Status> {
        match to {
            Some(to) if to.id == self.id && to.folder == self.me.folder => Ok(()),
            _ => Err(Status::failed_precondition(format!(
                "this is server {} with another folder than the group admitted",
                self.id
            ))),
        }
    }

    /// A forged place or vote would make the library give up the whole server: what a leader cannot say is refused before.
    fn check_vote(vote: &Vote) -> Result<(), Status> {
        if vote.leader_id().voted_for == 0 {
            return Err(bad("a vote for nobody"));
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl Peers for Served {
    async fn hello(
        &self,
        _: Request<peer::HelloRequest>,
    ) -> Result<Response<peer::HelloReply>, Status> {
        let fresh = !self.raft.is_initialized().await.map_err(broken)?;
        Ok(Response::new(peer::HelloReply {
            node: Some(node_to_wire(self.id, &self.me)),
            fresh,
        }))
    }

    async fn append(
        &self,
        request: Request<peer::AppendRequest>,
    ) -> Result<Response<peer::AppendReply>, Status> {
        let request = request.into_inner();
        self.check(request.to.as_ref())?;
        let vote = vote(request.vote).map_err(bad)?;
        Served::check_vote(&vote)?;
        let entries = request
            .records
            .into_iter()
            .map(entry_from_wire)
            .collect::<Result<Vec<_>, _>>()
            .map_err(bad)?;
        let rpc = AppendEntriesRequest {
            vote,
            prev_log_id: placed(request.previous).map_err(bad)?,
            leader_commit: placed(request.committed).map_err(bad)?,
            entries,
        };
        use peer::append_reply::Outcome;
        let outcome = match self.raft.append_entries(rpc).await.map_err(broken)? {
            AppendEntriesResponse::Success => Outcome::Done(peer::Done {}),
            AppendEntriesResponse::PartialSuccess(reached) => Outcome::Part(peer::Part {
                reached: reached.as_ref().map(place),
            }),
            AppendEntriesResponse::Conflict => Outcome::Conflict(peer::Done {}),
            AppendEntriesResponse::HigherVote(vote) => Outcome::Higher(vote_to_wire(&vote)),
        };
        Ok(Response::new(peer::AppendReply {
            outcome: Some(outcome),
        }))
    }

    async fn vote(
        &self,
        request: Request<peer::VoteRequest>,
    ) -> Result<Response<peer::VoteReply>, Status> {
        let request = request.into_inner();
        self.check(request.to.as_ref())?;
        let vote = vote(request.vote).map_err(bad)?;
        Served::check_vote(&vote)?;
        let mut rpc = VoteRequest::new(vote, placed(request.last).map_err(bad)?);
        rpc.leadership_transfer = request.transfer;
        let reply = if request.probe {
            self.raft.pre_vote(rpc).await
        } else {
            self.raft.vote(rpc).await
        }
        .map_err(broken)?;
        Ok(Response::new(peer::VoteReply {
            vote: Some(vote_to_wire(&reply.vote)),
            granted: reply.vote_granted,
            last: reply.last_log_id.as_ref().map(place),
        }))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<peer::SnapshotPiece>>,
    ) -> Result<Response<peer::SnapshotReply>, Status> {
        let _turn = self
            .incoming
            .try_lock()
            .map_err(|_| Status::resource_exhausted("another checkpoint comes in"))?;
        let mut pieces = request.into_inner();
        let path = self.checkpoints.join("incoming.new");
        let mut file = DurableFile::create(&path).map_err(broken)?;
        let mut head: Option<peer::SnapshotHead> = None;
        let mut bytes = 0u64;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if let Some(first) = piece.head {
                self.check(first.to.as_ref())?;
                head = Some(first);
            }
            if head.is_none() {
                return Err(bad("a checkpoint begins with what it is"));
            }
            if sum(&piece.body) != piece.sum {
                return Err(bad("a piece of a checkpoint does not have its checksum"));
            }
            bytes += piece.body.len() as u64;
            file.write_all(&piece.body).map_err(broken)?;
        }
        let Some(head) = head.filter(|head| head.bytes == bytes) else {
            return Err(bad("a checkpoint is cut off"));
        };
        file.sync().map_err(broken)?;
        drop(file);
        let vote = vote(head.vote).map_err(bad)?;
        Served::check_vote(&vote)?;
        let meta = SnapshotMeta {
            last_log_id: placed(head.last).map_err(bad)?,
            last_membership: members_from_wire(head.members.unwrap_or_default()).map_err(bad)?,
        };
        let data = CheckpointData {
            file: File::open(&path).map_err(broken)?,
            path,
        };
        let snapshot = Snapshot {
            meta,
            snapshot: data,
        };
        let reply = self
            .raft
            .install_full_snapshot(vote, snapshot)
            .await
            .map_err(broken)?;
        Ok(Response::new(peer::SnapshotReply {
            vote: Some(vote_to_wire(&reply.vote)),
        }))
    }

    async fn transfer(
        &self,
        request: Request<peer::TransferRequest>,
    ) -> Result<Response<peer::TransferReply>, Status> {
        let request = request.into_inner();
        self.check(request.to.as_ref())?;
        let from = vote(request.from).map_err(bad)?;
        let last = placed(request.last).map_err(bad)?;
        let rpc = TransferLeaderRequest::new(from, request.node, last);
        let refused = match self
            .raft
            .handle_transfer_leader(rpc)
            .await
            .map_err(broken)?
        {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        Ok(Response::new(peer::TransferReply { refused }))
    }
}
