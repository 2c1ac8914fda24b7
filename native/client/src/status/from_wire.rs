//! Statuses and sessions as the wire tells them.

use std::time::Duration;

use append_wire::hdds::{ReplicationFactor, ReplicationType};
use append_wire::om::{
    self, AppendPhase, BasicKeyInfo, KeyInfo, OzoneFileStatusProto, OzoneFileStatusProtoLight,
};

use super::{AppendStatus, FileStatus, OpenFile, Phase, SessionHandle, WriterKind};
use crate::path::FsPath;

/// Metadata by which Ozone marks a file whose writer has published by hsync and is still there.
pub(crate) const HSYNC_CLIENT_ID: &str = "hsyncClientId";

pub(crate) fn handle(wire: &om::AppendHandle) -> SessionHandle {
    SessionHandle {
        bucket: wire.bucket_object_id(),
        session: wire.session_id(),
        file: wire.file_object_id(),
    }
}

pub(crate) fn to_handle(handle: SessionHandle) -> om::AppendHandle {
    om::AppendHandle {
        bucket_object_id: Some(handle.bucket),
        session_id: Some(handle.session),
        file_object_id: Some(handle.file),
    }
}

/// None if nobody writes.
pub(crate) fn append_status(wire: &om::AppendStatus) -> Option<AppendStatus> {
    let kind = match wire.writer_kind() {
        om::WriterKind::None => return None,
        om::WriterKind::Ordinary => WriterKind::Ordinary,
        om::WriterKind::Hsync => WriterKind::Hsync,
        om::WriterKind::Append => WriterKind::Append,
    };
    let phase = wire
        .phase
        .and_then(|phase| AppendPhase::try_from(phase).ok());
    Some(AppendStatus {
        kind,
        handle: wire.handle.as_ref().map(handle),
        phase: phase.map(|phase| match phase {
            AppendPhase::Active => Phase::Active,
            AppendPhase::Recovering => Phase::Recovering,
            AppendPhase::Invalidated => Phase::Invalidated,
        }),
        last_renewed_ms: wire.last_renewed_at(),
        renewals: wire.renewals(),
        remaining: Duration::from_millis(wire.remaining_ms()),
        prefix_length: wire.prefix_length(),
        published_length: wire.published_length(),
        suffix_blocks: wire.suffix_block_count(),
        owner: wire.owner().to_owned(),
        blocked_reason: wire.blocked_reason().to_owned(),
    })
}

/// Copies that a replication keeps: for erasure coding one, as Hadoop shows it.
pub(crate) fn copies(kind: ReplicationType, factor: ReplicationFactor) -> u16 {
    match (kind, factor) {
        (ReplicationType::Ec, _) => 1,
        (_, ReplicationFactor::Three) => 3,
        _ => 1,
    }
}

/// A directory without attributes: the root, a bucket's root, or one that only its keys imply.
pub(crate) fn bare_directory(path: FsPath) -> FileStatus {
    FileStatus {
        path,
        length: 0,
        directory: true,
        replication: 0,
        block_size: 0,
        modified_ms: 0,
        accessed_ms: 0,
        owner: String::new(),
        encrypted: false,
        erasure_coded: false,
        object_id: 0,
        writer: None,
    }
}

pub(crate) fn file_status(wire: &OzoneFileStatusProto, path: FsPath) -> FileStatus {
    let directory = wire.is_directory();
    let mut status = match &wire.key_info {
        Some(info) => key_status(info, path, directory, wire.block_size()),
        None => bare_directory(path),
    };
    status.writer = wire.append_status.as_ref().and_then(append_status);
    status
}

fn key_status(info: &KeyInfo, path: FsPath, directory: bool, block_size: u64) -> FileStatus {
    FileStatus {
        length: if directory { 0 } else { info.data_size },
        directory,
        replication: if directory {
            0
        } else {
            copies(info.r#type(), info.factor())
        },
        block_size: if directory { 0 } else { block_size },
        modified_ms: info.modification_time,
        accessed_ms: info.modification_time,
        owner: info.owner_name().to_owned(),
        encrypted: info.file_encryption_info.is_some(),
        erasure_coded: info.ec_replication_config.is_some(),
        object_id: info.object_id(),
        ..bare_directory(path)
    }
}

pub(crate) fn light_status(wire: &OzoneFileStatusProtoLight, path: FsPath) -> FileStatus {
    let directory = wire.is_directory();
    let empty = BasicKeyInfo::default();
    let info = wire.basic_key_info.as_ref().unwrap_or(&empty);
    FileStatus {
        length: if directory { 0 } else { info.data_size() },
        directory,
        replication: if directory {
            0
        } else {
            copies(info.r#type(), info.factor())
        },
        block_size: if directory { 0 } else { wire.block_size() },
        modified_ms: info.modification_time(),
        accessed_ms: info.modification_time(),
        owner: info.owner_name().to_owned(),
        encrypted: info.is_encrypted(),
        erasure_coded: info.ec_replication_config.is_some(),
        ..bare_directory(path)
    }
}

pub(crate) fn open_file(
    session: u64,
    info: &KeyInfo,
    status: Option<&om::AppendStatus>,
) -> OpenFile {
    OpenFile {
        path: FsPath::in_bucket(&info.volume_name, &info.bucket_name, &info.key_name),
        session,
        opened_ms: info.creation_time,
        replication: copies(info.r#type(), info.factor()),
        hsynced: info.metadata.iter().any(|pair| pair.key == HSYNC_CLIENT_ID),
        status: status.and_then(append_status),
    }
}
