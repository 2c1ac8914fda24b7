//! Deleting files and directories. What a deleted file held goes to reclamation; a deleted tree waits for the sweep.

use crate::bucket;
use crate::command::{BucketName, Delete, DeleteKeys, Handle, KeyPath, Layout};
use crate::context::{Context, Ruled, Stop, answer, done, refuse};
use crate::key::{self, Place};
use crate::name;
use crate::quota::Charge;
use crate::record::{BucketRow, DeletedDirRow, DirRow, FileRow};
use crate::reply::{Answer, DeletedKeys, RefusalKind, RefusedKey, Reply};
use crate::resolve::{self, At, DirectoryKind};
use crate::rows::Keyspace;
use crate::session;
use crate::table;

/// Keys of a LEGACY directory that one command deletes at most. Larger ones are deleted key by key, as Ozone's client does.
const LEGACY_TREE: usize = 1_000;

/// Deletes a file or a directory, or what a created session made.
pub(crate) fn delete(ctx: &mut Context<'_, '_>, command: &Delete) -> Ruled<Reply> {
    if let Some(handle) = &command.created_by {
        return delete_created(ctx, handle);
    }
    let path = &command.path;
    let row = bucket::get(ctx.txn, &path.volume, &path.bucket)??;
    delete_at(ctx, &row, path, command.recursive)?;
    done()
}

/// Deletes several keys; one that is refused does not keep the others. Directories go as Ozone's client empties buckets by this command:
/// in FSO with all that lies below them; in LEGACY, where a key that ends in a slash is a directory's own key, alone, before or after
/// the keys below it.
pub(crate) fn delete_keys(ctx: &mut Context<'_, '_>, command: &DeleteKeys) -> Ruled<Reply> {
    let BucketName { volume, bucket } = &command.bucket;
    let row = bucket::get(ctx.txn, volume, bucket)??;
    let whole_trees = bucket::layout(&row) == Layout::FileSystemOptimized;
    let mut refused = Vec::new();
    for key in &command.keys {
        let path = KeyPath {
            volume: volume.clone(),
            bucket: bucket.clone(),
            key: key.clone(),
        };
        let savepoint = ctx.txn.savepoint();
        let outcome = match own_key(ctx, &row, &path)? {
            Some((place, file)) => remove_file(ctx, &place, &file),
            None => delete_at(ctx, &row, &path, whole_trees),
        };
        match outcome {
            Ok(()) => {}
            Err(Stop::Refused(refusal)) => {
                ctx.txn.rollback(savepoint);
                refused.push(RefusedKey {
                    key: key.clone(),
                    refusal,
                });
            }
            Err(stop) => return Err(stop),
        }
    }
    answer(Answer::DeletedKeys(DeletedKeys { refused }))
}

/// The row of a LEGACY directory's own key, when the key names one.
fn own_key(
    ctx: &Context<'_, '_>,
    row: &BucketRow,
    path: &KeyPath,
) -> Ruled<Option<(Place, FileRow)>> {
    let layout = bucket::layout(row);
    let Ok(key) = name::key(layout, &path.key) else {
        return Ok(None);
    };
    if layout != Layout::Legacy || !key.slash || key.text.is_empty() {
        return Ok(None);
    }
    let place = Place {
        bucket: row.object_id,
        parent: 0,
        name: key.row_name(),
    };
    Ok(table::file(ctx.txn, &place)?.map(|file| (place, file)))
}

fn delete_at(
    ctx: &mut Context<'_, '_>,
    row: &BucketRow,
    path: &KeyPath,
    recursive: bool,
) -> Ruled<()> {
    let layout = bucket::layout(row);
    let key = name::key(layout, &path.key)?;
    if key.text.is_empty() {
        return refuse(
            RefusalKind::InvalidKeyName,
            format!("{path}: the root of a bucket cannot be deleted"),
        );
    }
    match resolve::locate(ctx.txn, row, &key.text)? {
        At::File(..) if key.slash && layout == Layout::Legacy => {
            refuse(RefusalKind::KeyNotFound, format!("{path} is not there"))
        }
        At::File(place, file) => remove_file(ctx, &place, &file),
        At::Directory(directory) => match directory.kind {
            DirectoryKind::Row(row) => {
                remove_directory(ctx, &directory.place, &row, path, recursive)
            }
            DirectoryKind::Key(_) | DirectoryKind::Implied => {
                remove_legacy_directory(ctx, &directory.place, path, recursive)
            }
        },
        At::Root | At::Missing(_) | At::BelowFile => {
            refuse(RefusalKind::KeyNotFound, format!("{path} is not there"))
        }
    }
}

/// Removes a committed file; sessions that could still publish into it are invalidated.
fn remove_file(ctx: &mut Context<'_, '_>, place: &Place, file: &FileRow) -> Ruled<()> {
    ctx.discard(place, file);
    ctx.txn.remove(Keyspace::Files, key::place(place));
    ctx.txn
        .remove(Keyspace::FilePlaces, key::one(file.object_id));
    for writer in [file.append_owner, file.hsync_session]
        .into_iter()
        .flatten()
        .filter(|_| guard!(DeleteEndsSessions))
    {
        ctx.invalidate(place.bucket, writer)?;
    }
    ctx.charge(
        place.bucket,
        Charge {
            freed_bytes: file.replicated_size,
            freed_names: 1,
            ..Charge::default()
        },
    )
}

/// Moves a directory out of the tree in one step. What is below it stays charged and unreachable until the sweep; sessions below are
/// stopped by the guard of reachability.
fn remove_directory(
    ctx: &mut Context<'_, '_>,
    place: &Place,
    row: &DirRow,
    path: &KeyPath,
    recursive: bool,
) -> Ruled<()> {
    if guard!(DeleteNotEmpty, !recursive) {
        let children = key::named(place.bucket, row.object_id, "");
        if table::any_below(ctx.txn, Keyspace::Files, &children)?
            || table::any_below(ctx.txn, Keyspace::Dirs, &children)?
        {
            return refuse(
                RefusalKind::DirectoryNotEmpty,
                format!("{path} is not empty"),
            );
        }
    }
    ctx.txn.remove(Keyspace::Dirs, key::place(place));
    ctx.txn
        .remove(Keyspace::DirParents, key::two(place.bucket, row.object_id));
    let deleted = DeletedDirRow {
        bucket: place.bucket,
        directory: row.object_id,
        parent: place.parent,
        name: place.name.clone(),
        deleted_ms: ctx.wall_ms,
        removed: None,
    };
    let ordinal = ctx.deletions;
    ctx.deletions += 1;
    table::write(
        ctx.txn,
        Keyspace::DeletedDirs,
        key::deletion(ctx.command, ordinal),
        &deleted,
    );
    ctx.charge(
        place.bucket,
        Charge {
            freed_names: 1,
            ..Charge::default()
        },
    )
}

/// Removes the keys of a LEGACY directory, as many as one command may.
fn remove_legacy_directory(
    ctx: &mut Context<'_, '_>,
    place: &Place,
    path: &KeyPath,
    recursive: bool,
) -> Ruled<()> {
    let prefix = key::place(place);
    let keys = table::below(ctx.txn, Keyspace::Files, &prefix, &prefix, LEGACY_TREE + 1)?;
    if !recursive && keys.iter().any(|(key, _)| **key != *prefix) {
        return refuse(
            RefusalKind::DirectoryNotEmpty,
            format!("{path} is not empty"),
        );
    }
    if keys.len() > LEGACY_TREE {
        return refuse(
            RefusalKind::Unsupported,
            format!(
                "{path} has more than {LEGACY_TREE} keys; in a LEGACY bucket its keys must be deleted first"
            ),
        );
    }
    for (key, value) in keys {
        let place = Place {
            name: table::name_in(Keyspace::Files, &key)?,
            ..*place
        };
        remove_file(ctx, &place, &table::decode(Keyspace::Files, &value)?)?;
    }
    Ok(())
}

/// Deletes the file that a created session made, wherever it is now; of an ordinary writer that has published nothing, the writer.
fn delete_created(ctx: &mut Context<'_, '_>, handle: &Handle) -> Ruled<Reply> {
    let target = crate::command::Target {
        handle: Some(*handle),
        path: None,
        session: 0,
    };
    let session = session::writer(ctx, &target)?;
    if let Some(append) = &session.open.append {
        if guard!(DeleteCreated, !append.created) {
            return refuse(
                RefusalKind::InvalidRequest,
                format!("session {} did not create its file", handle.session),
            );
        }
        let file = table::file(ctx.txn, &session.place)?
            .filter(|file| file.append_owner == Some(session.id))
            .ok_or_else(|| {
                table::corrupt(
                    Keyspace::Files,
                    format!("session {} does not own its file", session.id),
                )
            })?;
        remove_file(ctx, &session.place, &file)?;
        return done();
    }
    if session
        .open
        .ordinary
        .as_ref()
        .is_some_and(|ordinary| ordinary.published.is_some())
    {
        return refuse(
            RefusalKind::InvalidRequest,
            format!(
                "writer {} has published; delete its file by path",
                handle.session
            ),
        );
    }
    ctx.end_session(&session)?;
    done()
}

#[cfg(test)]
mod tests;
