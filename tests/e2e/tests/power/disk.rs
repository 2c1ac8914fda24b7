//! A disk that loses what no fsync covered: replays a journal and makes folders as a power cut may leave them.
//!
//! An fsync of a file covers its bytes and length, one of a folder the names in it; nothing else does. Of what is not covered any part may
//! be lost, in any order; a write may be torn, or leave zeros in the length that it gave the file.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;

use crate::journal::{Event, Op};

const PAGE: u64 = 4096;
const SECTOR: u64 = 512;

/// What becomes of a change that no fsync covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All are lost.
    Dropped,
    /// All are there.
    Kept,
    /// Each is there with this chance in a hundred; some writes are torn.
    Drawn(u32),
}

/// Sparse bytes.
#[derive(Debug, Clone, Default)]
struct Content {
    length: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl Content {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = offset;
        let mut left = bytes;
        while !left.is_empty() {
            let inside = usize::try_from(at % PAGE).unwrap();
            let count = left.len().min(usize::try_from(PAGE).unwrap() - inside);
            let page = self
                .pages
                .entry(at / PAGE)
                .or_insert_with(|| vec![0; usize::try_from(PAGE).unwrap()].into());
            page[inside..inside + count].copy_from_slice(&left[..count]);
            at += u64::try_from(count).unwrap();
            left = &left[count..];
        }
        self.length = self.length.max(at);
    }

    fn truncate(&mut self, length: u64) {
        if length < self.length {
            self.pages.retain(|page, _| page * PAGE < length);
            if let Some(last) = self.pages.get_mut(&(length / PAGE)) {
                last[usize::try_from(length % PAGE).unwrap()..].fill(0);
            }
        }
        self.length = length;
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(offset, bytes) => self.write(*offset, bytes),
            Change::Truncate(length) => self.truncate(*length),
            Change::Allocate(length) => self.length = self.length.max(*length),
        }
    }

    fn store(&self, path: &Path) {
        let file = std::fs::File::create(path).unwrap();
        file.set_len(self.length).unwrap();
        for (number, page) in &self.pages {
            let at = number * PAGE;
            let count = self.length.saturating_sub(at).min(PAGE);
            file.write_all_at(&page[..usize::try_from(count).unwrap()], at)
                .unwrap();
        }
    }
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Arc<[u8]>),
    Truncate(u64),
    Allocate(u64),
}

/// A change of names that happens wholly or not at all.
type Names = Vec<(String, Option<usize>)>;

#[derive(Debug)]
enum Node {
    File {
        durable: Content,
        pending: Vec<Change>,
    },
    Folder {
        durable: BTreeMap<String, usize>,
        live: BTreeMap<String, usize>,
        pending: Vec<Names>,
    },
}

impl Node {
    fn folder() -> Node {
        Node::Folder {
            durable: BTreeMap::new(),
            live: BTreeMap::new(),
            pending: Vec::new(),
        }
    }
}

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk {
    nodes: Vec<Node>,
    inodes: BTreeMap<u64, usize>,
    /// The fsync that does nothing.
    omitted: Option<u64>,
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Disk {
    /// An empty data folder, whose own name is durable. The fsync `omitted` will cover nothing.
    pub(crate) fn new(omitted: Option<u64>) -> Disk {
        Disk {
            nodes: vec![Node::folder()],
            inodes: BTreeMap::new(),
            omitted,
        }
    }

    fn find(&self, path: &str) -> usize {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.fold(0, |at, part| match &self.nodes[at] {
            Node::Folder { live, .. } => *live
                .get(part)
                .unwrap_or_else(|| panic!("{path} is not known: a change was not recorded")),
            Node::File { .. } => panic!("{path} leads through a file"),
        })
    }

    fn change_names(&mut self, folder: usize, names: Names) {
        let Node::Folder { live, pending, .. } = &mut self.nodes[folder] else {
            panic!("a file has names in it");
        };
        for (name, node) in &names {
            match node {
                Some(node) => live.insert(name.clone(), *node),
                None => live.remove(name),
            };
        }
        pending.push(names);
    }

    fn add(&mut self, path: &str, node: Node) -> usize {
        let (parent, name) = split(path);
        let folder = self.find(parent);
        self.nodes.push(node);
        let made = self.nodes.len() - 1;
        self.change_names(folder, vec![(name.to_owned(), Some(made))]);
        made
    }

    /// Takes in what happened next.
    pub(crate) fn apply(&mut self, event: &Event) {
        let change = match &event.op {
            Op::Create(path) => {
                let file = Node::File {
                    durable: Content::default(),
                    pending: Vec::new(),
                };
                let made = self.add(path, file);
                self.inodes.insert(event.inode, made);
                return;
            }
            Op::Mkdir(path) => {
                self.add(path, Node::folder());
                return;
            }
            Op::Rename(from, to) => {
                let ((folder, old), (other, new)) = (split(from), split(to));
                assert_eq!(folder, other, "a rename between folders is not modelled");
                let moved = self.find(from);
                let folder = self.find(folder);
                let names = vec![(old.to_owned(), None), (new.to_owned(), Some(moved))];
                return self.change_names(folder, names);
            }
            Op::Unlink(path) | Op::Rmdir(path) => {
                let (folder, name) = split(path);
                let folder = self.find(folder);
                return self.change_names(folder, vec![(name.to_owned(), None)]);
            }
            Op::Sync => {
                if self.omitted != Some(event.site) {
                    let node = self.inodes[&event.inode];
                    if let Node::File { durable, pending } = &mut self.nodes[node] {
                        pending.drain(..).for_each(|change| durable.apply(&change));
                    }
                }
                return;
            }
            Op::SyncDir(path) => {
                if self.omitted != Some(event.site) {
                    let node = self.find(path);
                    if let Node::Folder {
                        durable,
                        live,
                        pending,
                    } = &mut self.nodes[node]
                    {
                        durable.clone_from(live);
                        pending.clear();
                    }
                }
                return;
            }
            Op::Write(offset, bytes) => Change::Write(*offset, bytes.as_slice().into()),
            Op::Truncate(length) => Change::Truncate(*length),
            Op::Allocate(length) => Change::Allocate(*length),
        };
        let node = self.inodes[&event.inode];
        if let Node::File { pending, .. } = &mut self.nodes[node] {
            pending.push(change);
        }
    }

    /// Makes the data folder `to` as a power cut now may leave it.
    pub(crate) fn cut(&self, to: &Path, fate: Fate, random: &mut StdRng) {
        self.cut_folder(0, to, fate, random);
    }

    fn cut_folder(&self, folder: usize, to: &Path, fate: Fate, random: &mut StdRng) {
        let Node::Folder {
            durable, pending, ..
        } = &self.nodes[folder]
        else {
            panic!("a file is a folder");
        };
        std::fs::create_dir_all(to).unwrap();
        let mut names = durable.clone();
        for change in pending.iter().filter(|_| survives(fate, random)) {
            for (name, node) in change {
                match node {
                    Some(node) => names.insert(name.clone(), *node),
                    None => names.remove(name),
                };
            }
        }
        for (name, node) in names {
            let path = to.join(name);
            match &self.nodes[node] {
                Node::Folder { .. } => self.cut_folder(node, &path, fate, random),
                Node::File { durable, pending } => {
                    let mut content = durable.clone();
                    for change in pending {
                        if !survives(fate, random) {
                            continue;
                        }
                        match (fate, change) {
                            (Fate::Drawn(_), Change::Write(offset, bytes)) => {
                                tear(&mut content, *offset, bytes, random);
                            }
                            _ => content.apply(change),
                        }
                    }
                    content.store(&path);
                }
            }
        }
    }
}

fn survives(fate: Fate, random: &mut StdRng) -> bool {
    match fate {
        Fate::Dropped => false,
        Fate::Kept => true,
        Fate::Drawn(chance) => random.random_range(0..100) < chance,
    }
}

/// A write that may be there whole, up to a byte, only in some sectors, or only as length.
fn tear(content: &mut Content, offset: u64, bytes: &[u8], random: &mut StdRng) {
    match random.random_range(0..10) {
        0 => content.write(offset, &bytes[..random.random_range(0..bytes.len())]),
        1 => {
            let end = offset + u64::try_from(bytes.len()).unwrap();
            let mut at = offset;
            content.length = content.length.max(end);
            while at < end {
                let next = (at / SECTOR + 1) * SECTOR;
                let part = usize::try_from(at - offset).unwrap()
                    ..usize::try_from(next.min(end) - offset).unwrap();
                if random.random_bool(0.5) {
                    content.write(at, &bytes[part]);
                }
                at = next;
            }
        }
        2 => {
            let end = offset + u64::try_from(bytes.len()).unwrap();
            content.length = content.length.max(end);
        }
        _ => content.write(offset, bytes),
    }
}
