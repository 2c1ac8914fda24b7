//! Bad input in every state: forged handles, suffixes of other sessions' blocks, lengths that shrink, orders that are wrong, calls that reuse
//! an identity. Each must be refused, and a refusal changes nothing (I5).

use super::facts::SeenFile;
use super::oracle::Violation;
use super::state::{Piece, State, submitted};
use crate::command::{
    AllocateBlock, Cleanup, Command, CreateMode, Delete, Handle, Invocation, Publish, PublishKind,
    RenewLeases, Request, StartRecovery, Target,
};
use crate::reply::{Answer, Phase};
use crate::table;
use crate::testing::{append, mkdir, path};

struct Probe {
    what: &'static str,
    command: Command,
}

fn by_handle(handle: Handle) -> Target {
    Target {
        handle: Some(handle),
        path: None,
        session: 0,
    }
}

fn publish(handle: Handle, kind: PublishKind, size: usize, pieces: &[(u64, usize)]) -> Command {
    let blocks = pieces.iter().map(|(local, length)| {
        submitted(&Piece {
            local: *local,
            start: 0,
            length: *length,
        })
    });
    Command::Publish(Publish {
        target: by_handle(handle),
        kind: kind as i32,
        size: u64::try_from(size).unwrap_or(u64::MAX),
        blocks: blocks.collect(),
        metadata: Vec::new(),
    })
}

impl State {
    /// Tries everything that must be refused here.
    pub(crate) fn probe(&self) -> Result<(), Violation> {
        for Probe { what, command } in self.probes() {
            let mut copy = self.clone();
            let request = copy.call(copy.clients.len() - 1, command);
            let delivered = copy.deliver(Some(&request))?;
            let refused = match &delivered.outcome {
                Err(_) => true,
                Ok(reply) => match &reply.answer {
                    Some(Answer::Renewed(renewed)) => renewed
                        .results
                        .iter()
                        .all(|renewal| renewal.refused.is_some()),
                    _ => false,
                },
            };
            if !refused {
                return Err(format!("I5: {what} was accepted"));
            }
            if delivered.touched {
                return Err(format!("I5: {what} was refused and changed rows"));
            }
        }
        self.harmless()?;
        self.identities()
    }

    /// A cleanup that names other files than its sessions write, and a call of nobody.
    fn harmless(&self) -> Result<(), Violation> {
        let sessions = self.facts.sessions.iter().map(|(id, session)| Handle {
            file: session.row.file + 1,
            ..session.row.handle(*id)
        });
        let mut copy = self.clone();
        let request = Request {
            user: "om".into(),
            command: Some(Command::Cleanup(Cleanup {
                sessions: sessions.collect(),
            })),
            ..Request::default()
        };
        if copy.deliver(Some(&request))?.touched {
            return Err("a cleanup of other files changed rows".into());
        }
        let nobody = Request {
            user: String::new(),
            ..copy.call(0, mkdir("nobody"))
        };
        if copy.deliver(Some(&nobody))?.outcome.is_ok() {
            return Err("I5: a call of nobody was accepted".into());
        }
        Ok(())
    }

    /// An identity of a call belongs to one command of one user.
    fn identities(&self) -> Result<(), Violation> {
        let Some((request, _)) = &self.last else {
            return Ok(());
        };
        let Some(Invocation { .. }) = &request.invocation else {
            return Ok(());
        };
        if matches!(request.command, Some(Command::RenewLeases(_))) {
            return Ok(());
        }
        let others = [
            (
                "another command under the same identity",
                Request {
                    command: Some(mkdir("other")),
                    ..(**request).clone()
                },
            ),
            (
                "another user's call under the same identity",
                Request {
                    user: "mallory".into(),
                    ..(**request).clone()
                },
            ),
        ];
        for (what, request) in others {
            let mut copy = self.clone();
            let delivered = copy.deliver(Some(&request))?;
            if delivered.outcome.is_ok() || delivered.touched {
                return Err(format!("I5: {what} was accepted"));
            }
        }
        Ok(())
    }

    fn probes(&self) -> Vec<Probe> {
        let mut found = Vec::new();
        let mut add = |what, command| found.push(Probe { what, command });
        let facts = &self.facts;
        let limits = table::limits(&self.rows).unwrap_or_default();
        for path in facts.paths.keys() {
            add(
                "an exclusive create of a name that is there",
                append(path, CreateMode::MustBeNew),
            );
        }
        for (id, session) in &facts.sessions {
            let handle = session.row.handle(*id);
            let other = Handle {
                file: handle.file + 1,
                ..handle
            };
            let allocate = |handle| {
                Command::AllocateBlock(AllocateBlock {
                    target: by_handle(handle),
                    holder: 1,
                })
            };
            add("an allocation for another file", allocate(other));
            add(
                "a renewal for another file",
                Command::RenewLeases(RenewLeases {
                    sessions: vec![other],
                }),
            );
            if !session.is_append() {
                if session.phase() == Phase::Active
                    && let Some(at) = facts.path_of(&session.row)
                {
                    add(
                        "a recovery of an ordinary writer that is not fenced",
                        Command::Publish(Publish {
                            target: Target {
                                handle: None,
                                path: Some(path(&at)),
                                session: *id,
                            },
                            kind: PublishKind::Recovery as i32,
                            ..Publish::default()
                        }),
                    );
                }
                continue;
            }
            let size = session
                .row
                .append
                .as_ref()
                .map_or(0, |part| part.prefix_length);
            let size = usize::try_from(size).unwrap_or_default();
            add(
                "a publication for another file",
                publish(other, PublishKind::Hsync, size, &[]),
            );
            add(
                "a close of an append session by its path",
                Command::Publish(Publish {
                    target: Target {
                        handle: None,
                        path: Some(path("d/f")),
                        session: *id,
                    },
                    kind: PublishKind::Close as i32,
                    ..Publish::default()
                }),
            );
            if session.phase() != Phase::Active {
                add("an allocation of a fenced session", allocate(handle));
                add(
                    "a close of a fenced session",
                    publish(handle, PublishKind::Close, size, &[]),
                );
                add(
                    "a renewal of a fenced session",
                    Command::RenewLeases(RenewLeases {
                        sessions: vec![handle],
                    }),
                );
            }
            if session.phase() != Phase::Recovering {
                add(
                    "a recovery of a session that is not fenced",
                    publish(handle, PublishKind::Recovery, size, &[]),
                );
            }
            if session.phase() == Phase::Active {
                add(
                    "renewals above the bound",
                    Command::RenewLeases(RenewLeases {
                        sessions: vec![
                            handle;
                            usize::try_from(limits.max_renew_batch).unwrap_or(0) + 1
                        ],
                    }),
                );
            }
            if let Some(file) = facts.owned_by(*id) {
                self.forged(handle, file, &mut add);
            }
        }
        found
    }

    /// Publications that do not fit the session that owns a file.
    fn forged(&self, handle: Handle, file: &SeenFile, add: &mut dyn FnMut(&'static str, Command)) {
        let facts = &self.facts;
        let session = &facts.sessions[&handle.session];
        let kind = match session.phase() {
            Phase::Active => PublishKind::Hsync,
            Phase::Recovering => PublishKind::Recovery,
            Phase::Invalidated => return,
        };
        let size = file.content.len();
        let prefix = session
            .row
            .append
            .as_ref()
            .map_or(0, |part| part.prefix_blocks);
        let prefix = usize::try_from(prefix).unwrap_or_default();
        let published = &file.blocks[prefix.min(file.blocks.len())..];
        let lengths = lengths(self, file);
        let suffix: Vec<(u64, usize)> = published
            .iter()
            .map(|local| (*local, lengths[local]))
            .collect();
        let spare: Vec<u64> = session
            .given
            .iter()
            .copied()
            .filter(|local| !file.blocks.contains(local))
            .collect();
        let stranger = facts
            .blocks
            .iter()
            .find(|(_, row)| row.session != handle.session);
        add(
            "a length that the blocks do not have",
            publish(handle, kind, size + 1, &suffix),
        );
        if let Some((stranger, _)) = stranger {
            let blocks: Vec<_> = suffix.iter().copied().chain([(*stranger, 1)]).collect();
            add(
                "a block that was given to another session",
                publish(handle, kind, size + 1, &blocks),
            );
        }
        if let Some(spare) = spare.first() {
            let capacity = usize::try_from(facts.blocks[spare].capacity).unwrap_or(usize::MAX);
            let blocks: Vec<_> = suffix
                .iter()
                .copied()
                .chain([(*spare, capacity + 1)])
                .collect();
            add(
                "more than a block holds",
                publish(handle, kind, size + capacity + 1, &blocks),
            );
            let blocks: Vec<_> = suffix
                .iter()
                .copied()
                .chain([(*spare, 1), (*spare, 1)])
                .collect();
            add("a block twice", publish(handle, kind, size + 2, &blocks));
            if !suffix.is_empty() {
                add(
                    "a tail that begins behind the published end",
                    publish(handle, kind, size + 1, &[(*spare, 1)]),
                );
                let last = suffix.len() - 1;
                let mut blocks = suffix.clone();
                blocks[last] = (*spare, suffix[last].1);
                add(
                    "another block in place of a published one",
                    publish(handle, kind, size, &blocks),
                );
            }
        }
        if let [first, second] = spare[..]
            && kind == PublishKind::Recovery
        {
            let blocks: Vec<_> = suffix
                .iter()
                .copied()
                .chain([(second, 1), (first, 1)])
                .collect();
            add(
                "recovered blocks in another order",
                publish(handle, kind, size + 2, &blocks),
            );
        }
        if let Some((last, length)) = suffix.last() {
            let shorter = size - length;
            if let (true, Some(spare)) = (*length > 1, spare.first()) {
                let mut blocks = suffix.clone();
                blocks[suffix.len() - 1] = (*last, length - 1);
                blocks.push((*spare, 2));
                add(
                    "a published block made shorter, and another behind it",
                    publish(handle, kind, size + 1, &blocks),
                );
            }
            if *length > 1 {
                let mut blocks = suffix.clone();
                blocks[suffix.len() - 1] = (*last, 1);
                add(
                    "a published block made shorter",
                    publish(handle, kind, shorter + 1, &blocks),
                );
            }
            if suffix.len() > 1 {
                add(
                    "a published block left out",
                    publish(handle, kind, shorter, &suffix[..suffix.len() - 1]),
                );
            }
            if kind == PublishKind::Recovery {
                let prefix = session
                    .row
                    .append
                    .as_ref()
                    .map_or(0, |part| part.prefix_length);
                let prefix = usize::try_from(prefix).unwrap_or_default();
                add(
                    "a recovery below what was published",
                    publish(handle, kind, prefix, &[]),
                );
            }
        }
        add(
            "a recovery by a caller that cannot finish it",
            Command::StartRecovery(StartRecovery {
                path: path(&file.path),
                append_only: false,
                force: false,
            }),
        );
        if session
            .row
            .append
            .as_ref()
            .is_some_and(|part| !part.created)
        {
            add(
                "a deletion of what the session did not create",
                Command::Delete(Delete {
                    path: path("whatever"),
                    recursive: false,
                    created_by: Some(handle),
                }),
            );
        }
    }
}

/// Bytes of each block of a file.
fn lengths(state: &State, file: &SeenFile) -> std::collections::BTreeMap<u64, usize> {
    let list = crate::read::blocks_of(
        &state.rows,
        file.row.object_id,
        file.row.generation,
        0,
        usize::MAX,
    );
    list.ok()
        .and_then(Result::ok)
        .map(|range| {
            range
                .blocks
                .iter()
                .map(|block| {
                    (
                        block.local,
                        usize::try_from(block.length).unwrap_or_default(),
                    )
                })
                .collect()
        })
        .unwrap_or_default()
}
