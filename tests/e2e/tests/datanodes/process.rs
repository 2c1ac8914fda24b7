//! A datanode as a process of its own, on a folder that outlives it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use append_e2e::binary;
use tempfile::TempDir;

/// Killed, and its folder removed, when this is dropped.
pub(crate) struct Datanode {
    child: Option<Child>,
    folder: TempDir,
    /// Where it answers, the same after each start.
    pub(crate) address: String,
    pub(crate) uuid: String,
}

impl Datanode {
    pub(crate) fn start() -> Datanode {
        let mut datanode = Datanode {
            child: None,
            folder: tempfile::tempdir().unwrap(),
            address: "127.0.0.1:0".to_owned(),
            uuid: String::new(),
        };
        datanode.run();
        datanode
    }

    /// Starts it on its folder.
    pub(crate) fn run(&mut self) {
        let mut child = Command::new(binary())
            .arg("datanode")
            .arg("--data")
            .arg(self.folder.path())
            .args(["--listen", &self.address])
            .env("APPEND_LOG", "warn")
            .env_remove("HADOOP_CONF_DIR")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.find_map(|line| line.ok()?.strip_prefix("ready ").map(str::to_owned));
        self.child = Some(child);
        let ready = ready.expect("the datanode ended before it served");
        let (uuid, address) = ready.split_once(' ').unwrap();
        (self.uuid, self.address) = (uuid.to_owned(), address.to_owned());
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Killed, and started at another address.
    pub(crate) fn move_away(&mut self) {
        self.kill();
        "127.0.0.1:0".clone_into(&mut self.address);
        self.run();
    }

    /// Killed; another one with a folder of its own answers in its place until that is dropped.
    pub(crate) fn replaced(&mut self) -> Datanode {
        self.kill();
        let mut other = Datanode {
            child: None,
            folder: tempfile::tempdir().unwrap(),
            address: self.address.clone(),
            uuid: String::new(),
        };
        other.run();
        other
    }

    /// `STOP` or `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Bytes in its container files.
    pub(crate) fn bytes(&self) -> u64 {
        fn below(folder: &Path) -> u64 {
            let entries = std::fs::read_dir(folder).unwrap();
            entries
                .map(|entry| {
                    let entry = entry.unwrap();
                    let metadata = entry.metadata().unwrap();
                    if metadata.is_dir() {
                        below(&entry.path())
                    } else {
                        metadata.len()
                    }
                })
                .sum()
        }
        below(&self.folder.path().join("containers"))
    }
}

impl Drop for Datanode {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
