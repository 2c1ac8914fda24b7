//! Where log lines go: standard error, at the level that `APPEND_LOG` (or `RUST_LOG`) names.
//!
//! Neither payloads nor secrets are ever logged, at any level.

use std::io::stderr;

use tracing_subscriber::EnvFilter;

/// What a server says by itself. The library of the group repeats every lost heartbeat; what it means is said by the server in one line.
const SERVER: &str = "info,openraft=off";

/// Starts logging for the life of the process. A server speaks from level `info`, a command for people from `error`, unless the
/// environment says otherwise. A filter that does not parse is reported and replaced by that level.
pub(crate) fn start(server: bool) {
    let default = if server { SERVER } else { "error" };
    let wish = ["APPEND_LOG", "RUST_LOG"]
        .into_iter()
        .find_map(|name| Some((name, std::env::var(name).ok()?)));
    let mut fault = None;
    let filter = match wish {
        Some((name, text)) => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            fault = Some(format!("{name} is no log filter: {error}"));
            EnvFilter::new(default)
        }),
        None => EnvFilter::new(default),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(false)
        .init();
    if let Some(fault) = fault {
        tracing::error!("{fault}");
    }
}
