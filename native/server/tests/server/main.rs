//! A real server in a temporary folder, spoken to by raw messages over both transports.

mod files;
mod names;
mod sessions;
mod support;
mod transports;
