//! Statuses, directories, times, and what works where.

use append_wire::om::{
    CreateDirectoryRequest, GetFileStatusRequest, GetKeyInfoRequest, SetTimesRequest, Type,
};

use super::{FileSystem, key_args, no_bucket, without};
use crate::Result;
use crate::admin::{BucketLayout, BucketOptions, VolumeOptions};
use crate::error::{Error, ErrorKind};
use crate::om::Effect;
use crate::path::FsPath;
use crate::status::{AppendStatus, Capabilities, FileStatus, from_wire};

/// What a wire time says that is to stay as it is: -1.
const UNCHANGED: u64 = u64::MAX;

impl FileSystem {
    /// What stands at a path.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`]; [`crate::ErrorKind::NotADirectory`] if a server says that a parent is a file.
    pub async fn status(&self, path: &str) -> Result<FileStatus> {
        let path = self.resolve(path)?;
        self.status_at(&path)
            .await
            .map_err(|error| error.at("status", &path))
    }

    pub(crate) async fn status_at(&self, path: &FsPath) -> Result<FileStatus> {
        if path.is_root() {
            return Ok(from_wire::bare_directory(path.clone()));
        }
        if path.is_volume() {
            let volume = self.volume(path.volume()).await?;
            return Ok(FileStatus {
                modified_ms: volume.modified_ms,
                accessed_ms: volume.modified_ms,
                owner: volume.owner,
                object_id: volume.object_id,
                ..from_wire::bare_directory(path.clone())
            });
        }
        if path.is_bucket() {
            let bucket = self.bucket(path.volume(), path.bucket()).await?;
            return Ok(FileStatus {
                modified_ms: bucket.modified_ms,
                accessed_ms: bucket.modified_ms,
                owner: bucket.owner,
                object_id: bucket.object_id,
                ..from_wire::bare_directory(path.clone())
            });
        }
        let mut request = self.om().request(Type::GetFileStatus);
        request.get_file_status_request = Some(Box::new(GetFileStatusRequest {
            key_args: key_args(path),
        }));
        let response = self
            .om()
            .call(request, Effect::Read)
            .await
            .map_err(parent_is_file)?;
        let status = response
            .get_file_status_response
            .ok_or_else(|| without("file status"))?
            .status;
        Ok(from_wire::file_status(&status, path.clone()))
    }

    /// As [`FileSystem::status_at`]; nothing if nothing is there.
    pub(crate) async fn find(&self, path: &FsPath) -> Result<Option<FileStatus>> {
        match self.status_at(path).await {
            Ok(status) => Ok(Some(status)),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::ParentNotFound
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a directory; an existing one is fine. `/volume` makes a volume, `/volume/bucket` a bucket with the configured
    /// layout. With `recursive` missing parents are made, volume and bucket included.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`] for a file at the path, [`crate::ErrorKind::NotADirectory`] for a file among the
    /// parents, [`crate::ErrorKind::ParentNotFound`] without `recursive`, [`crate::ErrorKind::ReadOnly`] below a snapshot.
    pub async fn mkdirs(&self, path: &str, recursive: bool) -> Result<()> {
        let path = self.resolve(path)?;
        self.mkdirs_at(&path, recursive)
            .await
            .map_err(|error| error.at("mkdirs", &path))
    }

    async fn mkdirs_at(&self, path: &FsPath, recursive: bool) -> Result<()> {
        refuse_snapshot(path)?;
        if path.is_root() {
            return Ok(());
        }
        if path.is_volume() {
            return fine_if_there(self.make_volume(path.volume()).await);
        }
        if path.is_bucket() {
            return self.ensure_bucket(path, recursive).await;
        }
        if !recursive {
            self.need_parent(path).await?;
        }
        match self.create_directory(path).await {
            Err(error) if recursive && no_bucket(&error) => {
                self.ensure_bucket(path, true).await?;
                self.create_directory(path).await
            }
            other => other,
        }
    }

    async fn create_directory(&self, path: &FsPath) -> Result<()> {
        let mut request = self.om().request(Type::CreateDirectory);
        let mut args = key_args(path);
        args.owner_name = Some(self.om().user().to_owned());
        request.create_directory_request =
            Some(Box::new(CreateDirectoryRequest { key_args: args }));
        match self.om().call(request, Effect::Change).await {
            Ok(_) => Ok(()),
            Err(error) if error.status() == Some("DIRECTORY_ALREADY_EXISTS") => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::AlreadyExists | ErrorKind::IsDirectory
                ) =>
            {
                // Servers answer alike for a file at the path and one among its parents.
                match self.find(path).await? {
                    Some(status) if status.directory => Ok(()),
                    Some(_) => Err(error.with_kind(ErrorKind::AlreadyExists)),
                    None => Err(error.with_kind(ErrorKind::NotADirectory)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The parent must be a directory.
    pub(crate) async fn need_parent(&self, path: &FsPath) -> Result<()> {
        let Some(parent) = path.parent() else {
            return Ok(());
        };
        match self.find(&parent).await? {
            Some(status) if status.directory => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::NotADirectory,
                format!("the parent {parent} is a file"),
            )),
            None => Err(Error::new(
                ErrorKind::ParentNotFound,
                format!("the parent {parent} does not exist"),
            )),
        }
    }

    /// Makes the bucket of a path, and its volume if `with_volume`.
    pub(crate) async fn ensure_bucket(&self, path: &FsPath, with_volume: bool) -> Result<()> {
        let make = || async {
            fine_if_there(
                self.make_bucket(path.volume(), path.bucket(), &BucketOptions::default())
                    .await,
            )
        };
        match make().await {
            Err(error) if error.status() == Some("VOLUME_NOT_FOUND") => {
                if !with_volume {
                    return Err(error.with_kind(ErrorKind::ParentNotFound));
                }
                fine_if_there(self.make_volume(path.volume()).await)?;
                make().await
            }
            other => other,
        }
    }

    async fn make_volume(&self, name: &str) -> Result<()> {
        self.create_volume(name, &VolumeOptions::default()).await
    }

    async fn make_bucket(&self, volume: &str, name: &str, options: &BucketOptions) -> Result<()> {
        self.create_bucket(volume, name, options).await
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
        let path = self.resolve(path)?;
        let work = async {
            refuse_snapshot(&path)?;
            if !path.is_key() {
                return Err(Error::unsupported(
                    "the times of volumes and buckets cannot be set",
                ));
            }
            let mut request = self.om().request(Type::SetTimes);
            request.set_times_request = Some(Box::new(SetTimesRequest {
                key_args: key_args(&path),
                mtime: modified_ms.unwrap_or(UNCHANGED),
                atime: accessed_ms.unwrap_or(UNCHANGED),
            }));
            self.om().call(request, Effect::Change).await?;
            Ok(())
        };
        work.await
            .map_err(|error: Error| error.at("set times", &path))
    }

    /// What works at a path, whether or not something stands there.
    ///
    /// # Errors
    /// Those of every call; a missing volume or bucket is no error: there the server's features and the configured layout
    /// decide. Root and volumes hold no files, so nothing can be appended there.
    pub async fn capabilities(&self, path: &str) -> Result<Capabilities> {
        let path = self.resolve(path)?;
        let layout = if path.bucket().is_empty() {
            self.shared().settings.bucket_layout
        } else {
            match self.bucket(path.volume(), path.bucket()).await {
                Ok(bucket) => bucket.layout,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.shared().settings.bucket_layout
                }
                Err(error) => return Err(error.at("capabilities", &path)),
            }
        };
        let features = self.om().features();
        let sessions =
            layout != BucketLayout::ObjectStore && !path.bucket().is_empty() && !path.is_snapshot();
        let append = sessions && features.can_append();
        Ok(Capabilities {
            append,
            hflush: append,
            hsync: append,
            // Also while append is switched off: what was admitted before may have to be recovered.
            lease_recovery: sessions && features.can_recover(),
            atomic_rename: layout == BucketLayout::FileSystemOptimized,
        })
    }

    /// The writer that holds a file; none if it is closed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`]; [`crate::ErrorKind::Unsupported`] on a server that does not tell.
    pub async fn append_status(&self, path: &str) -> Result<Option<AppendStatus>> {
        let path = self.resolve(path)?;
        self.writer_at(&path)
            .await
            .map_err(|error| error.at("append status", &path))
    }

    pub(crate) async fn writer_at(&self, path: &FsPath) -> Result<Option<AppendStatus>> {
        if !self.om().features().knows_append() {
            return Err(Error::unsupported("the server does not tell who writes"));
        }
        if !path.is_key() {
            return Err(Error::new(ErrorKind::IsDirectory, "it is a directory"));
        }
        let mut request = self.om().request(Type::GetKeyInfo);
        let mut args = key_args(path);
        args.head_op = Some(true);
        request.get_key_info_request = Some(Box::new(GetKeyInfoRequest {
            key_args: args,
            ..GetKeyInfoRequest::default()
        }));
        let response = self.om().call(request, Effect::Read).await?;
        let status = response
            .get_key_info_response
            .ok_or_else(|| without("key info"))?
            .append_status;
        Ok(status.as_ref().and_then(from_wire::append_status))
    }
}

/// Nothing below a snapshot can be changed.
pub(crate) fn refuse_snapshot(path: &FsPath) -> Result<()> {
    if path.is_snapshot() {
        return Err(Error::new(
            ErrorKind::ReadOnly,
            "a snapshot can only be read",
        ));
    }
    Ok(())
}

fn fine_if_there(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// For a question about a path, `NOT_A_FILE` is about its parents.
fn parent_is_file(error: Error) -> Error {
    match error.kind() {
        ErrorKind::IsDirectory => error.with_kind(ErrorKind::NotADirectory),
        ErrorKind::ParentNotFound => error.with_kind(ErrorKind::NotFound),
        _ => error,
    }
}
