//! Power cuts for tests: writes down what is done to the files below a folder, and makes images of what a disk could hold when the
//! power fails in between.
//!
//! The model is the strictest that a file system may be: content is durable when its file was synced, a name when its folder was
//! synced; anything else is kept, lost or torn, each operation by itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// One thing done to the disk. Paths begin at the traced folder.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create(PathBuf),
    CreateDir(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Cut(PathBuf, u64),
    Sync(PathBuf),
    SyncDir(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    /// Somebody was told something that must hold from here on.
    Told(u64),
}

static TRACES: Mutex<BTreeMap<PathBuf, Vec<Op>>> = Mutex::new(BTreeMap::new());

static ROOM: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

/// From here on only `bytes` more fit below `root`; without a number all do again.
pub(crate) fn room(root: &Path, bytes: Option<usize>) {
    let mut room = ROOM.lock().unwrap();
    match bytes {
        Some(bytes) => room.insert(root.to_owned(), bytes),
        None => room.remove(root),
    };
}

/// What of `bytes` the disk takes for `path`.
pub(crate) fn room_for<'a>(path: &Path, bytes: &'a [u8]) -> std::io::Result<&'a [u8]> {
    let mut room = ROOM.lock().unwrap();
    let Some((_, left)) = room.iter_mut().find(|(root, _)| path.starts_with(root)) else {
        return Ok(bytes);
    };
    if *left == 0 && !bytes.is_empty() {
        return Err(std::io::ErrorKind::StorageFull.into());
    }
    let taken = bytes.len().min(*left);
    *left -= taken;
    Ok(&bytes[..taken])
}

fn note(path: &Path, op: impl FnOnce(PathBuf) -> Op) {
    let mut traces = TRACES.lock().unwrap();
    for (root, trace) in traces.iter_mut() {
        if let Ok(below) = path.strip_prefix(root) {
            trace.push(op(below.to_owned()));
            return;
        }
    }
}

pub(crate) fn created(path: &Path) {
    note(path, Op::Create);
}

pub(crate) fn created_dir(path: &Path) {
    note(path, Op::CreateDir);
}

pub(crate) fn written(path: &Path, at: u64, bytes: &[u8]) {
    note(path, |path| Op::Write(path, at, bytes.to_vec()));
}

pub(crate) fn cut(path: &Path, length: u64) {
    note(path, |path| Op::Cut(path, length));
}

pub(crate) fn synced(path: &Path) {
    note(path, Op::Sync);
}

pub(crate) fn synced_dir(path: &Path) {
    note(path, Op::SyncDir);
}

/// Within one folder.
pub(crate) fn renamed(from: &Path, to: &Path) {
    assert_eq!(from.parent(), to.parent());
    note(from, |from| {
        let to = from.with_file_name(to.file_name().unwrap());
        Op::Rename(from, to)
    });
}

pub(crate) fn removed(path: &Path) {
    note(path, Op::Remove);
}

/// Begins to write down what is done below `root`.
pub(crate) fn trace(root: &Path) {
    TRACES.lock().unwrap().insert(root.to_owned(), Vec::new());
}

/// Notes that `what` was promised to somebody.
pub(crate) fn told(root: &Path, what: u64) {
    note(root, |_| Op::Told(what));
}

/// Ends the trace of `root`.
pub(crate) fn finish(root: &Path) -> Vec<Op> {
    TRACES.lock().unwrap().remove(root).unwrap()
}

/// A small generator of its own: an image is named by its seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Content of one file: what is done to it since its last sync is in doubt.
#[derive(Debug, Clone, Default)]
struct Content {
    durable: Vec<u8>,
    doubtful: Vec<Op>,
}

impl Content {
    fn settle(&mut self, keep: impl FnMut(&Op) -> Fate) {
        let mut keep = keep;
        for op in std::mem::take(&mut self.doubtful) {
            let fate = keep(&op);
            match op {
                Op::Write(_, at, bytes) => {
                    let at = usize::try_from(at).unwrap();
                    let kept = match fate {
                        Fate::Kept => bytes.len(),
                        Fate::Lost => 0,
                        Fate::Torn(kept) => kept % bytes.len().max(1),
                    };
                    if kept > 0 {
                        let reach = self.durable.len().max(at + kept);
                        self.durable.resize(reach, 0);
                        self.durable[at..at + kept].copy_from_slice(&bytes[..kept]);
                    }
                }
                Op::Cut(_, length) => {
                    let length = usize::try_from(length).unwrap();
                    if matches!(fate, Fate::Kept) {
                        self.durable.resize(length, 0);
                    }
                }
                other => unreachable!("{other:?}"),
            }
        }
    }
}

enum Fate {
    Kept,
    Lost,
    Torn(usize),
}

/// The disk as operations pass by.
#[derive(Debug, Clone, Default)]
struct Disk {
    contents: Vec<Content>,
    /// What a running process sees.
    now: BTreeMap<PathBuf, Option<usize>>,
    /// What is durable; a folder has no content.
    durable: BTreeMap<PathBuf, Option<usize>>,
    /// Changes of names that no sync of their folder has covered.
    doubtful: Vec<(PathBuf, NameOp)>,
}

#[derive(Debug, Clone)]
enum NameOp {
    Add(PathBuf, Option<usize>),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, usize),
}

impl NameOp {
    fn run(&self, names: &mut BTreeMap<PathBuf, Option<usize>>) {
        match self {
            NameOp::Add(path, content) => {
                names.insert(path.clone(), *content);
            }
            NameOp::Remove(path) => {
                names.remove(path);
            }
            NameOp::Rename(from, to, content) => {
                names.remove(from);
                names.insert(to.clone(), Some(*content));
            }
        }
    }
}

impl Disk {
    fn name(&mut self, path: &Path, op: NameOp) {
        op.run(&mut self.now);
        self.doubtful.push((path.parent().unwrap().to_owned(), op));
    }

    fn content(&mut self, path: &Path) -> &mut Content {
        let at = self.now[path].unwrap();
        &mut self.contents[at]
    }

    fn step(&mut self, op: &Op, told: &mut Vec<u64>, skip: Skip<'_>) {
        if let Op::Told(what) = op {
            told.push(*what);
        }
        if !skip(op) {
            self.run(op);
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Create(path) => {
                self.contents.push(Content::default());
                let content = Some(self.contents.len() - 1);
                self.name(path, NameOp::Add(path.clone(), content));
            }
            Op::CreateDir(path) => self.name(path, NameOp::Add(path.clone(), None)),
            Op::Write(path, ..) | Op::Cut(path, _) => self.content(path).doubtful.push(op.clone()),
            Op::Sync(path) => self.content(path).settle(|_| Fate::Kept),
            Op::SyncDir(dir) => {
                for (parent, op) in std::mem::take(&mut self.doubtful) {
                    if &parent == dir {
                        op.run(&mut self.durable);
                    } else {
                        self.doubtful.push((parent, op));
                    }
                }
            }
            Op::Rename(from, to) => {
                let content = self.now[from].unwrap();
                self.name(to, NameOp::Rename(from.clone(), to.clone(), content));
            }
            Op::Remove(path) => self.name(path, NameOp::Remove(path.clone())),
            Op::Told(_) => {}
        }
    }

    /// What is left when the power fails: everything durable, and of the rest what the dice say.
    fn fail(mut self, dice: &mut Dice) -> Disk {
        for (_, op) in std::mem::take(&mut self.doubtful) {
            if dice.below(2) == 0 {
                op.run(&mut self.durable);
            }
        }
        for content in &mut self.contents {
            content.settle(|_| match dice.below(4) {
                0 | 1 => Fate::Kept,
                2 => Fate::Lost,
                _ => Fate::Torn(usize::try_from(dice.below(1 << 20)).unwrap()),
            });
        }
        self
    }

    /// Makes the files as a process would find them when the machine starts again.
    fn write_durable(&self, image: &Path) {
        for (path, content) in &self.durable {
            // Without its folder's name a file cannot be reached.
            if path
                .ancestors()
                .skip(1)
                .all(|above| above.as_os_str().is_empty() || self.durable.contains_key(above))
            {
                self.write(
                    image,
                    path,
                    content.map(|at| self.contents[at].durable.as_slice()),
                );
            }
        }
    }

    /// Makes the files as a process finds them that is started behind a killed one.
    fn write_now(&self, image: &Path) {
        for (path, content) in &self.now {
            let content = content.map(|at| {
                let mut content = self.contents[at].clone();
                content.settle(|_| Fate::Kept);
                content.durable
            });
            self.write(image, path, content.as_deref());
        }
    }

    fn write(&self, image: &Path, path: &Path, content: Option<&[u8]>) {
        let target = image.join(path);
        match content {
            None => fs::create_dir_all(target).unwrap(),
            Some(bytes) => {
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                fs::write(target, bytes).unwrap();
            }
        }
    }
}

/// A folder for images, in memory where there is such a place: an image needs no disk of its own.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// What must hold in an image, by what was told before the power failed.
pub(crate) type Check<'a> = &'a dyn Fn(&Path, &[u64]) -> Result<(), String>;
/// Which syncs the disk ignores.
pub(crate) type Skip<'a> = &'a dyn Fn(&Op) -> bool;

fn check_failures(
    disk: &Disk,
    told: &[u64],
    seeds: std::ops::Range<u64>,
    check: Check<'_>,
) -> Result<(), String> {
    for seed in seeds {
        let image = folder();
        disk.clone()
            .fail(&mut Dice::new(seed))
            .write_durable(image.path());
        check(image.path(), told).map_err(|why| format!("seed {seed}: {why}"))?;
    }
    Ok(())
}

/// Cuts the power `seeds` times behind every operation of `trace` and checks what is left.
///
/// # Errors
/// The first image that fails the check.
pub(crate) fn cut_everywhere(
    trace: &[Op],
    seeds: u64,
    skip: Skip<'_>,
    check: Check<'_>,
) -> Result<(), String> {
    let mut disk = Disk::default();
    let mut told = Vec::new();
    for (at, op) in trace.iter().enumerate() {
        disk.step(op, &mut told, skip);
        let from = at as u64 * seeds;
        check_failures(&disk, &told, from..from + seeds, check)
            .map_err(|why| format!("behind {at} ({op:?}), {why}"))?;
    }
    Ok(())
}

/// Kills the process behind every `every`th operation of `trace`, starts `again` on what is there, and cuts the power `seeds` times
/// after that. The disk ignores what `skip` says of the second process.
///
/// # Errors
/// The first image that fails the check.
pub(crate) fn kill_then_cut(
    trace: &[Op],
    every: usize,
    seeds: u64,
    again: &dyn Fn(&Path),
    skip: Skip<'_>,
    check: Check<'_>,
) -> Result<(), String> {
    let mut disk = Disk::default();
    let mut told = Vec::new();
    for (at, op) in trace.iter().enumerate() {
        disk.step(op, &mut told, &|_| false);
        if at % every != 0 {
            continue;
        }
        let image = folder();
        disk.write_now(image.path());
        self::trace(image.path());
        again(image.path());
        let (mut disk, mut told) = (disk.clone(), told.clone());
        for op in &finish(image.path()) {
            disk.step(op, &mut told, skip);
        }
        let from = at as u64 * seeds;
        check_failures(&disk, &told, from..from + seeds, check)
            .map_err(|why| format!("killed behind {at} ({op:?}), {why}"))?;
    }
    Ok(())
}
