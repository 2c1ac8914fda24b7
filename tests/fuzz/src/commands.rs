//! The rules under any entry that decodes: whatever it asks for, the invariants hold behind it, and a replica that applies it comes to the
//! same rows.

use append_namespace::command::{RULES, Request};
use append_namespace::{Entry, check};
use prost::Message;

use crate::world::{WORLD, commands};

pub(crate) fn fuzz(data: &[u8]) {
    let Ok(entry) = Entry::decode(data) else {
        return;
    };
    let again = Entry::decode(entry.encode_to_vec().as_slice()).unwrap();
    assert!(again == entry);
    let mut world = WORLD.clone();
    let mut replica = WORLD.machine.clone();
    let index = world.machine.position().index + 1;
    let applied = world.machine.apply(&world.rows, 1, index, &entry);
    assert!(replica.apply(&world.rows, 1, index, &again) == applied);
    let Ok(applied) = applied else {
        // A command that this version does not know, or rules.
        let unknown = |request: &Request| request.command.is_none();
        assert!(entry.stamp.rules > RULES || entry.requests.iter().any(unknown));
        return;
    };
    assert_eq!(applied.outcomes.len(), entry.requests.len());
    world.rows.apply(applied.changes);
    assert_eq!(check::check(&world.rows), Ok(Vec::new()), "{entry:?}");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut world = WORLD.clone();
    let mut entries = world.entries.clone();
    let more = commands();
    let single: Vec<Entry> = more
        .into_iter()
        .map(|command| world.entry(command))
        .collect();
    // All of them in one entry, too.
    let mut together = single[0].clone();
    together.requests = single
        .iter()
        .flat_map(|entry| entry.requests.clone())
        .collect();
    entries.extend(single);
    entries.push(together);
    entries.iter().map(Message::encode_to_vec).collect()
}
