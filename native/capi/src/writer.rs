//! Streams that write: created files and appends.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use append_client::blocking::{Wait, WriteStream};

use crate::call::{Bound, Fault, WaitArgs, enter};
use crate::error::ErrorHandle;
use crate::handle::{Handles, unless_closed};
use crate::memory::signed;

pub(crate) static WRITERS: Handles<WriteStream, WriterHandle> = Handles::new(7, "append_writer");

/// How long the server may take to hear that a stream was abandoned; after that its lease ends it.
const ABANDON_WITHIN: Duration = Duration::from_secs(1);

/// A file that is being written. Thread-safe: each write is whole, whoever else writes at the same time. Closed with
/// append_writer_close or append_writer_abort.
pub struct WriterHandle {
    _opaque: [u8; 0],
}

/// Takes all of `data`, which is buffered: readers see it after the next sync or close. `count`, or -1: what went wrong with
/// bytes taken before, or APPEND_KIND_CLOSED. After a time-out or cancel an unknown part of `data` was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_write(
    writer: *mut WriterHandle,
    data: *const c_void,
    count: usize,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let stream = WRITERS.get(writer)?;
            let bound = Bound::new(wait)?;
            if data.is_null() && count > 0 {
                return Err(Fault::Null("data"));
            }
            if isize::try_from(count).is_err() {
                return Err(Fault::Argument(format!("count is {count}")));
            }
            if count > 0 {
                let bytes = std::slice::from_raw_parts(data.cast::<u8>(), count);
                stream.write(bytes, &bound.wait())?;
            }
            Ok(i64::try_from(count).unwrap_or(i64::MAX))
        })
    }
}

/// A call on an open stream that has no other argument; on a closed one it does nothing.
///
/// # Safety
/// As of every exported function.
unsafe fn unless_closed_call(
    found: impl FnOnce() -> Result<Arc<WriteStream>, Fault>,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
    call: impl FnOnce(&WriteStream, &Wait<'_>) -> append_client::Result<()>,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let bound = Bound::new(wait)?;
            if let Some(stream) = unless_closed(found())? {
                call(&stream, &bound.wait())?;
            }
            Ok(0)
        })
    }
}

/// For programs that flush before they sync. What append_writer_write took is past every buffer of this interface, so there is
/// nothing to hand on; use append_writer_hflush to show bytes to readers. 0, also after close, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_flush(
    writer: *mut WriterHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            unless_closed(WRITERS.get(writer))?;
            Ok(0)
        })
    }
}

/// Makes all bytes taken before visible to readers that open the file afterwards. They are durable, too, so that nobody reads
/// what a crash could take back. A closed stream: nothing to do. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_hflush(
    writer: *mut WriterHandle,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        unless_closed_call(
            || WRITERS.get(writer),
            wait,
            error,
            |stream, wait| stream.hflush(wait),
        )
    }
}

/// Makes all bytes taken before durable, and visible to readers that open the file afterwards. A closed stream: nothing to do.
/// 0, or -1; APPEND_KIND_UNSUPPORTED if the stream cannot, which leaves it open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_hsync(
    writer: *mut WriterHandle,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        unless_closed_call(
            || WRITERS.get(writer),
            wait,
            error,
            |stream, wait| stream.hsync(wait),
        )
    }
}

/// 1 if append_writer_hflush and append_writer_hsync work on this stream, 0 if not, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_can_sync(
    writer: *mut WriterHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe { enter(error, || Ok(c_int::from(WRITERS.get(writer)?.can_sync()))) }
}

/// Position in the file of the stream's first byte: 0 for create, the file's length for append. -1 on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_start(
    writer: *mut WriterHandle,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe { enter(error, || Ok(signed(WRITERS.get(writer)?.start()))) }
}

/// Position in the file of the next byte, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_tell(
    writer: *mut WriterHandle,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe { enter(error, || Ok(signed(WRITERS.get(writer)?.pos()))) }
}

/// Publishes all bytes, ends the session and closes the handle, also when it fails: then -1 says that bytes after the last
/// successful sync may be missing, and nothing is written a second time. A close goes on in the background after a time-out or
/// cancel. Closing again does nothing and returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_close(
    writer: *mut WriterHandle,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        unless_closed_call(
            || WRITERS.take(writer),
            wait,
            error,
            |stream, wait| stream.close(wait),
        )
    }
}

/// Ends the session without publishing anything more and closes the handle: the file keeps what the last sync published. Waits
/// at most a second for the server to hear of it. A closed stream: nothing to do. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_writer_abort(
    writer: *mut WriterHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            if let Some(stream) = unless_closed(WRITERS.take(writer))? {
                stream.abort(ABANDON_WITHIN);
            }
            Ok(0)
        })
    }
}
