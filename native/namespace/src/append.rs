//! Admission of appenders, and creation with a session.

use crate::block;
use crate::bucket;
use crate::command::{AppendFile, CreateMode, LAYOUT_APPEND, Layout, Replication};
use crate::context::{Context, Ruled, answer, refuse};
use crate::file;
use crate::key::Place;
use crate::name;
use crate::quota::{self, Charge};
use crate::record::{AppendPart, BucketRow, FileRow, OpenRow, OrdinaryPart, PlaceRow};
use crate::reply::{Admitted, Answer, Phase, Refusal, RefusalKind, Reply};
use crate::resolve::{self, At};
use crate::session::{self, Session};
use crate::table;

/// Admits an appender, or creates a file and admits its writer (the design's "Creating a file").
pub(crate) fn append(ctx: &mut Context<'_, '_>, command: &AppendFile) -> Ruled<Reply> {
    let path = &command.path;
    let row = bucket::get(ctx.txn, &path.volume, &path.bucket)??;
    let layout = bucket::layout(&row);
    if guard!(AdmitLayout, layout == Layout::ObjectStore) {
        return refuse(
            RefusalKind::AppendUnsupported,
            format!("{path}: a bucket of layout OBJECT_STORE does not support append"),
        );
    }
    let Ok(mode) = CreateMode::try_from(command.create) else {
        return refuse(
            RefusalKind::InvalidRequest,
            format!("{} is no way to create", command.create),
        );
    };
    let text = name::key(layout, &path.key)?.text;
    if guard!(AdmitFinalized, ctx.rules > 0 && ctx.layout < LAYOUT_APPEND) {
        return refuse(
            RefusalKind::NotFinalized,
            "the layout of append is not finalized; finalize the upgrade first",
        );
    }
    if guard!(AdmitEnabled, !ctx.limits.append_enabled) {
        return refuse(RefusalKind::AppendDisabled, "append is switched off");
    }
    match resolve::locate(ctx.txn, &row, &text)? {
        At::Root | At::Directory(_) => {
            refuse(RefusalKind::NotAFile, format!("{path} is a directory"))
        }
        At::BelowFile | At::Missing(_) if guard!(AdmitExisting, mode == CreateMode::No) => {
            refuse(RefusalKind::FileNotFound, format!("{path} is not there"))
        }
        At::BelowFile => refuse(
            RefusalKind::NotAFile,
            format!("a parent of {path} is a file"),
        ),
        At::Missing(missing) => {
            if !command.recursive && !missing.parent_stands() {
                return refuse(
                    RefusalKind::DirectoryNotFound,
                    format!("the parent of {path} is not there"),
                );
            }
            let owner = ctx.owner(&command.owner);
            let place = ctx.make_parents(&missing, &owner)?;
            if session::ordinary_at(ctx.txn, &place)?.is_some() {
                return ordinary(ctx, command, &row, place, None);
            }
            create(ctx, command, &row, place)
        }
        At::File(place, file) => match mode {
            CreateMode::MustBeNew if guard!(CreateExclusive) => {
                refuse(RefusalKind::FileExists, format!("{path} is there already"))
            }
            CreateMode::Overwrite => overwrite(ctx, command, &row, place, *file),
            CreateMode::No | CreateMode::IfMissing | CreateMode::MustBeNew => {
                admit(ctx, command, place, *file)
            }
        },
    }
}

/// Admits an appender to a committed file: no owner, no ordinary writer, room for another block.
fn admit(
    ctx: &mut Context<'_, '_>,
    command: &AppendFile,
    place: Place,
    mut file: FileRow,
) -> Ruled<Reply> {
    if let Some(refusal) = writer_in_the_way(ctx, command, &place, &file)? {
        return Err(refusal.into());
    }
    if quota::is_ec(&file.replication) {
        return refuse(
            RefusalKind::Unsupported,
            "appending to erasure-coded files is not supported yet",
        );
    }
    if guard!(
        AdmitRoom,
        file.block_count >= ctx.limits.max_blocks_per_file
    ) {
        return block::too_many(ctx);
    }
    let session = new_session(ctx, command, place, &file, false)?;
    file.append_owner = Some(session.id);
    table::put_file(ctx.txn, &session.place, &file);
    admitted(ctx, command, session, &file)
}

/// The writer that keeps an appender out, if there is one.
fn writer_in_the_way(
    ctx: &Context<'_, '_>,
    command: &AppendFile,
    place: &Place,
    file: &FileRow,
) -> Ruled<Option<Refusal>> {
    let mut found = session::owner(ctx.txn, place, file)?.filter(|_| guard!(AdmitNoOwner));
    if guard!(AdmitNoHsync, found.is_none()) {
        found = session::hsynced(ctx.txn, place, file)?;
    }
    if guard!(AdmitNoOrdinary, found.is_none()) {
        found = session::ordinary_at(ctx.txn, place)?;
    }
    let Some(found) = found else { return Ok(None) };
    let status = session::status(ctx.txn, found.id, &found.open, ctx.lease_ms, &ctx.limits)?;
    Ok(Some(session::conflict(status, &command.path.to_string())))
}

/// Creates over a committed file. A session that created it gives way; a session that was admitted by append does not; content that is
/// closed stays until the commit of an ordinary writer.
fn overwrite(
    ctx: &mut Context<'_, '_>,
    command: &AppendFile,
    row: &BucketRow,
    place: Place,
    file: FileRow,
) -> Ruled<Reply> {
    let Some(owner) = session::owner(ctx.txn, &place, &file)? else {
        return ordinary(ctx, command, row, place, Some(&file));
    };
    if guard!(OverwriteOwned, !session::created(&owner)) {
        let status = session::status(ctx.txn, owner.id, &owner.open, ctx.lease_ms, &ctx.limits)?;
        return Err(session::conflict(status, &command.path.to_string()).into());
    }
    if session::ordinary_at(ctx.txn, &place)?.is_some() {
        return ordinary(ctx, command, row, place, Some(&file));
    }
    file::replace(ctx, &place, &file, 0)?;
    ctx.charge(
        place.bucket,
        Charge {
            freed_bytes: file.replicated_size,
            freed_names: 1,
            ..Charge::default()
        },
    )?;
    create(ctx, command, row, place)
}

/// Publishes an empty file with a session that created it, in this one command.
fn create(
    ctx: &mut Context<'_, '_>,
    command: &AppendFile,
    row: &BucketRow,
    place: Place,
) -> Ruled<Reply> {
    let replication = bucket::replication(row, command.replication.as_ref())?;
    let mut file = new_file(ctx, command, replication)?;
    ctx.charge(
        place.bucket,
        Charge {
            names: 1,
            ..Charge::default()
        },
    )?;
    let session = new_session(ctx, command, place, &file, true)?;
    file.append_owner = Some(session.id);
    table::put_file(ctx.txn, &session.place, &file);
    table::put_file_place(ctx.txn, file.object_id, &session.place);
    admitted(ctx, command, session, &file)
}

fn new_file(
    ctx: &mut Context<'_, '_>,
    command: &AppendFile,
    replication: Replication,
) -> Ruled<FileRow> {
    Ok(FileRow {
        object_id: ctx.draw()?,
        generation: ctx.ids.base(),
        update_id: ctx.command,
        created_ms: ctx.wall_ms,
        modified_ms: ctx.wall_ms,
        replication,
        owner: ctx.owner(&command.owner),
        metadata: name::metadata(&command.metadata),
        acls: command.acls.clone(),
        ..FileRow::default()
    })
}

/// A new append session; only its lease row is written yet.
fn new_session(
    ctx: &mut Context<'_, '_>,
    command: &AppendFile,
    place: Place,
    file: &FileRow,
    created: bool,
) -> Ruled<Session> {
    let id = ctx.draw()?;
    let open = OpenRow {
        place: PlaceRow::from(&place),
        file: file.object_id,
        user: ctx.user.to_owned(),
        opened_ms: ctx.wall_ms,
        replication: file.replication.clone(),
        given: 0,
        invocation: ctx.invocation.cloned(),
        phase: Phase::Active as i32,
        append: Some(AppendPart {
            prefix_length: file.size,
            prefix_blocks: file.block_count,
            lease_owner: ctx.owner(&command.lease_owner),
            created,
        }),
        ordinary: None,
        ended: None,
        heard_ms: None,
    };
    ctx.put_lease(place.bucket, id)?;
    Ok(Session { id, open, place })
}

/// Gives the first blocks, writes the session and tells of it.
fn admitted(
    ctx: &mut Context<'_, '_>,
    command: &AppendFile,
    mut session: Session,
    file: &FileRow,
) -> Ruled<Reply> {
    let room = usize::try_from(
        ctx.limits
            .max_blocks_per_file
            .saturating_sub(file.block_count),
    );
    let holders = match room {
        Ok(room) if ctx.rules > 0 && room < command.holders.len() => &command.holders[..room],
        _ => &command.holders[..],
    };
    let blocks = block::give(ctx, &mut session, holders)?;
    ctx.put_session(&session);
    answer(Answer::Admitted(Admitted {
        handle: session.open.handle(session.id),
        prefix_length: file.size,
        prefix_blocks: file.block_count,
        published_length: file.size,
        blocks,
        created: session.open.append.is_some_and(|append| append.created),
        ordinary: false,
        soft_limit_ms: ctx.limits.soft_limit_ms,
    }))
}

/// Opens an ordinary writer in place of a session.
fn ordinary(
    ctx: &mut Context<'_, '_>,
    command: &AppendFile,
    row: &BucketRow,
    place: Place,
    existing: Option<&FileRow>,
) -> Ruled<Reply> {
    let replication = bucket::replication(row, command.replication.as_ref())?;
    ctx.check_names(place.bucket, u64::from(existing.is_none()))?;
    let wishes = OrdinaryPart {
        owner: ctx.owner(&command.owner),
        metadata: name::metadata(&command.metadata),
        acls: command.acls.clone(),
        tags: Vec::new(),
        target: existing.map(|file| file.object_id),
        expected_update: None,
        published: None,
    };
    let mut session = file::new_writer(ctx, place, replication, wishes)?;
    let blocks = block::give(ctx, &mut session, &command.holders)?;
    ctx.put_session(&session);
    answer(Answer::Admitted(Admitted {
        handle: session.open.handle(session.id),
        blocks,
        ordinary: true,
        soft_limit_ms: ctx.limits.soft_limit_ms,
        ..Admitted::default()
    }))
}

#[cfg(test)]
mod tests;
