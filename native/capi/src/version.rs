//! What the library says about itself.

use std::ffi::{CStr, c_char};

/// The interface that this header describes; append_abi_version tells what the library has. It grows when functions are added.
pub const ABI_VERSION: u32 = 1;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"unknown",
    };

/// The interface of the library that is loaded. A program may call it when this is at least the APPEND_ABI_VERSION that it was
/// compiled with. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn append_abi_version() -> u32 {
    ABI_VERSION
}

/// The library's release, such as "0.1.0". The string is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn append_version() -> *const c_char {
    VERSION.as_ptr()
}

/// How many handles of all types, error objects included, are open in this process. For tests that look for leaks: the tables
/// keep everything reachable, so that a tool would not find one.
#[unsafe(no_mangle)]
pub extern "C" fn append_open_handles() -> usize {
    crate::table::alive()
}
