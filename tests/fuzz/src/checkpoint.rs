//! A checkpoint's stream of any bytes: it is read whole and right, or called damaged; it never asks for memory that its bytes do not pay for.

use std::sync::{Arc, LazyLock};

use append_server::store::{Mark, View, checkpoint};

use crate::patch::{Input, one, patch};
use crate::world::{MemoryRows, WORLD};

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let view: View = Arc::new(WORLD.rows.clone());
    let mut out = Vec::new();
    checkpoint::write(&view, Mark { term: 1, index: 7 }, &mut out).unwrap();
    out
});

pub(crate) fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let whole = input.byte() % 2 == 0;
    let bytes = if whole {
        input.0.to_vec()
    } else {
        let mut bytes = GOOD.clone();
        while !input.is_empty() {
            patch(&mut input, &mut bytes);
        }
        bytes
    };
    let mut rows = MemoryRows::default();
    let read = checkpoint::read(bytes.as_slice(), |changes| {
        rows.apply(changes);
        Ok(())
    });
    if read.is_ok() && !whole {
        // Checksums stand over everything: what is taken is what was written.
        assert!(rows == WORLD.rows);
        assert!(bytes == *GOOD);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut found = vec![vec![1], [vec![0], GOOD.clone()].concat()];
    for at in [0, 8, 12, 28, 32, 33, 37, 41, 45, 200, 60_000] {
        found.push([vec![1], one(0, at, 1, &[])].concat());
        found.push([vec![1], one(7, at, 4, &[0xff; 4])].concat());
        found.push([vec![1], one(2, at, 0, &[])].concat());
    }
    found
}
