//! Paths as people write them: with or without scheme, absolute or below the home directory.

use super::error::ShellError;

/// A path in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) scheme: Option<String>,
    /// Host and port, service, or bucket.volume.host for o3fs; empty if none is written.
    pub(crate) authority: String,
    /// As written, without scheme and authority.
    pub(crate) path: String,
}

impl Written {
    /// Splits a path. A scheme is letters, digits, `+`, `-`, `.` in front of a colon that stands before the first slash.
    ///
    /// # Errors
    /// [`ShellError::Usage`] for an empty path.
    pub(crate) fn parse(text: &str) -> Result<Written, ShellError> {
        if text.is_empty() {
            return Err(ShellError::Usage(
                "Can not create a Path from an empty string".to_owned(),
            ));
        }
        let (scheme, rest) = match text.find([':', '/']) {
            Some(at) if text[at..].starts_with(':') && is_scheme(&text[..at]) => {
                (Some(text[..at].to_owned()), &text[at + 1..])
            }
            _ => (None, text),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if scheme.is_some() => {
                let at = rest.find('/').unwrap_or(rest.len());
                (rest[..at].to_owned(), &rest[at..])
            }
            _ => (String::new(), rest),
        };
        let path = if path.is_empty() && scheme.is_some() {
            "/"
        } else {
            path
        };
        Ok(Written {
            scheme,
            authority,
            path: path.to_owned(),
        })
    }

    /// What stands in front of the path, to be shown again in front of results.
    pub(crate) fn prefix(&self) -> String {
        match &self.scheme {
            Some(scheme) => format!("{scheme}://{}", self.authority),
            None => String::new(),
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Drops empty and `.` components and resolves `..` by the text alone. An absolute path stays absolute; a relative one that
/// comes to nothing is `.`.
pub(crate) fn normal(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&last| last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            _ => parts.push(part),
        }
    }
    match (absolute, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

/// The path as an absolute one, relative to the home directory if need be.
pub(crate) fn absolute(path: &str, home: &str) -> String {
    if path.starts_with('/') {
        normal(path)
    } else {
        normal(&format!("{home}/{path}"))
    }
}

/// The path of an entry.
pub(crate) fn child(path: &str, name: &str) -> String {
    match path {
        "." => name.to_owned(),
        _ if path.ends_with('/') => format!("{path}{name}"),
        _ => format!("{path}/{name}"),
    }
}

/// The directory of an absolute, normal path; none for the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        _ if path == "/" => None,
        Some(("", _)) => Some("/"),
        Some((parent, _)) => Some(parent),
        None => None,
    }
}

/// Last component; empty for the root.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_and_authorities() {
        let written = Written::parse("ofs://host:9862/v/b").unwrap();
        assert_eq!(
            (
                written.scheme.as_deref(),
                written.authority.as_str(),
                written.path.as_str()
            ),
            (Some("ofs"), "host:9862", "/v/b")
        );
        assert_eq!(written.prefix(), "ofs://host:9862");
        assert_eq!(Written::parse("ofs://host").unwrap().path, "/");
        assert_eq!(Written::parse("/a:b/c").unwrap().scheme, None);
        assert_eq!(Written::parse("a/b:c").unwrap().scheme, None);
        assert!(Written::parse("").is_err());
    }

    #[test]
    fn normal_paths() {
        assert_eq!(normal("//a//b/"), "/a/b");
        assert_eq!(normal("/a/./../b"), "/b");
        assert_eq!(normal("/../a"), "/a");
        assert_eq!(normal("./d/"), "d");
        assert_eq!(normal("d/.."), ".");
        assert_eq!(normal("../d"), "../d");
        assert_eq!(absolute("x", "/user/alice"), "/user/alice/x");
    }

    #[test]
    fn family() {
        assert_eq!(child("/", "a"), "/a");
        assert_eq!(child(".", "a"), "a");
        assert_eq!(child("ofs://h/v", "a"), "ofs://h/v/a");
        assert_eq!(parent("/a/b"), Some("/a"));
        assert_eq!(parent("/a"), Some("/"));
        assert_eq!(parent("/"), None);
        assert_eq!(name("/a/b"), "b");
    }
}
