//! Volumes and buckets, as administrators see them.

use append_wire::hdds::upgrade_finalization_status::Status as Finalization;
use append_wire::hdds::{
    DefaultReplicationConfig, ReplicationFactor, ReplicationType, StorageTypeProto,
    UpgradeFinalizationStatus,
};
use append_wire::om::{
    self, BucketLayoutProto, CreateBucketRequest, CreateVolumeRequest, DeleteBucketRequest,
    DeleteVolumeRequest, FinalizeUpgradeProgressRequest, FinalizeUpgradeRequest, InfoBucketRequest,
    InfoVolumeRequest, ListBucketsRequest, ListOpenFilesRequest, ListVolumeRequest, Type,
    list_volume_request,
};

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::filesystem::{FileSystem, without};
use crate::om::Effect;
use crate::status::{OpenFilesPage, from_wire};
use crate::write::Replication;

/// How a bucket arranges its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketLayout {
    /// Directories are objects: atomic renames, O(1) recursive deletes.
    FileSystemOptimized,
    /// Full keys with `/`, directories are implied or keys that end with `/`.
    Legacy,
    /// Keys are opaque. No append.
    ObjectStore,
}

/// A volume. Quotas: none = no limit. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Name.
    pub name: String,
    /// Owner.
    pub owner: String,
    /// Administrator.
    pub admin: String,
    /// Quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Quota of names (buckets).
    pub quota_names: Option<u64>,
    /// Buckets.
    pub used_names: u64,
    /// Made.
    pub created_ms: u64,
    /// Changed.
    pub modified_ms: u64,
    /// Identity.
    pub object_id: u64,
}

/// A bucket. Quotas: none = no limit. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketInfo {
    /// Volume.
    pub volume: String,
    /// Name.
    pub name: String,
    /// Owner.
    pub owner: String,
    /// Layout.
    pub layout: BucketLayout,
    /// Replication of files whose writer names none; none: the server's default.
    pub replication: Option<Replication>,
    /// Quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Quota of names (files and directories).
    pub quota_names: Option<u64>,
    /// Bytes charged, copies counted.
    pub used_bytes: u64,
    /// Files and directories.
    pub used_names: u64,
    /// Made.
    pub created_ms: u64,
    /// Changed.
    pub modified_ms: u64,
    /// Identity.
    pub object_id: u64,
    /// Volume and bucket that a link points to.
    pub source: Option<(String, String)>,
}

/// How a volume is made. The default has the caller as owner and no quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Owner; none: the caller.
    pub owner: Option<String>,
    /// Quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Quota of buckets.
    pub quota_names: Option<u64>,
}

/// How a bucket is made. The default has the caller as owner, the configured layout, no quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketOptions {
    /// Owner; none: the caller.
    pub owner: Option<String>,
    /// Layout; none: `ozone.client.fs.default.bucket.layout`.
    pub layout: Option<BucketLayout>,
    /// Replication of files whose writer names none.
    pub replication: Option<Replication>,
    /// Quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Quota of files and directories.
    pub quota_names: Option<u64>,
}

impl FileSystem {
    /// Makes a volume.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`], [`crate::ErrorKind::InvalidArgument`] for a name against the rules.
    pub async fn create_volume(&self, name: &str, options: &VolumeOptions) -> Result<()> {
        let user = self.om().user().to_owned();
        let mut request = self.om().request(Type::CreateVolume);
        request.create_volume_request = Some(Box::new(CreateVolumeRequest {
            volume_info: om::VolumeInfo {
                owner_name: options.owner.clone().unwrap_or_else(|| user.clone()),
                admin_name: user,
                volume: name.to_owned(),
                quota_in_bytes: Some(to_quota(options.quota_bytes).cast_unsigned()),
                quota_in_namespace: Some(to_quota(options.quota_names)),
                ..om::VolumeInfo::default()
            },
        }));
        self.om()
            .call(request, Effect::Change)
            .await
            .map_err(|error| error.at("create volume", format!("/{name}")))?;
        Ok(())
    }

    /// Describes a volume.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn volume(&self, name: &str) -> Result<VolumeInfo> {
        let work = async {
            let mut request = self.om().request(Type::InfoVolume);
            request.info_volume_request = Some(Box::new(InfoVolumeRequest {
                volume_name: name.to_owned(),
            }));
            let response = self.om().call(request, Effect::Read).await?;
            response
                .info_volume_response
                .and_then(|info| info.volume_info)
                .map(volume_info)
                .ok_or_else(|| without("volume"))
        };
        work.await
            .map_err(|error: Error| error.at("volume", format!("/{name}")))
    }

    /// Volumes in name order, at most `max` after the name `after` (empty: from the first). Where the caller may not list all,
    /// his own.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn volumes(&self, after: &str, max: u32) -> Result<Vec<VolumeInfo>> {
        use list_volume_request::Scope;
        let result = match self.volumes_of(Scope::VolumesByCluster, after, max).await {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.volumes_of(Scope::VolumesByUser, after, max).await
            }
            other => other,
        };
        result.map_err(|error| error.at("list volumes", "/"))
    }

    async fn volumes_of(
        &self,
        scope: list_volume_request::Scope,
        after: &str,
        max: u32,
    ) -> Result<Vec<VolumeInfo>> {
        let mut request = self.om().request(Type::ListVolume);
        request.list_volume_request = Some(Box::new(ListVolumeRequest {
            scope: scope.into(),
            user_name: Some(self.om().user().to_owned()),
            prefix: None,
            prev_key: some(after),
            max_keys: Some(max),
        }));
        let response = self.om().call(request, Effect::Read).await?;
        let list = response
            .list_volume_response
            .ok_or_else(|| without("volumes"))?;
        Ok(list.volume_info.into_iter().map(volume_info).collect())
    }

    /// Deletes an empty volume.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::DirectoryNotEmpty`].
    pub async fn delete_volume(&self, name: &str) -> Result<()> {
        let mut request = self.om().request(Type::DeleteVolume);
        request.delete_volume_request = Some(Box::new(DeleteVolumeRequest {
            volume_name: name.to_owned(),
        }));
        self.om()
            .call(request, Effect::Change)
            .await
            .map_err(|error| error.at("delete volume", format!("/{name}")))?;
        Ok(())
    }

    /// Makes a bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`], [`crate::ErrorKind::NotFound`] for its volume.
    pub async fn create_bucket(
        &self,
        volume: &str,
        name: &str,
        options: &BucketOptions,
    ) -> Result<()> {
        let layout = options
            .layout
            .unwrap_or(self.shared().settings.bucket_layout);
        let owner = options.owner.as_deref().unwrap_or(self.om().user());
        let mut request = self.om().request(Type::CreateBucket);
        request.create_bucket_request = Some(Box::new(CreateBucketRequest {
            bucket_info: om::BucketInfo {
                volume_name: volume.to_owned(),
                bucket_name: name.to_owned(),
                storage_type: StorageTypeProto::Disk.into(),
                quota_in_bytes: Some(to_quota(options.quota_bytes)),
                quota_in_namespace: Some(to_quota(options.quota_names)),
                bucket_layout: Some(to_layout(layout).into()),
                owner: Some(owner.to_owned()),
                default_replication_config: options.replication.map(to_replication),
                ..om::BucketInfo::default()
            },
        }));
        self.om()
            .call(request, Effect::Change)
            .await
            .map_err(|error| error.at("create bucket", format!("/{volume}/{name}")))?;
        Ok(())
    }

    /// Describes a bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn bucket(&self, volume: &str, name: &str) -> Result<BucketInfo> {
        let work = async {
            let mut request = self.om().request(Type::InfoBucket);
            request.info_bucket_request = Some(Box::new(InfoBucketRequest {
                volume_name: volume.to_owned(),
                bucket_name: name.to_owned(),
            }));
            let response = self.om().call(request, Effect::Read).await?;
            response
                .info_bucket_response
                .and_then(|info| info.bucket_info)
                .map(bucket_info)
                .ok_or_else(|| without("bucket"))
        };
        work.await
            .map_err(|error: Error| error.at("bucket", format!("/{volume}/{name}")))
    }

    /// Buckets of a volume in name order, at most `max` after the name `after` (empty: from the first).
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`].
    pub async fn buckets(&self, volume: &str, after: &str, max: u32) -> Result<Vec<BucketInfo>> {
        let work = async {
            let mut request = self.om().request(Type::ListBuckets);
            request.list_buckets_request = Some(Box::new(ListBucketsRequest {
                volume_name: volume.to_owned(),
                start_key: some(after),
                prefix: None,
                count: Some(i32::try_from(max).unwrap_or(i32::MAX)),
                has_snapshot: None,
            }));
            let response = self.om().call(request, Effect::Read).await?;
            let list = response
                .list_buckets_response
                .ok_or_else(|| without("buckets"))?;
            Ok(list.bucket_info.into_iter().map(bucket_info).collect())
        };
        work.await
            .map_err(|error: Error| error.at("list buckets", format!("/{volume}")))
    }

    /// Deletes an empty bucket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::DirectoryNotEmpty`].
    pub async fn delete_bucket(&self, volume: &str, name: &str) -> Result<()> {
        let mut request = self.om().request(Type::DeleteBucket);
        request.delete_bucket_request = Some(Box::new(DeleteBucketRequest {
            volume_name: volume.to_owned(),
            bucket_name: name.to_owned(),
        }));
        self.om()
            .call(request, Effect::Change)
            .await
            .map_err(|error| error.at("delete bucket", format!("/{volume}/{name}")))?;
        Ok(())
    }

    /// Sessions that are open below a path (the root or a bucket; some servers take longer paths), at most `max` from `token` on
    /// (empty: from the first).
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::PermissionDenied`].
    pub async fn open_files(&self, path: &str, token: &str, max: u32) -> Result<OpenFilesPage> {
        let path = self.resolve(path)?;
        let work = async {
            let mut request = self.om().request(Type::ListOpenFiles);
            request.list_open_files_request = Some(Box::new(ListOpenFilesRequest {
                path: Some(path.to_string()),
                count: Some(max),
                token: Some(token.to_owned()),
            }));
            let response = self.om().call(request, Effect::Read).await?;
            let list = response
                .list_open_files_response
                .ok_or_else(|| without("open files"))?;
            if list.client_id.len() != list.key_info.len() {
                return Err(Error::new(
                    ErrorKind::Protocol,
                    "lists of open files that are not parallel",
                ));
            }
            let files = list.client_id.iter().zip(&list.key_info).enumerate();
            Ok(OpenFilesPage {
                files: files
                    .map(|(i, (session, info))| {
                        from_wire::open_file(*session, info, list.append_status.get(i))
                    })
                    .collect(),
                next: list.continuation_token.clone().filter(|_| list.has_more()),
                total: list.total_open_key_count(),
            })
        };
        work.await
            .map_err(|error: Error| error.at("list open files", &path))
    }

    /// Finalizes the server's layout, for good: a folder that an older version wrote can be appended to from then on, and that version
    /// does not open it any more. False if it was finalized before.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] on a server without append, whose upgrade is not this client's;
    /// [`crate::ErrorKind::PermissionDenied`].
    pub async fn finalize_layout(&self) -> Result<bool> {
        self.knows_layout("finalize")?;
        let mut request = self.om().request(Type::FinalizeUpgrade);
        request.finalize_upgrade_request = Some(Box::new(FinalizeUpgradeRequest {
            upgrade_client_id: self.upgrade_client(),
        }));
        let at = |error: Error| error.at("finalize", "/");
        let response = self.om().call(request, Effect::Change).await.map_err(at)?;
        let told = response
            .finalize_upgrade_response
            .ok_or_else(|| at(without("finalization")))?;
        match finalization(&told.status).map_err(at)? {
            Finalization::AlreadyFinalized => Ok(false),
            Finalization::FinalizationDone => Ok(true),
            other => Err(at(Error::new(
                ErrorKind::Unavailable,
                format!("the layout is not finalized yet: {}", other.as_str_name()),
            ))),
        }
    }

    /// Whether the server's layout is finalized.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] on a server without append.
    pub async fn layout_finalized(&self) -> Result<bool> {
        self.knows_layout("finalization")?;
        let mut request = self.om().request(Type::FinalizeUpgradeProgress);
        request.finalize_upgrade_progress_request =
            Some(Box::new(FinalizeUpgradeProgressRequest {
                upgrade_client_id: self.upgrade_client(),
                takeover: None,
                readonly: Some(true),
            }));
        let at = |error: Error| error.at("finalization", "/");
        let response = self.om().call(request, Effect::Read).await.map_err(at)?;
        let told = response
            .finalize_upgrade_progress_response
            .ok_or_else(|| at(without("finalization")))?;
        Ok(matches!(
            finalization(&told.status).map_err(at)?,
            Finalization::AlreadyFinalized | Finalization::FinalizationDone
        ))
    }

    fn knows_layout(&self, operation: &'static str) -> Result<()> {
        if self.om().features().knows_append() {
            return Ok(());
        }
        Err(Error::unsupported("the server has no layout of this product").at(operation, "/"))
    }

    /// Who watches over a finalization: the name counts where several do.
    fn upgrade_client(&self) -> String {
        format!("libappend-{}", self.om().user())
    }
}

fn finalization(told: &UpgradeFinalizationStatus) -> Result<Finalization> {
    Finalization::try_from(told.status).map_err(|_| {
        Error::new(
            ErrorKind::Protocol,
            format!("an unknown state of finalization: {}", told.status),
        )
    })
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// -1 is "no limit".
fn to_quota(quota: Option<u64>) -> i64 {
    quota.map_or(-1, |quota| i64::try_from(quota).unwrap_or(i64::MAX))
}

/// Below zero: no limit, or never set.
fn quota(wire: i64) -> Option<u64> {
    u64::try_from(wire).ok()
}

fn to_layout(layout: BucketLayout) -> BucketLayoutProto {
    match layout {
        BucketLayout::FileSystemOptimized => BucketLayoutProto::FileSystemOptimized,
        BucketLayout::Legacy => BucketLayoutProto::Legacy,
        BucketLayout::ObjectStore => BucketLayoutProto::ObjectStore,
    }
}

/// Several copies are kept by Ratis, one may be.
fn to_replication(replication: Replication) -> DefaultReplicationConfig {
    DefaultReplicationConfig {
        r#type: ReplicationType::Ratis.into(),
        factor: Some(to_factor(replication).into()),
        ec_replication_config: None,
    }
}

pub(crate) fn to_factor(replication: Replication) -> ReplicationFactor {
    match replication {
        Replication::One => ReplicationFactor::One,
        Replication::Three => ReplicationFactor::Three,
    }
}

fn replication(wire: &DefaultReplicationConfig) -> Option<Replication> {
    match (wire.r#type(), wire.factor()) {
        (ReplicationType::Ratis | ReplicationType::StandAlone, ReplicationFactor::One) => {
            Some(Replication::One)
        }
        (ReplicationType::Ratis | ReplicationType::StandAlone, ReplicationFactor::Three) => {
            Some(Replication::Three)
        }
        _ => None,
    }
}

fn volume_info(wire: om::VolumeInfo) -> VolumeInfo {
    VolumeInfo {
        quota_bytes: wire
            .quota_in_bytes
            .and_then(|bytes| quota(bytes.cast_signed())),
        quota_names: quota(wire.quota_in_namespace()),
        used_names: wire.used_namespace(),
        created_ms: wire.creation_time(),
        modified_ms: wire.modification_time(),
        object_id: wire.object_id(),
        name: wire.volume,
        owner: wire.owner_name,
        admin: wire.admin_name,
    }
}

fn bucket_info(wire: om::BucketInfo) -> BucketInfo {
    let layout = match wire.bucket_layout.map(BucketLayoutProto::try_from) {
        Some(Ok(BucketLayoutProto::FileSystemOptimized)) => BucketLayout::FileSystemOptimized,
        Some(Ok(BucketLayoutProto::ObjectStore)) => BucketLayout::ObjectStore,
        // Buckets from before there were layouts.
        _ => BucketLayout::Legacy,
    };
    BucketInfo {
        owner: wire.owner().to_owned(),
        layout,
        replication: wire
            .default_replication_config
            .as_ref()
            .and_then(replication),
        quota_bytes: quota(wire.quota_in_bytes()),
        quota_names: quota(wire.quota_in_namespace()),
        used_bytes: wire.used_bytes(),
        used_names: wire.used_namespace(),
        created_ms: wire.creation_time(),
        modified_ms: wire.modification_time(),
        object_id: wire.object_id(),
        source: wire.source_volume.zip(wire.source_bucket),
        volume: wire.volume_name,
        name: wire.bucket_name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_below_zero_are_no_quotas() {
        assert_eq!(quota(-1), None);
        assert_eq!(quota(-2), None);
        assert_eq!(quota(0), Some(0));
        assert_eq!(to_quota(None), -1);
        assert_eq!(to_quota(Some(u64::MAX)), i64::MAX);
        let wire = om::VolumeInfo {
            quota_in_bytes: Some(u64::MAX),
            quota_in_namespace: Some(7),
            ..om::VolumeInfo::default()
        };
        let info = volume_info(wire);
        assert_eq!((info.quota_bytes, info.quota_names), (None, Some(7)));
    }

    #[test]
    fn a_bucket_of_no_layout_is_legacy_and_links_have_a_source() {
        let wire = om::BucketInfo {
            source_volume: Some("v".to_owned()),
            source_bucket: Some("b".to_owned()),
            ..om::BucketInfo::default()
        };
        let info = bucket_info(wire);
        assert_eq!(info.layout, BucketLayout::Legacy);
        assert_eq!(info.source, Some(("v".to_owned(), "b".to_owned())));
        for layout in [
            BucketLayout::FileSystemOptimized,
            BucketLayout::Legacy,
            BucketLayout::ObjectStore,
        ] {
            let wire = om::BucketInfo {
                bucket_layout: Some(to_layout(layout).into()),
                ..om::BucketInfo::default()
            };
            assert_eq!(bucket_info(wire).layout, layout);
        }
    }

    #[test]
    fn replications_go_both_ways() {
        for choice in [Replication::One, Replication::Three] {
            assert_eq!(replication(&to_replication(choice)), Some(choice));
        }
        let coded = DefaultReplicationConfig {
            r#type: ReplicationType::Ec.into(),
            ..DefaultReplicationConfig::default()
        };
        assert_eq!(replication(&coded), None);
    }
}
