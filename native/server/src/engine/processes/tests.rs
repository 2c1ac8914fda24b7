//! Datanodes on real folders and ports, and a log of commands on a real disk.

use super::*;
use crate::consensus::{LocalConsensus, Options};
use append_datanode::{Datanode, StoreOptions};
use std::net::SocketAddr;
use std::path::Path;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Process {
    address: SocketAddr,
    uuid: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Process {
    /// On `address`, or on any free one.
    async fn start(folder: &Path, address: Option<SocketAddr>) -> Process {
        let datanode = Datanode::open(folder, StoreOptions::default()).unwrap();
        let wanted = address.unwrap_or_else(|| "127.0.0.1:0".parse().unwrap());
        let listener = loop {
            // The one that ended may hold the address for a moment longer.
            match TcpListener::bind(wanted).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let address = listener.local_addr().unwrap();
        let uuid = datanode.uuid().to_string();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let end = async {
                stopped.await.ok();
            };
            datanode.serve_on(listener, end).await.unwrap();
        });
        Process {
            address,
            uuid,
            stop: Some(stop),
            task,
        }
    }

    async fn end(mut self) -> SocketAddr {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap();
        self.address
    }
}

struct World {
    folder: TempDir,
    consensus: Arc<LocalConsensus>,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let consensus = LocalConsensus::open(&folder.path().join("om"), Options::default());
        World {
            consensus: consensus.unwrap(),
            folder,
        }
    }

    fn dir(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn engine(&self, addresses: &[SocketAddr]) -> Arc<Processes> {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        Processes::new(
            &addresses,
            Arc::clone(&self.consensus) as Arc<dyn Consensus>,
        )
        .unwrap()
    }

    fn holders(&self) -> Vec<(u32, String, u32)> {
        read::holders(&*self.consensus.view())
            .unwrap()
            .into_iter()
            .map(|holder| (holder.number, holder.uuid, holder.port))
            .collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.consensus.shutdown();
    }
}

const TWO: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_answers_is_picked_and_one_that_ended_is_not() {
    let world = World::new();
    let a = Process::start(&world.dir("a"), None).await;
    let b = Process::start(&world.dir("b"), None).await;
    let (uuid_a, uuid_b) = (a.uuid.clone(), b.uuid.clone());
    let engine = world.engine(&[a.address, b.address]);
    assert_eq!(
        engine.pick(1, &[], "/f"),
        Err(NoHolder { registered: TWO }),
        "nobody was asked yet"
    );
    engine.look().await;
    assert_eq!(engine.live(), TWO);
    let number = |uuid: &str| {
        let found = world.holders().into_iter().find(|(_, id, _)| id == uuid);
        found.unwrap().0
    };
    // Many places are spread, one place stays where it is.
    let picked: std::collections::BTreeSet<_> = (0..64)
        .map(|n| engine.pick(1, &[], &format!("/f{n}")).unwrap()[0])
        .collect();
    assert_eq!(picked.len(), TWO);
    let first = engine.pick(3, &[], "/f").unwrap();
    assert_eq!(first, vec![first[0]; 3]);
    assert_eq!(engine.pick(3, &[], "/f").unwrap(), first);
    // Excluded by its id, in whatever case.
    assert_eq!(
        engine.pick(1, &[uuid_a.to_uppercase()], "/f").unwrap(),
        [number(&uuid_b)]
    );
    assert!(
        engine
            .pick(1, &[uuid_a.clone(), uuid_b.clone()], "/f")
            .is_err()
    );

    let was = a.end().await;
    engine.look().await;
    assert_eq!(engine.live(), 1);
    for n in 0..16 {
        let picked = engine.pick(1, &[], &format!("/f{n}")).unwrap();
        assert_eq!(picked, [number(&uuid_b)]);
    }
    let commands = world.consensus.position().command;
    let a = Process::start(&world.dir("a"), Some(was)).await;
    engine.look().await;
    assert_eq!(engine.live(), TWO);
    assert_eq!(
        world.consensus.position().command,
        commands,
        "one that came back is not registered again"
    );
    b.end().await;
    a.end().await;
    engine.look().await;
    assert_eq!(engine.pick(1, &[], "/f"), Err(NoHolder { registered: TWO }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_moved_is_written_anew_and_keeps_its_number() {
    let world = World::new();
    let a = Process::start(&world.dir("a"), None).await;
    world.engine(&[a.address]).look().await;
    let before = world.holders();
    let old = a.end().await;
    let a = Process::start(&world.dir("a"), None).await;
    assert_ne!(a.address, old);
    let engine = world.engine(&[old, a.address]);
    engine.look().await;
    let port = u32::from(a.address.port());
    assert_eq!(world.holders(), [(before[0].0, a.uuid.clone(), port)]);
    assert_eq!(engine.live(), 1);
    a.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_one_at_a_registered_address_is_refused() {
    let world = World::new();
    let a = Process::start(&world.dir("a"), None).await;
    let engine = world.engine(&[a.address]);
    engine.look().await;
    let before = world.holders();
    let address = a.end().await;
    let stranger = Process::start(&world.dir("b"), Some(address)).await;
    engine.look().await;
    assert_eq!(engine.live(), 0);
    assert!(engine.pick(1, &[], "/f").is_err());
    assert_eq!(world.holders(), before);
    stranger.end().await;
    let back = Process::start(&world.dir("a"), Some(address)).await;
    engine.look().await;
    assert_eq!(engine.live(), 1);
    back.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_addresses_of_one_datanode_are_one_datanode() {
    let world = World::new();
    let a = Process::start(&world.dir("a"), None).await;
    let other_name = format!("localhost:{}", a.address.port());
    let engine = Processes::new(
        &[a.address.to_string(), other_name],
        Arc::clone(&world.consensus) as Arc<dyn Consensus>,
    )
    .unwrap();
    engine.look().await;
    engine.look().await;
    assert_eq!(engine.live(), 1);
    assert_eq!(world.holders().len(), 1);
    a.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_connections_and_says_nothing_does_not_live() {
    let world = World::new();
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let a = Process::start(&world.dir("a"), None).await;
    let engine = world.engine(&[mute.local_addr().unwrap(), a.address]);
    engine.look().await;
    assert_eq!(engine.live(), 1);
    a.end().await;
}

#[test]
fn addresses_have_a_host_and_a_port() {
    let world = World::new();
    let read = |address: &str| {
        let consensus = Arc::clone(&world.consensus) as Arc<dyn Consensus>;
        Processes::new(&[address.to_owned()], consensus)
            .map(|engine| (engine.nodes[0].host.clone(), engine.nodes[0].port))
    };
    assert_eq!(read("dn1:9859"), Ok(("dn1".to_owned(), 9859)));
    assert_eq!(read("[::1]:5"), Ok(("::1".to_owned(), 5)));
    for bad in ["", "dn1", ":5", "dn1:0", "dn1:x", "dn 1:5"] {
        assert!(read(bad).is_err(), "{bad:?}");
    }
}
