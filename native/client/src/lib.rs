//! The core of libappend: a native client of Ozone's wire protocol that can also append where the server can.
//!
//! [`FileSystem`] is the door. Its methods are async and run on any tokio runtime; [`blocking`] is the same API for callers that
//! own a thread, as JNI, the C ABI and the shell do. Connections, streams and the lease renewer run on one runtime that the
//! process shares, so a stream outlives the runtime of the call that opened it.
//!
//! This crate knows the wire and no server: whatever a server decides reaches the caller as an [`Error`] of one [`ErrorKind`].
//! A result that is not known is [`ErrorKind::OutcomeUnknown`] and never turned into success.

pub mod admin;
pub mod append;
pub mod blocking;
pub mod config;
mod dn;
pub mod error;
pub mod filesystem;
mod lease;
mod om;
pub mod path;
pub mod read;
pub mod recover;
mod runtime;
pub mod status;
#[cfg(test)]
mod testing;
pub mod wait;
pub mod write;

pub use append::AppendBuilder;
pub use config::Config;
pub use error::{Error, ErrorKind, Retry};
pub use filesystem::FileSystem;
pub use path::FsPath;
pub use read::Reader;
pub use recover::RecoverOptions;
pub use status::{AppendStatus, Capabilities, FileStatus, ListPage};
pub use wait::CancelToken;
pub use write::{CreateOptions, Replication, WriteStream};

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;
