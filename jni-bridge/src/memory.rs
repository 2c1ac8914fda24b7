//! The memory that Java lends for one call: arrays are copied, direct buffers are used in place. All unsafe code is here.

use jni::Env;
use jni::objects::{JByteArray, JByteBuffer};
use jni::sys::jint;

use crate::entry::Fault;

fn misuse(what: &str) -> Fault {
    Fault::Misuse(what.to_owned())
}

/// Checks a range that Java gave against the size it lies in.
fn range(offset: jint, length: jint, size: usize) -> Result<(usize, usize), Fault> {
    let offset = usize::try_from(offset).map_err(|_| misuse("negative offset"))?;
    let length = usize::try_from(length).map_err(|_| misuse("negative length"))?;
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok((offset, length)),
        _ => Err(misuse("offset and length reach beyond the buffer")),
    }
}

/// Start address of the range and its length.
fn direct(
    env: &Env<'_>,
    buffer: &JByteBuffer<'_>,
    offset: jint,
    length: jint,
) -> Result<(*mut u8, usize), Fault> {
    let address = env.get_direct_buffer_address(buffer)?;
    let (offset, length) = range(offset, length, env.get_direct_buffer_capacity(buffer)?)?;
    // SAFETY: offset is at most the capacity of the memory that starts at address.
    Ok((unsafe { address.add(offset) }, length))
}

/// Lends a range of a direct buffer to `use_it`, to read from.
pub(crate) fn with_direct<T>(
    env: &mut Env<'_>,
    buffer: &JByteBuffer<'_>,
    offset: jint,
    length: jint,
    use_it: impl FnOnce(&mut Env<'_>, &[u8]) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let (start, length) = direct(env, buffer, offset, length)?;
    // SAFETY: the range lies in the buffer's memory, which the caller's reference keeps alive during the call, and Java's
    // stream holds its lock meanwhile, so nobody writes to its buffer.
    let bytes = unsafe { std::slice::from_raw_parts(start, length) };
    use_it(env, bytes)
}

/// Lends a range of a direct buffer to `use_it`, to write into.
pub(crate) fn with_direct_mut<T>(
    env: &mut Env<'_>,
    buffer: &JByteBuffer<'_>,
    offset: jint,
    length: jint,
    use_it: impl FnOnce(&mut Env<'_>, &mut [u8]) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let (start, length) = direct(env, buffer, offset, length)?;
    // SAFETY: the range lies in the buffer's memory, which the caller's reference keeps alive during the call. A buffer is
    // not for use by several threads at once (java.nio.Buffer), so nobody else touches the range until the call returns.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start, length) };
    use_it(env, bytes)
}

/// Copies a range out of an array.
pub(crate) fn copy_out(
    env: &Env<'_>,
    array: &JByteArray<'_>,
    offset: usize,
    target: &mut [u8],
) -> Result<(), Fault> {
    let start = jint::try_from(offset).map_err(|_| misuse("offset beyond the array"))?;
    // SAFETY: i8 and u8 have the same size and alignment, and every bit pattern is valid for both.
    let target =
        unsafe { std::slice::from_raw_parts_mut(target.as_mut_ptr().cast::<i8>(), target.len()) };
    Ok(array.get_region(env, start, target)?)
}

/// Copies bytes into an array.
pub(crate) fn copy_in(
    env: &Env<'_>,
    array: &JByteArray<'_>,
    offset: usize,
    source: &[u8],
) -> Result<(), Fault> {
    let start = jint::try_from(offset).map_err(|_| misuse("offset beyond the array"))?;
    // SAFETY: i8 and u8 have the same size and alignment, and every bit pattern is valid for both.
    let source = unsafe { std::slice::from_raw_parts(source.as_ptr().cast::<i8>(), source.len()) };
    Ok(array.set_region(env, start, source)?)
}

/// Checks a range of an array.
pub(crate) fn array_range(
    env: &Env<'_>,
    array: &JByteArray<'_>,
    offset: jint,
    length: jint,
) -> Result<(usize, usize), Fault> {
    range(offset, length, array.len(env)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_outside_the_memory_are_refused() {
        assert_eq!(range(0, 0, 0).unwrap(), (0, 0));
        assert_eq!(range(3, 7, 10).unwrap(), (3, 7));
        for (offset, length, size) in [
            (-1, 1, 10),
            (1, -1, 10),
            (4, 7, 10),
            (11, 0, 10),
            (i32::MAX, i32::MAX, 10),
        ] {
            assert!(
                matches!(range(offset, length, size), Err(Fault::Misuse(_))),
                "{offset} {length} {size}"
            );
        }
    }
}
