//! What every command works with: the servers it reaches, what paths mean, where output goes, and how many steps failed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Stdout, Write};
use std::rc::Rc;

use append_client::Config;
use tokio::runtime::Runtime;

use super::error::ShellError;
use super::glob;
use super::item::Item;
use super::local::Local;
use super::path::{self, Written};
use super::remote::Remote;
use super::tree::Tree;

/// The setting that names the server of paths without a scheme.
pub(crate) const DEFAULT_FS: &str = "fs.defaultFS";

/// The state of one run of the shell.
pub(crate) struct Shell {
    config: Config,
    runtime: Rc<Runtime>,
    remotes: RefCell<BTreeMap<String, Rc<Remote>>>,
    out: RefCell<BufWriter<Stdout>>,
    /// The command without its dash, in front of each complaint.
    command: Cell<&'static str>,
    errors: Cell<usize>,
    unsupported: Cell<bool>,
}

/// A path that was understood: the server, and the path on it.
struct Place {
    remote: Rc<Remote>,
    path: String,
}

impl Shell {
    /// Nothing is reached before a path asks for it.
    pub(crate) fn new(config: Config, runtime: Runtime) -> Shell {
        Shell {
            config,
            runtime: Rc::new(runtime),
            remotes: RefCell::default(),
            out: RefCell::new(BufWriter::new(io::stdout())),
            command: Cell::new(""),
            errors: Cell::new(0),
            unsupported: Cell::new(false),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn begin(&self, command: &'static str) {
        self.command.set(command);
    }

    /// Exit code of the steps so far: 1 if any failed, 255 if one asked for what cannot be done here.
    pub(crate) fn exit_code(&self) -> u8 {
        match (self.errors.get(), self.unsupported.get()) {
            (0, _) => 0,
            (_, false) => 1,
            (_, true) => 255,
        }
    }

    /// Prints a line of output.
    ///
    /// # Errors
    /// [`ShellError::OutputClosed`] when nobody reads any more.
    pub(crate) fn line(&self, text: &str) -> Result<(), ShellError> {
        let mut out = self.out.borrow_mut();
        out.write_all(text.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .map_err(|error| ShellError::output(&error))
    }

    /// Prints bytes of a file.
    ///
    /// # Errors
    /// As [`Shell::line`].
    pub(crate) fn bytes(&self, data: &[u8]) -> Result<(), ShellError> {
        self.out
            .borrow_mut()
            .write_all(data)
            .map_err(|error| ShellError::output(&error))
    }

    /// Lets what was printed so far be seen.
    ///
    /// # Errors
    /// As [`Shell::line`].
    pub(crate) fn flush(&self) -> Result<(), ShellError> {
        self.out
            .borrow_mut()
            .flush()
            .map_err(|error| ShellError::output(&error))
    }

    /// Reports a failed step and goes on, except for what ends the command: a wrong command line, closed output.
    ///
    /// # Errors
    /// What ends the command.
    pub(crate) fn report(&self, error: ShellError) -> Result<(), ShellError> {
        match error {
            ShellError::Failed(text) => self.complain(&text),
            ShellError::Unsupported(text) => {
                self.unsupported.set(true);
                self.complain(&text);
            }
            ShellError::Usage(_) | ShellError::OutputClosed => return Err(error),
        }
        Ok(())
    }

    /// Runs a step and reports its failure.
    ///
    /// # Errors
    /// What ends the command.
    pub(crate) fn step(&self, result: Result<(), ShellError>) -> Result<(), ShellError> {
        result.or_else(|error| self.report(error))
    }

    fn complain(&self, text: &str) {
        self.errors.set(self.errors.get() + 1);
        // A failed flush shows at the next write.
        let _ = self.flush();
        let line = text.lines().next().unwrap_or_default();
        eprintln!("{}: {line}", self.command.get());
    }

    fn place(&self, written: &Written) -> Result<Place, ShellError> {
        let (uri, path) = match &written.scheme {
            Some(scheme) => (
                self.server(scheme, &written.authority)?,
                written.path.clone(),
            ),
            None => (self.default_server()?, written.path.clone()),
        };
        let remote = self.remote(&uri)?;
        let path = path::absolute(&path, remote.home());
        Ok(Place { remote, path })
    }

    /// Scheme and authority of a server as they are written, the default's authority where none is.
    fn server(&self, scheme: &str, authority: &str) -> Result<String, ShellError> {
        if scheme != "ofs" && scheme != "o3fs" {
            return Err(ShellError::failed(format!(
                "No FileSystem for scheme \"{scheme}\""
            )));
        }
        if authority.is_empty() {
            let default = self.default_server()?;
            if default.starts_with(&format!("{scheme}://")) {
                return Ok(default);
            }
            return Err(ShellError::failed(format!(
                "Incomplete {scheme} URI, no host"
            )));
        }
        Ok(format!("{scheme}://{authority}"))
    }

    fn default_server(&self) -> Result<String, ShellError> {
        let default = self
            .config
            .get(DEFAULT_FS)
            .map(str::trim)
            .unwrap_or_default();
        if default.is_empty() {
            return Err(ShellError::failed(format!(
                "no server: give -fs ofs://HOST:PORT, a path with scheme, or {DEFAULT_FS} in core-site.xml"
            )));
        }
        let written = Written::parse(default)?;
        match written.scheme.as_deref() {
            Some(scheme @ ("ofs" | "o3fs")) if !written.authority.is_empty() => {
                Ok(format!("{scheme}://{}", written.authority))
            }
            _ => Err(ShellError::failed(format!(
                "{DEFAULT_FS} is {default}: not an ofs:// or o3fs:// server"
            ))),
        }
    }

    fn remote(&self, uri: &str) -> Result<Rc<Remote>, ShellError> {
        if let Some(remote) = self.remotes.borrow().get(uri) {
            return Ok(Rc::clone(remote));
        }
        let remote =
            Remote::connect(&self.runtime, uri, &self.config).map_err(|error| error.of(uri))?;
        let remote = Rc::new(remote);
        self.remotes
            .borrow_mut()
            .insert(uri.to_owned(), Rc::clone(&remote));
        Ok(remote)
    }

    /// The server that holds a path of one.
    ///
    /// # Errors
    /// As [`Shell::expand`].
    pub(crate) fn remote_of(&self, text: &str) -> Result<Rc<Remote>, ShellError> {
        Ok(self.place(&Written::parse(text)?)?.remote)
    }

    /// What a path of the server means: the one item, there or not, or everything that its pattern matches.
    ///
    /// # Errors
    /// No server for the path, or a failed call.
    pub(crate) fn expand(&self, text: &str) -> Result<Vec<Item>, ShellError> {
        let written = Written::parse(text)?;
        let Place { remote, path } = self.place(&written)?;
        if !glob::has_pattern(&path) {
            let stat = remote.stat(&path).map_err(|error| error.of(text))?;
            // As in Hadoop's shell: what is there is shown in normal form, what is missing as it was written.
            let shown = match stat {
                Some(_) => format!("{}{}", written.prefix(), path::normal(&written.path)),
                None => glob::unquote(text),
            };
            return Ok(vec![Item::new(remote, path, shown, stat)]);
        }
        let mut found: BTreeMap<String, Item> = BTreeMap::new();
        for pattern in glob::spread(&path)? {
            for (path, stat) in matches(&remote, &pattern, text)? {
                let shown = if written.scheme.is_some() || written.path.starts_with('/') {
                    format!("{}{path}", written.prefix())
                } else {
                    below(&path, remote.home()).to_owned()
                };
                let tree: Rc<dyn Tree> = Rc::clone(&remote) as Rc<dyn Tree>;
                found.insert(path.clone(), Item::new(tree, path, shown, Some(stat)));
            }
        }
        Ok(found.into_values().collect())
    }

    /// As [`Shell::expand`], but nothing matched is an error.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn expand_some(&self, text: &str) -> Result<Vec<Item>, ShellError> {
        let items = self.expand(text)?;
        if items.is_empty() {
            Err(ShellError::not_found(text))
        } else {
            Ok(items)
        }
    }

    /// The one item that a destination on the server means.
    ///
    /// # Errors
    /// As [`Shell::expand`], and a pattern that matches several.
    pub(crate) fn destination(&self, text: &str) -> Result<Item, ShellError> {
        let mut items = self.expand_some(text)?;
        match (items.pop(), items.is_empty()) {
            (Some(item), true) => Ok(item),
            _ => Err(ShellError::failed(format!("`{text}': Too many matches"))),
        }
    }

    /// A local path; patterns in it mean nothing, since the caller's own shell expands them.
    ///
    /// # Errors
    /// A scheme other than `file`, or a failed call.
    pub(crate) fn local(&self, text: &str) -> Result<Item, ShellError> {
        let local = Local::new().map_err(|error| ShellError::local(&error, "."))?;
        let path = match Written::parse(text)? {
            Written {
                scheme: Some(scheme),
                path,
                ..
            } if scheme == "file" => path,
            // A colon in a local name is no scheme.
            _ => text.to_owned(),
        };
        let absolute = path::absolute(&path, local.home());
        let stat = local.stat(&absolute).map_err(|error| error.of(text))?;
        let shown = match stat {
            Some(_) => path::normal(text),
            None => text.to_owned(),
        };
        Ok(Item::new(Rc::new(local), absolute, shown, stat))
    }
}

/// A path without the home directory in front.
fn below<'a>(path: &'a str, home: &str) -> &'a str {
    match path.strip_prefix(home) {
        Some("") => ".",
        Some(rest) => rest.strip_prefix('/').unwrap_or(path),
        None => path,
    }
}

/// Everything below the root that matches a pattern, component by component.
fn matches(
    remote: &Remote,
    pattern: &str,
    text: &str,
) -> Result<Vec<(String, super::tree::Stat)>, ShellError> {
    // Statuses come with listings; a path that was only joined together has none yet.
    let mut found = vec![("/".to_owned(), None)];
    for component in pattern.split('/').filter(|component| !component.is_empty()) {
        if !glob::has_pattern(component) {
            found = found
                .into_iter()
                .map(|(path, _)| (path::child(&path, component), None))
                .collect();
            continue;
        }
        let pattern = glob::Pattern::new(component)?;
        let mut next = Vec::new();
        for (path, stat) in found {
            let stat = match stat {
                Some(stat) => Some(stat),
                None => remote.stat(&path).map_err(|error| error.of(text))?,
            };
            if !stat.is_some_and(|stat| stat.directory) {
                continue;
            }
            for (name, stat) in remote.list(&path).map_err(|error| error.of(text))? {
                if pattern.matches(&name) {
                    next.push((path::child(&path, &name), Some(stat)));
                }
            }
        }
        found = next;
    }
    let mut there = Vec::new();
    for (path, stat) in found {
        let stat = match stat {
            Some(stat) => Some(stat),
            None => remote.stat(&path).map_err(|error| error.of(text))?,
        };
        there.extend(stat.map(|stat| (path, stat)));
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn relative_results_stay_relative() {
        assert_eq!(below("/user/alice/d/f", "/user/alice"), "d/f");
        assert_eq!(below("/user/alice", "/user/alice"), ".");
        assert_eq!(below("/user/alice2", "/user/alice"), "/user/alice2");
    }
}
