//! `append admin recover-lease`.

use append_client::{Config, Error};
use clap::Args;

use super::Place;
use super::show;

#[derive(Debug, Args)]
pub(crate) struct RecoverLeaseArgs {
    /// The file; may be a URI with the server
    path: String,
}

/// Runs it.
///
/// # Errors
/// Those of [`append_client::FileSystem::recover_lease`].
pub(crate) async fn run(args: RecoverLeaseArgs, config: &Config) -> Result<(), Error> {
    let place = Place::open(&args.path, config).await?;
    let closed = place.fs.recover_lease(&place.path).await?;
    show::line(if closed {
        "recovered"
    } else {
        "recovery is under way"
    })
}
