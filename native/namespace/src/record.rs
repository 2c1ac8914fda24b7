//! What the rows hold, in protobuf. Tags are part of the checkpoint format: never reuse one.
//!
//! Names and parents stand in the keys and are not repeated in the values, except where a row is found by id.

use crate::command::{Acl, Handle, Invocation, Pair, Replication};
use crate::ids::Id;
use crate::reply::{Refusal, Reply};
use bytes::Bytes;

/// Volumes by name.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VolumeRow {
    #[prost(string, tag = "1")]
    pub(crate) owner: String,
    #[prost(string, tag = "2")]
    pub(crate) admin: String,
    #[prost(uint64, tag = "3")]
    pub(crate) object_id: Id,
    #[prost(uint64, tag = "4")]
    pub(crate) update_id: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) created_ms: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) modified_ms: u64,
    #[prost(int64, tag = "7")]
    pub(crate) quota_bytes: i64,
    #[prost(int64, tag = "8")]
    pub(crate) quota_names: i64,
    /// Buckets.
    #[prost(uint64, tag = "9")]
    pub(crate) used_names: u64,
    #[prost(message, repeated, tag = "10")]
    pub(crate) metadata: Vec<Pair>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) acls: Vec<Acl>,
}

/// Buckets by volume and name.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BucketRow {
    #[prost(string, tag = "1")]
    pub(crate) volume: String,
    #[prost(string, tag = "2")]
    pub(crate) bucket: String,
    #[prost(string, tag = "3")]
    pub(crate) owner: String,
    #[prost(enumeration = "crate::command::Layout", tag = "4")]
    pub(crate) layout: i32,
    #[prost(uint64, tag = "5")]
    pub(crate) object_id: Id,
    #[prost(uint64, tag = "6")]
    pub(crate) update_id: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) created_ms: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) modified_ms: u64,
    #[prost(message, required, tag = "9")]
    pub(crate) replication: Replication,
    #[prost(int32, tag = "10")]
    pub(crate) storage_type: i32,
    #[prost(int64, tag = "11")]
    pub(crate) quota_bytes: i64,
    #[prost(int64, tag = "12")]
    pub(crate) quota_names: i64,
    /// Replicated bytes charged.
    #[prost(uint64, tag = "13")]
    pub(crate) used_bytes: u64,
    /// Files and directories charged.
    #[prost(uint64, tag = "14")]
    pub(crate) used_names: u64,
    #[prost(message, repeated, tag = "15")]
    pub(crate) metadata: Vec<Pair>,
    #[prost(message, repeated, tag = "16")]
    pub(crate) acls: Vec<Acl>,
    #[prost(message, repeated, tag = "17")]
    pub(crate) tags: Vec<Pair>,
}

/// Where a bucket stands, by its id.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BucketPlace {
    #[prost(string, tag = "1")]
    pub(crate) volume: String,
    #[prost(string, tag = "2")]
    pub(crate) bucket: String,
}

/// FSO directories by place.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DirRow {
    #[prost(uint64, tag = "1")]
    pub(crate) object_id: Id,
    #[prost(uint64, tag = "2")]
    pub(crate) update_id: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) created_ms: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) modified_ms: u64,
    #[prost(string, tag = "5")]
    pub(crate) owner: String,
    #[prost(message, repeated, tag = "6")]
    pub(crate) metadata: Vec<Pair>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) acls: Vec<Acl>,
}

/// Where a directory stands (by bucket and id), a file (by id), or an open session.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PlaceRow {
    #[prost(uint64, tag = "1")]
    pub(crate) bucket: Id,
    #[prost(uint64, tag = "2")]
    pub(crate) parent: Id,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
}

/// Committed files by place.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FileRow {
    #[prost(uint64, tag = "1")]
    pub(crate) object_id: Id,
    /// Content generation: the list rows that count.
    #[prost(uint64, tag = "2")]
    pub(crate) generation: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) update_id: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) size: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) block_count: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) replicated_size: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) created_ms: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) modified_ms: u64,
    #[prost(message, required, tag = "9")]
    pub(crate) replication: Replication,
    #[prost(string, tag = "10")]
    pub(crate) owner: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) metadata: Vec<Pair>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) acls: Vec<Acl>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) tags: Vec<Pair>,
    /// The append session that owns the file (the design's `appendOwnerSessionId`).
    #[prost(uint64, optional, tag = "14")]
    pub(crate) append_owner: Option<Id>,
    /// The open session that has published by hsync (Ozone's `hsyncClientId`).
    #[prost(uint64, optional, tag = "15")]
    pub(crate) hsync_session: Option<Id>,
}

/// One block in a list: (file, generation, sequence).
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct ListRow {
    #[prost(uint64, tag = "1")]
    pub(crate) container: Id,
    #[prost(uint64, tag = "2")]
    pub(crate) local: Id,
    /// Where its bytes start in the file.
    #[prost(uint64, tag = "3")]
    pub(crate) start: u64,
    /// Where the file's bytes start in the block.
    #[prost(uint64, tag = "4")]
    pub(crate) start_in_block: u64,
}

/// A block by its id.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct BlockRow {
    #[prost(uint32, tag = "1")]
    pub(crate) holder: u32,
    /// The session that it was given to.
    #[prost(uint64, tag = "2")]
    pub(crate) session: Id,
    #[prost(uint64, tag = "3")]
    pub(crate) capacity: u64,
    /// Ozone's commit sequence, as last published.
    #[prost(uint64, tag = "4")]
    pub(crate) bcsid: u64,
    /// Where it is listed, once published.
    #[prost(message, optional, tag = "5")]
    pub(crate) listed: Option<Listed>,
}

/// The list that names a block, and since when.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Listed {
    #[prost(uint64, tag = "1")]
    pub(crate) file: Id,
    #[prost(uint64, tag = "2")]
    pub(crate) generation: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) sequence: u64,
    /// The command that published it first: the start of its lifetime.
    #[prost(uint64, tag = "4")]
    pub(crate) added: u64,
}

/// An open session: (bucket, session).
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpenRow {
    /// Where its file stands, or will stand when it is committed.
    #[prost(message, required, tag = "1")]
    pub(crate) place: PlaceRow,
    /// The file's identity. Of an ordinary writer: the one that its commit gives to a file that is new.
    #[prost(uint64, tag = "2")]
    pub(crate) file: Id,
    #[prost(string, tag = "3")]
    pub(crate) user: String,
    #[prost(uint64, tag = "4")]
    pub(crate) opened_ms: u64,
    #[prost(message, required, tag = "5")]
    pub(crate) replication: Replication,
    /// Blocks given so far.
    #[prost(uint64, tag = "6")]
    pub(crate) given: u64,
    /// The invocation that opened it.
    #[prost(message, optional, tag = "7")]
    pub(crate) invocation: Option<Invocation>,
    #[prost(enumeration = "crate::reply::Phase", tag = "8")]
    pub(crate) phase: i32,
    /// An append session; without it an ordinary writer.
    #[prost(message, optional, tag = "9")]
    pub(crate) append: Option<AppendPart>,
    /// An ordinary writer's wishes for the file.
    #[prost(message, optional, tag = "10")]
    pub(crate) ordinary: Option<OrdinaryPart>,
    /// The session is over, and how: the row stays for the retention, so that its writer is told.
    #[prost(message, optional, tag = "11")]
    pub(crate) ended: Option<Ended>,
    /// Lease time when an ordinary writer was last heard of, ms. Absent in rows of older versions until the cleanup meets them.
    #[prost(uint64, optional, tag = "12")]
    pub(crate) heard_ms: Option<u64>,
}

/// How and when a session ended that did not end by its own close.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Ended {
    /// What its writer is told: fenced (it was recovered) or invalidated (its file is gone, or its time was over).
    #[prost(enumeration = "crate::reply::RefusalKind", tag = "1")]
    pub(crate) told: i32,
    /// Lease time, ms.
    #[prost(uint64, tag = "2")]
    pub(crate) lease_ms: u64,
    /// Its unpublished blocks were handed to reclamation.
    #[prost(bool, tag = "3")]
    pub(crate) released: bool,
}

/// What an append session adds (the design's `appendSession`). Its renewals are a row of their own.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AppendPart {
    #[prost(uint64, tag = "1")]
    pub(crate) prefix_length: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) prefix_blocks: u64,
    #[prost(string, tag = "3")]
    pub(crate) lease_owner: String,
    /// It made the file, so an overwriting create may end it.
    #[prost(bool, tag = "4")]
    pub(crate) created: bool,
}

/// What an ordinary writer wants and has done.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OrdinaryPart {
    #[prost(string, tag = "1")]
    pub(crate) owner: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metadata: Vec<Pair>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) acls: Vec<Acl>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) tags: Vec<Pair>,
    /// The identity that stood at the name when it opened.
    #[prost(uint64, optional, tag = "5")]
    pub(crate) target: Option<Id>,
    #[prost(uint64, optional, tag = "6")]
    pub(crate) expected_update: Option<u64>,
    /// What its hsync published; only while that stands may it publish again.
    #[prost(message, optional, tag = "7")]
    pub(crate) published: Option<Published>,
}

/// The content that an ordinary writer's hsync published.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Published {
    #[prost(uint64, tag = "1")]
    pub(crate) file: Id,
    #[prost(uint64, tag = "2")]
    pub(crate) generation: u64,
}

/// The lease of an append session: (bucket, session).
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct RenewalRow {
    #[prost(uint64, tag = "1")]
    pub(crate) last_renewed_ms: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) renewals: u64,
}

/// A block given to a session: (bucket, session, local id).
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct AllocationRow {
    #[prost(uint64, tag = "1")]
    pub(crate) container: Id,
}

/// Content that waits for reclamation: the list of a deleted or replaced generation, or blocks that were given and never published.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DeletedFileRow {
    #[prost(uint64, tag = "1")]
    pub(crate) bucket: Id,
    #[prost(uint64, tag = "2")]
    pub(crate) file: Id,
    #[prost(uint64, tag = "3")]
    pub(crate) generation: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) block_count: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) size: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) replicated_size: u64,
    /// Where it stood, for people.
    #[prost(uint64, tag = "7")]
    pub(crate) parent: Id,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    /// Blocks of a session that were never published; then there is no list.
    #[prost(message, repeated, tag = "9")]
    pub(crate) unused: Vec<BlockName>,
    #[prost(uint64, tag = "10")]
    pub(crate) session: Id,
    #[prost(uint64, tag = "11")]
    pub(crate) deleted_ms: u64,
    /// The command that made it unreachable, when that is not the one of the key: a sweep found it below a deleted directory.
    #[prost(uint64, optional, tag = "12")]
    pub(crate) removed: Option<u64>,
}

/// A block's id.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct BlockName {
    #[prost(uint64, tag = "1")]
    pub(crate) container: Id,
    #[prost(uint64, tag = "2")]
    pub(crate) local: Id,
}

/// The root of a deleted tree, which waits for the sweep.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DeletedDirRow {
    #[prost(uint64, tag = "1")]
    pub(crate) bucket: Id,
    #[prost(uint64, tag = "2")]
    pub(crate) directory: Id,
    #[prost(uint64, tag = "3")]
    pub(crate) parent: Id,
    #[prost(string, tag = "4")]
    pub(crate) name: String,
    #[prost(uint64, tag = "5")]
    pub(crate) deleted_ms: u64,
    /// The command that made it unreachable, when that is not the one of the key: a sweep found it below a deleted directory.
    #[prost(uint64, optional, tag = "6")]
    pub(crate) removed: Option<u64>,
}

/// A decided answer, by invocation.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DedupeRow {
    /// Digest of command and user.
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) digest: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(crate) reply: Option<Reply>,
    #[prost(message, optional, tag = "3")]
    pub(crate) refusal: Option<Refusal>,
    /// Lease time of the answer.
    #[prost(uint64, tag = "4")]
    pub(crate) lease_ms: u64,
}

/// A client's answered mark.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct MarkRow {
    /// Every sequence below it was answered.
    #[prost(uint64, tag = "1")]
    pub(crate) below: u64,
    /// Lease time when it was last told.
    #[prost(uint64, tag = "2")]
    pub(crate) lease_ms: u64,
    /// Below this number nothing is kept: a scan that began at 0 would pass every answer that was ever freed, again with each call.
    #[prost(uint64, tag = "3")]
    pub(crate) freed: u64,
}

impl OpenRow {
    /// The session's handle.
    pub(crate) fn handle(&self, session: Id) -> Handle {
        Handle {
            bucket: self.place.bucket,
            session,
            file: self.file,
        }
    }
}
