//! Deleting files, directories, buckets and volumes, and what is inside them.

use append_wire::om::{DeleteKeyArgs, DeleteKeyRequest, DeleteKeysRequest, ListKeysRequest, Type};

use super::names::refuse_snapshot;
use super::{FileSystem, key_args, without};
use crate::Result;
use crate::admin::BucketLayout;
use crate::error::{Error, ErrorKind};
use crate::om::Effect;
use crate::path::FsPath;

/// Keys that one list or one delete names at most: servers cap both.
const KEYS_AT_ONCE: u32 = 1000;

impl FileSystem {
    /// Deletes a file, directory, bucket or volume; false if nothing was there. With `recursive` what is inside goes first. A
    /// link to a bucket is deleted, never what it points to.
    ///
    /// # Errors
    /// [`crate::ErrorKind::DirectoryNotEmpty`] without `recursive`, [`crate::ErrorKind::InvalidArgument`] for the root (of
    /// an `o3fs` URI: its bucket), [`crate::ErrorKind::ReadOnly`] below a snapshot.
    pub async fn delete(&self, path: &str, recursive: bool) -> Result<bool> {
        let path = self.resolve(path)?;
        let work = async {
            refuse_snapshot(&path)?;
            if path == self.shared().prefix {
                Err(Error::invalid("the root cannot be deleted"))
            } else if path.is_volume() {
                self.delete_volume_tree(&path, recursive).await
            } else if path.is_bucket() {
                self.delete_bucket_tree(&path, recursive).await
            } else {
                self.delete_key_tree(&path, recursive).await
            }
        };
        work.await.map_err(|error: Error| error.at("delete", &path))
    }

    async fn delete_volume_tree(&self, path: &FsPath, recursive: bool) -> Result<bool> {
        if recursive {
            loop {
                let buckets = match self.buckets(path.volume(), "", KEYS_AT_ONCE).await {
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                    other => other?,
                };
                if buckets.is_empty() {
                    break;
                }
                for bucket in buckets {
                    self.delete_bucket_tree(&path.child(&bucket.name), true)
                        .await?;
                }
            }
        }
        found(self.delete_volume(path.volume()).await)
    }

    async fn delete_bucket_tree(&self, path: &FsPath, recursive: bool) -> Result<bool> {
        let bucket = match self.bucket(path.volume(), path.bucket()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        if recursive && bucket.source.is_none() {
            if bucket.layout == BucketLayout::FileSystemOptimized {
                self.empty_directory(path).await?;
            } else {
                self.delete_keys_below(path, "").await?;
            }
        }
        found(self.delete_bucket(path.volume(), path.bucket()).await)
    }

    /// Deletes all entries of a bucket's root.
    async fn empty_directory(&self, path: &FsPath) -> Result<()> {
        loop {
            let page = self.list_page_at(path, "", 0).await?;
            if page.entries.is_empty() {
                return Ok(());
            }
            for entry in page.entries {
                self.delete_key(&entry.path, true).await?;
            }
        }
    }

    async fn delete_key_tree(&self, path: &FsPath, recursive: bool) -> Result<bool> {
        match self.delete_key(path, recursive).await {
            Ok(true) => Ok(true),
            Ok(false) => self.delete_legacy(path, recursive).await,
            Err(error) => Err(error),
        }
    }

    /// Whether something was there.
    async fn delete_key(&self, path: &FsPath, recursive: bool) -> Result<bool> {
        let mut request = self.om().request(Type::DeleteKey);
        let mut args = key_args(path);
        args.recursive = Some(recursive);
        request.delete_key_request = Some(Box::new(DeleteKeyRequest {
            key_args: args,
            append_handle: None,
        }));
        found(self.om().call(request, Effect::Change).await)
    }

    /// In a LEGACY bucket a directory is what its keys begin with.
    async fn delete_legacy(&self, path: &FsPath, recursive: bool) -> Result<bool> {
        let layout = match self.bucket(path.volume(), path.bucket()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?.layout,
        };
        if layout != BucketLayout::Legacy {
            return Ok(false);
        }
        match self.find(path).await? {
            Some(status) if status.directory => {}
            _ => return Ok(false),
        }
        let folder = format!("{}/", path.key());
        if !recursive
            && self
                .keys_below(path, &folder)
                .await?
                .iter()
                .any(|key| *key != folder)
        {
            return Err(Error::new(
                ErrorKind::DirectoryNotEmpty,
                "the directory is not empty",
            ));
        }
        self.delete_keys_below(path, &folder).await?;
        Ok(true)
    }

    async fn delete_keys_below(&self, bucket: &FsPath, prefix: &str) -> Result<()> {
        loop {
            let keys = self.keys_below(bucket, prefix).await?;
            if keys.is_empty() {
                return Ok(());
            }
            let mut request = self.om().request(Type::DeleteKeys);
            request.delete_keys_request = Some(Box::new(DeleteKeysRequest {
                delete_keys: Some(DeleteKeyArgs {
                    volume_name: bucket.volume().to_owned(),
                    bucket_name: bucket.bucket().to_owned(),
                    keys,
                    update_i_ds: Vec::new(),
                }),
                source_type: None,
            }));
            self.om().call(request, Effect::Change).await?;
        }
    }

    /// The first keys of a bucket that begin with a prefix. Nothing in an FSO bucket.
    pub(crate) async fn keys_below(&self, bucket: &FsPath, prefix: &str) -> Result<Vec<String>> {
        let mut request = self.om().request(Type::ListKeys);
        request.list_keys_request = Some(Box::new(ListKeysRequest {
            volume_name: bucket.volume().to_owned(),
            bucket_name: bucket.bucket().to_owned(),
            start_key: None,
            prefix: Some(prefix.to_owned()),
            count: i32::try_from(KEYS_AT_ONCE).ok(),
        }));
        let response = self.om().call(request, Effect::Read).await?;
        let list = response.list_keys_response.ok_or_else(|| without("keys"))?;
        Ok(list
            .key_info
            .into_iter()
            .map(|info| info.key_name)
            .collect())
    }
}

/// True for success, false if there was nothing to delete.
fn found<T>(result: Result<T>) -> Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ParentNotFound | ErrorKind::NotADirectory
            ) =>
        {
            Ok(false)
        }
        // A file among the parents: nothing is below it.
        Err(error) if error.status() == Some("NOT_A_FILE") => Ok(false),
        Err(error) => Err(error),
    }
}
