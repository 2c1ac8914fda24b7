//! Setting modification times.

use crate::bucket;
use crate::command::SetTimes;
use crate::context::{Context, Ruled, done, refuse};
use crate::key;
use crate::name;
use crate::reply::{RefusalKind, Reply};
use crate::resolve::{self, At, DirectoryKind};
use crate::rows::Keyspace;
use crate::table;

/// Sets a modification time; below zero nothing changes. An owner keeps its file: attributes are nobody's lease.
pub(crate) fn set(ctx: &mut Context<'_, '_>, command: &SetTimes) -> Ruled<Reply> {
    let path = &command.path;
    let mut row = bucket::get(ctx.txn, &path.volume, &path.bucket)??;
    let text = name::key(bucket::layout(&row), &path.key)?.text;
    let at = resolve::locate(ctx.txn, &row, &text)?;
    if matches!(at, At::Missing(_) | At::BelowFile) {
        return refuse(RefusalKind::KeyNotFound, format!("{path} is not there"));
    }
    let Ok(modified_ms) = u64::try_from(command.modified_ms) else {
        return done();
    };
    match at {
        At::File(place, mut file) => {
            file.modified_ms = modified_ms;
            file.update_id = ctx.command;
            table::put_file(ctx.txn, &place, &file);
        }
        At::Directory(directory) => match directory.kind {
            DirectoryKind::Row(mut row) => {
                row.modified_ms = modified_ms;
                row.update_id = ctx.command;
                table::write(ctx.txn, Keyspace::Dirs, key::place(&directory.place), &*row);
            }
            DirectoryKind::Key(mut row) => {
                row.modified_ms = modified_ms;
                row.update_id = ctx.command;
                table::put_file(ctx.txn, &directory.place, &row);
            }
            DirectoryKind::Implied => {}
        },
        At::Root => {
            row.modified_ms = modified_ms;
            row.update_id = ctx.command;
            table::put_bucket(ctx.txn, &row);
        }
        At::Missing(_) | At::BelowFile => {}
    }
    done()
}

#[cfg(test)]
mod tests;
