//! Three servers, and datanodes of their own, as processes: what was acknowledged outlives leaders, whoever is killed, stopped or late.
//!
//! `APPEND_LONG=1` makes the long form: more kills, more rounds. `APPEND_ROUNDS` names another number.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod chaos;
mod frozen;
mod group;
mod killed;
mod late;
mod world;

/// One number in CI, another in the long form.
fn rounds(short: usize, long: usize) -> usize {
    let named = std::env::var("APPEND_ROUNDS").ok();
    if let Some(named) = named {
        return named.parse().unwrap();
    }
    if std::env::var_os("APPEND_LONG").is_some() {
        long
    } else {
        short
    }
}
