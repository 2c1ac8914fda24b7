//! Ordinary (Ozone's) writers: opening one and its commit.
//!
//! An ordinary writer holds nothing exclusively: the last commit wins, except over a file that an appender owns.

use crate::block;
use crate::bounds;
use crate::bucket;
use crate::command::{OpenKey, Publish, PublishKind, Replication, SubmittedBlock};
use crate::context::{Context, Ruled, answer, done, refuse};
use crate::ids::Id;
use crate::key::Place;
use crate::name;
use crate::quota::{self, Charge};
use crate::record::{FileRow, OpenRow, OrdinaryPart, PlaceRow, Published};
use crate::reply::{Answer, Opened, Phase, RefusalKind, Reply};
use crate::resolve::{self, At};
use crate::session::{self, Session};
use crate::table;

/// Opens an ordinary writer; the committed file, if there is one, stays as it is until the commit.
pub(crate) fn open(ctx: &mut Context<'_, '_>, command: &OpenKey) -> Ruled<Reply> {
    let path = &command.path;
    let row = bucket::get(ctx.txn, &path.volume, &path.bucket)??;
    let layout = bucket::layout(&row);
    let key = name::key(layout, &path.key)?;
    if key.text.is_empty() {
        return refuse(
            RefusalKind::InvalidKeyName,
            format!("{path}: a key needs a name"),
        );
    }
    if key.slash && !command.as_file {
        return refuse(
            RefusalKind::InvalidKeyName,
            format!("{path}: a key must not end in a slash"),
        );
    }
    let replication = bucket::replication(&row, command.replication.as_ref())?;
    let owner = ctx.owner(&command.owner);
    let (place, existing) = match resolve::locate(ctx.txn, &row, &key.text)? {
        At::Root | At::Directory(_) => {
            return refuse(RefusalKind::NotAFile, format!("{path} is a directory"));
        }
        At::BelowFile => {
            return refuse(
                RefusalKind::NotAFile,
                format!("a parent of {path} is a file"),
            );
        }
        At::File(place, file) => {
            if command.as_file && !command.overwrite {
                return refuse(RefusalKind::FileExists, format!("{path} is there already"));
            }
            if let Some(owner) = session::owner(ctx.txn, &place, &file)?
                && guard!(OpenOwned, !session::created(&owner))
            {
                let status =
                    session::status(ctx.txn, owner.id, &owner.open, ctx.lease_ms, &ctx.limits)?;
                return Err(session::conflict(status, &path.to_string()).into());
            }
            (place, Some(file))
        }
        At::Missing(missing) => {
            if command.as_file && !command.recursive && !missing.parent_stands() {
                return refuse(
                    RefusalKind::DirectoryNotFound,
                    format!("the parent of {path} is not there"),
                );
            }
            ctx.check_names(row.object_id, missing.missing_parents().saturating_add(1))?;
            (ctx.make_parents(&missing, &owner)?, None)
        }
    };
    match (command.expected_update, &existing) {
        (Some(0), Some(_)) => {
            return refuse(RefusalKind::KeyExists, format!("{path} is there already"));
        }
        (Some(0), None) | (None, _) => {}
        (Some(expected), Some(file)) if file.update_id == expected => {}
        (Some(expected), _) => {
            return refuse(
                RefusalKind::KeyNotFound,
                format!("{path} has no generation {expected}"),
            );
        }
    }
    let wishes = OrdinaryPart {
        owner,
        metadata: name::metadata(&command.metadata),
        acls: command.acls.clone(),
        tags: command.tags.clone(),
        target: existing.as_ref().map(|file| file.object_id),
        expected_update: command.expected_update,
        published: None,
    };
    let mut session = new_writer(ctx, place, replication, wishes)?;
    let blocks = block::give(ctx, &mut session, &command.holders)?;
    ctx.put_session(&session);
    answer(Answer::Opened(Opened {
        session: session.id,
        bucket: row.object_id,
        blocks,
    }))
}

/// A new ordinary writer; its row is not written yet.
pub(crate) fn new_writer(
    ctx: &mut Context<'_, '_>,
    place: Place,
    replication: Replication,
    wishes: OrdinaryPart,
) -> Ruled<Session> {
    let open = OpenRow {
        place: PlaceRow::from(&place),
        file: ctx.draw()?,
        user: ctx.user.to_owned(),
        opened_ms: ctx.wall_ms,
        replication,
        given: 0,
        invocation: ctx.invocation.cloned(),
        phase: Phase::Active as i32,
        append: None,
        ordinary: Some(wishes),
        ended: None,
        heard_ms: Some(ctx.lease_ms),
    };
    let writers = table::writers(ctx.txn)?.saturating_add(1);
    table::put_writers(ctx.txn, writers);
    Ok(Session {
        id: ctx.draw()?,
        open,
        place,
    })
}

/// Publishes an ordinary writer's blocks: an hsync, or the commit that ends it.
pub(crate) fn commit(
    ctx: &mut Context<'_, '_>,
    mut session: Session,
    wishes: OrdinaryPart,
    command: &Publish,
    kind: PublishKind,
) -> Ruled<Reply> {
    let shown = session.place.name.clone();
    if guard!(CommitNotBlocked, block::blocked(ctx, &session)?) {
        return refuse(
            RefusalKind::NotAFile,
            format!("{shown} is a directory by now, or stands below a file"),
        );
    }
    let current = table::file(ctx.txn, &session.place)?;
    let owner = match &current {
        Some(file) => session::owner(ctx.txn, &session.place, file)?,
        None => None,
    };
    if let Some(owner) = &owner
        && guard!(CommitOwned, !session::created(owner))
    {
        let status = session::status(ctx.txn, owner.id, &owner.open, ctx.lease_ms, &ctx.limits)?;
        return Err(session::conflict(status, &shown).into());
    }
    if let Some(published) = wishes.published
        && guard!(
            CommitSamePublished,
            !current.as_ref().is_some_and(|file| holds(file, published))
        )
    {
        return refuse(
            RefusalKind::KeyNotFound,
            format!(
                "what writer {} published as {shown} was deleted or replaced",
                session.id
            ),
        );
    }
    if wishes.published.is_none()
        && let Some(expected) = wishes.expected_update
        && expected != current.as_ref().map_or(0, |file| file.update_id)
    {
        return refuse(
            RefusalKind::WriteConflict,
            format!("{shown} has changed since it was opened"),
        );
    }
    let submitted = command
        .blocks
        .iter()
        .try_fold(0u64, |sum, block| sum.checked_add(block.length));
    if submitted != Some(command.size) {
        return block::bad(format!(
            "{} bytes are not what the blocks of {shown} hold",
            command.size
        ));
    }
    let kept = known_blocks(ctx, session.id, &command.blocks)?;

    let continues = wishes.published.is_some();
    // An overwrite keeps the identity that it saw when it opened, unless an appender's creation is ended by it.
    let keeps = |file: &FileRow| {
        continues
            || (holds!(CommitSameTarget, wishes.target == Some(file.object_id)) && owner.is_none())
    };
    let mut file = match &current {
        Some(file) if continues => file.clone(),
        Some(file) if keeps(file) => FileRow {
            metadata: wishes.metadata.clone(),
            tags: wishes.tags.clone(),
            replication: session.open.replication.clone(),
            generation: ctx.ids.base(),
            size: 0,
            block_count: 0,
            ..file.clone()
        },
        _ => FileRow {
            object_id: session.open.file,
            generation: ctx.ids.base(),
            created_ms: ctx.wall_ms,
            replication: session.open.replication.clone(),
            owner: wishes.owner.clone(),
            metadata: wishes.metadata.clone(),
            acls: wishes.acls.clone(),
            tags: wishes.tags.clone(),
            ..FileRow::default()
        },
    };
    let list = block::ListEnd {
        file: file.object_id,
        generation: file.generation,
        count: file.block_count,
        size: file.size,
    };
    let published = block::publish(ctx, session.id, list, 0, 0, &kept)?;
    file.size = published.size;
    file.block_count = published.count;
    file.replicated_size = quota::replicated(&file.replication, file.size);
    file.update_id = ctx.command;
    file.modified_ms = ctx.wall_ms;
    file.append_owner = None;
    file.hsync_session = (kind == PublishKind::Hsync).then_some(session.id);
    name::merge_metadata(&mut file.metadata, &command.metadata);
    bounds::check_metadata(&file.metadata)?;

    if let Some(current) = current.as_ref().filter(|_| !continues) {
        replace(ctx, &session.place, current, session.id)?;
    }
    ctx.charge(
        session.place.bucket,
        Charge {
            bytes: file.replicated_size,
            freed_bytes: current.as_ref().map_or(0, |file| file.replicated_size),
            names: u64::from(current.is_none()),
            freed_names: 0,
        },
    )?;
    table::put_file(ctx.txn, &session.place, &file);
    table::put_file_place(ctx.txn, file.object_id, &session.place);
    if kind == PublishKind::Close {
        ctx.end_session(&session)?;
    } else if kind == PublishKind::Recovery {
        ctx.end_recovered(session)?;
    } else {
        let published = Published {
            file: file.object_id,
            generation: file.generation,
        };
        session.open.heard_ms = Some(ctx.lease_ms);
        session.open.ordinary = Some(OrdinaryPart {
            published: Some(published),
            ..wishes
        });
        ctx.put_session(&session);
    }
    done()
}

fn holds(file: &FileRow, published: Published) -> bool {
    file.object_id == published.file && file.generation == published.generation
}

/// The submitted blocks that count: given to this writer and not empty. Ozone drops others without a word.
fn known_blocks(
    ctx: &Context<'_, '_>,
    session: Id,
    blocks: &[SubmittedBlock],
) -> Ruled<Vec<SubmittedBlock>> {
    let mut kept = Vec::with_capacity(blocks.len());
    for block in blocks.iter().filter(|block| block.length > 0) {
        if block::given_to(ctx, session, block)?.is_some() {
            kept.push(*block);
        }
    }
    Ok(kept)
}

/// Takes the content of a file out of sight because `by` puts another in its place: the content goes to reclamation and the sessions
/// that wrote it may write no more. Usage is the caller's to charge.
pub(crate) fn replace(
    ctx: &mut Context<'_, '_>,
    place: &Place,
    file: &FileRow,
    by: Id,
) -> Ruled<()> {
    ctx.discard(place, file);
    ctx.txn.remove(
        crate::rows::Keyspace::FilePlaces,
        crate::key::one(file.object_id),
    );
    for writer in [file.append_owner, file.hsync_session]
        .into_iter()
        .flatten()
        .filter(|writer| guard!(ReplaceEndsSessions, *writer != by))
    {
        ctx.invalidate(place.bucket, writer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
