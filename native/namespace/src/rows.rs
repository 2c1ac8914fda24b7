//! What the rules ask of the rows: ordered keyspaces of bytes, read through [`Rows`], changed by lists of [`Change`].
//!
//! The trait says nothing about durability or threads; the server's store does.

use bytes::Bytes;

/// The keyspaces. The number is part of the checkpoint format: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Keyspace {
    /// Single rows: applied position, limits, epoch.
    Meta = 0,
    /// Volumes by name.
    Volumes = 1,
    /// Buckets by volume and name.
    Buckets = 2,
    /// Directories by (bucket id, parent id, name).
    Dirs = 3,
    /// Where a directory stands, by (bucket id, directory id): the way up for reachability.
    DirParents = 4,
    /// Committed files by (bucket id, parent id, name).
    Files = 5,
    /// Where a committed file stands, by file identity.
    FilePlaces = 6,
    /// Block lists by (file identity, content generation, sequence).
    Lists = 7,
    /// Block rows by block id.
    Blocks = 8,
    /// Open records by (bucket id, session id).
    Open = 9,
    /// Renewal time and count by (bucket id, session id).
    Renewals = 10,
    /// Suffix (or whole) allocations by (bucket id, session id, sequence).
    Allocations = 11,
    /// Open sessions by (bucket id, parent id, name, session id), uncommitted files included.
    OpenByName = 12,
    /// Deleted or replaced file contents that wait for reclamation, by deletion command number and ordinal.
    DeletedFiles = 13,
    /// Roots of deleted trees that wait for the sweep, by deletion command number and ordinal.
    DeletedDirs = 14,
    /// Decided answers by invocation; a client's own row (its key without a sequence) keeps its answered mark.
    Dedupe = 15,
    /// Invocations by the lease time of their answer, for expiry.
    DedupeOrder = 16,
    /// Block holders by number.
    Holders = 17,
    /// Where a bucket stands, by bucket id.
    BucketPlaces = 18,
}

impl Keyspace {
    /// All keyspaces, in the order of their numbers.
    pub const ALL: [Keyspace; 19] = [
        Keyspace::Meta,
        Keyspace::Volumes,
        Keyspace::Buckets,
        Keyspace::Dirs,
        Keyspace::DirParents,
        Keyspace::Files,
        Keyspace::FilePlaces,
        Keyspace::Lists,
        Keyspace::Blocks,
        Keyspace::Open,
        Keyspace::Renewals,
        Keyspace::Allocations,
        Keyspace::OpenByName,
        Keyspace::DeletedFiles,
        Keyspace::DeletedDirs,
        Keyspace::Dedupe,
        Keyspace::DedupeOrder,
        Keyspace::Holders,
        Keyspace::BucketPlaces,
    ];

    /// The name under which a store keeps the keyspace.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Keyspace::Meta => "meta",
            Keyspace::Volumes => "volumes",
            Keyspace::Buckets => "buckets",
            Keyspace::Dirs => "dirs",
            Keyspace::DirParents => "dir-parents",
            Keyspace::Files => "files",
            Keyspace::FilePlaces => "file-places",
            Keyspace::Lists => "lists",
            Keyspace::Blocks => "blocks",
            Keyspace::Open => "open",
            Keyspace::Renewals => "renewals",
            Keyspace::Allocations => "allocations",
            Keyspace::OpenByName => "open-by-name",
            Keyspace::DeletedFiles => "deleted-files",
            Keyspace::DeletedDirs => "deleted-dirs",
            Keyspace::Dedupe => "dedupe",
            Keyspace::DedupeOrder => "dedupe-order",
            Keyspace::Holders => "holders",
            Keyspace::BucketPlaces => "bucket-places",
        }
    }
}

/// A row that could not be read or does not decode. Never an answer to a caller's mistake: the process that sees it must stop
/// applying.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(String),
    /// A row does not decode or contradicts another row.
    #[error("row {keyspace:?} is corrupt: {detail}")]
    Corrupt {
        /// Where the row stands.
        keyspace: Keyspace,
        /// What is wrong with it, without its content.
        detail: String,
    },
    /// A newer version has finalized a layout that this one does not know.
    #[error(
        "the rows have layout {found}, and this version knows layouts up to {known}: a newer version must open them"
    )]
    NewerLayout {
        /// The layout of the rows.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// A newer version decided an entry of the log by rules that this one does not know. Nothing of it was applied.
    #[error(
        "an entry was decided by rules {found}, and this version knows rules up to {known}: a newer version must apply it"
    )]
    NewerRules {
        /// The rules of the entry.
        found: u32,
        /// The newest that are known here.
        known: u32,
    },
}

impl RowsError {
    /// The rows are whole, and only a newer version can go on with them.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        matches!(
            self,
            RowsError::NewerLayout { .. } | RowsError::NewerRules { .. }
        )
    }
}

/// Rows as of one applied position.
pub trait Rows {
    /// The row at `key`.
    ///
    /// # Errors
    /// [`RowsError`] when the store fails.
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, RowsError>;

    /// At most `limit` rows with `from <= key` and, if `to` is given, `key < to`, in the order of their bytes.
    ///
    /// # Errors
    /// [`RowsError`] when the store fails.
    fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, RowsError>;
}

/// One row written (`Some`) or removed (`None`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The key.
    pub key: Bytes,
    /// The new row, or nothing.
    pub value: Option<Bytes>,
}
