//! `append serve`: the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use append_server::config::{DEFAULT_HTTP_PORT, DEFAULT_PORT, keys};
use append_server::{Options, Server};
use clap::Args;

use crate::listen::{self, EndSignals};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Folder that holds everything: names, log, blocks; made when it is missing
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where Hadoop RPC and gRPC are served [default: 127.0.0.1:9862]; port 0 is any free one
    #[arg(long, value_name = "HOST:PORT", value_parser = listen::address)]
    listen: Option<SocketAddr>,
    /// Where gRPC alone is served, too, for clients that are configured with a port for it
    #[arg(long, value_name = "HOST:PORT", value_parser = listen::address)]
    grpc: Option<SocketAddr>,
    /// Where /health, /prom and /conf are served [default: 127.0.0.1:9874, or any free port beside a --listen with port 0]
    #[arg(long, value_name = "HOST:PORT", value_parser = listen::address)]
    http: Option<SocketAddr>,
    /// Host that clients are told, if it is not the one of --listen
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Number of this server in its group, from 1; for ever the same for one data folder
    #[arg(long, value_name = "N")]
    id: Option<u64>,
    /// Where the servers of the group reach each other, this one among them
    #[arg(long, value_name = "1=HOST:PORT,2=HOST:PORT,...")]
    peers: Option<String>,
    /// Make the group of all the peers: once, on one of them, on empty folders
    #[arg(long)]
    found: bool,
    /// Datanodes that blocks are placed on, instead of one in this process; a group needs them
    #[arg(long, value_name = "HOST:PORT,...")]
    datanodes: Option<String>,
    /// Allow addresses that other machines reach, although nobody is authenticated
    #[arg(long)]
    insecure: bool,
    /// A setting, over those of ozone-site.xml in HADOOP_CONF_DIR; may be given several times
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = crate::admin::key_value)]
    define: Vec<(String, String)>,
}

/// Serves until SIGINT or SIGTERM. Prints `http http://HOST:PORT`, then `ready ofs://HOST:PORT` once it serves.
pub(crate) fn run(args: ServeArgs) -> ExitCode {
    listen::run("serve", async move {
        let options = options(args)?;
        let mut signals = EndSignals::listen().map_err(|error| error.to_string())?;
        let running = tokio::select! {
            running = Server::start(options) => running.map_err(|error| error.to_string())?,
            // A start that replays a long log can be given up: it has promised nothing yet.
            () = signals.received() => return Ok::<(), String>(()),
        };
        if let Some(http) = running.http_addr() {
            listen::announce(&format!("http http://{http}"));
        }
        listen::announce(&format!("ready {}", running.uri()));
        tokio::select! {
            () = signals.received() => {}
            () = running.wait() => return Err("the listeners have ended".to_owned()),
        }
        running.shutdown().await;
        Ok(())
    })
}

fn options(args: ServeArgs) -> Result<Options, String> {
    let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let listen = args.listen.unwrap_or_else(|| loopback(DEFAULT_PORT));
    let http_port = if listen.port() == 0 {
        0
    } else {
        DEFAULT_HTTP_PORT
    };
    let mut options = Options::new(args.data);
    if let Some(folder) = configuration_folder() {
        options
            .read_folder(&folder)
            .map_err(|error| error.to_string())?;
    }
    for (key, value) in args.define {
        options
            .set(&key, &value)
            .map_err(|error| error.to_string())?;
    }
    let named = [
        (keys::SERVER_ID, args.id.map(|id| id.to_string())),
        (keys::PEERS, args.peers),
        (keys::DATANODES, args.datanodes),
    ];
    for (key, value) in named {
        if let Some(value) = value {
            options
                .set(key, &value)
                .map_err(|error| error.to_string())?;
        }
    }
    options.group.found = args.found;
    options.listen = listen;
    options.grpc_listen = args.grpc;
    options.http_listen = Some(args.http.unwrap_or_else(|| loopback(http_port)));
    options.advertise = args.advertise;
    options.insecure = args.insecure;
    Ok(options)
}

/// Where Hadoop's programs look for their settings.
fn configuration_folder() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("HADOOP_CONF_DIR").or_else(|| Some(set("HADOOP_HOME")?.join("etc/hadoop")))
}
