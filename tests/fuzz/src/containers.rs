//! Recovery of the datanode's container files from any bytes: a block is read as it was written, or its reader gets an error; never other
//! bytes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use append_datanode::store::{Checksums, Chunk, PutBlock};
use append_datanode::{BlockId, OpenError, Store, StoreOptions};
use bytes::Bytes;

use crate::patch::{Input, one, patch};
use crate::scratch;

fn options() -> StoreOptions {
    StoreOptions {
        roll_bytes: 2_000,
        // What a small disk in memory has free is no matter here.
        reserve_bytes: 0,
        ..StoreOptions::default()
    }
}

struct Good {
    files: Vec<(PathBuf, Vec<u8>)>,
    blocks: BTreeMap<BlockId, Vec<u8>>,
}

static GOOD: LazyLock<Good> = LazyLock::new(|| {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    let mut blocks = BTreeMap::new();
    for local in 0..6 {
        let id = BlockId::new(1, local);
        let mut content = Vec::new();
        let mut chunks = Vec::new();
        for part in 0..3_u8 {
            let data = vec![part.wrapping_mul(7) ^ local.to_le_bytes()[0]; 70 + usize::from(part)];
            append(&store, id, &mut chunks, &data);
            content.extend_from_slice(&data);
        }
        blocks.insert(id, content);
    }
    store.finalize(BlockId::new(1, 4)).unwrap();
    let deleted = store.delete(BlockId::new(1, 5)).unwrap();
    wait(store.durable(deleted)).unwrap();
    drop(store);
    let mut files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                PathBuf::from(entry.file_name()),
                std::fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    assert!(files.len() > 1);
    Good { files, blocks }
});

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn append(store: &Store, id: BlockId, chunks: &mut Vec<Chunk>, data: &[u8]) {
    let chunk = Chunk {
        name: "chunk".to_owned(),
        offset: chunks.last().map_or(0, Chunk::end),
        len: u64::try_from(data.len()).unwrap(),
        checksums: Checksums::none(),
        stripe_checksum: Bytes::new(),
        metadata: Vec::new(),
    };
    store.write_chunk(id, &chunk, data).unwrap();
    chunks.push(chunk);
    let put = PutBlock {
        id,
        chunks: chunks.clone(),
        metadata: vec![("appendStart".to_owned(), Some("0".to_owned()))],
        eof: false,
        incremental: false,
    };
    let done = store.put_block(&put).unwrap();
    wait(store.durable(done.at)).unwrap();
}

fn look(store: &Store, patched: bool) {
    let _ = (store.damage(), store.block_count());
    for id in store.ids() {
        let Ok(view) = store.view(id) else { continue };
        let _ = store.list(id.container, 0, 10);
        if let Ok(read) = store.read_exact(id, 0, view.length)
            && patched
        {
            let written = &GOOD.blocks[&id];
            assert!(
                written.starts_with(&read),
                "{id}: other bytes than were written"
            );
        }
    }
}

pub(crate) fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let patched = input.byte() % 4 != 0;
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    if patched {
        let mut files = GOOD.files.clone();
        while !input.is_empty() {
            let number = usize::from(input.byte()) % files.len();
            patch(&mut input, &mut files[number].1);
        }
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
    } else {
        std::fs::write(folder.path().join("0000000001.data"), input.0).unwrap();
    }
    match Store::open(folder.path(), options()) {
        Ok(store) => {
            look(&store, patched);
            drop(store);
            // What was settled once stays so.
            let store = Store::open(folder.path(), options()).unwrap();
            look(&store, patched);
        }
        Err(OpenError::NewerFormat { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let first = GOOD.files[0].1.clone();
    let mut found = vec![vec![1], [vec![0], first].concat()];
    for file in 0..u8::try_from(GOOD.files.len()).unwrap() {
        for at in [
            0, 4, 16, 60, 64, 80, 128, 132, 136, 140, 150, 170, 184, 190, 300, 700, 1_500,
        ] {
            let with = |change| [vec![1, file], change].concat();
            found.push(with(one(0, at, 1, &[])));
            found.push(with(one(2, at, 0, &[])));
            found.push(with(one(3, at, 60, &[])));
            found.push(with(one(6, at, 8, &[])));
        }
    }
    found
}
