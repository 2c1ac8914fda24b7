//! Bytes from datanodes: what lies together is asked for together, everything is verified, and another replica is asked before
//! an error is one.

use std::sync::Arc;

use append_wire::checksum::{self, ChecksumError};
use append_wire::datanode::read_chunk_response_proto::ResponseData;
use append_wire::datanode::{
    BlockRangeDataProto, BlockRangeProto, ChecksumData, ChecksumType, ChunkInfo,
    GetBlockRequestProto, ReadBlocksRequestProto, ReadChunkRequestProto, ReadChunkVersion, Type,
};
use bytes::{Bytes, BytesMut};

use super::blocks::Block;
use super::{length_of, protocol};
use crate::Result;
use crate::dn::{Datanode, DnError, joined};
use crate::error::{BadBlock, Error, ErrorKind};
use crate::filesystem::{Shared, without};

/// Bytes that one request asks for.
const BYTES_AT_ONCE: u64 = 4 << 20;

/// Ranges that one request names.
const RANGES_AT_ONCE: usize = 1000;

/// Requests of one read that are under way.
const REQUESTS_AT_ONCE: usize = 4;

/// A range of one block.
#[derive(Debug, Clone)]
struct Part {
    block: Arc<Block>,
    /// Offset in the block.
    from: u64,
    length: u64,
}

/// The bytes from `from` to `to` of a file, in the pieces in which they came; `blocks` hold them in order.
pub(super) async fn fetch(
    fs: &Arc<Shared>,
    blocks: &[Arc<Block>],
    from: u64,
    to: u64,
) -> Result<Vec<Bytes>> {
    let groups = group(parts(blocks, from, to));
    let together = fs.om.features().knows_append();
    let mut pieces = Vec::with_capacity(groups.len());
    // Each batch of requests runs side by side.
    for batch in groups.chunks(REQUESTS_AT_ONCE) {
        let tasks: Vec<_> = batch
            .iter()
            .skip(1)
            .map(|parts| {
                let (fs, parts) = (Arc::clone(fs), parts.clone());
                crate::runtime::handle().map(|runtime| {
                    AbortOnDrop(
                        runtime.spawn(async move { read_group(&fs, &parts, together).await }),
                    )
                })
            })
            .collect::<Result<_>>()?;
        if let Some(first) = batch.first() {
            pieces.extend(read_group(fs, first, together).await?);
        }
        for mut task in tasks {
            let read = (&mut task.0).await;
            pieces.extend(read.map_err(|e| Error::new(ErrorKind::Io, e.to_string()))??);
        }
    }
    let bytes: u64 = pieces.iter().map(|piece| length_of(piece.len())).sum();
    if bytes != to - from {
        return Err(protocol(format!("{bytes} bytes instead of {}", to - from)));
    }
    Ok(pieces)
}

/// A request that nobody waits for any more is given up.
struct AbortOnDrop(tokio::task::JoinHandle<Result<Vec<Bytes>>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The ranges of blocks that make up a range of the file.
fn parts(blocks: &[Arc<Block>], from: u64, to: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    for block in blocks {
        let mut at = from.max(block.start);
        let end = to.min(block.end());
        while at < end {
            let length = (end - at).min(BYTES_AT_ONCE);
            parts.push(Part {
                from: block.start_in_block + (at - block.start),
                length,
                block: Arc::clone(block),
            });
            at += length;
        }
    }
    parts
}

/// Neighbours on the same datanodes, as many as one request takes.
fn group(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut groups: Vec<Vec<Part>> = Vec::new();
    let mut bytes = 0;
    for part in parts {
        let fits = groups
            .last()
            .and_then(|group| group.first())
            .is_some_and(|first| {
                first.block.address.pipeline == part.block.address.pipeline
                    && bytes + part.length <= BYTES_AT_ONCE
            });
        match groups.last_mut() {
            Some(group) if fits && group.len() < RANGES_AT_ONCE => {
                bytes += part.length;
                group.push(part);
            }
            _ => {
                bytes = part.length;
                groups.push(vec![part]);
            }
        }
    }
    groups
}

/// The bytes of parts one behind the other, from the first replica that has them whole.
async fn read_group(fs: &Shared, parts: &[Part], together: bool) -> Result<Vec<Bytes>> {
    let Some(first) = parts.first() else {
        return Ok(Vec::new());
    };
    let mut worst: Option<Error> = None;
    for node in fs.datanodes.members(&first.block.address.pipeline)? {
        let read = if together {
            read_together(&node, parts).await
        } else {
            read_each(&node, parts).await
        };
        match read {
            Ok(bytes) => return Ok(bytes),
            Err(error) => {
                // Damage is what the caller must hear of, if no replica is whole.
                let keep = worst
                    .as_ref()
                    .is_some_and(|worst| worst.kind() == ErrorKind::Checksum);
                if !keep {
                    worst = Some(error);
                }
            }
        }
    }
    Err(worst.unwrap_or_else(|| protocol("a block without datanodes")))
}

/// Asks for all parts at once, and again for what an answer left out: datanodes bound their answers, and end them before a block
/// that they cannot read.
async fn read_together(node: &Datanode, parts: &[Part]) -> Result<Vec<Bytes>> {
    let mut rest = parts.to_vec();
    let mut pieces = Vec::with_capacity(parts.len());
    while let Some(first) = rest.first() {
        let mut request = node.request(Type::ReadBlocks, &first.block.address);
        request.read_blocks = Some(Box::new(ReadBlocksRequestProto {
            ranges: rest.iter().map(Part::range).collect(),
        }));
        let answer = match node.call(request).await {
            Ok(answer) => answer,
            Err(refused) => return Err(first.failed(refused)),
        };
        let runs = answer.read_blocks.ok_or_else(|| without("blocks"))?.data;
        if runs.is_empty() {
            return Err(protocol("no bytes at all"));
        }
        let mut done = 0;
        for run in runs {
            let part = usize::try_from(run.range)
                .ok()
                .filter(|range| *range == done)
                .and_then(|range| rest.get_mut(range))
                .ok_or_else(|| protocol("bytes that were not asked for"))?;
            verify(part, run.offset, &run.data, &run.checksum_data, 0)?;
            let piece = cut(&run, part.from, part.from + part.length)
                .ok_or_else(|| protocol(format!("no bytes at offset {} of a block", part.from)))?;
            part.from += length_of(piece.len());
            part.length -= length_of(piece.len());
            pieces.push(piece);
            if part.length == 0 {
                done += 1;
            }
        }
        rest.drain(..done);
    }
    Ok(pieces)
}

impl Part {
    fn range(&self) -> BlockRangeProto {
        BlockRangeProto {
            block_id: self.block.address.id(),
            offset: self.from,
            length: self.length,
        }
    }

    /// A datanode's own word that it cannot read this part.
    fn failed(&self, refused: DnError) -> Error {
        let error = refused.into_error();
        if error.kind() == ErrorKind::Checksum {
            return error.with_bad_block(self.bad(self.from));
        }
        error
    }

    fn bad(&self, offset_in_block: u64) -> BadBlock {
        let block = &self.block;
        BadBlock {
            container: block.address.container,
            local: block.address.local,
            offset_in_block,
            offset_in_file: (block.start + offset_in_block).saturating_sub(block.start_in_block),
        }
    }
}

/// What of a run lies between two offsets; it must hold the first.
fn cut(run: &BlockRangeDataProto, from: u64, to: u64) -> Option<Bytes> {
    let skip = usize::try_from(from.checked_sub(run.offset)?).ok()?;
    let want = usize::try_from(to.checked_sub(from)?).ok()?;
    let end = run.data.len().min(skip.saturating_add(want));
    (skip < end).then(|| run.data.slice(skip..end))
}

/// Asks for each part by its chunks, as Ozone's own clients do.
async fn read_each(node: &Datanode, parts: &[Part]) -> Result<Vec<Bytes>> {
    let mut read = Vec::with_capacity(parts.len());
    for part in parts {
        let mut request = node.request(Type::GetBlock, &part.block.address);
        request.get_block = Some(Box::new(GetBlockRequestProto {
            block_id: part.block.address.id(),
            request_short_circuit_access: None,
        }));
        let answer = node.call(request).await.map_err(|e| part.failed(e))?;
        let chunks = answer
            .get_block
            .ok_or_else(|| without("block"))?
            .block_data
            .chunks;
        let mut bytes = BytesMut::new();
        let mut at = part.from;
        let end = part.from + part.length;
        for chunk in chunks
            .iter()
            .filter(|chunk| chunk.offset < end && chunk.offset + chunk.len > part.from)
        {
            let to = end.min(chunk.offset + chunk.len);
            bytes.extend_from_slice(&read_chunk(node, part, chunk, at, to).await?);
            at = to;
        }
        if at != end {
            return Err(Error::new(
                ErrorKind::Io,
                format!("the datanode has the block up to offset {at}, not up to {end}"),
            ));
        }
        read.push(bytes.freeze());
    }
    Ok(read)
}

/// The bytes of a chunk between two offsets of its block.
async fn read_chunk(
    node: &Datanode,
    part: &Part,
    chunk: &ChunkInfo,
    from: u64,
    to: u64,
) -> Result<Bytes> {
    let (start, end, window) = windows(chunk, from, to)?;
    let mut request = node.request(Type::ReadChunk, &part.block.address);
    request.read_chunk = Some(Box::new(ReadChunkRequestProto {
        block_id: part.block.address.id(),
        chunk_data: ChunkInfo {
            offset: start,
            len: end - start,
            ..chunk.clone()
        },
        read_chunk_version: Some(ReadChunkVersion::V1.into()),
    }));
    let answer = node.call(request).await.map_err(|e| part.failed(e))?;
    let data = answer
        .read_chunk
        .and_then(|read| read.response_data)
        .ok_or_else(|| without("chunk"))?;
    let data = match data {
        ResponseData::Data(data) => data,
        ResponseData::DataBuffers(buffers) => joined(buffers.buffers),
    };
    if length_of(data.len()) != end - start {
        return Err(protocol(format!(
            "{} bytes of a chunk instead of {}",
            data.len(),
            end - start
        )));
    }
    verify(part, start, &data, &chunk.checksum_data, window)?;
    let skip = usize::try_from(from - start).unwrap_or(usize::MAX);
    let length = usize::try_from(to - from).unwrap_or(usize::MAX);
    Ok(data.slice(skip..skip + length))
}

/// A range widened to whole checksum windows, and the number of the first of them.
fn windows(chunk: &ChunkInfo, from: u64, to: u64) -> Result<(u64, u64, usize)> {
    let window = u64::from(chunk.checksum_data.bytes_per_checksum.max(1));
    let first = (from - chunk.offset) / window;
    let behind = (to - chunk.offset).div_ceil(window);
    let start = chunk.offset + first * window;
    let end = (chunk.offset + behind * window).min(chunk.offset + chunk.len);
    let number = usize::try_from(first).map_err(|_| protocol("a chunk of too many windows"))?;
    Ok((start, end, number))
}

/// Compares bytes that begin at an offset of their block, and at a window of their chunk, with their checksums.
fn verify(part: &Part, offset: u64, data: &[u8], sums: &ChecksumData, window: usize) -> Result<()> {
    let Err(error) = checksum::verify(data, sums, window) else {
        return Ok(());
    };
    let mismatch = match error {
        ChecksumError::Mismatch(mismatch) => mismatch,
        ChecksumError::UnsupportedType(kind) => {
            let name = ChecksumType::try_from(kind)
                .map_or_else(|_| kind.to_string(), |kind| kind.as_str_name().to_owned());
            return Err(Error::unsupported(format!(
                "verifying checksums of type {name} is not built yet"
            )));
        }
        other => return Err(protocol(format!("unusable checksums: {other}"))),
    };
    let bad = part.bad(offset + length_of(mismatch.offset));
    Err(Error::new(
        ErrorKind::Checksum,
        format!(
            "block {}/{} at offset {} (offset {} of the file): {mismatch}",
            bad.container, bad.local, bad.offset_in_block, bad.offset_in_file
        ),
    )
    .with_bad_block(bad))
}
