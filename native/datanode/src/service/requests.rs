//! What each request of the datanode protocol does, on a thread that may block on the disk. Answers
//! that rest on a commit carry the position that must be durable first; waiting is done elsewhere.

use append_wire::datanode as dn;
use bytes::Bytes;
use prost::Message;

use super::convert::{
    Refusal, block_id, block_id_to_read, chunk, committed, put_block, range_piece, whole_chunk,
    wire_block, wire_block_id,
};
use super::limits::{MAX_LIST, MAX_LIST_BYTES, MAX_READ_BLOCKS_REPLY};
use crate::store::{BlockId, MAX_CHUNK_LEN, Position, Store, to_usize};

type Request = dn::ContainerCommandRequestProto;
type Response = dn::ContainerCommandResponseProto;

/// A successful answer and what must be durable before it is sent.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) after: Option<Position>,
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self {
            response,
            after: None,
        }
    }
}

/// An answer to `request` without payload.
pub(super) fn response_to(request: &Request, result: dn::Result) -> Response {
    Response {
        cmd_type: request.cmd_type,
        trace_id: request.trace_id.clone(),
        result: result.into(),
        client_id: request.client_id.clone(),
        call_id: request.call_id,
        ..Response::default()
    }
}

/// An answer that refuses `request`.
pub(super) fn refusal_of(request: &Request, refusal: Refusal) -> Response {
    Response {
        message: Some(refusal.message),
        ..response_to(request, refusal.result)
    }
}

/// The payload that a request must carry.
pub(super) fn payload<T>(payload: Option<&T>) -> Result<&T, Refusal> {
    payload.ok_or_else(|| Refusal::malformed("the request has no payload of its type"))
}

fn same_container(request: &Request, id: BlockId) -> Result<BlockId, Refusal> {
    if request.container_id != id.container {
        return Err(Refusal::new(
            dn::Result::ContainerIdMismatch,
            format!("block {id} is not of container {}", request.container_id),
        ));
    }
    Ok(id)
}

/// Does what `request` asks for.
pub(super) fn execute(store: &Store, request: &Request, kind: dn::Type) -> Result<Answer, Refusal> {
    let ok = response_to(request, dn::Result::Success);
    match kind {
        dn::Type::WriteChunk => write_chunk(store, request, ok),
        dn::Type::PutBlock => {
            let put = put_block(payload(request.put_block.as_deref())?)?;
            same_container(request, put.id)?;
            let done = store.put_block(&put)?;
            Ok(Answer {
                response: Response {
                    put_block: Some(Box::new(dn::PutBlockResponseProto {
                        committed_block_length: committed(put.id, done.length),
                    })),
                    ..ok
                },
                after: Some(done.at),
            })
        }
        dn::Type::PutSmallFile => put_small_file(store, request, ok),
        dn::Type::GetBlock => {
            let id = block_id_to_read(&payload(request.get_block.as_deref())?.block_id)?;
            let view = store.view(same_container(request, id)?)?;
            Ok(Response {
                get_block: Some(Box::new(dn::GetBlockResponseProto {
                    block_data: wire_block(view),
                    short_circuit_access_granted: None,
                })),
                ..ok
            }
            .into())
        }
        dn::Type::GetCommittedBlockLength => {
            let asked = payload(request.get_committed_block_length.as_deref())?;
            let id = same_container(request, block_id(&asked.block_id)?)?;
            let length = store.committed_length(id)?;
            Ok(Response {
                get_committed_block_length: Some(Box::new(committed(id, length))),
                ..ok
            }
            .into())
        }
        dn::Type::ReadChunk => read_chunk(store, request, ok),
        dn::Type::GetSmallFile => get_small_file(store, request, ok),
        dn::Type::ListBlock => list_block(store, request, ok),
        dn::Type::ReadBlocks => read_blocks(store, request, ok),
        // Containers come into being with their first block.
        dn::Type::CreateContainer => Ok(Response {
            create_container: Some(Box::default()),
            ..ok
        }
        .into()),
        _ => Err(Refusal::new(
            dn::Result::UnsupportedRequest,
            format!("{} is not supported by this datanode", kind.as_str_name()),
        )),
    }
}

/// Fences the writer of the block that `request` names; nothing is told before it is durable.
pub(super) fn finalize(store: &Store, request: &Request) -> Result<(BlockId, Position), Refusal> {
    let asked = payload(request.finalize_block.as_deref())?;
    let id = same_container(request, block_id(&asked.block_id)?)?;
    Ok((id, store.finalize(id)?.at))
}

/// The answer to a finalize that is durable.
pub(super) fn finalized(
    store: &Store,
    request: &Request,
    id: BlockId,
) -> Result<Response, Refusal> {
    Ok(Response {
        finalize_block: Some(Box::new(dn::FinalizeBlockResponseProto {
            block_data: wire_block(store.view(id)?),
        })),
        ..response_to(request, dn::Result::Success)
    })
}

fn write_chunk(store: &Store, request: &Request, ok: Response) -> Result<Answer, Refusal> {
    let asked = payload(request.write_chunk.as_deref())?;
    let id = same_container(request, block_id(&asked.block_id)?)?;
    let put = asked.block.as_ref().map(put_block).transpose()?;
    if put.as_ref().is_some_and(|put| put.id != id) {
        return Err(Refusal::malformed("the commit is of another block"));
    }
    let info = payload(asked.chunk_data.as_ref())?;
    let data = payload(asked.data.as_ref())?;
    store.write_chunk(id, &chunk(info)?, data)?;
    let done = put.map(|put| store.put_block(&put)).transpose()?;
    Ok(Answer {
        response: Response {
            write_chunk: Some(Box::new(dn::WriteChunkResponseProto {
                committed_block_length: done.map(|done| committed(id, done.length)),
            })),
            ..ok
        },
        after: done.map(|done| done.at),
    })
}

fn put_small_file(store: &Store, request: &Request, ok: Response) -> Result<Answer, Refusal> {
    let asked = payload(request.put_small_file.as_deref())?;
    let put = put_block(&asked.block)?;
    let id = same_container(request, put.id)?;
    store.write_chunk(id, &chunk(&asked.chunk_info)?, &asked.data)?;
    let done = store.put_block(&put)?;
    Ok(Answer {
        response: Response {
            put_small_file: Some(Box::new(dn::PutSmallFileResponseProto {
                committed_block_length: committed(id, done.length),
            })),
            ..ok
        },
        after: Some(done.at),
    })
}

/// Fails when an answer of `len` bytes of data would be too long.
fn bounded(len: u64) -> Result<(), Refusal> {
    if len > MAX_CHUNK_LEN {
        return Err(Refusal::new(
            dn::Result::InvalidArgument,
            format!("one answer holds at most {MAX_CHUNK_LEN} bytes"),
        ));
    }
    Ok(())
}

fn read_chunk(store: &Store, request: &Request, ok: Response) -> Result<Answer, Refusal> {
    let asked = payload(request.read_chunk.as_deref())?;
    let id = same_container(request, block_id_to_read(&asked.block_id)?)?;
    bounded(asked.chunk_data.len)?;
    let data = store.read_exact(id, asked.chunk_data.offset, asked.chunk_data.len)?;
    let response = read_chunk_response(id, &asked.chunk_data, data, asked.read_chunk_version());
    Ok(Response {
        read_chunk: Some(Box::new(response)),
        ..ok
    }
    .into())
}

fn read_chunk_response(
    id: BlockId,
    chunk_data: &dn::ChunkInfo,
    data: Bytes,
    version: dn::ReadChunkVersion,
) -> dn::ReadChunkResponseProto {
    use dn::read_chunk_response_proto::ResponseData;
    dn::ReadChunkResponseProto {
        block_id: wire_block_id(id),
        chunk_data: chunk_data.clone(),
        response_data: Some(match version {
            dn::ReadChunkVersion::V0 => ResponseData::Data(data),
            dn::ReadChunkVersion::V1 => ResponseData::DataBuffers(dn::DataBuffers {
                buffers: by_windows(&data, chunk_data.checksum_data.bytes_per_checksum),
            }),
        }),
    }
}

/// The data in one buffer for each checksum window, as Ozone's datanodes send it; in one piece when the
/// windows are so small that the list would outweigh the data.
fn by_windows(data: &Bytes, window: u32) -> Vec<Bytes> {
    const SMALLEST: usize = 512;
    let window = to_usize(u64::from(window));
    if window < SMALLEST {
        return vec![data.clone()];
    }
    (0..data.len())
        .step_by(window)
        .map(|at| data.slice(at..data.len().min(at + window)))
        .collect()
}

fn get_small_file(store: &Store, request: &Request, ok: Response) -> Result<Answer, Refusal> {
    let asked = payload(request.get_small_file.as_deref())?;
    let id = same_container(request, block_id_to_read(&asked.block.block_id)?)?;
    let view = store.view(id)?;
    bounded(view.length)?;
    let data = store.read_exact(id, 0, view.length)?;
    let info = whole_chunk(&view, &data);
    Ok(Response {
        get_small_file: Some(Box::new(dn::GetSmallFileResponseProto {
            data: read_chunk_response(id, &info, data, asked.read_chunk_version()),
        })),
        ..ok
    }
    .into())
}

fn list_block(store: &Store, request: &Request, ok: Response) -> Result<Answer, Refusal> {
    let asked = payload(request.list_block.as_deref())?;
    let count = to_usize(u64::from(asked.count)).min(MAX_LIST);
    let mut next = Some(asked.start_local_id.unwrap_or(i64::MIN));
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(from) = next
        && found.len() < count
        && bytes < MAX_LIST_BYTES
    {
        let Some(view) = store.list(request.container_id, from, 1)?.pop() else {
            break;
        };
        next = view.id.local.checked_add(1);
        let block = wire_block(view);
        bytes += block.encoded_len();
        found.push(block);
    }
    Ok(Response {
        list_block: Some(Box::new(dn::ListBlockResponseProto { block_data: found })),
        ..ok
    }
    .into())
}

/// Answers as many of the ranges, in order, as fit. An error of a later range ends the answer before
/// it: the client, which asks again for what is missing, gets the error when that range is the first.
fn read_blocks(store: &Store, request: &Request, ok: Response) -> Result<Answer, Refusal> {
    let asked = payload(request.read_blocks.as_deref())?;
    let mut ranges = Vec::with_capacity(asked.ranges.len());
    for range in &asked.ranges {
        match range_of(range) {
            Ok(range) => ranges.push(range),
            Err(_) if !ranges.is_empty() => break,
            Err(refusal) => return Err(refusal),
        }
    }
    let mut runs = Vec::new();
    for (index, pieces) in (0_u32..).zip(store.read_ranges(&ranges, MAX_READ_BLOCKS_REPLY)?) {
        runs.extend(pieces.into_iter().map(|p| range_piece(index, p)));
    }
    Ok(Response {
        read_blocks: Some(Box::new(dn::ReadBlocksResponseProto { data: runs })),
        ..ok
    }
    .into())
}

fn range_of(range: &dn::BlockRangeProto) -> Result<(BlockId, u64, u64), Refusal> {
    let id = block_id_to_read(&range.block_id)?;
    if range.offset.checked_add(range.length).is_none() {
        return Err(Refusal::malformed("range beyond the end of numbers"));
    }
    Ok((id, range.offset, range.length))
}
