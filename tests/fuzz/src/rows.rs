//! Rows that were changed behind the rules' back: reads, the offline check and the rules may call them corrupt, and may do nothing else.

use append_namespace::{Keyspace, Machine, Rows, check, read};
use bytes::Bytes;

use crate::patch::{Input, one, patch};
use crate::world::{MemoryRows, WORLD, commands, path};

/// Rows of the world, so that a number means one.
fn all(rows: &MemoryRows) -> Vec<(Keyspace, Bytes)> {
    rows.0
        .iter()
        .flat_map(|(&keyspace, rows)| rows.keys().map(move |key| (keyspace, key.clone())))
        .collect()
}

fn reads(rows: &dyn Rows) {
    let _ = (
        read::position(rows),
        read::limits(rows),
        read::holders(rows),
    );
    let _ = (
        read::volume(rows, "vol"),
        read::volumes(rows, None, "", "", 10),
    );
    let _ = (read::any_session(rows), read::holder(rows, 1));
    let _ = read::buckets(rows, "vol", "", "", 10);
    let _ = read::open_files(rows, None, &[], 100);
    for layout in ["fso", "legacy", "obs"] {
        let _ = read::bucket(rows, "vol", layout);
        let _ = read::keys(rows, "vol", layout, "", "", 100);
        let _ = read::open_files(rows, Some(("vol", layout)), &[], 3);
        for key in ["", "d", "d/file", "d/held", "d/moved", "d/e/lost"] {
            let path = path(layout, key);
            let _ = read::append_status(rows, &path);
            let _ = read::list(rows, &path, "", true, false, 100);
            if let Ok(Ok(append_namespace::view::Node::File(file))) = read::status(rows, &path) {
                let _ = read::blocks(rows, &file, 4_095, 3);
                let _ = read::blocks_of(rows, file.object_id, file.generation, 0, 100);
            }
        }
    }
}

pub(crate) fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let mut rows = WORLD.rows.clone();
    let places = all(&rows);
    while !input.is_empty() {
        let number = input.number();
        let (keyspace, key) = &places[number % places.len()];
        let Some(space) = rows.0.get_mut(keyspace) else {
            continue;
        };
        let Some(value) = space.remove(key) else {
            continue;
        };
        match input.byte() % 8 {
            // Gone.
            0 => {}
            // Under another key.
            1 => {
                let mut changed = key.to_vec();
                patch(&mut input, &mut changed);
                space.insert(changed.into(), value);
            }
            _ => {
                let mut changed = value.to_vec();
                patch(&mut input, &mut changed);
                space.insert(key.clone(), changed.into());
            }
        }
    }
    let _ = check::check(&rows);
    let _ = check::published(&rows);
    let _ = check::given_blocks(&rows);
    reads(&rows);
    let Ok(mut machine) = Machine::open(&rows) else {
        return;
    };
    let mut world = WORLD.clone();
    for command in commands() {
        let entry = world.entry(command);
        let index = machine.position().index.saturating_add(1);
        // The process stops applying at the first row that it cannot read.
        let Ok(applied) = machine.apply(&rows, 1, index, &entry) else {
            return;
        };
        rows.apply(applied.changes);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let count = u16::try_from(all(&WORLD.rows).len()).unwrap();
    let mut found = vec![Vec::new()];
    for row in 0..count {
        let [high, low] = row.to_be_bytes();
        let at = |how: u8, change: Vec<u8>| [vec![high, low, how], change].concat();
        found.push(at(0, Vec::new()));
        found.push(at(1, one(0, 7, 1, &[])));
        found.push(at(2, one(0, 1, 0x80, &[])));
        found.push(at(2, one(7, 1, 9, &[0xff; 9])));
        found.push(at(2, one(2, 3, 0, &[])));
    }
    found
}
