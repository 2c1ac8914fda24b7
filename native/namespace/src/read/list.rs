//! Listings: the children of a directory, and the keys of a bucket.

use super::{ReadResult, behind, not_found, shown, stands, tell, text};
use crate::bucket;
use crate::command::{KeyPath, Layout};
use crate::key;
use crate::name;
use crate::record::{BucketRow, DirRow, FileRow};
use crate::reply::{Refusal, RefusalKind};
use crate::resolve::{At, DirectoryKind};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::table;
use crate::view::Node;
use bytes::Bytes;

/// Rows that a listing of full keys reads at once at first, and again behind each directory: of a directory it needs only the first.
const FEW_ROWS: usize = 16;

/// At most `max` children of a directory from the full key `start` on (inclusive; empty for all); a file lists itself.
///
/// FSO: files and directories merged by name; recursion is the caller's. LEGACY and OBJECT_STORE: in the order of the keys; with
/// `recursive` all keys below. With `partial_prefix` the last component of a path that is not there is the beginning of its children's
/// names. `FileNotFound` when nothing stands at the path.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn list(
    rows: &dyn Rows,
    path: &KeyPath,
    start: &str,
    recursive: bool,
    partial_prefix: bool,
    max: usize,
) -> ReadResult<Vec<Node>> {
    let row = tell!(bucket::get(rows, &path.volume, &path.bucket)?);
    let layout = bucket::layout(&row);
    let text = tell!(text(&row, path));
    let start = match name::key(layout, start) {
        Ok(start) => start,
        Err(_) => return Ok(Ok(Vec::new())),
    };
    let (at, text, prefix) = match stands(rows, &row, &text)? {
        Some(at) => (at, text.as_str(), ""),
        None if partial_prefix => {
            let (above, prefix) = text.rsplit_once('/').unwrap_or(("", &text));
            match stands(rows, &row, above)? {
                Some(at) => (at, above, prefix),
                None => return Ok(Err(not_found(path))),
            }
        }
        None => return Ok(Err(not_found(path))),
    };
    if let At::File(..) = at {
        if !prefix.is_empty() {
            return Ok(Err(not_found(path)));
        }
        return Ok(Ok(vec![shown::node(rows, &row, text, at)?]));
    }
    if layout != Layout::FileSystemOptimized {
        return Ok(Ok(keys_below(
            rows,
            &row,
            text.trim_end_matches('/'),
            prefix,
            &start.text,
            recursive,
            max,
        )?));
    }
    if recursive {
        let why = format!("{path}: a recursive listing of an FSO bucket is its caller's work");
        return Ok(Err(Refusal::new(RefusalKind::Unsupported, why)));
    }
    let parent = match &at {
        At::Directory(directory) => match &directory.kind {
            DirectoryKind::Row(row) => row.object_id,
            DirectoryKind::Key(_) | DirectoryKind::Implied => 0,
        },
        _ => row.object_id,
    };
    // A start that is no child of the directory lists nothing, as in Ozone.
    let from = if start.text.is_empty() || start.text == text {
        ""
    } else {
        let inside = if text.is_empty() {
            Some(start.text.as_str())
        } else {
            start
                .text
                .strip_prefix(text)
                .and_then(|rest| rest.strip_prefix('/'))
        };
        match inside {
            Some(child) if !child.contains('/') => child,
            _ => return Ok(Ok(Vec::new())),
        }
    };
    Ok(Ok(children(rows, &row, text, parent, prefix, from, max)?))
}

/// The children of an FSO directory, merged by name.
fn children(
    rows: &dyn Rows,
    row: &BucketRow,
    text: &str,
    parent: u64,
    prefix: &str,
    from: &str,
    max: usize,
) -> Result<Vec<Node>, RowsError> {
    let prefix = key::named(row.object_id, parent, prefix);
    let from = key::named(row.object_id, parent, from);
    let mut dirs = table::below(rows, Keyspace::Dirs, &prefix, &from, max)?
        .into_iter()
        .peekable();
    let mut files = table::below(rows, Keyspace::Files, &prefix, &from, max)?
        .into_iter()
        .peekable();
    let mut found = Vec::new();
    while found.len() < max {
        let directory = match (dirs.peek(), files.peek()) {
            (None, None) => break,
            (Some((dir, _)), Some((file, _))) => dir < file,
            (dir, None) => dir.is_some(),
            (None, Some(_)) => false,
        };
        let Some((key, value)) = (if directory { dirs.next() } else { files.next() }) else {
            break;
        };
        found.push(if directory {
            let full = name::join(text, &table::name_in(Keyspace::Dirs, &key)?);
            let dir: DirRow = table::decode(Keyspace::Dirs, &value)?;
            Node::Directory(Box::new(shown::directory(row, &full, parent, dir)))
        } else {
            let full = name::join(text, &table::name_in(Keyspace::Files, &key)?);
            let file: FileRow = table::decode(Keyspace::Files, &value)?;
            Node::File(Box::new(shown::file(rows, row, &full, parent, file)?))
        });
    }
    Ok(found)
}

/// What full keys show below a directory. A directory stands at the place of its own key, whether that is there or implied.
fn keys_below(
    rows: &dyn Rows,
    row: &BucketRow,
    directory: &str,
    prefix: &str,
    start: &str,
    recursive: bool,
    max: usize,
) -> Result<Vec<Node>, RowsError> {
    let inside = if directory.is_empty() {
        String::new()
    } else {
        format!("{directory}/")
    };
    let prefix = key::named(row.object_id, 0, &format!("{inside}{prefix}"));
    let mut from = key::named(row.object_id, 0, start);
    if !start.is_empty() && rows.get(Keyspace::Files, &from)?.is_none() {
        // The start names a directory: it stands where its own key would.
        let as_directory = key::named(
            row.object_id,
            0,
            &format!("{}/", start.trim_end_matches('/')),
        );
        if table::any_below(rows, Keyspace::Files, &as_directory)? {
            from = as_directory;
        }
    }
    let mut found = Vec::new();
    let most = max.max(FEW_ROWS);
    let mut at_once = FEW_ROWS;
    while found.len() < max {
        let page = table::below(rows, Keyspace::Files, &prefix, &from, at_once)?;
        let Some((last, _)) = page.last() else { break };
        from = behind(last, false);
        at_once = at_once.saturating_mul(2).min(most);
        for (key, value) in page {
            let full = table::name_in(Keyspace::Files, &key)?;
            let Some(rest) = full.strip_prefix(&inside) else {
                continue;
            };
            if rest.is_empty() {
                continue;
            }
            if found.len() == max {
                break;
            }
            match rest.find('/') {
                Some(slash) if !recursive && slash + 1 < rest.len() => {
                    let name = &full[..inside.len() + slash];
                    found.push(Node::Directory(Box::new(shown::implied_directory(
                        row, name,
                    ))));
                    from = past_directory(row, name);
                    at_once = FEW_ROWS;
                    break;
                }
                Some(_) if rest.ends_with('/') => {
                    let name = &full[..full.len() - 1];
                    let file: FileRow = table::decode(Keyspace::Files, &value)?;
                    found.push(Node::Directory(Box::new(shown::key_directory(
                        row, name, file,
                    ))));
                    if !recursive {
                        from = past_directory(row, name);
                        at_once = FEW_ROWS;
                        break;
                    }
                }
                _ => found.push(key_node(rows, row, &full, &value)?),
            }
        }
    }
    Ok(found)
}

/// The first key behind everything below a directory.
fn past_directory(row: &BucketRow, name: &str) -> Vec<u8> {
    let prefix = key::named(row.object_id, 0, &format!("{name}/"));
    key::behind(&prefix).unwrap_or(prefix)
}

/// A key as it is: a LEGACY key that ends in a slash is a directory, and keeps its slash in the path.
fn key_node(
    rows: &dyn Rows,
    row: &BucketRow,
    full: &str,
    value: &Bytes,
) -> Result<Node, RowsError> {
    let file: FileRow = table::decode(Keyspace::Files, value)?;
    if full.ends_with('/') && bucket::layout(row) == Layout::Legacy {
        return Ok(Node::Directory(Box::new(shown::key_directory(
            row, full, file,
        ))));
    }
    Ok(Node::File(Box::new(shown::file(rows, row, full, 0, file)?)))
}

/// At most `max` keys behind `after` that start with `prefix`, in the order of their bytes, and whether there are more (Ozone's ListKeys).
/// A LEGACY directory's own key keeps its slash in the path. An FSO bucket has no such keys: nothing is answered for it, as in Ozone.
///
/// # Errors
/// [`RowsError`] when the store fails.
pub fn keys(
    rows: &dyn Rows,
    volume: &str,
    bucket: &str,
    prefix: &str,
    after: &str,
    max: usize,
) -> ReadResult<(Vec<Node>, bool)> {
    let row = tell!(bucket::get(rows, volume, bucket)?);
    if bucket::layout(&row) == Layout::FileSystemOptimized {
        return Ok(Ok((Vec::new(), false)));
    }
    let prefix = key::named(row.object_id, 0, prefix);
    let from = behind(&key::named(row.object_id, 0, after), after.is_empty());
    let page = table::below(rows, Keyspace::Files, &prefix, &from, max.saturating_add(1))?;
    let truncated = page.len() > max;
    let mut found = Vec::with_capacity(page.len());
    for (key, value) in page.into_iter().take(max) {
        found.push(key_node(
            rows,
            &row,
            &table::name_in(Keyspace::Files, &key)?,
            &value,
        )?);
    }
    Ok(Ok((found, truncated)))
}
