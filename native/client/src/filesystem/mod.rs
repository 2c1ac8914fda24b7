//! The file system: names and statuses, and the doors to streams.

mod delete;
mod list;
pub(crate) mod names;
mod rename;

use std::sync::Arc;

use append_wire::om::KeyArgs;

use crate::Result;
use crate::append::AppendBuilder;
use crate::config::{Config, Settings, address};
use crate::dn::Datanodes;
use crate::error::{Error, ErrorKind};
use crate::lease::Renewer;
use crate::om::OmClient;
use crate::path::FsPath;
use crate::read::Reader;
use crate::write::{self, CreateOptions, WriteStream};

/// A connected file system. Cheap to clone; thread-safe. Paths are absolute: `/volume/bucket/key`, or below the bucket for an
/// `o3fs` URI.
#[derive(Debug, Clone)]
pub struct FileSystem(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) settings: Settings,
    pub(crate) prefix: FsPath,
    pub(crate) om: Arc<OmClient>,
    pub(crate) renewer: Renewer,
    pub(crate) datanodes: Datanodes,
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
        let settings = Settings::read(&config)?;
        let target = address::resolve(address, &config, &settings)?;
        let user = config.user()?;
        let om = OmClient::connect(target.nodes, &user, &settings)
            .await
            .map_err(|error| error.at("connect", address))?;
        let om = Arc::new(om);
        let datanodes = Datanodes::new(&settings);
        Ok(FileSystem(Arc::new(Shared {
            config,
            settings,
            prefix: target.prefix,
            renewer: Renewer::new(Arc::clone(&om)),
            datanodes,
            om,
        })))
    }

    /// The settings that it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Reads a path of a caller; for `o3fs` it is prefixed with the bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`].
    pub fn resolve(&self, path: &str) -> Result<FsPath> {
        let path = FsPath::parse(path)?;
        let prefix = &self.0.prefix;
        if prefix.is_root() {
            return Ok(path);
        }
        Ok(prefix.child(&path.to_string()))
    }

    /// Ends it: streams that are open fail from then on, and their sessions end when their leases do. Close them first.
    pub async fn close(&self) {
        self.0.om.close().await;
    }

    /// Opens a file for append: `fs.append(path).open().await`.
    pub fn append(&self, path: &str) -> AppendBuilder<'_> {
        AppendBuilder::new(self, self.resolve(path))
    }

    /// Creates a file and opens it for writing. On a server that can append the file is visible at once and leased.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`] without overwrite, [`crate::ErrorKind::IsDirectory`],
    /// [`crate::ErrorKind::NotADirectory`] for a file among the parents, [`crate::ErrorKind::ParentNotFound`] without
    /// `recursive`, [`crate::ErrorKind::Conflict`] while an append owns the file.
    pub async fn create(&self, path: &str, options: &CreateOptions) -> Result<WriteStream> {
        let path = self.resolve(path)?;
        let at = |error: Error| error.at("create", &path);
        names::refuse_snapshot(&path).map_err(at)?;
        write::create(self, path.clone(), options).await.map_err(at)
    }

    /// Opens a file for reading, at the length that it has now.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::IsDirectory`].
    pub async fn open(&self, path: &str) -> Result<Reader> {
        let path = self.resolve(path)?;
        let at = |error: Error| error.at("open", &path);
        if !path.is_key() {
            let error = match self.find(&path).await.map_err(at)? {
                Some(_) => Error::new(ErrorKind::IsDirectory, "it is a directory"),
                None => Error::new(ErrorKind::NotFound, "no such file"),
            };
            return Err(at(error));
        }
        Reader::open(&self.0, &path).await.map_err(at)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn om(&self) -> &OmClient {
        &self.0.om
    }
}

/// Names a key for the OM.
pub(crate) fn key_args(path: &FsPath) -> KeyArgs {
    KeyArgs {
        volume_name: path.volume().to_owned(),
        bucket_name: path.bucket().to_owned(),
        key_name: path.key().to_owned(),
        ..KeyArgs::default()
    }
}

/// An answer without the payload that its command has.
pub(crate) fn without(payload: &'static str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("an answer without its {payload}"),
    )
}

/// The volume or the bucket is missing, not only a key.
pub(crate) fn no_bucket(error: &Error) -> bool {
    matches!(
        error.status(),
        Some("VOLUME_NOT_FOUND" | "BUCKET_NOT_FOUND")
    )
}
