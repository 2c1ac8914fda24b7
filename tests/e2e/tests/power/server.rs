//! The server process of these tests, with or without the shim.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use append_e2e::binary;

/// Where changes are written down.
#[derive(Debug, Clone)]
pub(crate) struct Shim {
    pub(crate) library: PathBuf,
    pub(crate) journal: PathBuf,
}

impl Shim {
    /// Compiles the shim into `folder`.
    pub(crate) fn build(folder: &Path) -> Shim {
        let library = folder.join("power.so");
        let compiled = Command::new("cc")
            .args([
                "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
            ])
            .arg(&library)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power/power.c"))
            .output()
            .expect("a C compiler, cc");
        assert!(compiled.status.success(), "{compiled:?}");
        Shim {
            library,
            journal: folder.join("journal"),
        }
    }

    /// Bytes of the journal now: whatever was answered before has its changes before this.
    pub(crate) fn position(&self) -> u64 {
        std::fs::metadata(&self.journal).map_or(0, |journal| journal.len())
    }
}

/// A server, killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    http: String,
    errors: PathBuf,
}

impl Server {
    /// Starts it on `data` and waits until it serves; gives what it said when it did not. What it does is written down if `recorded`.
    pub(crate) fn start(
        data: &Path,
        shim: &Shim,
        recorded: bool,
        listen: &str,
        errors: &Path,
    ) -> Result<Server, String> {
        let mut command = Command::new(binary());
        command
            .arg("serve")
            .arg("--data")
            .arg(data)
            .args(["--listen", listen, "--http", "127.0.0.1:0"])
            // Small files, so that they are changed, cut and removed.
            .args(["-D", "libappend.om.log.segment.bytes=2KB"])
            .args(["-D", "libappend.datanode.container.bytes=64KB"])
            .env("APPEND_LOG", "warn")
            .env_remove("HADOOP_CONF_DIR")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(errors).unwrap());
        command.env("LD_PRELOAD", &shim.library);
        if recorded {
            command
                .env("APPEND_POWER_ROOT", data)
                .env("APPEND_POWER_JOURNAL", &shim.journal);
        } else {
            command.env("APPEND_POWER_QUICK", "1");
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line =
            |start: &str| lines.find_map(|line| line.ok()?.strip_prefix(start).map(str::to_owned));
        let (http, address) = (line("http http://"), line("ready ofs://"));
        let mut server = Server {
            child,
            address: address.unwrap_or_default(),
            http: http.unwrap_or_default(),
            errors: errors.to_owned(),
        };
        if server.address.is_empty() {
            // It has ended or is about to: it has closed its output.
            let _ = server.child.wait();
            return Err(format!("the server does not start: {}", server.said()));
        }
        Ok(server)
    }

    /// What it printed on standard error.
    pub(crate) fn said(&self) -> String {
        let mut text = String::new();
        let file = std::fs::File::open(&self.errors);
        file.and_then(|mut file| file.read_to_string(&mut text))
            .unwrap();
        text
    }

    /// Has it take a checkpoint.
    pub(crate) fn checkpoint(&self) {
        let asked = Command::new(binary())
            .args(["admin", "checkpoint", "--http", &self.http])
            .env_remove("HADOOP_CONF_DIR")
            .output()
            .unwrap();
        assert!(asked.status.success(), "{asked:?}");
    }

    /// Ends it between two changes of the disk, as a kill would, but with the journal whole.
    /// With a signal's name it ends where an fsync was about to cover something; the shim says of what.
    pub(crate) fn end_between_changes(&mut self, at: Option<&str>) {
        let pid = self.child.id().to_string();
        if let Some(signal) = at {
            let signalled = Command::new("kill").args(["-s", signal, &pid]).status();
            assert!(signalled.unwrap().success());
            let deadline = Instant::now() + Duration::from_secs(10);
            while Instant::now() < deadline && self.child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        if self.child.try_wait().unwrap().is_some() {
            return;
        }
        let signalled = Command::new("kill")
            .args(["-s", "USR1", &pid])
            .status()
            .unwrap();
        assert!(signalled.success());
        let deadline = Instant::now() + Duration::from_millis(500);
        while Instant::now() < deadline && self.child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that changes nothing now will not begin to: every change ends it first.
        self.kill();
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `append admin fsck`; gives what it found.
pub(crate) fn fsck(data: &Path, shim: &Shim) -> Result<(), String> {
    let output = Command::new(binary())
        .args(["admin", "fsck", "--data"])
        .arg(data)
        .env_remove("HADOOP_CONF_DIR")
        .env("LD_PRELOAD", &shim.library)
        .env("APPEND_POWER_QUICK", "1")
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "fsck: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}
