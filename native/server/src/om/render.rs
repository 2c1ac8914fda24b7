//! From what the rules show to Ozone's messages, field by field.

use append_namespace::command::{Acl, Handle, Holder, KeyPath, Pair};
use append_namespace::reply::AppendStatus as Writer;
use append_namespace::view::{BucketView, DirView, FileView, OpenFileView, VolumeView};
use append_wire::hdds::{
    BlockId, ContainerBlockId, DatanodeDetailsProto, DatanodeIdProto, DefaultReplicationConfig,
    KeyValue, NodeOperationalState, Pipeline, PipelineId, PipelineState, Port, ReplicationFactor,
    ReplicationType, Uuid,
};
use append_wire::om::{
    AppendHandle, AppendStatus, BasicKeyInfo, BucketInfo, KeyInfo, KeyLocation, KeyLocationList,
    OzoneAclInfo, VolumeInfo,
};

/// The metadata key by which Ozone's readers look for the live tail of a key.
const HSYNC_CLIENT_ID: &str = "hsyncClientId";
/// The name of the port of a datanode's gRPC service.
const STANDALONE: &str = "STANDALONE";
/// The datanode's protocol version in Ozone's counting: PutBlock within WriteChunk, and streaming ReadBlock.
const DATANODE_VERSION: i32 = 3;

/// What a file or a directory is called where it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// A directory without a slash at its end: status and listing.
    Path,
    /// A directory with it: listings of keys.
    Key,
}

pub(super) fn key_values(pairs: &[Pair]) -> Vec<KeyValue> {
    pairs
        .iter()
        .map(|pair| KeyValue {
            key: pair.key.clone(),
            value: Some(pair.value.clone()),
        })
        .collect()
}

pub(super) fn acl_infos(acls: &[Acl]) -> Vec<OzoneAclInfo> {
    acls.iter()
        .map(|acl| OzoneAclInfo {
            r#type: acl.kind,
            name: acl.name.clone(),
            rights: acl.rights.clone(),
            acl_scope: acl.scope,
        })
        .collect()
}

pub(super) fn volume_info(volume: &VolumeView) -> VolumeInfo {
    VolumeInfo {
        admin_name: volume.admin.clone(),
        owner_name: volume.owner.clone(),
        volume: volume.volume.clone(),
        quota_in_bytes: Some(volume.quota_bytes.cast_unsigned()),
        metadata: key_values(&volume.metadata),
        volume_acls: acl_infos(&volume.acls),
        creation_time: Some(volume.created_ms),
        object_id: Some(volume.object_id),
        update_id: Some(volume.update_id),
        modification_time: Some(volume.modified_ms),
        quota_in_namespace: Some(volume.quota_names),
        used_namespace: Some(volume.used_names),
        ref_count: Some(0),
    }
}

pub(super) fn bucket_info(bucket: &BucketView) -> BucketInfo {
    BucketInfo {
        volume_name: bucket.volume.clone(),
        bucket_name: bucket.bucket.clone(),
        acls: acl_infos(&bucket.acls),
        is_version_enabled: false,
        storage_type: bucket.storage_type,
        creation_time: Some(bucket.created_ms),
        metadata: key_values(&bucket.metadata),
        object_id: Some(bucket.object_id),
        update_id: Some(bucket.update_id),
        modification_time: Some(bucket.modified_ms),
        used_bytes: Some(bucket.used_bytes),
        quota_in_bytes: Some(bucket.quota_bytes),
        quota_in_namespace: Some(bucket.quota_names),
        used_namespace: Some(bucket.used_names),
        bucket_layout: Some(bucket.layout as i32),
        owner: Some(bucket.owner.clone()),
        default_replication_config: Some(DefaultReplicationConfig {
            r#type: bucket.replication.kind,
            factor: Some(bucket.replication.factor),
            ec_replication_config: None,
        }),
        tags: key_values(&bucket.tags),
        ..BucketInfo::default()
    }
}

/// A file with the blocks that its reader is to have.
pub(super) fn file_info(file: &FileView, blocks: Option<Vec<KeyLocation>>) -> KeyInfo {
    let mut metadata = key_values(&file.metadata);
    if let Some(session) = file.hsync_session {
        metadata.push(KeyValue {
            key: HSYNC_CLIENT_ID.to_owned(),
            value: Some(session.to_string()),
        });
    }
    KeyInfo {
        data_size: file.size,
        r#type: file.replication.kind,
        factor: Some(file.replication.factor),
        key_location_list: blocks.into_iter().map(location_list).collect(),
        creation_time: file.created_ms,
        modification_time: file.modified_ms,
        latest_version: Some(0),
        metadata,
        acls: acl_infos(&file.acls),
        object_id: Some(file.object_id),
        update_id: Some(file.update_id),
        parent_id: Some(file.parent_id),
        is_file: Some(true),
        owner_name: Some(file.owner.clone()),
        tags: key_values(&file.tags),
        append_owner_session_id: file.append_owner,
        ..named(&file.path)
    }
}

/// A directory, with the replication that Ozone gives all of them: it means nothing, and its clients want one.
pub(super) fn directory_info(directory: &DirView, naming: Naming) -> KeyInfo {
    KeyInfo {
        key_name: directory_name(&directory.path, naming),
        r#type: ReplicationType::Ratis.into(),
        factor: Some(ReplicationFactor::One.into()),
        creation_time: directory.created_ms,
        modification_time: directory.modified_ms,
        latest_version: Some(0),
        metadata: key_values(&directory.metadata),
        acls: acl_infos(&directory.acls),
        object_id: Some(directory.object_id),
        update_id: Some(directory.update_id),
        parent_id: Some(directory.parent_id),
        is_file: Some(false),
        owner_name: Some(directory.owner.clone()),
        ..named(&directory.path)
    }
}

pub(super) fn basic_file_info(file: &FileView) -> BasicKeyInfo {
    BasicKeyInfo {
        key_name: Some(file.path.key.clone()),
        data_size: Some(file.size),
        creation_time: Some(file.created_ms),
        modification_time: Some(file.modified_ms),
        r#type: Some(file.replication.kind),
        factor: Some(file.replication.factor),
        owner_name: Some(file.owner.clone()),
        is_encrypted: Some(false),
        is_file: Some(true),
        ..BasicKeyInfo::default()
    }
}

pub(super) fn basic_directory_info(directory: &DirView, naming: Naming) -> BasicKeyInfo {
    BasicKeyInfo {
        key_name: Some(directory_name(&directory.path, naming)),
        data_size: Some(0),
        creation_time: Some(directory.created_ms),
        modification_time: Some(directory.modified_ms),
        r#type: Some(ReplicationType::Ratis.into()),
        factor: Some(ReplicationFactor::One.into()),
        owner_name: Some(directory.owner.clone()),
        is_encrypted: Some(false),
        is_file: Some(false),
        ..BasicKeyInfo::default()
    }
}

fn directory_name(path: &KeyPath, naming: Naming) -> String {
    let name = path.key.trim_end_matches('/');
    match naming {
        Naming::Path => name.to_owned(),
        Naming::Key => format!("{name}/"),
    }
}

/// A key of an open session, for operators.
pub(super) fn open_file_info(open: &OpenFileView) -> KeyInfo {
    KeyInfo {
        data_size: open.status.published_length,
        r#type: open.replication.kind,
        factor: Some(open.replication.factor),
        creation_time: open.opened_ms,
        modification_time: open.opened_ms,
        latest_version: Some(0),
        object_id: Some(open.object_id),
        is_file: Some(true),
        owner_name: Some(open.status.owner.clone()),
        ..named(&open.path)
    }
}

/// The names of a key, everything else unset.
pub(super) fn named(path: &KeyPath) -> KeyInfo {
    KeyInfo {
        volume_name: path.volume.clone(),
        bucket_name: path.bucket.clone(),
        key_name: path.key.clone(),
        ..KeyInfo::default()
    }
}

pub(super) fn location_list(locations: Vec<KeyLocation>) -> KeyLocationList {
    KeyLocationList {
        version: Some(0),
        key_locations: locations,
        file_encryption_info: None,
        is_multipart_key: Some(false),
    }
}

/// A block's place in a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Location {
    pub(super) container: u64,
    pub(super) local: u64,
    pub(super) bcsid: u64,
    pub(super) start_in_block: u64,
    pub(super) length: u64,
}

pub(super) fn location(block: Location, pipeline: Option<Pipeline>) -> KeyLocation {
    KeyLocation {
        block_id: BlockId {
            container_block_id: ContainerBlockId {
                container_id: block.container.cast_signed(),
                local_id: block.local.cast_signed(),
            },
            block_commit_sequence_id: Some(block.bcsid),
        },
        offset: block.start_in_block,
        length: block.length,
        create_version: Some(0),
        token: None,
        pipeline,
        part_number: None,
    }
}

/// The pipeline of one holder: open, standing alone, its own id the pipeline's too.
pub(super) fn pipeline(holder: &Holder) -> Pipeline {
    let uuid = uuid::Uuid::parse_str(&holder.uuid).unwrap_or_default();
    let (most, least) = uuid.as_u64_pair();
    let uuid128 = Uuid {
        most_sig_bits: most.cast_signed(),
        least_sig_bits: least.cast_signed(),
    };
    let id = DatanodeIdProto { uuid: uuid128 };
    Pipeline {
        members: vec![DatanodeDetailsProto {
            uuid: Some(holder.uuid.clone()),
            ip_address: holder.host.clone(),
            host_name: holder.host.clone(),
            ports: vec![Port {
                name: STANDALONE.to_owned(),
                value: holder.port,
            }],
            persisted_op_state: Some(NodeOperationalState::InService.into()),
            current_version: Some(DATANODE_VERSION),
            uuid128: Some(uuid128),
            id: Some(id),
            framed: Some(true),
            ..DatanodeDetailsProto::default()
        }],
        state: Some(PipelineState::PipelineOpen.into()),
        r#type: Some(ReplicationType::StandAlone.into()),
        factor: Some(ReplicationFactor::One.into()),
        id: PipelineId {
            id: Some(holder.uuid.clone()),
            uuid128: Some(uuid128),
        },
        leader_id: Some(holder.uuid.clone()),
        leader_id128: Some(uuid128),
        leader_datanode_id: Some(id),
        ..Pipeline::default()
    }
}

pub(super) fn append_handle(handle: &Handle) -> AppendHandle {
    AppendHandle {
        bucket_object_id: Some(handle.bucket),
        session_id: Some(handle.session),
        file_object_id: Some(handle.file),
    }
}

pub(super) fn append_status(writer: &Writer) -> AppendStatus {
    AppendStatus {
        writer_kind: Some(writer.writer),
        handle: writer.handle.as_ref().map(append_handle),
        phase: writer.phase,
        last_renewed_at: Some(writer.last_renewed_ms),
        remaining_ms: Some(writer.remaining_ms),
        prefix_length: Some(writer.prefix_length),
        published_length: Some(writer.published_length),
        suffix_block_count: Some(saturated(writer.suffix_blocks)),
        owner: Some(writer.owner.clone()),
        blocked_reason: None,
        renewals: Some(writer.renewals),
    }
}

/// A count that a 32-bit field holds; more reads as the most.
pub(super) fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
