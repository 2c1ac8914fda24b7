//! What the rows say, for those who answer readers. Nothing here changes a row.
//!
//! Every function reads the rows as of one applied position. The outer error is a broken store, the inner one an answer.

use crate::command::{Handle, Holder, KeyPath, Limits};
use crate::ids::Id;
use crate::machine::Position;
use crate::reply::{AppendStatus, Refusal, RefusalKind};
use crate::rows::{Rows, RowsError};
use crate::view::{BlockRange, BucketView, FileView, Node, OpenFileView, VolumeView};

/// A read's answer, or why there is none; outside, a store that failed.
pub type ReadResult<T> = Result<Result<T, Refusal>, RowsError>;

fn unbuilt<T>() -> ReadResult<T> {
    Ok(Err(Refusal::new(RefusalKind::Unsupported, "not built")))
}

#[allow(missing_docs)]
pub fn position(_rows: &dyn Rows) -> Result<Position, RowsError> {
    Ok(Position::default())
}
#[allow(missing_docs)]
pub fn limits(_rows: &dyn Rows) -> Result<Limits, RowsError> {
    Ok(Limits::starting())
}
#[allow(missing_docs)]
pub fn volume(_rows: &dyn Rows, _volume: &str) -> ReadResult<VolumeView> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn volumes(
    _rows: &dyn Rows,
    _owner: Option<&str>,
    _prefix: &str,
    _after: &str,
    _max: usize,
) -> ReadResult<Vec<VolumeView>> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn bucket(_rows: &dyn Rows, _volume: &str, _bucket: &str) -> ReadResult<BucketView> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn buckets(
    _rows: &dyn Rows,
    _volume: &str,
    _prefix: &str,
    _after: &str,
    _max: usize,
) -> ReadResult<Vec<BucketView>> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn status(_rows: &dyn Rows, _path: &KeyPath) -> ReadResult<Node> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn list(
    _rows: &dyn Rows,
    _path: &KeyPath,
    _start: &str,
    _recursive: bool,
    _partial_prefix: bool,
    _max: usize,
) -> ReadResult<Vec<Node>> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn keys(
    _rows: &dyn Rows,
    _volume: &str,
    _bucket: &str,
    _prefix: &str,
    _after: &str,
    _max: usize,
) -> ReadResult<(Vec<Node>, bool)> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn blocks(_rows: &dyn Rows, _file: &FileView, _from_offset: u64, _max: usize) -> ReadResult<BlockRange> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn blocks_of(
    _rows: &dyn Rows,
    _file: Id,
    _generation: u64,
    _from_offset: u64,
    _max: usize,
) -> ReadResult<BlockRange> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn append_status(_rows: &dyn Rows, _path: &KeyPath) -> ReadResult<Option<AppendStatus>> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn session_file(_rows: &dyn Rows, _handle: &Handle) -> ReadResult<FileView> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn open_files(
    _rows: &dyn Rows,
    _bucket: Option<(&str, &str)>,
    _token: &[u8],
    _max: usize,
) -> ReadResult<(Vec<OpenFileView>, Option<Vec<u8>>, u64)> {
    unbuilt()
}
#[allow(missing_docs)]
pub fn holder(_rows: &dyn Rows, _number: u32) -> Result<Option<Holder>, RowsError> {
    Ok(None)
}
#[allow(missing_docs)]
pub fn holders(_rows: &dyn Rows) -> Result<Vec<Holder>, RowsError> {
    Ok(Vec::new())
}
#[allow(missing_docs)]
pub fn any_session(_rows: &dyn Rows) -> Result<bool, RowsError> {
    Ok(false)
}
