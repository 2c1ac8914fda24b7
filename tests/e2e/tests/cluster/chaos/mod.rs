//! Everything at once: three servers, two datanodes and a handful of clients, all processes, and a seeded hand that kills, stops and restarts
//! them while operations are under way. Afterwards the recorded history must be one that a file system could have given: names by a
//! search for an order ([`names`]), contents by what was read and acknowledged ([`files`]), the servers' folders by `append admin fsck`.
//!
//! `APPEND_CHAOS_FAULTS` (12) is the number of faults, `APPEND_CHAOS_SEED` the seed. Ports are cut where `APPEND_CHAOS_NET` says that this
//! runs in a network namespace of its own, as `scripts/chaos` makes it. Left out: slow networks (this takes a kernel with netem) and full
//! disks, which have tests of their own.

mod files;
mod history;
mod machine;
mod names;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use append_client::FileSystem;
use append_e2e::records::{FOLDERS, NAMES, decode};
use append_e2e::{get, path};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::world::{LONG, QUICK, World};
use history::{Call, Content, Found, Operation};
use machine::{Cut, WrongClock};
use names::Verdict;

const CLIENTS: usize = 6;
const DATANODES: usize = 2;
/// Operations that end between two faults, at least.
const PROGRESS: u64 = 15;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// What a client said so far, and how many of its operations have begun and ended.
#[derive(Default)]
struct Told {
    lines: Mutex<Vec<String>>,
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A client process and what it says.
struct Client {
    number: u32,
    child: Child,
    input: Option<ChildStdin>,
    told: Arc<Told>,
    listener: Option<JoinHandle<()>>,
}

impl Client {
    fn start(world: &World, number: u32, seed: u64) -> Client {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chaos_client"));
        command
            .args(["ofs://group/", &number.to_string(), &seed.to_string()])
            .args(["user=chaos", "libappend.call.timeout=20s"])
            .args([
                "libappend.outcome.timeout=20s",
                "libappend.datanode.timeout=5s",
            ])
            .arg("ozone.client.wait.between.retries.millis=50ms");
        for (key, value) in world.addresses() {
            command.arg(format!("{key}={value}"));
        }
        let mut child = command
            .env_remove("HADOOP_CONF_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told = Arc::new(Told::default());
        let out = BufReader::new(child.stdout.take().unwrap());
        let hears = Arc::clone(&told);
        let listener = std::thread::spawn(move || {
            // A line that its end cut short is no event.
            for line in out.lines().map_while(Result::ok) {
                let counter = if line.contains(" begin ") {
                    &hears.begun
                } else {
                    &hears.ended
                };
                hears.lines.lock().unwrap().push(line);
                counter.fetch_add(1, Ordering::AcqRel);
            }
        });
        Client {
            number,
            input: child.stdin.take(),
            child,
            told,
            listener: Some(listener),
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(done.unwrap().success());
    }

    fn under_way(&self) -> u64 {
        let ended = self.told.ended.load(Ordering::Acquire);
        self.told
            .begun
            .load(Ordering::Acquire)
            .saturating_sub(ended)
    }

    /// Lets it end what it does, or kills it; gives all that it did.
    fn end(mut self, orderly: bool) -> Vec<Operation> {
        drop(self.input.take());
        let end = Instant::now() + LONG;
        while orderly && self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "client {} does not end", self.number);
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.listener.take().unwrap().join().unwrap();
        let mut lines = std::mem::take(&mut *self.told.lines.lock().unwrap());
        if !orderly {
            // It may have been killed in the middle of its last line.
            let whole = |line: &String| line.split(' ').count() >= 4 || line.ends_with("end ok");
            if lines.last().is_some_and(|line| !whole(line)) {
                lines.pop();
            }
        }
        history::parse(self.number, &lines).unwrap()
    }
}

/// Ends them also when a check fails.
impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Faults that were done, and operations that were under way then, by the kind of fault.
type Tally = BTreeMap<&'static str, (u64, u64)>;

struct Chaos {
    world: World,
    clients: Vec<Client>,
    started: u32,
    random: StdRng,
    history: Vec<Operation>,
    tally: Tally,
    clock: WrongClock,
    kinds: Vec<&'static str>,
}

/// Faults that can be done everywhere.
const KINDS: [&str; 8] = [
    "server killed",
    "server stopped",
    "server killed, back with a wrong clock",
    "all servers killed",
    "datanode killed",
    "datanode stopped",
    "client killed",
    "client stopped",
];
/// Faults that take a network namespace.
const CUTS: [&str; 3] = [
    "server cut off from the others",
    "server cut off from clients",
    "datanode cut off",
];

impl Chaos {
    fn client(&mut self) -> Client {
        self.started += 1;
        Client::start(&self.world, self.started, self.random.random())
    }

    fn ended(&self) -> u64 {
        let clients = self.clients.iter();
        clients
            .map(|client| client.told.ended.load(Ordering::Acquire))
            .sum()
    }

    fn progress(&self) {
        let (wanted, end) = (self.ended() + PROGRESS, Instant::now() + LONG);
        while self.ended() < wanted {
            assert!(Instant::now() < end, "nothing goes on any more");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn moment(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.random.random_range(from..to))
    }

    /// Waits for a moment that the dice chose.
    fn pause(&mut self, from: u64, to: u64) {
        let moment = self.moment(from, to);
        std::thread::sleep(moment);
    }

    fn server(&mut self) -> u64 {
        if self.random.random_range(0..2) == 0 {
            self.world.leader()
        } else {
            self.random.random_range(1..=3)
        }
    }

    /// Nothing passes a port for a while.
    fn cut(&mut self, port: u16) {
        let cut = Cut::of(port);
        self.pause(100, 5000);
        drop(cut);
    }

    fn fault(&mut self) {
        let kind = self.kinds[self.random.random_range(0..self.kinds.len())];
        self.pause(0, 30);
        let under_way: u64 = self.clients.iter().map(Client::under_way).sum();
        match kind {
            "server killed" => {
                let id = self.server();
                self.world.kill(id);
                self.pause(0, 1500);
                self.world.run(id);
            }
            "server stopped" => {
                let id = self.server();
                self.world.signal(id, "STOP");
                self.pause(100, 3000);
                self.world.signal(id, "CONT");
            }
            "server killed, back with a wrong clock" => {
                let id = self.server();
                self.world.kill(id);
                let hours = self.random.random_range(-30..=30);
                self.clock
                    .with(hours, |variables| self.world.run_in(id, variables));
            }
            "server cut off from the others" => {
                let id = self.server();
                self.cut(self.world.peer_port(id));
            }
            "server cut off from clients" => {
                let id = self.server();
                self.cut(self.world.client_port(id));
            }
            "datanode cut off" => {
                let at = self.random.random_range(0..DATANODES);
                self.cut(self.world.datanode_port(at));
            }
            "all servers killed" => {
                for id in 1..=3 {
                    self.world.kill(id);
                }
                self.pause(0, 300);
                for id in 1..=3 {
                    self.world.launch(id);
                }
                self.world.leader();
            }
            "datanode killed" => {
                let at = self.random.random_range(0..DATANODES);
                self.world.kill_datanode(at);
                self.pause(0, 1500);
                self.world.run_datanode(at);
            }
            "datanode stopped" => {
                let at = self.random.random_range(0..DATANODES);
                self.world.signal_datanode(at, "STOP");
                self.pause(100, 3000);
                self.world.signal_datanode(at, "CONT");
            }
            "client killed" => {
                let at = self.random.random_range(0..self.clients.len());
                let killed = self.clients.swap_remove(at);
                self.history.extend(killed.end(false));
                let next = self.client();
                self.clients.push(next);
            }
            _ => {
                let at = self.random.random_range(0..self.clients.len());
                self.clients[at].signal("STOP");
                // Now and then for longer than its lease.
                self.pause(100, 6000);
                self.clients[at].signal("CONT");
            }
        }
        let (done, hit) = self.tally.entry(kind).or_default();
        *done += 1;
        *hit += u64::from(under_way > 0);
    }
}

/// Reads every name once more, when nothing is killed any more; what a writer left open is recovered first.
async fn look_again(fs: &FileSystem, since: u64) -> Vec<Operation> {
    let mut found = Vec::new();
    for folder in 0..FOLDERS {
        for name in 0..NAMES {
            let file = path(&format!("d{folder}/f{name}"));
            let status = match fs.status(&file).await {
                Ok(status) => status,
                Err(error) => {
                    assert_eq!(error.kind(), append_client::ErrorKind::NotFound, "{error}");
                    continue;
                }
            };
            let end = Instant::now() + LONG;
            while !fs.recover_lease(&file).await.unwrap_or(false) {
                assert!(Instant::now() < end, "{file} cannot be recovered");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let content = get(fs, &file).await;
            let records = decode(&content).unwrap_or_else(|why| panic!("{file}: {why}"));
            let records = records
                .iter()
                .map(|placed| (placed.at, placed.record, placed.length, placed.whole))
                .collect();
            found.push(Operation {
                client: 0,
                begin: since,
                end: since + 1,
                call: Call::Read {
                    path: file,
                    found: Found::This(Content {
                        object: status.object_id,
                        length: content.len() as u64,
                        records,
                    }),
                },
            });
        }
    }
    found
}

/// The folder that an operation is about.
fn folder_of(operation: &Operation) -> Option<&str> {
    let path = match &operation.call {
        Call::Open { path, .. } | Call::Read { path, .. } | Call::Delete { path, .. } => path,
        Call::Rename { from, .. } => from,
        Call::Sync { .. } | Call::Recover => return None,
    };
    path.rsplit_once('/').map(|(folder, _)| folder)
}

fn check(history: &[Operation]) -> Vec<String> {
    let mut wrong = files::check(history);
    let mut folders: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        if let Some(folder) = folder_of(operation) {
            folders.entry(folder).or_default().push(operation);
        }
    }
    for (folder, operations) in folders {
        match names::check(&operations) {
            Verdict::Linearizable => {}
            Verdict::Not(stuck) => wrong.push(format!(
                "no order explains the names in {folder}; none of these can come next:\n{}",
                stuck.join("\n")
            )),
            Verdict::GivenUp => wrong.push(format!("the names in {folder} take too long to check")),
        }
    }
    wrong
}

/// The history with a lie in the last look: no file has its last record, or each name stands for another object.
fn lies(history: &[Operation]) -> [Vec<Operation>; 2] {
    let told = |change: fn(&mut Content)| {
        let mut history = history.to_vec();
        for operation in history.iter_mut().filter(|operation| operation.client == 0) {
            if let Call::Read {
                found: Found::This(content),
                ..
            } = &mut operation.call
            {
                change(content);
            }
        }
        history
    };
    [
        told(|content| content.length = content.records.pop().map_or(0, |(at, ..)| at)),
        told(|content| content.object += 1),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_killed_the_history_is_one_of_a_file_system() {
    let seed = setting("APPEND_CHAOS_SEED", rand::rng().random());
    let faults = setting("APPEND_CHAOS_FAULTS", 12);
    println!("chaos: seed {seed}, {faults} faults");
    let settings = [&QUICK[..], &["ozone.om.lease.soft.limit=3s"]].concat();
    let world = World::start(DATANODES, &settings).await;
    let fs = world.client().await;
    for folder in 0..FOLDERS {
        fs.mkdirs(&path(&format!("d{folder}")), true).await.unwrap();
    }
    let mut chaos = Chaos {
        world,
        clients: Vec::new(),
        started: 0,
        random: StdRng::seed_from_u64(seed),
        history: Vec::new(),
        tally: Tally::new(),
        clock: WrongClock::build(),
        kinds: KINDS.to_vec(),
    };
    if std::env::var_os("APPEND_CHAOS_NET").is_some() {
        chaos.kinds.extend(CUTS);
    } else {
        println!("chaos: no ports are cut, because this runs in no network namespace of its own");
    }
    tokio::task::block_in_place(|| {
        for _ in 0..CLIENTS {
            let client = chaos.client();
            chaos.clients.push(client);
        }
        for _ in 0..faults {
            chaos.progress();
            chaos.fault();
        }
        chaos.progress();
        for client in std::mem::take(&mut chaos.clients) {
            chaos.history.extend(client.end(true));
        }
        chaos.world.leader();
    });
    let ends = chaos.history.iter().map(|operation| operation.end);
    let last = ends.filter(|end| *end != history::NEVER).max().unwrap_or(0);
    let again = look_again(&fs, last + 1).await;
    chaos.history.extend(again);
    fs.close().await;
    let wrong = check(&chaos.history);
    let unknown = chaos
        .history
        .iter()
        .filter(|operation| operation.end == history::NEVER);
    let hit: u64 = chaos.tally.values().map(|(_, hit)| hit).sum();
    for (kind, (done, hit)) in &chaos.tally {
        println!("chaos: {kind}: {done}, {hit} with operations under way");
    }
    println!(
        "chaos: seed {seed}, faults {faults}, in flight {hit}, operations {}, {} of them without an end, violations {}",
        chaos.history.len(),
        unknown.count(),
        wrong.len()
    );
    // What passes must be able to fail.
    for lie in lies(&chaos.history) {
        assert!(!check(&lie).is_empty(), "seed {seed}: a lie was believed");
    }
    tokio::task::block_in_place(|| chaos.world.finish());
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
}
