//! The fsyncs of the program: which there are, and where in the program they stand.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use append_e2e::binary;

/// One fsync of the program, told apart by the innermost frames of its callers.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// The file or folder that it was called for first.
    pub(crate) path: String,
    /// A file or a folder.
    pub(crate) kind: String,
    frames: Vec<String>,
}

impl Site {
    /// The callers inside the program, innermost first; addresses where no `addr2line` is.
    pub(crate) fn callers(&self) -> String {
        let shown = Command::new("addr2line")
            .args(["-f", "-C", "-s", "-e"])
            .arg(binary())
            .args(&self.frames)
            .output();
        match shown {
            Ok(output) if output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let names: Vec<&str> = text
                    .lines()
                    .step_by(2)
                    .filter(|name| !name.contains("std::") && !name.starts_with("core::"))
                    .take(4)
                    .collect();
                names.join(" < ")
            }
            _ => self.frames.join(" "),
        }
    }
}

/// All that the shim met.
pub(crate) fn read(journal: &Path) -> BTreeMap<u64, Site> {
    let mut name = journal.as_os_str().to_owned();
    name.push(".sites");
    let text = std::fs::read_to_string(name).unwrap();
    text.lines()
        .map(|line| {
            let mut parts = line.split(' ').map(str::to_owned);
            let hash = u64::from_str_radix(&parts.next().unwrap(), 16).unwrap();
            let site = Site {
                kind: parts.next().unwrap(),
                path: parts.next().unwrap(),
                frames: parts.collect(),
            };
            (hash, site)
        })
        .collect()
}
