//! The metadata server: consensus and log, the store of rows, RPC services, the block engine, admin and metrics.
//!
//! Rules about volumes, keys and sessions live in `append-namespace`; nothing here decides one.

pub mod config;
pub mod consensus;
pub mod engine;
mod files;
pub mod fsck;
pub mod http;
pub mod log;
pub mod om;
pub mod rpc;
pub mod server;
pub mod store;

pub use config::{ConfigError, Options};
pub use server::{Running, Server, StartError};
