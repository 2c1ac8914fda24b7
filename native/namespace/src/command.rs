//! What the log carries: entries of requests. Encoded with protobuf, so that a newer server reads an older log.
//!
//! Tags are part of the log format: never reuse one. The structures are our own; the server translates Ozone's messages into them.

mod limits;

pub use limits::Limits;

use crate::ids::Id;
use bytes::Bytes;

/// One log entry: the leader's stamp and the commands that share its fsync.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entry {
    /// The leader's times.
    #[prost(message, required, tag = "1")]
    pub stamp: Stamp,
    /// The commands, applied in this order. Empty for a tick of lease time.
    #[prost(message, repeated, tag = "2")]
    pub requests: Vec<Request>,
}

/// The two times of an entry, both made by the leader.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Stamp {
    /// Lease time, ms: for leases, expiry, retention. `apply` takes the larger of this and the last.
    #[prost(uint64, tag = "1")]
    pub lease_ms: u64,
    /// Wall time, ms since 1970: for modification times only.
    #[prost(uint64, tag = "2")]
    pub wall_ms: u64,
    /// The rules by which the entry was decided: [`RULES`] of the server that wrote it. Absent in logs from before it was written. A guard
    /// that a version adds applies from its number on, so that replaying an older log refuses nothing that was answered.
    #[prost(uint32, tag = "3")]
    pub rules: u32,
}

/// One command with its caller and its identity.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    /// The user who asks. Never empty: a caller without a user is refused before it comes here.
    #[prost(string, tag = "1")]
    pub user: String,
    /// The identity of this call; the same in every retry of it. Absent only for the server's own duties.
    #[prost(message, optional, tag = "2")]
    pub invocation: Option<Invocation>,
    /// The caller has got the answers of all its sequences below this one.
    #[prost(uint64, optional, tag = "3")]
    pub answered_below: Option<u64>,
    /// The command.
    #[prost(
        oneof = "Command",
        tags = "10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32"
    )]
    pub command: Option<Command>,
}

/// The identity of a logical call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct Invocation {
    /// The client: 8 bytes for ours, the 16-byte RPC client id for others.
    #[prost(bytes = "bytes", tag = "1")]
    pub client: Bytes,
    /// The call of this client.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
}

/// All commands.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Command {
    /// Makes a volume.
    #[prost(message, tag = "10")]
    CreateVolume(CreateVolume),
    /// Changes owner or quota of a volume.
    #[prost(message, tag = "11")]
    SetVolume(SetVolume),
    /// Removes an empty volume.
    #[prost(message, tag = "12")]
    DeleteVolume(VolumeName),
    /// Makes a bucket.
    #[prost(message, tag = "13")]
    CreateBucket(CreateBucket),
    /// Changes properties of a bucket.
    #[prost(message, tag = "14")]
    SetBucket(SetBucket),
    /// Removes an empty bucket.
    #[prost(message, tag = "15")]
    DeleteBucket(BucketName),
    /// Makes a directory and its missing parents.
    #[prost(message, tag = "16")]
    CreateDirectory(CreateDirectory),
    /// Opens an ordinary (Ozone) writer.
    #[prost(message, tag = "17")]
    OpenKey(OpenKey),
    /// Adds a block to an open writer.
    #[prost(message, tag = "18")]
    AllocateBlock(AllocateBlock),
    /// Publishes: hsync, close or completed recovery.
    #[prost(message, tag = "19")]
    Publish(Publish),
    /// Admits an appender, or creates and admits.
    #[prost(message, tag = "20")]
    AppendFile(AppendFile),
    /// Renews leases.
    #[prost(message, tag = "21")]
    RenewLeases(RenewLeases),
    /// Renames a file or a directory within its bucket.
    #[prost(message, tag = "22")]
    Rename(Rename),
    /// Deletes a file or a directory.
    #[prost(message, tag = "23")]
    Delete(Delete),
    /// Deletes several keys of one bucket.
    #[prost(message, tag = "24")]
    DeleteKeys(DeleteKeys),
    /// Sets the modification time.
    #[prost(message, tag = "25")]
    SetTimes(SetTimes),
    /// Records where a block holder answers.
    #[prost(message, tag = "26")]
    RegisterHolder(Holder),
    /// Sets the named limits that the rules check.
    #[prost(message, tag = "27")]
    Configure(Limits),
    /// Fences the writer of a file, so that a helper may recover what it wrote.
    #[prost(message, tag = "28")]
    StartRecovery(StartRecovery),
    /// Renames several keys of one bucket.
    #[prost(message, tag = "29")]
    RenameKeys(RenameKeys),
    /// Ends sessions that are invalidated or whose time is over. The leader's own duty.
    #[prost(message, tag = "30")]
    Cleanup(Cleanup),
    /// Takes a bounded part of a deleted tree apart. The leader's own duty.
    #[prost(message, tag = "31")]
    Sweep(Sweep),
    /// Finalizes a layout of the rows: what it adds may be used from now on, and older servers may not open them.
    #[prost(message, tag = "32")]
    Finalize(Finalize),
}

/// A volume's name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VolumeName {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume: String,
}

/// A bucket's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct BucketName {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume: String,
    /// The bucket.
    #[prost(string, tag = "2")]
    pub bucket: String,
}

/// A path inside a bucket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct KeyPath {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume: String,
    /// The bucket.
    #[prost(string, tag = "2")]
    pub bucket: String,
    /// The key, without a leading slash; empty for the bucket's root.
    #[prost(string, tag = "3")]
    pub key: String,
}

impl std::fmt::Display for KeyPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/{}/{}", self.volume, self.bucket, self.key)
    }
}

/// A session that does not need its path: what an appender was given at admission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct Handle {
    /// The bucket's object id.
    #[prost(uint64, tag = "1")]
    pub bucket: Id,
    /// The session.
    #[prost(uint64, tag = "2")]
    pub session: Id,
    /// The file's identity.
    #[prost(uint64, tag = "3")]
    pub file: Id,
}

/// A name with a value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Pair {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// An access rule as Ozone writes it. Kept and shown; not enforced until authentication is built.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Acl {
    /// USER 1, GROUP 2, WORLD 3, ANONYMOUS 4, CLIENT_IP 5.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Who.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Ozone's bit set of rights, little endian.
    #[prost(bytes = "bytes", tag = "3")]
    pub rights: Bytes,
    /// ACCESS 0, DEFAULT 1.
    #[prost(int32, tag = "4")]
    pub scope: i32,
}

/// How the bytes of a file are kept.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Replication {
    /// Ozone's replication type: RATIS 1, STAND_ALONE 2, EC 4.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Copies: 1 or 3. Zero for EC.
    #[prost(int32, tag = "2")]
    pub factor: i32,
}

/// Bucket layouts, with Ozone's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Layout {
    /// Keys by full name, directories as keys that end in a slash.
    Legacy = 1,
    /// Files and directories by parent identity.
    FileSystemOptimized = 2,
    /// Keys taken literally. Refuses append.
    ObjectStore = 3,
}

/// See [`Command::CreateVolume`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateVolume {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume: String,
    /// Its owner.
    #[prost(string, tag = "2")]
    pub owner: String,
    /// Its administrator.
    #[prost(string, tag = "3")]
    pub admin: String,
    /// Space quota in bytes; -1 none.
    #[prost(int64, tag = "4")]
    pub quota_bytes: i64,
    /// Names quota; -1 none.
    #[prost(int64, tag = "5")]
    pub quota_names: i64,
    /// Metadata.
    #[prost(message, repeated, tag = "6")]
    pub metadata: Vec<Pair>,
    /// Access rules.
    #[prost(message, repeated, tag = "7")]
    pub acls: Vec<Acl>,
}

/// See [`Command::SetVolume`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetVolume {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume: String,
    /// New owner.
    #[prost(string, optional, tag = "2")]
    pub owner: Option<String>,
    /// New space quota in bytes.
    #[prost(int64, optional, tag = "3")]
    pub quota_bytes: Option<i64>,
    /// New names quota.
    #[prost(int64, optional, tag = "4")]
    pub quota_names: Option<i64>,
}

/// See [`Command::CreateBucket`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateBucket {
    /// The bucket.
    #[prost(message, required, tag = "1")]
    pub name: BucketName,
    /// Its layout.
    #[prost(enumeration = "Layout", tag = "2")]
    pub layout: i32,
    /// Its owner.
    #[prost(string, tag = "3")]
    pub owner: String,
    /// Replication of files whose writer names none.
    #[prost(message, optional, tag = "4")]
    pub replication: Option<Replication>,
    /// Ozone's storage type, kept as it came.
    #[prost(int32, tag = "5")]
    pub storage_type: i32,
    /// Space quota in bytes; -1 none.
    #[prost(int64, tag = "6")]
    pub quota_bytes: i64,
    /// Names quota; -1 none.
    #[prost(int64, tag = "7")]
    pub quota_names: i64,
    /// Metadata.
    #[prost(message, repeated, tag = "8")]
    pub metadata: Vec<Pair>,
    /// Access rules.
    #[prost(message, repeated, tag = "9")]
    pub acls: Vec<Acl>,
    /// Tags.
    #[prost(message, repeated, tag = "10")]
    pub tags: Vec<Pair>,
}

/// See [`Command::SetBucket`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetBucket {
    /// The bucket.
    #[prost(message, required, tag = "1")]
    pub name: BucketName,
    /// New owner.
    #[prost(string, optional, tag = "2")]
    pub owner: Option<String>,
    /// New space quota in bytes.
    #[prost(int64, optional, tag = "3")]
    pub quota_bytes: Option<i64>,
    /// New names quota.
    #[prost(int64, optional, tag = "4")]
    pub quota_names: Option<i64>,
    /// New default replication.
    #[prost(message, optional, tag = "5")]
    pub replication: Option<Replication>,
}

/// See [`Command::CreateDirectory`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateDirectory {
    /// The directory.
    #[prost(message, required, tag = "1")]
    pub path: KeyPath,
    /// Its owner.
    #[prost(string, tag = "2")]
    pub owner: String,
    /// Metadata.
    #[prost(message, repeated, tag = "3")]
    pub metadata: Vec<Pair>,
    /// Access rules.
    #[prost(message, repeated, tag = "4")]
    pub acls: Vec<Acl>,
}

/// See [`Command::OpenKey`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct OpenKey {
    /// The key.
    #[prost(message, required, tag = "1")]
    pub path: KeyPath,
    /// Ozone's CreateFile (true) or CreateKey.
    #[prost(bool, tag = "2")]
    pub as_file: bool,
    /// CreateFile: make missing parents.
    #[prost(bool, tag = "3")]
    pub recursive: bool,
    /// CreateFile: an existing file may be replaced at commit.
    #[prost(bool, tag = "4")]
    pub overwrite: bool,
    /// Replication, if the writer names one.
    #[prost(message, optional, tag = "5")]
    pub replication: Option<Replication>,
    /// The owner of the key.
    #[prost(string, tag = "6")]
    pub owner: String,
    /// Metadata.
    #[prost(message, repeated, tag = "7")]
    pub metadata: Vec<Pair>,
    /// Access rules.
    #[prost(message, repeated, tag = "8")]
    pub acls: Vec<Acl>,
    /// Tags.
    #[prost(message, repeated, tag = "9")]
    pub tags: Vec<Pair>,
    /// Holders of the blocks to give at once, one block each.
    #[prost(uint32, repeated, tag = "10")]
    pub holders: Vec<u32>,
    /// Ozone's conditional write: the update id that the key must have, 0 for "must not exist".
    #[prost(uint64, optional, tag = "11")]
    pub expected_update: Option<u64>,
}

/// Whom a block, a publication or a deletion is for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Target {
    /// An appender's handle; follows its file through renames.
    #[prost(message, optional, tag = "1")]
    pub handle: Option<Handle>,
    /// The path: resolved for ordinary writers, diagnostic beside a handle.
    #[prost(message, optional, tag = "2")]
    pub path: Option<KeyPath>,
    /// An ordinary writer's session.
    #[prost(uint64, tag = "3")]
    pub session: Id,
}

/// See [`Command::AllocateBlock`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateBlock {
    /// Whose block.
    #[prost(message, required, tag = "1")]
    pub target: Target,
    /// Which holder keeps it.
    #[prost(uint32, tag = "2")]
    pub holder: u32,
}

/// What a publication is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum PublishKind {
    /// The writer goes on.
    Hsync = 1,
    /// The writer ends.
    Close = 2,
    /// A helper ends a fenced session.
    Recovery = 3,
}

/// A block as a writer submits it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SubmittedBlock {
    /// The container.
    #[prost(uint64, tag = "1")]
    pub container: Id,
    /// The block in the container.
    #[prost(uint64, tag = "2")]
    pub local: Id,
    /// Ozone's commit sequence of the block.
    #[prost(uint64, tag = "3")]
    pub bcsid: u64,
    /// Where the file's bytes start in the block.
    #[prost(uint64, tag = "4")]
    pub start_in_block: u64,
    /// Bytes.
    #[prost(uint64, tag = "5")]
    pub length: u64,
}

/// See [`Command::Publish`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Publish {
    /// Whose publication.
    #[prost(message, required, tag = "1")]
    pub target: Target,
    /// Hsync, close or recovery.
    #[prost(enumeration = "PublishKind", tag = "2")]
    pub kind: i32,
    /// The file's length with everything published, bytes.
    #[prost(uint64, tag = "3")]
    pub size: u64,
    /// With a handle: the tail of the suffix, starting at or before the last published block. Without: all blocks.
    #[prost(message, repeated, tag = "4")]
    pub blocks: Vec<SubmittedBlock>,
    /// Metadata to merge.
    #[prost(message, repeated, tag = "5")]
    pub metadata: Vec<Pair>,
}

/// What an admission does about a missing or an existing file (wire H2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum CreateMode {
    /// Append only: the file must exist.
    No = 0,
    /// Append, or create the empty file and write to it.
    IfMissing = 1,
    /// Create; an existing name is refused.
    MustBeNew = 2,
    /// Create; an existing closed file is replaced at commit.
    Overwrite = 3,
}

/// See [`Command::AppendFile`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct AppendFile {
    /// The file.
    #[prost(message, required, tag = "1")]
    pub path: KeyPath,
    /// What to do when it is missing or there.
    #[prost(enumeration = "CreateMode", tag = "2")]
    pub create: i32,
    /// Make missing parents of a created file.
    #[prost(bool, tag = "3")]
    pub recursive: bool,
    /// Holders of the blocks to give at once.
    #[prost(uint32, repeated, tag = "4")]
    pub holders: Vec<u32>,
    /// Replication of a created file, if the writer names one.
    #[prost(message, optional, tag = "5")]
    pub replication: Option<Replication>,
    /// The owner of a created file.
    #[prost(string, tag = "6")]
    pub owner: String,
    /// Metadata of a created file.
    #[prost(message, repeated, tag = "7")]
    pub metadata: Vec<Pair>,
    /// Access rules of a created file.
    #[prost(message, repeated, tag = "8")]
    pub acls: Vec<Acl>,
    /// Who to tell others owns the lease, e.g. the client's name.
    #[prost(string, tag = "9")]
    pub lease_owner: String,
}

/// See [`Command::RenewLeases`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct RenewLeases {
    /// The sessions.
    #[prost(message, repeated, tag = "1")]
    pub sessions: Vec<Handle>,
}

/// See [`Command::Rename`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Rename {
    /// What.
    #[prost(message, required, tag = "1")]
    pub from: KeyPath,
    /// The new key in the same bucket.
    #[prost(string, tag = "2")]
    pub to: String,
    /// Ozone's conditional rename: the update id that the key must have.
    #[prost(uint64, optional, tag = "3")]
    pub expected_update: Option<u64>,
}

/// See [`Command::Delete`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Delete {
    /// What.
    #[prost(message, required, tag = "1")]
    pub path: KeyPath,
    /// A directory with everything below it.
    #[prost(bool, tag = "2")]
    pub recursive: bool,
    /// Delete what this created session made, wherever it is now, instead of the path.
    #[prost(message, optional, tag = "3")]
    pub created_by: Option<Handle>,
}

/// See [`Command::DeleteKeys`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteKeys {
    /// The bucket.
    #[prost(message, required, tag = "1")]
    pub bucket: BucketName,
    /// The keys.
    #[prost(string, repeated, tag = "2")]
    pub keys: Vec<String>,
}

/// See [`Command::SetTimes`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetTimes {
    /// What.
    #[prost(message, required, tag = "1")]
    pub path: KeyPath,
    /// New modification time, ms since 1970; below zero: unchanged.
    #[prost(int64, tag = "2")]
    pub modified_ms: i64,
}

/// See [`Command::StartRecovery`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct StartRecovery {
    /// The file.
    #[prost(message, required, tag = "1")]
    pub path: KeyPath,
    /// The caller can finish the recovery of an append session (wire: RecoverLeaseRequest 2001). Without it an append session is left
    /// as it is.
    #[prost(bool, tag = "2")]
    pub append_only: bool,
    /// Do not wait for the soft limit (Ozone's `force`): only when a person asks for it, never as part of an append.
    #[prost(bool, tag = "3")]
    pub force: bool,
}

/// See [`Command::RenameKeys`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct RenameKeys {
    /// The bucket.
    #[prost(message, required, tag = "1")]
    pub bucket: BucketName,
    /// What becomes what, one after the other.
    #[prost(message, repeated, tag = "2")]
    pub renames: Vec<KeyRename>,
}

/// One of several renames.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyRename {
    /// The key.
    #[prost(string, tag = "1")]
    pub from: String,
    /// Its new key.
    #[prost(string, tag = "2")]
    pub to: String,
}

/// See [`Command::Cleanup`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Cleanup {
    /// The sessions; each is looked at again when the command is applied, and left alone if it is not due.
    #[prost(message, repeated, tag = "1")]
    pub sessions: Vec<Handle>,
}

/// See [`Command::Sweep`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Sweep {
    /// The command that deleted the tree.
    #[prost(uint64, tag = "1")]
    pub command: u64,
    /// Which of the trees that it deleted.
    #[prost(uint32, tag = "2")]
    pub ordinal: u32,
    /// Files, directories and writers that this step takes at most.
    #[prost(uint32, tag = "3")]
    pub max: u32,
}

/// See [`Command::Finalize`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Finalize {
    /// The layout, e.g. [`LAYOUT_APPEND`].
    #[prost(uint32, tag = "1")]
    pub layout: u32,
}

/// The layout that append sessions need (wire H2: "our on-disk layout feature is also 2001").
pub const LAYOUT_APPEND: u32 = 2001;

/// The rules that this version decides by; see [`Stamp::rules`].
pub const RULES: u32 = 2;

/// Blocks that one answer to a recovery tells at most. An append session is given no block that would make it hold more than that, so that
/// whoever recovers it is told all of them.
pub const MAX_RECOVERED: u64 = 100_000;

/// A block holder (a datanode) and where it answers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Holder {
    /// Its number in block rows. Zero in a command: the state machine finds or assigns the number by `uuid`.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// Its own id, kept in its folder.
    #[prost(string, tag = "2")]
    pub uuid: String,
    /// Host that clients connect to.
    #[prost(string, tag = "3")]
    pub host: String,
    /// Its gRPC port.
    #[prost(uint32, tag = "4")]
    pub port: u32,
}
