//! Opening writers, giving blocks, publishing.

use super::call::Call;
use super::failure::Failure;
use super::locate::Locator;
use super::{Om, done, render, translate, unexpected};
use append_namespace::command::{AllocateBlock, Command, OpenKey, Publish, PublishKind, Target};
use append_namespace::reply::{Answer, GivenBlock, Opened};
use append_wire::om::{
    AllocateBlockRequest, AllocateBlockResponse, AppendHandle, CommitKeyRequest, CommitKeyResponse,
    CreateFileRequest, CreateFileResponse, CreateKeyRequest, CreateKeyResponse, KeyArgs, KeyInfo,
    KeyLocation, OmResponse,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Blocks that one request is given at most.
pub(super) const MAX_GIVEN: u64 = 64;

/// The one version of a key's block list that is ever written.
const OPEN_VERSION: u64 = 0;

/// How a key is opened.
struct Opening {
    as_file: bool,
    recursive: bool,
    overwrite: bool,
    least_blocks: u64,
}

impl Om {
    pub(super) async fn create_key(
        &self,
        call: &Call,
        request: CreateKeyRequest,
    ) -> Result<OmResponse, Failure> {
        // Ozone makes the parents of a key, and replaces the key at commit.
        let opening = Opening {
            as_file: false,
            recursive: true,
            overwrite: true,
            least_blocks: 0,
        };
        let (key_info, session) = self.open(call, request.key_args, opening).await?;
        let answer = CreateKeyResponse {
            key_info: Some(key_info),
            id: Some(session),
            open_version: Some(OPEN_VERSION),
            derived_key: None,
        };
        Ok(OmResponse {
            create_key_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn create_file(
        &self,
        call: &Call,
        request: CreateFileRequest,
    ) -> Result<OmResponse, Failure> {
        let opening = Opening {
            as_file: true,
            recursive: request.is_recursive,
            overwrite: request.is_overwrite,
            least_blocks: 1,
        };
        let (key_info, session) = self.open(call, request.key_args, opening).await?;
        let answer = CreateFileResponse {
            key_info: Some(key_info),
            id: Some(session),
            open_version: Some(OPEN_VERSION),
        };
        Ok(OmResponse {
            create_file_response: Some(Box::new(answer)),
            ..done()
        })
    }

    async fn open(
        &self,
        call: &Call,
        args: KeyArgs,
        opening: Opening,
    ) -> Result<(KeyInfo, u64), Failure> {
        translate::refuse_unbuilt(&args)?;
        let path = translate::writable(&args)?;
        let block_size = self.consensus.limits().block_size.max(1);
        let blocks = args
            .data_size()
            .div_ceil(block_size)
            .clamp(opening.least_blocks, MAX_GIVEN);
        let command = OpenKey {
            path: path.clone(),
            as_file: opening.as_file,
            recursive: opening.recursive,
            overwrite: opening.overwrite,
            replication: translate::replication(args.r#type, &self.engine.replication())?,
            owner: translate::owner(args.owner_name, &call.user),
            metadata: translate::pairs(args.metadata),
            acls: translate::acls(args.acls),
            tags: translate::pairs(args.tags),
            holders: self.holders(blocks, &[], &call.subject).await?,
            expected_update: args.expected_data_generation,
        };
        let shown = command.clone();
        match self.propose(call, Command::OpenKey(command)).await? {
            Some(Answer::Opened(Opened {
                session, blocks, ..
            })) => {
                let now = wall_ms();
                let kept = self.engine.replication();
                let key_info = KeyInfo {
                    data_size: args.data_size.unwrap_or_default(),
                    r#type: kept.kind,
                    factor: Some(kept.factor),
                    key_location_list: vec![render::location_list(self.given(&blocks)?)],
                    creation_time: now,
                    modification_time: now,
                    latest_version: Some(OPEN_VERSION),
                    metadata: render::key_values(&shown.metadata),
                    acls: render::acl_infos(&shown.acls),
                    is_file: Some(true),
                    owner_name: Some(shown.owner),
                    tags: render::key_values(&shown.tags),
                    ..render::named(&path)
                };
                Ok((key_info, session))
            }
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// Holders for `blocks` new blocks of a file; none are asked for when there are none to give.
    pub(super) async fn holders(
        &self,
        blocks: u64,
        exclude: &[String],
        file: &str,
    ) -> Result<Vec<u32>, Failure> {
        let count = match usize::try_from(blocks.min(MAX_GIVEN)) {
            Ok(count) if count > 0 => count,
            _ => return Ok(Vec::new()),
        };
        match self.engine.pick(count, exclude, file) {
            Ok(holders) => Ok(holders),
            Err(none) => {
                // Whoever leads may reach datanodes that this server does not: then the caller must go there instead of waiting here.
                self.current().await?;
                Err(none.into())
            }
        }
    }

    /// Locations of blocks that a command just gave.
    pub(super) fn given(&self, blocks: &[GivenBlock]) -> Result<Vec<KeyLocation>, Failure> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let view = self.consensus.view();
        Locator::new(&*self.engine, &*view).given(blocks)
    }

    pub(super) async fn allocate_block(
        &self,
        call: &Call,
        request: AllocateBlockRequest,
    ) -> Result<OmResponse, Failure> {
        let exclude = request.exclude_list.unwrap_or_default();
        // A pipeline of this engine is its one datanode, by the same id. Containers cannot be excluded: none of ours is ever full.
        let mut excluded = exclude.datanodes;
        excluded.extend(
            exclude
                .pipeline_ids
                .into_iter()
                .filter_map(|pipeline| pipeline.id),
        );
        let target = target(
            request.append_handle.as_ref(),
            &request.key_args,
            request.client_id,
        )?;
        let holder = self
            .holders(1, &excluded, &call.subject)
            .await?
            .first()
            .copied()
            .ok_or_else(|| unexpected(None))?;
        match self
            .propose(
                call,
                Command::AllocateBlock(AllocateBlock { target, holder }),
            )
            .await?
        {
            Some(Answer::Allocated(block)) => {
                let answer = AllocateBlockResponse {
                    key_location: self.given(&[block])?.pop(),
                };
                Ok(OmResponse {
                    allocate_block_response: Some(Box::new(answer)),
                    ..done()
                })
            }
            other => Err(unexpected(other.as_ref())),
        }
    }

    pub(super) async fn commit_key(
        &self,
        call: &Call,
        request: CommitKeyRequest,
    ) -> Result<OmResponse, Failure> {
        translate::refuse_unbuilt(&request.key_args)?;
        let kind = if request.recovery() {
            PublishKind::Recovery
        } else if request.hsync() {
            PublishKind::Hsync
        } else {
            PublishKind::Close
        };
        let target = target(
            request.append_handle.as_ref(),
            &request.key_args,
            request.client_id,
        )?;
        let session = target
            .handle
            .as_ref()
            .map_or(target.session, |handle| handle.session);
        let args = request.key_args;
        let size = args.data_size();
        let command = Command::Publish(Publish {
            target,
            kind: kind.into(),
            size,
            blocks: args
                .key_locations
                .iter()
                .map(translate::submitted)
                .collect::<Result<_, _>>()?,
            metadata: translate::pairs(args.metadata),
        });
        let published = self.propose(call, command).await;
        let name = match kind {
            PublishKind::Hsync => "hsync",
            PublishKind::Close => "close",
            PublishKind::Recovery => "recovery",
        };
        match &published {
            Ok(_) => {
                tracing::debug!(session, size, kind = name, request = %call.request_id, "published")
            }
            Err(failure) => {
                metrics::counter!("append_om_publication_failures_total", "kind" => name)
                    .increment(1);
                tracing::info!(session, size, kind = name, request = %call.request_id, ?failure, "a publication failed");
            }
        }
        published?;
        Ok(OmResponse {
            commit_key_response: Some(Box::new(CommitKeyResponse {})),
            ..done()
        })
    }
}

/// Whom a block or a publication is for: the session of a handle, or the ordinary writer at the path.
fn target(handle: Option<&AppendHandle>, args: &KeyArgs, session: u64) -> Result<Target, Failure> {
    match handle {
        Some(handle) => Ok(Target {
            handle: Some(translate::handle(handle)?),
            path: Some(translate::key_path(args)),
            session: 0,
        }),
        None => Ok(Target {
            handle: None,
            path: Some(translate::writable(args)?),
            session,
        }),
    }
}

/// The time that a fresh key is shown with until it is committed.
fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or_default()
}
