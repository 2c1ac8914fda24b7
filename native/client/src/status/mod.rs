//! What a file system tells about its files: plain data, filled from the server's answers.

pub(crate) mod from_wire;

use std::time::Duration;

use crate::path::FsPath;

/// A file or directory. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStatus {
    /// Where it stands.
    pub path: FsPath,
    /// Published length in bytes; 0 for a directory.
    pub length: u64,
    /// A directory, bucket, volume or the root.
    pub directory: bool,
    /// Copies that are kept of a file's data; 0 for directories.
    pub replication: u16,
    /// Bytes of one block; 0 for directories.
    pub block_size: u64,
    /// Data last changed.
    pub modified_ms: u64,
    /// Last read, as far as anybody counts: Ozone does not, so it is the modification time.
    pub accessed_ms: u64,
    /// Owner, empty if the server does not say.
    pub owner: String,
    /// The content is encrypted.
    pub encrypted: bool,
    /// The content is erasure coded.
    pub erasure_coded: bool,
    /// Identity of the object; 0 if the server does not say. It stays over renames.
    pub object_id: u64,
    /// The writer that holds the file, if the server says.
    pub writer: Option<AppendStatus>,
}

impl FileStatus {
    /// Last component of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.name()
    }
}

/// One page of a directory's entries, in the server's order (byte order of names).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// The entries.
    pub entries: Vec<FileStatus>,
    /// Whether another page may follow. Continue after the name of the last entry.
    pub more: bool,
}

/// Who holds a file open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriterKind {
    /// A writer that has published nothing.
    Ordinary,
    /// An ordinary writer that has published by hsync.
    Hsync,
    /// A session of append or of this client's create.
    Append,
}

/// Phase of an append session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The writer may write.
    Active,
    /// The writer is fenced, the file is being recovered.
    Recovering,
    /// The file is gone.
    Invalidated,
}

/// Identity of a session for the server; a path is not needed with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionHandle {
    /// Object id of the bucket.
    pub bucket: u64,
    /// The session.
    pub session: u64,
    /// Object id of the file.
    pub file: u64,
}

/// The writer that holds a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendStatus {
    /// What kind of writer.
    pub kind: WriterKind,
    /// Its session, for [`WriterKind::Append`].
    pub handle: Option<SessionHandle>,
    /// Its phase, for [`WriterKind::Append`].
    pub phase: Option<Phase>,
    /// Lease time of its last renewal, in milliseconds on the server's lease clock.
    pub last_renewed_ms: u64,
    /// Renewals so far: grows as long as the writer lives.
    pub renewals: u64,
    /// Until its file may be recovered if it does not renew.
    pub remaining: Duration,
    /// Length of what was there before it, in bytes.
    pub prefix_length: u64,
    /// Length that readers see, in bytes.
    pub published_length: u64,
    /// Blocks that it added.
    pub suffix_blocks: u32,
    /// Who it says it is.
    pub owner: String,
    /// Why its recovery does not go on, empty if nothing is in the way.
    pub blocked_reason: String,
}

/// What works at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Files can be appended to: by the bucket's layout and the server's feature.
    pub append: bool,
    /// Streams opened here can hflush.
    pub hflush: bool,
    /// Streams opened here can hsync.
    pub hsync: bool,
    /// A file whose writer died can be recovered by a call.
    pub lease_recovery: bool,
    /// A rename of a directory is one atomic step.
    pub atomic_rename: bool,
}

/// Why Hadoop's rename did nothing, or that it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameOutcome {
    /// It stands at its new name.
    Done,
    /// Source and destination are the same file: nothing to do, and no failure.
    SameFile,
    /// Source and destination are the same directory.
    SameDirectory,
    /// Nothing stands at the source.
    SourceMissing,
    /// The destination exists (inside the destination directory, if it is one).
    DestinationExists,
    /// The destination's parent is missing or a file.
    NoDestinationParent,
    /// A directory cannot move below itself, nor can the root move.
    BelowItself,
}

/// A session that is open on the server, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// The file.
    pub path: FsPath,
    /// Client id of the writer; the session for append sessions.
    pub session: u64,
    /// Opened at, milliseconds since 1970.
    pub opened_ms: u64,
    /// Copies kept.
    pub replication: u16,
    /// An ordinary writer that has published by hsync.
    pub hsynced: bool,
    /// Details of an append session.
    pub status: Option<AppendStatus>,
}

/// One page of open files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenFilesPage {
    /// The sessions.
    pub files: Vec<OpenFile>,
    /// Where the next page starts; none when this is the last.
    pub next: Option<String>,
    /// Open files in all.
    pub total: u64,
}
