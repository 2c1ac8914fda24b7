//! What a read shows of the rows: volumes, buckets, files, directories, blocks, open sessions.
//!
//! Plain data; the reads that fill it are beside the rules that write the rows.

use crate::command::{Acl, Holder, KeyPath, Layout, Pair, Replication};
use crate::ids::Id;
use crate::reply::AppendStatus;

/// A volume.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeView {
    /// Name.
    pub volume: String,
    /// Owner.
    pub owner: String,
    /// Administrator.
    pub admin: String,
    /// Identity.
    pub object_id: Id,
    /// Command that changed it last.
    pub update_id: u64,
    /// Made at, wall ms.
    pub created_ms: u64,
    /// Changed at, wall ms.
    pub modified_ms: u64,
    /// Space quota in bytes; -1 none.
    pub quota_bytes: i64,
    /// Names quota; -1 none.
    pub quota_names: i64,
    /// Buckets in it.
    pub used_names: u64,
    /// Metadata.
    pub metadata: Vec<Pair>,
    /// Access rules.
    pub acls: Vec<Acl>,
}

/// A bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketView {
    /// Volume.
    pub volume: String,
    /// Name.
    pub bucket: String,
    /// Owner.
    pub owner: String,
    /// Layout.
    pub layout: Layout,
    /// Identity.
    pub object_id: Id,
    /// Command that changed it last.
    pub update_id: u64,
    /// Made at, wall ms.
    pub created_ms: u64,
    /// Changed at, wall ms.
    pub modified_ms: u64,
    /// Replication of files whose writer names none.
    pub replication: Replication,
    /// Ozone's storage type.
    pub storage_type: i32,
    /// Space quota in bytes; -1 none.
    pub quota_bytes: i64,
    /// Names quota; -1 none.
    pub quota_names: i64,
    /// Replicated bytes charged.
    pub used_bytes: u64,
    /// Files and directories.
    pub used_names: u64,
    /// Metadata.
    pub metadata: Vec<Pair>,
    /// Access rules.
    pub acls: Vec<Acl>,
    /// Tags.
    pub tags: Vec<Pair>,
}

/// A committed file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileView {
    /// Where it stands now.
    pub path: KeyPath,
    /// Identity.
    pub object_id: Id,
    /// Parent directory (bucket id at the top; 0 outside FSO).
    pub parent_id: Id,
    /// Content generation (not Ozone's "generation", which is `update_id`).
    pub generation: u64,
    /// Command that changed it last.
    pub update_id: u64,
    /// Published length, bytes.
    pub size: u64,
    /// Blocks.
    pub block_count: u64,
    /// Replicated bytes.
    pub replicated_size: u64,
    /// Made at, wall ms.
    pub created_ms: u64,
    /// Data changed at, wall ms.
    pub modified_ms: u64,
    /// How its bytes are kept.
    pub replication: Replication,
    /// Owner.
    pub owner: String,
    /// Metadata; never the reserved keys.
    pub metadata: Vec<Pair>,
    /// Access rules.
    pub acls: Vec<Acl>,
    /// Tags.
    pub tags: Vec<Pair>,
    /// The append session that owns it.
    pub append_owner: Option<Id>,
    /// The session that has hsynced and is still open: readers look for the live tail of the last block.
    pub hsync_session: Option<Id>,
    /// Length of the owner's prefix, bytes; readers look for a live tail only when `size` exceeds it.
    pub prefix_length: Option<u64>,
}

/// A directory.
#[derive(Debug, Clone, PartialEq)]
pub struct DirView {
    /// Where it stands now.
    pub path: KeyPath,
    /// Identity; 0 for a directory that only its keys imply.
    pub object_id: Id,
    /// Parent directory.
    pub parent_id: Id,
    /// Command that changed it last.
    pub update_id: u64,
    /// Made at, wall ms.
    pub created_ms: u64,
    /// Changed at, wall ms.
    pub modified_ms: u64,
    /// Owner.
    pub owner: String,
    /// Metadata.
    pub metadata: Vec<Pair>,
    /// Access rules.
    pub acls: Vec<Acl>,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A committed file.
    File(Box<FileView>),
    /// A directory.
    Directory(Box<DirView>),
    /// The bucket itself.
    BucketRoot,
}

/// One block in a view of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockView {
    /// The container.
    pub container: Id,
    /// The block in the container.
    pub local: Id,
    /// Its holder.
    pub holder: u32,
    /// Ozone's commit sequence.
    pub bcsid: u64,
    /// Where its bytes start in the file.
    pub start: u64,
    /// Where the file's bytes start in the block.
    pub start_in_block: u64,
    /// Bytes of it in this view.
    pub length: u64,
}

/// A range of a file's block list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRange {
    /// The blocks.
    pub blocks: Vec<BlockView>,
    /// Blocks of the whole file.
    pub total: u64,
    /// Where the next range starts in the file; the file's length when there is none.
    pub next_offset: u64,
}

/// An open session, for operators.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenFileView {
    /// Where its file stands now.
    pub path: KeyPath,
    /// The session.
    pub session: Id,
    /// The file's identity.
    pub object_id: Id,
    /// Opened at, wall ms.
    pub opened_ms: u64,
    /// Its replication.
    pub replication: Replication,
    /// Kind, phase, lease.
    pub status: AppendStatus,
}

/// A block that a fenced writer was given, as a helper must settle it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuffixBlock {
    /// The container.
    pub container: Id,
    /// The block in the container.
    pub local: Id,
    /// Its holder.
    pub holder: u32,
    /// How much it may hold, bytes.
    pub capacity: u64,
    /// Ozone's commit sequence, as last published.
    pub bcsid: u64,
    /// Bytes of it that are published; 0 for a block that is not published.
    pub published: u64,
}

/// What a helper needs to finish a recovery.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoveryView {
    /// The file as it is published: its length is the floor.
    pub file: FileView,
    /// The session.
    pub handle: crate::command::Handle,
    /// Bytes that were there when the session was admitted; 0 for an ordinary writer.
    pub prefix_length: u64,
    /// The last published block of the session, which may have grown since, if it has published one; then every block that it was given
    /// and has not published, in the order in which they were given. Of an ordinary writer: all blocks that it was given.
    pub blocks: Vec<SuffixBlock>,
    /// Blocks beyond those in `blocks`, left out for their number: what they hold cannot be recovered.
    pub left_out: u64,
}

/// A block holder, as registered.
pub type HolderView = Holder;
