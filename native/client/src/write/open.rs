//! Opening streams: admission of appends, creation with a session, and Ozone's ordinary creation where there is no other.

use std::sync::Arc;
use std::time::Instant;

use append_wire::hdds::ReplicationType;
use append_wire::om::append_file_request::CreateMode;
use append_wire::om::{
    AppendFileRequest, AppendFileResponse, CreateFileRequest, KeyArgs, KeyLocation, OmResponse,
    Type,
};

use super::block::ChunkRules;
use super::session::Session;
use super::writer::{Sizes, Writer};
use super::{CreateOptions, WriteStream, waiting};
use crate::Result;
use crate::admin::to_factor;
use crate::error::{Error, ErrorKind};
use crate::filesystem::{FileSystem, Shared, key_args, no_bucket, without};
use crate::om::Effect;
use crate::path::FsPath;
use crate::runtime;
use crate::status::from_wire;

/// From this OM version on Ozone's ordinary writers can be synced, where server and client allow it.
const HSYNC_SINCE: i32 = 7;

/// The client's own switch for it, Ozone's key.
const HSYNC_ENABLED: &str = "ozone.fs.hsync.enabled";

/// Blocks that come with an admission: a small append is three round trips.
const PREALLOCATED: u32 = 1;

/// Opens a file for append.
pub(crate) async fn append(
    fs: &FileSystem,
    path: FsPath,
    create_if_missing: bool,
    deadline: Option<Instant>,
) -> Result<WriteStream> {
    if !path.is_key() {
        return Err(Error::new(ErrorKind::IsDirectory, "it is a directory"));
    }
    let features = fs.om().features();
    if !features.knows_append() {
        return Err(Error::unsupported("the server does not offer append"));
    }
    if !features.can_append() {
        return Err(Error::new(
            ErrorKind::Disabled,
            "append is switched off on the server, or not finalized",
        ));
    }
    let admission = Admission {
        mode: if create_if_missing {
            CreateMode::IfMissing
        } else {
            CreateMode::No
        },
        recursive: create_if_missing,
        block_size: fs.shared().settings.block_size,
        args: KeyArgs {
            owner_name: Some(fs.om().user().to_owned()),
            ..key_args(&path)
        },
        deadline,
    };
    waiting::admitted(fs, path, admission).await
}

/// Creates a file.
pub(crate) async fn create(
    fs: &FileSystem,
    path: FsPath,
    options: &CreateOptions,
) -> Result<WriteStream> {
    if !path.is_key() {
        return Err(Error::new(ErrorKind::IsDirectory, "it is a directory"));
    }
    let settings = &fs.shared().settings;
    let mut args = KeyArgs {
        owner_name: Some(fs.om().user().to_owned()),
        data_size: Some(0),
        ..key_args(&path)
    };
    let default = &settings.replication;
    if let (None, Some(wanted)) = (options.replication, &default.unsupported) {
        return Err(Error::unsupported(format!(
            "writing with replication {wanted} is not built yet"
        )));
    }
    if let Some(replication) = options.replication.or(default.copies) {
        let kind = if default.stand_alone {
            ReplicationType::StandAlone
        } else {
            ReplicationType::Ratis
        };
        args.r#type = Some(kind.into());
        args.factor = Some(to_factor(replication).into());
    }
    let admission = Admission {
        mode: if options.overwrite {
            CreateMode::Overwrite
        } else {
            CreateMode::MustBeNew
        },
        recursive: options.recursive,
        block_size: options.block_size.unwrap_or(settings.block_size),
        args,
        deadline: None,
    };
    detached(fs.clone(), path, admission).await
}

/// What is asked of the server.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    mode: CreateMode,
    recursive: bool,
    block_size: u64,
    args: KeyArgs,
    pub(super) deadline: Option<Instant>,
}

/// If the caller stops waiting, a stream that comes too late is abandoned, and what it created is deleted.
pub(super) async fn detached(
    fs: FileSystem,
    path: FsPath,
    admission: Admission,
) -> Result<WriteStream> {
    let opening = runtime::carried(async move { open(&fs, &path, &admission).await });
    let opened = opening.await.map_err(|e| {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!("the call ended early: {e}"),
        )
    })?;
    opened.map(WriteStream::hand_over)
}

async fn open(fs: &FileSystem, path: &FsPath, admission: &Admission) -> Result<WriteStream> {
    match try_open(fs, path, admission).await {
        Err(error) if no_bucket(&error) && admission.recursive => {
            fs.ensure_bucket(path, true).await?;
            try_open(fs, path, admission).await
        }
        other => other,
    }
}

async fn try_open(fs: &FileSystem, path: &FsPath, admission: &Admission) -> Result<WriteStream> {
    let creates = matches!(
        admission.mode,
        CreateMode::MustBeNew | CreateMode::Overwrite
    );
    let opened = if creates && !fs.om().features().can_append() {
        open_ordinary(fs, path, admission).await
    } else {
        match open_session(fs, path, admission).await {
            // The bucket's layout has no sessions, or they were switched off meanwhile.
            Err(error)
                if creates
                    && matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Disabled) =>
            {
                open_ordinary(fs, path, admission).await
            }
            other => other,
        }
    };
    match opened {
        Ok(stream) => Ok(stream),
        Err(error) => Err(explain(fs, path, error).await),
    }
}

async fn open_session(
    fs: &FileSystem,
    path: &FsPath,
    admission: &Admission,
) -> Result<WriteStream> {
    let om = fs.om();
    let mut request = om.request(Type::AppendFile);
    request.append_file_request = Some(Box::new(AppendFileRequest {
        key_args: admission.args.clone(),
        create: Some(admission.mode.into()),
        preallocate: Some(PREALLOCATED),
        is_recursive: Some(admission.recursive),
        exclude_datanodes: Vec::new(),
    }));
    let response = match admission.deadline {
        Some(deadline) => om.call_until(request, Effect::Change, deadline).await?,
        None => om.call(request, Effect::Change).await?,
    };
    let admitted = response
        .append_file_response
        .ok_or_else(|| without("admission"))?;
    admitted_stream(fs.shared(), path, admission, *admitted)
}

fn admitted_stream(
    fs: &Arc<Shared>,
    path: &FsPath,
    admission: &Admission,
    admitted: AppendFileResponse,
) -> Result<WriteStream> {
    let handle = admitted
        .handle
        .as_ref()
        .map(from_wire::handle)
        .ok_or_else(|| without("session"))?;
    let info = admitted.key_info.clone().unwrap_or_default();
    if info.file_encryption_info.is_some() {
        return Err(Error::unsupported(
            "writing encrypted files is not built yet",
        ));
    }
    let session = if admitted.ordinary() {
        Session::ordinary(
            Arc::clone(fs),
            path.clone(),
            handle.session,
            Some(handle),
            &info,
        )
    } else {
        let soft_limit = admitted.soft_limit_ms.map(std::time::Duration::from_millis);
        let lease = fs.renewer.keep(handle, soft_limit)?;
        Session::append(
            Arc::clone(fs),
            path.clone(),
            lease,
            admitted.prefix_length(),
            &info,
        )
    };
    let created = admitted.created() && !admitted.ordinary();
    Ok(stream(session, admitted.suffix, admission, created, true))
}

async fn open_ordinary(
    fs: &FileSystem,
    path: &FsPath,
    admission: &Admission,
) -> Result<WriteStream> {
    let om = fs.om();
    let mut request = om.request(Type::CreateFile);
    request.create_file_request = Some(Box::new(CreateFileRequest {
        key_args: admission.args.clone(),
        is_recursive: admission.recursive,
        is_overwrite: admission.mode == CreateMode::Overwrite,
        client_id: None,
    }));
    let response: OmResponse = om.call(request, Effect::Change).await?;
    let opened = response
        .create_file_response
        .ok_or_else(|| without("open file"))?;
    let info = opened.key_info.clone().ok_or_else(|| without("key info"))?;
    if info.file_encryption_info.is_some() {
        return Err(Error::unsupported(
            "writing encrypted files is not built yet",
        ));
    }
    let fresh = fresh_blocks(&opened);
    let session = Session::ordinary(
        Arc::clone(fs.shared()),
        path.clone(),
        opened.id(),
        None,
        &info,
    );
    let features = om.features();
    let allowed = fs.config().expand(HSYNC_ENABLED)?.as_deref() == Some("true");
    let can_sync = features.knows_append() || (allowed && features.om_version >= HSYNC_SINCE);
    Ok(stream(session, fresh, admission, false, can_sync))
}

/// The blocks of an open file that are this writer's: those of the version that was opened.
fn fresh_blocks(opened: &append_wire::om::CreateFileResponse) -> Vec<KeyLocation> {
    let list = opened
        .key_info
        .as_ref()
        .and_then(|info| info.key_location_list.last());
    let all = list.map(|list| list.key_locations.as_slice());
    all.unwrap_or_default()
        .iter()
        .filter(|location| location.create_version() == opened.open_version())
        .cloned()
        .collect()
}

fn stream(
    session: Session,
    given: Vec<KeyLocation>,
    admission: &Admission,
    created: bool,
    can_sync: bool,
) -> WriteStream {
    let settings = &session.fs.settings;
    let sizes = Sizes {
        chunk: settings.chunk,
        held: settings.outstanding.saturating_sub(settings.chunk).max(1),
        block: admission.block_size.max(1),
        patience: settings.call_timeout,
    };
    let rules = ChunkRules {
        checksum_type: settings.checksum_type,
        bytes_per_checksum: settings.bytes_per_checksum,
        incremental: session.fs.om.features().knows_append(),
        timeout: settings.datanode_timeout,
    };
    WriteStream::new(Writer::new(session, given, sizes, rules), created, can_sync)
}

/// Says what a status leaves open: which part of the path is of the wrong kind.
async fn explain(fs: &FileSystem, path: &FsPath, error: Error) -> Error {
    match error.kind() {
        ErrorKind::IsDirectory => match fs.find(path).await {
            Ok(Some(status)) if status.directory => error,
            Ok(_) => error.with_kind(ErrorKind::NotADirectory),
            Err(_) => error,
        },
        _ => error,
    }
}
