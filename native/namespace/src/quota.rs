//! What a bucket is charged (I7): replicated bytes of what its files refer to, and one name for each file and directory.
//!
//! A charge that grows past a quota is refused; one that shrinks never is.

use crate::command::Replication;
use crate::context::{Context, Ruled, refuse};
use crate::ids::Id;
use crate::reply::RefusalKind;
use crate::rows::Keyspace;
use crate::table;

/// Ozone's replication type for erasure coding.
const EC: i32 = 4;

/// Is it erasure coded?
pub(crate) fn is_ec(replication: &Replication) -> bool {
    replication.kind == EC
}

/// Bytes that `length` bytes take on disk.
pub(crate) fn replicated(replication: &Replication, length: u64) -> u64 {
    length.saturating_mul(u64::try_from(replication.factor.max(1)).unwrap_or(1))
}

/// A quota that is set, as a number.
fn bound(quota: i64) -> Option<u64> {
    u64::try_from(quota).ok().filter(|quota| *quota > 0)
}

/// A change of a bucket's usage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Charge {
    /// Replicated bytes charged anew.
    pub(crate) bytes: u64,
    /// Replicated bytes that are charged no longer.
    pub(crate) freed_bytes: u64,
    /// Names charged anew.
    pub(crate) names: u64,
    /// Names that are charged no longer.
    pub(crate) freed_names: u64,
}

impl Context<'_, '_> {
    /// Charges a bucket.
    pub(crate) fn charge(&mut self, bucket: Id, charge: Charge) -> Ruled<()> {
        let Some(mut row) = table::bucket_by_id(self.txn, bucket)? else {
            return Err(table::corrupt(
                Keyspace::Buckets,
                format!("a charge to bucket {bucket}, which is gone"),
            )
            .into());
        };
        let short = || {
            table::corrupt(
                Keyspace::Buckets,
                format!("bucket {bucket} is charged less than it holds"),
            )
        };
        // Usage is an exact sum, else what is freed later would be more than it holds; what does not fit the number is refused.
        let (Some(bytes), Some(names)) = (
            row.used_bytes.checked_add(charge.bytes),
            row.used_names.checked_add(charge.names),
        ) else {
            return refuse(
                RefusalKind::QuotaExceeded,
                format!(
                    "/{}/{} would hold more than can be counted",
                    row.volume, row.bucket
                ),
            );
        };
        let bytes = bytes.checked_sub(charge.freed_bytes).ok_or_else(short)?;
        let names = names.checked_sub(charge.freed_names).ok_or_else(short)?;
        if bytes == row.used_bytes && names == row.used_names {
            return Ok(());
        }
        if bytes > row.used_bytes && bound(row.quota_bytes).is_some_and(|quota| bytes > quota) {
            return refuse(
                RefusalKind::QuotaExceeded,
                format!(
                    "/{}/{} may hold {} bytes, and would hold {bytes}",
                    row.volume, row.bucket, row.quota_bytes
                ),
            );
        }
        if names > row.used_names && bound(row.quota_names).is_some_and(|quota| names > quota) {
            return refuse(
                RefusalKind::QuotaExceeded,
                format!(
                    "/{}/{} may hold {} names, and would hold {names}",
                    row.volume, row.bucket, row.quota_names
                ),
            );
        }
        row.used_bytes = bytes;
        row.used_names = names;
        table::put_bucket(self.txn, &row);
        Ok(())
    }

    /// Checks, as Ozone does, that blocks about to be given would fit if they were filled. Charges nothing.
    pub(crate) fn check_room(&self, bucket: Id, bytes: u64) -> Ruled<()> {
        let Some(row) = table::bucket_by_id(self.txn, bucket)? else {
            return Ok(());
        };
        let wanted = row.used_bytes.saturating_add(bytes);
        if bytes > 0 && bound(row.quota_bytes).is_some_and(|quota| wanted > quota) {
            return refuse(
                RefusalKind::QuotaExceeded,
                format!(
                    "/{}/{} may hold {} bytes, and with the blocks asked for could hold {wanted}",
                    row.volume, row.bucket, row.quota_bytes
                ),
            );
        }
        Ok(())
    }

    /// Checks that names about to be made would fit. Charges nothing.
    pub(crate) fn check_names(&self, bucket: Id, names: u64) -> Ruled<()> {
        let Some(row) = table::bucket_by_id(self.txn, bucket)? else {
            return Ok(());
        };
        let wanted = row.used_names.saturating_add(names);
        if bound(row.quota_names).is_some_and(|quota| wanted > quota) {
            return refuse(
                RefusalKind::QuotaExceeded,
                format!(
                    "/{}/{} may hold {} names, and would hold {wanted}",
                    row.volume, row.bucket, row.quota_names
                ),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
