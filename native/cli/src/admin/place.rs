//! Where a command of administration goes: a name, a path, or a URI with its server.

use append_client::{Config, Error, FileSystem};

/// The setting that names the server of paths without a scheme.
pub(crate) const DEFAULT_FS: &str = "fs.defaultFS";

/// A server and a path on it.
pub(crate) struct Place {
    pub(crate) fs: FileSystem,
    /// Absolute; `/` for the server itself.
    pub(crate) path: String,
}

impl Place {
    /// Connects to the server of `text`: `ofs://host:port/path`, or a path (its first slash may be left out) on the default
    /// server. A default that is no `ofs` server counts as none; then the settings of Ozone (`ozone.om.address`) name it.
    ///
    /// # Errors
    /// Those of [`FileSystem::connect`].
    pub(crate) async fn open(text: &str, config: &Config) -> Result<Place, Error> {
        let (address, path) = split(text, config.get(DEFAULT_FS).unwrap_or_default())?;
        let fs = FileSystem::connect(&address, config.clone()).await?;
        Ok(Place { fs, path })
    }

    /// The volume that the path names.
    ///
    /// # Errors
    /// [`append_client::ErrorKind::InvalidArgument`] if it names something else.
    pub(crate) fn volume(&self) -> Result<&str, Error> {
        match self.components().as_slice() {
            [volume] => Ok(volume),
            _ => Err(Error::invalid(format!(
                "{} is not a volume: write /VOLUME",
                self.path
            ))),
        }
    }

    /// The bucket that the path names, with its volume.
    ///
    /// # Errors
    /// As [`Place::volume`].
    pub(crate) fn bucket(&self) -> Result<(&str, &str), Error> {
        match self.components().as_slice() {
            [volume, bucket] => Ok((volume, bucket)),
            _ => Err(Error::invalid(format!(
                "{} is not a bucket: write /VOLUME/BUCKET",
                self.path
            ))),
        }
    }

    fn components(&self) -> Vec<&str> {
        self.path
            .split('/')
            .filter(|component| !component.is_empty())
            .collect()
    }
}

/// Splits into the server's address (empty: by the settings) and the path.
fn split(text: &str, default: &str) -> Result<(String, String), Error> {
    if let Some((scheme, rest)) = text.split_once("://") {
        if scheme != "ofs" {
            return Err(Error::invalid(format!("the scheme of {text} is not ofs")));
        }
        let at = rest.find('/').unwrap_or(rest.len());
        let path = if rest[at..].is_empty() {
            "/"
        } else {
            &rest[at..]
        };
        return Ok((format!("ofs://{}", &rest[..at]), path.to_owned()));
    }
    let address = if default.starts_with("ofs://") {
        default.trim_end_matches('/')
    } else {
        ""
    };
    Ok((
        address.to_owned(),
        format!("/{}", text.trim_start_matches('/')),
    ))
}

#[cfg(test)]
mod tests {
    use super::split;

    fn parts(text: &str, default: &str) -> (String, String) {
        split(text, default).unwrap()
    }

    #[test]
    fn uris_name_their_server() {
        assert_eq!(
            parts("ofs://h:1/v/b", "ofs://other"),
            ("ofs://h:1".to_owned(), "/v/b".to_owned())
        );
        assert_eq!(parts("ofs://h", ""), ("ofs://h".to_owned(), "/".to_owned()));
        assert!(split("hdfs://h/v", "").is_err());
    }

    #[test]
    fn paths_are_on_the_default_server() {
        assert_eq!(
            parts("v/b", "ofs://h:1/"),
            ("ofs://h:1".to_owned(), "/v/b".to_owned())
        );
        assert_eq!(parts("/v", "hdfs://h"), (String::new(), "/v".to_owned()));
    }
}
