//! The sweep: takes deleted trees apart, a bounded part with each command. What a tree holds went out of sight when its root was deleted;
//! the sweep ends the sessions below it, hands its files to reclamation and takes them from the bucket's usage.

use crate::command::Sweep;
use crate::context::{Context, Ruled, answer};
use crate::key::{self, Place};
use crate::quota::Charge;
use crate::record::{DeletedDirRow, DirRow, FileRow};
use crate::reply::{Answer, Cleaned, Reply};
use crate::rows::{Keyspace, RowsError};
use crate::table;

/// Files, directories and writers that one command takes at most, whatever it asks for.
const MAX_STEP: usize = 1_000;

/// Takes a part of a deleted tree apart. A directory in it becomes a deleted tree of its own, so that no command's work grows with depth.
pub(crate) fn sweep(ctx: &mut Context<'_, '_>, command: &Sweep) -> Ruled<Reply> {
    let at = key::deletion(command.command, command.ordinal);
    let mut cleaned = Cleaned::default();
    let Some(tree) = table::read::<DeletedDirRow>(ctx.txn, Keyspace::DeletedDirs, &at)? else {
        return answer(Answer::Cleaned(cleaned));
    };
    let removed = tree.removed.unwrap_or(command.command);
    let asked = usize::try_from(command.max).unwrap_or(MAX_STEP);
    let mut left = asked.clamp(1, MAX_STEP);
    let mut freed = Charge::default();
    files(ctx, &tree, removed, &mut left, &mut freed, &mut cleaned)?;
    directories(ctx, &tree, removed, &mut left, &mut freed, &mut cleaned)?;
    writers(ctx, &tree, &mut left, &mut cleaned)?;
    if left == 0 {
        cleaned.more = true;
    } else {
        ctx.txn.remove(Keyspace::DeletedDirs, at);
    }
    // What a deleted bucket left behind is charged to nobody.
    if table::bucket_by_id(ctx.txn, tree.bucket)?.is_some() {
        ctx.charge(tree.bucket, freed)?;
    }
    answer(Answer::Cleaned(cleaned))
}

fn files(
    ctx: &mut Context<'_, '_>,
    tree: &DeletedDirRow,
    removed: u64,
    left: &mut usize,
    freed: &mut Charge,
    cleaned: &mut Cleaned,
) -> Ruled<()> {
    let children = key::named(tree.bucket, tree.directory, "");
    for (row, value) in table::below(ctx.txn, Keyspace::Files, &children, &children, *left)? {
        let place = child(tree, Keyspace::Files, &row)?;
        let file: FileRow = table::decode(Keyspace::Files, &value)?;
        ctx.discard_since(&place, &file, Some(removed));
        ctx.txn.remove(Keyspace::Files, row);
        ctx.txn
            .remove(Keyspace::FilePlaces, key::one(file.object_id));
        for writer in [file.append_owner, file.hsync_session]
            .into_iter()
            .flatten()
            .filter(|_| guard!(SweepEndsSessions))
        {
            ctx.invalidate(tree.bucket, writer)?;
        }
        freed.freed_bytes = freed.freed_bytes.saturating_add(file.replicated_size);
        freed.freed_names += 1;
        cleaned.files += 1;
        *left -= 1;
    }
    Ok(())
}

fn directories(
    ctx: &mut Context<'_, '_>,
    tree: &DeletedDirRow,
    removed: u64,
    left: &mut usize,
    freed: &mut Charge,
    cleaned: &mut Cleaned,
) -> Ruled<()> {
    if *left == 0 {
        return Ok(());
    }
    let children = key::named(tree.bucket, tree.directory, "");
    for (row, value) in table::below(ctx.txn, Keyspace::Dirs, &children, &children, *left)? {
        let place = child(tree, Keyspace::Dirs, &row)?;
        let directory: DirRow = table::decode(Keyspace::Dirs, &value)?;
        ctx.txn.remove(Keyspace::Dirs, row);
        ctx.txn.remove(
            Keyspace::DirParents,
            key::two(tree.bucket, directory.object_id),
        );
        let below = DeletedDirRow {
            bucket: tree.bucket,
            directory: directory.object_id,
            parent: tree.directory,
            name: place.name,
            deleted_ms: tree.deleted_ms,
            removed: Some(removed),
        };
        let ordinal = ctx.deletions;
        ctx.deletions += 1;
        let at = key::deletion(ctx.command, ordinal);
        table::write(ctx.txn, Keyspace::DeletedDirs, at, &below);
        freed.freed_names += 1;
        cleaned.directories += 1;
        *left -= 1;
    }
    Ok(())
}

/// Ordinary writers that have committed nothing: no file names them.
fn writers(
    ctx: &mut Context<'_, '_>,
    tree: &DeletedDirRow,
    left: &mut usize,
    cleaned: &mut Cleaned,
) -> Ruled<()> {
    if *left == 0 {
        return Ok(());
    }
    let children = key::named(tree.bucket, tree.directory, "");
    for (row, _) in table::below(ctx.txn, Keyspace::OpenByName, &children, &children, *left)? {
        let writer = row
            .len()
            .checked_sub(8)
            .and_then(|at| key::number_at(&row, at))
            .ok_or_else(|| table::corrupt(Keyspace::OpenByName, "a key without a session"))?;
        ctx.invalidate(tree.bucket, writer)?;
        cleaned.sessions += 1;
        *left -= 1;
    }
    Ok(())
}

fn child(tree: &DeletedDirRow, keyspace: Keyspace, row: &[u8]) -> Result<Place, RowsError> {
    Ok(Place {
        bucket: tree.bucket,
        parent: tree.directory,
        name: table::name_in(keyspace, row)?,
    })
}

#[cfg(test)]
mod tests;
