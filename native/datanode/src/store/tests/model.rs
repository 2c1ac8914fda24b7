//! Random operations against a plain reference: a block is a vector of bytes, how much of it is
//! committed, and the last commit.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Write {
        block: i64,
        offset: usize,
        len: usize,
        seed: u64,
        kind: u8,
    },
    /// Writes again what is there, possibly beyond it.
    Rewrite {
        block: i64,
        offset: usize,
        len: usize,
        kind: u8,
    },
    Put {
        block: i64,
        /// Added to the committed length.
        grow: usize,
        shrink: bool,
        cut: usize,
        kind: u8,
        eof: bool,
        wrong: bool,
    },
    PutAgain {
        block: i64,
    },
    Finalize {
        block: i64,
    },
    Delete {
        block: i64,
    },
    Read {
        block: i64,
        offset: usize,
        len: usize,
    },
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let block = 0i64..3;
    let place = (0usize..120, 1usize..50);
    prop_oneof![
        6 => (block.clone(), place.clone(), any::<u64>(), 0u8..3)
            .prop_map(|(block, (offset, len), seed, kind)| Op::Write { block, offset, len, seed, kind }),
        2 => (block.clone(), place.clone(), 0u8..3)
            .prop_map(|(block, (offset, len), kind)| Op::Rewrite { block, offset, len, kind }),
        6 => (block.clone(), 0usize..60, prop::bool::weighted(0.1), 1usize..70, 0u8..3, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(block, grow, shrink, cut, kind, eof, wrong)| Op::Put { block, grow, shrink, cut, kind, eof, wrong }),
        1 => block.clone().prop_map(|block| Op::PutAgain { block }),
        1 => block.clone().prop_map(|block| Op::Finalize { block }),
        1 => prop::bool::weighted(0.3).prop_flat_map(move |_| (0i64..3).prop_map(|block| Op::Delete { block })),
        3 => (block, place).prop_map(|(block, (offset, len))| Op::Read { block, offset, len }),
        1 => Just(Op::Reopen),
    ]
}

#[derive(Clone, Default)]
struct Plain {
    bytes: Vec<Option<u8>>,
    committed: usize,
    last: Option<PutBlock>,
    finalized: bool,
    deleted: bool,
}

impl Plain {
    fn write(&mut self, offset: usize, data: &[u8]) -> bool {
        if self.deleted || self.finalized {
            return false;
        }
        if self.bytes.len() < offset + data.len() {
            self.bytes.resize(offset + data.len(), None);
        }
        let differs = (offset..offset + data.len())
            .any(|i| i < self.committed && self.bytes[i] != Some(data[i - offset]));
        if differs {
            return false;
        }
        for (i, b) in data.iter().enumerate() {
            self.bytes[offset + i] = Some(*b);
        }
        true
    }

    fn put(&mut self, put: &PutBlock, wrong: bool) -> bool {
        let len = put.chunks.last().map_or(0, |c| to_usize(c.end()));
        let same = self.last.as_ref().is_some_and(|l| {
            l.chunks == put.chunks && l.metadata == put.metadata && (l.eof || !put.eof)
        });
        if self.deleted || (self.finalized && !same) {
            return false;
        }
        if len < self.committed || (wrong && !same) {
            return false;
        }
        if (0..len).any(|i| self.bytes.get(i).copied().flatten().is_none()) {
            return false;
        }
        self.committed = len;
        let eof = put.eof || self.last.as_ref().is_some_and(|l| l.eof);
        self.last = Some(PutBlock { eof, ..put.clone() });
        true
    }

    fn visible(&self) -> Option<Vec<u8>> {
        (!self.deleted && self.last.is_some()).then(|| {
            self.bytes[..self.committed]
                .iter()
                .flatten()
                .copied()
                .collect()
        })
    }
}

fn kind(n: u8) -> ChecksumKind {
    [
        ChecksumKind::None,
        ChecksumKind::Crc32,
        ChecksumKind::Crc32c,
    ][usize::from(n)]
}

fn sum(n: u8, offset: usize, data: &[u8]) -> Chunk {
    chunk_with(kind(n), 7, to_u64(offset), data)
}

fn run(ops: Vec<Op>) {
    let dir = tempfile::tempdir().unwrap();
    let options = || StoreOptions {
        roll_bytes: 2000,
        ..StoreOptions::default()
    };
    let mut store = Some(Store::open(dir.path(), options()).unwrap());
    let mut plain: BTreeMap<i64, Plain> = (0..3).map(|b| (b, Plain::default())).collect();
    for op in ops {
        let s = store.as_ref().unwrap();
        let id = |b| BlockId::new(5, b);
        match op.clone() {
            Op::Write {
                block,
                offset,
                len,
                seed,
                kind,
            } => {
                let data = bytes(seed, len);
                let done = s.write_chunk(id(block), &sum(kind, offset, &data), &data);
                let expected = plain.get_mut(&block).unwrap().write(offset, &data);
                assert_eq!(done.is_ok(), expected, "{op:?} {done:?}");
            }
            Op::Rewrite {
                block,
                offset,
                len,
                kind,
            } => {
                let p = plain.get_mut(&block).unwrap();
                let data: Vec<u8> = (offset..offset + len)
                    .map(|i| p.bytes.get(i).copied().flatten().unwrap_or(0))
                    .collect();
                let done = s.write_chunk(id(block), &sum(kind, offset, &data), &data);
                assert_eq!(done.is_ok(), p.write(offset, &data), "{op:?} {done:?}");
            }
            Op::Put {
                block,
                grow,
                shrink,
                cut,
                kind,
                eof,
                wrong,
            } => {
                let p = plain.get_mut(&block).unwrap();
                let to = if shrink {
                    p.committed.saturating_sub(1)
                } else {
                    p.committed + grow
                };
                let data: Vec<u8> = (0..to)
                    .map(|i| p.bytes.get(i).copied().flatten().unwrap_or(0))
                    .collect();
                let mut chunks: Vec<Chunk> = data
                    .chunks(cut)
                    .enumerate()
                    .map(|(n, part)| sum(kind, n * cut, part))
                    .collect();
                // Wrong checksums for the last chunk; without checksums nothing can be wrong.
                let wrong = wrong && kind != 0 && !chunks.is_empty();
                if wrong {
                    let last = chunks.last_mut().unwrap();
                    last.checksums.values = vec![0xA5; last.checksums.values.len()].into();
                }
                let request = PutBlock {
                    eof,
                    ..put(id(block), chunks)
                };
                let done = s.put_block(&request);
                assert_eq!(done.is_ok(), p.put(&request, wrong), "{op:?} {done:?}");
                if let Ok(done) = done {
                    assert_eq!(done.length, to_u64(p.committed));
                    wait(s.durable(done.at)).unwrap();
                }
            }
            Op::PutAgain { block } => {
                let p = plain.get_mut(&block).unwrap();
                if let Some(request) = p.last.clone() {
                    let done = s.put_block(&request);
                    assert_eq!(done.is_ok(), !p.deleted, "{op:?} {done:?}");
                }
            }
            Op::Finalize { block } => {
                let p = plain.get_mut(&block).unwrap();
                let done = s.finalize(id(block));
                assert_eq!(done.is_ok(), p.visible().is_some(), "{op:?} {done:?}");
                if let Ok(done) = done {
                    p.finalized = true;
                    wait(s.durable(done.at)).unwrap();
                }
            }
            Op::Delete { block } => {
                let at = s.delete(id(block)).unwrap();
                wait(s.durable(at)).unwrap();
                plain.get_mut(&block).unwrap().deleted = true;
            }
            Op::Read { block, offset, len } => {
                let p = &plain[&block];
                let got = s.read_exact(id(block), to_u64(offset), to_u64(len)).ok();
                let expected = p
                    .visible()
                    .and_then(|v| v.get(offset..offset + len).map(<[u8]>::to_vec));
                assert_eq!(got.map(|b| b.to_vec()), expected, "{op:?}");
            }
            Op::Reopen => {
                drop(store.take());
                store = Some(Store::open(dir.path(), options()).unwrap());
                assert!(store.as_ref().unwrap().damage().is_empty());
            }
        }
    }
    drop(store);
    let store = Store::open(dir.path(), options()).unwrap();
    for (block, p) in plain {
        let id = BlockId::new(5, block);
        match p.visible() {
            Some(expected) => {
                assert_eq!(all(&store, id).unwrap(), expected);
                let view = store.view(id).unwrap();
                let last = p.last.unwrap();
                assert_eq!(view.chunks, last.chunks);
                assert_eq!((view.eof, view.finalized), (last.eof, p.finalized));
            }
            None => assert!(matches!(store.view(id), Err(StoreError::NoSuchBlock(_)))),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn the_store_does_what_a_vector_of_bytes_does(ops in prop::collection::vec(op(), 1..60)) {
        run(ops);
    }
}
