//! What every exported function does around its body: it refuses a forked child, catches panics, and turns a failure into -1 or
//! null, errno and an error object. No exported function does any of this by itself.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use append_client::CancelToken;
use append_client::blocking::Wait;

use crate::cancel::{CANCELS, CancelHandle};
use crate::error::{ErrorHandle, ErrorObject, FORKED, keep};
use crate::memory::{Sized1, structure};

/// Why a function fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The client failed.
    #[error(transparent)]
    Client(#[from] append_client::Error),
    /// A pointer that must not be null is.
    #[error("{0} must not be NULL")]
    Null(&'static str),
    /// An argument is malformed.
    #[error("{0}")]
    Argument(String),
    /// Nothing was there to delete.
    #[error("delete {0}: nothing stands there")]
    NothingThere(String),
    /// The handle was closed or freed before.
    #[error("this {0} is closed")]
    Closed(&'static str),
    /// The handle is of another type or was never given out.
    #[error("this is no {0}")]
    Foreign(&'static str),
    /// The table of handles is full.
    #[error("no more handles")]
    Handles,
    /// The process is a child of the one that connected.
    #[error(
        "the process was forked after libappend had connected: its threads and connections stay in the parent"
    )]
    Forked,
    /// A fault of this library.
    #[error("fault inside libappend: {0}")]
    Panic(String),
}

/// What a function returns when it fails.
pub(crate) trait Failure {
    const FAILED: Self;
}

impl Failure for c_int {
    const FAILED: c_int = -1;
}

impl Failure for i64 {
    const FAILED: i64 = -1;
}

impl<T> Failure for *mut T {
    const FAILED: *mut T = std::ptr::null_mut();
}

impl<T> Failure for *const T {
    const FAILED: *const T = std::ptr::null();
}

/// Runs the body of an exported function.
///
/// # Safety
/// `error` is null or valid for a write.
pub(crate) unsafe fn enter<T: Failure>(
    error: *mut *mut ErrorHandle,
    body: impl FnOnce() -> Result<T, Fault>,
) -> T {
    let (result, handle, errno) = match run(body) {
        Ok(value) => (value, std::ptr::null_mut(), None),
        Err(Fault::Forked) => (T::FAILED, FORKED.handle(), Some(FORKED.object().errno)),
        Err(fault) => {
            let object = ErrorObject::new(&fault);
            let errno = object.errno;
            let handle = if error.is_null() {
                std::ptr::null_mut()
            } else {
                keep(object)
            };
            (T::FAILED, handle, Some(errno))
        }
    };
    if !error.is_null() {
        // SAFETY: not null, and the caller promises that it may be written.
        unsafe { error.write(handle) };
    }
    if let Some(errno) = errno {
        set_errno(errno);
    }
    result
}

fn run<T>(body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    // A lock that another thread held at the fork stays locked in the child for ever, so this comes before any.
    if is_forked() {
        return Err(Fault::Forked);
    }
    // What a panic leaves half changed is not looked at again: values are shared and lock themselves.
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|payload| Err(Fault::Panic(panic_text(&*payload).to_owned())))
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the system's function returns a valid pointer to the calling thread's errno.
    unsafe {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let place = libc::__errno_location();
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let place = libc::__error();
        place.write(value);
    }
}

/// The process that connected first; 0 before.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// From now on only this process, not a child, may call.
pub(crate) fn bind_to_process() {
    let _ = PROCESS.compare_exchange(0, std::process::id(), Ordering::SeqCst, Ordering::SeqCst);
}

/// Whether this process is a child of the one that connected.
pub(crate) fn is_forked() -> bool {
    let process = PROCESS.load(Ordering::SeqCst);
    process != 0 && process != std::process::id()
}

/// How long a call may wait, and what ends it. A zeroed one with `size` set waits as long as the time-outs of the configuration
/// allow.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct WaitArgs {
    /// `sizeof(append_wait)`.
    pub size: usize,
    /// The call fails with `APPEND_KIND_TIMEOUT` after this many milliseconds; 0: no bound.
    pub timeout_ms: i64,
    /// The call fails with `APPEND_KIND_CANCELLED` when somebody triggers this; NULL: nobody can.
    pub cancel: *mut CancelHandle,
}

// SAFETY: repr(C), starts with its size, integers and a pointer that is only compared.
unsafe impl Sized1 for WaitArgs {
    const NAME: &'static str = "append_wait";
}

/// What bounds one call.
pub(crate) struct Bound {
    deadline: Option<Instant>,
    cancel: Option<Arc<CancelToken>>,
}

impl Bound {
    /// # Safety
    /// `wait` is null or points to as many bytes as its first member says.
    pub(crate) unsafe fn new(wait: *const WaitArgs) -> Result<Bound, Fault> {
        // SAFETY: the caller's promise.
        let Some(wait) = (unsafe { structure(wait) })? else {
            return Ok(Bound {
                deadline: None,
                cancel: None,
            });
        };
        let timeout = u64::try_from(wait.timeout_ms).map_err(|_| {
            Fault::Argument(String::from("append_wait: timeout_ms must not be negative"))
        })?;
        let deadline = if timeout == 0 {
            None
        } else {
            Instant::now().checked_add(Duration::from_millis(timeout))
        };
        let cancel = if wait.cancel.is_null() {
            None
        } else {
            Some(CANCELS.get(wait.cancel)?)
        };
        Ok(Bound { deadline, cancel })
    }

    pub(crate) fn wait(&self) -> Wait<'_> {
        Wait {
            deadline: self.deadline,
            cancel: self.cancel.as_deref(),
            interrupted: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::*;

    fn errno() -> c_int {
        std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }

    #[test]
    fn a_panic_becomes_an_internal_error_with_its_text() {
        let mut error = std::ptr::null_mut();
        // SAFETY: `error` may be written.
        let result: c_int = unsafe { enter(&raw mut error, || panic!("row {} is odd", 7)) };
        assert_eq!((result, errno()), (-1, libc::EIO));
        // SAFETY: a handle of an error, whose text lives until it is freed.
        unsafe {
            assert_eq!(append_error_kind(error), Kind::Internal as c_int);
            let text = std::ffi::CStr::from_ptr(append_error_text(error));
            assert!(text.to_str().unwrap().contains("row 7 is odd"));
        }
        append_error_free(error);
    }

    #[test]
    fn without_an_error_object_errno_is_set() {
        // SAFETY: null is allowed.
        let result: *mut u8 = unsafe { enter(std::ptr::null_mut(), || Err(Fault::Null("path"))) };
        assert!(result.is_null());
        assert_eq!(errno(), libc::EINVAL);
    }
}
