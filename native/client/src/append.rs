//! Opening a file for append.

use std::time::Instant;

use crate::Result;
use crate::error::Error;
use crate::filesystem::FileSystem;
use crate::filesystem::names::refuse_snapshot;
use crate::path::FsPath;
use crate::write::{self, WriteStream};

/// An append that is not opened yet; made by [`FileSystem::append`].
#[derive(Debug)]
#[must_use = "nothing happens before open"]
pub struct AppendBuilder<'a> {
    fs: &'a FileSystem,
    path: Result<FsPath>,
    create_if_missing: bool,
    deadline: Option<Instant>,
}

impl<'a> AppendBuilder<'a> {
    pub(crate) fn new(fs: &'a FileSystem, path: Result<FsPath>) -> AppendBuilder<'a> {
        AppendBuilder {
            fs,
            path,
            create_if_missing: false,
            deadline: None,
        }
    }

    /// Asks for a new block. Every append starts one, so this changes nothing; it exists because Hadoop's callers ask.
    pub fn new_block(self, _new_block: bool) -> Self {
        self
    }

    /// A missing file is created, with its parents. Otherwise it is [`crate::ErrorKind::NotFound`].
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }

    /// Until when the call may wait, for the server and for another session's end. Without one an append waits as long as the server
    /// gives that session, and `libappend.recovery.budget` for recovering the file afterwards. A deadline can only shorten this.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Opens the stream at the end of the file. While an append session of another client has it, the call waits; it ends early when
    /// that session renews its lease, and recovers the file once the lease is over.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::IsDirectory`], [`crate::ErrorKind::ReadOnly`] below a snapshot,
    /// [`crate::ErrorKind::Conflict`] with the other writer while one lives, at once if it is a stream of this file system itself or
    /// an ordinary writer; [`crate::ErrorKind::Recovering`] if the file was being recovered and that did not end in time;
    /// [`crate::ErrorKind::Unsupported`] for a server or bucket layout that cannot append, [`crate::ErrorKind::OutcomeUnknown`]. After a failure no session of this call is left.
    pub async fn open(self) -> Result<WriteStream> {
        let path = self.path?;
        let at = |error: Error| error.at("append", &path);
        refuse_snapshot(&path).map_err(at)?;
        write::append(self.fs, path.clone(), self.create_if_missing, self.deadline)
            .await
            .map_err(at)
    }
}
