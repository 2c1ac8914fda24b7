//! The C ABI of libappend: marshalling between C and [`append_client::blocking`], and nothing else. No rule about files,
//! sessions or retries stands here.
//!
//! The public items are what `include/append.h` says; a test compares it with what cbindgen writes from here, and
//! `UPDATE_HEADER=1 cargo test -p append-capi --test header` writes it anew. Comments of exported items are read by C programmers,
//! so they name C's names only.
//!
//! Rules of every exported function, which is why none repeats them:
//! - Handles are numbers checked against a table ([`handle`]); pointers that are read or written are checked for null.
//! - The body runs inside [`call::enter`]: a forked child is refused before any lock is taken, panics end there, and a failure
//!   becomes -1 or null, errno and an error object.
//!
//! # Safety
//! What cannot be checked is the caller's part, and the header says so once for all functions: a pointer that is not null is
//! valid for what the function does with it (a string ends with NUL, a buffer has as many bytes as the count says, a structure
//! has as many bytes as its first member says), and nobody else changes it during the call.
#![expect(
    clippy::missing_safety_doc,
    reason = "the safety contract of all functions stands once, above"
)]

pub mod call;
pub mod cancel;
pub mod config;
pub mod entries;
pub mod error;
pub mod file_system;
mod handle;
pub mod holder;
mod memory;
pub mod reader;
mod table;
pub mod version;
pub mod writer;
