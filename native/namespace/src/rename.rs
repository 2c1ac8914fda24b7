//! Renaming within a bucket. A session follows its file; a name that is free again knows nothing of it (I12).

use crate::bucket;
use crate::command::{BucketName, KeyPath, KeyRename, Layout, Rename, RenameKeys};
use crate::context::{Context, Ruled, Stop, answer, done, refuse};
use crate::key::{self, Place};
use crate::name::{self, KeyName};
use crate::record::{BucketRow, DirRow, FileRow};
use crate::reply::{Answer, RefusalKind, RefusedRename, RenamedKeys, Reply};
use crate::resolve::{self, At, DirectoryKind};
use crate::rows::Keyspace;
use crate::table;

/// Renames a file or, in FSO, a whole tree in one step.
pub(crate) fn rename(ctx: &mut Context<'_, '_>, command: &Rename) -> Ruled<Reply> {
    let path = &command.from;
    let row = bucket::get(ctx.txn, &path.volume, &path.bucket)??;
    let layout = bucket::layout(&row);
    let from = name::key(layout, &path.key)?;
    let to = name::key(layout, &command.to)?;
    if from.text.is_empty() {
        return refuse(
            RefusalKind::RenameRefused,
            format!("{path}: the root of a bucket cannot be renamed"),
        );
    }
    if layout == Layout::FileSystemOptimized {
        by_parent(ctx, &row, command, &from.text, &to.text)
    } else {
        by_key(ctx, &row, command, &from, &to)
    }
}

/// Renames several keys, one after the other; one that is refused does not keep the others. As in Ozone not in FSO, where a directory
/// takes along what is below it.
pub(crate) fn rename_keys(ctx: &mut Context<'_, '_>, command: &RenameKeys) -> Ruled<Reply> {
    let BucketName { volume, bucket } = &command.bucket;
    let row = bucket::get(ctx.txn, volume, bucket)??;
    if bucket::layout(&row) == Layout::FileSystemOptimized {
        return refuse(
            RefusalKind::Unsupported,
            format!("/{volume}/{bucket}: several keys are not renamed at once in an FSO bucket"),
        );
    }
    let mut refused = Vec::new();
    for KeyRename { from, to } in &command.renames {
        let one = Rename {
            from: KeyPath {
                volume: volume.clone(),
                bucket: bucket.clone(),
                key: from.clone(),
            },
            to: to.clone(),
            expected_update: None,
        };
        let savepoint = ctx.txn.savepoint();
        match rename(ctx, &one) {
            Ok(_) => {}
            Err(Stop::Refused(refusal)) => {
                ctx.txn.rollback(savepoint);
                refused.push(RefusedRename {
                    from: from.clone(),
                    to: to.clone(),
                    refusal,
                });
            }
            Err(stop) => return Err(stop),
        }
    }
    answer(Answer::RenamedKeys(RenamedKeys { refused }))
}

fn check_update(command: &Rename, update_id: u64) -> Ruled<()> {
    match command.expected_update {
        Some(expected) if expected != update_id => refuse(
            RefusalKind::UpdateIdMismatch,
            format!(
                "{} has generation {update_id}, not {expected}",
                command.from
            ),
        ),
        _ => Ok(()),
    }
}

fn by_parent(
    ctx: &mut Context<'_, '_>,
    row: &BucketRow,
    command: &Rename,
    from: &str,
    to: &str,
) -> Ruled<Reply> {
    let path = &command.from;
    let source = resolve::locate(ctx.txn, row, from)?;
    match &source {
        At::File(_, file) => {
            check_update(command, file.update_id)?;
            if guard!(
                RenameHsync,
                file.hsync_session.is_some() && file.append_owner.is_none() && from != to
            ) {
                return refuse(
                    RefusalKind::RenameOpenFile,
                    format!("{path} is open for hsync"),
                );
            }
        }
        At::Directory(directory) => {
            if let DirectoryKind::Row(row) = &directory.kind {
                check_update(command, row.update_id)?;
            }
        }
        At::Root | At::Missing(_) | At::BelowFile => {
            return refuse(RefusalKind::KeyNotFound, format!("{path} is not there"));
        }
    }
    if from == to {
        return done();
    }
    let below = |to: &str| {
        to.strip_prefix(from)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    if guard!(
        RenameBelowItself,
        below(to) && matches!(source, At::Directory(_))
    ) {
        return refuse(
            RefusalKind::RenameRefused,
            format!("{path} cannot move below itself, to {to}"),
        );
    }
    let target = target_place(ctx, row, to, name::leaf(from))?;
    match source {
        At::File(place, file) => {
            move_file(ctx, &place, &target, *file)?;
            ctx.touch_parent(&place)?;
        }
        At::Directory(directory) => {
            if let DirectoryKind::Row(row) = directory.kind {
                ctx.txn.remove(Keyspace::Dirs, key::place(&directory.place));
                table::put_dir(
                    ctx.txn,
                    &target,
                    &DirRow {
                        update_id: ctx.command,
                        ..*row
                    },
                );
            }
            ctx.touch_parent(&directory.place)?;
        }
        At::Root | At::Missing(_) | At::BelowFile => {}
    }
    ctx.touch_parent(&target)?;
    done()
}

/// Where a rename to `to` puts what is named `leaf`: at `to`, or inside it when it is a directory, as Ozone's OM does for FSO.
fn target_place(ctx: &Context<'_, '_>, row: &BucketRow, to: &str, leaf: &str) -> Ruled<Place> {
    let inside;
    let at = match resolve::locate(ctx.txn, row, to)? {
        At::Root | At::Directory(_) => {
            inside = name::join(to, leaf);
            resolve::locate(ctx.txn, row, &inside)?
        }
        at => at,
    };
    match at {
        At::Missing(missing) => match missing.place() {
            Some(place) => Ok(place),
            None => refuse(
                RefusalKind::RenameRefused,
                format!("the parent of {to} is not there"),
            ),
        },
        At::BelowFile => refuse(
            RefusalKind::RenameRefused,
            format!("a parent of {to} is a file"),
        ),
        At::File(..) | At::Directory(_) | At::Root => {
            refuse(RefusalKind::KeyExists, format!("{to} is there already"))
        }
    }
}

/// LEGACY and OBJECT_STORE: exactly one key, as Ozone's OM does; whoever renames a directory renames its keys.
fn by_key(
    ctx: &mut Context<'_, '_>,
    row: &BucketRow,
    command: &Rename,
    from: &KeyName,
    to: &KeyName,
) -> Ruled<Reply> {
    let path = &command.from;
    let bucket = row.object_id;
    let source = Place {
        bucket,
        parent: 0,
        name: from.row_name(),
    };
    let target = Place {
        bucket,
        parent: 0,
        name: to.row_name(),
    };
    let Some(mut file) = table::file(ctx.txn, &source)? else {
        return refuse(RefusalKind::KeyNotFound, format!("{path} is not there"));
    };
    check_update(command, file.update_id)?;
    if source == target {
        return done();
    }
    if to.text.is_empty() {
        return refuse(RefusalKind::InvalidKeyName, "a key needs a name");
    }
    if from.slash != to.slash {
        return refuse(
            RefusalKind::RenameRefused,
            format!("{path}: a directory's key stays a directory's key"),
        );
    }
    if from.slash && target.name.starts_with(&source.name) {
        return refuse(
            RefusalKind::RenameRefused,
            format!("{path} cannot move below itself, to {}", to.text),
        );
    }
    match resolve::locate(ctx.txn, row, &to.text)? {
        At::Missing(_) => {}
        At::BelowFile => {
            return refuse(
                RefusalKind::RenameRefused,
                format!("a parent of {} is a file", to.text),
            );
        }
        // Keys of a directory arrive one by one, so its own key may come when others imply the directory already.
        At::Directory(directory)
            if to.slash && matches!(directory.kind, DirectoryKind::Implied) => {}
        At::File(..) | At::Directory(_) | At::Root if guard!(RenameOntoNothing) => {
            return refuse(
                RefusalKind::KeyExists,
                format!("{} is there already", to.text),
            );
        }
        At::File(..) | At::Directory(_) | At::Root => {}
    }
    file.modified_ms = ctx.wall_ms;
    move_file(ctx, &source, &target, file)?;
    done()
}

/// Moves a committed file with the session that has published it or owns it. Writers that have published nothing stay at the name.
fn move_file(ctx: &mut Context<'_, '_>, from: &Place, to: &Place, file: FileRow) -> Ruled<()> {
    for session in [file.append_owner, file.hsync_session]
        .into_iter()
        .flatten()
        .filter(|_| guard!(RenameTakesSession))
    {
        ctx.move_session(session, from, to)?;
    }
    ctx.txn.remove(Keyspace::Files, key::place(from));
    let file = FileRow {
        update_id: ctx.command,
        ..file
    };
    table::put_file_place(ctx.txn, file.object_id, to);
    table::put_file(ctx.txn, to, &file);
    Ok(())
}

#[cfg(test)]
mod tests;
