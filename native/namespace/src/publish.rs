//! Publication: which writer publishes, and the publication of an append session's suffix.

use crate::block::{self, ListEnd};
use crate::bounds;
use crate::command::{Publish, PublishKind, SubmittedBlock};
use crate::context::{Context, Ruled, done, refuse};
use crate::file;
use crate::key;
use crate::name;
use crate::quota::{self, Charge};
use crate::record::{AppendPart, FileRow, ListRow, OpenRow};
use crate::reply::{RefusalKind, Reply};
use crate::rows::Keyspace;
use crate::session::{self, Session};
use crate::table;

/// Publishes what a writer has made durable; a close ends the writer.
pub(crate) fn publish(ctx: &mut Context<'_, '_>, command: &Publish) -> Ruled<Reply> {
    let Ok(kind) = PublishKind::try_from(command.kind) else {
        return refuse(
            RefusalKind::InvalidRequest,
            format!("{} is no publication", command.kind),
        );
    };
    let session = match kind {
        PublishKind::Hsync => session::writer(ctx, &command.target)?,
        PublishKind::Close => session::closer(ctx, &command.target)?,
        PublishKind::Recovery => session::recovered(ctx, &command.target)?,
    };
    match &session.open {
        OpenRow {
            append: Some(append),
            ..
        } => {
            let append = append.clone();
            suffix(ctx, &session, &append, command, kind)
        }
        OpenRow {
            ordinary: Some(wishes),
            ..
        } => {
            let wishes = wishes.clone();
            file::commit(ctx, session, wishes, command, kind)
        }
        _ => Err(table::corrupt(
            Keyspace::Open,
            format!("session {} is of no kind", session.id),
        )
        .into()),
    }
}

/// Publishes the suffix of an append session. The prefix never changes (I2); what was published stays (I3).
fn suffix(
    ctx: &mut Context<'_, '_>,
    session: &Session,
    append: &AppendPart,
    command: &Publish,
    kind: PublishKind,
) -> Ruled<Reply> {
    let before = table::file(ctx.txn, &session.place)?
        .filter(|file| file.append_owner == Some(session.id) && file.object_id == session.open.file)
        .ok_or_else(|| {
            table::corrupt(
                Keyspace::Files,
                format!("session {} does not own its file", session.id),
            )
        })?;
    let mut file = before.clone();
    let blocks: Vec<SubmittedBlock> = command
        .blocks
        .iter()
        .filter(|block| block.length > 0)
        .copied()
        .collect();
    if guard!(
        RecoverOrder,
        kind == PublishKind::Recovery && !blocks.is_sorted_by(|a, b| a.local < b.local)
    ) {
        // A writer fills its blocks in the order in which it was given them; in another they would hold each other's bytes.
        return block::bad("recovered blocks must come in the order in which they were given");
    }
    if let Some(first) = blocks.first() {
        let (sequence, start) = tail_begin(ctx, session, append, &file, first)?;
        let list = ListEnd {
            file: file.object_id,
            generation: file.generation,
            count: file.block_count,
            size: file.size,
        };
        let published = block::publish(ctx, session.id, list, sequence, start, &blocks)?;
        file.size = published.size;
        file.block_count = published.count;
    }
    if guard!(PublishSize, file.size != command.size) {
        return block::bad(format!(
            "the file has {} bytes with what is published, not {}",
            file.size, command.size
        ));
    }
    if file.size > before.size {
        file.replicated_size = quota::replicated(&file.replication, file.size);
        let charge = Charge {
            bytes: file.replicated_size,
            freed_bytes: before.replicated_size,
            ..Charge::default()
        };
        ctx.charge(session.place.bucket, charge)?;
        name::drop_content_metadata(&mut file.metadata);
    }
    let written = file.size > append.prefix_length;
    if file.size > before.size || (kind == PublishKind::Close && written) {
        file.modified_ms = ctx.wall_ms;
        file.update_id = ctx.command;
    }
    name::merge_metadata(&mut file.metadata, &command.metadata);
    bounds::check_metadata(&file.metadata)?;
    match kind {
        PublishKind::Hsync if written => file.hsync_session = Some(session.id),
        PublishKind::Hsync => {}
        PublishKind::Close | PublishKind::Recovery => {
            file.append_owner = None;
            file.hsync_session = None;
            if kind == PublishKind::Close {
                ctx.end_session(session)?;
            } else {
                ctx.end_recovered(session.clone())?;
            }
        }
    }
    if file != before {
        table::put_file(ctx.txn, &session.place, &file);
    }
    done()
}

/// Where a submitted tail begins: at a published block of the suffix, or at the end of the prefix when no suffix is published.
fn tail_begin(
    ctx: &Context<'_, '_>,
    session: &Session,
    append: &AppendPart,
    file: &FileRow,
    first: &SubmittedBlock,
) -> Ruled<(u64, u64)> {
    let Some(row) = block::given_to(ctx, session.id, first)? else {
        return block::bad(format!(
            "block {}/{} was not given to session {}",
            first.container, first.local, session.id
        ));
    };
    let Some(listed) = row.listed else {
        if guard!(PublishTail, file.block_count > append.prefix_blocks) {
            return block::bad("the blocks must start at or before the last published one");
        }
        return Ok((file.block_count, file.size));
    };
    let at = key::three(file.object_id, file.generation, listed.sequence);
    let row: ListRow = table::read(ctx.txn, Keyspace::Lists, &at)?.ok_or_else(|| {
        table::corrupt(
            Keyspace::Lists,
            format!("block {} is not listed", first.local),
        )
    })?;
    Ok((listed.sequence, row.start))
}

#[cfg(test)]
mod tests;
