//! Groups of real servers in this process, with real files and connections.

mod group;
mod storage;
