//! The server's files, through the client. One [`Remote`] per server that a command names.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use append_client::status::RenameOutcome;
use append_client::{
    Config, CreateOptions, ErrorKind, FileStatus, FileSystem, Reader, WriteStream,
};
use tokio::runtime::Runtime;

use super::interrupt::{self, Guard};
use super::tree::{Sink, Source, Stat, Tree, TreeError, TreeResult};

/// Mode of everything on a server that keeps none.
const FILE_MODE: u16 = 0o666;
const DIRECTORY_MODE: u16 = 0o777;

/// How long an abandoned stream may take to tell the server.
pub(crate) const ABORT_TIME: Duration = Duration::from_secs(5);

/// A connected server.
pub(crate) struct Remote {
    runtime: Rc<Runtime>,
    fs: FileSystem,
    uri: String,
    home: String,
}

impl Remote {
    /// Connects. `uri` is scheme and authority; `shown` the same as results are to show it.
    ///
    /// # Errors
    /// Those of [`FileSystem::connect`].
    pub(crate) fn connect(runtime: &Rc<Runtime>, uri: &str, config: &Config) -> TreeResult<Remote> {
        let user = config.user()?;
        let fs = runtime.block_on(FileSystem::connect(uri, config.clone()))?;
        Ok(Remote {
            runtime: Rc::clone(runtime),
            fs,
            uri: uri.to_owned(),
            home: format!("/user/{user}"),
        })
    }

    /// Opens a file for append.
    ///
    /// # Errors
    /// Those of [`append_client::AppendBuilder::open`].
    pub(crate) fn append(&self, path: &str, new_block: bool) -> TreeResult<Box<dyn Sink>> {
        let stream = self
            .runtime
            .block_on(self.fs.append(path).new_block(new_block).open())?;
        Ok(Box::new(self.sink(stream, None)))
    }

    /// Whether the bucket of a path is there and takes no append, by its layout or by the server.
    ///
    /// # Errors
    /// A failed call.
    pub(crate) fn refuses_append(&self, path: &str) -> TreeResult<bool> {
        let place = self.fs.resolve(path)?;
        if !place.is_key() {
            return Ok(false);
        }
        self.runtime.block_on(async {
            match self.fs.bucket(place.volume(), place.bucket()).await {
                Ok(_) => Ok(!self.fs.capabilities(path).await?.append),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn sink(&self, stream: WriteStream, temporary: Option<&str>) -> RemoteSink {
        let stream = Arc::new(stream);
        let leftover = temporary.map(|path| (self.fs.clone(), path.to_owned()));
        let guard = interrupt::guard(&stream, leftover);
        RemoteSink {
            runtime: Rc::clone(&self.runtime),
            stream,
            _guard: guard,
        }
    }
}

fn stat(status: &FileStatus) -> Stat {
    Stat {
        directory: status.directory,
        length: status.length,
        replication: status.replication,
        block_size: status.block_size,
        modified_ms: status.modified_ms,
        accessed_ms: status.accessed_ms,
        owner: status.owner.clone(),
        // The server keeps no groups: a user's own group has his name.
        group: status.owner.clone(),
        mode: if status.directory {
            DIRECTORY_MODE
        } else {
            FILE_MODE
        },
    }
}

impl Tree for Remote {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn stat(&self, path: &str) -> TreeResult<Option<Stat>> {
        match self.runtime.block_on(self.fs.status(path)) {
            Ok(status) => Ok(Some(stat(&status))),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, path: &str) -> TreeResult<Vec<(String, Stat)>> {
        let entries = self.runtime.block_on(self.fs.list(path))?;
        Ok(entries
            .iter()
            .map(|entry| (entry.name().to_owned(), stat(entry)))
            .collect())
    }

    fn mkdirs(&self, path: &str, parents: bool) -> TreeResult<()> {
        Ok(self.runtime.block_on(self.fs.mkdirs(path, parents))?)
    }

    fn open(&self, path: &str, position: u64) -> TreeResult<Box<dyn Source>> {
        let reader = self.runtime.block_on(self.fs.open(path))?;
        Ok(Box::new(RemoteSource {
            runtime: Rc::clone(&self.runtime),
            reader,
            position,
        }))
    }

    fn create(&self, path: &str, overwrite: bool, temporary: bool) -> TreeResult<Box<dyn Sink>> {
        let options = CreateOptions {
            overwrite,
            ..CreateOptions::default()
        };
        let stream = self.runtime.block_on(self.fs.create(path, &options))?;
        Ok(Box::new(self.sink(stream, temporary.then_some(path))))
    }

    fn rename(&self, from: &str, to: &str) -> TreeResult<bool> {
        let outcome = self.runtime.block_on(self.fs.rename_into(from, to))?;
        Ok(matches!(
            outcome,
            RenameOutcome::Done | RenameOutcome::SameFile
        ))
    }

    fn delete(&self, path: &str, recursive: bool) -> TreeResult<bool> {
        Ok(self.runtime.block_on(self.fs.delete(path, recursive))?)
    }

    fn set_times(&self, path: &str, modified_ms: u64, accessed_ms: u64) -> TreeResult<()> {
        Ok(self.runtime.block_on(
            self.fs
                .set_times(path, Some(modified_ms), Some(accessed_ms)),
        )?)
    }
}

struct RemoteSource {
    runtime: Rc<Runtime>,
    reader: Reader,
    position: u64,
}

impl Source for RemoteSource {
    fn read(&mut self, buffer: &mut [u8]) -> TreeResult<usize> {
        let count = self
            .runtime
            .block_on(self.reader.read_at(self.position, buffer))?;
        self.position += u64::try_from(count).unwrap_or_default();
        Ok(count)
    }

    fn size(&self) -> Option<u64> {
        Some(self.reader.len())
    }
}

struct RemoteSink {
    runtime: Rc<Runtime>,
    stream: Arc<WriteStream>,
    _guard: Guard,
}

impl Sink for RemoteSink {
    fn write(&mut self, data: &[u8]) -> TreeResult<()> {
        self.runtime
            .block_on(self.stream.write(data))
            .map_err(TreeError::from)
    }

    fn close(self: Box<Self>) -> TreeResult<()> {
        // The input may have ended because its writer got the same signal.
        interrupt::settle();
        self.runtime
            .block_on(self.stream.close())
            .map_err(TreeError::from)
    }

    fn abort(self: Box<Self>) {
        self.runtime.block_on(self.stream.abort(ABORT_TIME));
    }
}
