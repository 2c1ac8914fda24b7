//! Single messages to the server, for what no client of ours leaves behind: a helper that stops between two steps, a block whose last
//! acknowledgement was lost, a call that is sent twice.

use append_e2e::{Server, path};
use append_wire::datanode::xceiver_client_protocol_service_client::XceiverClientProtocolServiceClient;
use append_wire::datanode::{
    BlockData, ChecksumData, ChecksumType, ChunkInfo, ContainerCommandRequestProto,
    DatanodeBlockId, PutBlockRequestProto, Result as Told, Type as DatanodeType,
    WriteChunkRequestProto,
};
use append_wire::invocation::InvocationId;
use append_wire::om::append_file_request::CreateMode;
use append_wire::om::ozone_manager_service_client::OzoneManagerServiceClient;
use append_wire::om::{
    AllocateBlockRequest, AppendFileRequest, AppendFileResponse, AppendHandle, CommitKeyRequest,
    KeyArgs, KeyLocation, OmRequest, OmResponse, RecoverLeaseRequest, RecoverLeaseResponse, Status,
    Type, UserInfo,
};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::transport::{Channel, Endpoint};

/// A client of its own.
pub(crate) struct Raw {
    om: OzoneManagerServiceClient<Channel>,
    datanode: XceiverClientProtocolServiceClient<Channel>,
    client: [u8; 8],
    next: u64,
}

/// Names in a commit where in the file the block begins.
const APPEND_START: &str = "appendStart";

fn args(name: &str) -> KeyArgs {
    let path = path(name);
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let mut part = || parts.next().unwrap().to_owned();
    KeyArgs {
        volume_name: part(),
        bucket_name: part(),
        key_name: part(),
        ..KeyArgs::default()
    }
}

impl Raw {
    pub(crate) async fn connect(server: &Server) -> Raw {
        static CLIENTS: AtomicU64 = AtomicU64::new(1);
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
        let channel = endpoint.connect().await.unwrap();
        Raw {
            om: OzoneManagerServiceClient::new(channel.clone()),
            datanode: XceiverClientProtocolServiceClient::new(channel),
            client: CLIENTS.fetch_add(1, Ordering::Relaxed).to_be_bytes(),
            next: 1,
        }
    }

    /// The same client, connected anew.
    pub(crate) async fn again(self, server: &Server) -> Raw {
        let new = Raw::connect(server).await;
        Raw {
            client: self.client,
            next: self.next,
            ..new
        }
    }

    /// A request with an identity of its own.
    pub(crate) fn request(
        &mut self,
        command: Type,
        fill: impl FnOnce(&mut OmRequest),
    ) -> OmRequest {
        let mut request = OmRequest {
            cmd_type: command.into(),
            client_id: "raw".to_owned(),
            version: Some(3),
            user_info: Some(UserInfo {
                user_name: Some("ann".to_owned()),
                ..UserInfo::default()
            }),
            ..OmRequest::default()
        };
        fill(&mut request);
        request.invocation_id = Some(
            InvocationId {
                client: self.client,
                sequence: self.next,
            }
            .into(),
        );
        self.next += 1;
        request
    }

    pub(crate) async fn send(&mut self, request: &OmRequest) -> OmResponse {
        self.om
            .submit_request(request.clone())
            .await
            .unwrap()
            .into_inner()
    }

    async fn ok(&mut self, request: &OmRequest) -> OmResponse {
        let response = self.send(request).await;
        assert_eq!(response.status(), Status::Ok, "{}", response.message());
        response
    }

    pub(crate) fn admission(&mut self, name: &str) -> OmRequest {
        self.request(Type::AppendFile, |r| {
            r.append_file_request = Some(Box::new(AppendFileRequest {
                key_args: args(name),
                create: Some(CreateMode::No.into()),
                preallocate: Some(1),
                ..AppendFileRequest::default()
            }));
        })
    }

    pub(crate) async fn append(&mut self, name: &str) -> AppendFileResponse {
        let request = self.admission(name);
        *self.ok(&request).await.append_file_response.unwrap()
    }

    pub(crate) async fn allocate(&mut self, name: &str, handle: AppendHandle) -> KeyLocation {
        let request = self.request(Type::AllocateBlock, |r| {
            r.allocate_block_request = Some(Box::new(AllocateBlockRequest {
                key_args: args(name),
                append_handle: Some(handle),
                ..AllocateBlockRequest::default()
            }));
        });
        let response = self.ok(&request).await;
        response
            .allocate_block_response
            .unwrap()
            .key_location
            .unwrap()
    }

    /// Fences the writer, lease or not.
    pub(crate) async fn fence(&mut self, name: &str) -> RecoverLeaseResponse {
        let args = args(name);
        let request = self.request(Type::RecoverLease, |r| {
            r.recover_lease_request = Some(Box::new(RecoverLeaseRequest {
                volume_name: Some(args.volume_name),
                bucket_name: Some(args.bucket_name),
                key_name: Some(args.key_name),
                force: Some(true),
                append_only: Some(true),
            }));
        });
        *self.ok(&request).await.recover_lease_response.unwrap()
    }

    /// Publishes `size` bytes: of a writer by hsync, of a helper as the end of the recovery.
    pub(crate) fn publication(
        &mut self,
        name: &str,
        handle: AppendHandle,
        size: u64,
        blocks: Vec<KeyLocation>,
        recovery: bool,
    ) -> OmRequest {
        self.request(Type::CommitKey, |r| {
            r.commit_key_request = Some(Box::new(CommitKeyRequest {
                key_args: KeyArgs {
                    data_size: Some(size),
                    key_locations: blocks,
                    ..args(name)
                },
                client_id: handle.session_id(),
                hsync: Some(!recovery),
                recovery: Some(recovery),
                append_handle: Some(handle),
            }));
        })
    }

    pub(crate) async fn hsync(
        &mut self,
        name: &str,
        handle: AppendHandle,
        size: u64,
        blocks: Vec<KeyLocation>,
    ) {
        let request = self.publication(name, handle, size, blocks, false);
        self.ok(&request).await;
    }

    /// Writes and commits a block whose first byte is byte `start` of the file.
    pub(crate) async fn write(
        &mut self,
        given: &KeyLocation,
        start: u64,
        bytes: &[u8],
    ) -> KeyLocation {
        let id = given.block_id.container_block_id;
        let length = u64::try_from(bytes.len()).unwrap();
        let block_id = DatanodeBlockId {
            container_id: id.container_id,
            local_id: id.local_id,
            block_commit_sequence_id: Some(0),
            replica_index: None,
        };
        let chunk = ChunkInfo {
            chunk_name: "chunk".to_owned(),
            offset: 0,
            len: length,
            metadata: Vec::new(),
            checksum_data: ChecksumData {
                r#type: ChecksumType::None.into(),
                bytes_per_checksum: 16 << 10,
                checksums: Vec::new(),
            },
            stripe_checksum: None,
        };
        let put = PutBlockRequestProto {
            block_data: BlockData {
                block_id,
                chunks: vec![chunk.clone()],
                size: Some(i64::try_from(length).unwrap()),
                metadata: vec![append_wire::datanode::KeyValue {
                    key: APPEND_START.to_owned(),
                    value: Some(start.to_string()),
                }],
                ..BlockData::default()
            },
            eof: Some(false),
            ..PutBlockRequestProto::default()
        };
        let write = ContainerCommandRequestProto {
            cmd_type: DatanodeType::WriteChunk.into(),
            container_id: id.container_id,
            datanode_uuid: given.pipeline.as_ref().unwrap().members[0]
                .uuid()
                .to_owned(),
            write_chunk: Some(Box::new(WriteChunkRequestProto {
                block_id,
                chunk_data: Some(chunk),
                data: Some(Bytes::copy_from_slice(bytes)),
                block: Some(put),
                ..WriteChunkRequestProto::default()
            })),
            version: Some(3),
            ..ContainerCommandRequestProto::default()
        };
        let mut answers = self
            .datanode
            .send(tokio_stream::iter([write]))
            .await
            .unwrap()
            .into_inner();
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!(answer.result(), Told::Success, "{}", answer.message());
        KeyLocation {
            length,
            pipeline: None,
            ..given.clone()
        }
    }
}
