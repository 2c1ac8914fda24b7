//! Buckets: make, change, remove, find.

use crate::command::{BucketName, CreateBucket, Layout, Replication, SetBucket};
use crate::context::{Context, Ruled, done, refuse};
use crate::key;
use crate::name;
use crate::quota;
use crate::record::{BucketPlace, BucketRow};
use crate::reply::{Refusal, RefusalKind, Reply};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::table;
use crate::volume;

/// Makes a bucket.
pub(crate) fn create(ctx: &mut Context<'_, '_>, command: &CreateBucket) -> Ruled<Reply> {
    let BucketName { volume, bucket } = &command.name;
    name::check_bucket(bucket)?;
    let mut volume_row = volume::get(ctx, volume)?;
    if table::bucket(ctx.txn, volume, bucket)?.is_some() {
        return refuse(
            RefusalKind::BucketExists,
            format!("bucket /{volume}/{bucket} is there already"),
        );
    }
    let Ok(layout) = Layout::try_from(command.layout) else {
        return refuse(
            RefusalKind::InvalidRequest,
            format!("{} is no bucket layout", command.layout),
        );
    };
    let row = BucketRow {
        volume: volume.clone(),
        bucket: bucket.clone(),
        owner: ctx.owner(&command.owner),
        layout: layout as i32,
        object_id: ctx.draw()?,
        update_id: ctx.command,
        created_ms: ctx.wall_ms,
        modified_ms: ctx.wall_ms,
        replication: default_replication(command.replication.clone()),
        storage_type: command.storage_type,
        quota_bytes: command.quota_bytes,
        quota_names: command.quota_names,
        used_bytes: 0,
        used_names: 0,
        metadata: command.metadata.clone(),
        acls: command.acls.clone(),
        tags: command.tags.clone(),
    };
    volume::check_space(ctx, volume, &volume_row, Some(&row))?;
    volume_row.used_names += 1;
    if volume_row.quota_names > 0
        && u64::try_from(volume_row.quota_names).is_ok_and(|q| volume_row.used_names > q)
    {
        return refuse(
            RefusalKind::QuotaExceeded,
            format!(
                "volume {volume} may have {} buckets",
                volume_row.quota_names
            ),
        );
    }
    volume::put(ctx, volume, &volume_row);
    table::put_bucket(ctx.txn, &row);
    let place = BucketPlace {
        volume: volume.clone(),
        bucket: bucket.clone(),
    };
    table::write(
        ctx.txn,
        Keyspace::BucketPlaces,
        key::one(row.object_id),
        &place,
    );
    done()
}

/// What a bucket without a wish gets: one copy, as the embedded datanode keeps it.
fn default_replication(wish: Option<Replication>) -> Replication {
    wish.filter(|wish| wish.kind > 0)
        .unwrap_or(Replication { kind: 1, factor: 1 })
}

/// The replication of a new file: the writer's wish, else the bucket's. Erasure coding is not built.
pub(crate) fn replication(row: &BucketRow, wish: Option<&Replication>) -> Ruled<Replication> {
    let replication = wish
        .filter(|wish| wish.kind > 0)
        .unwrap_or(&row.replication);
    if quota::is_ec(replication) {
        return refuse(
            RefusalKind::Unsupported,
            "erasure-coded files are not supported yet",
        );
    }
    Ok(replication.clone())
}

/// Changes properties. A quota below what the bucket holds already is refused.
pub(crate) fn set(ctx: &mut Context<'_, '_>, command: &SetBucket) -> Ruled<Reply> {
    let BucketName { volume, bucket } = &command.name;
    let mut row = get(ctx.txn, volume, bucket)??;
    if let Some(owner) = &command.owner {
        row.owner.clone_from(owner);
    }
    if let Some(quota) = command.quota_bytes {
        refuse_below("bytes", row.used_bytes, quota, &command.name)?;
        row.quota_bytes = quota;
        let volume_row = volume::get(ctx, volume)?;
        volume::check_space(ctx, volume, &volume_row, Some(&row))?;
    }
    if let Some(quota) = command.quota_names {
        refuse_below("names", row.used_names, quota, &command.name)?;
        row.quota_names = quota;
    }
    if let Some(replication) = &command.replication {
        row.replication = replication.clone();
    }
    row.update_id = ctx.command;
    row.modified_ms = ctx.wall_ms;
    table::put_bucket(ctx.txn, &row);
    done()
}

fn refuse_below(what: &str, used: u64, quota: i64, name: &BucketName) -> Ruled<()> {
    if quota > 0 && u64::try_from(quota).is_ok_and(|quota| quota < used) {
        return refuse(
            RefusalKind::QuotaExceeded,
            format!(
                "/{}/{} holds {used} {what}, more than {quota}",
                name.volume, name.bucket
            ),
        );
    }
    Ok(())
}

/// Removes a bucket in which nothing stands. Trees that were deleted and wait for the sweep do not keep it.
pub(crate) fn delete(ctx: &mut Context<'_, '_>, command: &BucketName) -> Ruled<Reply> {
    let BucketName { volume, bucket } = command;
    let row = get(ctx.txn, volume, bucket)??;
    let top = key::named(row.object_id, top(&row), "");
    if table::any_below(ctx.txn, Keyspace::Files, &top)?
        || table::any_below(ctx.txn, Keyspace::Dirs, &top)?
    {
        return refuse(
            RefusalKind::BucketNotEmpty,
            format!("bucket /{volume}/{bucket} has keys"),
        );
    }
    ctx.txn
        .remove(Keyspace::Buckets, key::bucket(volume, bucket));
    ctx.txn
        .remove(Keyspace::BucketPlaces, key::one(row.object_id));
    let mut volume_row = volume::get(ctx, volume)?;
    volume_row.used_names = volume_row.used_names.saturating_sub(1);
    volume::put(ctx, volume, &volume_row);
    done()
}

/// The parent under which a bucket's top names stand.
pub(crate) fn top(row: &BucketRow) -> u64 {
    if layout(row) == Layout::FileSystemOptimized {
        row.object_id
    } else {
        0
    }
}

/// The layout of a bucket.
pub(crate) fn layout(row: &BucketRow) -> Layout {
    Layout::try_from(row.layout).unwrap_or(Layout::FileSystemOptimized)
}

/// The bucket, or a refusal that it or its volume is not there.
pub(crate) fn get(
    rows: &dyn Rows,
    volume: &str,
    bucket: &str,
) -> Result<Result<BucketRow, Refusal>, RowsError> {
    if let Some(row) = table::bucket(rows, volume, bucket)? {
        return Ok(Ok(row));
    }
    if table::volume(rows, volume)?.is_none() {
        return Ok(Err(Refusal::new(
            RefusalKind::VolumeNotFound,
            format!("there is no volume {volume}"),
        )));
    }
    Ok(Err(Refusal::new(
        RefusalKind::BucketNotFound,
        format!("there is no bucket /{volume}/{bucket}"),
    )))
}

#[cfg(test)]
mod tests;
