//! Opening, locking, identity, and what happens when the disk fails under a running datanode.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::store::{Faults, Media};
use crate::{OpenError, StoreError};

const B: BlockId = BlockId::new(3, 9);

#[test]
fn two_cannot_open_one_folder_and_the_identity_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er");
    let first = Datanode::open(&path, StoreOptions::default()).unwrap();
    let uuid = first.uuid();
    assert!(matches!(
        Datanode::open(&path, StoreOptions::default()),
        Err(OpenError::InUse(_))
    ));
    // A service keeps the folder even when the datanode itself is gone.
    let service = first.service();
    drop(first);
    assert!(matches!(
        Datanode::open(&path, StoreOptions::default()),
        Err(OpenError::InUse(_))
    ));
    drop(service);
    let again = Datanode::open(&path, StoreOptions::default()).unwrap();
    assert_eq!(again.uuid(), uuid);
    assert_eq!(again.info("h", 7).port, 7);
}

#[test]
fn a_folder_that_lost_its_identity_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Datanode::open(dir.path(), StoreOptions::default());
    drop(open().unwrap());
    let path = dir.path().join("DATANODE_ID");
    for text in [Some("nonsense"), None] {
        match text {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        assert!(matches!(open(), Err(OpenError::Identity { .. })));
    }
}

#[tokio::test]
async fn a_process_of_its_own_says_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let (ready, told) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        crate::serve(
            &path,
            "127.0.0.1:0".parse().unwrap(),
            StoreOptions::default(),
            async {
                stopped.await.ok();
            },
            |info| ready.send(info).unwrap(),
        )
        .await
    });
    let info = told.await.unwrap();
    let channel = Endpoint::from_shared(format!("http://{}:{}", info.host, info.port))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut client = Client::new(channel);
    write_block(&mut client, B, b"hello").await;
    drop(client);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    let again = Datanode::open(dir.path(), StoreOptions::default()).unwrap();
    assert_eq!(again.uuid(), info.uuid);
    assert_eq!(again.store().committed_length(B).unwrap(), 5);
}

#[derive(Default)]
struct Disk {
    gone: AtomicBool,
    full: AtomicBool,
    folders: Mutex<Vec<PathBuf>>,
}

impl Faults for Disk {
    fn write(&self, _: &Path, _: usize) -> Option<(usize, io::Error)> {
        self.full
            .load(Ordering::SeqCst)
            .then(|| (3, io::ErrorKind::StorageFull.into()))
    }

    fn sync(&self, _: &Path) -> io::Result<()> {
        if self.gone.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.folders.lock().unwrap().push(dir.to_owned());
        Ok(())
    }

    fn cut(&self, _: &Path, _: u64) -> io::Result<()> {
        Ok(())
    }
}

fn open_on(disk: &Arc<Disk>, dir: &Path) -> Datanode {
    let media = Media {
        faults: Some(Arc::clone(disk) as Arc<dyn Faults>),
    };
    Datanode::open_on(&media, dir, StoreOptions::default()).unwrap()
}

#[test]
fn every_name_is_durable_before_it_is_used_also_one_that_a_killed_process_made() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/b/blocks");
    let disk = Arc::new(Disk::default());
    drop(open_on(&disk, &dir));
    let synced = std::mem::take(&mut *disk.folders.lock().unwrap());
    for name in ["", "a", "a/b", "a/b/blocks", "a/b/blocks/containers"] {
        assert!(
            synced.contains(&root.path().join(name)),
            "{name}: {synced:?}"
        );
    }
    drop(open_on(&disk, &dir));
    let synced = std::mem::take(&mut *disk.folders.lock().unwrap());
    for name in ["a/b", "a/b/blocks", "a/b/blocks/containers"] {
        assert!(
            synced.contains(&root.path().join(name)),
            "{name}: {synced:?}"
        );
    }
}

#[tokio::test]
async fn a_full_disk_is_said_and_ends_with_room() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let running = Running::serve(open_on(&disk, dir.path())).await;
    let mut client = running.client().await;
    write_block(&mut client, B, b"before").await;
    disk.full.store(true, Ordering::SeqCst);
    let answer = send(&mut client, write_chunk(B, 6, b"after", None)).await;
    assert_eq!(answer.result(), dn::Result::DiskOutOfSpace);
    let answer = send(&mut client, read_chunk(B, 0, 6)).await;
    assert_eq!(data_of(answer), b"before"[..]);
    disk.full.store(false, Ordering::SeqCst);
    write_block(&mut client, BlockId::new(3, 10), b"after").await;
    running.stop().await;
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged_and_serving_ends() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let running = Running::serve(open_on(&disk, dir.path())).await;
    let mut client = running.client().await;
    write_block(&mut client, B, b"before").await;
    disk.gone.store(true, Ordering::SeqCst);
    let put = put_payload(B, vec![info(0, b"before"), info(6, b"after")]);
    let answer = send(&mut client, write_chunk(B, 6, b"after", Some(put))).await;
    assert_eq!(answer.result(), dn::Result::ContainerInternalError);
    assert!(answer.write_chunk.is_none());
    drop(client);
    assert!(matches!(
        running.ended().await,
        Err(ServeError::Store(StoreError::Poisoned(_)))
    ));
}
