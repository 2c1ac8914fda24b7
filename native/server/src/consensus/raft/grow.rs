//! From one server to the first of a group, and from the last of a group to one server. Both on a folder that no server has open.

use super::OpenError;
use super::types::{Member, Members, log_id, members_row};
use crate::consensus::folder::Folder;
use crate::consensus::membership::Standing;
use crate::consensus::restore::{Restored, restore};
use crate::consensus::{GroupOptions, Options};
use crate::log::Kind;
use append_namespace::Machine;
use append_wire::peer;
use openraft::Membership;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn refused(dir: &Path, detail: &str) -> OpenError {
    OpenError::NotOfGroup {
        path: dir.to_owned(),
        detail: detail.to_owned(),
    }
}

fn io(dir: &Path) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = dir.to_owned();
    move |source| OpenError::Io {
        action: "writing the group file in",
        path,
        source,
    }
}

/// Makes the folder of a server that is alone that of the first server of a group, of which it is the only member. Its checkpoint is the
/// group's first. A crash leaves the one or the other.
///
/// # Errors
/// [`OpenError`].
pub fn grow(dir: &Path, options: &Options, group: &GroupOptions) -> Result<(), OpenError> {
    let folder = Folder::open(dir)?;
    if group.id == 0 {
        return Err(refused(
            dir,
            "cannot be that of server 0: numbers begin at 1",
        ));
    }
    let Restored {
        mut log,
        store,
        mut checkpoints,
        ..
    } = restore::<Machine>(&folder, options)?;
    if log.last_index() == 0 {
        return Err(refused(
            dir,
            "is empty: a new server is admitted to a group, or founds one",
        ));
    }
    let taken = checkpoints.take(&store.applied(), &AtomicBool::new(false))?;
    store.persist()?;
    let member = Member {
        peer: group.peer.clone(),
        client: group.client.clone(),
        folder: uuid::Uuid::new_v4().to_string(),
    };
    let folder_id = member.folder.clone();
    let membership = Membership::new(
        vec![BTreeSet::from([group.id])],
        BTreeMap::from([(group.id, member)]),
    )
    .map_err(|error| OpenError::Group(error.to_string()))?;
    let term = log.last_term().max(1);
    let at = log_id(term, log.last_index() + 1);
    log.append(
        term,
        Kind::Members,
        members_row(&Members::new(at, membership)),
    )?;
    log.sync()?;
    let standing = Standing {
        id: group.id,
        folder: folder_id,
        vote: Some(peer::Vote {
            term: term + 1,
            node: group.id,
            committed: false,
        }),
        rows: folder.generation(),
        reset: None,
        cut: Some(peer::Place {
            term: taken.mark.term,
            index: taken.mark.index,
        }),
    };
    folder.standing().write(&standing).map_err(io(dir))
}

/// Makes the folder of a server of a group that of a server that is alone. Everything in its log counts as decided: on the last of a group, or
/// on the one survivor that an operator chooses. What only the others had is lost, and they may not be started again.
///
/// # Errors
/// [`OpenError`].
pub fn leave(dir: &Path) -> Result<(), OpenError> {
    let folder = Folder::open(dir)?;
    match folder.standing().read()? {
        None => Err(refused(dir, "belongs to no group")),
        Some(standing) if standing.reset.is_some() => Err(refused(
            dir,
            "has a checkpoint that is not in yet: start the server once more in its group",
        )),
        // Its rows must be where a server that is alone looks for them: they are rebuilt there, from checkpoint and log.
        Some(_) => folder.standing().remove().map_err(io(dir)),
    }
}
