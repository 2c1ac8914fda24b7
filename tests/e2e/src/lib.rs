//! What the end-to-end tests share: a real server process, clients of it, and bytes that tell where they belong.
//!
//! The server is the binary `append`, which the workspace's build leaves beside the test programs; `APPEND_BIN` names another.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

pub mod records;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use append_client::admin::{BucketLayout, BucketOptions, VolumeOptions};
use append_client::{Config, CreateOptions, FileSystem, FsPath};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The binary under test.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("APPEND_BIN") {
        return PathBuf::from(named);
    }
    let test = std::env::current_exe().expect("a test program has a path");
    let folder = test
        .parent()
        .and_then(Path::parent)
        .expect("target/<profile>/deps");
    let binary = folder.join("append");
    assert!(
        binary.is_file(),
        "{} is missing: build append-cli first, or set APPEND_BIN",
        binary.display()
    );
    binary
}

/// A server process on a folder of its own. It is killed, and the folder removed, when this is dropped.
pub struct Server {
    child: Option<Child>,
    address: String,
    http: String,
    settings: Vec<String>,
    /// What stands in front of the binary.
    inside: Vec<String>,
    environment: Vec<(String, String)>,
    data: TempDir,
}

impl Server {
    /// Starts a server on a fresh folder and waits until it serves.
    #[must_use]
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// As [`Server::start`], with settings as `key=value`.
    #[must_use]
    pub fn with(settings: &[&str]) -> Server {
        Server::on(tempfile::tempdir().unwrap(), settings, &[], &[])
    }

    /// As [`Server::with`], on a folder, with variables in its environment, and run by the command `inside`, which must become it.
    #[must_use]
    pub fn on(
        data: TempDir,
        settings: &[&str],
        environment: &[(&str, &str)],
        inside: &[&str],
    ) -> Server {
        let mut server = Server {
            child: None,
            address: "127.0.0.1:0".to_owned(),
            http: String::new(),
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            inside: inside.iter().map(|&part| part.to_owned()).collect(),
            environment: environment
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            data,
        };
        server.run();
        server
    }

    fn run(&mut self) {
        let mut command = match self.inside.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary());
                command
            }
            None => Command::new(binary()),
        };
        command
            .arg("serve")
            .arg("--data")
            .arg(self.data.path())
            .args(["--listen", &self.address, "--http", "127.0.0.1:0"])
            .env("APPEND_LOG", "warn")
            .env_remove("HADOOP_CONF_DIR")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped());
        for setting in &self.settings {
            command.args(["-D", setting]);
        }
        let mut child = command.spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut http = String::new();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            if let Some(address) = line.strip_prefix("http http://") {
                address.clone_into(&mut http);
            }
            line.strip_prefix("ready ofs://").map(str::to_owned)
        });
        self.child = Some(child);
        self.http = http;
        self.address = address.expect("the server ended before it served");
    }

    /// Its URI.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("ofs://{}/", self.address)
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Resident memory of its process, bytes.
    #[must_use]
    pub fn resident(&self) -> u64 {
        resident(self.pid())
    }

    /// Starts it again on its folder and port.
    pub fn restart(&mut self) {
        self.kill();
        self.run();
    }

    /// As [`Server::restart`], with other settings.
    pub fn restart_with(&mut self, settings: &[&str]) {
        self.settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        self.restart();
    }

    /// A page of its HTTP port.
    pub async fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// A client with default settings.
    pub async fn client(&self) -> FileSystem {
        self.client_with(config()).await
    }

    /// A client with settings.
    pub async fn client_with(&self, config: Config) -> FileSystem {
        FileSystem::connect(&self.uri(), config).await.unwrap()
    }

    /// A client, and a bucket of a layout at [`BUCKET`].
    pub async fn bucket(&self, layout: BucketLayout) -> FileSystem {
        self.bucket_with(layout, config()).await
    }

    /// As [`Server::bucket`], for a client with settings.
    pub async fn bucket_with(&self, layout: BucketLayout, config: Config) -> FileSystem {
        let fs = self.client_with(config).await;
        let bucket = FsPath::parse(BUCKET).unwrap();
        fs.create_volume(bucket.volume(), &VolumeOptions::default())
            .await
            .unwrap();
        let options = BucketOptions {
            layout: Some(layout),
            ..BucketOptions::default()
        };
        fs.create_bucket(bucket.volume(), bucket.bucket(), &options)
            .await
            .unwrap();
        fs
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Resident memory of a process, bytes.
#[must_use]
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a process that lives has resident memory");
    let kib: u64 = line.trim_end_matches("kB").trim().parse().unwrap();
    kib * 1024
}

/// `append admin fsck` on a data folder that no server uses, run by the command `inside`; panics with what it found.
pub fn fsck(data: &Path, inside: &[&str]) {
    let mut command = match inside.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(binary());
            command
        }
        None => Command::new(binary()),
    };
    let output = command
        .args(["admin", "fsck", "--data"])
        .arg(data)
        .env_remove("HADOOP_CONF_DIR")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The bucket that tests work in.
pub const BUCKET: &str = "/vol/bucket";

/// A path in [`BUCKET`].
#[must_use]
pub fn path(name: &str) -> String {
    format!("{BUCKET}/{name}")
}

/// Settings of a client that does not wait long.
#[must_use]
pub fn config() -> Config {
    Config::empty()
        .with_user("ann")
        .with("ozone.client.wait.between.retries.millis", "50ms")
}

/// Settings of a client process from its arguments, `key=value` each; `user` names the user.
///
/// # Errors
/// An argument of another form.
pub fn settings(arguments: impl Iterator<Item = String>) -> Result<Config, &'static str> {
    let mut config = Config::empty();
    for setting in arguments {
        let (key, value) = setting.split_once('=').ok_or("a setting is KEY=VALUE")?;
        if key == "user" {
            config = config.with_user(value);
        } else {
            config.set(key, value);
        }
    }
    Ok(config)
}

/// Bytes without a pattern, the same for the same seed.
#[must_use]
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Creates a file with a content, replacing what is there.
pub async fn put(fs: &FileSystem, path: &str, content: &[u8]) {
    let stream = fs.create(path, &CreateOptions::default()).await.unwrap();
    stream.write(content).await.unwrap();
    stream.close().await.unwrap();
}

/// Appends to a file in one session.
pub async fn append(fs: &FileSystem, path: &str, more: &[u8]) {
    let stream = fs.append(path).open().await.unwrap();
    stream.write(more).await.unwrap();
    stream.close().await.unwrap();
}

/// The whole content of a file.
pub async fn get(fs: &FileSystem, path: &str) -> Vec<u8> {
    let reader = fs.open(path).await.unwrap();
    let mut content = vec![0; usize::try_from(reader.len()).unwrap()];
    assert_eq!(
        reader.read_at(0, &mut content).await.unwrap(),
        content.len()
    );
    content
}
