//! The one binary, `append`: the server, a datanode of its own, the shell with the verbs of `hadoop fs`, and administration.
//!
//! Nothing here decides a rule: `serve` and `datanode` start what the server crates hold, `fs` and `admin` speak to a server
//! through the client crate, as every other program would.

mod admin;
mod datanode;
mod fs;
mod listen;
mod logging;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Append to files in Ozone's namespace.
#[derive(Debug, Parser)]
#[command(name = "append", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: names, append sessions, and the data of one machine.
    Serve(serve::ServeArgs),
    /// Run a datanode as a process of its own.
    Datanode(datanode::DatanodeArgs),
    /// The file system shell, with the commands of `hadoop fs` (`append fs -help`).
    #[command(disable_help_flag = true)]
    Fs(fs::FsArgs),
    /// Volumes, buckets, open files.
    Admin(admin::AdminArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start(matches!(
        cli.command,
        Command::Serve(_) | Command::Datanode(_)
    ));
    match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Datanode(args) => datanode::run(args),
        Command::Fs(args) => fs::run(args),
        Command::Admin(args) => admin::run(args),
    }
}
