//! Streams that read.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use append_client::blocking::Reader;

use crate::call::{Bound, Fault, WaitArgs, enter};
use crate::error::ErrorHandle;
use crate::handle::{Handles, unless_closed};
use crate::memory::signed;

/// Bytes that are fetched and copied at a time: it bounds the memory between the client and the caller's buffer.
const PIECE: usize = 4 << 20;

pub(crate) static READERS: Handles<Reading, ReaderHandle> = Handles::new(6, "append_reader");

/// A file that is being read, at the length that it had when it was opened. Thread-safe. Closed with append_reader_close.
pub struct ReaderHandle {
    _opaque: [u8; 0],
}

/// A reader and the position of the next append_reader_read.
pub(crate) struct Reading {
    reader: Reader,
    position: AtomicU64,
}

impl Reading {
    pub(crate) fn new(reader: Reader) -> Reading {
        Reading {
            reader,
            position: AtomicU64::new(0),
        }
    }

    /// How many of `count` bytes stand at a position.
    fn available(&self, position: u64, count: usize) -> usize {
        let left = self.reader.len().saturating_sub(position);
        usize::try_from(left).map_or(count, |left| left.min(count))
    }

    /// Reads exactly `count` bytes, which stand there.
    ///
    /// # Safety
    /// `target` is valid for writing `count` bytes.
    unsafe fn fill(
        &self,
        position: u64,
        target: *mut u8,
        count: usize,
        bound: &Bound,
    ) -> Result<(), Fault> {
        let wait = bound.wait();
        let mut done = 0;
        while done < count {
            let at = position.saturating_add(u64::try_from(done).unwrap_or(u64::MAX));
            let bytes = self.reader.bytes_at(at, PIECE.min(count - done), &wait)?;
            let got = bytes.len().min(count - done);
            if got == 0 {
                return Err(Fault::Client(append_client::Error::new(
                    append_client::ErrorKind::Io,
                    format!(
                        "read {}: the file ends at {at}, before its length of {}",
                        self.reader.path(),
                        self.reader.len()
                    ),
                )));
            }
            // SAFETY: `done + got` is at most `count`, for which the caller promises room; the client's bytes are its own memory.
            unsafe {
                target
                    .add(done)
                    .copy_from_nonoverlapping(bytes.as_ptr(), got)
            };
            done += got;
        }
        Ok(())
    }
}

/// Checks a buffer argument. An empty one may be null.
fn checked(buffer: *const c_void, count: usize) -> Result<usize, Fault> {
    if buffer.is_null() && count > 0 {
        return Err(Fault::Null("buffer"));
    }
    if isize::try_from(count).is_err() {
        return Err(Fault::Argument(format!("count is {count}")));
    }
    Ok(count)
}

fn result(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Reads the next bytes: as many as fit into `buffer` and are there, 0 at the end of the file, or -1, and then the position is as
/// before. Fewer than `count` only at the end. Threads that read at once get bytes that follow each other, each its own. Bytes that
/// do not match their checksum are APPEND_KIND_CHECKSUM and never returned; the contents of `buffer` are undefined after a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_reader_read(
    reader: *mut ReaderHandle,
    buffer: *mut c_void,
    count: usize,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let reading = READERS.get(reader)?;
            let count = checked(buffer, count)?;
            let bound = Bound::new(wait)?;
            let mut count_there = 0;
            // The bytes are claimed before they are fetched, so that nobody holds a lock while he waits.
            let start = reading
                .position
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |position| {
                    count_there = reading.available(position, count);
                    u64::try_from(count_there)
                        .ok()
                        .map(|count| position.saturating_add(count))
                })
                .map_err(|_| Fault::Argument(format!("count is {count}")))?;
            let end = start.saturating_add(u64::try_from(count_there).unwrap_or(u64::MAX));
            if let Err(fault) = reading.fill(start, buffer.cast(), count_there, &bound) {
                // Somebody else who moved meanwhile stays where he is.
                let _ = reading.position.compare_exchange(
                    end,
                    start,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
                return Err(fault);
            }
            Ok(result(count_there))
        })
    }
}

/// As append_reader_read, at a position in the file and without moving the reader's own. Calls run side by side.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_reader_pread(
    reader: *mut ReaderHandle,
    buffer: *mut c_void,
    count: usize,
    position: i64,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let reading = READERS.get(reader)?;
            let count = checked(buffer, count)?;
            let position = u64::try_from(position)
                .map_err(|_| Fault::Argument(String::from("position must not be negative")))?;
            let bound = Bound::new(wait)?;
            let there = reading.available(position, count);
            reading.fill(position, buffer.cast(), there, &bound)?;
            Ok(result(there))
        })
    }
}

/// Sets the position of the next append_reader_read, from 0 to the file's length. Returns it, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_reader_seek(
    reader: *mut ReaderHandle,
    position: i64,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let reading = READERS.get(reader)?;
            let length = reading.reader.len();
            let target = u64::try_from(position)
                .ok()
                .filter(|target| *target <= length)
                .ok_or_else(|| {
                    Fault::Argument(format!(
                        "seek {}: position {position} is not between 0 and {length}",
                        reading.reader.path()
                    ))
                })?;
            reading.position.store(target, Ordering::SeqCst);
            Ok(position)
        })
    }
}

/// Position of the next append_reader_read, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_reader_tell(
    reader: *mut ReaderHandle,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let reading = READERS.get(reader)?;
            Ok(signed(reading.position.load(Ordering::SeqCst)))
        })
    }
}

/// Length in bytes, fixed at open: what is published, and for a file that is being written what its writer has synced since.
/// -1 on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_reader_length(
    reader: *mut ReaderHandle,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let reading = READERS.get(reader)?;
            Ok(signed(reading.reader.len()))
        })
    }
}

/// Closes a reader. Closing it again does nothing. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_reader_close(
    reader: *mut ReaderHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            unless_closed(READERS.take(reader))?;
            Ok(0)
        })
    }
}
