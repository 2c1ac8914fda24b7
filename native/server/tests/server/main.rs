//! A real server in a temporary folder, spoken to by raw messages over both transports.

#![allow(
    clippy::unwrap_used,
    reason = "a test says by a panic what it did not find"
)]

mod bad_input;
mod duties;
mod files;
mod names;
mod recovery;
mod sessions;
mod support;
mod transports;
