//! Reads of one key: its attributes, its blocks, who writes it.

use super::failure::Failure;
use super::locate::Locator;
use super::render::{self, Naming};
use super::{Om, done, sized_read, translate};
use crate::engine::BlockEngine;
use crate::rpc::MAX_FRAME_BYTES;
use append_namespace::command::{KeyPath, Replication};
use append_namespace::reply::AppendStatus as Writer;
use append_namespace::rows::Rows;
use append_namespace::view::{BlockRange, FileView, Node};
use append_namespace::{RefusalKind, read};
use append_wire::om::{
    BlockRangeReply, BlockRangeRequest, GetFileStatusRequest, GetFileStatusResponse,
    GetKeyInfoRequest, GetKeyInfoResponse, KeyArgs, KeyInfo, KeyLocation, LookupFileRequest,
    LookupFileResponse, LookupKeyRequest, LookupKeyResponse, OmResponse, OzoneFileStatusProto,
};
use std::sync::Arc;

/// Blocks in one range at most, and when the caller names no number.
const MAX_RANGE: u32 = 10_000;

/// Blocks that are read on the thread that serves the call.
const FEW_BLOCKS: u64 = 64;

/// Bytes that one location takes in an answer at most; a list that could be too long for a frame is refused before it is made.
const LOCATION_BYTES: u64 = 400;

/// How much of a key's block list an answer holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Blocks {
    /// None: the caller wants attributes.
    None,
    /// All, as Ozone's own clients must be sent them.
    All,
    /// A range.
    Range(BlockRangeRequest),
}

impl Blocks {
    /// Whether reading them takes long enough to need a thread of its own.
    fn are_many(self, node: &Node) -> bool {
        let Node::File(file) = node else { return false };
        match self {
            Blocks::None => false,
            Blocks::All => file.block_count > FEW_BLOCKS,
            Blocks::Range(asked) => {
                file.block_count.min(u64::from(range_length(&asked))) > FEW_BLOCKS
            }
        }
    }

    pub(super) fn of(args: &KeyArgs) -> Blocks {
        if args.head_op() {
            Blocks::None
        } else {
            Blocks::All
        }
    }
}

/// What stands at a path, and who writes it.
struct Found {
    key_info: KeyInfo,
    is_directory: bool,
    range: Option<BlockRangeReply>,
    writer: Option<Writer>,
}

impl Om {
    pub(super) async fn get_key_info(
        &self,
        request: GetKeyInfoRequest,
    ) -> Result<OmResponse, Failure> {
        if request.assume_s3_context() {
            return Err(Failure::unsupported("the S3 volume is not supported"));
        }
        let args = request.key_args;
        let path = translate::readable(&args, RefusalKind::KeyNotFound)?;
        let found = match request.block_range {
            Some(
                range @ BlockRangeRequest {
                    file_object_id: Some(file),
                    content_generation: Some(generation),
                    ..
                },
            ) => {
                let view = self.current().await?;
                let engine = Arc::clone(&self.engine);
                let many = u64::from(range_length(&range)) > FEW_BLOCKS;
                sized_read(view, many, move |rows| {
                    by_identity(&*engine, rows, &path, file, generation, range)
                })
                .await?
            }
            range => {
                let blocks = range.map_or(Blocks::of(&args), Blocks::Range);
                self.find(path, blocks, RefusalKind::KeyNotFound).await?
            }
        };
        let answer = GetKeyInfoResponse {
            key_info: Some(found.key_info),
            volume_info: None,
            user_principal: None,
            append_status: found.writer.as_ref().map(render::append_status),
            block_range: found.range,
        };
        Ok(OmResponse {
            get_key_info_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn lookup_key(
        &self,
        request: LookupKeyRequest,
    ) -> Result<OmResponse, Failure> {
        let found = self
            .looked_up(request.key_args, RefusalKind::KeyNotFound)
            .await?;
        let answer = LookupKeyResponse {
            key_info: Some(found.key_info),
            id: None,
            open_version: None,
        };
        Ok(OmResponse {
            lookup_key_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn lookup_file(
        &self,
        request: LookupFileRequest,
    ) -> Result<OmResponse, Failure> {
        let found = self
            .looked_up(request.key_args, RefusalKind::FileNotFound)
            .await?;
        if found.is_directory {
            return Err(Failure::refused(
                RefusalKind::NotAFile,
                "a directory stands there",
            ));
        }
        let answer = LookupFileResponse {
            key_info: Some(found.key_info),
        };
        Ok(OmResponse {
            lookup_file_response: Some(Box::new(answer)),
            ..done()
        })
    }

    async fn looked_up(&self, args: KeyArgs, missing: RefusalKind) -> Result<Found, Failure> {
        let path = translate::readable(&args, missing)?;
        self.find(path, Blocks::of(&args), missing).await
    }

    /// What stands at `path` as a key; where nothing is, `missing` is told.
    async fn find(
        &self,
        path: KeyPath,
        blocks: Blocks,
        missing: RefusalKind,
    ) -> Result<Found, Failure> {
        let view = self.current().await?;
        let node = match read::status(&*view, &path)? {
            Ok(node) => node,
            Err(refusal) if refusal.kind() == RefusalKind::FileNotFound => {
                return Err(Failure::refused(missing, refusal.detail));
            }
            Err(refusal) => return Err(refusal.into()),
        };
        let engine = Arc::clone(&self.engine);
        sized_read(view, blocks.are_many(&node), move |rows| {
            key(&*engine, rows, &path, &node, blocks)
        })
        .await
    }

    pub(super) async fn get_file_status(
        &self,
        request: GetFileStatusRequest,
    ) -> Result<OmResponse, Failure> {
        let args = request.key_args;
        let path = translate::readable(&args, RefusalKind::FileNotFound)?;
        let blocks = Blocks::of(&args);
        let block_size = self.consensus.limits().block_size;
        let engine = Arc::clone(&self.engine);
        let view = self.current().await?;
        let node = read::status(&*view, &path)??;
        let status = sized_read(view, blocks.are_many(&node), move |rows| {
            let writer = writer_of(rows, &path, &node)?;
            let mut status = file_status(&*engine, rows, &node, blocks, block_size)?;
            status.append_status = writer.as_ref().map(render::append_status);
            Ok(status)
        })
        .await?;
        let answer = GetFileStatusResponse { status };
        Ok(OmResponse {
            get_file_status_response: Some(Box::new(answer)),
            ..done()
        })
    }
}

/// Whether an answer can hold the locations of so many blocks.
pub(super) fn fit_an_answer(blocks: u64) -> bool {
    usize::try_from(blocks.saturating_mul(LOCATION_BYTES))
        .is_ok_and(|bytes| bytes <= MAX_FRAME_BYTES)
}

/// A node as a file system shows it.
pub(super) fn file_status(
    engine: &dyn BlockEngine,
    rows: &dyn Rows,
    node: &Node,
    blocks: Blocks,
    block_size: u64,
) -> Result<OzoneFileStatusProto, Failure> {
    let (key_info, is_directory) = match node {
        Node::File(file) => (Some(whole_file(engine, rows, file, blocks)?.0), false),
        Node::Directory(directory) => (Some(render::directory_info(directory, Naming::Path)), true),
        Node::BucketRoot => (None, true),
    };
    Ok(OzoneFileStatusProto {
        key_info,
        block_size: Some(block_size),
        is_directory: Some(is_directory),
        append_status: None,
    })
}

/// What a key lookup shows of a node; the bucket itself is no key.
fn key(
    engine: &dyn BlockEngine,
    rows: &dyn Rows,
    path: &KeyPath,
    node: &Node,
    blocks: Blocks,
) -> Result<Found, Failure> {
    match node {
        Node::File(file) => {
            let (key_info, range) = whole_file(engine, rows, file, blocks)?;
            Ok(Found {
                key_info,
                is_directory: false,
                range,
                writer: writer_of(rows, path, node)?,
            })
        }
        Node::Directory(directory) => Ok(Found {
            key_info: render::directory_info(directory, Naming::Path),
            is_directory: true,
            range: None,
            writer: None,
        }),
        Node::BucketRoot => Err(Failure::refused(
            RefusalKind::NotAFile,
            format!("{path} is a bucket"),
        )),
    }
}

fn writer_of(rows: &dyn Rows, path: &KeyPath, node: &Node) -> Result<Option<Writer>, Failure> {
    match node {
        Node::File(_) => Ok(read::append_status(rows, path)??),
        Node::Directory(_) | Node::BucketRoot => Ok(None),
    }
}

fn whole_file(
    engine: &dyn BlockEngine,
    rows: &dyn Rows,
    file: &FileView,
    blocks: Blocks,
) -> Result<(KeyInfo, Option<BlockRangeReply>), Failure> {
    let mut locator = Locator::new(engine, rows);
    match blocks {
        Blocks::None => Ok((render::file_info(file, None), None)),
        Blocks::All => {
            if !fit_an_answer(file.block_count) {
                return Err(Failure::invalid(format!(
                    "{} has {} blocks, too many for one answer: ask for a range",
                    file.path, file.block_count
                )));
            }
            let range = read::blocks(rows, file, 0, usize::MAX)??;
            Ok((
                render::file_info(file, Some(locator.shown(&range.blocks, false)?)),
                None,
            ))
        }
        Blocks::Range(asked) => {
            let range = read::blocks(
                rows,
                file,
                asked.from_offset(),
                range_length(&asked) as usize,
            )??;
            let reply = BlockRangeReply {
                total_blocks: Some(render::saturated(range.total)),
                next_offset: Some(range.next_offset).filter(|next| *next < file.size),
                file_object_id: Some(file.object_id),
                content_generation: Some(file.generation),
            };
            let shown = locator.shown(&range.blocks, asked.pipelines_once())?;
            Ok((render::file_info(file, Some(shown)), Some(reply)))
        }
    }
}

/// A further range of a block list, by the identities that the first one named. The names are the caller's; of the attributes only
/// what a range needs is there: with the last range, `dataSize` is where it ends.
fn by_identity(
    engine: &dyn BlockEngine,
    rows: &dyn Rows,
    path: &KeyPath,
    file: u64,
    generation: u64,
    asked: BlockRangeRequest,
) -> Result<Found, Failure> {
    let most = range_length(&asked) as usize;
    let range = read::blocks_of(rows, file, generation, asked.from_offset(), most)??;
    let reply = BlockRangeReply {
        total_blocks: Some(render::saturated(range.total)),
        next_offset: Some(range.next_offset).filter(|_| range.blocks.len() >= most),
        file_object_id: Some(file),
        content_generation: Some(generation),
    };
    Ok(Found {
        key_info: ranged(engine, rows, path, file, &range, asked.pipelines_once())?,
        is_directory: false,
        range: Some(reply),
        writer: None,
    })
}

fn ranged(
    engine: &dyn BlockEngine,
    rows: &dyn Rows,
    path: &KeyPath,
    file: u64,
    range: &BlockRange,
    once: bool,
) -> Result<KeyInfo, Failure> {
    let Replication { kind, factor } = engine.replication();
    let locations: Vec<KeyLocation> = Locator::new(engine, rows).shown(&range.blocks, once)?;
    Ok(KeyInfo {
        data_size: range.next_offset,
        r#type: kind,
        factor: Some(factor),
        key_location_list: vec![render::location_list(locations)],
        object_id: Some(file),
        is_file: Some(true),
        ..render::named(path)
    })
}

fn range_length(asked: &BlockRangeRequest) -> u32 {
    match asked.max_blocks {
        None | Some(0) => MAX_RANGE,
        Some(asked) => asked.min(MAX_RANGE),
    }
}
