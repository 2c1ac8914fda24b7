//! Cancels: what ends the waits of calls from another thread.

use std::ffi::c_int;

use append_client::CancelToken;

use crate::call::enter;
use crate::error::ErrorHandle;
use crate::handle::Handles;

pub(crate) static CANCELS: Handles<CancelToken, CancelHandle> = Handles::new(2, "append_cancel");

/// Ends waiting calls. It may stand in the append_wait of any number of calls. Freed with append_cancel_free.
pub struct CancelHandle {
    _opaque: [u8; 0],
}

/// A cancel that nobody triggered. The caller frees it with append_cancel_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_cancel_new(error: *mut *mut ErrorHandle) -> *mut CancelHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe { enter(error, || CANCELS.give(CancelToken::new())) }
}

/// Ends every call that waits with this cancel, now and later, with APPEND_KIND_CANCELLED: triggered once is triggered for good.
/// May be called from any thread, but not from a signal handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_cancel_trigger(
    cancel: *mut CancelHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            CANCELS.get(cancel)?.cancel();
            Ok(0)
        })
    }
}

/// Frees a cancel. Calls that wait with it go on, and nobody can cancel them any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_cancel_free(
    cancel: *mut CancelHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            CANCELS.take(cancel)?;
            Ok(0)
        })
    }
}
