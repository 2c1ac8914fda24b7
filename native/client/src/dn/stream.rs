//! A stream of requests as the body of a gRPC call, in which the bytes of a chunk are sent from where they lie: gRPC's own encoder
//! would copy them into a message of its own.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use append_wire::datanode::{ContainerCommandRequestProto, ContainerCommandResponseProto};
use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::codec::{DecodeBuf, Decoder, Streaming};
use tonic::codegen::Service;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::MAX_MESSAGE;

const METHOD: &str = "/hadoop.hdds.datanode.XceiverClientProtocolService/send";

/// Number of `writeChunk` in a request, and of `data` in that.
const WRITE_CHUNK: u32 = 17;
const DATA: u32 = 3;

/// A message's flag and length in front of it.
const PREFIX: usize = 5;

/// Begins a call whose requests come out of `requests`.
pub(super) async fn open(
    mut channel: Channel,
    requests: UnboundedReceiver<ContainerCommandRequestProto>,
) -> Result<Streaming<ContainerCommandResponseProto>, Status> {
    let body = Requests {
        requests,
        ready: VecDeque::new(),
    };
    let request = http::Request::post(METHOD)
        .version(http::Version::HTTP_2)
        .header(http::header::TE, "trailers")
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .body(tonic::body::Body::new(body))
        .map_err(|e| Status::internal(e.to_string()))?;
    std::future::poll_fn(|context| channel.poll_ready(context))
        .await
        .map_err(|e| Status::from_error(e.into()))?;
    let (head, body) = channel
        .call(request)
        .await
        .map_err(|e| Status::from_error(e.into()))?
        .into_parts();
    match Status::from_header_map(&head.headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(Streaming::new_response(
            Answers,
            body,
            head.status,
            None,
            Some(MAX_MESSAGE),
        )),
    }
}

struct Answers;

impl Decoder for Answers {
    type Item = ContainerCommandResponseProto;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        Message::decode(from)
            .map(Some)
            .map_err(|e| Status::internal(e.to_string()))
    }
}

struct Requests {
    requests: UnboundedReceiver<ContainerCommandRequestProto>,
    /// What of the last request is not sent yet.
    ready: VecDeque<Bytes>,
}

impl Body for Requests {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(bytes) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let Some(request) = std::task::ready!(self.requests.poll_recv(context)) else {
            return Poll::Ready(None);
        };
        let encoded = encode(request).map(|(head, data)| {
            self.ready.extend(data.filter(|data| !data.is_empty()));
            Frame::data(head)
        });
        Poll::Ready(Some(encoded))
    }
}

/// A message with its prefix: all of it but a chunk's bytes, and those.
fn encode(mut request: ContainerCommandRequestProto) -> Result<(Bytes, Option<Bytes>), Status> {
    let mut write = request.write_chunk.take();
    let data = write.as_mut().and_then(|write| write.data.take());
    let mut head = BytesMut::with_capacity(1024);
    head.put_bytes(0, PREFIX);
    put(&request, &mut head)?;
    if let Some(write) = write {
        let mut inner = BytesMut::with_capacity(1024);
        put(&*write, &mut inner)?;
        if let Some(data) = &data {
            // Last in its message, and that last in the request: fields may come in any order.
            encode_key(DATA, WireType::LengthDelimited, &mut inner);
            encode_varint(length(data.len())?.into(), &mut inner);
        }
        let all = inner.len() + data.as_ref().map_or(0, Bytes::len);
        encode_key(WRITE_CHUNK, WireType::LengthDelimited, &mut head);
        encode_varint(length(all)?.into(), &mut head);
        head.extend_from_slice(&inner);
    }
    let all = head.len() - PREFIX + data.as_ref().map_or(0, Bytes::len);
    if all > MAX_MESSAGE {
        return Err(Status::out_of_range("a request beyond the limit"));
    }
    let all = length(all)?.to_be_bytes();
    if let Some(prefix) = head.get_mut(1..PREFIX) {
        prefix.copy_from_slice(&all);
    }
    Ok((head.freeze(), data))
}

fn put(message: &impl Message, into: &mut BytesMut) -> Result<(), Status> {
    message
        .encode(into)
        .map_err(|e| Status::internal(e.to_string()))
}

fn length(bytes: usize) -> Result<u32, Status> {
    u32::try_from(bytes).map_err(|_| Status::out_of_range("a request beyond the limit"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_wire::datanode::{
        ChecksumData, ChunkInfo, DatanodeBlockId, PutBlockRequestProto, Type,
        WriteChunkRequestProto,
    };

    fn decoded(request: &ContainerCommandRequestProto) -> ContainerCommandRequestProto {
        let (head, data) = encode(request.clone()).unwrap();
        let mut all = BytesMut::from(head);
        all.extend(data);
        let length = u32::from_be_bytes(all[1..PREFIX].try_into().unwrap());
        assert_eq!(all[0], 0, "not compressed");
        assert_eq!(all.len() - PREFIX, usize::try_from(length).unwrap());
        ContainerCommandRequestProto::decode(&all[PREFIX..]).unwrap()
    }

    #[test]
    fn what_is_sent_in_pieces_is_the_request() {
        let mut request = ContainerCommandRequestProto {
            cmd_type: Type::WriteChunk.into(),
            container_id: 7,
            datanode_uuid: "node".to_owned(),
            encoded_token: Some("token".to_owned()),
            version: Some(3),
            ..ContainerCommandRequestProto::default()
        };
        assert_eq!(decoded(&request), request);
        for data in [None, Some(0), Some(1), Some(100_000)] {
            for block in [None, Some(PutBlockRequestProto::default())] {
                request.write_chunk = Some(Box::new(WriteChunkRequestProto {
                    block_id: DatanodeBlockId {
                        container_id: 7,
                        local_id: -3,
                        ..DatanodeBlockId::default()
                    },
                    chunk_data: Some(ChunkInfo {
                        chunk_name: "c".to_owned(),
                        checksum_data: ChecksumData::default(),
                        ..ChunkInfo::default()
                    }),
                    data: data.map(|length| Bytes::from(vec![9; length])),
                    block,
                    container_auto_create: Some(true),
                }));
                assert_eq!(decoded(&request), request);
            }
        }
        request.write_chunk = None;
        request.put_block = Some(Box::new(PutBlockRequestProto::default()));
        assert_eq!(decoded(&request), request);
    }

    #[test]
    fn the_bytes_of_a_chunk_are_not_copied() {
        let data = Bytes::from(vec![1; 1 << 20]);
        let request = ContainerCommandRequestProto {
            write_chunk: Some(Box::new(WriteChunkRequestProto {
                data: Some(data.clone()),
                ..WriteChunkRequestProto::default()
            })),
            ..ContainerCommandRequestProto::default()
        };
        let (_, sent) = encode(request).unwrap();
        assert_eq!(sent.unwrap().as_ptr(), data.as_ptr());
    }

    #[test]
    fn a_request_beyond_the_limit_is_refused() {
        let request = ContainerCommandRequestProto {
            write_chunk: Some(Box::new(WriteChunkRequestProto {
                data: Some(Bytes::from(vec![0; MAX_MESSAGE])),
                ..WriteChunkRequestProto::default()
            })),
            ..ContainerCommandRequestProto::default()
        };
        assert!(encode(request).is_err());
    }
}
