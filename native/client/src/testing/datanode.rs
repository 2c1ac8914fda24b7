//! A datanode in memory that fails when a test says so.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use append_wire::checksum;
use append_wire::datanode::xceiver_client_protocol_service_server::{
    XceiverClientProtocolService, XceiverClientProtocolServiceServer,
};
use append_wire::datanode::{
    BlockData, ChunkInfo, ContainerCommandRequestProto, ContainerCommandResponseProto,
    DatanodeBlockId, FinalizeBlockResponseProto, GetBlockResponseProto,
    GetCommittedBlockLengthResponseProto, KeyValue, PutBlockResponseProto, ReadChunkResponseProto,
    Result as Code, Type, WriteChunkResponseProto, read_chunk_response_proto::ResponseData,
};
use append_wire::hdds::{
    DatanodeDetailsProto, DatanodeIdProto, Pipeline, PipelineId, Port, ReplicationType, Uuid,
};
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// What a datanode does with a request instead of serving it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Refuse(Code),
    /// Ends the stream without an answer.
    Break,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct FakeBlock {
    pub(crate) data: Vec<u8>,
    pub(crate) chunks: Vec<ChunkInfo>,
    pub(crate) committed: u64,
    pub(crate) metadata: BTreeMap<String, String>,
    /// Chunks that each commit named.
    pub(crate) named: Vec<usize>,
    /// Closed to writers.
    pub(crate) finalized: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) blocks: BTreeMap<i64, FakeBlock>,
    /// By number of the request.
    pub(crate) faults: BTreeMap<usize, Fault>,
    /// Every request fails.
    pub(crate) down: bool,
    /// Requests wait until this is taken back.
    pub(crate) held: bool,
    pub(crate) requests: usize,
}

/// A datanode, gone when this is dropped.
pub(crate) struct FakeDatanode {
    number: i64,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

impl FakeDatanode {
    pub(crate) async fn start(number: i64) -> FakeDatanode {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let service = XceiverClientProtocolServiceServer::new(Service(Arc::clone(&state)))
            .max_decoding_message_size(64 << 20);
        let task = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        FakeDatanode {
            number,
            address,
            state,
            task,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn id(&self) -> String {
        uuid::Uuid::from_u64_pair(0, self.number.cast_unsigned()).to_string()
    }

    /// The pipeline of this datanode alone.
    pub(crate) fn pipeline(&self) -> Pipeline {
        let uuid = Uuid {
            most_sig_bits: 0,
            least_sig_bits: self.number,
        };
        Pipeline {
            members: vec![DatanodeDetailsProto {
                ip_address: self.address.ip().to_string(),
                ports: vec![Port {
                    name: "STANDALONE".to_owned(),
                    value: self.address.port().into(),
                }],
                id: Some(DatanodeIdProto { uuid }),
                ..DatanodeDetailsProto::default()
            }],
            r#type: Some(ReplicationType::StandAlone.into()),
            id: PipelineId {
                id: None,
                uuid128: Some(uuid),
            },
            ..Pipeline::default()
        }
    }
}

impl Drop for FakeDatanode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Service(Arc<Mutex<State>>);

type Answers =
    Pin<Box<dyn Stream<Item = Result<ContainerCommandResponseProto, Status>> + Send + 'static>>;

#[tonic::async_trait]
impl XceiverClientProtocolService for Service {
    type sendStream = Answers;

    async fn send(
        &self,
        requests: Request<Streaming<ContainerCommandRequestProto>>,
    ) -> Result<Response<Answers>, Status> {
        let mut requests = requests.into_inner();
        let (answers, stream) = mpsc::channel(16);
        let state = Arc::clone(&self.0);
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                while state.lock().unwrap().held {
                    tokio::task::yield_now().await;
                }
                let answer = serve(&mut state.lock().unwrap(), &request);
                let Some(answer) = answer else { return };
                if answers.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

fn serve(
    state: &mut State,
    request: &ContainerCommandRequestProto,
) -> Option<ContainerCommandResponseProto> {
    let number = state.requests;
    state.requests += 1;
    let answer = |code: Code| ContainerCommandResponseProto {
        cmd_type: request.cmd_type,
        result: code.into(),
        message: Some("as told".to_owned()),
        ..ContainerCommandResponseProto::default()
    };
    if state.down {
        return None;
    }
    match state.faults.get(&number) {
        Some(Fault::Break) => return None,
        Some(Fault::Refuse(code)) => return Some(answer(*code)),
        None => {}
    }
    let mut done = answer(Code::Success);
    match request.cmd_type() {
        Type::WriteChunk => {
            let write = request.write_chunk.as_ref().unwrap();
            let chunk = write.chunk_data.as_ref().unwrap();
            let data = write.data.as_ref().unwrap();
            if chunk.len == 0 {
                return Some(answer(Code::MalformedRequest));
            }
            checksum::verify(data, &chunk.checksum_data, 0).unwrap();
            let block = state.blocks.entry(write.block_id.local_id).or_default();
            if block.finalized {
                return Some(answer(Code::ClosedContainerIo));
            }
            let offset = usize::try_from(chunk.offset).unwrap();
            if offset > block.data.len() {
                return Some(answer(Code::ChunkFileInconsistency));
            }
            block.data.truncate(offset);
            block.data.extend_from_slice(data);
            let committed = write
                .block
                .as_ref()
                .map(|put| commit(state, &put.block_data));
            done.write_chunk = Some(Box::new(WriteChunkResponseProto {
                committed_block_length: committed,
            }));
        }
        Type::PutBlock => {
            let put = request.put_block.as_ref().unwrap();
            done.put_block = Some(Box::new(PutBlockResponseProto {
                committed_block_length: commit(state, &put.block_data),
            }));
        }
        Type::FinalizeBlock => {
            let id = &request.finalize_block.as_ref().unwrap().block_id;
            let Some(block) = state
                .blocks
                .get_mut(&id.local_id)
                .filter(|b| b.committed > 0)
            else {
                return Some(answer(Code::NoSuchBlock));
            };
            block.finalized = true;
            done.finalize_block = Some(Box::new(FinalizeBlockResponseProto {
                block_data: BlockData {
                    block_id: *id,
                    metadata: block
                        .metadata
                        .iter()
                        .map(|(key, value)| KeyValue {
                            key: key.clone(),
                            value: Some(value.clone()),
                        })
                        .collect(),
                    chunks: block.chunks.clone(),
                    size: i64::try_from(block.committed).ok(),
                    ..BlockData::default()
                },
            }));
        }
        Type::GetBlock => {
            let id = &request.get_block.as_ref().unwrap().block_id;
            let Some(block) = state.blocks.get(&id.local_id) else {
                return Some(answer(Code::NoSuchBlock));
            };
            done.get_block = Some(Box::new(GetBlockResponseProto {
                block_data: BlockData {
                    block_id: *id,
                    chunks: block.chunks.clone(),
                    size: i64::try_from(block.committed).ok(),
                    ..BlockData::default()
                },
                short_circuit_access_granted: None,
            }));
        }
        Type::ReadChunk => {
            let read = request.read_chunk.as_ref().unwrap();
            let block = &state.blocks[&read.block_id.local_id];
            let from = usize::try_from(read.chunk_data.offset).unwrap();
            let length = usize::try_from(read.chunk_data.len).unwrap();
            let data = Bytes::copy_from_slice(&block.data[from..from + length]);
            done.read_chunk = Some(Box::new(ReadChunkResponseProto {
                block_id: read.block_id,
                chunk_data: read.chunk_data.clone(),
                response_data: Some(ResponseData::Data(data)),
            }));
        }
        other => panic!("{other:?} is not served"),
    }
    Some(done)
}

fn commit(state: &mut State, put: &BlockData) -> GetCommittedBlockLengthResponseProto {
    let id: DatanodeBlockId = put.block_id;
    let block = state.blocks.entry(id.local_id).or_default();
    block.metadata = put
        .metadata
        .iter()
        .map(|pair| (pair.key.clone(), pair.value().to_owned()))
        .collect();
    block.named.push(put.chunks.len());
    if block.metadata.contains_key("incremental") {
        if let Some(first) = put.chunks.first() {
            block.chunks.retain(|chunk| chunk.offset < first.offset);
        }
        block.chunks.extend(put.chunks.iter().cloned());
    } else {
        block.chunks.clone_from(&put.chunks);
    }
    let mut end = 0;
    for chunk in &block.chunks {
        assert_eq!(chunk.offset, end, "chunks with a gap");
        end += chunk.len;
    }
    assert!(
        usize::try_from(end).unwrap() <= block.data.len(),
        "a commit without its bytes"
    );
    assert!(end >= block.committed, "a commit that cuts a block");
    block.committed = end;
    GetCommittedBlockLengthResponseProto {
        block_id: id,
        block_length: i64::try_from(end).unwrap(),
    }
}
