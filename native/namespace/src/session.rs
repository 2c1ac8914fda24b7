//! Open sessions: who stands at a name, which session a call means, how a session is described, invalidated and ended.

use crate::bucket;
use crate::command::{Layout, Limits, Target};
use crate::context::{Context, Ruled, refuse};
use crate::ids::Id;
use crate::key::{self, Place};
use crate::name;
use crate::record::{
    AllocationRow, BlockName, BlockRow, DeletedFileRow, Ended, FileRow, OpenRow, RenewalRow,
};
use crate::reply::{AppendStatus, Phase, Refusal, RefusalKind, WriterKind};
use crate::resolve::{self, At};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::table;

/// Unused blocks in one deletion row.
const UNUSED_PER_ROW: usize = 1_000;

/// An open session that a call means.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// Its id.
    pub(crate) id: Id,
    /// Its row.
    pub(crate) open: OpenRow,
    /// Where its file stands or will stand.
    pub(crate) place: Place,
}

/// The phase of an open row.
pub(crate) fn phase(open: &OpenRow) -> Phase {
    Phase::try_from(open.phase).unwrap_or(Phase::Invalidated)
}

/// The session that a call may write to: it is open, ACTIVE, and its file can be reached from the root. A handle follows its file; a
/// call without one must name the path at which its session stands.
pub(crate) fn writer(ctx: &Context<'_, '_>, target: &Target) -> Ruled<Session> {
    named(ctx, target, Phase::Active)
}

/// As [`writer`], for its close. A session that is not there any more may have been closed by an earlier try whose answer is forgotten:
/// then nobody knows.
pub(crate) fn closer(ctx: &Context<'_, '_>, target: &Target) -> Ruled<Session> {
    if let Some(handle) = &target.handle
        && ctx.rules > 0
        && handle.session < ctx.ids.base()
        && table::open(ctx.txn, handle.bucket, handle.session)?.is_none()
    {
        return refuse(
            RefusalKind::Uncertain,
            format!(
                "session {} has ended, and how is not known any more: look at the file",
                handle.session
            ),
        );
    }
    writer(ctx, target)
}

/// The session whose recovery a helper completes: it is fenced, and its file can be reached from the root.
pub(crate) fn recovered(ctx: &Context<'_, '_>, target: &Target) -> Ruled<Session> {
    named(ctx, target, Phase::Recovering)
}

/// What the writer of a session that is over is told.
pub(crate) fn over(id: Id, open: &OpenRow) -> Refusal {
    match open.ended.map(|ended| ended.told()) {
        Some(RefusalKind::Fenced) => Refusal::new(
            RefusalKind::Fenced,
            format!("session {id} was recovered by another client"),
        ),
        _ => Refusal::new(
            RefusalKind::Invalidated,
            format!("the file of session {id} was deleted or replaced"),
        ),
    }
}

fn named(ctx: &Context<'_, '_>, target: &Target, wanted: Phase) -> Ruled<Session> {
    let Some(handle) = &target.handle else {
        return writer_at_path(ctx, target, wanted);
    };
    let Some(open) = table::open(ctx.txn, handle.bucket, handle.session)? else {
        return refuse(
            RefusalKind::SessionUnknown,
            format!("there is no session {}", handle.session),
        );
    };
    if guard!(WriteSameFile, open.file != handle.file) {
        return refuse(
            RefusalKind::IdentityMismatch,
            format!(
                "session {} writes file {}, not {}",
                handle.session, open.file, handle.file
            ),
        );
    }
    match phase(&open) {
        phase if phase == wanted => {}
        Phase::Recovering if guard!(WriteFenced) => {
            return refuse(
                RefusalKind::Fenced,
                format!("session {} was fenced by a recovery", handle.session),
            );
        }
        Phase::Invalidated if guard!(WriteInvalidated) => {
            return Err(over(handle.session, &open).into());
        }
        Phase::Active if guard!(RecoverFenced) => {
            return Err(not_recovering(handle.session).into());
        }
        Phase::Active | Phase::Recovering | Phase::Invalidated => {}
    }
    let place = Place::from(open.place.clone());
    if guard!(WriteReachable, !resolve::reachable(ctx.txn, &place)?) {
        return refuse(
            RefusalKind::Unreachable,
            format!(
                "a directory above the file of session {} was deleted",
                handle.session
            ),
        );
    }
    Ok(Session {
        id: handle.session,
        open,
        place,
    })
}

fn not_recovering(id: Id) -> Refusal {
    Refusal::new(
        RefusalKind::BadPublication,
        format!("session {id} is not being recovered"),
    )
}

fn writer_at_path(ctx: &Context<'_, '_>, target: &Target, wanted: Phase) -> Ruled<Session> {
    let Some(path) = &target.path else {
        return refuse(
            RefusalKind::InvalidRequest,
            "neither a handle nor a path says which writer calls",
        );
    };
    let row = bucket::get(ctx.txn, &path.volume, &path.bucket)??;
    let text = name::key(bucket::layout(&row), &path.key)?.text;
    let gone = || {
        refuse(
            RefusalKind::KeyNotFound,
            format!("no writer {} is open at {path}", target.session),
        )
    };
    let Some(open) = table::open(ctx.txn, row.object_id, target.session)? else {
        return gone();
    };
    if guard!(PathNotAppend, open.append.is_some()) {
        let status = status(ctx.txn, target.session, &open, ctx.lease_ms, &ctx.limits)?;
        return Err(conflict(status, &path.to_string()).into());
    }
    let at = match (bucket::layout(&row), resolve::locate(ctx.txn, &row, &text)?) {
        // Full keys need no parents.
        (Layout::Legacy | Layout::ObjectStore, _) => Some(Place {
            bucket: row.object_id,
            parent: 0,
            name: text,
        }),
        (_, At::File(place, _)) => Some(place),
        (_, At::Directory(directory)) => Some(directory.place),
        (_, At::Missing(missing)) => missing.place(),
        (_, At::Root | At::BelowFile) => None,
    };
    let place = Place::from(open.place.clone());
    if guard!(PathStands, at.as_ref() != Some(&place)) {
        return gone();
    }
    match phase(&open) {
        phase if phase == wanted => {}
        Phase::Recovering if guard!(PathFenced) => {
            return refuse(
                RefusalKind::Fenced,
                format!("writer {} was fenced by a recovery", target.session),
            );
        }
        Phase::Active if guard!(PathRecoverFenced) => {
            return Err(not_recovering(target.session).into());
        }
        Phase::Invalidated if guard!(PathInvalidated) => return gone(),
        Phase::Active | Phase::Recovering | Phase::Invalidated => {}
    }
    Ok(Session {
        id: target.session,
        open,
        place,
    })
}

/// A session as a waiter or an operator sees it, at lease time `lease_ms`.
pub(crate) fn status(
    rows: &dyn Rows,
    session: Id,
    open: &OpenRow,
    lease_ms: u64,
    limits: &Limits,
) -> Result<AppendStatus, RowsError> {
    let place = Place::from(open.place.clone());
    let file = table::file(rows, &place)?;
    let handle = Some(open.handle(session));
    let Some(append) = &open.append else {
        let published = open
            .ordinary
            .as_ref()
            .and_then(|ordinary| ordinary.published);
        let file =
            file.filter(|file| published.is_some_and(|published| published.file == file.object_id));
        return Ok(AppendStatus {
            writer: if published.is_some() {
                WriterKind::Hsync
            } else {
                WriterKind::Ordinary
            } as i32,
            handle,
            phase: (phase(open) != Phase::Active).then_some(open.phase),
            remaining_ms: expiry(open, limits).saturating_sub(lease_ms),
            published_length: file.as_ref().map_or(0, |file| file.size),
            suffix_blocks: file.as_ref().map_or(0, |file| file.block_count),
            owner: open.user.clone(),
            ..AppendStatus::default()
        });
    };
    let file = file.filter(|file| file.append_owner == Some(session));
    let renewal = table::renewal(rows, open.place.bucket, session)?.unwrap_or_default();
    Ok(AppendStatus {
        writer: WriterKind::Append as i32,
        handle,
        phase: Some(open.phase),
        last_renewed_ms: renewal.last_renewed_ms,
        remaining_ms: renewal
            .last_renewed_ms
            .saturating_add(limits.soft_limit_ms)
            .saturating_sub(lease_ms),
        prefix_length: append.prefix_length,
        published_length: file.as_ref().map_or(append.prefix_length, |file| file.size),
        suffix_blocks: file.as_ref().map_or(0, |file| {
            file.block_count.saturating_sub(append.prefix_blocks)
        }),
        owner: append.lease_owner.clone(),
        renewals: renewal.renewals,
        created: append.created,
    })
}

/// Lease time from which an ordinary writer may be recovered, when it has hsynced, or else is ended by the cleanup.
pub(crate) fn expiry(open: &OpenRow, limits: &Limits) -> u64 {
    let hsynced = open
        .ordinary
        .as_ref()
        .is_some_and(|ordinary| ordinary.published.is_some());
    open.heard_ms.map_or(0, |heard| {
        heard.saturating_add(if hsynced {
            limits.soft_limit_ms
        } else {
            limits.ordinary_expiry_ms()
        })
    })
}

/// The refusal that tells of a session in the way.
pub(crate) fn conflict(status: AppendStatus, what: &str) -> Refusal {
    let kind = match (status.writer(), status.phase()) {
        (WriterKind::Append, Phase::Recovering) => RefusalKind::Recovering,
        (WriterKind::Append | WriterKind::None, _) => RefusalKind::ConflictAppend,
        (WriterKind::Hsync, _) => RefusalKind::ConflictHsync,
        (WriterKind::Ordinary, _) => RefusalKind::ConflictOrdinary,
    };
    let session = status.handle.map_or(0, |handle| handle.session);
    let detail = match kind {
        RefusalKind::Recovering => format!(
            "{what}: the append session {session} of {} is being recovered",
            status.owner
        ),
        RefusalKind::ConflictAppend => format!(
            "{what} is being appended to by {} (session {session}, which may be recovered in {} ms)",
            status.owner, status.remaining_ms
        ),
        _ => format!(
            "{what} is being written by {} (session {session})",
            status.owner
        ),
    };
    Refusal {
        kind: kind as i32,
        detail,
        conflict: Some(Box::new(status)),
    }
}

/// Did the session create its file? Then overwriters may end it.
pub(crate) fn created(session: &Session) -> bool {
    session
        .open
        .append
        .as_ref()
        .is_some_and(|append| append.created)
}

/// The session that owns a file, if one does.
pub(crate) fn owner(
    rows: &dyn Rows,
    place: &Place,
    file: &FileRow,
) -> Result<Option<Session>, RowsError> {
    let Some(id) = file.append_owner else {
        return Ok(None);
    };
    match table::open(rows, place.bucket, id)? {
        Some(open) => Ok(Some(Session {
            id,
            open,
            place: place.clone(),
        })),
        None => Err(table::corrupt(
            Keyspace::Open,
            format!("session {id} owns a file and is not open"),
        )),
    }
}

/// The ordinary writer that has hsynced a file and is still open, if there is one.
pub(crate) fn hsynced(
    rows: &dyn Rows,
    place: &Place,
    file: &FileRow,
) -> Result<Option<Session>, RowsError> {
    let Some(id) = file.hsync_session else {
        return Ok(None);
    };
    Ok(table::open(rows, place.bucket, id)?.map(|open| Session {
        id,
        open,
        place: place.clone(),
    }))
}

/// An ordinary writer that is open at a name, if there is one.
pub(crate) fn ordinary_at(rows: &dyn Rows, place: &Place) -> Result<Option<Session>, RowsError> {
    let prefix = key::open_name(place);
    let Some((row, _)) = table::below(rows, Keyspace::OpenByName, &prefix, &prefix, 1)?.pop()
    else {
        return Ok(None);
    };
    let id = key::number_at(&row, prefix.len())
        .ok_or_else(|| table::corrupt(Keyspace::OpenByName, "a key without a session"))?;
    let open = table::open(rows, place.bucket, id)?
        .ok_or_else(|| table::corrupt(Keyspace::OpenByName, format!("session {id} is not open")))?;
    Ok(Some(Session {
        id,
        open,
        place: place.clone(),
    }))
}

impl Context<'_, '_> {
    /// Writes a session's row and, for an ordinary writer, the index by name. An append session is found by its file, which names
    /// it; rows that came and went with each short append would only be in the way of the next look at the name.
    pub(crate) fn put_session(&mut self, session: &Session) {
        table::put_open(self.txn, session.id, &session.open);
        if session.open.append.is_none() {
            self.txn.put(
                Keyspace::OpenByName,
                key::open_by_name(&session.place, session.id),
                Vec::new(),
            );
        }
    }

    /// Takes an ordinary writer out of the index of names and of the count.
    fn forget_writer(&mut self, id: Id, open: &OpenRow, place: &Place) -> Ruled<()> {
        if open.append.is_none() && phase(open) != Phase::Invalidated {
            let writers = table::writers(self.txn)?.saturating_sub(1);
            table::put_writers(self.txn, writers);
        }
        self.remove_name(id, open, place);
        Ok(())
    }

    fn remove_name(&mut self, id: Id, open: &OpenRow, place: &Place) {
        if open.append.is_none() {
            self.txn
                .remove(Keyspace::OpenByName, key::open_by_name(place, id));
        }
    }

    /// Starts the lease of a new append session.
    pub(crate) fn put_lease(&mut self, bucket: Id, id: Id) -> Ruled<()> {
        let lease = RenewalRow {
            last_renewed_ms: self.lease_ms,
            renewals: 0,
        };
        table::write(self.txn, Keyspace::Renewals, key::two(bucket, id), &lease);
        let leases = table::leases(self.txn)?.saturating_add(1);
        table::put_leases(self.txn, leases);
        Ok(())
    }

    fn remove_lease(&mut self, bucket: Id, id: Id) -> Ruled<()> {
        if table::renewal(self.txn, bucket, id)?.is_none() {
            return Ok(());
        }
        self.txn.remove(Keyspace::Renewals, key::two(bucket, id));
        let leases = table::leases(self.txn)?.checked_sub(1).ok_or_else(|| {
            table::corrupt(Keyspace::Meta, "there are more leases than were counted")
        })?;
        table::put_leases(self.txn, leases);
        Ok(())
    }

    /// Moves a session with its file.
    pub(crate) fn move_session(&mut self, id: Id, from: &Place, to: &Place) -> Ruled<()> {
        let Some(mut open) = table::open(self.txn, from.bucket, id)? else {
            return Ok(());
        };
        if Place::from(open.place.clone()) != *from {
            return Ok(());
        }
        self.remove_name(id, &open, from);
        open.place = to.into();
        self.put_session(&Session {
            id,
            open,
            place: to.clone(),
        });
        Ok(())
    }

    /// Ends a session's right to write, because its file was deleted or replaced. Its row and allocations stay for the cleanup.
    pub(crate) fn invalidate(&mut self, bucket: Id, id: Id) -> Ruled<()> {
        let Some(open) = table::open(self.txn, bucket, id)? else {
            return Ok(());
        };
        let place = open.place.clone().into();
        self.end_later(&Session { id, open, place }, RefusalKind::Invalidated)
    }

    /// Ends a session's right to write and remembers what to tell its writer. Its allocations stay for the cleanup.
    pub(crate) fn end_later(&mut self, session: &Session, told: RefusalKind) -> Ruled<()> {
        self.forget_writer(session.id, &session.open, &session.place)?;
        self.remove_lease(session.place.bucket, session.id)?;
        let open = OpenRow {
            phase: Phase::Invalidated as i32,
            ended: Some(Ended {
                told: told as i32,
                lease_ms: self.lease_ms,
                released: false,
            }),
            ..session.open.clone()
        };
        table::put_open(self.txn, session.id, &open);
        Ok(())
    }

    /// Ends a session whose recovery is complete; what was not recovered goes to reclamation.
    pub(crate) fn end_recovered(&mut self, session: Session) -> Ruled<()> {
        self.end_later(&session, RefusalKind::Fenced)?;
        self.release(&session, usize::MAX)?;
        if let Some(mut open) = table::open(self.txn, session.place.bucket, session.id)? {
            open.ended = open.ended.map(|ended| Ended {
                released: true,
                ..ended
            });
            table::put_open(self.txn, session.id, &open);
        }
        Ok(())
    }

    /// Removes a session; the blocks that it was given and never published go to reclamation (I9).
    pub(crate) fn end_session(&mut self, session: &Session) -> Ruled<()> {
        let bucket = session.place.bucket;
        self.txn
            .remove(Keyspace::Open, key::two(bucket, session.id));
        self.forget_writer(session.id, &session.open, &session.place)?;
        self.remove_lease(bucket, session.id)?;
        self.release(session, usize::MAX)?;
        Ok(())
    }

    /// Takes at most `max` allocations from a session; those that it never published go to reclamation. Answers how many it took, and
    /// how many of them went.
    pub(crate) fn release(&mut self, session: &Session, max: usize) -> Ruled<(usize, usize)> {
        let bucket = session.place.bucket;
        let prefix = key::two(bucket, session.id);
        let mut unused = Vec::new();
        let mut taken = 0;
        for (row, value) in table::below(self.txn, Keyspace::Allocations, &prefix, &prefix, max)? {
            taken += 1;
            let local = key::number_at(&row, prefix.len())
                .ok_or_else(|| table::corrupt(Keyspace::Allocations, "a key without a block"))?;
            let AllocationRow { container } = table::decode(Keyspace::Allocations, &value)?;
            self.txn.remove(Keyspace::Allocations, row);
            let block: BlockRow =
                table::read(self.txn, Keyspace::Blocks, &key::two(container, local))?.ok_or_else(
                    || {
                        table::corrupt(
                            Keyspace::Blocks,
                            format!("block {container}/{local} is gone"),
                        )
                    },
                )?;
            if block.listed.is_none() {
                unused.push(BlockName { container, local });
            }
        }
        for unused in unused.chunks(UNUSED_PER_ROW) {
            self.put_deleted(DeletedFileRow {
                bucket,
                parent: session.place.parent,
                name: session.place.name.clone(),
                unused: unused.to_vec(),
                session: session.id,
                deleted_ms: self.wall_ms,
                ..DeletedFileRow::default()
            });
        }
        Ok((taken, unused.len()))
    }

    /// Hands the content of a file that is no longer shown to reclamation.
    pub(crate) fn discard(&mut self, place: &Place, file: &FileRow) {
        self.discard_since(place, file, None);
    }

    /// As [`Context::discard`], of a file that an earlier command made unreachable.
    pub(crate) fn discard_since(&mut self, place: &Place, file: &FileRow, removed: Option<u64>) {
        if file.block_count == 0 {
            return;
        }
        self.put_deleted(DeletedFileRow {
            bucket: place.bucket,
            file: file.object_id,
            generation: file.generation,
            block_count: file.block_count,
            size: file.size,
            replicated_size: file.replicated_size,
            parent: place.parent,
            name: place.name.clone(),
            deleted_ms: self.wall_ms,
            removed,
            ..DeletedFileRow::default()
        });
    }

    fn put_deleted(&mut self, row: DeletedFileRow) {
        let ordinal = self.deletions;
        self.deletions += 1;
        table::write(
            self.txn,
            Keyspace::DeletedFiles,
            key::deletion(self.command, ordinal),
            &row,
        );
    }
}
