//! From Ozone's messages to the rules' own structures, field by field. Checks form, never a rule.

use super::failure::Failure;
use append_namespace::RefusalKind;
use append_namespace::command::{
    Acl, BucketName, Handle, KeyPath, Layout, Pair, Replication, SubmittedBlock,
};
use append_wire::hdds::{DefaultReplicationConfig, KeyValue, ReplicationType};
use append_wire::om::{AppendHandle, BucketLayoutProto, KeyArgs, KeyLocation, OzoneAclInfo};

/// The first component of paths that show snapshots.
const SNAPSHOT_ROOT: &str = ".snapshot";

/// Ozone's "not set" of a quota.
const QUOTA_NEVER_SET: i64 = -2;
/// No limit.
const QUOTA_NONE: i64 = -1;

pub(super) fn key_path(args: &KeyArgs) -> KeyPath {
    KeyPath {
        volume: args.volume_name.clone(),
        bucket: args.bucket_name.clone(),
        key: args.key_name.clone(),
    }
}

pub(super) fn bucket_name(volume: &str, bucket: &str) -> BucketName {
    BucketName {
        volume: volume.to_owned(),
        bucket: bucket.to_owned(),
    }
}

/// Whether a key lies in a snapshot's view.
pub(super) fn in_snapshot(key: &str) -> bool {
    key.trim_start_matches('/').split('/').next() == Some(SNAPSHOT_ROOT)
}

/// The path of a command that changes something. Snapshots are read only: a path in one is refused with Ozone's status for it,
/// INVALID_KEY_NAME, and the code UNSUPPORTED, by which our clients know a read-only file system.
pub(super) fn writable(args: &KeyArgs) -> Result<KeyPath, Failure> {
    let path = key_path(args);
    read_only_if_snapshot(&path)?;
    Ok(path)
}

pub(super) fn read_only_if_snapshot(path: &KeyPath) -> Result<(), Failure> {
    if in_snapshot(&path.key) {
        return Err(Failure::Other {
            status: append_wire::om::Status::InvalidKeyName,
            code: Some(append_wire::om::AppendCode::Unsupported),
            detail: format!("{path} is in a snapshot, which is read only"),
        });
    }
    Ok(())
}

/// The path of a read. Snapshots are not built: nothing is found in one.
pub(super) fn readable(args: &KeyArgs, missing: RefusalKind) -> Result<KeyPath, Failure> {
    let path = key_path(args);
    if in_snapshot(&path.key) {
        return Err(Failure::refused(
            missing,
            format!("{path}: no such snapshot"),
        ));
    }
    Ok(path)
}

pub(super) fn pairs(values: Vec<KeyValue>) -> Vec<Pair> {
    values
        .into_iter()
        .map(|pair| Pair {
            key: pair.key,
            value: pair.value.unwrap_or_default(),
        })
        .collect()
}

pub(super) fn acls(values: Vec<OzoneAclInfo>) -> Vec<Acl> {
    values
        .into_iter()
        .map(|acl| Acl {
            kind: acl.r#type,
            name: acl.name,
            rights: acl.rights,
            scope: acl.acl_scope,
        })
        .collect()
}

pub(super) fn handle(handle: &AppendHandle) -> Result<Handle, Failure> {
    match (
        handle.bucket_object_id,
        handle.session_id,
        handle.file_object_id,
    ) {
        (Some(bucket), Some(session), Some(file)) => Ok(Handle {
            bucket,
            session,
            file,
        }),
        _ => Err(Failure::invalid(
            "an append handle needs bucket, session and file",
        )),
    }
}

/// The owner that a request names, or the caller.
pub(super) fn owner(named: Option<String>, caller: &str) -> String {
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| caller.to_owned())
}

/// A quota in bytes, which Ozone carries as an unsigned number with a signed meaning.
pub(super) fn quota_bytes(value: Option<u64>) -> i64 {
    quota(value.map(u64::cast_signed))
}

/// A quota, -1 for none.
pub(super) fn quota(value: Option<i64>) -> i64 {
    match value {
        None | Some(QUOTA_NEVER_SET) => QUOTA_NONE,
        Some(value) => value,
    }
}

/// What a writer asks of replication: nothing, or a replicated kind, for which `kept` is what the engine does. Erasure coding is not
/// built.
pub(super) fn replication(
    kind: Option<i32>,
    kept: &Replication,
) -> Result<Option<Replication>, Failure> {
    match kind.map(ReplicationType::try_from) {
        None | Some(Ok(ReplicationType::None)) => Ok(None),
        Some(Ok(ReplicationType::Ratis | ReplicationType::StandAlone)) => Ok(Some(kept.clone())),
        Some(Ok(ReplicationType::Ec)) => {
            Err(Failure::unsupported("erasure coding is not supported"))
        }
        Some(Ok(ReplicationType::Chained) | Err(_)) => {
            Err(Failure::invalid("unknown replication type"))
        }
    }
}

pub(super) fn default_replication(
    config: Option<&DefaultReplicationConfig>,
    kept: &Replication,
) -> Result<Option<Replication>, Failure> {
    replication(config.map(|config| config.r#type), kept)
}

/// The layout that a bucket is asked to have; Ozone's default when none is named.
pub(super) fn layout(value: Option<i32>) -> Result<Layout, Failure> {
    match value.map(BucketLayoutProto::try_from) {
        None | Some(Ok(BucketLayoutProto::FileSystemOptimized)) => Ok(Layout::FileSystemOptimized),
        Some(Ok(BucketLayoutProto::Legacy)) => Ok(Layout::Legacy),
        Some(Ok(BucketLayoutProto::ObjectStore)) => Ok(Layout::ObjectStore),
        Some(Err(_)) => Err(Failure::invalid("unknown bucket layout")),
    }
}

pub(super) fn submitted(location: &KeyLocation) -> Result<SubmittedBlock, Failure> {
    let id = &location.block_id.container_block_id;
    let positive = |value: i64| {
        u64::try_from(value).map_err(|_| Failure::invalid("a block id is not negative here"))
    };
    Ok(SubmittedBlock {
        container: positive(id.container_id)?,
        local: positive(id.local_id)?,
        bcsid: location.block_id.block_commit_sequence_id(),
        start_in_block: location.offset,
        length: location.length,
    })
}

/// Refuses what a key's arguments may ask and is not built.
pub(super) fn refuse_unbuilt(args: &KeyArgs) -> Result<(), Failure> {
    if args.is_multipart_key() || args.multipart_upload_id.is_some() {
        return Err(Failure::unsupported("multipart uploads are not supported"));
    }
    if args.file_encryption_info.is_some() {
        return Err(Failure::unsupported("encryption is not supported"));
    }
    if args.expected_e_tag.is_some() {
        return Err(Failure::unsupported(
            "conditions on ETags are not supported",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Replication = Replication { kind: 2, factor: 1 };

    #[test]
    fn only_the_first_component_makes_a_snapshot_path() {
        for key in [
            ".snapshot",
            ".snapshot/s1",
            ".snapshot/s1/a/b",
            "/.snapshot/s1",
        ] {
            assert!(in_snapshot(key), "{key}");
        }
        for key in ["", "a/.snapshot/b", ".snapshots", ".snapshotx/a", "a"] {
            assert!(!in_snapshot(key), "{key}");
        }
    }

    #[test]
    fn a_replicated_wish_becomes_what_the_engine_keeps() {
        assert_eq!(replication(None, &KEPT).unwrap(), None);
        assert_eq!(replication(Some(-1), &KEPT).unwrap(), None);
        assert_eq!(replication(Some(1), &KEPT).unwrap(), Some(KEPT));
        assert_eq!(replication(Some(2), &KEPT).unwrap(), Some(KEPT));
        assert!(replication(Some(3), &KEPT).is_err());
        assert!(replication(Some(4), &KEPT).is_err());
        assert!(replication(Some(77), &KEPT).is_err());
    }

    #[test]
    fn quotas_that_were_never_set_are_no_limit() {
        assert_eq!(quota(None), -1);
        assert_eq!(quota(Some(-2)), -1);
        assert_eq!(quota(Some(5)), 5);
        assert_eq!(quota_bytes(Some(u64::MAX)), -1);
        assert_eq!(quota_bytes(Some(1 << 40)), 1 << 40);
    }

    #[test]
    fn a_handle_needs_all_its_parts() {
        let whole = AppendHandle {
            bucket_object_id: Some(1),
            session_id: Some(2),
            file_object_id: Some(3),
        };
        assert_eq!(
            handle(&whole).unwrap(),
            Handle {
                bucket: 1,
                session: 2,
                file: 3
            }
        );
        for part in [
            AppendHandle {
                bucket_object_id: None,
                ..whole
            },
            AppendHandle {
                session_id: None,
                ..whole
            },
            AppendHandle {
                file_object_id: None,
                ..whole
            },
        ] {
            assert!(handle(&part).is_err());
        }
    }
}
