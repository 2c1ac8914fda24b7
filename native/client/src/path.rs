//! Names in Ozone's tree: `/volume/bucket/key`, and where a URI points.

use std::fmt;

use crate::Result;
use crate::error::Error;

/// A path: the root (nothing set), a volume, a bucket, or a key. Components are separated by single slashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FsPath {
    volume: String,
    bucket: String,
    key: String,
}

impl FsPath {
    /// The root, whose entries are the volumes.
    #[must_use]
    pub fn root() -> FsPath {
        FsPath::default()
    }

    /// Reads an absolute path. Repeated and trailing slashes are dropped.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] for a path that does not start with a slash or has a component `.` or `..` or a
    /// NUL byte.
    pub fn parse(text: &str) -> Result<FsPath> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(Error::invalid("the path must be absolute").at("parse", text));
        };
        let mut components = Vec::new();
        for component in rest.split('/').filter(|component| !component.is_empty()) {
            if component == "." || component == ".." {
                return Err(
                    Error::invalid("the path must not hold the components . and ..")
                        .at("parse", text),
                );
            }
            if component.contains('\0') {
                return Err(Error::invalid("the path must not hold a NUL byte")
                    .at("parse", text.escape_default()));
            }
            components.push(component);
        }
        let mut components = components.into_iter();
        let volume = components.next().unwrap_or_default().to_owned();
        let bucket = components.next().unwrap_or_default().to_owned();
        let key = components.collect::<Vec<_>>().join("/");
        Ok(FsPath {
            volume,
            bucket,
            key,
        })
    }

    /// A key in a bucket; an empty key is the bucket itself.
    pub(crate) fn in_bucket(volume: &str, bucket: &str, key: &str) -> FsPath {
        FsPath {
            volume: volume.to_owned(),
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        }
    }

    /// Volume, empty for the root.
    #[must_use]
    pub fn volume(&self) -> &str {
        &self.volume
    }

    /// Bucket, empty for the root and for volumes.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Key without a leading slash, empty for everything above keys.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The list of volumes.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.volume.is_empty()
    }

    /// A volume.
    #[must_use]
    pub fn is_volume(&self) -> bool {
        !self.volume.is_empty() && self.bucket.is_empty()
    }

    /// A bucket.
    #[must_use]
    pub fn is_bucket(&self) -> bool {
        !self.bucket.is_empty() && self.key.is_empty()
    }

    /// A key: a file or a directory in a bucket.
    #[must_use]
    pub fn is_key(&self) -> bool {
        !self.key.is_empty()
    }

    /// Below `.snapshot` of its bucket, where nothing can be changed.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.key == ".snapshot" || self.key.starts_with(".snapshot/")
    }

    /// Last component, empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.is_key() {
            self.key.rsplit('/').next().unwrap_or_default()
        } else if self.is_bucket() {
            &self.bucket
        } else {
            &self.volume
        }
    }

    /// The path one component up; none for the root.
    #[must_use]
    pub fn parent(&self) -> Option<FsPath> {
        let mut up = self.clone();
        if self.is_key() {
            up.key = self
                .key
                .rsplit_once('/')
                .map_or("", |(parent, _)| parent)
                .to_owned();
        } else if self.is_bucket() {
            up.bucket.clear();
        } else if self.is_volume() {
            up.volume.clear();
        } else {
            return None;
        }
        Some(up)
    }

    /// The path of an entry; the name may hold several components.
    #[must_use]
    pub fn child(&self, name: &str) -> FsPath {
        let mut down = self.clone();
        for component in name.split('/').filter(|component| !component.is_empty()) {
            if down.volume.is_empty() {
                down.volume.push_str(component);
            } else if down.bucket.is_empty() {
                down.bucket.push_str(component);
            } else {
                if !down.key.is_empty() {
                    down.key.push('/');
                }
                down.key.push_str(component);
            }
        }
        down
    }

    /// Whether this path lies below the other one, or is it.
    #[must_use]
    pub fn starts_with(&self, other: &FsPath) -> bool {
        if other.is_root() {
            return true;
        }
        if self.volume != other.volume {
            return false;
        }
        if other.is_volume() {
            return true;
        }
        if self.bucket != other.bucket {
            return false;
        }
        if other.is_bucket() {
            return true;
        }
        self.key
            .strip_prefix(&other.key)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(crate) fn same_bucket(&self, other: &FsPath) -> bool {
        self.volume == other.volume && self.bucket == other.bucket
    }
}

impl fmt::Display for FsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("/")?;
        f.write_str(&self.volume)?;
        for part in [&self.bucket, &self.key] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn splits_into_volume_bucket_and_key() {
        let path = FsPath::parse("//vol/bucket//a/b/").unwrap();
        assert_eq!(
            (path.volume(), path.bucket(), path.key()),
            ("vol", "bucket", "a/b")
        );
        assert_eq!(path.to_string(), "/vol/bucket/a/b");
        assert_eq!(path.name(), "b");
        assert!(FsPath::parse("/").unwrap().is_root());
        assert!(FsPath::parse("/v").unwrap().is_volume());
        assert!(FsPath::parse("/v/b/").unwrap().is_bucket());
    }

    #[test]
    fn refuses_what_no_server_should_see() {
        for bad in ["", "relative", "/v/b/../c", "/v/./b", "/v/b/a\0b"] {
            assert_eq!(
                FsPath::parse(bad).unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{bad:?}"
            );
        }
    }

    #[test]
    fn goes_up_and_down() {
        let path = FsPath::parse("/v/b/k/l").unwrap();
        let mut up = Vec::new();
        let mut now = path.clone();
        while let Some(parent) = now.parent() {
            up.push(parent.to_string());
            now = parent;
        }
        assert_eq!(up, ["/v/b/k", "/v/b", "/v", "/"]);
        assert_eq!(FsPath::root().child("v/b/k/l"), path);
    }

    #[test]
    fn a_common_beginning_of_a_name_is_no_ancestor() {
        let path = FsPath::parse("/v/b/dir/x").unwrap();
        assert!(path.starts_with(&FsPath::parse("/v/b/dir").unwrap()));
        assert!(path.starts_with(&path));
        assert!(
            !FsPath::parse("/v/b/dir2")
                .unwrap()
                .starts_with(&FsPath::parse("/v/b/dir").unwrap())
        );
    }

    #[test]
    fn knows_snapshot_paths() {
        assert!(FsPath::parse("/v/b/.snapshot/s/x").unwrap().is_snapshot());
        assert!(!FsPath::parse("/v/b/.snapshots").unwrap().is_snapshot());
    }
}
