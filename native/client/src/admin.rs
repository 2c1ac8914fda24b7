//! Volumes and buckets, as administrators see them.

use crate::Result;
use crate::error::Error;
use crate::filesystem::FileSystem;
use crate::status::OpenFilesPage;
use crate::write::Replication;

/// How a bucket arranges its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketLayout {
    /// Directories are objects: atomic renames, O(1) recursive deletes.
    FileSystemOptimized,
    /// Full keys with `/`, directories are implied or keys that end with `/`.
    Legacy,
    /// Keys are opaque. No append.
    ObjectStore,
}

/// A volume. Quotas: none = no limit. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Name.
    pub name: String,
    /// Owner.
    pub owner: String,
    /// Administrator.
    pub admin: String,
    /// Quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Quota of names (buckets).
    pub quota_names: Option<u64>,
    /// Buckets.
    pub used_names: u64,
    /// Made.
    pub created_ms: u64,
    /// Changed.
    pub modified_ms: u64,
    /// Identity.
    pub object_id: u64,
}

/// A bucket. Quotas: none = no limit. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketInfo {
    /// Volume.
    pub volume: String,
    /// Name.
    pub name: String,
    /// Owner.
    pub owner: String,
    /// Layout.
    pub layout: BucketLayout,
    /// Replication of files whose writer names none; none: the server's default.
    pub replication: Option<Replication>,
    /// Quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Quota of names (files and directories).
    pub quota_names: Option<u64>,
    /// Bytes charged, copies counted.
    pub used_bytes: u64,
    /// Files and directories.
    pub used_names: u64,
    /// Made.
    pub created_ms: u64,
    /// Changed.
    pub modified_ms: u64,
    /// Identity.
    pub object_id: u64,
    /// Volume and bucket that a link points to.
    pub source: Option<(String, String)>,
}

/// How a volume is made. The default has the caller as owner and no quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Owner; none: the caller.
    pub owner: Option<String>,
    /// Quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Quota of buckets.
    pub quota_names: Option<u64>,
}

/// How a bucket is made. The default has the caller as owner, the configured layout, no quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketOptions {
    /// Owner; none: the caller.
    pub owner: Option<String>,
    /// Layout; none: `ozone.client.fs.default.bucket.layout`.
    pub layout: Option<BucketLayout>,
    /// Replication of files whose writer names none.
    pub replication: Option<Replication>,
    /// Quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Quota of files and directories.
    pub quota_names: Option<u64>,
}

impl FileSystem {
    /// Makes a volume.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`], [`crate::ErrorKind::InvalidArgument`] for a name against the rules.
    pub async fn create_volume(&self, name: &str, options: &VolumeOptions) -> Result<()> {
        let _ = options;
        Err(Error::unsupported("volumes").at("create volume", name))
    }

    /// Describes a volume.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn volume(&self, name: &str) -> Result<VolumeInfo> {
        Err(Error::unsupported("volumes").at("volume", name))
    }

    /// Volumes in name order, at most `max` after the name `after` (empty: from the first).
    ///
    /// # Errors
    /// Those of every call.
    pub async fn volumes(&self, after: &str, max: u32) -> Result<Vec<VolumeInfo>> {
        let _ = max;
        Err(Error::unsupported("volumes").at("list volumes", after))
    }

    /// Deletes an empty volume.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::DirectoryNotEmpty`].
    pub async fn delete_volume(&self, name: &str) -> Result<()> {
        Err(Error::unsupported("volumes").at("delete volume", name))
    }

    /// Makes a bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`], [`crate::ErrorKind::NotFound`] for its volume.
    pub async fn create_bucket(
        &self,
        volume: &str,
        name: &str,
        options: &BucketOptions,
    ) -> Result<()> {
        let _ = options;
        Err(Error::unsupported("buckets").at("create bucket", format!("/{volume}/{name}")))
    }

    /// Describes a bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn bucket(&self, volume: &str, name: &str) -> Result<BucketInfo> {
        Err(Error::unsupported("buckets").at("bucket", format!("/{volume}/{name}")))
    }

    /// Buckets of a volume in name order, at most `max` after the name `after` (empty: from the first).
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn buckets(&self, volume: &str, after: &str, max: u32) -> Result<Vec<BucketInfo>> {
        let _ = (after, max);
        Err(Error::unsupported("buckets").at("list buckets", format!("/{volume}")))
    }

    /// Deletes an empty bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::DirectoryNotEmpty`].
    pub async fn delete_bucket(&self, volume: &str, name: &str) -> Result<()> {
        Err(Error::unsupported("buckets").at("delete bucket", format!("/{volume}/{name}")))
    }

    /// Sessions that are open below a path (the root, a bucket or deeper), at most `max` from `token` on (empty: from the first).
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::PermissionDenied`].
    pub async fn open_files(&self, path: &str, token: &str, max: u32) -> Result<OpenFilesPage> {
        let _ = (token, max);
        Err(Error::unsupported("open files").at("list open files", path))
    }
}
