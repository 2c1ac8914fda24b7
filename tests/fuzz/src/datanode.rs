//! The datanode's service under any messages: those of a stream are answered one by one or the stream ends; garbage in the place of a
//! message ends it. The same for the OM's service over gRPC. No hang, no panic, and others are served.

use std::sync::LazyLock;

use append_wire::datanode as dn;
use append_wire::om::OmResponse;
use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::patch::Input;
use crate::server::{ENV, PATIENCE, requests};

const SEND: &str = "/hadoop.hdds.datanode.XceiverClientProtocolService/send";
const SUBMIT: &str = "/hadoop.ozone.OzoneManagerService/submitRequest";
/// Messages of one stream.
const MESSAGES: usize = 16;

/// Messages as bytes, decoded by nobody.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

static CHANNEL: LazyLock<Channel> = LazyLock::new(|| {
    let endpoint = Endpoint::from_shared(format!("http://{}", ENV.address)).unwrap();
    let _inside = ENV.runtime.enter();
    endpoint.connect_lazy()
});

/// Sends the messages on one stream and gives the answers, and how it ended.
async fn exchange(path: &'static str, messages: Vec<Bytes>) -> (Vec<Bytes>, Result<(), Status>) {
    let mut client = Grpc::new(CHANNEL.clone());
    client.ready().await.unwrap();
    let sent = Request::new(tokio_stream::iter(messages));
    let answered = client
        .streaming(sent, PathAndQuery::from_static(path), Raw)
        .await;
    let mut answers = match answered {
        Ok(answered) => answered.into_inner(),
        Err(status) => return (Vec::new(), Err(status)),
    };
    let mut found = Vec::new();
    loop {
        match answers.message().await {
            Ok(Some(answer)) => found.push(answer),
            Ok(None) => return (found, Ok(())),
            Err(status) => return (found, Err(status)),
        }
    }
}

pub(crate) fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let path = if input.byte() % 4 == 3 { SUBMIT } else { SEND };
    let mut messages = Vec::new();
    while !input.is_empty() && messages.len() < MESSAGES {
        let length = input.number();
        messages.push(Bytes::copy_from_slice(input.take(length)));
    }
    let asked: Vec<_> = messages
        .iter()
        .map(|message| dn::ContainerCommandRequestProto::decode(message.as_ref()))
        .collect();
    // It does what it is asked to: it sleeps.
    let sleeps = asked.iter().flatten().any(|request| {
        request
            .echo
            .as_ref()
            .is_some_and(|echo| echo.sleep_time_ms.is_some_and(|ms| ms > 0))
    });
    if sleeps {
        return;
    }
    let work = async { tokio::time::timeout(PATIENCE, exchange(path, messages)).await };
    let (answers, end) = ENV
        .runtime
        .block_on(work)
        .expect("a stream that neither answers nor ends");
    if path == SUBMIT {
        for answer in answers {
            OmResponse::decode(answer).unwrap();
        }
    } else {
        let one_by_one = asked.iter().all(|request| {
            request
                .as_ref()
                .is_ok_and(|request| request.cmd_type() != dn::Type::ReadBlock)
        });
        if one_by_one && end.is_ok() {
            assert_eq!(answers.len(), asked.len(), "each message has an answer");
        }
        for answer in answers {
            dn::ContainerCommandResponseProto::decode(answer).unwrap();
        }
    }
    ENV.check();
}

fn request(
    kind: dn::Type,
    fill: impl FnOnce(&mut dn::ContainerCommandRequestProto),
) -> dn::ContainerCommandRequestProto {
    let mut request = dn::ContainerCommandRequestProto {
        cmd_type: kind.into(),
        container_id: 1,
        version: Some(3),
        ..dn::ContainerCommandRequestProto::default()
    };
    fill(&mut request);
    request
}

fn block(local: i64) -> dn::DatanodeBlockId {
    dn::DatanodeBlockId {
        container_id: 1,
        local_id: local,
        ..dn::DatanodeBlockId::default()
    }
}

fn chunk(offset: u64, length: u64) -> dn::ChunkInfo {
    dn::ChunkInfo {
        chunk_name: "chunk".to_owned(),
        offset,
        len: length,
        checksum_data: dn::ChecksumData {
            r#type: dn::ChecksumType::None.into(),
            bytes_per_checksum: 16 << 10,
            ..dn::ChecksumData::default()
        },
        ..dn::ChunkInfo::default()
    }
}

fn put(local: i64) -> dn::PutBlockRequestProto {
    dn::PutBlockRequestProto {
        block_data: dn::BlockData {
            block_id: block(local),
            chunks: vec![chunk(0, 4)],
            metadata: vec![dn::KeyValue {
                key: "appendStart".to_owned(),
                value: Some("0".to_owned()),
            }],
            ..dn::BlockData::default()
        },
        ..dn::PutBlockRequestProto::default()
    }
}

/// One message behind its length.
fn framed(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut out = u16::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    out.extend(bytes);
    out
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let write = |local| {
        request(dn::Type::WriteChunk, |r| {
            r.write_chunk = Some(Box::new(dn::WriteChunkRequestProto {
                block_id: block(local),
                chunk_data: Some(chunk(0, 4)),
                data: Some(Bytes::from_static(b"data")),
                block: Some(put(local)),
                ..dn::WriteChunkRequestProto::default()
            }));
        })
    };
    let all = [
        write(1),
        request(dn::Type::PutBlock, |r| r.put_block = Some(Box::new(put(1)))),
        request(dn::Type::GetBlock, |r| {
            r.get_block = Some(Box::new(dn::GetBlockRequestProto {
                block_id: block(1),
                ..dn::GetBlockRequestProto::default()
            }));
        }),
        request(dn::Type::GetCommittedBlockLength, |r| {
            r.get_committed_block_length =
                Some(Box::new(dn::GetCommittedBlockLengthRequestProto {
                    block_id: block(1),
                }));
        }),
        request(dn::Type::ReadChunk, |r| {
            r.read_chunk = Some(Box::new(dn::ReadChunkRequestProto {
                block_id: block(1),
                chunk_data: chunk(1, 2),
                ..dn::ReadChunkRequestProto::default()
            }));
        }),
        request(dn::Type::ReadBlock, |r| {
            r.read_block = Some(Box::new(dn::ReadBlockRequestProto {
                block_id: block(1),
                offset: 1,
                length: Some(2),
                response_data_size: Some(1),
            }));
        }),
        request(dn::Type::ListBlock, |r| {
            r.list_block = Some(Box::new(dn::ListBlockRequestProto {
                start_local_id: Some(0),
                count: 10,
            }));
        }),
        request(dn::Type::PutSmallFile, |r| {
            r.put_small_file = Some(Box::new(dn::PutSmallFileRequestProto {
                block: put(2),
                chunk_info: chunk(0, 4),
                data: Bytes::from_static(b"tiny"),
            }));
        }),
        request(dn::Type::FinalizeBlock, |r| {
            r.finalize_block = Some(Box::new(dn::FinalizeBlockRequestProto {
                block_id: block(2),
            }));
        }),
        request(dn::Type::Echo, |r| {
            r.echo = Some(Box::new(dn::EchoRequestProto {
                payload_size_resp: Some(5),
                ..dn::EchoRequestProto::default()
            }));
        }),
        request(dn::Type::CreateContainer, |_| {}),
        request(dn::Type::DeleteBlock, |_| {}),
    ];
    let mut found: Vec<Vec<u8>> = all
        .iter()
        .map(|request| [vec![0], framed(request)].concat())
        .collect();
    let together: Vec<u8> = all.iter().flat_map(framed).collect();
    found.push([vec![0], together].concat());
    found.push([vec![0], framed(&write(3)), vec![0, 3, 0xff, 0xff, 0xff]].concat());
    for request in requests() {
        found.push([vec![3], framed(&request)].concat());
    }
    found
}
