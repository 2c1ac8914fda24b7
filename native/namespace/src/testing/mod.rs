//! What the tests of the rules share: rows in memory, a world to run commands in, and the invariants that hold after each of them.

mod invariants;
mod rows;
mod world;

pub(crate) use invariants::check;
pub(crate) use rows::MemoryRows;
pub(crate) use world::{
    World, allocate, append, block, commit, delete, mkdir, new_bucket, open_key, path, publish,
    rename,
};
