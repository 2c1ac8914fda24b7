//! `append admin bucket`.

use append_client::admin::{BucketInfo, BucketLayout, BucketOptions};
use append_client::{Config, Error, Replication};
use clap::{Subcommand, ValueEnum};

use super::Place;
use super::show;

/// Entries asked for at a time.
const PAGE: u32 = 1000;

/// How a bucket arranges its names.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Layout {
    /// Directories are objects (FILE_SYSTEM_OPTIMIZED)
    Fso,
    /// Full keys with slashes (LEGACY)
    Legacy,
    /// Opaque keys, no append (OBJECT_STORE)
    Obs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BucketCommand {
    /// Make a bucket
    Create {
        /// VOLUME/BUCKET, or URI with the server
        bucket: String,
        /// How it arranges its names; without it as ozone.client.fs.default.bucket.layout says, fso
        #[arg(long, value_enum)]
        layout: Option<Layout>,
        /// Owner; without it the caller
        #[arg(long)]
        owner: Option<String>,
        /// Largest number of bytes, copies counted
        #[arg(long, value_name = "BYTES")]
        space_quota: Option<u64>,
        /// Largest number of files and directories
        #[arg(long, value_name = "NUMBER")]
        namespace_quota: Option<u64>,
    },
    /// Describe a bucket
    Info {
        /// VOLUME/BUCKET, or URI with the server
        bucket: String,
    },
    /// List the buckets of a volume
    List {
        /// VOLUME, or URI with the server
        volume: String,
    },
    /// Delete an empty bucket
    Delete {
        /// VOLUME/BUCKET, or URI with the server
        bucket: String,
    },
}

/// Runs it.
///
/// # Errors
/// Those of the client's calls.
pub(crate) async fn run(command: BucketCommand, config: &Config) -> Result<(), Error> {
    match command {
        BucketCommand::Create {
            bucket,
            layout,
            owner,
            space_quota,
            namespace_quota,
        } => {
            let place = Place::open(&bucket, config).await?;
            let (volume, name) = place.bucket()?;
            let layout = layout.map(|layout| match layout {
                Layout::Fso => BucketLayout::FileSystemOptimized,
                Layout::Legacy => BucketLayout::Legacy,
                Layout::Obs => BucketLayout::ObjectStore,
            });
            let options = BucketOptions {
                owner,
                layout,
                replication: None,
                quota_bytes: space_quota,
                quota_names: namespace_quota,
            };
            place.fs.create_bucket(volume, name, &options).await
        }
        BucketCommand::Info { bucket } => {
            let place = Place::open(&bucket, config).await?;
            let (volume, name) = place.bucket()?;
            describe(&place.fs.bucket(volume, name).await?)
        }
        BucketCommand::List { volume } => list(&Place::open(&volume, config).await?).await,
        BucketCommand::Delete { bucket } => {
            let place = Place::open(&bucket, config).await?;
            let (volume, name) = place.bucket()?;
            place.fs.delete_bucket(volume, name).await
        }
    }
}

/// The name that Ozone gives a layout.
fn layout(layout: BucketLayout) -> &'static str {
    match layout {
        BucketLayout::FileSystemOptimized => "FILE_SYSTEM_OPTIMIZED",
        BucketLayout::Legacy => "LEGACY",
        BucketLayout::ObjectStore => "OBJECT_STORE",
    }
}

fn describe(bucket: &BucketInfo) -> Result<(), Error> {
    let replication = match bucket.replication {
        Some(Replication::One) => "ONE",
        Some(Replication::Three) => "THREE",
        None => "the server's default",
    };
    let mut fields = vec![
        ("volume", bucket.volume.clone()),
        ("name", bucket.name.clone()),
        ("owner", bucket.owner.clone()),
        ("layout", layout(bucket.layout).to_owned()),
        ("replication", replication.to_owned()),
        ("space quota", show::limit(bucket.quota_bytes)),
        ("used bytes", bucket.used_bytes.to_string()),
        ("namespace quota", show::limit(bucket.quota_names)),
        ("used names", bucket.used_names.to_string()),
        ("created", show::time(bucket.created_ms)),
        ("modified", show::time(bucket.modified_ms)),
        ("object id", bucket.object_id.to_string()),
    ];
    if let Some((volume, name)) = &bucket.source {
        fields.push(("link to", format!("/{volume}/{name}")));
    }
    show::fields(&fields)
}

async fn list(place: &Place) -> Result<(), Error> {
    let volume = place.volume()?;
    let mut rows = Vec::new();
    let mut after = String::new();
    loop {
        let page = place.fs.buckets(volume, &after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.name);
        rows.extend(page.iter().map(|bucket| {
            vec![
                bucket.name.clone(),
                bucket.owner.clone(),
                layout(bucket.layout).to_owned(),
                bucket.used_bytes.to_string(),
                bucket.used_names.to_string(),
            ]
        }));
    }
    show::table(
        &["Bucket", "Owner", "Layout", "Used bytes", "Used names"],
        &rows,
    )
}
