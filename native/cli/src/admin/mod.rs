//! `append admin`: volumes, buckets, open files, leases, the layout; checkpoints and the offline check of a data folder.
//!
//! Exit codes: 0, 1 when the server refused or was not reached, 2 for a wrong command line, 3 for what is not supported.

mod ask;
mod bucket;
mod checkpoint;
mod finalize;
mod fsck;
mod group;
mod lease;
mod lof;
mod place;
mod show;
mod volume;

use std::process::ExitCode;

use append_client::{Config, Error, ErrorKind};
use clap::{Args, Subcommand};

use self::place::Place;

/// Exit code for what neither this server nor this client can do.
const UNSUPPORTED: u8 = 3;

#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// Server of paths without a scheme, instead of fs.defaultFS in core-site.xml
    #[arg(long, global = true, value_name = "ofs://HOST:PORT")]
    fs: Option<String>,
    /// A setting; may be given several times
    #[arg(short = 'D', global = true, value_name = "KEY=VALUE", value_parser = key_value)]
    define: Vec<(String, String)>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Volumes: the first component of a path
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Buckets: the second component of a path
    #[command(subcommand)]
    Bucket(bucket::BucketCommand),
    /// List files that are open for writing
    Lof(lof::LofArgs),
    /// Recover a file whose writer died
    RecoverLease(lease::RecoverLeaseArgs),
    /// Let a data folder of an older version be appended to; that version cannot open it afterwards
    Finalize(finalize::FinalizeArgs),
    /// Have the server on this machine take and verify a checkpoint
    Checkpoint(checkpoint::CheckpointArgs),
    /// The servers of the group that the server on this machine belongs to
    Members(group::MembersArgs),
    /// Have another server lead the group; asked of the leader
    Transfer(group::ServerArgs),
    /// Take a new server, which runs on an empty folder, into the group; asked of the leader
    Admit(group::AdmitArgs),
    /// Take a server out of the group; asked of the leader
    Dismiss(group::ServerArgs),
    /// Make the data folder of a server that is alone that of the first server of a group
    Grow(group::GrowArgs),
    /// Make the data folder of a server of a group that of a server that is alone
    Leave(group::LeaveArgs),
    /// Check the data folder of a server that does not run: reads all of it, names each violation
    Fsck(fsck::FsckArgs),
}

/// Reads a setting that stands as `key=value`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a setting is written key=value".to_owned()),
    }
}

/// Runs one command of administration.
pub(crate) fn run(args: AdminArgs) -> ExitCode {
    match run_command(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("append admin: {error}");
            match error.kind() {
                ErrorKind::Unsupported | ErrorKind::Disabled => ExitCode::from(UNSUPPORTED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run_command(args: AdminArgs) -> Result<ExitCode, Error> {
    let mut config = Config::from_environment()?;
    if let Some(fs) = args.fs {
        config.set(place::DEFAULT_FS, fs);
    }
    for (key, value) in args.define {
        config.set(key, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    runtime.block_on(async {
        match args.command {
            Command::Volume(command) => volume::run(command, &config).await,
            Command::Bucket(command) => bucket::run(command, &config).await,
            Command::Lof(args) => lof::run(args, &config).await,
            Command::RecoverLease(args) => lease::run(args, &config).await,
            Command::Finalize(args) => finalize::run(args, &config).await,
            Command::Checkpoint(args) => checkpoint::run(args).await,
            Command::Members(args) => group::members(args).await,
            Command::Transfer(args) => group::transfer(args).await,
            Command::Admit(args) => group::admit(args).await,
            Command::Dismiss(args) => group::dismiss(args).await,
            Command::Grow(args) => group::grow(args),
            Command::Leave(args) => group::leave(args),
            Command::Fsck(args) => return Ok(fsck::run(&args)),
        }
        .map(|()| ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::key_value;

    #[test]
    fn settings_have_a_key_and_a_value() {
        assert_eq!(
            key_value("a=b=c").unwrap(),
            ("a".to_owned(), "b=c".to_owned())
        );
        assert_eq!(key_value("a=").unwrap(), ("a".to_owned(), String::new()));
        assert!(key_value("a").is_err() && key_value("=b").is_err());
    }
}
