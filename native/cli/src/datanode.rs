//! `append datanode`: the block store as a process of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use append_datanode::StoreOptions;
use append_server::ConfigError;
use clap::Args;

use crate::listen::{self, EndSignals};

#[derive(Debug, Args)]
pub(crate) struct DatanodeArgs {
    /// Folder that holds the blocks; made when it is missing
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where it listens; port 0 is any free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9859", value_parser = listen::address)]
    listen: SocketAddr,
    /// Allow an address that other machines reach, although nobody is authenticated
    #[arg(long)]
    insecure: bool,
}

/// Serves blocks until SIGINT or SIGTERM. Prints `ready UUID HOST:PORT` once it serves.
pub(crate) fn run(args: DatanodeArgs) -> ExitCode {
    if !args.insecure && !args.listen.ip().is_loopback() {
        return listen::failed(
            "datanode",
            &ConfigError::Exposed {
                address: args.listen,
            },
        );
    }
    listen::run("datanode", async move {
        let mut signals = EndSignals::listen().map_err(|error| error.to_string())?;
        let ready = |info: append_datanode::DatanodeInfo| {
            listen::announce(&format!(
                "ready {} {}",
                info.uuid,
                SocketAddr::new(args.listen.ip(), info.port)
            ));
        };
        append_datanode::serve(
            &args.data,
            args.listen,
            StoreOptions::default(),
            signals.received(),
            ready,
        )
        .await
        .map_err(|error| error.to_string())
    })
}
