//! What a command answers: a [`Reply`] of outcomes and ids, or a [`Refusal`] that a caller can act on.
//!
//! Both are kept in the dedupe table, so neither holds attributes of a key: whoever answers a caller reads those afresh.

use crate::command::Handle;
use crate::ids::Id;

/// A decided answer.
pub type Decided = Result<Reply, Refusal>;

/// What a successful command answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Reply {
    /// What it was.
    #[prost(oneof = "Answer", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11")]
    pub answer: Option<Answer>,
}

/// The answers with content; everything else is [`Answer::Done`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Answer {
    /// Done, nothing to tell.
    #[prost(message, tag = "1")]
    Done(Done),
    /// CreateDirectory: it was there already (`true`) or was made.
    #[prost(bool, tag = "2")]
    DirectoryExisted(bool),
    /// An ordinary writer is open.
    #[prost(message, tag = "3")]
    Opened(Opened),
    /// A block was given.
    #[prost(message, tag = "4")]
    Allocated(GivenBlock),
    /// An appender was admitted.
    #[prost(message, tag = "5")]
    Admitted(Admitted),
    /// Renewals, one per session asked, in that order.
    #[prost(message, tag = "6")]
    Renewed(Renewed),
    /// DeleteKeys: what was not deleted.
    #[prost(message, tag = "7")]
    DeletedKeys(DeletedKeys),
    /// RegisterHolder: its number.
    #[prost(uint32, tag = "8")]
    HolderNumber(u32),
    /// StartRecovery: the session is fenced.
    #[prost(message, tag = "9")]
    Fenced(Fenced),
    /// RenameKeys: what was not renamed.
    #[prost(message, tag = "10")]
    RenamedKeys(RenamedKeys),
    /// Cleanup and Sweep: what was done.
    #[prost(message, tag = "11")]
    Cleaned(Cleaned),
}

/// Nothing to tell.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Done {}

/// A block that a writer may fill.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GivenBlock {
    /// The container.
    #[prost(uint64, tag = "1")]
    pub container: Id,
    /// The block in the container.
    #[prost(uint64, tag = "2")]
    pub local: Id,
    /// The holder that keeps it.
    #[prost(uint32, tag = "3")]
    pub holder: u32,
    /// How much it may hold, bytes.
    #[prost(uint64, tag = "4")]
    pub capacity: u64,
}

/// See [`Answer::Opened`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Opened {
    /// The session; travels as Ozone's client id.
    #[prost(uint64, tag = "1")]
    pub session: Id,
    /// The bucket's object id.
    #[prost(uint64, tag = "2")]
    pub bucket: Id,
    /// The blocks given at once.
    #[prost(message, repeated, tag = "3")]
    pub blocks: Vec<GivenBlock>,
}

/// See [`Answer::Admitted`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Admitted {
    /// What every later call of the session carries.
    #[prost(message, required, tag = "1")]
    pub handle: Handle,
    /// Bytes that never change while the session lives.
    #[prost(uint64, tag = "2")]
    pub prefix_length: u64,
    /// Blocks of the prefix.
    #[prost(uint64, tag = "3")]
    pub prefix_blocks: u64,
    /// Published length, bytes.
    #[prost(uint64, tag = "4")]
    pub published_length: u64,
    /// The blocks given at once.
    #[prost(message, repeated, tag = "5")]
    pub blocks: Vec<GivenBlock>,
    /// The command made the file.
    #[prost(bool, tag = "6")]
    pub created: bool,
    /// The session is not an append session but an ordinary writer, whose commit replaces (CreateMode::Overwrite of a closed file, or
    /// a create beside another ordinary writer).
    #[prost(bool, tag = "7")]
    pub ordinary: bool,
    /// Soft limit of the lease, ms.
    #[prost(uint64, tag = "8")]
    pub soft_limit_ms: u64,
}

/// See [`Answer::Renewed`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Renewed {
    /// One per session asked.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<Renewal>,
}

/// The renewal of one session.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Renewal {
    /// The session.
    #[prost(message, required, tag = "1")]
    pub handle: Handle,
    /// Why it was not renewed, if it was not ([`RefusalKind`]).
    #[prost(enumeration = "RefusalKind", optional, tag = "2")]
    pub refused: Option<i32>,
    /// Lease time of the last renewal, ms.
    #[prost(uint64, tag = "3")]
    pub last_renewed_ms: u64,
    /// Renewals so far.
    #[prost(uint64, tag = "4")]
    pub renewals: u64,
}

/// See [`Answer::Fenced`]. What a helper must read is told by [`crate::read::recovery`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Fenced {
    /// The session, which the completion names.
    #[prost(message, required, tag = "1")]
    pub handle: Handle,
    /// It is an append session; else an ordinary writer that has hsynced.
    #[prost(bool, tag = "2")]
    pub append: bool,
    /// It was fenced before: this call joins a recovery that runs.
    #[prost(bool, tag = "3")]
    pub joined: bool,
}

/// See [`Answer::RenamedKeys`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct RenamedKeys {
    /// The renames that were refused, each with its reason.
    #[prost(message, repeated, tag = "1")]
    pub refused: Vec<RefusedRename>,
}

/// A key that was not renamed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RefusedRename {
    /// The key.
    #[prost(string, tag = "1")]
    pub from: String,
    /// What it should have become.
    #[prost(string, tag = "2")]
    pub to: String,
    /// Why not.
    #[prost(message, required, tag = "3")]
    pub refusal: Refusal,
}

/// See [`Answer::Cleaned`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Cleaned {
    /// Sessions that were ended or forgotten.
    #[prost(uint64, tag = "1")]
    pub sessions: u64,
    /// Files that were handed to reclamation.
    #[prost(uint64, tag = "2")]
    pub files: u64,
    /// Directories that were taken apart.
    #[prost(uint64, tag = "3")]
    pub directories: u64,
    /// Blocks, given and never published, that were handed to reclamation.
    #[prost(uint64, tag = "4")]
    pub blocks: u64,
    /// The bound of the command was met: something is left for the next.
    #[prost(bool, tag = "5")]
    pub more: bool,
}

/// See [`Answer::DeletedKeys`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeletedKeys {
    /// The keys that were refused, each with its reason.
    #[prost(message, repeated, tag = "1")]
    pub refused: Vec<RefusedKey>,
}

/// A key that was not deleted.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RefusedKey {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Why.
    #[prost(message, required, tag = "2")]
    pub refusal: Refusal,
}

/// A guard said no. Nothing changed but the dedupe entry.
#[derive(Clone, PartialEq, prost::Message, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    /// What a caller can decide on.
    #[prost(enumeration = "RefusalKind", tag = "1")]
    pub kind: i32,
    /// For people: names the path, and the session where there is one.
    #[prost(string, tag = "2")]
    pub detail: String,
    /// The session in the way.
    #[prost(message, optional, boxed, tag = "3")]
    pub conflict: Option<Box<AppendStatus>>,
}

impl Refusal {
    /// A refusal without a session in the way.
    #[must_use]
    pub fn new(kind: RefusalKind, detail: impl Into<String>) -> Refusal {
        Refusal {
            kind: kind as i32,
            detail: detail.into(),
            conflict: None,
        }
    }
}

/// Every reason to refuse. Numbers are part of the log and checkpoint formats. The server maps each to Ozone's status once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum RefusalKind {
    /// A reason that this version does not know.
    Unknown = 0,
    /// No such volume.
    VolumeNotFound = 1,
    /// The volume is there already.
    VolumeExists = 2,
    /// The volume has buckets.
    VolumeNotEmpty = 3,
    /// No such bucket.
    BucketNotFound = 4,
    /// The bucket is there already.
    BucketExists = 5,
    /// The bucket has keys or open uploads.
    BucketNotEmpty = 6,
    /// A volume's name breaks the rules.
    InvalidVolumeName = 7,
    /// A bucket's name breaks the rules.
    InvalidBucketName = 8,
    /// A key's name breaks the rules (reserved, too deep, empty component ...).
    InvalidKeyName = 9,
    /// No such key (Ozone's KEY_NOT_FOUND).
    KeyNotFound = 10,
    /// No such file or directory (FILE_NOT_FOUND).
    FileNotFound = 11,
    /// A parent is missing (DIRECTORY_NOT_FOUND).
    DirectoryNotFound = 12,
    /// The name exists and is a file (FILE_ALREADY_EXISTS).
    FileExists = 13,
    /// The key exists (KEY_ALREADY_EXISTS).
    KeyExists = 14,
    /// The name is a directory, or a parent is a file (NOT_A_FILE).
    NotAFile = 15,
    /// The directory has children (DIRECTORY_NOT_EMPTY).
    DirectoryNotEmpty = 16,
    /// A rename that makes no sense: into its own subtree, of the root (KEY_RENAME_ERROR).
    RenameRefused = 17,
    /// The update id is another (UPDATE_ID_NOT_MATCH).
    UpdateIdMismatch = 18,
    /// A conditional write lost (ATOMIC_WRITE_CONFLICT).
    WriteConflict = 19,
    /// Quota exceeded.
    QuotaExceeded = 20,
    /// Bad arguments (INVALID_REQUEST).
    InvalidRequest = 21,
    /// Not built or not possible here (NOT_SUPPORTED_OPERATION).
    Unsupported = 22,
    /// Rename of a file that an ordinary hsynced writer holds open in an FSO bucket (RENAME_OPEN_FILE).
    RenameOpenFile = 23,
    /// Not the caller's to do.
    PermissionDenied = 24,
    /// There is nothing to recover: nobody holds the file (KEY_ALREADY_CLOSED).
    AlreadyClosed = 25,

    /// Another append session owns the file (wire code 1).
    ConflictAppend = 40,
    /// The owner is being recovered (2).
    Recovering = 41,
    /// An ordinary writer is open at the name (3).
    ConflictOrdinary = 42,
    /// An ordinary writer that has hsynced is open at the name (4).
    ConflictHsync = 43,
    /// The session was fenced by a recovery (5).
    Fenced = 44,
    /// No such session any more (6).
    SessionUnknown = 45,
    /// The file was deleted or replaced under the session (7).
    Invalidated = 46,
    /// An ancestor was deleted (8).
    Unreachable = 47,
    /// Recovery came too early (9).
    NotEligible = 48,
    /// Layout, cipher or flag that append cannot serve (10).
    AppendUnsupported = 49,
    /// Append is switched off (11).
    AppendDisabled = 50,
    /// A publication that does not fit the session (12).
    BadPublication = 51,
    /// The handle names another file (13).
    IdentityMismatch = 52,
    /// The answer of this invocation is not known any more (14).
    Uncertain = 53,
    /// The asked generation was overwritten (15).
    GenerationGone = 54,
    /// The file would have more blocks than the limit (16).
    TooManyBlocks = 55,
    /// Come again later; nothing was decided and nothing remembered (17).
    RetryLater = 56,
    /// The layout that append needs is not finalized (11, with Ozone's status for it).
    NotFinalized = 57,
}

/// Phases of an append session, with the wire's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Phase {
    /// The writer may write.
    Active = 1,
    /// The writer is fenced; helpers recover.
    Recovering = 2,
    /// The file is gone; only cleanup is left.
    Invalidated = 3,
}

/// Who holds a file open, with the wire's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum WriterKind {
    /// Nobody.
    None = 0,
    /// An ordinary writer.
    Ordinary = 1,
    /// An ordinary writer that has hsynced.
    Hsync = 2,
    /// An append session.
    Append = 3,
}

/// The session that holds a file, as a waiter or an operator sees it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AppendStatus {
    /// Its kind.
    #[prost(enumeration = "WriterKind", tag = "1")]
    pub writer: i32,
    /// The session.
    #[prost(message, optional, tag = "2")]
    pub handle: Option<Handle>,
    /// Its phase.
    #[prost(enumeration = "Phase", optional, tag = "3")]
    pub phase: Option<i32>,
    /// Lease time of its last renewal, ms.
    #[prost(uint64, tag = "4")]
    pub last_renewed_ms: u64,
    /// Until it may be recovered, ms; 0 = now.
    #[prost(uint64, tag = "5")]
    pub remaining_ms: u64,
    /// Prefix length, bytes.
    #[prost(uint64, tag = "6")]
    pub prefix_length: u64,
    /// Published length, bytes.
    #[prost(uint64, tag = "7")]
    pub published_length: u64,
    /// Blocks of the suffix.
    #[prost(uint64, tag = "8")]
    pub suffix_blocks: u64,
    /// Who it said it is.
    #[prost(string, tag = "9")]
    pub owner: String,
    /// Renewals so far: a waiter sees life by this number, whatever the clocks do.
    #[prost(uint64, tag = "10")]
    pub renewals: u64,
    /// It created the file (not exclusive).
    #[prost(bool, tag = "11")]
    pub created: bool,
}
