//! Leaders that go, servers that come, checkpoints that are sent.

use crate::consensus::{
    Consensus, GroupConsensus, GroupError, GroupOptions, LocalConsensus, OpenError, Options,
    ProposeError, grow, leave,
};
use append_namespace::command::{Command, CreateVolume, Limits, Request};
use append_namespace::read;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// However long something may take on a loaded machine.
const LONG: Duration = Duration::from_secs(120);

fn options() -> Options {
    Options {
        segment_bytes: 4 << 10,
        reserve_bytes: 0,
        on_fatal: Arc::new(|reason| eprintln!("fatal: {reason}")),
        ..Options::default()
    }
}

fn volume(name: &str) -> Request {
    Request {
        user: "u".to_owned(),
        invocation: None,
        answered_below: None,
        command: Some(Command::CreateVolume(CreateVolume {
            volume: name.to_owned(),
            admin: "u".to_owned(),
            owner: "u".to_owned(),
            ..CreateVolume::default()
        })),
    }
}

struct Server {
    dir: PathBuf,
    peer: String,
    runs: Option<Arc<GroupConsensus>>,
}

struct World {
    _dir: TempDir,
    servers: BTreeMap<u64, Server>,
    addresses: BTreeMap<u64, String>,
}

fn bind(address: &str) -> TcpListener {
    let until = Instant::now() + LONG;
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            // The one before lets go of it when its last connection ends.
            Err(error) if Instant::now() < until => {
                eprintln!("{address}: {error}");
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("{address}: {error}"),
        }
    }
}

impl World {
    fn new(ids: &[u64]) -> World {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World {
            _dir: dir,
            servers: BTreeMap::new(),
            addresses: BTreeMap::new(),
        };
        let listeners: Vec<_> = ids.iter().map(|id| (*id, bind("127.0.0.1:0"))).collect();
        for (id, listener) in &listeners {
            let address = listener.local_addr().unwrap().to_string();
            world.addresses.insert(*id, address);
        }
        for (id, listener) in listeners {
            world.open(id, listener);
        }
        world
    }

    fn dir(&self, id: u64) -> PathBuf {
        self._dir.path().join(id.to_string())
    }

    fn group_options(&self, id: u64, peer: &str) -> GroupOptions {
        GroupOptions {
            peers: self.addresses.clone(),
            ..GroupOptions::new(id, peer, format!("client-{id}:1"))
        }
    }

    fn open(&mut self, id: u64, listener: TcpListener) {
        let peer = listener.local_addr().unwrap().to_string();
        let dir = self.dir(id);
        let group = self.group_options(id, &peer);
        let runs = GroupConsensus::open(&dir, options(), &group, listener).unwrap();
        let server = Server {
            dir,
            peer,
            runs: Some(runs),
        };
        self.servers.insert(id, server);
    }

    fn add(&mut self, id: u64) -> String {
        let listener = bind("127.0.0.1:0");
        let address = listener.local_addr().unwrap().to_string();
        self.addresses.insert(id, address.clone());
        self.open(id, listener);
        address
    }

    fn stop(&mut self, id: u64) {
        let server = self.servers.get_mut(&id).unwrap();
        server.runs.take().unwrap().shutdown();
    }

    fn restart(&mut self, id: u64) {
        let peer = self.servers[&id].peer.clone();
        self.open(id, bind(&peer));
    }

    fn at(&self, id: u64) -> &Arc<GroupConsensus> {
        self.servers[&id].runs.as_ref().unwrap()
    }

    fn running(&self) -> impl Iterator<Item = (u64, &Arc<GroupConsensus>)> {
        self.servers
            .iter()
            .filter_map(|(id, server)| Some((*id, server.runs.as_ref()?)))
    }

    /// Does it at whoever leads, until it is decided.
    fn propose(&self, request: &Request) -> u64 {
        let runtime = runtime();
        until("a decided answer", || {
            self.running().find_map(|(id, server)| {
                match runtime.block_on(server.propose(request.clone())) {
                    Ok(Ok(_)) => Some(id),
                    Ok(Err(refusal)) if refusal.detail.contains("exist") => Some(id),
                    Ok(Err(refusal)) => panic!("{refusal:?}"),
                    Err(_) => None,
                }
            })
        })
    }

    fn has(&self, id: u64, volume: &str) -> bool {
        read::volume(&*self.at(id).view(), volume).unwrap().is_ok()
    }

    fn leader(&self) -> u64 {
        let runtime = runtime();
        until("a leader", || {
            self.running()
                .find(|(_, server)| runtime.block_on(server.read_barrier()).is_ok())
                .map(|(id, _)| id)
        })
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn founded(ids: &[u64]) -> World {
    let world = World::new(ids);
    runtime().block_on(world.at(ids[0]).found()).unwrap();
    world.leader();
    world
}

#[test]
fn what_was_answered_stays_when_leaders_go() {
    let mut world = founded(&[1, 2, 3]);
    let mut answered = Vec::new();
    for round in 0..4 {
        for at in 0..5 {
            let name = format!("round{round}at{at}");
            world.propose(&volume(&name));
            answered.push(name);
        }
        let leader = world.leader();
        world.stop(leader);
        world.leader();
        let name = format!("without{round}");
        world.propose(&volume(&name));
        answered.push(name);
        world.restart(leader);
    }
    for id in [1, 2, 3] {
        for name in &answered {
            until(name, || world.has(id, name).then_some(()));
        }
    }
    let position = world.at(world.leader()).position();
    assert!(position.term >= 5, "{position:?}");
}

#[test]
fn a_server_without_a_majority_answers_nothing() {
    let mut world = founded(&[1, 2, 3]);
    world.propose(&volume("before"));
    let leader = world.leader();
    for id in [1, 2, 3] {
        if id != leader {
            world.stop(id);
        }
    }
    let runtime = runtime();
    let alone = world.at(leader);
    assert!(runtime.block_on(alone.read_barrier()).is_err());
    let answer = runtime.block_on(alone.propose(volume("alone")));
    assert!(answer.is_err(), "{answer:?}");
}

#[test]
fn a_new_folder_does_nothing_until_it_is_admitted_and_a_group_is_made_once() {
    let mut world = World::new(&[1, 2, 3]);
    let runtime = runtime();
    for id in [1, 2, 3] {
        let answer = runtime.block_on(world.at(id).propose(volume("early")));
        assert!(
            matches!(answer, Err(ProposeError::NotLeader(_))),
            "{answer:?}"
        );
    }
    runtime.block_on(world.at(2).found()).unwrap();
    world.leader();
    let again = runtime.block_on(world.at(1).found());
    assert!(matches!(again, Err(GroupError::Refused(_))), "{again:?}");
    world.propose(&volume("vol"));

    // The same number with another folder is another server: it gets nothing and has no vote.
    let lost = (1..=3).find(|id| *id != world.leader()).unwrap();
    world.stop(lost);
    std::fs::remove_dir_all(&world.servers[&lost].dir).unwrap();
    world.restart(lost);
    let refounded = runtime.block_on(world.at(lost).found());
    assert!(
        matches!(refounded, Err(GroupError::Refused(_))),
        "{refounded:?}"
    );
    world.propose(&volume("wol"));
    assert!(!world.has(lost, "vol"));
    let admitted = runtime.block_on(world.at(world.leader()).admit(&world.addresses[&lost]));
    assert!(
        matches!(admitted, Err(GroupError::Refused(_))),
        "{admitted:?}"
    );
}

#[test]
fn one_server_grows_to_three_and_the_survivor_goes_on_alone() {
    let mut world = World::new(&[]);
    let dir = world.dir(1);
    let runtime = runtime();
    let local = LocalConsensus::open(&dir, options()).unwrap();
    runtime
        .block_on(local.propose(Request {
            command: Some(Command::Configure(Limits::starting())),
            ..volume("x")
        }))
        .unwrap()
        .unwrap();
    for at in 0..40 {
        let decided = runtime.block_on(local.propose(volume(&format!("alone{at}"))));
        decided.unwrap().unwrap();
    }
    let before = local.position();
    drop(local);

    let listener = bind("127.0.0.1:0");
    let peer = listener.local_addr().unwrap().to_string();
    let refused = GroupConsensus::open(
        &dir,
        options(),
        &world.group_options(1, &peer),
        bind("127.0.0.1:0"),
    );
    assert!(matches!(refused, Err(OpenError::NotOfGroup { .. })));
    grow(&dir, &options(), &world.group_options(1, &peer)).unwrap();
    assert!(matches!(
        LocalConsensus::open(&dir, options()),
        Err(OpenError::Grouped { id: 1, .. })
    ));
    world.addresses.insert(1, peer);
    world.open(1, listener);
    assert_eq!(world.leader(), 1);
    world.propose(&volume("grown"));
    assert!(world.at(1).position().command > before.command);
    for id in [2, 3] {
        let address = world.add(id);
        assert_eq!(runtime.block_on(world.at(1).admit(&address)), Ok(id));
        until("the first rows", || world.has(id, "alone0").then_some(()));
        until("the last rows", || world.has(id, "grown").then_some(()));
    }
    assert_eq!(world.at(1).members().iter().filter(|m| m.votes).count(), 3);

    runtime.block_on(world.at(1).transfer(3)).unwrap();
    until("another leader", || (world.leader() == 3).then_some(()));
    for id in [1, 2] {
        runtime.block_on(world.at(3).dismiss(id)).unwrap();
        world.stop(id);
    }
    world.propose(&volume("last"));
    let command = world.at(3).position().command;
    world.stop(3);
    let dir = world.dir(3);
    assert_eq!(leave(&dir, &options(), false).unwrap(), None);
    let local = LocalConsensus::open(&dir, options()).unwrap();
    assert_eq!(local.position().command, command);
    runtime
        .block_on(local.propose(volume("alone again")))
        .unwrap()
        .unwrap_err();
    runtime
        .block_on(local.propose(volume("aloneagain")))
        .unwrap()
        .unwrap();
    assert!(read::volume(&*local.view(), "alone39").unwrap().is_ok());
    local.shutdown();
}

#[test]
fn a_server_that_was_away_for_long_gets_a_checkpoint() {
    let mut world = founded(&[1, 2, 3]);
    let leader = world.leader();
    let away = (1..=3).find(|id| *id != leader).unwrap();
    world.propose(&volume("seen"));
    world.stop(away);
    for at in 0..30 {
        world.propose(&volume(&format!("unseen{at}")));
    }
    let runtime = runtime();
    let leader = world.leader();
    for _ in 0..2 {
        world.propose(&volume(&format!(
            "checkpoint{}",
            world.at(leader).position().index
        )));
        runtime.block_on(world.at(leader).compact_for_test());
    }
    world.restart(away);
    until("the checkpoint", || {
        world.has(away, "unseen29").then_some(())
    });
    assert!(generation(&world.dir(away)) > 0, "it came by log");
    // And goes on from it after a restart.
    world.propose(&volume("after"));
    world.stop(away);
    world.restart(away);
    until("what came after", || world.has(away, "after").then_some(()));
    assert!(world.has(away, "seen") && world.has(away, "unseen0"));
}

fn generation(dir: &Path) -> usize {
    std::fs::read_dir(dir)
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("rows-")
        })
        .count()
}
