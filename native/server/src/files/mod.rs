//! The file operations that durability rests on, in one place, so that tests can cut the power between any two of them.
//!
//! Knows no format. The rows' engine does its own.

#[cfg(test)]
pub(crate) mod power;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file that is written and synced.
#[derive(Debug)]
pub(crate) struct DurableFile {
    file: File,
    /// Where [`Write`] goes on.
    at: u64,
    #[cfg(test)]
    path: std::path::PathBuf,
}

impl DurableFile {
    fn new(path: &Path, file: File, at: u64) -> DurableFile {
        let _ = path;
        DurableFile {
            file,
            at,
            #[cfg(test)]
            path: path.to_owned(),
        }
    }

    /// A new file; it must not be there.
    pub(crate) fn create_new(path: &Path) -> io::Result<DurableFile> {
        let file = File::create_new(path)?;
        #[cfg(test)]
        power::created(path);
        Ok(DurableFile::new(path, file, 0))
    }

    /// An empty file, whatever was there.
    pub(crate) fn create(path: &Path) -> io::Result<DurableFile> {
        let file = File::create(path)?;
        #[cfg(test)]
        power::created(path);
        Ok(DurableFile::new(path, file, 0))
    }

    /// A file that is there, to be written behind its end.
    pub(crate) fn append(path: &Path) -> io::Result<DurableFile> {
        let file = OpenOptions::new().write(true).open(path)?;
        let at = file.metadata()?.len();
        Ok(DurableFile::new(path, file, at))
    }

    /// Writes all of `bytes` at `at`. On an error some of them may be there.
    pub(crate) fn write_all_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.at = at;
        self.write_all(bytes)
    }

    /// Cuts the file to `length`.
    pub(crate) fn cut(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        #[cfg(test)]
        power::cut(&self.path, length);
        Ok(())
    }

    /// Makes the content durable, not the name.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        #[cfg(test)]
        power::synced(&self.path);
        Ok(())
    }
}

impl Write for DurableFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(test)]
        let bytes = power::room_for(&self.path, bytes)?;
        let written = self.file.write_at(bytes, self.at)?;
        #[cfg(test)]
        power::written(&self.path, self.at, &bytes[..written]);
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()?;
    #[cfg(test)]
    power::synced_dir(dir);
    Ok(())
}

/// Makes `dir` and what is missing above it, names durable, and makes the name of what is there durable too: a process that was
/// killed may have made it last.
pub(crate) fn create_dirs(dir: &Path) -> io::Result<()> {
    let above = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".").to_owned()),
        parent => parent.map(Path::to_owned),
    };
    let mut missing = Vec::new();
    let mut at = dir.to_owned();
    while !at.try_exists()? {
        let Some(parent) = above(&at) else { break };
        missing.push(std::mem::replace(&mut at, parent));
    }
    if let Some(parent) = above(&at) {
        match sync_dir(&parent) {
            // Whoever may not read it has not made a name in it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    for made in missing.iter().rev() {
        match std::fs::create_dir(made) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        #[cfg(test)]
        power::created_dir(made);
        if let Some(parent) = above(made) {
            sync_dir(&parent)?;
        }
    }
    Ok(())
}

/// Gives a file another name, in the place of what has it. Not durable before [`sync_dir`].
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    #[cfg(test)]
    power::renamed(from, to);
    Ok(())
}

/// Removes a file. Not durable before [`sync_dir`].
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)?;
    #[cfg(test)]
    power::removed(path);
    Ok(())
}
