//! Strings and structures that cross the border.

use std::ffi::{CStr, CString, c_char};

use crate::call::Fault;

/// Reads a string argument.
///
/// # Safety
/// `text` is null, or a string that ends with NUL and that nobody changes while the result lives.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &'static str) -> Result<&'a str, Fault> {
    if text.is_null() {
        return Err(Fault::Null(name));
    }
    // SAFETY: not null, and the caller promises the rest.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Fault::Argument(format!("{name} is not UTF-8")))
}

/// A string for C. NUL bytes, which C could not see behind, become U+FFFD.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{FFFD}")).unwrap_or_default()
}

/// A structure that C fills in, whose first member is its size in bytes as the C program was compiled.
///
/// # Safety
/// Implementors are `repr(C)`, start with a `usize` that is the size, and hold nothing but integers and pointers: every bit
/// pattern is a value.
pub(crate) unsafe trait Sized1: Copy {
    /// Name of the structure in C.
    const NAME: &'static str;
}

/// Reads a structure argument.
///
/// # Safety
/// `from` is null or points to as many readable bytes as its first member says.
pub(crate) unsafe fn structure<T: Sized1>(from: *const T) -> Result<Option<T>, Fault> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; by the trait's contract the structure starts with its size.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size < size_of::<T>() {
        return Err(Fault::Argument(format!(
            "{}: size is {size}, wanted at least {}",
            T::NAME,
            size_of::<T>()
        )));
    }
    // SAFETY: the caller says that `size` bytes are there, and every bit pattern is a value.
    Ok(Some(unsafe { from.read_unaligned() }))
}

/// A length or position for C; nothing that exists is longer than C can say.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_checked() {
        // SAFETY: null or literals.
        unsafe {
            assert!(matches!(
                text(std::ptr::null(), "path"),
                Err(Fault::Null("path"))
            ));
            assert_eq!(text(c"/v/\u{e4}".as_ptr(), "path").unwrap(), "/v/\u{e4}");
            assert!(matches!(
                text(c"/\xff".as_ptr(), "path"),
                Err(Fault::Argument(_))
            ));
        }
        assert_eq!(c_text("a\0b").to_str(), Ok("a\u{FFFD}b"));
    }
}
