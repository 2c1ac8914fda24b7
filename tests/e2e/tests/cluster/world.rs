//! A group of server processes and the datanode processes that keep their blocks, on the loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use append_client::admin::{BucketLayout, BucketOptions, VolumeOptions};
use append_client::{Config, FileSystem, FsPath};
use append_e2e::{BUCKET, binary, config};
use rand::Rng;
use tempfile::TempDir;

/// However long something may take on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Elections within a second, so that a test with many of them ends.
pub(crate) const QUICK: [&str; 2] = [
    "libappend.om.group.heartbeat=100ms",
    "libappend.om.group.election.timeout=600ms",
];

/// Waits for a condition.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that nothing uses, that the system gives to nobody by itself, and that this process did not give before.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    // Far from where another run of the tests began.
    static BEGIN: LazyLock<u16> = LazyLock::new(|| rand::rng().random_range(0..COUNT));
    loop {
        let at = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (*BEGIN + at) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A process that is killed when this is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let done = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .unwrap();
        assert!(done.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(command: &mut Command) -> (Process, BufReader<std::process::ChildStdout>) {
    let mut child = command
        .env(
            "APPEND_LOG",
            std::env::var("APPEND_LOG").unwrap_or_else(|_| "warn".to_owned()),
        )
        .env_remove("HADOOP_CONF_DIR")
        .env_remove("HADOOP_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (Process(child), out)
}

fn line(out: &mut impl BufRead, start: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(
            out.read_line(&mut line).unwrap(),
            0,
            "it ended before it was ready"
        );
        if let Some(rest) = line.trim_end().strip_prefix(start) {
            return rest.to_owned();
        }
    }
}

/// A server: where it is, and its process while it runs.
pub(crate) struct Member {
    pub(crate) data: PathBuf,
    client: u16,
    http: u16,
    process: Option<Process>,
}

/// A datanode: where it is, and its process while it runs.
struct Datanode {
    data: PathBuf,
    port: u16,
    process: Option<Process>,
}

impl Datanode {
    /// Starts it on what it has, and waits until it serves.
    fn run(&mut self) {
        let mut command = Command::new(binary());
        command.arg("datanode").arg("--data").arg(&self.data);
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        let (process, mut out) = spawn(&mut command);
        line(&mut out, "ready ");
        self.process = Some(process);
    }
}

/// See the module.
pub(crate) struct World {
    folder: TempDir,
    pub(crate) members: BTreeMap<u64, Member>,
    peers: BTreeMap<u64, u16>,
    datanodes: Vec<Datanode>,
    settings: Vec<String>,
}

impl World {
    /// Three servers and `datanodes` datanodes; founded, and with a bucket.
    pub(crate) async fn start(datanodes: usize, settings: &[&str]) -> World {
        let mut world = World::bare(datanodes, settings);
        for id in 1..=3 {
            world.add(id);
        }
        // The first waits for the others.
        let mut outs: Vec<_> = (1..=3)
            .map(|id| world.spawn(id, if id == 1 { &["--found"] } else { &[] }))
            .collect();
        for out in &mut outs {
            line(out, "ready ");
        }
        world.leader();
        world.bucket().await;
        world
    }

    /// No server yet.
    pub(crate) fn bare(datanodes: usize, settings: &[&str]) -> World {
        let folder = tempfile::tempdir().unwrap();
        let datanodes = (0..datanodes)
            .map(|at| {
                let mut datanode = Datanode {
                    data: folder.path().join(format!("datanode{at}")),
                    port: port(),
                    process: None,
                };
                datanode.run();
                datanode
            })
            .collect();
        World {
            folder,
            members: BTreeMap::new(),
            peers: BTreeMap::new(),
            datanodes,
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
        }
    }

    /// Makes a place for a server.
    pub(crate) fn add(&mut self, id: u64) {
        let data = self.folder.path().join(format!("server{id}"));
        self.peers.insert(id, port());
        let member = Member {
            data,
            client: port(),
            http: port(),
            process: None,
        };
        self.members.insert(id, member);
    }

    pub(crate) fn peers(&self) -> String {
        let peers = self.peers.iter();
        let peers: Vec<_> = peers
            .map(|(id, port)| format!("{id}=127.0.0.1:{port}"))
            .collect();
        peers.join(",")
    }

    pub(crate) fn peer(&self, id: u64) -> String {
        format!("127.0.0.1:{}", self.peers[&id])
    }

    pub(crate) fn client_address(&self, id: u64) -> String {
        format!("127.0.0.1:{}", self.members[&id].client)
    }

    pub(crate) fn datanodes(&self) -> String {
        let addresses = self.datanodes.iter();
        let addresses = addresses.map(|datanode| format!("127.0.0.1:{}", datanode.port));
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Kills a datanode, as `kill -9` does.
    pub(crate) fn kill_datanode(&mut self, at: usize) {
        drop(self.datanodes[at].process.take());
    }

    /// Starts a datanode on what it has, and waits until it serves.
    pub(crate) fn run_datanode(&mut self, at: usize) {
        self.datanodes[at].run();
    }

    pub(crate) fn signal_datanode(&self, at: usize, name: &str) {
        self.datanodes[at].process.as_ref().unwrap().signal(name);
    }

    /// The command that serves `id`.
    pub(crate) fn command(&self, id: u64, more: &[&str]) -> Command {
        let member = &self.members[&id];
        let mut command = Command::new(binary());
        command
            .arg("serve")
            .arg("--data")
            .arg(&member.data)
            .args(["--listen", &format!("127.0.0.1:{}", member.client)])
            .args(["--http", &format!("127.0.0.1:{}", member.http)]);
        if !self.datanodes.is_empty() {
            command.args(["--datanodes", &self.datanodes()]);
        }
        for setting in &self.settings {
            command.args(["-D", setting]);
        }
        command.args(more);
        command
    }

    fn spawn(&mut self, id: u64, more: &[&str]) -> BufReader<std::process::ChildStdout> {
        let mut command = self.command(id, more);
        command.args(["--id", &id.to_string(), "--peers", &self.peers()]);
        let (process, out) = spawn(&mut command);
        self.members.get_mut(&id).unwrap().process = Some(process);
        out
    }

    /// Starts a server on what it has, and waits until it serves.
    pub(crate) fn run(&mut self, id: u64) {
        let mut out = self.spawn(id, &[]);
        line(&mut out, "ready ");
    }

    /// As [`World::run`], with variables in its environment.
    pub(crate) fn run_in(&mut self, id: u64, environment: &[(&str, &str)]) {
        let mut command = self.command(id, &[]);
        command.args(["--id", &id.to_string(), "--peers", &self.peers()]);
        command.envs(environment.iter().copied());
        let (process, mut out) = spawn(&mut command);
        self.members.get_mut(&id).unwrap().process = Some(process);
        line(&mut out, "ready ");
    }

    /// Where the other servers find a server.
    pub(crate) fn peer_port(&self, id: u64) -> u16 {
        self.peers[&id]
    }

    /// Where clients find a server.
    pub(crate) fn client_port(&self, id: u64) -> u16 {
        self.members[&id].client
    }

    /// Where everybody finds a datanode.
    pub(crate) fn datanode_port(&self, at: usize) -> u16 {
        self.datanodes[at].port
    }

    /// Starts a server on what it has and waits for nothing.
    pub(crate) fn launch(&mut self, id: u64) {
        drop(self.spawn(id, &[]));
    }

    /// Kills a server, as `kill -9` does.
    pub(crate) fn kill(&mut self, id: u64) {
        drop(self.members.get_mut(&id).unwrap().process.take());
    }

    /// Ends a server in good order.
    pub(crate) fn stop(&mut self, id: u64) {
        let mut process = self.members.get_mut(&id).unwrap().process.take().unwrap();
        process.signal("TERM");
        let status = process.0.wait().unwrap();
        assert_eq!(
            status.code(),
            Some(0),
            "server {id} did not stop in good order"
        );
    }

    pub(crate) fn signal(&self, id: u64, name: &str) {
        self.members[&id].process.as_ref().unwrap().signal(name);
    }

    pub(crate) fn running(&self) -> Vec<u64> {
        let running = self
            .members
            .iter()
            .filter(|(_, member)| member.process.is_some());
        running.map(|(id, _)| *id).collect()
    }

    /// A page of a server, if it answers soon.
    pub(crate) fn page(&self, id: u64, page: &str) -> Option<String> {
        let address = ([127, 0, 0, 1], self.members[&id].http).into();
        let soon = Duration::from_millis(500);
        let mut stream = TcpStream::connect_timeout(&address, soon).ok()?;
        stream.set_read_timeout(Some(soon)).ok()?;
        write!(
            stream,
            "GET {page} HTTP/1.0\r\nHost: x\r\nX-Append-Admin: 1\r\n\r\n"
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// The server that says of itself that it leads, `not` among those that are not asked.
    pub(crate) fn leader_among(&self, ids: &[u64]) -> u64 {
        until("a leader", || {
            ids.iter().copied().find(|id| {
                let says = format!("\"id\":{id},\"leads\":true");
                self.page(*id, "/admin/members")
                    .is_some_and(|page| page.contains(&says))
            })
        })
    }

    pub(crate) fn leader(&self) -> u64 {
        self.leader_among(&self.running())
    }

    /// What a server counts under a name.
    pub(crate) fn count(&self, id: u64, name: &str) -> Option<f64> {
        let page = self.page(id, "/prom")?;
        let found = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Some(found.map_or(0.0, |count| count.parse().unwrap()))
    }

    /// Waits until a server has applied what the leader has now.
    pub(crate) fn catch_up(&self, id: u64) {
        let name = "append_applied_index";
        let leader = self.leader();
        let wanted = until("the leader's index", || self.count(leader, name));
        until("a server to catch up", || {
            self.count(id, name).filter(|index| *index >= wanted)
        });
    }

    /// `append admin`, asked of a server.
    pub(crate) fn admin(&self, id: u64, args: &[&str]) -> Output {
        let http = format!("127.0.0.1:{}", self.members[&id].http);
        append(&[args, &["--http", &http]].concat())
    }

    /// Where all servers are, as settings of a client.
    pub(crate) fn addresses(&self) -> Vec<(String, String)> {
        let names: Vec<_> = self.members.keys().map(|id| format!("om{id}")).collect();
        let mut settings = vec![
            ("ozone.om.service.ids".to_owned(), "group".to_owned()),
            ("ozone.om.nodes.group".to_owned(), names.join(",")),
            ("libappend.om.attempt.timeout".to_owned(), "1s".to_owned()),
        ];
        for id in self.members.keys() {
            let key = format!("ozone.om.address.group.om{id}");
            settings.push((key, self.client_address(*id)));
        }
        settings
    }

    /// Settings of a client that knows all servers.
    pub(crate) fn config(&self) -> Config {
        let mut config = config();
        for (key, value) in self.addresses() {
            config.set(key, value);
        }
        config
    }

    pub(crate) async fn client(&self) -> FileSystem {
        FileSystem::connect("ofs://group/", self.config())
            .await
            .unwrap()
    }

    async fn bucket(&self) {
        let fs = self.client().await;
        let bucket = FsPath::parse(BUCKET).unwrap();
        let volume = VolumeOptions::default();
        fs.create_volume(bucket.volume(), &volume).await.unwrap();
        let options = BucketOptions {
            layout: Some(BucketLayout::FileSystemOptimized),
            ..BucketOptions::default()
        };
        let made = fs.create_bucket(bucket.volume(), bucket.bucket(), &options);
        made.await.unwrap();
    }

    /// Stops everything in good order and checks each server's folder.
    pub(crate) fn finish(mut self) {
        for id in self.running() {
            self.stop(id);
        }
        for member in self.members.values().filter(|member| member.data.exists()) {
            append_e2e::fsck(&member.data, &[]);
        }
    }
}

/// The binary with arguments of `append admin`.
pub(crate) fn append(args: &[&str]) -> Output {
    Command::new(binary())
        .arg("admin")
        .args(args)
        .env_remove("HADOOP_CONF_DIR")
        .env_remove("HADOOP_HOME")
        .output()
        .unwrap()
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
