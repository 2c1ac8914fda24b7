//! What a server of a group must not forget beside log and rows: who it is, whom it voted for, and how far a checkpoint from elsewhere is
//! in.
//!
//! ```text
//! 0   magic   8 bytes, "APNDGRP1"
//! 8   crc32c  u32, little endian, of what follows
//! 12  protobuf
//! ```
//! The file is written under another name, synced, renamed, and its folder synced, before anything that depends on it goes on.

use super::OpenError;
use crate::files::{self, DurableFile, sync_dir};
use append_wire::peer;
use crc_fast::CrcAlgorithm;
use prost::Message;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "group";
const MAGIC: &[u8; 8] = b"APNDGRP1";

/// See the module. Its bytes are those of the file.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Standing {
    /// The server's number in the group.
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    /// The identity of this folder: a group admits a folder, not a number.
    #[prost(string, tag = "2")]
    pub(crate) folder: String,
    /// The last vote.
    #[prost(message, optional, tag = "3")]
    pub(crate) vote: Option<peer::Vote>,
    /// Which of the folders of rows is the one; the others are left over.
    #[prost(uint32, tag = "4")]
    pub(crate) rows: u32,
    /// The rows came from elsewhere and stand here; the log does not begin behind them yet.
    #[prost(message, optional, tag = "5")]
    pub(crate) reset: Option<peer::Place>,
    /// The last record that the log may have lost to cutting.
    #[prost(message, optional, tag = "6")]
    pub(crate) cut: Option<peer::Place>,
}

/// The file of a folder.
#[derive(Debug, Clone)]
pub(crate) struct StandingFile {
    root: PathBuf,
}

fn sum(body: &[u8]) -> [u8; 4] {
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, body);
    u32::try_from(sum).unwrap_or_default().to_le_bytes()
}

impl StandingFile {
    pub(crate) fn new(root: &Path) -> StandingFile {
        StandingFile {
            root: root.to_owned(),
        }
    }

    /// What the file holds; none when the folder belongs to no group.
    pub(crate) fn read(&self) -> Result<Option<Standing>, OpenError> {
        let path = self.root.join(NAME);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(OpenError::Io {
                    action: "reading",
                    path,
                    source,
                });
            }
        };
        let standing = bytes
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.split_first_chunk::<4>())
            .filter(|(stored, body)| **stored == sum(body))
            .and_then(|(_, body)| Standing::decode(body).ok());
        match standing {
            Some(standing) => Ok(Some(standing)),
            None => Err(OpenError::Standing(path)),
        }
    }

    /// Replaces what the file holds, durably.
    pub(crate) fn write(&self, standing: &Standing) -> io::Result<()> {
        let body = standing.encode_to_vec();
        let temporary = self.root.join("group.new");
        let mut file = DurableFile::create(&temporary)?;
        file.write_all(MAGIC)?;
        file.write_all(&sum(&body))?;
        file.write_all(&body)?;
        file.sync()?;
        files::rename(&temporary, &self.root.join(NAME))?;
        sync_dir(&self.root)
    }

    /// The folder belongs to no group any more, durably.
    pub(crate) fn remove(&self) -> io::Result<()> {
        files::remove(&self.root.join(NAME))?;
        sync_dir(&self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_and_a_damaged_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = StandingFile::new(dir.path());
        assert_eq!(file.read().unwrap(), None);
        let standing = Standing {
            id: 3,
            folder: "f".to_owned(),
            vote: Some(peer::Vote {
                term: 7,
                node: 2,
                committed: true,
            }),
            ..Standing::default()
        };
        file.write(&standing).unwrap();
        assert_eq!(file.read().unwrap(), Some(standing));
        let path = dir.path().join(NAME);
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, bad).unwrap();
            assert!(
                matches!(file.read(), Err(OpenError::Standing(_))),
                "byte {at}"
            );
        }
        file.remove().unwrap();
        assert_eq!(file.read().unwrap(), None);
    }
}
