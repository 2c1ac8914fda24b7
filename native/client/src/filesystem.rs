//! The file system: names and statuses, and the doors to streams.

use crate::Result;
use crate::append::AppendBuilder;
use crate::config::Config;
use crate::error::Error;
use crate::path::FsPath;
use crate::read::Reader;
use crate::status::{AppendStatus, Capabilities, FileStatus, ListPage, RenameOutcome};
use crate::write::{CreateOptions, WriteStream};

/// A connected file system. Cheap to clone; thread-safe. Paths are absolute: `/volume/bucket/key`, or below the bucket for an
/// `o3fs` URI.
#[derive(Debug, Clone)]
pub struct FileSystem {
    config: Config,
}

impl FileSystem {
    /// Connects and asks the server what it can.
    ///
    /// `address` is a URI (`ofs://host:port/`, `ofs://service/`, `o3fs://bucket.volume.host:port/`, whose paths are below that
    /// bucket), an authority (`host:port`, `host`, a service name), or empty: then the settings name the server.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] for a malformed address or setting, [`crate::ErrorKind::Connect`] within the
    /// connect time-out when no server answers.
    pub async fn connect(address: &str, config: Config) -> Result<FileSystem> {
        let _ = FileSystem { config };
        Err(Error::unsupported("connecting").at("connect", address))
    }

    /// The settings that it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Reads a path of a caller; for `o3fs` it is prefixed with the bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`].
    pub fn resolve(&self, path: &str) -> Result<FsPath> {
        FsPath::parse(path)
    }

    /// Ends it: streams that are open fail from then on, and their sessions end when their leases do. Close them first.
    pub async fn close(&self) {}

    /// What stands at a path.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn status(&self, path: &str) -> Result<FileStatus> {
        Err(Error::unsupported("status").at("status", path))
    }

    /// One page of a directory's entries after the name `start_after` (empty: from the first), at most `max` (0: by
    /// configuration). A file is its own only entry.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn list_page(&self, path: &str, start_after: &str, max: u32) -> Result<ListPage> {
        let _ = (start_after, max);
        Err(Error::unsupported("list").at("list", path))
    }

    /// All entries of a directory.
    ///
    /// # Errors
    /// As [`FileSystem::list_page`].
    pub async fn list(&self, path: &str) -> Result<Vec<FileStatus>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.list_page(path, &after, 0).await?;
            all.extend(page.entries);
            match all.last() {
                Some(last) if page.more => after = last.name().to_owned(),
                _ => return Ok(all),
            }
        }
    }

    /// Makes a directory; an existing one is fine. `/volume` makes a volume, `/volume/bucket` a bucket with the configured
    /// layout. With `recursive` missing parents are made, volume and bucket included.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`] for a file at the path, [`crate::ErrorKind::NotADirectory`] for a file among the
    /// parents, [`crate::ErrorKind::ParentNotFound`] without `recursive`.
    pub async fn mkdirs(&self, path: &str, recursive: bool) -> Result<()> {
        let _ = recursive;
        Err(Error::unsupported("mkdirs").at("mkdirs", path))
    }

    /// Creates a file and opens it for writing. On a server that can append the file is visible at once and leased.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`] without overwrite, [`crate::ErrorKind::IsDirectory`],
    /// [`crate::ErrorKind::NotADirectory`] for a file among the parents, [`crate::ErrorKind::ParentNotFound`] without
    /// `recursive`, [`crate::ErrorKind::Conflict`] while an append owns the file.
    pub async fn create(&self, path: &str, options: &CreateOptions) -> Result<WriteStream> {
        let _ = options;
        Err(Error::unsupported("create").at("create", path))
    }

    /// Opens a file for append: `fs.append(path).open().await`.
    pub fn append(&self, path: &str) -> AppendBuilder<'_> {
        AppendBuilder::new(self, self.resolve(path))
    }

    /// Opens a file for reading, at the length that it has now.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::IsDirectory`].
    pub async fn open(&self, path: &str) -> Result<Reader> {
        Err(Error::unsupported("open").at("open", path))
    }

    /// Renames a file or directory to exactly this name. Destinations that exist are refused, as is another bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`] for the source, [`crate::ErrorKind::AlreadyExists`],
    /// [`crate::ErrorKind::ParentNotFound`] for the destination's parent, [`crate::ErrorKind::NotADirectory`] if that is a
    /// file, [`crate::ErrorKind::InvalidArgument`] for a directory below itself, [`crate::ErrorKind::Unsupported`] across
    /// buckets.
    pub async fn rename(&self, source: &str, destination: &str) -> Result<()> {
        let _ = destination;
        Err(Error::unsupported("rename").at("rename", source))
    }

    /// Renames with Hadoop's rules: into a destination that is a directory, and an outcome instead of an error where Hadoop's
    /// rename returns false.
    ///
    /// # Errors
    /// What is none of the outcomes.
    pub async fn rename_into(&self, source: &str, destination: &str) -> Result<RenameOutcome> {
        let _ = destination;
        Err(Error::unsupported("rename").at("rename", source))
    }

    /// Deletes a file, directory, bucket or volume; false if nothing was there. With `recursive` what is inside goes first.
    ///
    /// # Errors
    /// [`crate::ErrorKind::DirectoryNotEmpty`] without `recursive`, [`crate::ErrorKind::InvalidArgument`] for the root.
    pub async fn delete(&self, path: &str, recursive: bool) -> Result<bool> {
        let _ = recursive;
        Err(Error::unsupported("delete").at("delete", path))
    }

    /// Sets times in milliseconds since 1970; none leaves one as it is. Ozone keeps no access time.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn set_times(
        &self,
        path: &str,
        modified_ms: Option<u64>,
        accessed_ms: Option<u64>,
    ) -> Result<()> {
        let _ = (modified_ms, accessed_ms);
        Err(Error::unsupported("set times").at("set times", path))
    }

    /// What works at a path, whether or not something stands there.
    ///
    /// # Errors
    /// Those of every call; a missing volume or bucket is no error: nothing works there that needs one.
    pub async fn capabilities(&self, path: &str) -> Result<Capabilities> {
        Err(Error::unsupported("capabilities").at("capabilities", path))
    }

    /// The writer that holds a file; none if it is closed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn append_status(&self, path: &str) -> Result<Option<AppendStatus>> {
        Err(Error::unsupported("append status").at("append status", path))
    }

    /// Recovers a file whose writer died; true when it is closed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`]: recovery is not built yet.
    pub async fn recover_lease(&self, path: &str) -> Result<bool> {
        Err(Error::unsupported("recovering a lease is not built yet").at("recover lease", path))
    }
}
