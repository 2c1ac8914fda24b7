//! One path of a command line or below it: where it is, how it is shown, and what stood there when it was looked at.

use std::rc::Rc;

use super::error::ShellError;
use super::path;
use super::tree::{Stat, Tree};

/// A path in a tree.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) tree: Rc<dyn Tree>,
    /// Absolute and normal.
    pub(crate) path: String,
    /// As the caller wrote it, or as it follows from what he wrote.
    pub(crate) shown: String,
    /// None: nothing was there.
    pub(crate) stat: Option<Stat>,
}

impl Item {
    pub(crate) fn new(tree: Rc<dyn Tree>, path: String, shown: String, stat: Option<Stat>) -> Item {
        Item {
            tree,
            path,
            shown,
            stat,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.stat.as_ref().is_some_and(|stat| stat.directory)
    }

    pub(crate) fn exists(&self) -> bool {
        self.stat.is_some()
    }

    /// Looks again.
    ///
    /// # Errors
    /// A failed call.
    pub(crate) fn refresh(&mut self) -> Result<(), ShellError> {
        self.stat = self
            .tree
            .stat(&self.path)
            .map_err(|error| error.of(&self.shown))?;
        Ok(())
    }

    /// What stands there.
    ///
    /// # Errors
    /// Nothing does.
    pub(crate) fn there(&self) -> Result<&Stat, ShellError> {
        self.stat
            .as_ref()
            .ok_or_else(|| ShellError::not_found(&self.shown))
    }

    /// With the tree's name in front.
    pub(crate) fn qualified(&self) -> String {
        format!("{}{}", self.tree.uri(), self.path)
    }

    /// The same tree, as far as names tell.
    pub(crate) fn same_tree(&self, other: &Item) -> bool {
        self.tree.uri() == other.tree.uri()
    }

    /// Whether the path was written with a slash at its end, as a directory that should be there.
    pub(crate) fn looks_like_directory(&self) -> bool {
        self.shown.ends_with('/')
    }

    /// An entry, looked at now.
    ///
    /// # Errors
    /// A failed call.
    pub(crate) fn child(&self, name: &str) -> Result<Item, ShellError> {
        let mut child = self.entry(name, None);
        child.refresh()?;
        Ok(child)
    }

    fn entry(&self, name: &str, stat: Option<Stat>) -> Item {
        Item {
            tree: Rc::clone(&self.tree),
            path: path::child(&self.path, name),
            shown: path::child(&self.shown, name),
            stat,
        }
    }

    /// The entries of a directory, in name order.
    ///
    /// # Errors
    /// A failed call.
    pub(crate) fn children(&self) -> Result<Vec<Item>, ShellError> {
        let entries = self
            .tree
            .list(&self.path)
            .map_err(|error| error.of(&self.shown))?;
        Ok(entries
            .into_iter()
            .map(|(name, stat)| self.entry(&name, Some(stat)))
            .collect())
    }

    /// Last component of the path.
    pub(crate) fn name(&self) -> &str {
        path::name(&self.path)
    }

    /// The same path with something behind its name; nothing is known to be there.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Item {
        Item {
            tree: Rc::clone(&self.tree),
            path: format!("{}{suffix}", self.path),
            shown: format!("{}{suffix}", self.shown),
            stat: None,
        }
    }

    /// Whether the directory that holds this path is there. The root has none and needs none.
    ///
    /// # Errors
    /// A failed call.
    pub(crate) fn parent_exists(&self) -> Result<bool, ShellError> {
        match path::parent(&self.path) {
            Some(parent) => Ok(self
                .tree
                .stat(parent)
                .map_err(|error| error.of(&self.shown))?
                .is_some()),
            None => Ok(true),
        }
    }

    /// The nearest file above this path, which therefore cannot be.
    ///
    /// # Errors
    /// A failed call.
    pub(crate) fn file_above(&self) -> Result<Option<String>, ShellError> {
        let mut path = self.path.as_str();
        while let Some(parent) = path::parent(path) {
            if let Some(stat) = self
                .tree
                .stat(parent)
                .map_err(|error| error.of(&self.shown))?
            {
                return Ok((!stat.directory).then(|| parent.to_owned()));
            }
            path = parent;
        }
        Ok(None)
    }
}
