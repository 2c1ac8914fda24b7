//! From a key to what stands there, from a place back to its path, and whether a place can be reached from the root.
//!
//! FSO walks by parent identity; LEGACY and OBJECT_STORE look up full keys. A LEGACY directory is a key that ends in a slash, or only
//! implied by the keys below it. Commands resolve with this; what else a read accepts is the read's.

use crate::bucket;
use crate::command::Layout;
use crate::context::{Context, Ruled};
use crate::ids::Id;
use crate::key::{self, Place};
use crate::name;
use crate::quota::Charge;
use crate::record::{BucketRow, DirRow, FileRow};
use crate::rows::{Keyspace, Rows, RowsError};
use crate::table;

/// What stands at a key.
#[derive(Debug, Clone)]
pub(crate) enum At {
    /// The bucket itself.
    Root,
    /// A committed file.
    File(Place, Box<FileRow>),
    /// A directory.
    Directory(Directory),
    /// Nothing.
    Missing(Missing),
    /// Nothing, and a component above is a file.
    BelowFile,
}

/// A directory and how it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// Where it stands; in LEGACY the name ends in a slash.
    pub(crate) place: Place,
    /// Its row.
    pub(crate) kind: DirectoryKind,
}

/// How a directory is kept.
#[derive(Debug, Clone)]
pub(crate) enum DirectoryKind {
    /// FSO: a row of its own.
    Row(Box<DirRow>),
    /// LEGACY: a key that ends in a slash.
    Key(Box<FileRow>),
    /// LEGACY: only keys below it.
    Implied,
}

/// A name at which nothing stands.
#[derive(Debug, Clone)]
pub(crate) struct Missing {
    bucket: Id,
    /// The deepest directory above it that is there (FSO: its id; else 0).
    parent: Id,
    /// Full key of that directory.
    above: String,
    /// The components that are missing, the name itself last.
    rest: Vec<String>,
}

impl Missing {
    /// Is the directory that should hold the name there?
    pub(crate) fn parent_stands(&self) -> bool {
        self.rest.len() == 1
    }

    /// Directories that are missing above the name.
    pub(crate) fn missing_parents(&self) -> u64 {
        u64::try_from(self.rest.len().saturating_sub(1)).unwrap_or(u64::MAX)
    }

    /// Where the name would stand, if its parent is there.
    pub(crate) fn place(&self) -> Option<Place> {
        let [leaf] = self.rest.as_slice() else {
            return None;
        };
        let name = if self.parent == 0 {
            name::join(&self.above, leaf)
        } else {
            leaf.clone()
        };
        Some(Place {
            bucket: self.bucket,
            parent: self.parent,
            name,
        })
    }
}

/// What stands at a normalised key.
pub(crate) fn locate(rows: &dyn Rows, row: &BucketRow, text: &str) -> Result<At, RowsError> {
    if text.is_empty() {
        return Ok(At::Root);
    }
    match bucket::layout(row) {
        Layout::FileSystemOptimized => walk(rows, row.object_id, text),
        Layout::Legacy => full_key(rows, row.object_id, text),
        Layout::ObjectStore => {
            let place = Place {
                bucket: row.object_id,
                parent: 0,
                name: text.to_owned(),
            };
            Ok(match table::file(rows, &place)? {
                Some(row) => At::File(place, Box::new(row)),
                None => At::Missing(Missing {
                    bucket: place.bucket,
                    parent: 0,
                    above: String::new(),
                    rest: vec![place.name],
                }),
            })
        }
    }
}

fn walk(rows: &dyn Rows, bucket: Id, text: &str) -> Result<At, RowsError> {
    let components: Vec<&str> = text.split('/').collect();
    let mut parent = bucket;
    for (depth, component) in components.iter().enumerate() {
        let place = Place {
            bucket,
            parent,
            name: (*component).to_owned(),
        };
        let last = depth + 1 == components.len();
        match table::dir(rows, &place)? {
            Some(row) if last => {
                return Ok(At::Directory(Directory {
                    place,
                    kind: DirectoryKind::Row(Box::new(row)),
                }));
            }
            Some(row) => parent = row.object_id,
            None => {
                return Ok(match table::file(rows, &place)? {
                    Some(row) if last => At::File(place, Box::new(row)),
                    Some(_) => At::BelowFile,
                    None => At::Missing(Missing {
                        bucket,
                        parent,
                        above: components[..depth].join("/"),
                        rest: components[depth..]
                            .iter()
                            .map(|name| (*name).to_owned())
                            .collect(),
                    }),
                });
            }
        }
    }
    Ok(At::Root)
}

fn full_key(rows: &dyn Rows, bucket: Id, text: &str) -> Result<At, RowsError> {
    let place = Place {
        bucket,
        parent: 0,
        name: text.to_owned(),
    };
    if let Some(row) = table::file(rows, &place)? {
        return Ok(At::File(place, Box::new(row)));
    }
    if let Some(directory) = key_directory(rows, bucket, text)? {
        return Ok(At::Directory(directory));
    }
    let mut above = text;
    while let Some((parent, _)) = above.rsplit_once('/') {
        above = parent;
        if table::file(
            rows,
            &Place {
                bucket,
                parent: 0,
                name: above.to_owned(),
            },
        )?
        .is_some()
        {
            return Ok(At::BelowFile);
        }
        if key_directory(rows, bucket, above)?.is_some() {
            let rest = text[above.len() + 1..]
                .split('/')
                .map(str::to_owned)
                .collect();
            return Ok(At::Missing(Missing {
                bucket,
                parent: 0,
                above: above.to_owned(),
                rest,
            }));
        }
    }
    let rest = text.split('/').map(str::to_owned).collect();
    Ok(At::Missing(Missing {
        bucket,
        parent: 0,
        above: String::new(),
        rest,
    }))
}

/// The directory `text` of a bucket without directory rows: its own key, or one that keys below it imply.
pub(crate) fn key_directory(
    rows: &dyn Rows,
    bucket: Id,
    text: &str,
) -> Result<Option<Directory>, RowsError> {
    let place = Place {
        bucket,
        parent: 0,
        name: format!("{text}/"),
    };
    if let Some(row) = table::file(rows, &place)? {
        return Ok(Some(Directory {
            place,
            kind: DirectoryKind::Key(Box::new(row)),
        }));
    }
    let implied = table::any_below(rows, Keyspace::Files, &key::place(&place))?;
    Ok(implied.then_some(Directory {
        place,
        kind: DirectoryKind::Implied,
    }))
}

/// The path of a place in its bucket; nothing if a directory above it is gone. The root's own children have their name as path.
pub(crate) fn path_of(rows: &dyn Rows, place: &Place) -> Result<Option<String>, RowsError> {
    if place.parent == 0 {
        return Ok(Some(place.name.clone()));
    }
    let mut names = vec![place.name.clone()];
    let mut way = WayUp::from(place);
    while let Some(parent) = way.next()? {
        let Some(above) = table::dir_place(rows, place.bucket, parent)? else {
            return Ok(None);
        };
        way.reached(above.parent);
        names.push(above.name);
    }
    names.reverse();
    Ok(Some(names.join("/")))
}

/// Can the place be reached from the root? Its bucket and every directory above it must stand.
pub(crate) fn reachable(rows: &dyn Rows, place: &Place) -> Result<bool, RowsError> {
    if table::bucket_by_id(rows, place.bucket)?.is_none() {
        return Ok(false);
    }
    let mut way = WayUp::from(place);
    while let Some(parent) = way.next()? {
        let Some(above) = table::dir_place(rows, place.bucket, parent)? else {
            return Ok(false);
        };
        way.reached(above.parent);
    }
    Ok(true)
}

/// The way from a place up to its bucket. It may be of any length: a path has a bound, but a deep tree may be renamed below another.
/// Only a directory that stands below itself ends it, found by Brent's rule in the memory of one id.
struct WayUp {
    bucket: Id,
    at: Id,
    seen: Id,
    steps: u64,
    look_again: u64,
}

impl WayUp {
    fn from(place: &Place) -> WayUp {
        WayUp {
            bucket: place.bucket,
            at: place.parent,
            seen: 0,
            steps: 0,
            look_again: 1,
        }
    }

    /// The directory whose parent is asked for next; nothing at the top.
    fn next(&self) -> Result<Option<Id>, RowsError> {
        if self.at == 0 || self.at == self.bucket {
            return Ok(None);
        }
        if self.at == self.seen {
            return Err(table::corrupt(
                Keyspace::DirParents,
                format!("directory {} stands below itself", self.at),
            ));
        }
        Ok(Some(self.at))
    }

    fn reached(&mut self, parent: Id) {
        if self.steps == self.look_again {
            self.seen = self.at;
            self.steps = 0;
            self.look_again = self.look_again.saturating_mul(2);
        }
        self.steps += 1;
        self.at = parent;
    }
}

impl Context<'_, '_> {
    /// Makes the missing directories above a name and says where the name stands then.
    pub(crate) fn make_parents(&mut self, missing: &Missing, owner: &str) -> Ruled<Place> {
        let mut missing = missing.clone();
        while missing.rest.len() > 1 {
            let name = missing.rest.remove(0);
            let above = name::join(&missing.above, &name);
            missing.parent = self.make_directory(&missing, &name, &above, owner)?;
            missing.above = above;
        }
        missing
            .place()
            .ok_or_else(|| table::corrupt(Keyspace::Dirs, "a name without components").into())
    }

    /// Makes one directory; answers the parent id of what stands below it.
    fn make_directory(
        &mut self,
        missing: &Missing,
        name: &str,
        full: &str,
        owner: &str,
    ) -> Ruled<Id> {
        if missing.parent == 0 {
            let place = Place {
                bucket: missing.bucket,
                parent: 0,
                name: format!("{full}/"),
            };
            let row = self.directory_key(owner)?;
            self.add_directory_key(&place, &row)?;
            return Ok(0);
        }
        let place = Place {
            bucket: missing.bucket,
            parent: missing.parent,
            name: name.to_owned(),
        };
        let row = DirRow {
            object_id: self.draw()?,
            update_id: self.command,
            created_ms: self.wall_ms,
            modified_ms: self.wall_ms,
            owner: owner.to_owned(),
            metadata: Vec::new(),
            acls: Vec::new(),
        };
        let id = row.object_id;
        self.charge(
            place.bucket,
            Charge {
                names: 1,
                ..Charge::default()
            },
        )?;
        table::put_dir(self.txn, &place, &row);
        Ok(id)
    }

    /// The row of a LEGACY directory's own key.
    pub(crate) fn directory_key(&mut self, owner: &str) -> Ruled<FileRow> {
        Ok(FileRow {
            object_id: self.draw()?,
            generation: self.ids.base(),
            update_id: self.command,
            created_ms: self.wall_ms,
            modified_ms: self.wall_ms,
            owner: owner.to_owned(),
            ..FileRow::default()
        })
    }

    /// Adds a LEGACY directory's own key.
    pub(crate) fn add_directory_key(&mut self, place: &Place, row: &FileRow) -> Ruled<()> {
        self.charge(
            place.bucket,
            Charge {
                names: 1,
                ..Charge::default()
            },
        )?;
        table::put_file(self.txn, place, row);
        table::put_file_place(self.txn, row.object_id, place);
        Ok(())
    }

    /// Moves a directory's modification time, or the bucket's at the top. Outside FSO directories keep theirs.
    pub(crate) fn touch_parent(&mut self, place: &Place) -> Ruled<()> {
        if place.parent == 0 {
            return Ok(());
        }
        if place.parent == place.bucket {
            if let Some(mut row) = table::bucket_by_id(self.txn, place.bucket)? {
                row.modified_ms = self.wall_ms;
                table::put_bucket(self.txn, &row);
            }
            return Ok(());
        }
        let Some(at) = table::dir_place(self.txn, place.bucket, place.parent)? else {
            return Ok(());
        };
        if let Some(mut row) = table::dir(self.txn, &at)? {
            row.modified_ms = self.wall_ms;
            table::write(self.txn, Keyspace::Dirs, key::place(&at), &row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
