//! Renaming: exactly as the OM does, and with Hadoop's rules about destinations.

use append_wire::om::{RenameKeyRequest, Type};

use super::names::refuse_snapshot;
use super::{FileSystem, key_args};
use crate::Result;
use crate::admin::BucketLayout;
use crate::error::{Error, ErrorKind};
use crate::om::Effect;
use crate::path::FsPath;
use crate::status::RenameOutcome;

impl FileSystem {
    /// Renames a file or directory to exactly this name. A file at the destination is refused, as is another bucket. What a
    /// server does about a directory at the destination is its own rule: [`FileSystem::rename_into`] has Hadoop's.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`] for the source, [`crate::ErrorKind::AlreadyExists`],
    /// [`crate::ErrorKind::ParentNotFound`] for the destination's parent, [`crate::ErrorKind::NotADirectory`] if that is a
    /// file, [`crate::ErrorKind::InvalidArgument`] for a directory below itself, [`crate::ErrorKind::Unsupported`] across
    /// buckets.
    pub async fn rename(&self, source: &str, destination: &str) -> Result<()> {
        let (source, destination) = (self.resolve(source)?, self.resolve(destination)?);
        self.rename_at(&source, &destination)
            .await
            .map_err(|error| error.at("rename", format!("{source} to {destination}")))
    }

    async fn rename_at(&self, source: &FsPath, destination: &FsPath) -> Result<()> {
        refuse_snapshot(source)?;
        refuse_snapshot(destination)?;
        if !source.is_key() || !destination.is_key() {
            return Err(Error::unsupported(
                "volumes and buckets cannot be renamed, nor can anything take their place",
            ));
        }
        if !source.same_bucket(destination) {
            return Err(Error::unsupported("cannot rename into another bucket"));
        }
        if destination != source && destination.starts_with(source) {
            return Err(Error::invalid("a directory cannot move below itself"));
        }
        // Where directories are only implied, servers do not ask for the parent.
        if source.parent() != destination.parent() {
            self.need_parent(destination).await?;
        }
        match self.rename_key(source, destination.key()).await {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.rename_legacy(source, destination, error).await
            }
            Err(error) => Err(self.explain(error, destination).await),
        }
    }

    async fn rename_key(&self, source: &FsPath, to: &str) -> Result<()> {
        let mut request = self.om().request(Type::RenameKey);
        request.rename_key_request = Some(Box::new(RenameKeyRequest {
            key_args: key_args(source),
            to_key_name: to.to_owned(),
            update_id: None,
        }));
        self.om().call(request, Effect::Change).await?;
        Ok(())
    }

    /// In a LEGACY bucket a directory is what its keys begin with: each is renamed, and the whole is not atomic.
    async fn rename_legacy(
        &self,
        source: &FsPath,
        destination: &FsPath,
        missing: Error,
    ) -> Result<()> {
        let layout = self.bucket(source.volume(), source.bucket()).await?.layout;
        if layout != BucketLayout::Legacy {
            return Err(missing);
        }
        match self.find(source).await? {
            Some(status) if status.directory => {}
            _ => return Err(missing),
        }
        let folder = format!("{}/", source.key());
        let target = format!("{}/", destination.key());
        loop {
            let keys = self.keys_below(source, &folder).await?;
            if keys.is_empty() {
                return Ok(());
            }
            for key in keys {
                let Some(rest) = key.strip_prefix(&folder) else {
                    return Err(Error::new(
                        ErrorKind::Protocol,
                        format!("{key:?} was listed below {folder:?}"),
                    ));
                };
                let from = FsPath::in_bucket(source.volume(), source.bucket(), &key);
                self.rename_key(&from, &format!("{target}{rest}")).await?;
            }
        }
    }

    /// Says of a refused rename what was wrong with the destination, where the server's status leaves it open.
    async fn explain(&self, error: Error, destination: &FsPath) -> Error {
        if !matches!(
            error.kind(),
            ErrorKind::InvalidArgument | ErrorKind::IsDirectory | ErrorKind::Io
        ) {
            return error;
        }
        match self.need_parent(destination).await {
            Err(parent)
                if matches!(
                    parent.kind(),
                    ErrorKind::ParentNotFound | ErrorKind::NotADirectory
                ) =>
            {
                error.with_kind(parent.kind())
            }
            _ => error,
        }
    }

    /// Whether the server does with these names what Hadoop's rules ask for, or refuses: servers that append move into a directory
    /// where there are directories, and refuse a destination that exists where keys only imply them. With the parent of the
    /// source the destination's is there.
    fn renames_as_hadoop(&self, source: &FsPath, destination: &FsPath) -> bool {
        self.om().features().knows_append()
            && source.is_key()
            && source != destination
            && source.parent() == destination.parent()
            && !source.is_snapshot()
            && !destination.is_snapshot()
    }

    /// Renames with Hadoop's rules: into a destination that is a directory, and an outcome instead of an error where Hadoop's
    /// rename returns false.
    ///
    /// # Errors
    /// What is none of the outcomes.
    pub async fn rename_into(&self, source: &str, destination: &str) -> Result<RenameOutcome> {
        let (source, destination) = (self.resolve(source)?, self.resolve(destination)?);
        self.rename_into_at(&source, &destination)
            .await
            .map_err(|error| error.at("rename", format!("{source} to {destination}")))
    }

    async fn rename_into_at(&self, source: &FsPath, destination: &FsPath) -> Result<RenameOutcome> {
        if source.is_root() {
            return Ok(RenameOutcome::BelowItself);
        }
        if self.renames_as_hadoop(source, destination) {
            match self.rename_key(source, destination.key()).await {
                Ok(()) => return Ok(RenameOutcome::Done),
                // A refusal changed nothing, and which outcome it is, is found out below.
                Err(error) if is_refusal(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let target = match self.find(destination).await? {
            None if source == destination => return Ok(RenameOutcome::SourceMissing),
            None => destination.clone(),
            Some(status) if source == destination => {
                return Ok(if status.directory {
                    RenameOutcome::SameDirectory
                } else {
                    RenameOutcome::SameFile
                });
            }
            Some(status) if status.directory => {
                let inside = destination.child(source.name());
                if inside == *source {
                    return Ok(match self.find(source).await? {
                        None => RenameOutcome::SourceMissing,
                        Some(status) if status.directory => RenameOutcome::SameDirectory,
                        Some(_) => RenameOutcome::SameFile,
                    });
                }
                if self.find(&inside).await?.is_some() {
                    return Ok(RenameOutcome::DestinationExists);
                }
                inside
            }
            Some(_) => {
                return Ok(match self.find(source).await? {
                    None => RenameOutcome::SourceMissing,
                    Some(_) => RenameOutcome::DestinationExists,
                });
            }
        };
        if target.starts_with(source) {
            return Ok(match self.find(source).await? {
                None => RenameOutcome::SourceMissing,
                Some(status) if status.directory => RenameOutcome::BelowItself,
                Some(_) => RenameOutcome::NoDestinationParent,
            });
        }
        match self.rename_at(source, &target).await {
            Ok(()) => Ok(RenameOutcome::Done),
            Err(error) => match error.kind() {
                ErrorKind::NotFound => Ok(RenameOutcome::SourceMissing),
                ErrorKind::AlreadyExists => Ok(RenameOutcome::DestinationExists),
                ErrorKind::ParentNotFound | ErrorKind::NotADirectory => {
                    Ok(RenameOutcome::NoDestinationParent)
                }
                _ => Err(error),
            },
        }
    }
}

/// The server looked at the names and did nothing.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::ParentNotFound
            | ErrorKind::NotADirectory
            | ErrorKind::IsDirectory
            | ErrorKind::InvalidArgument
            | ErrorKind::Io
    )
}
