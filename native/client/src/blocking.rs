//! The same API for callers that own a thread: every call blocks, within a [`Wait`].
//!
//! Must not be called on a thread of a tokio runtime. A call that is given up leaves nothing half done on this side: streams
//! stay usable, an open or close that was under way goes on in the background and an open that succeeds late is closed again.

use std::time::Duration;

use bytes::Bytes;

use crate::Result;
use crate::admin::{BucketInfo, BucketOptions, VolumeInfo, VolumeOptions};
use crate::config::Config;
use crate::path::FsPath;
use crate::recover::RecoverOptions;
use crate::runtime::block_on;
use crate::status::{
    AppendStatus, Capabilities, FileStatus, ListPage, OpenFilesPage, RenameOutcome, SessionHandle,
};
pub use crate::wait::Wait;
use crate::write::CreateOptions;

/// How long after its deadline an append may still say why it failed.
const ANSWER: Duration = Duration::from_millis(200);

/// [`crate::FileSystem`], blocking.
#[derive(Debug, Clone)]
pub struct FileSystem(crate::FileSystem);

/// [`crate::WriteStream`], blocking.
#[derive(Debug)]
pub struct WriteStream(crate::WriteStream);

/// [`crate::Reader`], blocking.
#[derive(Debug)]
pub struct Reader(crate::Reader);

/// How [`FileSystem::append`] opens; see [`crate::AppendBuilder`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppendOptions {
    /// See [`crate::AppendBuilder::new_block`].
    pub new_block: bool,
    /// See [`crate::AppendBuilder::create_if_missing`].
    pub create_if_missing: bool,
}

impl From<crate::FileSystem> for FileSystem {
    fn from(fs: crate::FileSystem) -> FileSystem {
        FileSystem(fs)
    }
}

/// All methods are those of [`crate::FileSystem`] of the same name, with their errors, and end with
/// [`crate::ErrorKind::Timeout`] or [`crate::ErrorKind::Cancelled`] when the wait ends first.
impl FileSystem {
    /// See [`crate::FileSystem::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(address: &str, config: Config, wait: &Wait<'_>) -> Result<FileSystem> {
        block_on(wait, crate::FileSystem::connect(address, config)).map(FileSystem)
    }

    /// The async file system behind this one.
    #[must_use]
    pub fn inner(&self) -> &crate::FileSystem {
        &self.0
    }

    /// See [`crate::FileSystem::config`].
    #[must_use]
    pub fn config(&self) -> &Config {
        self.0.config()
    }

    /// See [`crate::FileSystem::resolve`].
    ///
    /// # Errors
    /// As there.
    pub fn resolve(&self, path: &str) -> Result<FsPath> {
        self.0.resolve(path)
    }

    /// See [`crate::FileSystem::close`].
    pub fn close(&self) {
        // Without threads there is nothing to close.
        let _ = block_on(&Wait::unbounded(), async {
            self.0.close().await;
            Ok(())
        });
    }

    /// See [`crate::FileSystem::status`].
    ///
    /// # Errors
    /// As there.
    pub fn status(&self, path: &str, wait: &Wait<'_>) -> Result<FileStatus> {
        block_on(wait, self.0.status(path))
    }

    /// See [`crate::FileSystem::list_page`].
    ///
    /// # Errors
    /// As there.
    pub fn list_page(
        &self,
        path: &str,
        start_after: &str,
        max: u32,
        wait: &Wait<'_>,
    ) -> Result<ListPage> {
        block_on(wait, self.0.list_page(path, start_after, max))
    }

    /// See [`crate::FileSystem::list`].
    ///
    /// # Errors
    /// As there.
    pub fn list(&self, path: &str, wait: &Wait<'_>) -> Result<Vec<FileStatus>> {
        block_on(wait, self.0.list(path))
    }

    /// See [`crate::FileSystem::mkdirs`].
    ///
    /// # Errors
    /// As there.
    pub fn mkdirs(&self, path: &str, recursive: bool, wait: &Wait<'_>) -> Result<()> {
        block_on(wait, self.0.mkdirs(path, recursive))
    }

    /// See [`crate::FileSystem::create`].
    ///
    /// # Errors
    /// As there.
    pub fn create(
        &self,
        path: &str,
        options: &CreateOptions,
        wait: &Wait<'_>,
    ) -> Result<WriteStream> {
        block_on(wait, self.0.create(path, options)).map(WriteStream)
    }

    /// See [`crate::FileSystem::append`]. Another session is waited for until the wait's deadline, if that comes before the end of
    /// its lease and the time for recovery; the error that names it may come 0.2 s later.
    ///
    /// # Errors
    /// Those of [`crate::AppendBuilder::open`].
    pub fn append(
        &self,
        path: &str,
        options: &AppendOptions,
        wait: &Wait<'_>,
    ) -> Result<WriteStream> {
        let mut builder = self
            .0
            .append(path)
            .new_block(options.new_block)
            .create_if_missing(options.create_if_missing);
        let mut bound = *wait;
        if let Some(deadline) = wait.deadline {
            builder = builder.deadline(deadline);
            // The error that says who is in the way comes at the deadline, and is not to be overtaken.
            bound.deadline = deadline.checked_add(ANSWER);
        }
        block_on(&bound, builder.open()).map(WriteStream)
    }

    /// See [`crate::FileSystem::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(&self, path: &str, wait: &Wait<'_>) -> Result<Reader> {
        block_on(wait, self.0.open(path)).map(Reader)
    }

    /// See [`crate::FileSystem::rename`].
    ///
    /// # Errors
    /// As there.
    pub fn rename(&self, source: &str, destination: &str, wait: &Wait<'_>) -> Result<()> {
        block_on(wait, self.0.rename(source, destination))
    }

    /// See [`crate::FileSystem::rename_into`].
    ///
    /// # Errors
    /// As there.
    pub fn rename_into(
        &self,
        source: &str,
        destination: &str,
        wait: &Wait<'_>,
    ) -> Result<RenameOutcome> {
        block_on(wait, self.0.rename_into(source, destination))
    }

    /// See [`crate::FileSystem::delete`].
    ///
    /// # Errors
    /// As there.
    pub fn delete(&self, path: &str, recursive: bool, wait: &Wait<'_>) -> Result<bool> {
        block_on(wait, self.0.delete(path, recursive))
    }

    /// See [`crate::FileSystem::set_times`].
    ///
    /// # Errors
    /// As there.
    pub fn set_times(
        &self,
        path: &str,
        modified_ms: Option<u64>,
        accessed_ms: Option<u64>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        block_on(wait, self.0.set_times(path, modified_ms, accessed_ms))
    }

    /// See [`crate::FileSystem::capabilities`].
    ///
    /// # Errors
    /// As there.
    pub fn capabilities(&self, path: &str, wait: &Wait<'_>) -> Result<Capabilities> {
        block_on(wait, self.0.capabilities(path))
    }

    /// See [`crate::FileSystem::append_status`].
    ///
    /// # Errors
    /// As there.
    pub fn append_status(&self, path: &str, wait: &Wait<'_>) -> Result<Option<AppendStatus>> {
        block_on(wait, self.0.append_status(path))
    }

    /// See [`crate::FileSystem::recover_lease`].
    ///
    /// # Errors
    /// As there.
    pub fn recover_lease(&self, path: &str, wait: &Wait<'_>) -> Result<bool> {
        block_on(wait, self.0.recover_lease(path))
    }

    /// See [`crate::FileSystem::recover_lease_with`].
    ///
    /// # Errors
    /// As there.
    pub fn recover_lease_with(
        &self,
        path: &str,
        options: &RecoverOptions,
        wait: &Wait<'_>,
    ) -> Result<bool> {
        block_on(wait, self.0.recover_lease_with(path, options))
    }

    /// See [`crate::FileSystem::is_file_closed`].
    ///
    /// # Errors
    /// As there.
    pub fn is_file_closed(&self, path: &str, wait: &Wait<'_>) -> Result<bool> {
        block_on(wait, self.0.is_file_closed(path))
    }

    /// See [`crate::FileSystem::create_volume`].
    ///
    /// # Errors
    /// As there.
    pub fn create_volume(
        &self,
        name: &str,
        options: &VolumeOptions,
        wait: &Wait<'_>,
    ) -> Result<()> {
        block_on(wait, self.0.create_volume(name, options))
    }

    /// See [`crate::FileSystem::volume`].
    ///
    /// # Errors
    /// As there.
    pub fn volume(&self, name: &str, wait: &Wait<'_>) -> Result<VolumeInfo> {
        block_on(wait, self.0.volume(name))
    }

    /// See [`crate::FileSystem::volumes`].
    ///
    /// # Errors
    /// As there.
    pub fn volumes(&self, after: &str, max: u32, wait: &Wait<'_>) -> Result<Vec<VolumeInfo>> {
        block_on(wait, self.0.volumes(after, max))
    }

    /// See [`crate::FileSystem::delete_volume`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_volume(&self, name: &str, wait: &Wait<'_>) -> Result<()> {
        block_on(wait, self.0.delete_volume(name))
    }

    /// See [`crate::FileSystem::create_bucket`].
    ///
    /// # Errors
    /// As there.
    pub fn create_bucket(
        &self,
        volume: &str,
        name: &str,
        options: &BucketOptions,
        wait: &Wait<'_>,
    ) -> Result<()> {
        block_on(wait, self.0.create_bucket(volume, name, options))
    }

    /// See [`crate::FileSystem::bucket`].
    ///
    /// # Errors
    /// As there.
    pub fn bucket(&self, volume: &str, name: &str, wait: &Wait<'_>) -> Result<BucketInfo> {
        block_on(wait, self.0.bucket(volume, name))
    }

    /// See [`crate::FileSystem::buckets`].
    ///
    /// # Errors
    /// As there.
    pub fn buckets(
        &self,
        volume: &str,
        after: &str,
        max: u32,
        wait: &Wait<'_>,
    ) -> Result<Vec<BucketInfo>> {
        block_on(wait, self.0.buckets(volume, after, max))
    }

    /// See [`crate::FileSystem::delete_bucket`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_bucket(&self, volume: &str, name: &str, wait: &Wait<'_>) -> Result<()> {
        block_on(wait, self.0.delete_bucket(volume, name))
    }

    /// See [`crate::FileSystem::open_files`].
    ///
    /// # Errors
    /// As there.
    pub fn open_files(
        &self,
        path: &str,
        token: &str,
        max: u32,
        wait: &Wait<'_>,
    ) -> Result<OpenFilesPage> {
        block_on(wait, self.0.open_files(path, token, max))
    }
}

/// All methods are those of [`crate::WriteStream`] of the same name.
impl WriteStream {
    /// See [`crate::WriteStream::path`].
    #[must_use]
    pub fn path(&self) -> &FsPath {
        self.0.path()
    }

    /// See [`crate::WriteStream::session`].
    #[must_use]
    pub fn session(&self) -> Option<SessionHandle> {
        self.0.session()
    }

    /// See [`crate::WriteStream::start`].
    #[must_use]
    pub fn start(&self) -> u64 {
        self.0.start()
    }

    /// See [`crate::WriteStream::pos`].
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.0.pos()
    }

    /// See [`crate::WriteStream::can_sync`].
    #[must_use]
    pub fn can_sync(&self) -> bool {
        self.0.can_sync()
    }

    /// See [`crate::WriteStream::write`]. When the wait ends first, an unknown part of `data` was taken.
    ///
    /// # Errors
    /// As there.
    pub fn write(&self, data: &[u8], wait: &Wait<'_>) -> Result<()> {
        block_on(wait, self.0.write(data))
    }

    /// See [`crate::WriteStream::write_with`]; `take` runs on the calling thread.
    ///
    /// # Errors
    /// As there.
    pub fn write_with(
        &self,
        length: usize,
        take: impl FnMut(&mut [u8]) -> Result<()>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        block_on(wait, self.0.write_with(length, take))
    }

    /// See [`crate::WriteStream::hflush`].
    ///
    /// # Errors
    /// As there.
    pub fn hflush(&self, wait: &Wait<'_>) -> Result<()> {
        block_on(wait, self.0.hflush())
    }

    /// See [`crate::WriteStream::hsync`].
    ///
    /// # Errors
    /// As there.
    pub fn hsync(&self, wait: &Wait<'_>) -> Result<()> {
        block_on(wait, self.0.hsync())
    }

    /// See [`crate::WriteStream::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(&self, wait: &Wait<'_>) -> Result<()> {
        block_on(wait, self.0.close())
    }

    /// See [`crate::WriteStream::abort`].
    pub fn abort(&self, at_most: Duration) {
        // Without threads there is no session to end.
        let _ = block_on(&Wait::unbounded(), async {
            self.0.abort(at_most).await;
            Ok(())
        });
    }
}

/// All methods are those of [`crate::Reader`] of the same name.
impl Reader {
    /// See [`crate::Reader::path`].
    #[must_use]
    pub fn path(&self) -> &FsPath {
        self.0.path()
    }

    /// See [`crate::Reader::len`].
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length in bytes, not of a collection"
    )]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// See [`crate::Reader::read_at`].
    ///
    /// # Errors
    /// As there.
    pub fn read_at(&self, position: u64, target: &mut [u8], wait: &Wait<'_>) -> Result<usize> {
        block_on(wait, self.0.read_at(position, target))
    }

    /// See [`crate::Reader::bytes_at`].
    ///
    /// # Errors
    /// As there.
    pub fn bytes_at(&self, position: u64, length: usize, wait: &Wait<'_>) -> Result<Bytes> {
        block_on(wait, self.0.bytes_at(position, length))
    }

    /// See [`crate::Reader::pieces_at`].
    ///
    /// # Errors
    /// As there.
    pub fn pieces_at(&self, position: u64, length: usize, wait: &Wait<'_>) -> Result<Vec<Bytes>> {
        block_on(wait, self.0.pieces_at(position, length))
    }

    /// See [`crate::Reader::unbuffer`].
    pub fn unbuffer(&self) {
        self.0.unbuffer();
    }
}
