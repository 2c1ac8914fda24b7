//! What a shell command says when it fails, in the words and with the exit codes of `hadoop fs`.

use std::io;

use append_client::{Error, ErrorKind};

/// A failed step of a shell command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellError {
    /// The command line is wrong: usage is shown, exit code 255.
    #[error("{0}")]
    Usage(String),
    /// The step failed: one line, exit code 1, and the command goes on with its next operand.
    #[error("{0}")]
    Failed(String),
    /// What was asked cannot be done here at all: one line, exit code 255, where Hadoop's shell dies of an
    /// UnsupportedOperationException with 255 too.
    #[error("{0}")]
    Unsupported(String),
    /// Nobody reads our output any more.
    #[error("standard output was closed")]
    OutputClosed,
}

impl ShellError {
    pub(crate) fn failed(text: impl Into<String>) -> ShellError {
        ShellError::Failed(text.into())
    }

    pub(crate) fn not_found(shown: &str) -> ShellError {
        ShellError::Failed(format!("`{shown}': No such file or directory"))
    }

    /// As Hadoop reports a destination whose parent is missing: with the qualified path behind it.
    pub(crate) fn no_parent(shown: &str, qualified: &str) -> ShellError {
        if shown == qualified {
            return ShellError::not_found(shown);
        }
        ShellError::Failed(format!(
            "`{shown}': No such file or directory: `{qualified}'"
        ))
    }

    pub(crate) fn exists(shown: &str) -> ShellError {
        ShellError::Failed(format!("`{shown}': File exists"))
    }

    pub(crate) fn is_directory(shown: &str) -> ShellError {
        ShellError::Failed(format!("`{shown}': Is a directory"))
    }

    pub(crate) fn not_a_directory(shown: &str) -> ShellError {
        ShellError::Failed(format!("`{shown}': Is not a directory"))
    }

    /// A failure without a better word: what Hadoop's shell says when a call returns false.
    pub(crate) fn input_output(shown: &str) -> ShellError {
        ShellError::Failed(format!("`{shown}': Input/output error"))
    }

    /// A failed call on a path of the server.
    pub(crate) fn remote(error: &Error, shown: &str) -> ShellError {
        match error.kind() {
            ErrorKind::NotFound => ShellError::not_found(shown),
            ErrorKind::AlreadyExists => ShellError::exists(shown),
            ErrorKind::DirectoryNotEmpty => {
                ShellError::Failed(format!("`{shown}': Directory is not empty"))
            }
            ErrorKind::Unsupported | ErrorKind::Disabled => {
                ShellError::Unsupported(error.to_string())
            }
            _ => ShellError::Failed(error.to_string()),
        }
    }

    /// A failed call on a local path.
    pub(crate) fn local(error: &io::Error, shown: &str) -> ShellError {
        match error.kind() {
            io::ErrorKind::NotFound => ShellError::not_found(shown),
            io::ErrorKind::AlreadyExists => ShellError::exists(shown),
            io::ErrorKind::IsADirectory => ShellError::is_directory(shown),
            io::ErrorKind::NotADirectory => ShellError::not_a_directory(shown),
            io::ErrorKind::PermissionDenied => {
                ShellError::Failed(format!("{shown} (Permission denied)"))
            }
            _ => ShellError::Failed(format!("`{shown}': {error}")),
        }
    }

    /// A failed write to standard output.
    pub(crate) fn output(error: &io::Error) -> ShellError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => ShellError::OutputClosed,
            _ => ShellError::Failed(format!("standard output: {error}")),
        }
    }
}
