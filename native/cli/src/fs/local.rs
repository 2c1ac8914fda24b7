//! The local side of `-put`, `-get` and `-appendToFile`.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::tree::{Sink, Source, Stat, Tree, TreeResult};

/// The files of this machine.
#[derive(Debug)]
pub(crate) struct Local {
    home: String,
}

impl Local {
    /// Relative paths start in the working directory.
    ///
    /// # Errors
    /// The working directory is gone, or its name is not UTF-8.
    pub(crate) fn new() -> io::Result<Local> {
        let home = std::env::current_dir()?;
        let home = home
            .to_str()
            .ok_or_else(|| io::Error::other("the working directory's name is not UTF-8"))?;
        Ok(Local {
            home: home.to_owned(),
        })
    }
}

fn stat(data: &fs::Metadata) -> Stat {
    let millis = |time: io::Result<SystemTime>| {
        let since = time
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    };
    Stat {
        directory: data.is_dir(),
        length: data.len(),
        replication: 1,
        block_size: data.blksize(),
        modified_ms: millis(data.modified()),
        accessed_ms: millis(data.accessed()),
        owner: data.uid().to_string(),
        group: data.gid().to_string(),
        mode: u16::try_from(data.mode() & 0o777).unwrap_or_default(),
    }
}

impl Tree for Local {
    fn uri(&self) -> &str {
        "file://"
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn stat(&self, path: &str) -> TreeResult<Option<Stat>> {
        match fs::metadata(path) {
            Ok(data) => Ok(Some(stat(&data))),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, path: &str) -> TreeResult<Vec<(String, Stat)>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| {
                io::Error::other(format!("the name {name:?} in {path} is not UTF-8"))
            })?;
            entries.push((name.to_owned(), stat(&fs::metadata(entry.path())?)));
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    fn mkdirs(&self, path: &str, parents: bool) -> TreeResult<()> {
        if parents {
            fs::create_dir_all(path)?
        } else {
            fs::create_dir(path)?
        }
        Ok(())
    }

    fn open(&self, path: &str, position: u64) -> TreeResult<Box<dyn Source>> {
        let mut file = File::open(path)?;
        let data = file.metadata()?;
        if data.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        if position > 0 {
            file.seek(SeekFrom::Start(position))?;
        }
        // Pipes and devices have no size.
        let size = data.is_file().then_some(data.len());
        Ok(Box::new(LocalSource { file, size }))
    }

    fn create(&self, path: &str, overwrite: bool, _temporary: bool) -> TreeResult<Box<dyn Sink>> {
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(overwrite)
            .create_new(!overwrite)
            .truncate(overwrite);
        Ok(Box::new(LocalSink {
            file: options.open(path)?,
            path: path.into(),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> TreeResult<bool> {
        fs::rename(from, to)?;
        Ok(true)
    }

    fn delete(&self, path: &str, recursive: bool) -> TreeResult<bool> {
        let data = match fs::symlink_metadata(path) {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        match (data.is_dir(), recursive) {
            (false, _) => fs::remove_file(path)?,
            (true, false) => fs::remove_dir(path)?,
            (true, true) => fs::remove_dir_all(path)?,
        }
        Ok(true)
    }

    fn set_times(&self, path: &str, modified_ms: u64, accessed_ms: u64) -> TreeResult<()> {
        let time = |ms| UNIX_EPOCH + Duration::from_millis(ms);
        let times = FileTimes::new()
            .set_modified(time(modified_ms))
            .set_accessed(time(accessed_ms));
        File::open(path)?.set_times(times)?;
        Ok(())
    }
}

struct LocalSource {
    file: File,
    size: Option<u64>,
}

impl Source for LocalSource {
    fn read(&mut self, buffer: &mut [u8]) -> TreeResult<usize> {
        Ok(self.file.read(buffer)?)
    }

    fn size(&self) -> Option<u64> {
        self.size
    }
}

struct LocalSink {
    file: File,
    path: PathBuf,
}

impl Sink for LocalSink {
    fn write(&mut self, data: &[u8]) -> TreeResult<()> {
        Ok(self.file.write_all(data)?)
    }

    fn close(mut self: Box<Self>) -> TreeResult<()> {
        Ok(self.file.flush()?)
    }

    fn abort(self: Box<Self>) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the unfinished file stays");
        }
    }
}

/// Standard input as a source.
pub(crate) struct Stdin;

impl Source for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> TreeResult<usize> {
        Ok(io::stdin().lock().read(buffer)?)
    }

    fn size(&self) -> Option<u64> {
        None
    }
}
