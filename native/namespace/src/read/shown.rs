//! Rows as readers see them.

use crate::bucket;
use crate::command::KeyPath;
use crate::record::{BucketRow, DirRow, FileRow, VolumeRow};
use crate::resolve::{At, Directory, DirectoryKind};
use crate::rows::{Rows, RowsError};
use crate::table;
use crate::view::{BucketView, DirView, FileView, Node, VolumeView};

pub(super) fn volume(name: &str, row: VolumeRow) -> VolumeView {
    VolumeView {
        volume: name.to_owned(),
        owner: row.owner,
        admin: row.admin,
        object_id: row.object_id,
        update_id: row.update_id,
        created_ms: row.created_ms,
        modified_ms: row.modified_ms,
        quota_bytes: row.quota_bytes,
        quota_names: row.quota_names,
        used_names: row.used_names,
        metadata: row.metadata,
        acls: row.acls,
    }
}

pub(super) fn bucket(row: BucketRow) -> BucketView {
    BucketView {
        layout: bucket::layout(&row),
        volume: row.volume,
        bucket: row.bucket,
        owner: row.owner,
        object_id: row.object_id,
        update_id: row.update_id,
        created_ms: row.created_ms,
        modified_ms: row.modified_ms,
        replication: row.replication,
        storage_type: row.storage_type,
        quota_bytes: row.quota_bytes,
        quota_names: row.quota_names,
        used_bytes: row.used_bytes,
        used_names: row.used_names,
        metadata: row.metadata,
        acls: row.acls,
        tags: row.tags,
    }
}

/// A path in a bucket.
pub(super) fn path(row: &BucketRow, key: &str) -> KeyPath {
    KeyPath {
        volume: row.volume.clone(),
        bucket: row.bucket.clone(),
        key: key.to_owned(),
    }
}

/// What stands at `key`; nothing that is missing comes here.
pub(super) fn node(rows: &dyn Rows, row: &BucketRow, key: &str, at: At) -> Result<Node, RowsError> {
    Ok(match at {
        At::File(place, file) => {
            Node::File(Box::new(self::file(rows, row, key, place.parent, *file)?))
        }
        At::Directory(Directory { place, kind }) => {
            let key = key.trim_end_matches('/');
            Node::Directory(Box::new(match kind {
                DirectoryKind::Row(dir) => directory(row, key, place.parent, *dir),
                DirectoryKind::Key(file) => key_directory(row, key, *file),
                DirectoryKind::Implied => implied_directory(row, key),
            }))
        }
        At::Root | At::Missing(_) | At::BelowFile => Node::BucketRoot,
    })
}

/// A committed file at `key`.
pub(super) fn file(
    rows: &dyn Rows,
    row: &BucketRow,
    key: &str,
    parent: u64,
    file: FileRow,
) -> Result<FileView, RowsError> {
    let prefix_length = match file.append_owner {
        Some(owner) => table::open(rows, row.object_id, owner)?
            .and_then(|open| open.append)
            .map(|append| append.prefix_length),
        None => None,
    };
    Ok(FileView {
        path: path(row, key),
        object_id: file.object_id,
        parent_id: parent,
        generation: file.generation,
        update_id: file.update_id,
        size: file.size,
        block_count: file.block_count,
        replicated_size: file.replicated_size,
        created_ms: file.created_ms,
        modified_ms: file.modified_ms,
        replication: file.replication,
        owner: file.owner,
        metadata: file.metadata,
        acls: file.acls,
        tags: file.tags,
        append_owner: file.append_owner,
        hsync_session: file.hsync_session,
        prefix_length,
    })
}

/// An FSO directory at `key`.
pub(super) fn directory(row: &BucketRow, key: &str, parent: u64, dir: DirRow) -> DirView {
    DirView {
        path: path(row, key),
        object_id: dir.object_id,
        parent_id: parent,
        update_id: dir.update_id,
        created_ms: dir.created_ms,
        modified_ms: dir.modified_ms,
        owner: dir.owner,
        metadata: dir.metadata,
        acls: dir.acls,
    }
}

/// A LEGACY directory that has a key of its own.
pub(super) fn key_directory(row: &BucketRow, key: &str, file: FileRow) -> DirView {
    DirView {
        path: path(row, key),
        object_id: file.object_id,
        parent_id: 0,
        update_id: file.update_id,
        created_ms: file.created_ms,
        modified_ms: file.modified_ms,
        owner: file.owner,
        metadata: file.metadata,
        acls: file.acls,
    }
}

/// A directory that only keys below it imply; its times and owner are the bucket's.
pub(super) fn implied_directory(row: &BucketRow, key: &str) -> DirView {
    DirView {
        path: path(row, key),
        object_id: 0,
        parent_id: 0,
        update_id: 0,
        created_ms: row.created_ms,
        modified_ms: row.created_ms,
        owner: row.owner.clone(),
        metadata: Vec::new(),
        acls: Vec::new(),
    }
}
