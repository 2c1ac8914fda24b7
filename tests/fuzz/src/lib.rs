//! Bodies of the fuzz targets: each takes any bytes, hands them to a part that must bear anything, and panics when that part does, or
//! when an invariant is broken. `cargo fuzz` runs them for as long as one likes (`fuzz/` at the top), `tests/short.rs` runs them in
//! every build with a seeded generator.
//!
//! No body may depend on the bodies that ran before it further than that its server keeps what it was told.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a fuzz target ends where something unexpected happens"
)]

mod checkpoint;
mod commands;
mod containers;
mod datanode;
mod frames;
mod log;
mod patch;
mod port;
mod rows;
mod server;
mod world;
mod xml;

use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// One target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also the folder of its corpus.
    pub name: &'static str,
    /// The body.
    pub fuzz: fn(&[u8]),
    /// Inputs that mean something, to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How many executions of the cheapest target one of this costs, about.
    pub cost: u64,
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target {
        name: "frames",
        fuzz: frames::fuzz,
        seeds: frames::seeds,
        cost: 1,
    },
    Target {
        name: "xml",
        fuzz: xml::fuzz,
        seeds: xml::seeds,
        cost: 4,
    },
    Target {
        name: "commands",
        fuzz: commands::fuzz,
        seeds: commands::seeds,
        cost: 5,
    },
    Target {
        name: "rows",
        fuzz: rows::fuzz,
        seeds: rows::seeds,
        cost: 20,
    },
    Target {
        name: "checkpoint",
        fuzz: checkpoint::fuzz,
        seeds: checkpoint::seeds,
        cost: 4,
    },
    Target {
        name: "log",
        fuzz: log::fuzz,
        seeds: log::seeds,
        cost: 10,
    },
    Target {
        name: "containers",
        fuzz: containers::fuzz,
        seeds: containers::seeds,
        cost: 20,
    },
    Target {
        name: "port",
        fuzz: port::fuzz,
        seeds: port::seeds,
        cost: 40,
    },
    Target {
        name: "datanode",
        fuzz: datanode::fuzz,
        seeds: datanode::seeds,
        cost: 40,
    },
];

/// The target of a name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn target(name: &str) -> Target {
    *TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect("a target of this name")
}

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Panics of any thread so far. A server ends the connection whose call panicked, and nothing else shows it.
pub(crate) fn panics() -> u64 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(panic);
        }));
    });
    PANICS.load(Ordering::SeqCst)
}

/// A place for folders that are made for one execution: in memory where the machine has such a place.
pub(crate) fn scratch() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    }
}
