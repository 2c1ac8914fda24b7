//! Faults of what is around the processes: the network's ports and the wall clock.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

fn iptables(arguments: &[&str]) {
    let done = Command::new("iptables")
        .arg("-w")
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "iptables {arguments:?}: {done:?}");
}

/// Nothing goes to a port or comes from it, as long as this is there; connections are not ended, they are silent.
pub(crate) struct Cut(String);

impl Cut {
    pub(crate) fn of(port: u16) -> Cut {
        let cut = Cut(port.to_string());
        cut.rules("-A");
        cut
    }

    fn rules(&self, what: &str) {
        for side in ["--dport", "--sport"] {
            iptables(&[what, "INPUT", "-p", "tcp", side, &self.0, "-j", "DROP"]);
        }
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.rules("-D");
    }
}

/// A library for processes whose wall clock is wrong.
pub(crate) struct WrongClock {
    library: PathBuf,
    _folder: TempDir,
}

impl WrongClock {
    pub(crate) fn build() -> WrongClock {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/chaos/clock.c");
        let built = Command::new("cc")
            .args(["-O1", "-fPIC", "-shared", "-o"])
            .arg(&library)
            .arg(source)
            .status()
            .unwrap();
        assert!(built.success());
        WrongClock {
            library,
            _folder: folder,
        }
    }

    /// Calls with the variables of a process whose clock is so many hours off.
    pub(crate) fn with(&self, hours: i32, call: impl FnOnce(&[(&str, &str)])) {
        let library = self.library.to_str().unwrap();
        let hours = hours.to_string();
        call(&[("LD_PRELOAD", library), ("APPEND_CLOCK_HOURS", &hours)]);
    }
}
