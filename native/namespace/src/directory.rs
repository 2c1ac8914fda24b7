//! Making directories.

use crate::bucket;
use crate::command::{CreateDirectory, Layout};
use crate::context::{Context, Ruled, answer, refuse};
use crate::name;
use crate::quota::Charge;
use crate::record::DirRow;
use crate::reply::{Answer, RefusalKind, Reply};
use crate::resolve::{self, At, DirectoryKind};
use crate::table;

/// Makes a directory and its missing parents. A directory that is there already is success, and said so.
pub(crate) fn create(ctx: &mut Context<'_, '_>, command: &CreateDirectory) -> Ruled<Reply> {
    let path = &command.path;
    let row = bucket::get(ctx.txn, &path.volume, &path.bucket)??;
    let layout = bucket::layout(&row);
    if layout == Layout::ObjectStore {
        return refuse(
            RefusalKind::Unsupported,
            format!("{path}: a bucket of layout OBJECT_STORE has no directories"),
        );
    }
    let text = name::key(layout, &path.key)?.text;
    let owner = ctx.owner(&command.owner);
    match resolve::locate(ctx.txn, &row, &text)? {
        At::Root => answer(Answer::DirectoryExisted(true)),
        At::Directory(directory) => {
            // An implied LEGACY directory gets its own key now, so that it outlives the keys that imply it.
            if let DirectoryKind::Implied = directory.kind {
                let mut marker = ctx.directory_key(&owner)?;
                marker.metadata = name::metadata(&command.metadata);
                marker.acls.clone_from(&command.acls);
                ctx.add_directory_key(&directory.place, &marker)?;
            }
            answer(Answer::DirectoryExisted(true))
        }
        At::File(..) => refuse(RefusalKind::FileExists, format!("{path} is a file")),
        At::BelowFile => refuse(
            RefusalKind::FileExists,
            format!("a parent of {path} is not a directory"),
        ),
        At::Missing(missing) => {
            let mut place = ctx.make_parents(&missing, &owner)?;
            if layout == Layout::Legacy {
                place.name.push('/');
                let mut marker = ctx.directory_key(&owner)?;
                marker.metadata = name::metadata(&command.metadata);
                marker.acls.clone_from(&command.acls);
                ctx.add_directory_key(&place, &marker)?;
            } else {
                let made = DirRow {
                    object_id: ctx.draw()?,
                    update_id: ctx.command,
                    created_ms: ctx.wall_ms,
                    modified_ms: ctx.wall_ms,
                    owner,
                    metadata: name::metadata(&command.metadata),
                    acls: command.acls.clone(),
                };
                ctx.charge(
                    place.bucket,
                    Charge {
                        names: 1,
                        ..Charge::default()
                    },
                )?;
                table::put_dir(ctx.txn, &place, &made);
            }
            answer(Answer::DirectoryExisted(false))
        }
    }
}

#[cfg(test)]
mod tests;
