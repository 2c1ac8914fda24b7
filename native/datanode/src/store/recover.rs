//! Opening a store: finds its container files, tells torn tails from rot, and rebuilds the index.
//!
//! A bad place is a *torn tail* when it lies in the last file and above every durable mark found in it:
//! nothing behind it was ever acknowledged, so the file is cut there. So are zeros that were written ahead. Everywhere else it is *rot*: it is
//! reported and stepped over, later records stay, and whatever the lost record may have said is never
//! guessed (see [`Damage`]).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use prost::Message;

use super::block::{Block, Digests};
use super::error::OpenError;
use super::extents::Extent;
use super::files::{self, ContainerFile, RecordRef, number_of, path_of, read_payload};
use super::log::Active;
use super::media::Media;
use super::num::{to_u64, to_usize};
use super::record::{CommitPayload, FILE_HEADER_LEN, FORMAT, FileHeader, Header, Kind, load_pairs};
use super::scan::{Scan, scan};
use super::types::{BlockId, Position};

/// A place in a container file that is not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The container file.
    pub path: PathBuf,
    /// The bytes that hold no intact record.
    pub range: Range<u64>,
    /// The block concerned, when the record still says so. Without it, every "no such block" of this
    /// store is in doubt and is answered with a checksum error instead.
    pub block: Option<BlockId>,
}

/// All blocks of a store.
pub(crate) type Blocks = BTreeMap<BlockId, Arc<Mutex<Block>>>;

/// An opened store.
pub(crate) struct Recovered {
    pub(crate) blocks: Blocks,
    pub(crate) active: Active,
    pub(crate) damage: Vec<Damage>,
}

struct Recovery<'a> {
    media: &'a Media,
    digests: &'a Digests,
    blocks: BTreeMap<BlockId, Block>,
    damage: Vec<Damage>,
}

/// Opens the container files in `dir`, which exists.
pub(crate) fn recover(
    media: &Media,
    dir: &Path,
    digests: &Digests,
) -> Result<Recovered, OpenError> {
    let mut recovery = Recovery {
        media,
        digests,
        blocks: BTreeMap::new(),
        damage: Vec::new(),
    };
    let numbers = list(dir)?;
    let last = numbers.last().copied();
    let mut active = None;
    let mut before = (0u32, 0u64);
    for number in numbers {
        let path = path_of(dir, number);
        if before.0.checked_add(1) != Some(number) {
            recovery.damaged(&path_of(dir, before.0.saturating_add(1)), 0..0, None);
        }
        let file = media.open(&path).map_err(OpenError::io(&path))?;
        let len = file.metadata().map_err(OpenError::io(&path))?.len();
        let Some(header) = read_header(&file, &path, number, len)? else {
            if Some(number) == last && len <= FILE_HEADER_LEN {
                // Its creation was cut short: no record was ever written to it.
                fs::remove_file(&path).map_err(OpenError::io(&path))?;
                media.sync_dir(dir).map_err(OpenError::io(dir))?;
                break;
            }
            recovery.damaged(&path, 0..len, None);
            before = (number, len);
            continue;
        };
        if before.0.checked_add(1) == Some(number) && before.1 < header.previous_len {
            recovery.damaged(&path_of(dir, before.0), before.1..header.previous_len, None);
        }
        let opened = ContainerFile {
            number,
            nonce: header.nonce,
            path,
            file,
        };
        let (end, marked) = recovery.file(&opened, len, Some(number) == last)?;
        before = (number, end);
        active = (Some(number) == last).then_some((opened, end, marked));
    }
    let (file, end, marked) = match active {
        Some(active) => active,
        None => {
            let number = before.0.saturating_add(1);
            let file = files::create(media, dir, number, before.1)
                .map_err(|e| OpenError::io(path_of(dir, number))(e.into_io()))?;
            (file, FILE_HEADER_LEN, true)
        }
    };
    if recovery.damage.iter().any(|d| d.block.is_none()) {
        recovery.blocks.values_mut().for_each(Block::doubt_tail);
    }
    // What a killed process left in the page cache is about to be shown to readers.
    media
        .sync_data(&file.path, &file.file)
        .map_err(OpenError::io(&file.path))?;
    media.sync_dir(dir).map_err(OpenError::io(dir))?;
    Ok(Recovered {
        blocks: recovery
            .blocks
            .into_iter()
            .map(|(id, block)| (id, Arc::new(Mutex::new(block))))
            .collect(),
        active: Active::new(Arc::new(file), end, marked),
        damage: recovery.damage,
    })
}

/// Numbers of the container files in `dir`, ascending.
fn list(dir: &Path) -> Result<Vec<u32>, OpenError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(OpenError::io(dir))? {
        let name = entry.map_err(OpenError::io(dir))?.file_name();
        numbers.extend(name.to_str().and_then(number_of));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn read_header(
    file: &File,
    path: &Path,
    number: u32,
    len: u64,
) -> Result<Option<FileHeader>, OpenError> {
    if len < FILE_HEADER_LEN {
        return Ok(None);
    }
    let mut bytes = vec![0; to_usize(FILE_HEADER_LEN)];
    file.read_exact_at(&mut bytes, 0)
        .map_err(OpenError::io(path))?;
    let Some(header) = FileHeader::decode(&bytes) else {
        return Ok(None);
    };
    if header.format > FORMAT {
        return Err(OpenError::NewerFormat {
            path: path.to_owned(),
            found: header.format,
        });
    }
    Ok((header.number == number).then_some(header))
}

impl Recovery<'_> {
    fn damaged(&mut self, path: &Path, range: Range<u64>, block: Option<BlockId>) {
        tracing::error!(file = %path.display(), ?range, ?block, "damaged place in a container file");
        self.damage.push(Damage {
            path: path.to_owned(),
            range,
            block,
        });
    }

    /// Takes in one file; returns where it ends and whether its last record is a mark.
    fn file(
        &mut self,
        file: &ContainerFile,
        len: u64,
        last: bool,
    ) -> Result<(u64, bool), OpenError> {
        let found = scan(&file.file, file.nonce, len);
        let mut end = len;
        if last && let Some(cut) = torn_tail(file, &found)? {
            if found.unreadable.is_some() {
                return Err(OpenError::Io {
                    path: file.path.clone(),
                    source: std::io::Error::other(
                        "the end of the last container file cannot be read",
                    ),
                });
            }
            if !is_room(&file.file, cut..len).map_err(OpenError::io(&file.path))? {
                tracing::warn!(file = %file.path.display(), cut, len, "torn tail cut off");
            }
            // Durable with the sync that ends the recovery.
            self.media
                .cut(&file.path, &file.file, cut)
                .map_err(OpenError::io(&file.path))?;
            end = cut;
        }
        for range in found.damaged.into_iter().filter(|r| r.start < end) {
            self.damaged(&file.path, range.start..range.end.min(end), None);
        }
        let mut marked = false;
        for (at, header) in found.records.into_iter().filter(|(at, _)| *at < end) {
            marked = header.kind == Kind::Mark && header.durable == at;
            self.record(file, at, &header);
        }
        Ok((end, marked))
    }

    fn record(&mut self, file: &ContainerFile, at: u64, header: &Header) {
        let position = Position {
            file: file.number,
            offset: at + header.record_len(),
        };
        if header.kind == Kind::Mark {
            return;
        }
        let block = self.blocks.entry(header.block).or_default();
        match header.kind {
            Kind::Chunk => block.wrote(
                Extent {
                    start: header.offset,
                    len: header.payload_len,
                    file: file.number,
                    record: at,
                    skip: 0,
                },
                None,
            ),
            Kind::Commit => {
                let record = RecordRef {
                    file: file.number,
                    at,
                    payload_len: header.payload_len,
                };
                // A place of the disk that cannot be read is damage like any other.
                let payload = read_payload(&file.file, file.nonce, record)
                    .ok()
                    .flatten()
                    .and_then(|bytes| CommitPayload::decode(bytes).ok());
                let planned = payload.as_ref().and_then(|payload| block.replan(payload));
                match (payload, planned) {
                    (Some(payload), Some(plan)) => {
                        let metadata = load_pairs(payload.metadata);
                        block.commit(self.digests, &plan, &metadata, record, position);
                    }
                    (payload, _) => {
                        block.set_damage(if payload.is_none() {
                            "a commit record is damaged"
                        } else {
                            "an earlier commit record is lost"
                        });
                        let range = at..position.offset;
                        self.damaged(&file.path, range, Some(header.block));
                        return;
                    }
                }
            }
            Kind::Finalize => block.finalize(position),
            Kind::Delete => block.delete(position),
            Kind::Mark => {}
        }
        block.promote(position);
    }
}

/// Is there nothing in `range` of `file` but zeros, as they are written behind the last record ahead of need?
fn is_room(file: &File, range: Range<u64>) -> std::io::Result<bool> {
    let mut piece = vec![0; 64 << 10];
    let mut at = range.start;
    while at < range.end {
        let len = to_usize(range.end - at).min(piece.len());
        file.read_exact_at(&mut piece[..len], at)?;
        if piece[..len].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += to_u64(len);
    }
    Ok(true)
}

/// Where the last file must be cut because what stands there was being written when everything stopped.
fn torn_tail(file: &ContainerFile, found: &Scan) -> Result<Option<u64>, OpenError> {
    let bad_place = found
        .damaged
        .iter()
        .find(|r| r.end > found.durable)
        .map(|r| r.start.max(found.durable));
    let mut cut = bad_place;
    for (at, header) in &found.records {
        if cut.is_some_and(|cut| *at >= cut) {
            break;
        }
        if at + header.record_len() <= found.durable {
            continue;
        }
        let record = RecordRef {
            file: file.number,
            at: *at,
            payload_len: header.payload_len,
        };
        let intact = read_payload(&file.file, file.nonce, record)
            .map_err(OpenError::io(&file.path))?
            .is_some();
        if !intact {
            cut = Some(*at);
        }
    }
    Ok(cut)
}
