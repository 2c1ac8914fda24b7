//! A plain file system with writers: paths in sorted maps, contents as bytes. It knows nothing of rows, blocks or identities by number,
//! and looks everything up by walking all of it.

use crate::command::CreateMode;
use crate::reply::RefusalKind;
use std::collections::{BTreeMap, BTreeSet};

/// What the model says of a command.
pub(crate) type Verdict<T = ()> = Result<T, RefusalKind>;

#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Changes when another file takes the name.
    pub(crate) id: u32,
    pub(crate) data: Vec<u8>,
    /// The append session that owns it.
    pub(crate) owner: Option<usize>,
    /// The open writer that has published it.
    pub(crate) hsync: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    Invalidated,
    Unreachable,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Append {
        created: bool,
        prefix: usize,
    },
    Ordinary {
        target: Option<u32>,
        published: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Writer {
    /// Where its file is or will be.
    pub(crate) path: String,
    pub(crate) state: State,
    pub(crate) kind: Kind,
}

/// How a call names its writer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Via<'a> {
    Handle,
    Path(&'a str),
}

enum At {
    Root,
    Dir,
    File,
    Missing { parent: bool },
    BelowFile,
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) legacy: bool,
    pub(crate) dirs: BTreeSet<String>,
    pub(crate) files: BTreeMap<String, File>,
    pub(crate) writers: Vec<Writer>,
    next_id: u32,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn leaf(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, leaf)| leaf)
}

fn below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.starts_with('/'))
}

fn ancestors(path: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = parent(path);
    while !at.is_empty() {
        found.push(at);
        at = parent(at);
    }
    found
}

impl Model {
    pub(crate) fn new(legacy: bool) -> Model {
        Model {
            legacy,
            dirs: BTreeSet::new(),
            files: BTreeMap::new(),
            writers: Vec::new(),
            next_id: 0,
        }
    }

    pub(crate) fn is_dir(&self, path: &str) -> bool {
        path.is_empty()
            || self.dirs.contains(path)
            || (self.legacy
                && self
                    .files
                    .keys()
                    .chain(&self.dirs)
                    .any(|key| below(key, path)))
    }

    fn at(&self, path: &str) -> At {
        if path.is_empty() {
            At::Root
        } else if self.files.contains_key(path) {
            At::File
        } else if self.is_dir(path) {
            At::Dir
        } else if ancestors(path)
            .iter()
            .any(|above| self.files.contains_key(*above))
        {
            At::BelowFile
        } else {
            At::Missing {
                parent: self.is_dir(parent(path)),
            }
        }
    }

    fn make_parents(&mut self, path: &str) {
        let missing: Vec<String> = ancestors(path)
            .into_iter()
            .filter(|above| !self.is_dir(above))
            .map(str::to_owned)
            .collect();
        self.dirs.extend(missing);
    }

    fn fresh(&mut self, data: Vec<u8>) -> File {
        self.next_id += 1;
        File {
            id: self.next_id,
            data,
            owner: None,
            hsync: None,
        }
    }

    fn ordinary_at(&self, path: &str) -> bool {
        self.writers.iter().any(|writer| {
            writer.state == State::Active
                && writer.path == path
                && matches!(writer.kind, Kind::Ordinary { .. })
        })
    }

    fn created(&self, owner: usize) -> bool {
        matches!(self.writers[owner].kind, Kind::Append { created: true, .. })
    }

    fn invalidate(&mut self, file: &File, by: Option<usize>) {
        for writer in [file.owner, file.hsync]
            .into_iter()
            .flatten()
            .filter(|writer| Some(*writer) != by)
        {
            self.writers[writer].state = State::Invalidated;
        }
    }

    fn add(&mut self, path: &str, kind: Kind) -> usize {
        self.writers.push(Writer {
            path: path.to_owned(),
            state: State::Active,
            kind,
        });
        self.writers.len() - 1
    }

    fn add_ordinary(&mut self, path: &str) -> usize {
        let target = self.files.get(path).map(|file| file.id);
        self.add(
            path,
            Kind::Ordinary {
                target,
                published: false,
            },
        )
    }

    pub(crate) fn mkdir(&mut self, path: &str) -> Verdict {
        match self.at(path) {
            At::Root => Ok(()),
            At::File | At::BelowFile => Err(RefusalKind::FileExists),
            At::Dir | At::Missing { .. } => {
                self.make_parents(path);
                self.dirs.insert(path.to_owned());
                Ok(())
            }
        }
    }

    pub(crate) fn open(&mut self, path: &str, overwrite: bool, recursive: bool) -> Verdict<usize> {
        match self.at(path) {
            At::Root => return Err(RefusalKind::InvalidKeyName),
            At::Dir | At::BelowFile => return Err(RefusalKind::NotAFile),
            At::File => {
                if !overwrite {
                    return Err(RefusalKind::FileExists);
                }
                if self.files[path]
                    .owner
                    .is_some_and(|owner| !self.created(owner))
                {
                    return Err(RefusalKind::ConflictAppend);
                }
            }
            At::Missing { parent } => {
                if !parent && !recursive {
                    return Err(RefusalKind::DirectoryNotFound);
                }
                self.make_parents(path);
            }
        }
        Ok(self.add_ordinary(path))
    }

    pub(crate) fn append(
        &mut self,
        path: &str,
        mode: CreateMode,
        recursive: bool,
    ) -> Verdict<usize> {
        match self.at(path) {
            At::Root | At::Dir => Err(RefusalKind::NotAFile),
            At::BelowFile | At::Missing { .. } if mode == CreateMode::No => {
                Err(RefusalKind::FileNotFound)
            }
            At::BelowFile => Err(RefusalKind::NotAFile),
            At::Missing { parent } => {
                if !parent && !recursive {
                    return Err(RefusalKind::DirectoryNotFound);
                }
                self.make_parents(path);
                if self.ordinary_at(path) {
                    Ok(self.add_ordinary(path))
                } else {
                    Ok(self.create(path))
                }
            }
            At::File => {
                let file = self.files[path].clone();
                match (mode, file.owner) {
                    (CreateMode::MustBeNew, _) => Err(RefusalKind::FileExists),
                    (CreateMode::Overwrite, None) => Ok(self.add_ordinary(path)),
                    (CreateMode::Overwrite, Some(owner)) if self.created(owner) => {
                        if self.ordinary_at(path) {
                            return Ok(self.add_ordinary(path));
                        }
                        self.invalidate(&file, None);
                        Ok(self.create(path))
                    }
                    (_, Some(_)) => Err(RefusalKind::ConflictAppend),
                    (_, None) if file.hsync.is_some() => Err(RefusalKind::ConflictHsync),
                    (_, None) if self.ordinary_at(path) => Err(RefusalKind::ConflictOrdinary),
                    (_, None) => {
                        let writer = self.add(
                            path,
                            Kind::Append {
                                created: false,
                                prefix: file.data.len(),
                            },
                        );
                        self.file(path).owner = Some(writer);
                        Ok(writer)
                    }
                }
            }
        }
    }

    fn file(&mut self, path: &str) -> &mut File {
        self.files.get_mut(path).unwrap()
    }

    fn create(&mut self, path: &str) -> usize {
        let writer = self.add(
            path,
            Kind::Append {
                created: true,
                prefix: 0,
            },
        );
        let file = self.fresh(Vec::new());
        self.files.insert(
            path.to_owned(),
            File {
                owner: Some(writer),
                ..file
            },
        );
        writer
    }

    /// May this writer write, as far as its session goes?
    pub(crate) fn may_write(&self, writer: usize, via: Via<'_>) -> Verdict {
        let Writer { path, state, .. } = &self.writers[writer];
        match (via, state) {
            (Via::Handle, State::Active) => Ok(()),
            (Via::Handle, State::Ended) => Err(RefusalKind::SessionUnknown),
            (Via::Handle, State::Invalidated) => Err(RefusalKind::Invalidated),
            (Via::Handle, State::Unreachable) => Err(RefusalKind::Unreachable),
            (Via::Path(at), State::Active) if at == path => Ok(()),
            (Via::Path(_), _) => Err(RefusalKind::KeyNotFound),
        }
    }

    /// Publishes everything that the writer wrote.
    pub(crate) fn publish(
        &mut self,
        writer: usize,
        via: Via<'_>,
        close: bool,
        written: &[u8],
        sound: bool,
    ) -> Verdict {
        if close && matches!(via, Via::Handle) && self.writers[writer].state == State::Ended {
            return Err(RefusalKind::Uncertain);
        }
        self.may_write(writer, via)?;
        let path = self.writers[writer].path.clone();
        match self.writers[writer].kind {
            Kind::Append { prefix, .. } => {
                if !sound {
                    return Err(RefusalKind::BadPublication);
                }
                let file = self.file(&path);
                assert_eq!(file.owner, Some(writer));
                file.data.truncate(prefix);
                file.data.extend_from_slice(written);
                if close {
                    file.owner = None;
                    file.hsync = None;
                } else if !written.is_empty() {
                    file.hsync = Some(writer);
                }
            }
            Kind::Ordinary { target, published } => {
                if matches!(self.at(&path), At::Dir | At::BelowFile) {
                    return Err(RefusalKind::NotAFile);
                }
                let current = self.files.get(&path).cloned();
                let owner = current.as_ref().and_then(|file| file.owner);
                if owner.is_some_and(|owner| !self.created(owner)) {
                    return Err(RefusalKind::ConflictAppend);
                }
                if !sound {
                    return Err(RefusalKind::BadPublication);
                }
                let mut file = match &current {
                    Some(file) if published => file.clone(),
                    Some(file) if target == Some(file.id) && owner.is_none() => file.clone(),
                    _ => self.fresh(Vec::new()),
                };
                if let Some(current) = &current {
                    self.invalidate(current, Some(writer));
                }
                file.data = written.to_vec();
                file.owner = None;
                file.hsync = (!close).then_some(writer);
                self.files.insert(path, file);
                self.writers[writer].kind = Kind::Ordinary {
                    target,
                    published: true,
                };
            }
        }
        if close {
            self.writers[writer].state = State::Ended;
        }
        Ok(())
    }

    pub(crate) fn renew(&self, writer: usize) -> Verdict {
        let Writer { state, kind, .. } = &self.writers[writer];
        match (kind, state) {
            (Kind::Ordinary { .. }, _) | (_, State::Ended) => Err(RefusalKind::SessionUnknown),
            (_, State::Invalidated) => Err(RefusalKind::Invalidated),
            (_, State::Active | State::Unreachable) => Ok(()),
        }
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Verdict {
        if from.is_empty() {
            return Err(RefusalKind::RenameRefused);
        }
        let file = self.files.get(from).cloned();
        if file.is_none() && (self.legacy || !self.is_dir(from)) {
            return Err(RefusalKind::KeyNotFound);
        }
        let open = file
            .as_ref()
            .is_some_and(|file| file.hsync.is_some() && file.owner.is_none());
        if open && !self.legacy && from != to {
            return Err(RefusalKind::RenameOpenFile);
        }
        if from == to {
            return Ok(());
        }
        if self.legacy && to.is_empty() {
            return Err(RefusalKind::InvalidKeyName);
        }
        if file.is_none() && below(to, from) {
            return Err(RefusalKind::RenameRefused);
        }
        let mut target = to.to_owned();
        if !self.legacy && self.is_dir(to) {
            target = if to.is_empty() {
                leaf(from).to_owned()
            } else {
                format!("{to}/{}", leaf(from))
            };
        }
        match self.at(&target) {
            At::Root | At::Dir | At::File => return Err(RefusalKind::KeyExists),
            At::BelowFile => return Err(RefusalKind::RenameRefused),
            At::Missing { parent } if !parent && !self.legacy => {
                return Err(RefusalKind::RenameRefused);
            }
            At::Missing { .. } => {}
        }
        match file {
            Some(file) => {
                for writer in [file.owner, file.hsync].into_iter().flatten() {
                    self.writers[writer].path.clone_from(&target);
                }
                self.files.remove(from);
                self.files.insert(target, file);
            }
            None => self.move_tree(from, &target),
        }
        Ok(())
    }

    fn move_tree(&mut self, from: &str, to: &str) {
        let moved = |path: &str| {
            if path == from || below(path, from) {
                format!("{to}{}", &path[from.len()..])
            } else {
                path.to_owned()
            }
        };
        self.dirs = self.dirs.iter().map(|path| moved(path)).collect();
        self.files = std::mem::take(&mut self.files)
            .into_iter()
            .map(|(path, file)| (moved(&path), file))
            .collect();
        for writer in &mut self.writers {
            if writer.state == State::Active && below(&writer.path, from) {
                writer.path = moved(&writer.path);
            }
        }
    }

    pub(crate) fn delete(&mut self, path: &str, recursive: bool) -> Verdict {
        match self.at(path) {
            At::Root => Err(RefusalKind::InvalidKeyName),
            At::Missing { .. } | At::BelowFile => Err(RefusalKind::KeyNotFound),
            At::File => {
                if let Some(file) = self.files.remove(path) {
                    self.invalidate(&file, None);
                }
                Ok(())
            }
            At::Dir => {
                let children = self
                    .files
                    .keys()
                    .chain(&self.dirs)
                    .any(|key| below(key, path));
                if children && !recursive {
                    return Err(RefusalKind::DirectoryNotEmpty);
                }
                let gone: Vec<File> = self
                    .files
                    .iter()
                    .filter(|(key, _)| below(key, path))
                    .map(|(_, file)| file.clone())
                    .collect();
                if self.legacy {
                    for file in &gone {
                        self.invalidate(file, None);
                    }
                } else {
                    for writer in &mut self.writers {
                        if writer.state == State::Active && below(&writer.path, path) {
                            writer.state = State::Unreachable;
                        }
                    }
                }
                self.files.retain(|key, _| !below(key, path));
                self.dirs.retain(|key| key != path && !below(key, path));
                Ok(())
            }
        }
    }

    /// Takes back a create whose stream was never returned.
    pub(crate) fn undo(&mut self, writer: usize) -> Verdict {
        self.may_write(writer, Via::Handle)?;
        match self.writers[writer].kind {
            Kind::Append { created: true, .. } => {
                let path = self.writers[writer].path.clone();
                self.delete(&path, false)
            }
            Kind::Append { created: false, .. }
            | Kind::Ordinary {
                published: true, ..
            } => Err(RefusalKind::InvalidRequest),
            Kind::Ordinary {
                published: false, ..
            } => {
                self.writers[writer].state = State::Ended;
                Ok(())
            }
        }
    }
}
