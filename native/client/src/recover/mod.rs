//! Recovery of a file whose writer died. Any client can start it, go on with what another left, and end it: the server keeps the
//! phase and decides, this side asks the datanodes.
//!
//! 1. *Start*: the server fences the writer, or says that the file is being recovered already, and names the session's blocks.
//! 2. *Settle*: each of them that is not published for good is closed at its datanodes. Only "no such block" means that it is not
//!    there; a datanode that does not answer stops the recovery, unless the caller forces it.
//! 3. *End*: what `settle` computes is published under the session's handle, wherever its file is by now. If the file may not hold
//!    that much, by quota for instance, what was published stays and the rest is given up.
//!
//! Nothing is kept between the steps, so a recovery that is given up anywhere can be begun again.

mod blocks;
mod settle;

use std::sync::Arc;
use std::time::Instant;

use append_wire::om::{
    CommitKeyRequest, KeyArgs, KeyInfo, KeyLocation, RecoverLeaseRequest, RecoverLeaseResponse,
    Type,
};
use tokio::task::JoinSet;

use crate::Result;
use crate::dn::BlockAddress;
use crate::error::{Error, ErrorKind};
use crate::filesystem::names::refuse_snapshot;
use crate::filesystem::{FileSystem, Shared, key_args, without};
use crate::om::Effect;
use crate::path::FsPath;
use crate::runtime;
use crate::status::{SessionHandle, WriterKind, from_wire};
use settle::{Candidate, Found, Settlement, settle};

/// Blocks that are asked about at a time.
const AT_ONCE: usize = 8;

/// How [`FileSystem::recover_lease_with`] goes about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoverOptions {
    /// Does not wait for the writer's lease: it is fenced now, dead or not. For a person who asks for it; an append never does.
    pub force: bool,
    /// Goes on without datanodes that do not answer: what only they have and was not published is lost. For an operator who knows
    /// that they will not come back.
    pub without_unreachable: bool,
    /// Until when the call may wait for servers; none: each request as long as the settings say.
    pub deadline: Option<Instant>,
}

impl FileSystem {
    /// Recovers a file whose writer died, at the length that its writer had synced or more; true when it is closed. A file that
    /// is closed already is left alone.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Conflict`] while the lease of its writer runs ([`Error::conflict`] says for how long),
    /// or if the writer is none that can be recovered; [`crate::ErrorKind::Recovering`] if a datanode could not be asked: call
    /// again; [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::IsDirectory`]; [`crate::ErrorKind::Unsupported`] on a server
    /// without append.
    pub async fn recover_lease(&self, path: &str) -> Result<bool> {
        self.recover_lease_with(path, &RecoverOptions::default())
            .await
    }

    /// As [`FileSystem::recover_lease`], with options.
    ///
    /// # Errors
    /// As there.
    pub async fn recover_lease_with(&self, path: &str, options: &RecoverOptions) -> Result<bool> {
        let path = self.resolve(path)?;
        recover(self, &path, options)
            .await
            .map_err(|error| error.at("recover lease", &path))?;
        Ok(true)
    }

    /// Whether nobody writes to a file: no append session, none that is being recovered, and no writer that has synced. One that
    /// will replace the file and has published nothing does not count.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`], [`crate::ErrorKind::IsDirectory`], [`crate::ErrorKind::Unsupported`] on a server that does
    /// not tell.
    pub async fn is_file_closed(&self, path: &str) -> Result<bool> {
        let path = self.resolve(path)?;
        let at = |error: Error| error.at("is file closed", &path);
        let status = self.status_at(&path).await.map_err(absent).map_err(at)?;
        if status.directory {
            return Err(at(directory()));
        }
        if !self.om().features().knows_append() {
            return Err(at(Error::unsupported(
                "the server does not tell who writes",
            )));
        }
        let writer = status.writer.as_ref();
        Ok(writer.is_none_or(|writer| writer.kind == WriterKind::Ordinary))
    }
}

// Callers that were written for HDFS look for these words.
const NOT_A_FILE: &str = "Path is not a file";
const NO_FILE: &str = "File does not exist";

fn directory() -> Error {
    Error::new(ErrorKind::IsDirectory, NOT_A_FILE)
}

fn absent(error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    let text = format!("{NO_FILE}: {}", error.text());
    error.with_text(text)
}

/// Recovers what stands at a path, if anybody has it open.
pub(crate) async fn recover(
    fs: &FileSystem,
    path: &FsPath,
    options: &RecoverOptions,
) -> Result<()> {
    refuse_snapshot(path)?;
    if !path.is_key() {
        return Err(directory());
    }
    if !fs.om().features().knows_append() {
        return Err(Error::unsupported(
            "the server has no sessions that this client can recover",
        ));
    }
    let started = match start(fs, path, options).await {
        Ok(started) => started,
        Err(error) => return explain(fs, path, error).await,
    };
    let Some(started) = started else {
        return Ok(());
    };
    let found = ask(fs.shared(), &started, options).await?;
    let settlement = settle(started.floor, &found).ok_or_else(|| {
        Error::new(
            ErrorKind::Protocol,
            "the server publishes more of the session than the file has",
        )
    })?;
    tracing::info!(
        session = started.handle.session,
        floor = started.floor,
        length = settlement.length,
        blocks = settlement.kept.len(),
        "a file is recovered"
    );
    let ended = match end(fs, path, &started, &settlement, options).await {
        // More blocks or bytes than the file may have by now. What readers were shown is neither, and a file that nobody can end
        // would be nobody's: it ends there.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::QuotaExceeded | ErrorKind::Unsupported
            ) && settlement.length > started.floor =>
        {
            tracing::warn!(
                session = started.handle.session,
                floor = started.floor,
                length = settlement.length,
                %error,
                "a file is recovered without what its writer had not synced"
            );
            let shown = settle(started.floor, &only_shown(&found)).ok_or(error)?;
            end(fs, path, &started, &shown, options).await
        }
        other => other,
    };
    match ended {
        // Another helper was faster, or the file was deleted meanwhile: the path tells which.
        Err(error) if matches!(error.kind(), ErrorKind::StaleSession | ErrorKind::NotFound) => {
            match fs.writer_at(path).await? {
                Some(writer)
                    if writer
                        .handle
                        .is_some_and(|h| h.session == started.handle.session) =>
                {
                    Err(error)
                }
                _ => Ok(()),
            }
        }
        other => other,
    }
}

/// The blocks as if no datanode could say more than what was published.
fn only_shown(found: &[Candidate]) -> Vec<Candidate> {
    let unknown = |candidate: &Candidate| Candidate {
        found: Found::Unknown,
        ..*candidate
    };
    found.iter().map(unknown).collect()
}

/// A recovery as the server tells it.
#[derive(Debug)]
struct Started {
    handle: SessionHandle,
    /// Published length.
    floor: u64,
    blocks: Vec<KeyLocation>,
    info: KeyInfo,
}

/// None if the file is closed.
async fn start(
    fs: &FileSystem,
    path: &FsPath,
    options: &RecoverOptions,
) -> Result<Option<Started>> {
    let mut request = fs.om().request(Type::RecoverLease);
    request.recover_lease_request = Some(Box::new(RecoverLeaseRequest {
        volume_name: Some(path.volume().to_owned()),
        bucket_name: Some(path.bucket().to_owned()),
        key_name: Some(path.key().to_owned()),
        force: Some(options.force),
        append_only: Some(true),
    }));
    let response = call(fs, request, options).await?;
    let told = response
        .recover_lease_response
        .ok_or_else(|| without("recovery"))?;
    started(*told)
}

fn started(told: RecoverLeaseResponse) -> Result<Option<Started>> {
    let Some(handle) = told.append_handle.as_ref().map(from_wire::handle) else {
        return Ok(None);
    };
    // The floor and the blocks; without them nothing can be said of the file.
    let open = told
        .open_key_info
        .ok_or_else(|| without("session's blocks"))?;
    let blocks = open.key_location_list.last();
    Ok(Some(Started {
        handle,
        floor: open.data_size,
        blocks: blocks
            .map(|list| list.key_locations.clone())
            .unwrap_or_default(),
        info: open,
    }))
}

async fn call(
    fs: &FileSystem,
    request: append_wire::om::OmRequest,
    options: &RecoverOptions,
) -> Result<append_wire::om::OmResponse> {
    match options.deadline {
        Some(deadline) => fs.om().call_until(request, Effect::Change, deadline).await,
        None => fs.om().call(request, Effect::Change).await,
    }
}

/// A refusal that says that the file is closed is none; others name what is in the way.
async fn explain(fs: &FileSystem, path: &FsPath, error: Error) -> Result<()> {
    if error.status() == Some("KEY_ALREADY_CLOSED") {
        return Ok(());
    }
    if error.kind() != ErrorKind::IsDirectory {
        return Err(absent(error));
    }
    let found = fs.find(path).await;
    let kind = if found.is_ok_and(|found| found.is_some_and(|status| status.directory)) {
        ErrorKind::IsDirectory
    } else {
        ErrorKind::NotADirectory
    };
    let text = format!("{NOT_A_FILE}: {}", error.text());
    Err(error.with_kind(kind).with_text(text))
}

/// Asks the datanodes, several blocks at a time.
async fn ask(
    fs: &Arc<Shared>,
    started: &Started,
    options: &RecoverOptions,
) -> Result<Vec<Candidate>> {
    let mut candidates: Vec<_> = started
        .blocks
        .iter()
        .map(|block| Candidate {
            published: Some(block.length).filter(|length| *length > 0),
            found: Found::Unknown,
        })
        .collect();
    let last_published = candidates.iter().rposition(|c| c.published.is_some());
    // What is published for good needs nobody's word.
    let mut next = last_published.unwrap_or(0);
    let runtime = runtime::handle()?;
    let mut asked = JoinSet::new();
    loop {
        while asked.len() < AT_ONCE
            && let Some(block) = started.blocks.get(next)
        {
            let (fs, address, index) = (Arc::clone(fs), BlockAddress::of(block), next);
            asked.spawn_on(
                async move { (index, blocks::close(&fs.datanodes, &address).await) },
                runtime,
            );
            next += 1;
        }
        let Some(answer) = (match options.deadline {
            Some(deadline) => tokio::time::timeout_at(deadline.into(), asked.join_next())
                .await
                .map_err(|_| unfinished(started, "datanodes did not answer in time"))?,
            None => asked.join_next().await,
        }) else {
            return Ok(candidates);
        };
        let (index, told) = answer.map_err(|e| unfinished(started, &e.to_string()))?;
        let found = match told {
            Ok(Ok(found)) => found,
            Ok(Err(error)) if options.without_unreachable => {
                tracing::warn!(session = started.handle.session, %error, "recovering without a block");
                Found::Unknown
            }
            Err(error) if options.without_unreachable => {
                tracing::warn!(session = started.handle.session, %error, "recovering without a block");
                Found::Unknown
            }
            Ok(Err(error)) => return Err(unfinished(started, &error.to_string())),
            Err(error) => return Err(unfinished(started, error.text())),
        };
        if let Some(candidate) = candidates.get_mut(index) {
            candidate.found = found;
        }
    }
}

fn unfinished(started: &Started, why: &str) -> Error {
    Error::new(
        ErrorKind::Recovering,
        format!("the recovery did not finish: {why}"),
    )
    .with_session(started.handle.session)
}

async fn end(
    fs: &FileSystem,
    path: &FsPath,
    started: &Started,
    settlement: &Settlement,
    options: &RecoverOptions,
) -> Result<()> {
    let key_locations = settlement
        .kept
        .iter()
        .filter_map(|kept| {
            let block = started.blocks.get(kept.index)?;
            Some(KeyLocation {
                block_id: block.block_id,
                offset: 0,
                length: kept.length,
                ..KeyLocation::default()
            })
        })
        .collect();
    let mut request = fs.om().request(Type::CommitKey);
    request.commit_key_request = Some(Box::new(CommitKeyRequest {
        key_args: KeyArgs {
            data_size: Some(settlement.length),
            key_locations,
            r#type: Some(started.info.r#type),
            factor: started.info.factor,
            ec_replication_config: started.info.ec_replication_config.clone(),
            ..key_args(path)
        },
        client_id: started.handle.session,
        hsync: None,
        recovery: Some(true),
        append_handle: Some(from_wire::to_handle(started.handle)),
    }));
    call(fs, request, options)
        .await
        .map_err(|error| error.with_session(started.handle.session))?;
    Ok(())
}
