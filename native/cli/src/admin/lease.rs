//! `append admin recover-lease`.

use append_client::{Config, Error, RecoverOptions};
use clap::Args;

use super::Place;
use super::show;

#[derive(Debug, Args)]
pub(crate) struct RecoverLeaseArgs {
    /// The file; may be a URI with the server
    path: String,
    /// Do not wait for the lease of its writer: fence it now, dead or not
    #[arg(long)]
    force: bool,
    /// Go on without datanodes that do not answer: what only they have, and the writer had not synced, is lost
    #[arg(long)]
    without_unreachable: bool,
}

/// Runs it.
///
/// # Errors
/// Those of [`append_client::FileSystem::recover_lease_with`].
pub(crate) async fn run(args: RecoverLeaseArgs, config: &Config) -> Result<(), Error> {
    let place = Place::open(&args.path, config).await?;
    let options = RecoverOptions {
        force: args.force,
        without_unreachable: args.without_unreachable,
        ..RecoverOptions::default()
    };
    place.fs.recover_lease_with(&place.path, &options).await?;
    show::line("closed")
}
