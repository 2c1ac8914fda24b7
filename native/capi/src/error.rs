//! Error objects: the client's errors and this library's own under numbers that never change, with errno, text and advice.

use std::borrow::Cow;
use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int};

use append_client::{ErrorKind, Retry};

use crate::call::{Fault, is_forked, set_errno};
use crate::holder::{Holder, HolderView, milliseconds};
use crate::memory::{c_text, signed};
use crate::table::{Missing, Table, join};

const TAG: u8 = 1;
static ERRORS: Table<ErrorObject> = Table::new(TAG);

/// Why a call failed. Made by the function that fails and owned by the caller, who frees it with append_error_free.
pub struct ErrorHandle {
    _opaque: [u8; 0],
}

/// What went wrong, as far as a program can decide by it. Numbers are never used for anything else; new ones may come.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A kind that this version of the library has no number for.
    Unknown = 0,
    /// ENOENT: nothing stands at the path, or the file of a stream was deleted or replaced.
    NotFound = 1,
    /// ENOENT: the parent of a new name is missing and was not to be made.
    ParentNotFound = 2,
    /// EEXIST: the name exists already.
    AlreadyExists = 3,
    /// EISDIR: the path is a directory, and the call wants a file.
    IsDirectory = 4,
    /// ENOTDIR: a parent in the path is a file, or the path is one and the call wants a directory.
    NotADirectory = 5,
    /// ENOTEMPTY: a directory, bucket or volume has entries.
    DirectoryNotEmpty = 6,
    /// EACCES: the caller may not do this.
    PermissionDenied = 7,
    /// EROFS: the path lies in a snapshot.
    ReadOnly = 8,
    /// EBUSY: another writer holds the file; append_error_holder tells which.
    Conflict = 9,
    /// EBUSY: the file's writer is gone and the file is being recovered.
    Recovering = 10,
    /// ESTALE: the stream's session is over for the server. Nothing after its last successful sync is published.
    StaleSession = 11,
    /// ENOTRECOVERABLE: the server may or may not have done it. Look before doing it again.
    OutcomeUnknown = 12,
    /// ENOTSUP: the server, the bucket's layout or this library cannot do this.
    Unsupported = 13,
    /// ENOTSUP: the server could do this, but it is switched off or not finalized.
    Disabled = 14,
    /// EDQUOT: a quota of the volume or bucket is used up.
    QuotaExceeded = 15,
    /// EBADMSG: bytes of a block do not match their checksum; append_error_bad_offset tells where.
    Checksum = 16,
    /// ETIMEDOUT: the time of the call, or of the configuration, is over.
    Timeout = 17,
    /// EINTR: somebody triggered the call's append_cancel. What the server did by then stands.
    Cancelled = 18,
    /// ECONNREFUSED: no server could be reached.
    Connect = 19,
    /// EINVAL: an argument, path or setting is malformed, or a pointer is NULL that must not be.
    InvalidArgument = 20,
    /// EBADF: the handle was closed or freed before.
    Closed = 21,
    /// ENOSPC: no datanode has room for another block.
    NoSpace = 22,
    /// ECANCELED: a condition of a conditional change did not hold.
    ConditionFailed = 23,
    /// EAGAIN: the server cannot serve this now.
    Unavailable = 24,
    /// EPROTO: a peer broke the protocol.
    Protocol = 25,
    /// EIO: a failure that fits no other kind.
    Io = 26,
    /// EBADF: the value is no handle of this type.
    BadHandle = 100,
    /// EINVAL: the process is a child of the one that connected. The child cannot use the library, except through exec.
    Forked = 101,
    /// EMFILE: too many handles are open.
    NoHandles = 102,
    /// EIO: a fault of the library itself.
    Internal = 103,
}

/// Whether and when the same call may be made again.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// It would fail again.
    Never = 0,
    /// It may work at once or later.
    Now = 1,
    /// It may work after the time that append_error_retry_after_ms gives.
    After = 2,
    /// The result is not known: look at the file first.
    LookFirst = 3,
}

fn of_client(kind: ErrorKind) -> Kind {
    match kind {
        ErrorKind::NotFound => Kind::NotFound,
        ErrorKind::ParentNotFound => Kind::ParentNotFound,
        ErrorKind::AlreadyExists => Kind::AlreadyExists,
        ErrorKind::IsDirectory => Kind::IsDirectory,
        ErrorKind::NotADirectory => Kind::NotADirectory,
        ErrorKind::DirectoryNotEmpty => Kind::DirectoryNotEmpty,
        ErrorKind::PermissionDenied => Kind::PermissionDenied,
        ErrorKind::ReadOnly => Kind::ReadOnly,
        ErrorKind::Conflict => Kind::Conflict,
        ErrorKind::Recovering => Kind::Recovering,
        ErrorKind::StaleSession => Kind::StaleSession,
        ErrorKind::OutcomeUnknown => Kind::OutcomeUnknown,
        ErrorKind::Unsupported => Kind::Unsupported,
        ErrorKind::Disabled => Kind::Disabled,
        ErrorKind::QuotaExceeded => Kind::QuotaExceeded,
        ErrorKind::Checksum => Kind::Checksum,
        ErrorKind::Timeout => Kind::Timeout,
        ErrorKind::Cancelled => Kind::Cancelled,
        ErrorKind::Connect => Kind::Connect,
        ErrorKind::InvalidArgument => Kind::InvalidArgument,
        ErrorKind::Closed => Kind::Closed,
        ErrorKind::NoSpace => Kind::NoSpace,
        ErrorKind::ConditionFailed => Kind::ConditionFailed,
        ErrorKind::Unavailable => Kind::Unavailable,
        ErrorKind::Protocol => Kind::Protocol,
        ErrorKind::Io => Kind::Io,
        _ => Kind::Unknown,
    }
}

/// What an error handle stands for.
#[derive(Debug)]
pub(crate) struct ErrorObject {
    kind: Kind,
    pub(crate) errno: c_int,
    text: Cow<'static, CStr>,
    path: Option<Cow<'static, CStr>>,
    request: Option<Cow<'static, CStr>>,
    retry: RetryAdvice,
    retry_after_ms: i64,
    holder: Option<Holder>,
    bad_offset: i64,
}

impl ErrorObject {
    const fn fixed(kind: Kind, errno: c_int, text: &'static CStr) -> ErrorObject {
        ErrorObject {
            kind,
            errno,
            text: Cow::Borrowed(text),
            path: None,
            request: None,
            retry: RetryAdvice::Never,
            retry_after_ms: -1,
            holder: None,
            bad_offset: -1,
        }
    }

    pub(crate) fn new(fault: &Fault) -> ErrorObject {
        let (kind, errno) = match fault {
            Fault::Client(error) => return ErrorObject::of_client(error),
            Fault::Null(_) | Fault::Argument(_) => (Kind::InvalidArgument, libc::EINVAL),
            Fault::NothingThere(_) => (Kind::NotFound, libc::ENOENT),
            Fault::Closed(_) => (Kind::Closed, libc::EBADF),
            Fault::Foreign(_) => (Kind::BadHandle, libc::EBADF),
            Fault::Handles => (Kind::NoHandles, libc::EMFILE),
            Fault::Forked => (Kind::Forked, libc::EINVAL),
            Fault::Panic(_) => (Kind::Internal, libc::EIO),
        };
        let mut object = ErrorObject::fixed(kind, errno, c"");
        object.text = Cow::Owned(c_text(&fault.to_string()));
        if let Fault::NothingThere(path) = fault {
            object.path = Some(Cow::Owned(c_text(path)));
        }
        object
    }

    fn of_client(error: &append_client::Error) -> ErrorObject {
        let owned = |text: &str| Cow::Owned(c_text(text));
        let (retry, retry_after_ms) = match error.retry() {
            Retry::Never => (RetryAdvice::Never, -1),
            Retry::Now => (RetryAdvice::Now, 0),
            Retry::After(time) => (RetryAdvice::After, milliseconds(time)),
            Retry::LookFirst => (RetryAdvice::LookFirst, -1),
        };
        // The error's own line and what it came from.
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str("; caused by: ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        ErrorObject {
            kind: of_client(error.kind()),
            errno: error.errno(),
            text: owned(&text),
            path: error.path().map(owned),
            request: error.request().map(owned),
            retry,
            retry_after_ms,
            holder: error.conflict().map(Holder::new),
            bad_offset: error
                .bad_block()
                .map_or(-1, |block| signed(block.offset_in_file)),
        }
    }
}

/// An error that is made without the table, where the table cannot be used. Freeing it does nothing.
pub(crate) struct Fixed {
    handle: usize,
    object: ErrorObject,
}

impl Fixed {
    /// Generation 0 is never given out by the table.
    const fn new(slot: u32, object: ErrorObject) -> Fixed {
        Fixed {
            handle: join(TAG, 0, slot),
            object,
        }
    }

    pub(crate) fn handle(&self) -> *mut ErrorHandle {
        std::ptr::without_provenance_mut(self.handle)
    }

    pub(crate) fn object(&self) -> &ErrorObject {
        &self.object
    }
}

/// Every call in a forked child, whose copy of a table may be locked for ever.
pub(crate) static FORKED: Fixed = Fixed::new(
    1,
    ErrorObject::fixed(
        Kind::Forked,
        libc::EINVAL,
        c"the process was forked after libappend had connected: its threads and connections stay in the parent",
    ),
);

/// An error that found no room in the table of errors.
static FULL: Fixed = Fixed::new(
    2,
    ErrorObject::fixed(Kind::NoHandles, libc::EMFILE, c"no more handles"),
);

/// Gives an error to C.
pub(crate) fn keep(object: ErrorObject) -> *mut ErrorHandle {
    match ERRORS.insert(object) {
        Some(handle) => std::ptr::without_provenance_mut(handle),
        None => FULL.handle(),
    }
}

/// Looks at an error object. In a forked child every one stands for [`FORKED`].
fn look<T>(error: *const ErrorHandle, otherwise: T, at: impl FnOnce(&ErrorObject) -> T) -> T {
    if is_forked() {
        return at(&FORKED.object);
    }
    for fixed in [&FORKED, &FULL] {
        if error.addr() == fixed.handle {
            return at(&fixed.object);
        }
    }
    match ERRORS.get(error.addr()) {
        Ok(object) => at(&object),
        Err(missing) => {
            set_errno(if missing == Missing::Null {
                libc::EINVAL
            } else {
                libc::EBADF
            });
            otherwise
        }
    }
}

fn pointer(text: Option<&Cow<'static, CStr>>) -> *const c_char {
    text.map_or(std::ptr::null(), |text| text.as_ptr())
}

/// What went wrong: one of `append_kind`. -1 for a value that is no error object (errno EINVAL for NULL, else EBADF).
#[unsafe(no_mangle)]
pub extern "C" fn append_error_kind(error: *const ErrorHandle) -> c_int {
    look(error, -1, |object| object.kind as c_int)
}

/// The errno that the failed call set. -1 for a value that is no error object.
#[unsafe(no_mangle)]
pub extern "C" fn append_error_errno(error: *const ErrorHandle) -> c_int {
    look(error, -1, |object| object.errno)
}

/// One line for people: the call, the path, what the server said, the request's identity as the server logs it. The string
/// belongs to the error object and lives as long. Never NULL: a value that is no error object has the text
/// "not an error object" (and errno says why).
#[unsafe(no_mangle)]
pub extern "C" fn append_error_text(error: *const ErrorHandle) -> *const c_char {
    look(error, c"not an error object".as_ptr(), |object| {
        object.text.as_ptr()
    })
}

/// The path that the call was about. The string belongs to the error object; NULL if it names none.
#[unsafe(no_mangle)]
pub extern "C" fn append_error_path(error: *const ErrorHandle) -> *const c_char {
    look(error, std::ptr::null(), |object| {
        pointer(object.path.as_ref())
    })
}

/// Identity of the failed request, as the server logs it. The string belongs to the error object; NULL if no request failed.
#[unsafe(no_mangle)]
pub extern "C" fn append_error_request(error: *const ErrorHandle) -> *const c_char {
    look(error, std::ptr::null(), |object| {
        pointer(object.request.as_ref())
    })
}

/// Whether and when the same call may be made again: one of `append_retry`. -1 for a value that is no error object.
#[unsafe(no_mangle)]
pub extern "C" fn append_error_retry(error: *const ErrorHandle) -> c_int {
    look(error, -1, |object| object.retry as c_int)
}

/// Milliseconds after which the same call may work: for a conflict the time that the other writer still has if it does not
/// renew. 0: it may work at once. -1: no time is known, or a value that is no error object.
#[unsafe(no_mangle)]
pub extern "C" fn append_error_retry_after_ms(error: *const ErrorHandle) -> i64 {
    look(error, -1, |object| object.retry_after_ms)
}

/// The writer in the way, for APPEND_KIND_CONFLICT and APPEND_KIND_RECOVERING. It belongs to the error object; NULL if there is
/// none.
#[unsafe(no_mangle)]
pub extern "C" fn append_error_holder(error: *const ErrorHandle) -> *const HolderView {
    look(error, std::ptr::null(), |object| {
        object
            .holder
            .as_ref()
            .map_or(std::ptr::null(), |holder| std::ptr::from_ref(holder.view()))
    })
}

/// Offset in the file of the first byte that does not match its checksum, for APPEND_KIND_CHECKSUM; else -1.
#[unsafe(no_mangle)]
pub extern "C" fn append_error_bad_offset(error: *const ErrorHandle) -> i64 {
    look(error, -1, |object| object.bad_offset)
}

/// Frees an error object and what belongs to it. NULL and objects that were freed before are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn append_error_free(error: *mut ErrorHandle) {
    if !is_forked() {
        drop(ERRORS.remove(error.addr()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_client::error::table::KINDS;

    #[test]
    fn every_kind_of_the_client_has_a_number_of_its_own() {
        let mut seen = Vec::new();
        for kind in KINDS {
            let number = of_client(kind) as c_int;
            assert!((1..100).contains(&number), "{kind:?}");
            assert!(!seen.contains(&number), "{kind:?}");
            seen.push(number);
        }
        assert_eq!(seen.len(), 26);
    }

    #[test]
    fn an_error_tells_what_the_client_said() {
        let fault = Fault::Client(append_client::Error::new(ErrorKind::OutcomeUnknown, "lost"));
        let error = keep(ErrorObject::new(&fault));
        assert_eq!(append_error_kind(error), 12);
        assert_eq!(append_error_errno(error), libc::ENOTRECOVERABLE);
        assert_eq!(append_error_retry(error), RetryAdvice::LookFirst as c_int);
        assert_eq!(append_error_retry_after_ms(error), -1);
        assert_eq!(append_error_bad_offset(error), -1);
        assert!(append_error_path(error).is_null());
        assert!(append_error_request(error).is_null());
        assert!(append_error_holder(error).is_null());
        // SAFETY: the text lives until the error is freed.
        let text = unsafe { CStr::from_ptr(append_error_text(error)) };
        assert_eq!(text, c"lost");
        append_error_free(error);
        assert_eq!(append_error_kind(error), -1);
        append_error_free(error);
    }

    #[test]
    fn what_is_no_error_object_still_has_a_text() {
        for error in [std::ptr::null(), std::ptr::without_provenance(17)] {
            // SAFETY: a text is never null.
            let text = unsafe { CStr::from_ptr(append_error_text(error)) };
            assert_eq!(text, c"not an error object");
            assert_eq!(append_error_errno(error), -1);
        }
    }

    #[test]
    fn errors_that_need_no_table_are_complete_and_survive_being_freed() {
        for fixed in [&FORKED, &FULL] {
            append_error_free(fixed.handle());
            assert_eq!(
                append_error_kind(fixed.handle()),
                fixed.object().kind as c_int
            );
        }
    }
}
