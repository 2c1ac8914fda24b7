//! The one table that turns the client's errors into the exception classes that Hadoop callers test for.
//!
//! HDFS's own classes come first where callers written for HDFS catch them; they live in hadoop-hdfs-client, which need not be
//! on the class path, so such a row names a second class that always is.

use append_client::ErrorKind;

/// Which constructor a class has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `(String)`
    Text,
    /// `(String, long)`: the text and an offset in the file.
    TextAndOffset,
}

/// A class to throw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    /// Internal name, with slashes.
    pub(crate) class: &'static str,
    /// Thrown where `class` is not on the class path.
    pub(crate) otherwise: Option<&'static str>,
    pub(crate) shape: Shape,
}

const fn plain(class: &'static str) -> Exception {
    Exception {
        class,
        otherwise: None,
        shape: Shape::Text,
    }
}

const fn of_hdfs(class: &'static str, otherwise: &'static str) -> Exception {
    Exception {
        class,
        otherwise: Some(otherwise),
        shape: Shape::Text,
    }
}

pub(crate) const IO: Exception = plain("java/io/IOException");
const NOT_FOUND: Exception = plain("java/io/FileNotFoundException");
const INTERRUPTED: Exception = plain("java/io/InterruptedIOException");
pub(crate) const ILLEGAL_ARGUMENT: Exception = plain("java/lang/IllegalArgumentException");
/// A fault of this library, not of its caller or server.
pub(crate) const INTERNAL: Exception = plain("java/lang/IllegalStateException");
const FILE_EXISTS: Exception = plain("org/apache/hadoop/fs/FileAlreadyExistsException");
const UNSUPPORTED: Exception = plain("java/lang/UnsupportedOperationException");
const NO_SPACE: &str = "org/apache/hadoop/fs/ClusterStorageCapacityExceededException";

/// Error kind and class. The enum may grow; a kind that is missing here is an `IOException`.
pub(crate) const TABLE: &[(ErrorKind, Exception)] = &[
    (ErrorKind::NotFound, NOT_FOUND),
    (ErrorKind::ParentNotFound, NOT_FOUND),
    (ErrorKind::AlreadyExists, FILE_EXISTS),
    (ErrorKind::IsDirectory, FILE_EXISTS),
    (
        ErrorKind::NotADirectory,
        plain("org/apache/hadoop/fs/ParentNotDirectoryException"),
    ),
    (
        ErrorKind::DirectoryNotEmpty,
        plain("org/apache/hadoop/fs/PathIsNotEmptyDirectoryException"),
    ),
    (
        ErrorKind::PermissionDenied,
        plain("org/apache/hadoop/security/AccessControlException"),
    ),
    (
        ErrorKind::ReadOnly,
        of_hdfs(
            "org/apache/hadoop/hdfs/protocol/SnapshotAccessControlException",
            "org/apache/hadoop/security/AccessControlException",
        ),
    ),
    (
        ErrorKind::Conflict,
        of_hdfs(
            "org/apache/hadoop/hdfs/protocol/AlreadyBeingCreatedException",
            "io/libappend/fs/AlreadyBeingCreatedException",
        ),
    ),
    (
        ErrorKind::Recovering,
        of_hdfs(
            "org/apache/hadoop/hdfs/protocol/RecoveryInProgressException",
            "io/libappend/fs/RecoveryInProgressException",
        ),
    ),
    (
        ErrorKind::StaleSession,
        plain("io/libappend/fs/StaleSessionException"),
    ),
    (
        ErrorKind::OutcomeUnknown,
        plain("io/libappend/fs/OutcomeUnknownException"),
    ),
    (ErrorKind::Unsupported, UNSUPPORTED),
    (ErrorKind::Disabled, UNSUPPORTED),
    (
        ErrorKind::QuotaExceeded,
        of_hdfs(
            "org/apache/hadoop/hdfs/protocol/DSQuotaExceededException",
            NO_SPACE,
        ),
    ),
    (
        ErrorKind::Checksum,
        Exception {
            class: "org/apache/hadoop/fs/ChecksumException",
            otherwise: None,
            shape: Shape::TextAndOffset,
        },
    ),
    (ErrorKind::Timeout, plain("java/net/SocketTimeoutException")),
    (ErrorKind::Cancelled, INTERRUPTED),
    (ErrorKind::Connect, plain("java/net/ConnectException")),
    (ErrorKind::InvalidArgument, ILLEGAL_ARGUMENT),
    (ErrorKind::Closed, IO),
    (ErrorKind::NoSpace, plain(NO_SPACE)),
    (ErrorKind::ConditionFailed, IO),
    (
        ErrorKind::Unavailable,
        plain("org/apache/hadoop/ipc/RetriableException"),
    ),
    (ErrorKind::Protocol, IO),
    (ErrorKind::Io, IO),
];

/// What a call expects at its path, where that changes the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expects {
    /// It makes or changes something there.
    Anything,
    /// It looks at what is there. Hadoop wants `FileNotFoundException` from an open of a directory, and `exists` is built on
    /// that class, so a path below a file must give it too.
    Existing,
}

/// The class for an error kind.
pub(crate) fn of(kind: ErrorKind, expects: Expects) -> &'static Exception {
    if expects == Expects::Existing
        && matches!(kind, ErrorKind::IsDirectory | ErrorKind::NotADirectory)
    {
        return &NOT_FOUND;
    }
    TABLE
        .iter()
        .find(|(of, _)| *of == kind)
        .map_or(&IO, |(_, exception)| exception)
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_client::error::table::KINDS;

    #[test]
    fn every_kind_has_one_row() {
        for kind in KINDS {
            let rows = TABLE.iter().filter(|(of, _)| *of == kind).count();
            assert_eq!(rows, 1, "{kind:?}");
        }
    }

    #[test]
    fn a_look_at_a_path_ends_in_not_found() {
        assert_eq!(of(ErrorKind::IsDirectory, Expects::Existing), &NOT_FOUND);
        assert_eq!(of(ErrorKind::NotADirectory, Expects::Existing), &NOT_FOUND);
        assert_eq!(of(ErrorKind::IsDirectory, Expects::Anything), &FILE_EXISTS);
        assert_eq!(
            of(ErrorKind::PermissionDenied, Expects::Existing),
            of(ErrorKind::PermissionDenied, Expects::Anything)
        );
    }
}
