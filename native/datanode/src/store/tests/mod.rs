//! Tests of the store as a whole, through its public calls.

mod crash;
mod model;
mod power;
mod rules;

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::*;

/// Runs what waits for the sync thread.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

pub(super) fn open(dir: &Path) -> Store {
    Store::open(dir, StoreOptions::default()).unwrap()
}

pub(super) fn chunk_with(kind: ChecksumKind, window: u32, offset: u64, data: &[u8]) -> Chunk {
    Chunk {
        name: format!("chunk_{offset}"),
        offset,
        len: to_u64(data.len()),
        checksums: compute_checksums(kind, window, data),
        stripe_checksum: Bytes::new(),
        metadata: Vec::new(),
    }
}

pub(super) fn chunk(offset: u64, data: &[u8]) -> Chunk {
    chunk_with(ChecksumKind::Crc32c, 16, offset, data)
}

pub(super) fn put(id: BlockId, chunks: Vec<Chunk>) -> PutBlock {
    PutBlock {
        id,
        chunks,
        metadata: vec![("appendStart".to_owned(), Some("0".to_owned()))],
        eof: false,
        incremental: false,
    }
}

/// Writes `data` as one chunk at the end of what `chunks` describes, and commits all of it durably.
pub(super) fn append(store: &Store, id: BlockId, chunks: &mut Vec<Chunk>, data: &[u8]) {
    let next = chunk(chunks.last().map_or(0, Chunk::end), data);
    store.write_chunk(id, &next, data).unwrap();
    chunks.push(next);
    let done = store.put_block(&put(id, chunks.clone())).unwrap();
    wait(store.durable(done.at)).unwrap();
}

pub(super) fn all(store: &Store, id: BlockId) -> Result<Vec<u8>, StoreError> {
    let view = store.view(id)?;
    store.read_exact(id, 0, view.length).map(|b| b.to_vec())
}

/// The container files in `dir`, in order.
pub(super) fn container_files(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    paths
}

pub(super) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}
