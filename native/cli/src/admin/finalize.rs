//! `append admin finalize`: ends the time in which an older version could still open the data folder.

use append_client::{Config, Error};
use clap::Args;

use super::Place;
use super::show;

#[derive(Debug, Args)]
pub(crate) struct FinalizeArgs {
    /// The server, if not the default one: ofs://HOST:PORT
    #[arg(default_value = "/", hide_default_value = true)]
    server: String,
    /// Only say whether the layout is finalized
    #[arg(long)]
    status: bool,
}

/// Runs it.
///
/// # Errors
/// Those of [`append_client::FileSystem::finalize_layout`].
pub(crate) async fn run(args: FinalizeArgs, config: &Config) -> Result<(), Error> {
    let place = Place::open(&args.server, config).await?;
    if place.path != "/" {
        return Err(Error::invalid(format!(
            "{} is below the server, which is finalized as a whole",
            place.path
        )));
    }
    show::line(if args.status {
        if place.fs.layout_finalized().await? {
            "finalized"
        } else {
            "not finalized"
        }
    } else if place.fs.finalize_layout().await? {
        "finalized"
    } else {
        "already finalized"
    })
}
