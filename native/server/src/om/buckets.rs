//! Commands and reads of buckets.

use super::call::Call;
use super::failure::Failure;
use super::{Om, done, render, translate};
use append_namespace::command::{Command, CreateBucket, SetBucket};
use append_namespace::read;
use append_wire::om::{
    CreateBucketRequest, CreateBucketResponse, DeleteBucketRequest, DeleteBucketResponse,
    InfoBucketRequest, InfoBucketResponse, ListBucketsRequest, ListBucketsResponse, OmResponse,
    SetBucketPropertyRequest, SetBucketPropertyResponse,
};

/// Buckets in one listing at most, and when the caller names no number.
const MAX_LISTED: usize = 1_000;

impl Om {
    pub(super) async fn create_bucket(
        &self,
        call: &Call,
        request: CreateBucketRequest,
    ) -> Result<OmResponse, Failure> {
        let info = request.bucket_info;
        if info.source_volume.is_some() || info.source_bucket.is_some() {
            return Err(Failure::unsupported("bucket links are not supported"));
        }
        if info.beinfo.is_some() {
            return Err(Failure::unsupported("encrypted buckets are not supported"));
        }
        if info.is_version_enabled {
            return Err(Failure::unsupported("versioned buckets are not supported"));
        }
        let kept = self.engine.replication();
        let asked =
            translate::default_replication(info.default_replication_config.as_ref(), &kept)?;
        let command = Command::CreateBucket(CreateBucket {
            name: translate::bucket_name(&info.volume_name, &info.bucket_name),
            layout: translate::layout(info.bucket_layout)?.into(),
            owner: translate::owner(info.owner, &call.user),
            replication: Some(asked.unwrap_or(kept)),
            storage_type: info.storage_type,
            quota_bytes: translate::quota(info.quota_in_bytes),
            quota_names: translate::quota(info.quota_in_namespace),
            metadata: translate::pairs(info.metadata),
            acls: translate::acls(info.acls),
            tags: translate::pairs(info.tags),
        });
        self.propose(call, command).await?;
        Ok(OmResponse {
            create_bucket_response: Some(Box::new(CreateBucketResponse {})),
            ..done()
        })
    }

    pub(super) async fn set_bucket(
        &self,
        call: &Call,
        request: SetBucketPropertyRequest,
    ) -> Result<OmResponse, Failure> {
        let args = request
            .bucket_args
            .ok_or_else(|| Failure::invalid("the request names no bucket"))?;
        if args.is_version_enabled.unwrap_or_default() {
            return Err(Failure::unsupported("versioned buckets are not supported"));
        }
        if args.bek_info.is_some() {
            return Err(Failure::unsupported("encrypted buckets are not supported"));
        }
        if !args.metadata.is_empty() || !args.tags.is_empty() || args.storage_type.is_some() {
            return Err(Failure::unsupported(
                "metadata, tags and storage type of a bucket cannot be changed",
            ));
        }
        let replication = translate::default_replication(
            args.default_replication_config.as_ref(),
            &self.engine.replication(),
        )?;
        let command = Command::SetBucket(SetBucket {
            name: translate::bucket_name(&args.volume_name, &args.bucket_name),
            owner: args.owner_name,
            quota_bytes: args.quota_in_bytes.map(u64::cast_signed),
            quota_names: args.quota_in_namespace.map(u64::cast_signed),
            replication,
        });
        self.propose(call, command).await?;
        let answer = SetBucketPropertyResponse {
            response: Some(true),
        };
        Ok(OmResponse {
            set_bucket_property_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn info_bucket(
        &self,
        request: &InfoBucketRequest,
    ) -> Result<OmResponse, Failure> {
        let bucket = self
            .read(|rows| read::bucket(rows, &request.volume_name, &request.bucket_name))
            .await?;
        let answer = InfoBucketResponse {
            bucket_info: Some(render::bucket_info(&bucket)),
        };
        Ok(OmResponse {
            info_bucket_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn delete_bucket(
        &self,
        call: &Call,
        request: DeleteBucketRequest,
    ) -> Result<OmResponse, Failure> {
        let command = Command::DeleteBucket(translate::bucket_name(
            &request.volume_name,
            &request.bucket_name,
        ));
        self.propose(call, command).await?;
        Ok(OmResponse {
            delete_bucket_response: Some(Box::new(DeleteBucketResponse {})),
            ..done()
        })
    }

    pub(super) async fn list_buckets(
        &self,
        request: ListBucketsRequest,
    ) -> Result<OmResponse, Failure> {
        // A bucket list of those with snapshots is empty: there are none.
        if request.has_snapshot() {
            let answer = ListBucketsResponse::default();
            return Ok(OmResponse {
                list_buckets_response: Some(Box::new(answer)),
                ..done()
            });
        }
        let max = match request.count.map(usize::try_from) {
            Some(Ok(asked)) if asked > 0 => asked.min(MAX_LISTED),
            _ => MAX_LISTED,
        };
        let volume = request.volume_name;
        let prefix = request.prefix.unwrap_or_default();
        let after = request.start_key.unwrap_or_default();
        let buckets = self
            .read_many(move |rows| Ok(read::buckets(rows, &volume, &prefix, &after, max)??))
            .await?;
        let answer = ListBucketsResponse {
            bucket_info: buckets.iter().map(render::bucket_info).collect(),
        };
        Ok(OmResponse {
            list_buckets_response: Some(Box::new(answer)),
            ..done()
        })
    }
}
