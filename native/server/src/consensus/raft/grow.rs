//! From one server to the first of a group, and from the last of a group to one server. Both on a folder that no server has open.

use super::OpenError;
use super::machine::members_in;
use super::types::{Member, Members, log_id, members_from_row, members_row};
use crate::consensus::folder::Folder;
use crate::consensus::membership::Standing;
use crate::consensus::restore::{Decided, Restored, restore, restore_decided};
use crate::consensus::{GroupOptions, Options};
use crate::log::Kind;
use crate::store::Store;
use append_namespace::Machine;
use append_namespace::ids::MAX_EPOCH;
use append_wire::peer;
use bytes::Bytes;
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

/// Makes the folder of a server of a group that of a server that is alone. Everything in its log counts as decided then.
///
/// The only server that has a vote has everything. Another one may lack what the others decided: it is refused unless the loss is accepted,
/// and then goes on in a new epoch, which is given, so that nothing that the lost commands gave out is given out again. The others may not
/// be started again. A crash leaves the server in its group, or alone.
///
/// # Errors
/// [`OpenError`].
pub fn leave(dir: &Path, options: &Options, accept_loss: bool) -> Result<Option<u32>, OpenError> {
    let folder = Folder::open(dir)?;
    let Some(standing) = folder.standing().read()? else {
        return Err(refused(dir, "belongs to no group"));
    };
    if standing.reset.is_some() {
        return Err(refused(
            dir,
            "has a checkpoint that is not in yet: start the server once more in its group",
        ));
    }
    // No more is applied than is known to be decided: if the server stays in its group, the rest may be taken back.
    let Restored {
        mut log,
        store,
        machine,
        ..
    } = restore_decided::<Machine>(&folder, options, Decided::Applied)?;
    let applied = store.applied();
    let mut epoch = machine.position().epoch;
    let mut members = members_in(&store).map_err(io(dir))?;
    for record in log.reader(applied.mark.index + 1) {
        let record = record?;
        match record.kind {
            Kind::Members => {
                members = members_from_row(&record.payload)
                    .map_err(|error| OpenError::Group(error.to_string()))?;
            }
            Kind::Entry | Kind::Blank | Kind::Epoch => {}
        }
    }
    let voters: BTreeSet<u64> = members.voter_ids().collect();
    let admitted = members
        .membership()
        .get_node(&standing.id)
        .is_some_and(|member| member.folder == standing.folder);
    let has_all = admitted && voters == BTreeSet::from([standing.id]);
    if !has_all && !accept_loss {
        let others: Vec<String> = voters
            .iter()
            .filter(|id| **id != standing.id)
            .map(u64::to_string)
            .collect();
        return Err(refused(
            dir,
            &format!(
                "may lack what servers {} have decided: dismiss them first, or go on without it by --accept-loss",
                others.join(", ")
            ),
        ));
    }
    let raised = if has_all {
        None
    } else {
        epoch += 1;
        if epoch > u32::from(MAX_EPOCH) {
            return Err(refused(dir, "has used up its epochs"));
        }
        // A term of its own, so that the record is never taken for one of the group's.
        let term = log.last_term() + 1;
        let payload = Bytes::copy_from_slice(&epoch.to_le_bytes());
        log.append(term, Kind::Epoch, payload)?;
        log.sync()?;
        Some(epoch)
    };
    drop(store);
    // Its rows must be where a server that is alone looks for them: they are rebuilt there, from checkpoint and log.
    folder.standing().remove().map_err(io(dir))?;
    Ok(raised)
}
