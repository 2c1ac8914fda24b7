//! What stands in a record of the log, as the rules take it.
//!
//! A record of a group holds commands, nothing (the first of a leader), or the group's members; one of a server that left its group and lost
//! something holds an epoch. All of them move the position; the members are kept in a row of their own, so that a checkpoint has them.

use crate::log::{Kind, Record};
use append_namespace::command::Entry;
use append_namespace::rows::{Change, Keyspace};
use append_wire::peer;
use bytes::Bytes;
use prost::Message;

/// Where in `meta` the members of the group stand.
pub(crate) const MEMBERS: &[u8] = b"members";

/// Why a record does not decode.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Senseless {
    #[error(transparent)]
    Message(#[from] prost::DecodeError),
    #[error("an epoch of {0} bytes")]
    Epoch(usize),
}

/// What a record does.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// What the rules apply; without commands in a record that holds none.
    pub(crate) entry: Entry,
    /// The row that changes beside the rules' own.
    pub(crate) members: Option<Change>,
    /// The epoch from this record on.
    pub(crate) epoch: Option<u32>,
}

impl Decoded {
    /// Takes a record apart.
    ///
    /// # Errors
    /// Words, when a newer version wrote it: its checksum fits.
    pub(crate) fn read(record: &Record) -> Result<Decoded, Senseless> {
        Ok(match record.kind {
            Kind::Entry => Decoded {
                entry: Entry::decode(record.payload.clone())?,
                members: None,
                epoch: None,
            },
            Kind::Blank => Decoded {
                entry: Entry::default(),
                members: None,
                epoch: None,
            },
            Kind::Epoch => Decoded {
                entry: Entry::default(),
                members: None,
                epoch: Some(epoch(&record.payload)?),
            },
            Kind::Members => {
                peer::Members::decode(record.payload.clone())?;
                Decoded {
                    entry: Entry::default(),
                    members: Some(members(record.payload.clone())),
                    epoch: None,
                }
            }
        })
    }
}

fn epoch(payload: &[u8]) -> Result<u32, Senseless> {
    payload
        .try_into()
        .map(u32::from_le_bytes)
        .map_err(|_| Senseless::Epoch(payload.len()))
}

/// The row of members.
pub(crate) fn members(row: Bytes) -> Change {
    Change {
        keyspace: Keyspace::Meta,
        key: Bytes::from_static(MEMBERS),
        value: Some(row),
    }
}
