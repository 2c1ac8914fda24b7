//! The embedded block store and its RPC services.

pub mod store;

pub use store::{Store, StoreOptions};
