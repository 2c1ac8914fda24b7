//! Between the wire's messages and the store's values, errors included. One place, so that a result
//! code has one meaning. Holds no rule of blocks.

use append_wire::datanode as dn;
use bytes::{Bytes, BytesMut};

use crate::store::{
    BlockId, BlockView, ChecksumKind, Checksums, Chunk, KeyValue, Piece, PutBlock, StoreError,
    to_u64,
};

/// Metadata key by which a writer says that its chunk list holds only what is new (no value).
const INCREMENTAL: &str = "incremental";

/// A refusal with its result code.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) result: dn::Result,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(result: dn::Result, message: impl Into<String>) -> Self {
        Self {
            result,
            message: message.into(),
        }
    }

    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(dn::Result::MalformedRequest, message)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let result = match &error {
            StoreError::NoSuchBlock(_) | StoreError::Deleted(_) => dn::Result::NoSuchBlock,
            StoreError::Checksum { .. } | StoreError::WriteChecksum { .. } => {
                dn::Result::ChecksumMismatch
            }
            StoreError::Finalized(_) => dn::Result::BlockAlreadyFinalized,
            StoreError::CommittedBytes { .. } => dn::Result::OverwriteFlagRequired,
            StoreError::LengthBelowCommitted { .. } | StoreError::Invalid { .. } => {
                dn::Result::InvalidArgument
            }
            StoreError::MissingData { .. } => dn::Result::ChunkFileInconsistency,
            StoreError::OutOfRange { .. } => dn::Result::UnableToFindChunk,
            StoreError::DiskFull(_) => dn::Result::DiskOutOfSpace,
            StoreError::Io { .. } => dn::Result::IoException,
            StoreError::Poisoned(_) => dn::Result::ContainerInternalError,
        };
        Self::new(result, error.to_string())
    }
}

/// The block that a request names.
pub(super) fn block_id(id: &dn::DatanodeBlockId) -> Result<BlockId, Refusal> {
    if id.replica_index.unwrap_or(0) != 0 {
        return Err(Refusal::new(
            dn::Result::UnsupportedRequest,
            "erasure-coded blocks are not kept by this datanode",
        ));
    }
    Ok(BlockId::new(id.container_id, id.local_id))
}

/// The block that a read names. Commit sequence ids are not given out here, so one that is asked for
/// is of another datanode's making.
pub(super) fn block_id_to_read(id: &dn::DatanodeBlockId) -> Result<BlockId, Refusal> {
    if id.block_commit_sequence_id.unwrap_or(0) != 0 {
        return Err(Refusal::new(
            dn::Result::UnknownBcsid,
            "this datanode gives out no commit sequence ids",
        ));
    }
    block_id(id)
}

pub(super) fn wire_block_id(id: BlockId) -> dn::DatanodeBlockId {
    dn::DatanodeBlockId {
        container_id: id.container,
        local_id: id.local,
        block_commit_sequence_id: Some(0),
        replica_index: None,
    }
}

/// Lengths are unsigned in the store and signed in a few messages.
pub(super) fn wire_length(length: u64) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

pub(super) fn committed(id: BlockId, length: u64) -> dn::GetCommittedBlockLengthResponseProto {
    dn::GetCommittedBlockLengthResponseProto {
        block_id: wire_block_id(id),
        block_length: wire_length(length),
    }
}

fn pairs(pairs: &[dn::KeyValue]) -> Vec<KeyValue> {
    pairs
        .iter()
        .map(|p| (p.key.clone(), p.value.clone()))
        .collect()
}

fn wire_pairs(pairs: Vec<KeyValue>) -> Vec<dn::KeyValue> {
    pairs
        .into_iter()
        .map(|(key, value)| dn::KeyValue { key, value })
        .collect()
}

fn checksums(data: &dn::ChecksumData) -> Result<Checksums, Refusal> {
    let kind = match dn::ChecksumType::try_from(data.r#type) {
        Ok(dn::ChecksumType::None) => return Ok(Checksums::none()),
        Ok(dn::ChecksumType::Crc32) => ChecksumKind::Crc32,
        Ok(dn::ChecksumType::Crc32c) => ChecksumKind::Crc32c,
        Ok(dn::ChecksumType::Sha256 | dn::ChecksumType::Md5) | Err(_) => {
            return Err(Refusal::new(
                dn::Result::NoSuchAlgorithm,
                "checksum types are NONE, CRC32 and CRC32C",
            ));
        }
    };
    let mut values = BytesMut::with_capacity(data.checksums.len() * 4);
    for value in &data.checksums {
        if value.len() != 4 {
            return Err(Refusal::malformed("a CRC checksum has four bytes"));
        }
        values.extend_from_slice(value);
    }
    Ok(Checksums {
        kind,
        bytes_per_checksum: data.bytes_per_checksum,
        values: values.freeze(),
    })
}

fn wire_checksums(sums: &Checksums) -> dn::ChecksumData {
    let kind = match sums.kind {
        ChecksumKind::None => dn::ChecksumType::None,
        ChecksumKind::Crc32 => dn::ChecksumType::Crc32,
        ChecksumKind::Crc32c => dn::ChecksumType::Crc32c,
    };
    let values = &sums.values;
    dn::ChecksumData {
        r#type: kind.into(),
        bytes_per_checksum: sums.bytes_per_checksum,
        checksums: (0..values.len() / 4)
            .map(|i| values.slice(i * 4..i * 4 + 4))
            .collect(),
    }
}

pub(super) fn chunk(info: &dn::ChunkInfo) -> Result<Chunk, Refusal> {
    if info.offset.checked_add(info.len).is_none() {
        return Err(Refusal::malformed("chunk beyond the end of numbers"));
    }
    Ok(Chunk {
        name: info.chunk_name.clone(),
        offset: info.offset,
        len: info.len,
        checksums: checksums(&info.checksum_data)?,
        stripe_checksum: info.stripe_checksum.clone().unwrap_or_default(),
        metadata: pairs(&info.metadata),
    })
}

fn wire_chunk(chunk: Chunk) -> dn::ChunkInfo {
    dn::ChunkInfo {
        chunk_name: chunk.name,
        offset: chunk.offset,
        len: chunk.len,
        metadata: wire_pairs(chunk.metadata),
        checksum_data: wire_checksums(&chunk.checksums),
        stripe_checksum: (!chunk.stripe_checksum.is_empty()).then_some(chunk.stripe_checksum),
    }
}

pub(super) fn put_block(request: &dn::PutBlockRequestProto) -> Result<PutBlock, Refusal> {
    let data = &request.block_data;
    let mut metadata = pairs(&data.metadata);
    let before = metadata.len();
    metadata.retain(|(key, _)| key != INCREMENTAL);
    Ok(PutBlock {
        id: block_id(&data.block_id)?,
        chunks: data.chunks.iter().map(chunk).collect::<Result<_, _>>()?,
        incremental: metadata.len() < before,
        metadata,
        // Absent means finished (ozone-wire, "PutBlock").
        eof: request.eof.unwrap_or(true),
    })
}

pub(super) fn wire_block(view: BlockView) -> dn::BlockData {
    dn::BlockData {
        block_id: wire_block_id(view.id),
        flags: None,
        metadata: wire_pairs(view.metadata),
        chunks: view.chunks.into_iter().map(wire_chunk).collect(),
        size: Some(wire_length(view.length)),
    }
}

/// One answer of a streamed block read.
pub(super) fn block_piece(piece: Piece) -> dn::ReadBlockResponseProto {
    dn::ReadBlockResponseProto {
        checksum_data: wire_checksums(&piece.checksums),
        offset: piece.offset,
        data: piece.data,
    }
}

/// One run of a read of many ranges.
pub(super) fn range_piece(range: u32, piece: Piece) -> dn::BlockRangeDataProto {
    dn::BlockRangeDataProto {
        range,
        offset: piece.offset,
        data: piece.data,
        checksum_data: wire_checksums(&piece.checksums),
    }
}

/// The whole of a block as a chunk, for answers that carry a block in one piece.
pub(super) fn whole_chunk(view: &BlockView, data: &Bytes) -> dn::ChunkInfo {
    match view.chunks.as_slice() {
        [one] => wire_chunk(one.clone()),
        _ => dn::ChunkInfo {
            chunk_name: format!("{}_chunk_1", view.id.local),
            offset: 0,
            len: to_u64(data.len()),
            metadata: Vec::new(),
            checksum_data: wire_checksums(&Checksums::none()),
            stripe_checksum: None,
        },
    }
}
