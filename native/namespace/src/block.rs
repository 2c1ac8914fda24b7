//! Giving blocks to sessions, and the lists that publish them.
//!
//! A block's container is its holder's number: the embedded block store needs no container of Ozone's, and the local id alone is unique.
//! A block stands in at most one list, once.

use crate::bucket;
use crate::command::{AllocateBlock, Layout, MAX_RECOVERED, SubmittedBlock};
use crate::context::{Context, Ruled, answer, refuse};
use crate::ids::Id;
use crate::key;
use crate::quota;
use crate::record::{AllocationRow, BlockRow, ListRow, Listed};
use crate::reply::{Answer, GivenBlock, RefusalKind, Reply};
use crate::resolve::{self, At};
use crate::rows::Keyspace;
use crate::session::{self, Session};
use crate::table;

/// Adds a block to an open writer.
pub(crate) fn allocate(ctx: &mut Context<'_, '_>, command: &AllocateBlock) -> Ruled<Reply> {
    let mut session = session::writer(ctx, &command.target)?;
    let published = match (&session.open.append, table::file(ctx.txn, &session.place)?) {
        (Some(_), Some(file)) => file.block_count,
        _ => 0,
    };
    let would_have = match &session.open.append {
        // What is given may all be published behind the prefix.
        Some(append) if ctx.rules > 0 => append.prefix_blocks.saturating_add(session.open.given),
        _ => published.max(session.open.given),
    };
    if guard!(AllocateRoom, would_have >= ctx.limits.max_blocks_per_file) {
        return too_many(ctx);
    }
    if let Some(append) = &session.open.append {
        let listed = published.saturating_sub(append.prefix_blocks);
        let unsynced = session.open.given.saturating_sub(listed);
        // The last published block is told too.
        if ctx.rules > 1 && unsynced + 1 >= MAX_RECOVERED {
            return refuse(
                RefusalKind::TooManyBlocks,
                format!("{unsynced} blocks are not synced; sync before more are written"),
            );
        }
    } else {
        session.open.heard_ms = Some(ctx.lease_ms);
    }
    let blocks = give(ctx, &mut session, &[command.holder])?;
    table::put_open(ctx.txn, session.id, &session.open);
    match blocks.first() {
        Some(block) => answer(Answer::Allocated(*block)),
        None => refuse(RefusalKind::InvalidRequest, "no block was asked for"),
    }
}

/// The refusal of a file that would have too many blocks.
pub(crate) fn too_many<T>(ctx: &Context<'_, '_>) -> Ruled<T> {
    refuse(
        RefusalKind::TooManyBlocks,
        format!(
            "a file may have {} blocks; copy it into a new one",
            ctx.limits.max_blocks_per_file
        ),
    )
}

/// Gives one block per holder to a session; its row is changed and not yet written.
pub(crate) fn give(
    ctx: &mut Context<'_, '_>,
    session: &mut Session,
    holders: &[u32],
) -> Ruled<Vec<GivenBlock>> {
    let room = ctx
        .limits
        .block_size
        .saturating_mul(u64::try_from(holders.len()).unwrap_or(u64::MAX));
    ctx.check_room(
        session.place.bucket,
        quota::replicated(&session.open.replication, room),
    )?;
    let mut given = Vec::with_capacity(holders.len());
    for number in holders {
        if table::holder(ctx.txn, *number)?.is_none() {
            return refuse(
                RefusalKind::RetryLater,
                format!("block holder {number} is not registered"),
            );
        }
        let block = GivenBlock {
            container: u64::from(*number),
            local: ctx.draw()?,
            holder: *number,
            capacity: ctx.limits.block_size,
        };
        let row = BlockRow {
            holder: *number,
            session: session.id,
            capacity: block.capacity,
            bcsid: 0,
            listed: None,
        };
        table::write(
            ctx.txn,
            Keyspace::Blocks,
            key::two(block.container, block.local),
            &row,
        );
        let allocation = AllocationRow {
            container: block.container,
        };
        let at = key::three(session.place.bucket, session.id, block.local);
        table::write(ctx.txn, Keyspace::Allocations, at, &allocation);
        session.open.given += 1;
        given.push(block);
    }
    Ok(given)
}

/// The block row of a submitted block, if it was given to the session.
pub(crate) fn given_to(
    ctx: &Context<'_, '_>,
    session: Id,
    block: &SubmittedBlock,
) -> Ruled<Option<BlockRow>> {
    let row: Option<BlockRow> = table::read(
        ctx.txn,
        Keyspace::Blocks,
        &key::two(block.container, block.local),
    )?;
    Ok(row.filter(|row| holds!(PublishGiven, row.session == session)))
}

/// A content list that a publication continues or begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListEnd {
    /// The file.
    pub(crate) file: Id,
    /// The content generation.
    pub(crate) generation: u64,
    /// Blocks published so far.
    pub(crate) count: u64,
    /// Bytes published so far.
    pub(crate) size: u64,
}

/// A list after a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extended {
    /// Blocks.
    pub(crate) count: u64,
    /// Bytes.
    pub(crate) size: u64,
}

/// Publishes `blocks` from sequence `first` on, which starts at byte `start` of the file. Entries that are published already must be
/// equal by id and start, and only the last of them may have grown; nothing published may fall away. Every block was given to the session
/// and has bytes.
pub(crate) fn publish(
    ctx: &mut Context<'_, '_>,
    session: Id,
    list: ListEnd,
    first: u64,
    start: u64,
    blocks: &[SubmittedBlock],
) -> Ruled<Extended> {
    let mut at = start;
    let mut sequence = first;
    for block in blocks {
        let name = || format!("block {}/{}", block.container, block.local);
        let Some(mut row) = given_to(ctx, session, block)? else {
            return bad(format!("{} was not given to session {session}", name()));
        };
        let held = block.start_in_block.checked_add(block.length);
        if guard!(
            PublishCapacity,
            ctx.rules > 0 && held.is_none_or(|held| held > row.capacity)
        ) {
            return bad(format!(
                "{} bytes do not fit {}, which may hold {}",
                block.length,
                name(),
                row.capacity
            ));
        }
        let listed = ListRow {
            container: block.container,
            local: block.local,
            start: at,
            start_in_block: block.start_in_block,
        };
        let list_key = key::three(list.file, list.generation, sequence);
        let mut changed = block.bcsid > row.bcsid;
        row.bcsid = row.bcsid.max(block.bcsid);
        if sequence < list.count {
            if guard!(
                PublishSameBlocks,
                table::read::<ListRow>(ctx.txn, Keyspace::Lists, &list_key)? != Some(listed)
            ) {
                return bad(format!(
                    "{} differs from what is published as number {sequence}",
                    name()
                ));
            }
        } else {
            if guard!(PublishOnce, row.listed.is_some()) {
                return bad(format!("{} is published already", name()));
            }
            row.listed = Some(Listed {
                file: list.file,
                generation: list.generation,
                sequence,
                added: ctx.command,
            });
            changed = true;
            table::write(ctx.txn, Keyspace::Lists, list_key, &listed);
        }
        if changed {
            table::write(
                ctx.txn,
                Keyspace::Blocks,
                key::two(block.container, block.local),
                &row,
            );
        }
        let Some(end) = at
            .checked_add(block.length)
            .filter(|_| block.start_in_block.checked_add(block.length).is_some())
        else {
            return bad(format!("{} is too long", name()));
        };
        at = end;
        sequence += 1;
        if guard!(PublishBlockGrows, sequence == list.count && at < list.size) {
            return bad(format!("{} is shorter than published", name()));
        }
    }
    if guard!(PublishNoLoss, sequence < list.count || at < list.size) {
        return bad(format!(
            "{at} bytes in {sequence} blocks would be less than the {} published",
            list.size
        ));
    }
    if guard!(PublishRoom, sequence > ctx.limits.max_blocks_per_file) {
        return too_many(ctx);
    }
    Ok(Extended {
        count: sequence,
        size: at,
    })
}

/// Refuses a publication that does not fit its session.
pub(crate) fn bad<T>(detail: impl Into<String>) -> Ruled<T> {
    refuse(RefusalKind::BadPublication, detail)
}

/// Can no file stand at this place, because a directory does, or a file does above it?
pub(crate) fn blocked(ctx: &Context<'_, '_>, session: &Session) -> Ruled<bool> {
    let Some(row) = table::bucket_by_id(ctx.txn, session.place.bucket)? else {
        return Ok(false);
    };
    Ok(match bucket::layout(&row) {
        Layout::FileSystemOptimized => table::dir(ctx.txn, &session.place)?.is_some(),
        Layout::Legacy => {
            matches!(
                resolve::locate(ctx.txn, &row, &session.place.name)?,
                At::Directory(_) | At::BelowFile
            )
        }
        Layout::ObjectStore => false,
    })
}
