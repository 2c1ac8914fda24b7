//! What the commands that serve have in common: addresses, the signals that end them, and how they say what went wrong.

use std::io::{self, Write, stdout};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Reads `HOST:PORT`; a name is looked up, and its first address taken.
///
/// # Errors
/// A text for the user.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text
        .to_socket_addrs()
        .map_err(|error| format!("not HOST:PORT: {error}"))?;
    addresses
        .next()
        .ok_or_else(|| "the name has no address".to_owned())
}

/// Runs a server until it ends: code 0 for an orderly end, else 1 with the reason on standard error.
pub(crate) fn run<E: std::fmt::Display>(
    what: &str,
    serving: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(what, &error),
    };
    match runtime.block_on(serving) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(what, &error),
    }
}

/// Workers for half of the cores: the others are for the threads that log, apply and sync, and for clients on the same machine. A
/// worker more costs each small call a change of threads.
fn runtime() -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Builder::new_multi_thread()
        .worker_threads(cores.div_ceil(2))
        .enable_all()
        .build()
}

/// Reports why a server did not start or go on.
pub(crate) fn failed(what: &str, error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("append {what}: {error}");
    ExitCode::FAILURE
}

/// Prints a line that programs wait for, at once. Nobody reading it is no reason to stop serving.
pub(crate) fn announce(line: &str) {
    let mut out = stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
        tracing::warn!(%error, "standard output takes nothing");
    }
}

/// The signals that ask for an orderly end.
pub(crate) struct EndSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl EndSignals {
    /// From here on SIGINT and SIGTERM no longer end the process by themselves.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn listen() -> io::Result<EndSignals> {
        Ok(EndSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Returns when one arrived.
    pub(crate) async fn received(&mut self) {
        let name = tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        };
        tracing::info!(signal = name, "stopping");
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_are_host_and_port() {
        assert_eq!(address("127.0.0.1:0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(address("[::1]:9862").unwrap().to_string(), "[::1]:9862");
        for bad in [
            "",
            "9862",
            "127.0.0.1",
            "127.0.0.1:notaport",
            "127.0.0.1:99999",
        ] {
            assert!(address(bad).is_err(), "{bad:?}");
        }
    }
}
