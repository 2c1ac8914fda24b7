//! Ozone's wire: the messages and services of its OM and its datanodes, Hadoop's RPC framing, the checksum rule of chunks and
//! the identity of an invocation.
//!
//! Everything here is form. No rule about volumes, files or sessions stands in this crate, and nothing in it opens a socket,
//! reads a clock or spawns a task.
//!
//! # What decoding does not check
//!
//! The messages are proto2, and the generated code does not insist on required fields: a required field that is absent
//! decodes to its default. Three defaults are chosen so that an absent field never reads as success: `OMResponse.status` is
//! `INTERNAL_ERROR`, `ContainerCommandResponseProto.result` is `MALFORMED_REQUEST`, `RpcResponseHeaderProto.status` is
//! `FATAL`. An absent command decodes to `Type::UnknownCommand` (OM) or `Type::UnsetCommand` (datanode). Enum fields are
//! `i32`, so that a number that nobody knows survives decoding; `T::try_from` tells. All other checks are the reader's.
//!
//! # Limits
//!
//! tonic's clients and servers take at most 4 MiB for one message unless told otherwise: set `max_decoding_message_size` and
//! `max_encoding_message_size` on `OzoneManagerServiceClient`, `XceiverClientProtocolServiceClient` and their servers.

pub mod checksum;
pub mod framed;
pub mod hrpc;
pub mod invocation;

mod generated {
    // What protobuf names as it does, and code that nobody edits.
    #![allow(
        missing_docs,
        non_camel_case_types,
        unreachable_pub,
        clippy::all,
        clippy::unwrap_used
    )]

    include!(concat!(env!("OUT_DIR"), "/wire.rs"));
}

/// `append.peer`: what the metadata servers of one group say to each other; this project's own.
pub use generated::append::peer;
/// `hadoop.common`: headers of Hadoop's RPC and its security token.
pub use generated::hadoop::common;
/// `hadoop.hdds`: what the OM's and the datanodes' messages share, such as block ids and pipelines.
pub use generated::hadoop::hdds;
/// `hadoop.hdds.datanode`: containers, blocks, chunks, and the service `XceiverClientProtocolService`.
pub use generated::hadoop::hdds::datanode;
/// `hadoop.ozone`: the commands of the OM, append sessions, and the service `OzoneManagerService`.
pub use generated::hadoop::ozone as om;
