//! Applies what the group decided, exports it, and takes in what came from elsewhere.
//!
//! Rows are those of a server that is alone, written in the same way: a row is durable through log or checkpoint, not by itself.

use super::log_store::LogStore;
use super::swap::SwapStore;
use super::types::{Commands, Group, LogId, Members, Outcomes};
use super::types::{index_of, log_id, members_from_row, members_row, place};
use crate::consensus::entries::{MEMBERS, members};
use crate::consensus::shared::{Shared, Standing, lock};
use crate::consensus::{CheckpointFailure, threads};
use crate::store::{DiskStore, Mark, Store};
use append_namespace::command::Entry;
use append_namespace::read;
use append_namespace::rows::Keyspace;
use append_namespace::{Applied, Machine};
use openraft::EntryPayload;
use openraft::entry::RaftEntry;
use openraft::storage::{
    EntryResponder, RaftSnapshotBuilder, RaftStateMachine, Snapshot, SnapshotMeta,
};
use openraft::{OptionalSend, StoredMembership};
use prost::Message;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio_stream::{Stream, StreamExt};

type GroupSnapshot = Snapshot<
    openraft::type_config::alias::CommittedLeaderIdOf<Group>,
    u64,
    super::types::Member,
    CheckpointData,
>;
type GroupMeta = openraft::type_config::alias::SnapshotMetaOf<Group>;

/// A checkpoint: one of ours, or one that a peer sent and that is not in yet.
#[derive(Debug)]
pub(crate) struct CheckpointData {
    /// Kept open, so that it can be read to its end even when it is replaced meanwhile.
    pub(crate) file: File,
    pub(crate) path: PathBuf,
}

/// See the module. One task uses it.
pub(crate) struct RowsMachine {
    shared: Arc<Shared>,
    store: Arc<SwapStore>,
    log: LogStore,
    machine: Arc<Mutex<Machine>>,
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// The members that `rows` hold, as of their last change.
pub(crate) fn members_in(store: &dyn Store) -> io::Result<Members> {
    match store
        .applied()
        .rows
        .get(Keyspace::Meta, MEMBERS)
        .map_err(other)?
    {
        Some(row) => Ok(members_from_row(&row)?),
        None => Ok(StoredMembership::default()),
    }
}

fn log_id_of(mark: Mark) -> Option<LogId> {
    log_id(mark.term, mark.index)
}

impl RowsMachine {
    pub(crate) fn new(
        shared: Arc<Shared>,
        store: Arc<SwapStore>,
        log: LogStore,
        machine: Machine,
    ) -> RowsMachine {
        RowsMachine {
            shared,
            store,
            log,
            machine: Arc::new(Mutex::new(machine)),
        }
    }

    fn apply_one(
        &self,
        entry: &openraft::type_config::alias::EntryOf<Group>,
    ) -> io::Result<Outcomes> {
        let id = entry.log_id();
        let mark = Mark {
            term: id.leader_id.term,
            index: index_of(&id),
        };
        let mut bytes = 0;
        let empty = Entry::default();
        let decoded;
        let commands = match &entry.payload {
            EntryPayload::Normal(Commands {
                entry: Some(entry),
                payload,
            }) => {
                bytes = payload.len() as u64;
                entry.as_ref()
            }
            EntryPayload::Normal(Commands { payload, .. }) => {
                bytes = payload.len() as u64;
                decoded = Entry::decode(payload.clone()).map_err(other)?;
                &decoded
            }
            EntryPayload::Blank | EntryPayload::Membership(_) => &empty,
        };
        let mut machine = lock(&self.machine);
        let rows = self.store.applied().rows;
        let Applied {
            outcomes,
            mut changes,
            position,
        } = machine
            .apply(rows.as_ref(), mark.term, mark.index, commands)
            .map_err(|error| {
                if !error.is_newer() {
                    self.shared.folder.suspect_rows();
                }
                other(format!("entry {} cannot be applied: {error}", mark.index))
            })?;
        drop(rows);
        if let EntryPayload::Membership(membership) = &entry.payload {
            let stored = Members::new(Some(id), membership.clone());
            changes.push(members(members_row(&stored)));
        }
        self.store.apply(mark, &changes).map_err(other)?;
        threads::note_layout(&self.shared, &changes).map_err(other)?;
        if changes
            .iter()
            .any(|change| change.keyspace == Keyspace::Open)
        {
            threads::note_sessions::<Machine>(&self.shared).map_err(other)?;
        }
        self.shared.stand(Standing {
            position,
            limits: machine.limits(),
        });
        metrics::gauge!("append_applied_index").set(crate::consensus::shared::gauge(mark.index));
        self.shared.count_applied(bytes);
        Ok(Outcomes(outcomes))
    }

    /// Fails the whole server: the library stops by itself, its callers would not learn why.
    fn failed<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| self.shared.fail(&error.to_string()))
    }

    /// Replaces all rows by those of a checkpoint that came from elsewhere. The order decides what a crash leaves: nothing of the old is
    /// touched before the file that says which rows are the ones.
    async fn install(&mut self, meta: &GroupMeta, data: CheckpointData) -> io::Result<()> {
        let generation = self.shared.folder.generation() + 1;
        let path = self.shared.folder.place_rows(generation).map_err(other)?;
        let store = DiskStore::open(&path, self.shared.options.cache_bytes).map_err(other)?;
        let summary = crate::consensus::checkpoints::read_file(&data.path, |changes| {
            store
                .apply(Mark::default(), &changes)
                .map_err(|error| error.to_string())
        })
        .map_err(other)?;
        if log_id_of(summary.mark) != meta.last_log_id {
            return Err(other(
                "the checkpoint stands elsewhere than its leader says",
            ));
        }
        store.apply(summary.mark, &[]).map_err(other)?;
        store.persist().map_err(other)?;
        if read::layout(store.applied().rows.as_ref()).map_err(other)? > 0 {
            self.shared.folder.raise_format().map_err(other)?;
        }
        let machine = Machine::open(store.applied().rows.as_ref()).map_err(other)?;
        let reset = meta.last_log_id.as_ref().map(place);
        self.log
            .change(move |standing| {
                standing.rows = generation;
                standing.reset = reset;
            })
            .await?;
        self.shared.folder.use_rows(generation);
        self.shared
            .adopt_checkpoint(&data.path, summary.mark.index)
            .map_err(other)?;
        self.log.may_cut(summary.mark.index + 1);
        let standing = Standing {
            position: machine.position(),
            limits: machine.limits(),
        };
        *lock(&self.machine) = machine;
        self.store.swap(Arc::new(store));
        self.shared.stand(standing);
        threads::note_sessions::<Machine>(&self.shared).map_err(other)?;
        tracing::info!(
            index = summary.mark.index,
            rows = summary.rows,
            "the rows were replaced by a checkpoint of the leader"
        );
        metrics::counter!("append_checkpoints_installed").increment(1);
        Ok(())
    }
}

impl RaftStateMachine<Group> for RowsMachine {
    type SnapshotData = CheckpointData;
    type SnapshotBuilder = Exporter;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Members)> {
        let mark = self.store.applied().mark;
        Ok((log_id_of(mark), members_in(self.store.as_ref())?))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Group>>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = self.failed(next)?;
            let durable = self.log.durable(index_of(&entry.log_id())).await;
            self.failed(durable)?;
            let outcomes = self.failed(self.apply_one(&entry))?;
            if let Some(responder) = responder {
                responder.send(outcomes);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Exporter {
        Exporter {
            shared: Arc::clone(&self.shared),
        }
    }

    async fn install_snapshot(&mut self, meta: &GroupMeta, data: CheckpointData) -> io::Result<()> {
        let installed = self.install(meta, data).await;
        self.failed(installed)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<GroupSnapshot>> {
        let Some(path) = self.shared.newest_checkpoint() else {
            return Ok(None);
        };
        snapshot_of(path).map(Some)
    }
}

/// Takes a checkpoint when the library wants one.
pub(crate) struct Exporter {
    shared: Arc<Shared>,
}

impl RaftSnapshotBuilder<Group> for Exporter {
    type SnapshotData = CheckpointData;

    async fn build_snapshot(&mut self) -> io::Result<GroupSnapshot> {
        let shared = Arc::clone(&self.shared);
        let path = tokio::task::spawn_blocking(move || {
            let taken = shared.checkpoint();
            match taken {
                // Without room the log grows; the server goes on.
                Ok(_) | Err(CheckpointFailure::NoSpace) => {}
                Err(error) => return Err(other(error)),
            }
            shared
                .newest_checkpoint()
                .ok_or_else(|| other("there is no room for a first checkpoint"))
        })
        .await
        .map_err(other)??;
        snapshot_of(path)
    }
}

fn snapshot_of(path: PathBuf) -> io::Result<GroupSnapshot> {
    let (mark, row) =
        crate::consensus::checkpoints::peek(&path, Keyspace::Meta, MEMBERS).map_err(other)?;
    let last_membership = match row {
        Some(row) => members_from_row(&row)?,
        None => StoredMembership::default(),
    };
    Ok(Snapshot {
        meta: SnapshotMeta {
            last_log_id: log_id_of(mark),
            last_membership,
        },
        snapshot: CheckpointData {
            file: File::open(&path)?,
            path,
        },
    })
}
