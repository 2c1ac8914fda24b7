//! Settings of a client under Ozone's key names: from Hadoop's XML files, from code, or both.
//!
//! A key that is not set has the default that [`keys`] names. Values are read when a file system connects; a malformed one fails
//! there and names its key.

pub(crate) mod address;
pub mod keys;
mod settings;
mod xml;

pub(crate) use settings::{Settings, Transport};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::error::{Error, ErrorKind};

/// How deep `${key}` may lead from value to value.
const DEEPEST_EXPANSION: usize = 20;

/// A set of settings. What is set in code replaces what files say. Among files, later ones replace earlier ones, unless a file
/// called a value final.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    values: BTreeMap<String, String>,
    user: Option<String>,
}

impl Config {
    /// No settings: every key has its default, the user comes from the environment.
    #[must_use]
    pub fn empty() -> Config {
        Config::default()
    }

    /// Reads `core-site.xml` and `ozone-site.xml` from `HADOOP_CONF_DIR`, else from `$HADOOP_HOME/etc/hadoop`. No such variable,
    /// folder or file: no settings.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] for a file that is not well-formed, naming file and place;
    /// [`crate::ErrorKind::Io`] for a file that cannot be read.
    pub fn from_environment() -> Result<Config> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let directory = set("HADOOP_CONF_DIR").map(PathBuf::from).or_else(|| {
            set("HADOOP_HOME").map(|home| PathBuf::from(home).join("etc").join("hadoop"))
        });
        match directory {
            Some(directory) => Config::from_directory(&directory),
            None => Ok(Config::empty()),
        }
    }

    /// As [`Config::from_environment`], from this folder.
    ///
    /// # Errors
    /// As there.
    pub fn from_directory(directory: &Path) -> Result<Config> {
        let mut files = Vec::new();
        for name in ["core-site.xml", "ozone-site.xml"] {
            let file = directory.join(name);
            match std::fs::read_to_string(&file) {
                Ok(text) => files.push((file.display().to_string(), text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    return Err(Error::new(ErrorKind::Io, e.to_string())
                        .at("read configuration", file.display())
                        .with_source(e));
                }
            }
        }
        Config::from_files(&files)
    }

    /// Names and texts of files, in their order.
    fn from_files(files: &[(String, String)]) -> Result<Config> {
        let mut config = Config::empty();
        let mut finals = std::collections::BTreeSet::new();
        for (name, text) in files {
            for property in xml::parse(name, text)? {
                if finals.contains(&property.name) {
                    continue;
                }
                if property.is_final {
                    finals.insert(property.name.clone());
                }
                config.values.insert(property.name, property.value);
            }
        }
        Ok(config)
    }

    /// Sets a key.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) -> &mut Config {
        self.values.insert(key.into(), value.into());
        self
    }

    /// Sets a key, for chains.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Config {
        self.set(key, value);
        self
    }

    /// Sets the user whom servers see. Without it: `HADOOP_USER_NAME`, else the user of the process.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<String>) -> Config {
        self.user = Some(user.into());
        self
    }

    /// The raw value of a key: `${key}` is not expanded.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The value of a key with `${key}`, `${env.NAME}` and `${user.name}` replaced; what nobody set stays as it is.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] for values that lead to each other without end.
    pub fn expand(&self, key: &str) -> Result<Option<String>> {
        let Some(mut value) = self.get(key).map(str::to_owned) else {
            return Ok(None);
        };
        for _ in 0..DEEPEST_EXPANSION {
            match self.expand_once(&value) {
                Some(expanded) => value = expanded,
                None => return Ok(Some(value)),
            }
        }
        Err(Error::invalid(format!(
            "{key}: its ${{...}} lead to each other without end"
        )))
    }

    /// Replaces the first reference that somebody set.
    fn expand_once(&self, value: &str) -> Option<String> {
        let mut from = 0;
        while let Some(start) = value.get(from..)?.find("${").map(|at| from + at) {
            let end = start + value.get(start..)?.find('}')?;
            let name = value.get(start + 2..end)?;
            if let Some(replacement) = self.variable(name) {
                let mut expanded = value.get(..start)?.to_owned();
                expanded.push_str(&replacement);
                expanded.push_str(value.get(end + 1..)?);
                return Some(expanded);
            }
            from = end;
        }
        None
    }

    fn variable(&self, name: &str) -> Option<String> {
        if let Some(variable) = name.strip_prefix("env.") {
            return std::env::var(variable).ok();
        }
        if let Some(value) = self.get(name) {
            return Some(value.to_owned());
        }
        (name == "user.name").then(|| self.user().ok()).flatten()
    }

    /// The user whom servers see: set in code, `HADOOP_USER_NAME`, or the user of the process.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if none of them tells.
    pub fn user(&self) -> Result<String> {
        let from = |name: &str| std::env::var(name).ok().filter(|user| !user.is_empty());
        self.user
            .clone()
            .filter(|user| !user.is_empty())
            .or_else(|| from("HADOOP_USER_NAME"))
            .or_else(process_user)
            .or_else(|| from("USER"))
            .ok_or_else(|| {
                Error::invalid(
                    "nobody says who the user is: set one in code or in HADOOP_USER_NAME",
                )
            })
    }
}

/// The name of the process's effective user by the system's list of users.
fn process_user() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let uid = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_whitespace()
        .nth(1)?
        .to_owned();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    user_by_id(&users, &uid)
}

fn user_by_id(users: &str, uid: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, properties: &str) -> (String, String) {
        (
            name.to_owned(),
            format!("<configuration>{properties}</configuration>"),
        )
    }

    #[test]
    fn later_files_win_over_all_but_final_values() {
        let core = file(
            "core-site.xml",
            "<property><name>a</name><value>1</value></property>
             <property><name>b</name><value>1</value><final>true</final></property>",
        );
        let ozone = file(
            "ozone-site.xml",
            "<property><name>a</name><value>2</value></property>
             <property><name>b</name><value>2</value></property>",
        );
        let config = Config::from_files(&[core, ozone]).unwrap();
        assert_eq!(config.get("a"), Some("2"));
        assert_eq!(config.get("b"), Some("1"));
    }

    #[test]
    fn a_folder_without_files_has_no_settings_and_a_broken_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            Config::from_directory(folder.path()).unwrap(),
            Config::empty()
        );
        std::fs::write(folder.path().join("core-site.xml"), "<configuration>").unwrap();
        let error = Config::from_directory(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("core-site.xml"));
    }

    #[test]
    fn references_are_expanded_and_loops_found() {
        let config = Config::empty()
            .with("host", "om1")
            .with("ozone.om.address", "${host}:${port}")
            .with("loop", "${pool}")
            .with("pool", "${loop}")
            .with("who", "${user.name}")
            .with_user("ann");
        assert_eq!(
            config.expand("ozone.om.address").unwrap().unwrap(),
            "om1:${port}"
        );
        assert_eq!(config.expand("who").unwrap().unwrap(), "ann");
        assert_eq!(config.expand("unset").unwrap(), None);
        assert_eq!(
            config.expand("loop").unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }

    #[test]
    fn the_user_of_code_comes_first() {
        assert_eq!(Config::empty().with_user("bob").user().unwrap(), "bob");
        assert!(!Config::empty().user().unwrap().is_empty());
        let users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(user_by_id(users, "1000").as_deref(), Some("ann"));
        assert_eq!(user_by_id(users, "1"), None);
    }
}
