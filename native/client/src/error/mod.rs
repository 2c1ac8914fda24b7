//! The one error type of the client: what kind of failure, of which call, on which path, and what a caller may do next.
//!
//! The kinds are the decisions that a caller can take; [`table`] maps Ozone's statuses and the codes of appending to them and
//! them to errno. Nothing here talks to a server.

pub mod table;

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::status::AppendStatus;

/// What went wrong, as far as a caller can decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing stands at the path: no volume, no bucket, no file, or the file of a session was deleted or replaced.
    NotFound,
    /// The parent of a new name is missing and was not to be made.
    ParentNotFound,
    /// The name exists already.
    AlreadyExists,
    /// The path is a directory, and the call wants a file.
    IsDirectory,
    /// A parent in the path is a file, or the path is a file and the call wants a directory.
    NotADirectory,
    /// A directory, bucket or volume has entries.
    DirectoryNotEmpty,
    /// The caller may not do this.
    PermissionDenied,
    /// The path lies in a snapshot: it can only be read.
    ReadOnly,
    /// Another writer holds the file. [`Error::conflict`] tells which, and for how long at most.
    Conflict,
    /// The file's writer is gone and the file is being recovered. [`Error::conflict`] tells more.
    Recovering,
    /// This stream's session is over for the server: fenced, expired or unknown. Nothing that it wrote after its last
    /// successful sync is published.
    StaleSession,
    /// The server may or may not have done it. Look before doing it again.
    OutcomeUnknown,
    /// The server, the bucket's layout or this client cannot do this.
    Unsupported,
    /// The server could do this, but it is switched off or not finalized.
    Disabled,
    /// A quota of the volume or bucket is used up.
    QuotaExceeded,
    /// Bytes of a block do not match their checksum. [`Error::bad_block`] names block and offset.
    Checksum,
    /// The deadline passed before the call was sent or while a repeatable call waited.
    Timeout,
    /// The caller cancelled the call. What the server did by then stands.
    Cancelled,
    /// No server could be reached.
    Connect,
    /// An argument, path or setting is malformed.
    InvalidArgument,
    /// The stream or file system was closed before.
    Closed,
    /// No datanode has room for another block.
    NoSpace,
    /// A condition of a conditional change did not hold.
    ConditionFailed,
    /// The server cannot serve this now; the same call may work later.
    Unavailable,
    /// A peer broke the protocol.
    Protocol,
    /// A failure that fits no other kind.
    Io,
}

/// Whether and when the same call may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It would fail again.
    Never,
    /// It may work at once or later.
    Now,
    /// It may work after this time.
    After(Duration),
    /// The result is not known: look at the file first.
    LookFirst,
}

/// Where a checksum did not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadBlock {
    /// Container of the block.
    pub container: i64,
    /// Block in the container.
    pub local: i64,
    /// Offset in the block of the first byte of the window that does not match. When a datanode says so itself, the bad byte
    /// lies at this offset or behind it, and the text is more exact.
    pub offset_in_block: u64,
    /// Offset in the file of the same byte.
    pub offset_in_file: u64,
}

/// A failed call. Cheap to move; thread-safe.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    text: String,
    status: Option<&'static str>,
    operation: Option<&'static str>,
    path: Option<String>,
    session: Option<u64>,
    request: Option<String>,
    retry: Option<Retry>,
    conflict: Option<AppendStatus>,
    bad_block: Option<BadBlock>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of a kind with a text for people.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            text: text.into(),
            status: None,
            operation: None,
            path: None,
            session: None,
            request: None,
            retry: None,
            conflict: None,
            bad_block: None,
            source: None,
        }))
    }

    /// An [`ErrorKind::Unsupported`] error.
    pub fn unsupported(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, what)
    }

    /// An [`ErrorKind::InvalidArgument`] error.
    pub fn invalid(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, what)
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text of the server or of the failed step, without operation and path.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Name of the status that a server answered, such as `KEY_NOT_FOUND`.
    #[must_use]
    pub fn status(&self) -> Option<&'static str> {
        self.0.status
    }

    /// Name of the failed call, such as `append`.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The path that the call was about.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// The session of the stream that failed.
    #[must_use]
    pub fn session(&self) -> Option<u64> {
        self.0.session
    }

    /// Identity of the failed request, as the server logs it: 32 hexadecimal digits.
    #[must_use]
    pub fn request(&self) -> Option<&str> {
        self.0.request.as_deref()
    }

    /// The writer in the way, for [`ErrorKind::Conflict`] and [`ErrorKind::Recovering`].
    #[must_use]
    pub fn conflict(&self) -> Option<&AppendStatus> {
        self.0.conflict.as_ref()
    }

    /// The damaged block, for [`ErrorKind::Checksum`].
    #[must_use]
    pub fn bad_block(&self) -> Option<&BadBlock> {
        self.0.bad_block.as_ref()
    }

    /// Whether the same call may be tried again. For a conflict: after the time that the owner still has.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.retry.unwrap_or_else(|| table::retry(self.kind()))
    }

    /// The errno that stands for this error at a C border.
    #[must_use]
    pub fn errno(&self) -> i32 {
        table::errno(self.kind())
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }

    pub(crate) fn with_text(mut self, text: String) -> Error {
        self.0.text = text;
        self
    }

    /// Adds what failed before.
    pub(crate) fn after(mut self, before: &str) -> Error {
        self.0.text = format!("{} (before that: {before})", self.0.text);
        self
    }

    /// Names the file that a session had, which may not be the one at its path any more.
    pub(crate) fn about_file(mut self, file: u64) -> Error {
        self.0.text = format!("{} [file {file}]", self.0.text);
        self
    }

    pub(crate) fn with_status(mut self, status: &'static str) -> Error {
        self.0.status = Some(status);
        self
    }

    /// Names the call and its path, unless a step further inside did.
    pub(crate) fn at(mut self, operation: &'static str, path: impl fmt::Display) -> Error {
        self.0.operation.get_or_insert(operation);
        if self.0.path.is_none() {
            self.0.path = Some(path.to_string());
        }
        self
    }

    pub(crate) fn with_session(mut self, session: u64) -> Error {
        self.0.session = Some(session);
        self
    }

    pub(crate) fn with_request(mut self, request: impl Into<String>) -> Error {
        self.0.request = Some(request.into());
        self
    }

    pub(crate) fn with_retry(mut self, retry: Retry) -> Error {
        self.0.retry = Some(retry);
        self
    }

    pub(crate) fn with_conflict(mut self, conflict: AppendStatus) -> Error {
        self.0.conflict = Some(conflict);
        self
    }

    pub(crate) fn with_bad_block(mut self, block: BadBlock) -> Error {
        self.0.bad_block = Some(block);
        self
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// The same failure for another waiter of the same work; the source stays with the first.
    pub(crate) fn copy(&self) -> Error {
        Error(Box::new(Inner {
            kind: self.0.kind,
            text: self.0.text.clone(),
            status: self.0.status,
            operation: self.0.operation,
            path: self.0.path.clone(),
            session: self.0.session,
            request: self.0.request.clone(),
            retry: self.0.retry,
            conflict: self.0.conflict.clone(),
            bad_block: self.0.bad_block,
            source: None,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        match (inner.operation, &inner.path) {
            (Some(operation), Some(path)) => write!(f, "{operation} {path}: ")?,
            (Some(operation), None) => write!(f, "{operation}: ")?,
            (None, Some(path)) => write!(f, "{path}: ")?,
            (None, None) => {}
        }
        f.write_str(&inner.text)?;
        let mut open = " (";
        let mut detail = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            let result = write!(f, "{open}{text}");
            open = ", ";
            result
        };
        if let Some(status) = inner.status {
            detail(f, format_args!("{status}"))?;
        }
        if let Some(session) = inner.session {
            detail(f, format_args!("session {session}"))?;
        }
        // Servers name the request themselves, as a rule.
        let unnamed = |request: &&String| !inner.text.contains(request.as_str());
        let request = inner.request.as_ref().filter(unnamed);
        if let Some(request) = request {
            detail(f, format_args!("request {request}"))?;
        }
        if inner.status.is_some() || inner.session.is_some() || request.is_some() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_call_path_status_session_and_request_once() {
        let error = Error::new(ErrorKind::NotFound, "no such file")
            .with_status("KEY_NOT_FOUND")
            .at("append", "/v/b/f")
            .at("outer", "/other")
            .with_session(7)
            .with_request("0a-1");
        assert_eq!(
            error.to_string(),
            "append /v/b/f: no such file (KEY_NOT_FOUND, session 7, request 0a-1)"
        );
        let named = Error::new(ErrorKind::NotFound, "gone [request 0a-1]").with_request("0a-1");
        assert_eq!(named.to_string(), "gone [request 0a-1]");
        assert_eq!(Error::invalid("x").to_string(), "x");
    }

    #[test]
    fn a_copy_tells_the_same() {
        let error = Error::new(ErrorKind::Io, "broken")
            .at("write", "/v/b/f")
            .with_retry(Retry::Never)
            .with_source("cause");
        let copy = error.copy();
        assert_eq!(copy.to_string(), error.to_string());
        assert_eq!((copy.kind(), copy.retry()), (error.kind(), error.retry()));
        assert!(error.source().is_some() && copy.source().is_none());
    }
}
