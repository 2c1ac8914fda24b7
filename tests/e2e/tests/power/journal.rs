//! The journal that the preloaded shim writes: every change of a file or folder, and every fsync, in order.

use std::path::Path;

/// What happened. Paths are below the data folder; "" is the folder itself. Files are named by their inode.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create(String),
    Write(u64, Vec<u8>),
    /// The file was cut, or extended, to this length.
    Truncate(u64),
    /// The file has at least this length.
    Allocate(u64),
    Rename(String, String),
    Unlink(String),
    Mkdir(String),
    Rmdir(String),
    Sync,
    SyncDir(String),
}

/// One record.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) op: Op,
    pub(crate) inode: u64,
    /// Which fsync of the program this is; 0 for what is none.
    pub(crate) site: u64,
    /// Bytes of the journal up to the end of this record.
    pub(crate) end: u64,
}

const HEADER: usize = 33;

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn length(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())).unwrap()
}

/// Reads a whole journal.
pub(crate) fn read(path: &Path) -> Vec<Event> {
    let bytes = std::fs::read(path).unwrap();
    let mut events = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let head = &bytes[at..at + HEADER];
        let (site, inode, a) = (number(head, 1), number(head, 9), number(head, 17));
        let (paths, data) = (length(head, 25), length(head, 29));
        let text = |from: usize, count: usize| {
            String::from_utf8(bytes[from..from + count].to_vec()).unwrap()
        };
        let name = text(at + HEADER, paths);
        let behind = at + HEADER + paths;
        let op = match head[0] {
            1 => Op::Create(name),
            2 => Op::Write(a, bytes[behind..behind + data].to_vec()),
            3 => Op::Truncate(a),
            4 => Op::Rename(name, text(behind, data)),
            5 => Op::Unlink(name),
            6 => Op::Mkdir(name),
            7 => Op::Rmdir(name),
            8 => Op::Sync,
            9 => Op::SyncDir(name),
            10 => Op::Allocate(a),
            other => {
                panic!("the server did what a power cut cannot be replayed for: {other} {name}")
            }
        };
        at = behind + data;
        events.push(Event {
            op,
            inode,
            site,
            end: u64::try_from(at).unwrap(),
        });
    }
    events
}
