//! Typed access to rows: encode, decode, and the few lookups that every rule needs. No rule stands here.

use crate::command::{Holder, Limits};
use crate::ids::Id;
use crate::key::{self, Place};
use crate::machine::Position;
use crate::record::{
    BucketPlace, BucketRow, DirRow, FileRow, OpenRow, PlaceRow, RenewalRow, VolumeRow,
};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::txn::Txn;
use prost::Message;

/// Decodes a row.
pub(crate) fn decode<M: Message + Default>(
    keyspace: Keyspace,
    value: &[u8],
) -> Result<M, RowsError> {
    M::decode(value).map_err(|error| RowsError::Corrupt {
        keyspace,
        detail: error.to_string(),
    })
}

/// Reads and decodes a row.
pub(crate) fn read<M: Message + Default>(
    rows: &dyn Rows,
    keyspace: Keyspace,
    key: &[u8],
) -> Result<Option<M>, RowsError> {
    rows.get(keyspace, key)?
        .map(|value| decode(keyspace, &value))
        .transpose()
}

/// Encodes and writes a row.
pub(crate) fn write<M: Message>(txn: &mut Txn<'_>, keyspace: Keyspace, key: Vec<u8>, row: &M) {
    txn.put(keyspace, key, row.encode_to_vec());
}

/// A contradiction between rows.
pub(crate) fn corrupt(keyspace: Keyspace, detail: impl Into<String>) -> RowsError {
    RowsError::Corrupt {
        keyspace,
        detail: detail.into(),
    }
}

/// The rows whose keys start with `prefix`, from `from` on.
pub(crate) fn below(
    rows: &dyn Rows,
    keyspace: Keyspace,
    prefix: &[u8],
    from: &[u8],
    limit: usize,
) -> Result<Vec<(bytes::Bytes, bytes::Bytes)>, RowsError> {
    rows.range(
        keyspace,
        from.max(prefix),
        key::behind(prefix).as_deref(),
        limit,
    )
}

/// Is there a row whose key starts with `prefix`?
pub(crate) fn any_below(
    rows: &dyn Rows,
    keyspace: Keyspace,
    prefix: &[u8],
) -> Result<bool, RowsError> {
    Ok(!below(rows, keyspace, prefix, prefix, 1)?.is_empty())
}

/// The name in the key of a file or an FSO directory.
pub(crate) fn name_in(keyspace: Keyspace, key: &[u8]) -> Result<String, RowsError> {
    key.get(16..)
        .and_then(|name| std::str::from_utf8(name).ok())
        .map(str::to_owned)
        .ok_or_else(|| corrupt(keyspace, "a key without a name"))
}

pub(crate) fn position(rows: &dyn Rows) -> Result<Position, RowsError> {
    Ok(read(rows, Keyspace::Meta, key::POSITION)?.unwrap_or_default())
}

pub(crate) fn limits(rows: &dyn Rows) -> Result<Limits, RowsError> {
    Ok(read(rows, Keyspace::Meta, key::LIMITS)?.unwrap_or_else(Limits::starting))
}

pub(crate) fn volume(rows: &dyn Rows, volume: &str) -> Result<Option<VolumeRow>, RowsError> {
    read(rows, Keyspace::Volumes, volume.as_bytes())
}

pub(crate) fn bucket(
    rows: &dyn Rows,
    volume: &str,
    bucket: &str,
) -> Result<Option<BucketRow>, RowsError> {
    read(rows, Keyspace::Buckets, &key::bucket(volume, bucket))
}

pub(crate) fn bucket_by_id(rows: &dyn Rows, id: Id) -> Result<Option<BucketRow>, RowsError> {
    let Some(place) = read::<BucketPlace>(rows, Keyspace::BucketPlaces, &key::one(id))? else {
        return Ok(None);
    };
    match bucket(rows, &place.volume, &place.bucket)? {
        Some(row) if row.object_id == id => Ok(Some(row)),
        _ => Err(corrupt(
            Keyspace::BucketPlaces,
            format!("bucket {id} is not where it should stand"),
        )),
    }
}

pub(crate) fn put_bucket(txn: &mut Txn<'_>, row: &BucketRow) {
    write(
        txn,
        Keyspace::Buckets,
        key::bucket(&row.volume, &row.bucket),
        row,
    );
}

pub(crate) fn dir(rows: &dyn Rows, place: &Place) -> Result<Option<DirRow>, RowsError> {
    read(rows, Keyspace::Dirs, &key::place(place))
}

pub(crate) fn dir_place(rows: &dyn Rows, bucket: Id, dir: Id) -> Result<Option<Place>, RowsError> {
    Ok(read::<PlaceRow>(rows, Keyspace::DirParents, &key::two(bucket, dir))?.map(Place::from))
}

/// Writes a directory and where it stands.
pub(crate) fn put_dir(txn: &mut Txn<'_>, place: &Place, row: &DirRow) {
    write(txn, Keyspace::Dirs, key::place(place), row);
    write(
        txn,
        Keyspace::DirParents,
        key::two(place.bucket, row.object_id),
        &PlaceRow::from(place),
    );
}

pub(crate) fn file(rows: &dyn Rows, place: &Place) -> Result<Option<FileRow>, RowsError> {
    read(rows, Keyspace::Files, &key::place(place))
}

/// Writes a file; [`put_file_place`] goes with it when the file is new there.
pub(crate) fn put_file(txn: &mut Txn<'_>, place: &Place, row: &FileRow) {
    write(txn, Keyspace::Files, key::place(place), row);
}

pub(crate) fn file_place(rows: &dyn Rows, file: Id) -> Result<Option<Place>, RowsError> {
    Ok(read::<PlaceRow>(rows, Keyspace::FilePlaces, &key::one(file))?.map(Place::from))
}

pub(crate) fn put_file_place(txn: &mut Txn<'_>, file: Id, place: &Place) {
    write(
        txn,
        Keyspace::FilePlaces,
        key::one(file),
        &PlaceRow::from(place),
    );
}

pub(crate) fn open(rows: &dyn Rows, bucket: Id, session: Id) -> Result<Option<OpenRow>, RowsError> {
    read(rows, Keyspace::Open, &key::two(bucket, session))
}

pub(crate) fn put_open(txn: &mut Txn<'_>, session: Id, row: &OpenRow) {
    write(
        txn,
        Keyspace::Open,
        key::two(row.place.bucket, session),
        row,
    );
}

pub(crate) fn renewal(
    rows: &dyn Rows,
    bucket: Id,
    session: Id,
) -> Result<Option<RenewalRow>, RowsError> {
    read(rows, Keyspace::Renewals, &key::two(bucket, session))
}

/// How many leases run. Counted, because looking for one among rows that come and go passes every one that went.
pub(crate) fn leases(rows: &dyn Rows) -> Result<u64, RowsError> {
    number(rows, key::LEASE_COUNT)
}

pub(crate) fn put_leases(txn: &mut Txn<'_>, leases: u64) {
    txn.put(Keyspace::Meta, key::LEASE_COUNT, key::one(leases));
}

/// How many ordinary writers are open.
pub(crate) fn writers(rows: &dyn Rows) -> Result<u64, RowsError> {
    number(rows, key::WRITER_COUNT)
}

pub(crate) fn put_writers(txn: &mut Txn<'_>, writers: u64) {
    txn.put(Keyspace::Meta, key::WRITER_COUNT, key::one(writers));
}

/// The finalized layout; 0 before the first.
pub(crate) fn layout(rows: &dyn Rows) -> Result<u32, RowsError> {
    u32::try_from(number(rows, key::LAYOUT)?)
        .map_err(|_| corrupt(Keyspace::Meta, "a layout that is no layout"))
}

/// A number in the meta rows; 0 when it was never written.
pub(crate) fn number(rows: &dyn Rows, key: &'static [u8]) -> Result<u64, RowsError> {
    rows.get(Keyspace::Meta, key)?
        .map_or(Some(0), |value| crate::key::number_at(&value, 0))
        .ok_or_else(|| corrupt(Keyspace::Meta, "a number that does not decode"))
}

pub(crate) fn holder(rows: &dyn Rows, number: u32) -> Result<Option<Holder>, RowsError> {
    read(rows, Keyspace::Holders, &key::holder(number))
}

impl From<PlaceRow> for Place {
    fn from(row: PlaceRow) -> Place {
        Place {
            bucket: row.bucket,
            parent: row.parent,
            name: row.name,
        }
    }
}

impl From<&Place> for PlaceRow {
    fn from(place: &Place) -> PlaceRow {
        PlaceRow {
            bucket: place.bucket,
            parent: place.parent,
            name: place.name.clone(),
        }
    }
}
