//! What the rows say, read without any of the rules' code: the tree from the root, the contents, the sessions.

use crate::command::Layout;
use crate::key;
use crate::record::{
    AllocationRow, BlockRow, DeletedDirRow, DeletedFileRow, DirRow, FileRow, ListRow, OpenRow,
    RenewalRow,
};
use crate::reply::Phase;
use crate::rows::{Keyspace, Rows};
use crate::testing::MemoryRows;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// One written byte (a stand-in for any number of them): which session wrote it, as its how-manieth.
pub(crate) type Unit = (u64, u8);

/// What a datanode holds of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) units: Vec<Unit>,
    /// Offset in the file of its first byte (`appendStart`).
    pub(crate) start: usize,
    /// Finalized by a recovery: writes are refused.
    pub(crate) sealed: bool,
}

pub(crate) type Replicas = BTreeMap<u64, Replica>;

/// A file that can be reached from the root.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenFile {
    pub(crate) path: String,
    pub(crate) row: FileRow,
    pub(crate) content: Vec<Unit>,
    pub(crate) blocks: Vec<u64>,
}

/// An open row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenSession {
    pub(crate) row: OpenRow,
    pub(crate) renewed: Option<RenewalRow>,
    /// Blocks given to it and not yet listed or released, in the order in which they were given.
    pub(crate) given: Vec<u64>,
}

impl SeenSession {
    pub(crate) fn phase(&self) -> Phase {
        Phase::try_from(self.row.phase).unwrap_or(Phase::Invalidated)
    }

    pub(crate) fn is_append(&self) -> bool {
        self.row.append.is_some()
    }
}

/// The rows in plain words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) bucket: u64,
    /// Reachable files by identity.
    pub(crate) files: BTreeMap<u64, SeenFile>,
    /// Identity by path.
    pub(crate) paths: BTreeMap<String, u64>,
    /// Reachable directories: path and identity (0 when only implied by a name).
    pub(crate) dirs: BTreeMap<String, u64>,
    pub(crate) sessions: BTreeMap<u64, SeenSession>,
    /// Blocks: the session that each was given to, and whether a list names it.
    pub(crate) blocks: BTreeMap<u64, BlockRow>,
    /// Deleted trees, by command and ordinal.
    pub(crate) trees: Vec<(u64, u32, DeletedDirRow)>,
    /// Blocks that were handed to reclamation.
    pub(crate) handed: BTreeSet<u64>,
    /// What is wrong with all that at the first look.
    pub(crate) broken: Vec<String>,
}

fn all(rows: &MemoryRows, keyspace: Keyspace) -> Vec<(bytes::Bytes, bytes::Bytes)> {
    rows.range(keyspace, &[], None, usize::MAX)
        .unwrap_or_default()
}

fn number(key: &[u8], at: usize) -> u64 {
    key::number_at(key, at).unwrap_or_default()
}

fn decode<M: Message + Default>(value: &[u8]) -> M {
    M::decode(value).unwrap_or_default()
}

impl Facts {
    pub(crate) fn read(rows: &MemoryRows, replicas: &Replicas, layout: Layout) -> Facts {
        let mut facts = Facts {
            bucket: all(rows, Keyspace::BucketPlaces)
                .first()
                .map_or(0, |(key, _)| number(key, 0)),
            ..Facts::default()
        };
        let mut files: BTreeMap<u64, Vec<(String, FileRow)>> = BTreeMap::new();
        for (key, value) in all(rows, Keyspace::Files) {
            let name = String::from_utf8_lossy(&key[16..]).into_owned();
            files
                .entry(number(&key, 8))
                .or_default()
                .push((name, decode(&value)));
        }
        let mut dirs: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
        for (key, value) in all(rows, Keyspace::Dirs) {
            let name = String::from_utf8_lossy(&key[16..]).into_owned();
            let row: DirRow = decode(&value);
            dirs.entry(number(&key, 8))
                .or_default()
                .push((name, row.object_id));
        }
        let top = match layout {
            Layout::FileSystemOptimized => facts.bucket,
            Layout::Legacy | Layout::ObjectStore => 0,
        };
        let mut lists: BTreeMap<(u64, u64), Vec<ListRow>> = BTreeMap::new();
        for (key, value) in all(rows, Keyspace::Lists) {
            lists
                .entry((number(&key, 0), number(&key, 8)))
                .or_default()
                .push(decode(&value));
        }
        let mut left = vec![(String::new(), top)];
        while let Some((above, id)) = left.pop() {
            let join = |name: &str| {
                if above.is_empty() {
                    name.to_owned()
                } else {
                    format!("{above}/{name}")
                }
            };
            for (name, row) in files.get(&id).into_iter().flatten() {
                let path = join(name);
                if let Some(directory) = path.strip_suffix('/') {
                    facts.dirs.insert(directory.to_owned(), 0);
                    continue;
                }
                let list = lists.get(&(row.object_id, row.generation));
                facts.file(path, row, list.map_or(&[], Vec::as_slice), replicas);
            }
            for (name, id) in dirs.get(&id).into_iter().flatten() {
                let path = join(name);
                facts.dirs.insert(path.clone(), *id);
                left.push((path, *id));
            }
        }
        facts.sessions(rows);
        facts.reclaimed(rows, &lists);
        facts
    }

    /// Content as a reader gets it: of each block what the view says, from what the datanode holds.
    fn file(&mut self, path: String, row: &FileRow, list: &[ListRow], replicas: &Replicas) {
        let count = usize::try_from(row.block_count).unwrap_or(usize::MAX);
        let seen = &list[..count.min(list.len())];
        let mut content = Vec::new();
        for (at, block) in seen.iter().enumerate() {
            let end = seen.get(at + 1).map_or(row.size, |next| next.start);
            let length = usize::try_from(end.saturating_sub(block.start)).unwrap_or(usize::MAX);
            match replicas
                .get(&block.local)
                .and_then(|replica| replica.units.get(..length))
            {
                Some(units) => content.extend_from_slice(units),
                None => self.broken.push(format!(
                    "{path} shows {length} bytes of block {} that no datanode holds",
                    block.local
                )),
            }
        }
        self.paths.insert(path.clone(), row.object_id);
        let blocks = seen.iter().map(|block| block.local).collect();
        let seen = SeenFile {
            path: path.clone(),
            row: row.clone(),
            content,
            blocks,
        };
        if self.files.insert(row.object_id, seen).is_some() {
            self.broken.push(format!(
                "I12: {path} has the identity {} of another path",
                row.object_id
            ));
        }
    }

    fn sessions(&mut self, rows: &MemoryRows) {
        for (key, value) in all(rows, Keyspace::Open) {
            let seen = SeenSession {
                row: decode(&value),
                renewed: None,
                given: Vec::new(),
            };
            self.sessions.insert(number(&key, 8), seen);
        }
        for (key, value) in all(rows, Keyspace::Renewals) {
            if let Some(seen) = self.sessions.get_mut(&number(&key, 8)) {
                seen.renewed = Some(decode(&value));
            }
        }
        for (key, value) in all(rows, Keyspace::Blocks) {
            self.blocks.insert(number(&key, 8), decode(&value));
        }
        for (key, value) in all(rows, Keyspace::Allocations) {
            let AllocationRow { .. } = decode(&value);
            let local = number(&key, 16);
            if let Some(seen) = self.sessions.get_mut(&number(&key, 8)) {
                seen.given.push(local);
            }
        }
    }

    /// I6: what was handed to reclamation is in no live file and in no session's hands.
    fn reclaimed(&mut self, rows: &MemoryRows, lists: &BTreeMap<(u64, u64), Vec<ListRow>>) {
        for (_, value) in all(rows, Keyspace::DeletedFiles) {
            let row: DeletedFileRow = decode(&value);
            let list = lists.get(&(row.file, row.generation)).into_iter().flatten();
            let count = usize::try_from(row.block_count).unwrap_or(usize::MAX);
            let listed = list.take(count).map(|block| block.local);
            for local in listed.chain(row.unused.iter().map(|block| block.local)) {
                self.handed.insert(local);
            }
        }
        for (key, value) in all(rows, Keyspace::DeletedDirs) {
            let ordinal = key.get(8..12).and_then(|bytes| bytes.try_into().ok());
            let ordinal = ordinal.map_or(0, u32::from_be_bytes);
            self.trees.push((number(&key, 0), ordinal, decode(&value)));
        }
        for file in self.files.values() {
            for local in file
                .blocks
                .iter()
                .filter(|local| self.handed.contains(local))
            {
                self.broken.push(format!(
                    "I6: block {local} of {} was handed to reclamation",
                    file.path
                ));
            }
        }
        for (id, session) in &self.sessions {
            for local in &session.given {
                if self.handed.contains(local) && session.phase() != Phase::Invalidated {
                    self.broken.push(format!(
                        "I6: block {local} of session {id} was handed to reclamation"
                    ));
                }
            }
        }
    }

    /// The file at a path.
    pub(crate) fn at(&self, path: &str) -> Option<&SeenFile> {
        self.files.get(self.paths.get(path)?)
    }

    /// The reachable file that a session owns as its appender.
    pub(crate) fn owned_by(&self, session: u64) -> Option<&SeenFile> {
        self.files
            .values()
            .find(|file| file.row.append_owner == Some(session))
    }

    /// Can a place be reached from the root?
    pub(crate) fn reaches(&self, row: &OpenRow) -> bool {
        let parent = row.place.parent;
        parent == 0 || parent == self.bucket || self.dirs.values().any(|id| *id == parent)
    }

    /// A live ordinary writer at the place where a file would stand.
    pub(crate) fn ordinary_at(&self, parent: u64, name: &str) -> Option<u64> {
        self.sessions
            .iter()
            .find(|(_, seen)| {
                !seen.is_append()
                    && seen.phase() != Phase::Invalidated
                    && seen.row.place.parent == parent
                    && seen.row.place.name == name
            })
            .map(|(id, _)| *id)
    }

    /// The path at which a session stands, if it can be reached.
    pub(crate) fn path_of(&self, row: &OpenRow) -> Option<String> {
        let (parent, name) = (row.place.parent, &row.place.name);
        if parent == 0 || parent == self.bucket {
            return Some(name.clone());
        }
        let (above, _) = self.dirs.iter().find(|(_, id)| **id == parent)?;
        Some(format!("{above}/{name}"))
    }

    /// The parent's identity and the name below it, as the rows keep them.
    pub(crate) fn place(&self, path: &str, layout: Layout) -> Option<(u64, String)> {
        if layout != Layout::FileSystemOptimized {
            return Some((0, path.to_owned()));
        }
        match path.rsplit_once('/') {
            None => Some((self.bucket, path.to_owned())),
            Some((above, leaf)) => self.dirs.get(above).map(|id| (*id, leaf.to_owned())),
        }
    }
}
