//! The library's own tests of a log and a state machine, run on ours.

use crate::consensus::Options;
use crate::consensus::folder::Folder;
use crate::consensus::membership::Standing as Promised;
use crate::consensus::queue::{Bounds, Queue};
use crate::consensus::raft::log_store::LogStore;
use crate::consensus::raft::machine::RowsMachine;
use crate::consensus::raft::swap::SwapStore;
use crate::consensus::raft::types::{Group, GroupEntry, log_id};
use crate::consensus::restore::{Decided, restore_decided};
use crate::consensus::shared::{Shared, Standing};
use crate::store::Store;
use append_namespace::Machine;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use std::sync::Arc;
use tempfile::TempDir;

struct Builder;

impl StoreBuilder<Group, LogStore, RowsMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, RowsMachine), StorageError<Group>> {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let options = Options {
            // Small, so that cuts and truncations cross segments.
            segment_bytes: 200,
            on_fatal: Arc::new(|reason| panic!("{reason}")),
            ..Options::default()
        };
        let restored = restore_decided::<Machine>(&folder, &options, Decided::Applied).unwrap();
        let promised = Promised {
            id: 1,
            folder: "f".to_owned(),
            ..Promised::default()
        };
        let file = folder.standing();
        let queue = Queue::new(Bounds {
            batch_commands: 1,
            batch_bytes: 1,
            command_bytes: 1,
            queue_commands: 1,
            queue_bytes: 1,
        });
        let store = Arc::new(SwapStore::new(Arc::new(restored.store)));
        let standing = Standing {
            position: restored.machine.position(),
            limits: restored.machine.limits(),
        };
        let shared = Arc::new(Shared::new(
            folder,
            options,
            queue,
            Arc::clone(&store) as Arc<dyn Store>,
            standing,
            restored.checkpoints,
        ));
        let fail = Arc::new(|reason: &str| panic!("{reason}"));
        let log = LogStore::start(restored.log, promised, file, fail).unwrap();
        let rows = RowsMachine::new(shared, store, log.clone(), restored.machine);
        Ok((dir, log, rows))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_librarys_own_tests_of_storage_pass() {
    Suite::<Group, LogStore, RowsMachine, Builder, TempDir>::test_all(Builder)
        .await
        .unwrap();
}

/// What a majority has may be applied before this server has it on its own disk: rows would be ahead of the log, and a start would take the
/// log for damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_is_waited_for_until_it_is_durable_here() {
    use openraft::entry::RaftEntry;
    use openraft::storage::{IOFlushed, RaftLogStorage};
    use std::time::Duration;
    let (_dir, mut log, _rows) = Builder.build().await.unwrap();
    // The thread that writes is kept busy.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let busy = log.clone();
    let busy = tokio::spawn(async move {
        let block = move |_: &mut Promised| {
            begun.send(()).unwrap();
            let _ = wait.recv();
        };
        busy.change(block).await
    });
    begins.await.unwrap();
    let record = GroupEntry::new_blank(log_id(1, 1).unwrap());
    log.append([record], IOFlushed::noop()).await.unwrap();
    let waiting = log.clone();
    let mut waiting = tokio::spawn(async move { waiting.durable(1).await });
    // It cannot end: what it waits for cannot happen.
    let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    drop(go);
    busy.await.unwrap().unwrap();
    waiting.await.unwrap().unwrap();
    log.durable(1).await.unwrap();
    log.stop();
}
