//! Speaks to the other servers of the group. Every call has a time at which it is given up.

use super::machine::CheckpointData;
use super::types::{
    Group, LogId, Member, Vote, entry_to_wire, node_from_wire, place, placed, stored_to_wire, vote,
    vote_to_wire,
};
use append_wire::peer;
use append_wire::peer::peers_client::PeersClient;
use bytes::Bytes;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// Bytes of one message between servers.
pub(crate) const MESSAGE: usize = 80 << 20;
/// Bytes of one piece of a checkpoint.
const PIECE: usize = 1 << 20;
const CONNECT: Duration = Duration::from_secs(1);
/// Records may wait for a slow disk there.
const APPEND: Duration = Duration::from_secs(3);

/// Connects to peers, at the addresses of the command line where it has them.
#[derive(Clone)]
pub(crate) struct Peers {
    pub(crate) addresses: Arc<BTreeMap<u64, String>>,
}

/// A peer.
pub(crate) struct Peer {
    id: u64,
    folder: String,
    client: Result<PeersClient<Channel>, String>,
}

/// A channel to `host:port`, connected when it is used.
pub(crate) fn client(address: &str) -> Result<PeersClient<Channel>, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| format!("{address}: {error}"))?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(5))
        .keep_alive_timeout(Duration::from_secs(2))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20);
    Ok(PeersClient::new(endpoint.connect_lazy())
        .max_decoding_message_size(MESSAGE)
        .max_encoding_message_size(MESSAGE))
}

/// Asks whoever listens at `address` who it is.
pub(crate) async fn hello(address: &str) -> Result<(u64, Member, bool), String> {
    let mut client = client(address)?;
    let asked = client.hello(peer::HelloRequest {});
    let reply = tokio::time::timeout(CONNECT * 2, asked)
        .await
        .map_err(|_| format!("{address} does not answer"))?
        .map_err(|status| format!("{address}: {}", status.message()))?
        .into_inner();
    let fresh = reply.fresh;
    match reply.node {
        Some(node) => {
            let (id, member) = node_from_wire(node);
            Ok((id, member, fresh))
        }
        None => Err(format!("{address} does not say who it is")),
    }
}

impl RaftNetworkFactory<Group> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Member) -> Peer {
        let address = self.addresses.get(&target).unwrap_or(&node.peer);
        Peer {
            id: target,
            folder: node.folder.clone(),
            client: client(address),
        }
    }
}

fn failed(status: &Status) -> RPCError<Group> {
    match status.code() {
        Code::Unavailable | Code::FailedPrecondition => {
            RPCError::Unreachable(Unreachable::from_string(status.message()))
        }
        _ => RPCError::Network(NetworkError::from_string(status.message())),
    }
}

fn odd(why: impl std::fmt::Display) -> RPCError<Group> {
    RPCError::Network(NetworkError::from_string(why))
}

impl Peer {
    fn to(&self) -> Option<peer::To> {
        Some(peer::To {
            id: self.id,
            folder: self.folder.clone(),
        })
    }

    fn client(&self) -> Result<PeersClient<Channel>, RPCError<Group>> {
        match &self.client {
            Ok(client) => Ok(client.clone()),
            Err(why) => Err(RPCError::Unreachable(Unreachable::from_string(why))),
        }
    }

    async fn ask_vote(
        &self,
        rpc: VoteRequest<Group>,
        probe: bool,
        within: Duration,
    ) -> Result<VoteResponse<Group>, RPCError<Group>> {
        let mut client = self.client()?;
        let request = peer::VoteRequest {
            to: self.to(),
            vote: Some(vote_to_wire(&rpc.vote)),
            last: rpc.last_log_id.as_ref().map(place),
            transfer: rpc.leadership_transfer,
            probe,
        };
        let reply = in_time(within, client.vote(request)).await?;
        let last = placed(reply.last).map_err(odd)?;
        Ok(VoteResponse::new(
            vote(reply.vote).map_err(odd)?,
            last,
            reply.granted,
        ))
    }
}

async fn in_time<T>(
    within: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, RPCError<Group>> {
    match tokio::time::timeout(within, call).await {
        Ok(Ok(reply)) => Ok(reply.into_inner()),
        Ok(Err(status)) => Err(failed(&status)),
        Err(_) => Err(odd("no answer in time")),
    }
}

impl RaftNetworkV2<Group> for Peer {
    type SnapshotData = CheckpointData;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Group>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Group>, RPCError<Group>> {
        let mut client = self.client()?;
        let within = if rpc.entries.is_empty() {
            option.hard_ttl()
        } else {
            APPEND
        };
        let request = peer::AppendRequest {
            to: self.to(),
            vote: Some(vote_to_wire(&rpc.vote)),
            previous: rpc.prev_log_id.as_ref().map(place),
            committed: rpc.leader_commit.as_ref().map(place),
            records: rpc.entries.iter().map(entry_to_wire).collect(),
        };
        let reply = in_time(within, client.append(request)).await?;
        use peer::append_reply::Outcome;
        match reply.outcome {
            Some(Outcome::Done(_)) => Ok(AppendEntriesResponse::Success),
            Some(Outcome::Part(part)) => Ok(AppendEntriesResponse::PartialSuccess(
                placed(part.reached).map_err(odd)?,
            )),
            Some(Outcome::Conflict(_)) => Ok(AppendEntriesResponse::Conflict),
            Some(Outcome::Higher(higher)) => Ok(AppendEntriesResponse::HigherVote(
                vote(Some(higher)).map_err(odd)?,
            )),
            None => Err(odd("an answer that says nothing")),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Group>,
        option: RPCOption,
    ) -> Result<VoteResponse<Group>, RPCError<Group>> {
        self.ask_vote(rpc, false, option.hard_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Group>,
        option: RPCOption,
    ) -> Result<VoteResponse<Group>, RPCError<Group>> {
        self.ask_vote(rpc, true, option.hard_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::type_config::alias::SnapshotOf<Group, CheckpointData>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Group>, StreamingError<Group>> {
        let mut client = self.client()?;
        let head = peer::SnapshotHead {
            to: self.to(),
            vote: Some(vote_to_wire(&vote)),
            last: snapshot.meta.last_log_id.as_ref().map(place),
            members: Some(stored_to_wire(&snapshot.meta.last_membership)),
            bytes: snapshot.snapshot.file.metadata().map_err(odd)?.len(),
        };
        let (out, pieces) = mpsc::channel(4);
        let sending = tokio::task::spawn_blocking(move || send(snapshot.snapshot, head, &out));
        let sent = in_time(
            option.hard_ttl(),
            client.snapshot(ReceiverStream::new(pieces)),
        );
        let reply = tokio::select! {
            reply = sent => reply?,
            closed = cancel => return Err(closed.into()),
        };
        match sending.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(odd(error).into()),
            Err(error) => return Err(odd(error).into()),
        }
        Ok(SnapshotResponse::new(
            super::types::vote(reply.vote).map_err(odd)?,
        ))
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<Group>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Group>, RPCError<Group>> {
        let mut client = self.client()?;
        let request = peer::TransferRequest {
            to: self.to(),
            from: Some(vote_to_wire(rpc.from_leader())),
            node: *rpc.to_node_id(),
            last: rpc.last_log_id().map(|id: &LogId| place(id)),
        };
        let reply = in_time(option.hard_ttl(), client.transfer(request)).await?;
        if reply.refused.is_empty() {
            Ok(Ok(()))
        } else {
            Err(odd(reply.refused))
        }
    }
}

fn send(
    data: CheckpointData,
    head: peer::SnapshotHead,
    out: &mpsc::Sender<peer::SnapshotPiece>,
) -> std::io::Result<()> {
    let mut file = data.file;
    let mut head = Some(head);
    loop {
        let mut body = Vec::with_capacity(PIECE);
        file.by_ref().take(PIECE as u64).read_to_end(&mut body)?;
        if body.is_empty() && head.is_none() {
            return Ok(());
        }
        let piece = peer::SnapshotPiece {
            head: head.take(),
            sum: super::service::sum(&body),
            body: Bytes::from(body),
        };
        if out.blocking_send(piece).is_err() {
            return Err(std::io::Error::other("the peer takes no more"));
        }
    }
}
