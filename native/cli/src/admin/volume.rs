//! `append admin volume`.

use append_client::admin::{VolumeInfo, VolumeOptions};
use append_client::{Config, Error};
use clap::Subcommand;

use super::Place;
use super::show;

/// Entries asked for at a time.
const PAGE: u32 = 1000;

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make a volume
    Create {
        /// Name, path, or URI with the server
        volume: String,
        /// Owner; without it the caller
        #[arg(long)]
        owner: Option<String>,
        /// Largest number of bytes, copies counted
        #[arg(long, value_name = "BYTES")]
        space_quota: Option<u64>,
        /// Largest number of buckets
        #[arg(long, value_name = "NUMBER")]
        namespace_quota: Option<u64>,
    },
    /// Describe a volume
    Info {
        /// Name, path, or URI with the server
        volume: String,
    },
    /// List the volumes
    List {
        /// The server, if it is not the default one
        #[arg(default_value = "/", value_name = "ofs://HOST:PORT/")]
        server: String,
    },
    /// Delete an empty volume
    Delete {
        /// Name, path, or URI with the server
        volume: String,
    },
}

/// Runs it.
///
/// # Errors
/// Those of the client's calls.
pub(crate) async fn run(command: VolumeCommand, config: &Config) -> Result<(), Error> {
    match command {
        VolumeCommand::Create {
            volume,
            owner,
            space_quota,
            namespace_quota,
        } => {
            let place = Place::open(&volume, config).await?;
            let options = VolumeOptions {
                owner,
                quota_bytes: space_quota,
                quota_names: namespace_quota,
            };
            place.fs.create_volume(place.volume()?, &options).await
        }
        VolumeCommand::Info { volume } => {
            let place = Place::open(&volume, config).await?;
            describe(&place.fs.volume(place.volume()?).await?)
        }
        VolumeCommand::List { server } => list(&Place::open(&server, config).await?).await,
        VolumeCommand::Delete { volume } => {
            let place = Place::open(&volume, config).await?;
            place.fs.delete_volume(place.volume()?).await
        }
    }
}

fn describe(volume: &VolumeInfo) -> Result<(), Error> {
    show::fields(&[
        ("name", volume.name.clone()),
        ("owner", volume.owner.clone()),
        ("admin", volume.admin.clone()),
        ("space quota", show::limit(volume.quota_bytes)),
        ("namespace quota", show::limit(volume.quota_names)),
        ("buckets", volume.used_names.to_string()),
        ("created", show::time(volume.created_ms)),
        ("modified", show::time(volume.modified_ms)),
        ("object id", volume.object_id.to_string()),
    ])
}

async fn list(place: &Place) -> Result<(), Error> {
    let mut rows = Vec::new();
    let mut after = String::new();
    loop {
        let page = place.fs.volumes(&after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.name);
        rows.extend(page.iter().map(|volume| {
            vec![
                volume.name.clone(),
                volume.owner.clone(),
                volume.used_names.to_string(),
                show::time(volume.created_ms),
            ]
        }));
    }
    show::table(&["Volume", "Owner", "Buckets", "Created"], &rows)
}
