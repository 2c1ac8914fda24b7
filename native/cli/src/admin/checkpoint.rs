//! `append admin checkpoint`: asks the server on this machine for a checkpoint, over its HTTP port.

use append_client::{Error, ErrorKind};
use clap::Args;

use super::ask::HttpArgs;
use super::show;

#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    server: HttpArgs,
}

/// Runs it; returns when the checkpoint is kept, which with much state takes long.
///
/// # Errors
/// [`ErrorKind::Connect`] when nobody listens, [`ErrorKind::Io`] with the server's words when it could not take one.
pub(crate) async fn run(args: CheckpointArgs) -> Result<(), Error> {
    match args.server.ask("POST", "/admin/checkpoint").await {
        Ok(taken) => show::line(&taken),
        Err(error) if error.kind() == ErrorKind::Io => Err(Error::new(
            ErrorKind::Io,
            format!("no checkpoint was taken: {error}"),
        )),
        Err(error) => Err(error),
    }
}
