//! The embedded datanode: a block store in append-only container files and the gRPC service that Ozone's
//! datanodes speak. It runs inside the server's process or as a process of its own. There is no
//! replication: the safety of the data is that of one disk.
//!
//! [`Datanode`] is the way in. This crate knows blocks, not files: sessions, leases and namespaces are
//! the OM's business and never come in here.

mod datanode;
mod service;
pub mod store;

pub use datanode::{Datanode, DatanodeInfo, ServeError, serve};
pub use service::DatanodeService;
pub use service::limits::{MAX_MESSAGE_LEN, MAX_READ_BLOCKS_REPLY};
pub use service::line::Lines;
pub use store::{BlockId, FatalHook, OpenError, Store, StoreError, StoreOptions};
