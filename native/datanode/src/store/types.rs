//! What the store speaks: block ids, chunks and their checksums. Plain values without I/O; the wire's
//! types are converted at the service's edge and never come in here.

use std::fmt;

use bytes::Bytes;

/// Largest chunk that is taken in one write or named in one list entry, in bytes (Ozone's server
/// limit for a chunk).
pub const MAX_CHUNK_LEN: u64 = 32 << 20;

/// Largest logical length of one block, in bytes. Far above any block size in use; it keeps sums of
/// offsets and lengths away from the edge of the number range.
pub const MAX_BLOCK_LEN: u64 = 1 << 44;

/// Name of a block: the pair that the allocator gave. Blocks are keyed by the whole pair, whatever
/// file their bytes lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    /// Container number of the allocator. It groups blocks for listing and has no file of its own.
    pub container: i64,
    /// Number inside the container.
    pub local: i64,
}

impl BlockId {
    /// The block `container`/`local`.
    #[must_use]
    pub const fn new(container: i64, local: i64) -> Self {
        Self { container, local }
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.container, self.local)
    }
}

/// Checksum algorithms that the store can verify. Ozone's others (SHA-256, MD5) are refused at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// The writer sent none. The store then relies on its own record checksum.
    None,
    /// CRC-32 as in zlib; the default of Ozone's clients.
    Crc32,
    /// CRC-32C (Castagnoli); the default of our client.
    Crc32c,
}

/// Checksums over a chunk: one 4-byte big-endian value for each window of `bytes_per_checksum` bytes
/// counted from the chunk's start, the last window short.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checksums {
    /// Algorithm.
    pub kind: ChecksumKind,
    /// Window in bytes; meaningless for [`ChecksumKind::None`].
    pub bytes_per_checksum: u32,
    /// The values one behind the other.
    pub values: Bytes,
}

impl Checksums {
    /// "No checksums": what a writer says that leaves verification to the store.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            kind: ChecksumKind::None,
            bytes_per_checksum: 0,
            values: Bytes::new(),
        }
    }
}

/// A key with an optional value, as block and chunk metadata carry them.
pub type KeyValue = (String, Option<String>);

/// One entry of a block's chunk list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The writer's name for it; informative only.
    pub name: String,
    /// First byte, counted from the block's start.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Checksums over the chunk's bytes.
    pub checksums: Checksums,
    /// Stripe checksum of erasure-coded blocks, kept as given.
    pub stripe_checksum: Bytes,
    /// The writer's metadata, kept as given.
    pub metadata: Vec<KeyValue>,
}

impl Chunk {
    /// One behind the last byte, counted from the block's start.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// A request to commit a block at the length that its chunk list describes.
#[derive(Clone, Debug)]
pub struct PutBlock {
    /// The block.
    pub id: BlockId,
    /// The whole chunk list, contiguous from 0; or, when `incremental`, only its changed end.
    pub chunks: Vec<Chunk>,
    /// Block metadata, `appendStart` among it. Replaces what an earlier commit stored.
    pub metadata: Vec<KeyValue>,
    /// The writer says that the block is complete. Informative: only finalizing fences writers.
    pub eof: bool,
    /// The list starts at the first chunk that is new or replaced; everything before it stays.
    pub incremental: bool,
}

/// What a durable commit says about a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// The block.
    pub id: BlockId,
    /// Chunks, contiguous from 0.
    pub chunks: Vec<Chunk>,
    /// Block metadata as last committed.
    pub metadata: Vec<KeyValue>,
    /// Committed length in bytes: the sum of the chunks' lengths.
    pub length: u64,
    /// The writer said that the block is complete.
    pub eof: bool,
    /// No writer may change the block any more.
    pub finalized: bool,
}

/// Verified bytes of one committed chunk, cut at that chunk's checksum windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Name of the chunk that the bytes belong to.
    pub name: String,
    /// First byte, counted from the block's start; on a window border of its chunk.
    pub offset: u64,
    /// The bytes.
    pub data: Bytes,
    /// Checksums over `data`, with windows counted from its first byte.
    pub checksums: Checksums,
}

/// Where a record ends in the order of all records ever written: file number, then offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub(crate) file: u32,
    pub(crate) offset: u64,
}

/// A commit that was written and becomes durable with the log up to `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The block's committed length in bytes once `at` is durable.
    pub length: u64,
    /// What [`crate::Store::durable`] must wait for before anybody is told.
    pub at: Position,
}
