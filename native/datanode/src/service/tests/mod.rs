//! The service over a real connection on loopback.

mod bad_input;
mod blocks;
mod lines;
mod process;

use std::path::Path;

use append_wire::datanode as dn;
use append_wire::datanode::xceiver_client_protocol_service_client::XceiverClientProtocolServiceClient;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};

use crate::store::{ChecksumKind, compute_checksums, to_u64};
use crate::{BlockId, Datanode, MAX_MESSAGE_LEN, ServeError, StoreOptions};

pub(super) type Client = XceiverClientProtocolServiceClient<Channel>;

/// A datanode that serves on a port of its own.
pub(super) struct Running {
    pub(super) datanode: Datanode,
    pub(super) port: u16,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    pub(super) async fn start(dir: &Path) -> Self {
        Self::serve(Datanode::open(dir, StoreOptions::default()).unwrap()).await
    }

    pub(super) async fn serve(datanode: Datanode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn({
            let datanode = datanode.clone();
            async move {
                datanode
                    .serve_on(listener, async {
                        stopped.await.ok();
                    })
                    .await
            }
        });
        Self {
            datanode,
            port,
            stop,
            serving,
        }
    }

    pub(super) async fn client(&self) -> Client {
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port))
            .unwrap()
            .connect()
            .await
            .unwrap();
        XceiverClientProtocolServiceClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_LEN)
            .max_encoding_message_size(MAX_MESSAGE_LEN)
    }

    /// Stops serving and closes the store.
    pub(super) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap().unwrap();
    }

    /// How serving ended by itself.
    pub(super) async fn ended(self) -> Result<(), ServeError> {
        self.serving.await.unwrap()
    }
}

/// Sends all requests on one stream and collects the answers.
pub(super) async fn send_all(
    client: &mut Client,
    requests: Vec<dn::ContainerCommandRequestProto>,
) -> Result<Vec<dn::ContainerCommandResponseProto>, tonic::Status> {
    let answers = client.send(tokio_stream::iter(requests)).await?;
    answers.into_inner().collect().await
}

/// One request, one answer.
pub(super) async fn send(
    client: &mut Client,
    request: dn::ContainerCommandRequestProto,
) -> dn::ContainerCommandResponseProto {
    let mut answers = send_all(client, vec![request]).await.unwrap();
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

pub(super) fn request(kind: dn::Type, id: BlockId) -> dn::ContainerCommandRequestProto {
    dn::ContainerCommandRequestProto {
        cmd_type: kind.into(),
        trace_id: Some("trace".to_owned()),
        container_id: id.container,
        version: Some(3),
        ..Default::default()
    }
}

pub(super) fn wire_id(id: BlockId) -> dn::DatanodeBlockId {
    dn::DatanodeBlockId {
        container_id: id.container,
        local_id: id.local,
        block_commit_sequence_id: None,
        replica_index: None,
    }
}

pub(super) fn info(offset: u64, data: &[u8]) -> dn::ChunkInfo {
    let sums = compute_checksums(ChecksumKind::Crc32c, 16384, data);
    dn::ChunkInfo {
        chunk_name: format!("chunk_{offset}"),
        offset,
        len: to_u64(data.len()),
        metadata: Vec::new(),
        checksum_data: dn::ChecksumData {
            r#type: dn::ChecksumType::Crc32c.into(),
            bytes_per_checksum: 16384,
            checksums: sums.values.chunks(4).map(Bytes::copy_from_slice).collect(),
        },
        stripe_checksum: None,
    }
}

pub(super) fn put_payload(id: BlockId, chunks: Vec<dn::ChunkInfo>) -> dn::PutBlockRequestProto {
    dn::PutBlockRequestProto {
        block_data: dn::BlockData {
            block_id: wire_id(id),
            flags: None,
            metadata: vec![dn::KeyValue {
                key: "appendStart".to_owned(),
                value: Some("0".to_owned()),
            }],
            chunks,
            size: None,
        },
        eof: Some(false),
        container_auto_create: None,
    }
}

pub(super) fn put_block(
    id: BlockId,
    chunks: Vec<dn::ChunkInfo>,
) -> dn::ContainerCommandRequestProto {
    dn::ContainerCommandRequestProto {
        put_block: Some(Box::new(put_payload(id, chunks))),
        ..request(dn::Type::PutBlock, id)
    }
}

pub(super) fn write_chunk(
    id: BlockId,
    offset: u64,
    data: &[u8],
    block: Option<dn::PutBlockRequestProto>,
) -> dn::ContainerCommandRequestProto {
    dn::ContainerCommandRequestProto {
        write_chunk: Some(Box::new(dn::WriteChunkRequestProto {
            block_id: wire_id(id),
            chunk_data: Some(info(offset, data)),
            data: Some(Bytes::copy_from_slice(data)),
            block,
            container_auto_create: None,
        })),
        ..request(dn::Type::WriteChunk, id)
    }
}

/// Writes a block of one chunk in one request.
pub(super) async fn write_block(client: &mut Client, id: BlockId, data: &[u8]) {
    let put = put_payload(id, vec![info(0, data)]);
    let answer = send(client, write_chunk(id, 0, data, Some(put))).await;
    assert_eq!(answer.result(), dn::Result::Success, "{answer:?}");
    let committed = answer.write_chunk.unwrap().committed_block_length.unwrap();
    assert_eq!(committed.block_length, i64::try_from(data.len()).unwrap());
}

pub(super) fn get_block(id: BlockId) -> dn::ContainerCommandRequestProto {
    dn::ContainerCommandRequestProto {
        get_block: Some(Box::new(dn::GetBlockRequestProto {
            block_id: wire_id(id),
            request_short_circuit_access: None,
        })),
        ..request(dn::Type::GetBlock, id)
    }
}

pub(super) fn read_chunk(id: BlockId, offset: u64, len: u64) -> dn::ContainerCommandRequestProto {
    dn::ContainerCommandRequestProto {
        read_chunk: Some(Box::new(dn::ReadChunkRequestProto {
            block_id: wire_id(id),
            chunk_data: dn::ChunkInfo {
                offset,
                len,
                ..info(0, &[])
            },
            read_chunk_version: None,
        })),
        ..request(dn::Type::ReadChunk, id)
    }
}

pub(super) fn data_of(answer: dn::ContainerCommandResponseProto) -> Bytes {
    use dn::read_chunk_response_proto::ResponseData;
    match answer.read_chunk.unwrap().response_data {
        Some(ResponseData::Data(data)) => data,
        other => panic!("{other:?}"),
    }
}

pub(super) fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i * 31 + seed * 17 + i / 251) % 256).to_le_bytes()[0])
        .collect()
}
