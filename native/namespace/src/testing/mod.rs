//! What the tests of the rules share: rows in memory, and a world to run commands in.

mod rows;
mod world;

pub(crate) use rows::{MarkedRows, MemoryRows};
pub(crate) use world::{
    World, allocate, append, block, commit, delete, mkdir, new_bucket, open_key, path, publish,
    recover, rename,
};
