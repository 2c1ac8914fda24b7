//! Volumes: make, change, remove.

use crate::command::{CreateVolume, SetVolume, VolumeName};
use crate::context::{Context, Ruled, done, refuse};
use crate::name;
use crate::record::{BucketRow, VolumeRow};
use crate::reply::{RefusalKind, Reply};
use crate::rows::Keyspace;
use crate::table;

/// Makes a volume.
pub(crate) fn create(ctx: &mut Context<'_, '_>, command: &CreateVolume) -> Ruled<Reply> {
    name::check_volume(&command.volume)?;
    if table::volume(ctx.txn, &command.volume)?.is_some() {
        return refuse(
            RefusalKind::VolumeExists,
            format!("volume {} is there already", command.volume),
        );
    }
    let row = VolumeRow {
        owner: ctx.owner(&command.owner),
        admin: ctx.owner(&command.admin),
        object_id: ctx.draw()?,
        update_id: ctx.command,
        created_ms: ctx.wall_ms,
        modified_ms: ctx.wall_ms,
        quota_bytes: command.quota_bytes,
        quota_names: command.quota_names,
        used_names: 0,
        metadata: command.metadata.clone(),
        acls: command.acls.clone(),
    };
    put(ctx, &command.volume, &row);
    done()
}

/// Changes owner or quotas. A quota below what the volume holds already is refused.
pub(crate) fn set(ctx: &mut Context<'_, '_>, command: &SetVolume) -> Ruled<Reply> {
    let mut row = get(ctx, &command.volume)?;
    if let Some(owner) = &command.owner {
        row.owner.clone_from(owner);
    }
    if let Some(quota) = command.quota_names {
        if quota > 0 && u64::try_from(quota).is_ok_and(|quota| quota < row.used_names) {
            return refuse(
                RefusalKind::QuotaExceeded,
                format!(
                    "volume {} holds {} buckets, more than {quota}",
                    command.volume, row.used_names
                ),
            );
        }
        row.quota_names = quota;
    }
    if let Some(quota) = command.quota_bytes {
        row.quota_bytes = quota;
        check_space(ctx, &command.volume, &row, None)?;
    }
    row.update_id = ctx.command;
    row.modified_ms = ctx.wall_ms;
    put(ctx, &command.volume, &row);
    done()
}

/// Removes a volume that has no buckets.
pub(crate) fn delete(ctx: &mut Context<'_, '_>, command: &VolumeName) -> Ruled<Reply> {
    let row = get(ctx, &command.volume)?;
    if row.used_names > 0 {
        return refuse(
            RefusalKind::VolumeNotEmpty,
            format!("volume {} has {} buckets", command.volume, row.used_names),
        );
    }
    ctx.txn
        .remove(Keyspace::Volumes, command.volume.clone().into_bytes());
    done()
}

/// The volume, or a refusal that it is not there.
pub(crate) fn get(ctx: &Context<'_, '_>, volume: &str) -> Ruled<VolumeRow> {
    match table::volume(ctx.txn, volume)? {
        Some(row) => Ok(row),
        None => refuse(
            RefusalKind::VolumeNotFound,
            format!("there is no volume {volume}"),
        ),
    }
}

/// Writes a volume.
pub(crate) fn put(ctx: &mut Context<'_, '_>, volume: &str, row: &VolumeRow) {
    table::write(ctx.txn, Keyspace::Volumes, volume.as_bytes().to_vec(), row);
}

/// Checks Ozone's rule for a volume with a space quota: each bucket has one, and together they do not pass the volume's. `changed` is a
/// bucket as it is about to be written.
pub(crate) fn check_space(
    ctx: &Context<'_, '_>,
    volume: &str,
    row: &VolumeRow,
    changed: Option<&BucketRow>,
) -> Ruled<()> {
    if row.quota_bytes <= 0 {
        return Ok(());
    }
    let prefix = crate::key::bucket(volume, "");
    let mut buckets: Vec<BucketRow> = Vec::new();
    for (_, value) in table::below(ctx.txn, Keyspace::Buckets, &prefix, &prefix, usize::MAX)? {
        buckets.push(table::decode(Keyspace::Buckets, &value)?);
    }
    if let Some(changed) = changed {
        buckets.retain(|bucket| bucket.bucket != changed.bucket);
        buckets.push(changed.clone());
    }
    let mut sum = 0i64;
    for bucket in buckets {
        if bucket.quota_bytes <= 0 {
            return refuse(
                RefusalKind::InvalidRequest,
                format!(
                    "volume {volume} has a space quota, so bucket {} needs one",
                    bucket.bucket
                ),
            );
        }
        sum = sum.saturating_add(bucket.quota_bytes);
    }
    if sum > row.quota_bytes {
        return refuse(
            RefusalKind::QuotaExceeded,
            format!(
                "the buckets of volume {volume} may hold {sum} bytes together, the volume only {}",
                row.quota_bytes
            ),
        );
    }
    Ok(())
}
