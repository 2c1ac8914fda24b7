//! Which names are allowed: Ozone's rules for volumes, buckets and keys, and bounds that keep every row key short.

use crate::command::{Layout, Pair};
use crate::reply::{Refusal, RefusalKind};

/// Bytes of a key: HDFS's bound for a path.
pub(crate) const MAX_KEY_BYTES: usize = 8_000;
/// Components of a key: HDFS's bound for a path.
pub(crate) const MAX_KEY_DEPTH: usize = 1_000;
/// The first component under which snapshots appear.
const SNAPSHOTS: &str = ".snapshot";
/// Metadata that only the server writes.
const RESERVED_METADATA: [&str; 5] = [
    "hsyncClientId",
    "leaseRecovery",
    "deletedHsyncKey",
    "overwrittenHsyncKey",
    "CKDEL",
];
/// Metadata that describes the whole content, so that a publication of more content drops it.
const CONTENT_METADATA: &str = "ETag";

/// Checks a volume's name.
pub(crate) fn check_volume(name: &str) -> Result<(), Refusal> {
    check_resource(name).map_err(|why| {
        Refusal::new(
            RefusalKind::InvalidVolumeName,
            format!("'{}' is no volume name: {why}", shown(name)),
        )
    })
}

/// Checks a bucket's name.
pub(crate) fn check_bucket(name: &str) -> Result<(), Refusal> {
    check_resource(name).map_err(|why| {
        Refusal::new(
            RefusalKind::InvalidBucketName,
            format!("'{}' is no bucket name: {why}", shown(name)),
        )
    })
}

fn check_resource(name: &str) -> Result<(), &'static str> {
    if !(3..=63).contains(&name.len()) {
        return Err("it must have 3 to 63 characters");
    }
    if !name.bytes().all(|byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
    }) {
        return Err("only a-z, 0-9, '-' and '.' are allowed");
    }
    if name.starts_with(['-', '.']) || name.ends_with(['-', '.']) {
        return Err("it must not start or end with '-' or '.'");
    }
    if name.contains("..") {
        return Err("no two dots may stand together");
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("it must not be a number");
    }
    if name.parse::<std::net::Ipv4Addr>().is_ok() {
        return Err("it must not be an IP address");
    }
    Ok(())
}

/// A key as its bucket's layout keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyName {
    /// Without slashes at its ends (FSO, LEGACY); literally (OBJECT_STORE). Empty for the root.
    pub(crate) text: String,
    /// It ended in a slash that was taken off (FSO, LEGACY): in LEGACY the name of a directory's own key.
    pub(crate) slash: bool,
}

impl KeyName {
    /// The key of a row outside FSO.
    pub(crate) fn row_name(&self) -> String {
        if self.slash {
            format!("{}/", self.text)
        } else {
            self.text.clone()
        }
    }
}

/// Normalises and checks a key. Double slashes and slashes at the ends fall away in FSO and LEGACY; OBJECT_STORE takes keys literally.
pub(crate) fn key(layout: Layout, key: &str) -> Result<KeyName, Refusal> {
    let invalid = |why: &str| {
        Err(Refusal::new(
            RefusalKind::InvalidKeyName,
            format!("'{}' is no key name: {why}", shown(key)),
        ))
    };
    if key.len() > MAX_KEY_BYTES {
        return invalid("it is longer than 8000 bytes");
    }
    if key.contains('\0') {
        return invalid("it holds a zero character");
    }
    let components: Vec<&str> = key
        .split('/')
        .filter(|component| !component.is_empty())
        .collect();
    if components.first() == Some(&SNAPSHOTS) {
        return invalid("paths below .snapshot are read-only");
    }
    if layout == Layout::ObjectStore {
        return Ok(KeyName {
            text: key.to_owned(),
            slash: false,
        });
    }
    if components.len() > MAX_KEY_DEPTH {
        return invalid("it has more than 1000 components");
    }
    if components
        .iter()
        .any(|component| *component == "." || *component == ".." || component.contains(':'))
    {
        return invalid("'.', '..' and ':' are not allowed in a component");
    }
    Ok(KeyName {
        text: components.join("/"),
        slash: key.ends_with('/') && !components.is_empty(),
    })
}

/// A name cut for a message.
fn shown(name: &str) -> String {
    match name.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// The last component.
pub(crate) fn leaf(text: &str) -> &str {
    text.rsplit_once('/').map_or(text, |(_, leaf)| leaf)
}

/// `directory` and `name` as one key.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

/// What a client may set as metadata: everything but the reserved keys; of several values for a key the last.
pub(crate) fn metadata(given: &[Pair]) -> Vec<Pair> {
    let mut kept = Vec::new();
    merge_metadata(&mut kept, given);
    kept
}

/// Merges a client's metadata into a file's.
pub(crate) fn merge_metadata(into: &mut Vec<Pair>, given: &[Pair]) {
    for pair in given
        .iter()
        .filter(|pair| !RESERVED_METADATA.contains(&pair.key.as_str()))
    {
        match into.iter_mut().find(|known| known.key == pair.key) {
            Some(known) => known.value.clone_from(&pair.value),
            None => into.push(pair.clone()),
        }
    }
}

/// Drops metadata that described the content before it grew.
pub(crate) fn drop_content_metadata(metadata: &mut Vec<Pair>) {
    metadata.retain(|pair| pair.key != CONTENT_METADATA);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ozones_rules_for_volume_and_bucket_names() {
        for good in ["abc", "a-b.c", "1ab", "vol1", &"a".repeat(63)] {
            assert!(check_bucket(good).is_ok(), "{good}");
            assert!(check_volume(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "ab",
            &"a".repeat(64),
            "Abc",
            "a_b",
            "-ab",
            "ab-",
            ".ab",
            "ab.",
            "a..b",
            "123",
            "10.0.0.1",
            "a/b",
            "ä12",
        ] {
            assert_eq!(
                check_bucket(bad).unwrap_err().kind,
                RefusalKind::InvalidBucketName as i32,
                "{bad}"
            );
            assert_eq!(
                check_volume(bad).unwrap_err().kind,
                RefusalKind::InvalidVolumeName as i32,
                "{bad}"
            );
        }
    }

    #[test]
    fn keys_are_normalised_where_they_are_paths_and_literal_elsewhere() {
        let fso =
            |text: &str| key(Layout::FileSystemOptimized, text).map(|key| (key.text, key.slash));
        assert_eq!(fso("//a///b/").unwrap(), ("a/b".into(), true));
        assert_eq!(fso("/").unwrap(), (String::new(), false));
        assert_eq!(key(Layout::ObjectStore, "//a/").unwrap().text, "//a/");
        for bad in [
            "a/../b",
            "./a",
            "a:b",
            ".snapshot",
            ".snapshot/s/a",
            "/.snapshot/s",
            "a\0b",
        ] {
            assert_eq!(
                fso(bad).unwrap_err().kind,
                RefusalKind::InvalidKeyName as i32,
                "{bad}"
            );
        }
        assert!(fso("a/.snapshot").is_ok());
        assert!(key(Layout::ObjectStore, ".snapshot/x").is_err());
        assert!(fso(&"a/".repeat(MAX_KEY_DEPTH)).is_ok());
        assert!(fso(&"a/".repeat(MAX_KEY_DEPTH + 1)).is_err());
        assert!(fso(&"a".repeat(MAX_KEY_BYTES + 1)).is_err());
    }

    #[test]
    fn clients_cannot_set_reserved_metadata() {
        let pair = |key: &str, value: &str| Pair {
            key: key.into(),
            value: value.into(),
        };
        let given = [
            pair("hsyncClientId", "1"),
            pair("a", "1"),
            pair("CKDEL", "true"),
            pair("a", "2"),
        ];
        assert_eq!(metadata(&given), [pair("a", "2")]);
    }
}
