//! One block that is being written: chunks and commits to all its datanodes, and how far they answered.
//!
//! Chunks lie one behind the other from offset 0. A chunk's bytes are safe when a commit (PutBlock) that covers them was
//! answered by every datanode; what is behind that, the writer keeps.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use append_wire::checksum;
use append_wire::datanode::{
    BlockData, ChecksumType, ChunkInfo, ContainerCommandRequestProto, DatanodeBlockId, KeyValue,
    PutBlockRequestProto, Result as Code, Type, WriteChunkRequestProto,
};
use append_wire::hdds::ReplicationType;
use append_wire::om::KeyLocation;
use bytes::Bytes;
use tokio::sync::oneshot;

use super::session::Location;
use crate::Result;
use crate::dn::{BlockAddress, Datanode, Datanodes, DnError, Pipe, Reply, SMALL, exchange};
use crate::error::{Error, ErrorKind};

/// Says in a commit that its list begins at the first chunk that is new.
const INCREMENTAL: &str = "incremental";

/// Chunks in a commit that is small.
const FEW_CHUNKS: usize = 64;

/// Names in a commit where in the file the block begins.
const APPEND_START: &str = "appendStart";

/// How chunks are cut and checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkRules {
    pub(super) checksum_type: ChecksumType,
    pub(super) bytes_per_checksum: u32,
    /// The datanodes take commits that name only new chunks.
    pub(super) incremental: bool,
    /// How long a datanode may take to answer.
    pub(super) timeout: Duration,
}

/// A datanode of the block failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) node: String,
    pub(super) error: DnError,
}

impl Failure {
    /// The same request may work on the same block.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.error, DnError::Unreachable { .. })
    }

    /// The datanode, not only the block, is no good for now.
    pub(super) fn is_nodes(&self) -> bool {
        match &self.error {
            DnError::Unreachable { .. } => true,
            DnError::Refused { code, .. } => matches!(
                code,
                Code::DiskOutOfSpace
                    | Code::IoException
                    | Code::ContainerInternalError
                    | Code::UnableToFindDataDir
                    | Code::ErrorInDbSync
            ),
        }
    }
}

/// A datanode of the block.
#[derive(Debug)]
struct Member {
    node: Arc<Datanode>,
    /// Made with the first request that is not small.
    pipe: Option<Pipe>,
}

impl Member {
    fn send(&mut self, request: ContainerCommandRequestProto, small: bool) -> Awaited {
        if small {
            let exchange = exchange(Arc::clone(&self.node), request);
            return Awaited::Exchange(Box::pin(exchange));
        }
        let pipe = match self.pipe.take() {
            Some(pipe) => Ok(pipe),
            None => Pipe::open(Arc::clone(&self.node)),
        };
        match pipe {
            Ok(pipe) => Awaited::Piped(self.pipe.insert(pipe).send(request)),
            Err(error) => {
                let (reply, receiver) = oneshot::channel();
                let _ = reply.send(Err(DnError::Unreachable {
                    node: self.node.id().to_owned(),
                    why: error.to_string(),
                }));
                Awaited::Piped(receiver)
            }
        }
    }
}

/// An answer that will come.
enum Awaited {
    Piped(oneshot::Receiver<Reply>),
    Exchange(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl std::fmt::Debug for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Awaited::Piped(_) => "Piped",
            Awaited::Exchange(_) => "Exchange",
        })
    }
}

#[derive(Debug)]
struct Pending {
    /// By member; those that answered are gone.
    replies: Vec<(usize, Awaited)>,
    /// The length that a commit in the request names.
    commit: Option<u64>,
}

#[derive(Debug)]
pub(super) struct BlockWriter {
    address: BlockAddress,
    rules: ChunkRules,
    /// Offset in the file of the block's first byte.
    start: u64,
    /// Told to the datanodes, for sessions.
    names_start: bool,
    capacity: u64,
    sent: u64,
    /// Length that the last requested commit names.
    asked: u64,
    committed: u64,
    bcsid: u64,
    /// Chunks that the next commit names.
    chunks: Vec<ChunkInfo>,
    chunk_number: u64,
    members: Vec<Member>,
    pending: VecDeque<Pending>,
}

impl BlockWriter {
    /// Opens a block that the OM gave. Nothing is sent yet.
    pub(super) fn open(
        datanodes: &Datanodes,
        location: &KeyLocation,
        start: u64,
        largest: u64,
        names_start: bool,
        rules: ChunkRules,
    ) -> Result<BlockWriter> {
        let address = BlockAddress::of(location);
        let kind = address.pipeline.r#type();
        if kind != ReplicationType::StandAlone {
            return Err(Error::unsupported(format!(
                "writing to a pipeline of type {} is not built yet: choose STAND_ALONE",
                kind.as_str_name()
            )));
        }
        let mut block = BlockWriter {
            rules,
            start,
            names_start,
            capacity: location.length.min(largest).max(1),
            sent: 0,
            asked: 0,
            committed: 0,
            bcsid: address.bcsid,
            chunks: Vec::new(),
            chunk_number: 0,
            members: Vec::new(),
            pending: VecDeque::new(),
            address,
        };
        block.connect(datanodes)?;
        Ok(block)
    }

    fn connect(&mut self, datanodes: &Datanodes) -> Result<()> {
        let members = datanodes.members(&self.address.pipeline)?;
        self.members = members
            .into_iter()
            .map(|node| Member { node, pipe: None })
            .collect();
        Ok(())
    }

    /// Goes back to what is committed, on new streams: everything behind it is to be sent again.
    pub(super) fn reopen(&mut self, datanodes: &Datanodes) -> Result<()> {
        self.pending.clear();
        self.chunks.retain(|chunk| chunk.offset < self.committed);
        if self.rules.incremental {
            self.chunks.clear();
        }
        self.sent = self.committed;
        self.asked = self.committed;
        self.connect(datanodes)
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn room(&self) -> u64 {
        self.capacity - self.sent
    }

    /// Bytes that no requested commit covers.
    pub(super) fn loose(&self) -> u64 {
        self.sent - self.asked
    }

    pub(super) fn committed(&self) -> u64 {
        self.committed
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What of it can be published; nothing as long as nothing is committed.
    pub(super) fn location(&self) -> Option<Location> {
        (self.committed > 0).then(|| Location::of(&self.address, self.bcsid, self.committed))
    }

    /// Sends the next bytes, with a commit of everything so far if `commit`; `last` says that the block ends here.
    pub(super) fn send(&mut self, data: Bytes, commit: bool, last: bool) -> Result<()> {
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        let rules = self.rules;
        let sums = checksum::compute(&data, rules.checksum_type, rules.bytes_per_checksum)
            .map_err(|e| Error::new(ErrorKind::InvalidArgument, e.to_string()))?;
        self.chunk_number += 1;
        let chunk = ChunkInfo {
            chunk_name: format!("{}_chunk_{}", self.address.local, self.chunk_number),
            offset: self.sent,
            len: length,
            checksum_data: sums,
            ..ChunkInfo::default()
        };
        self.chunks.push(chunk.clone());
        self.sent += length;
        let block = commit.then(|| self.commit_request(last));
        let id = self.block_id();
        let small = commit && data.len() <= SMALL;
        self.dispatch(block.is_some(), small, |request| {
            request.cmd_type = Type::WriteChunk.into();
            request.write_chunk = Some(Box::new(WriteChunkRequestProto {
                block_id: id,
                chunk_data: Some(chunk.clone()),
                data: Some(data.clone()),
                block: block.clone(),
                container_auto_create: None,
            }));
        });
        Ok(())
    }

    /// Commits everything sent so far.
    pub(super) fn commit(&mut self, last: bool) {
        let block = self.commit_request(last);
        let small = block.block_data.chunks.len() <= FEW_CHUNKS;
        self.dispatch(true, small, |request| {
            request.cmd_type = Type::PutBlock.into();
            request.put_block = Some(Box::new(block.clone()));
        });
    }

    fn block_id(&self) -> DatanodeBlockId {
        DatanodeBlockId {
            block_commit_sequence_id: Some(self.bcsid),
            ..self.address.id()
        }
    }

    fn commit_request(&mut self, last: bool) -> PutBlockRequestProto {
        let pair = |key: &str, value: Option<String>| KeyValue {
            key: key.to_owned(),
            value,
        };
        let mut metadata = vec![pair("TYPE", Some("KEY".to_owned()))];
        if self.names_start {
            metadata.push(pair(APPEND_START, Some(self.start.to_string())));
        }
        let chunks = if self.rules.incremental {
            metadata.push(pair(INCREMENTAL, None));
            std::mem::take(&mut self.chunks)
        } else {
            self.chunks.clone()
        };
        PutBlockRequestProto {
            block_data: BlockData {
                block_id: self.block_id(),
                metadata,
                chunks,
                size: i64::try_from(self.sent).ok(),
                ..BlockData::default()
            },
            eof: Some(last),
            container_auto_create: None,
        }
    }

    fn dispatch(
        &mut self,
        commits: bool,
        small: bool,
        fill: impl Fn(&mut ContainerCommandRequestProto),
    ) {
        // Whatever is under way keeps its order by being in one pipe.
        let small = small && self.pending.is_empty();
        let mut replies = Vec::with_capacity(self.members.len());
        for (index, member) in self.members.iter_mut().enumerate() {
            let mut request = member.node.request(Type::UnsetCommand, &self.address);
            fill(&mut request);
            let small = small && member.node.has_lines();
            replies.push((index, member.send(request, small)));
        }
        if commits {
            self.asked = self.sent;
        }
        self.pending.push_back(Pending {
            replies,
            commit: commits.then_some(self.sent),
        });
    }

    /// Waits for the oldest request to be answered by all datanodes. Can be given up and called again.
    pub(super) async fn settle_one(&mut self) -> std::result::Result<(), Failure> {
        let Some(front) = self.pending.front_mut() else {
            return Ok(());
        };
        while let Some((member, reply)) = front.replies.last_mut() {
            let node = self.members.get(*member).map(|member| &member.node);
            let id = node.map(|node| node.id().to_owned()).unwrap_or_default();
            let failed = |why: &str| DnError::Unreachable {
                node: id.clone(),
                why: why.to_owned(),
            };
            let reply = match reply {
                Awaited::Piped(reply) => tokio::time::timeout(self.rules.timeout, reply).await,
                // It ends in time by itself.
                Awaited::Exchange(reply) => Ok(Ok(reply.await)),
            };
            let answer = match reply {
                Ok(Ok(Ok(answer))) => answer,
                Ok(Ok(Err(error))) => return Err(Failure { node: id, error }),
                Ok(Err(_)) => {
                    let error = failed("the stream has ended");
                    return Err(Failure { node: id, error });
                }
                Err(_) => {
                    let error = failed("no answer in time");
                    return Err(Failure { node: id, error });
                }
            };
            let committed = answer
                .write_chunk
                .as_ref()
                .and_then(|written| written.committed_block_length.as_ref())
                .or_else(|| {
                    let put = answer.put_block.as_ref();
                    put.map(|put| &put.committed_block_length)
                });
            if let Some(expected) = front.commit {
                let told = committed.map(|told| told.block_length);
                if told.and_then(|told| u64::try_from(told).ok()) != Some(expected) {
                    let error = DnError::Refused {
                        node: id.clone(),
                        code: Code::MalformedRequest,
                        why: format!("it committed {told:?} bytes instead of {expected}"),
                    };
                    return Err(Failure { node: id, error });
                }
                let bcsid = committed.map(|told| told.block_id.block_commit_sequence_id());
                self.bcsid = self.bcsid.max(bcsid.unwrap_or_default());
            }
            front.replies.pop();
        }
        if let Some(settled) = self.pending.pop_front()
            && let Some(length) = settled.commit
        {
            self.committed = length;
        }
        Ok(())
    }
}
