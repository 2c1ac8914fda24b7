//! A writer as the OM knows it: gives it blocks, publishes what it wrote, ends it.

use std::sync::Arc;
use std::time::Instant;

use append_wire::hdds::{BlockId, ContainerBlockId, ExcludeListProto};
use append_wire::om::{
    AllocateBlockRequest, CommitKeyRequest, DeleteKeyRequest, KeyArgs, KeyInfo, KeyLocation, Type,
};

use crate::Result;
use crate::dn::BlockAddress;
use crate::error::{Error, ErrorKind};
use crate::filesystem::{Shared, key_args, without};
use crate::lease::Lease;
use crate::om::Effect;
use crate::path::FsPath;
use crate::status::{SessionHandle, from_wire};

/// A block of the writer that has bytes on its datanodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Location {
    pub(super) container: i64,
    pub(super) local: i64,
    pub(super) bcsid: u64,
    pub(super) length: u64,
}

/// Whether the writer goes on after a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publication {
    Hsync,
    Close,
}

/// Who the writer is for the OM.
#[derive(Debug)]
pub(super) enum Writer {
    /// An append session: addressed by its handle, renewed by the renewer.
    Append(Arc<Lease>),
    /// Ozone's ordinary writer: addressed by client id and path, and by its handle where the server gave one. With a handle it
    /// is found wherever its parents are by now, and can be ended.
    Ordinary {
        id: u64,
        handle: Option<SessionHandle>,
    },
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) fs: Arc<Shared>,
    pub(super) path: FsPath,
    pub(super) writer: Writer,
    /// Length of what was there before, in bytes.
    pub(super) start: u64,
    /// What requests for blocks and publications say of the key.
    pub(super) args: KeyArgs,
}

impl Session {
    pub(super) fn append(
        fs: Arc<Shared>,
        path: FsPath,
        lease: Arc<Lease>,
        start: u64,
        info: &KeyInfo,
    ) -> Session {
        Session {
            args: writer_args(&path, info),
            fs,
            path,
            writer: Writer::Append(lease),
            start,
        }
    }

    pub(super) fn ordinary(
        fs: Arc<Shared>,
        path: FsPath,
        id: u64,
        handle: Option<SessionHandle>,
        info: &KeyInfo,
    ) -> Session {
        Session {
            args: writer_args(&path, info),
            fs,
            path,
            writer: Writer::Ordinary { id, handle },
            start: 0,
        }
    }

    pub(super) fn id(&self) -> u64 {
        match &self.writer {
            Writer::Append(lease) => lease.handle.session,
            Writer::Ordinary { id, .. } => *id,
        }
    }

    pub(super) fn handle(&self) -> Option<SessionHandle> {
        match &self.writer {
            Writer::Append(lease) => Some(lease.handle),
            Writer::Ordinary { .. } => None,
        }
    }

    pub(super) fn is_append(&self) -> bool {
        matches!(self.writer, Writer::Append(_))
    }

    /// Fails once the session is known to be over.
    pub(super) fn check(&self) -> Result<()> {
        match &self.writer {
            Writer::Append(lease) => lease.check(),
            Writer::Ordinary { .. } => Ok(()),
        }
    }

    fn wire_handle(&self) -> Option<append_wire::om::AppendHandle> {
        let handle = match &self.writer {
            Writer::Append(lease) => Some(lease.handle),
            Writer::Ordinary { handle, .. } => *handle,
        };
        handle.map(from_wire::to_handle)
    }

    /// Whether the server can be told that the writer ends without more.
    pub(super) fn can_end(&self) -> bool {
        self.wire_handle().is_some()
    }

    /// Gets a block on datanodes other than these.
    pub(super) async fn allocate(
        &self,
        excluded: &[String],
        deadline: Option<Instant>,
    ) -> Result<KeyLocation> {
        let mut request = self.fs.om.request(Type::AllocateBlock);
        request.allocate_block_request = Some(Box::new(AllocateBlockRequest {
            key_args: self.args.clone(),
            client_id: self.id(),
            exclude_list: Some(ExcludeListProto {
                datanodes: excluded.to_vec(),
                ..ExcludeListProto::default()
            }),
            key_location: None,
            append_handle: self.wire_handle(),
        }));
        let call = match deadline {
            Some(deadline) => {
                self.fs
                    .om
                    .call_until(request, Effect::Change, deadline)
                    .await
            }
            None => self.fs.om.call(request, Effect::Change).await,
        };
        call.map_err(|error| self.judge(error))
            .map_err(|error| match error.kind() {
                // A block that was given and not heard of is the server's to free.
                ErrorKind::OutcomeUnknown => error.with_kind(ErrorKind::Timeout),
                _ => error,
            })?
            .allocate_block_response
            .and_then(|response| response.key_location)
            .ok_or_else(|| without("block"))
    }

    /// Publishes the file at a length. For an append session `blocks` begin at or before the last published one, for an
    /// ordinary writer they are all.
    pub(super) async fn publish(
        &self,
        blocks: &[Location],
        length: u64,
        publication: Publication,
    ) -> Result<()> {
        let mut args = self.args.clone();
        args.data_size = Some(length);
        args.key_locations = blocks.iter().map(location).collect();
        let mut request = self.fs.om.request(Type::CommitKey);
        request.commit_key_request = Some(Box::new(CommitKeyRequest {
            key_args: args,
            client_id: self.id(),
            hsync: (publication == Publication::Hsync).then_some(true),
            recovery: None,
            append_handle: self.wire_handle(),
        }));
        self.fs
            .om
            .decide(request)
            .await
            .map_err(|error| self.judge(error))?;
        Ok(())
    }

    /// Deletes what this session created, wherever it is now; of an ordinary writer that has published nothing, the writer.
    pub(super) async fn delete_created(&self) -> Result<()> {
        let mut request = self.fs.om.request(Type::DeleteKey);
        request.delete_key_request = Some(Box::new(DeleteKeyRequest {
            key_args: key_args(&self.path),
            append_handle: self.wire_handle(),
        }));
        self.fs.om.call(request, Effect::Change).await?;
        Ok(())
    }

    /// Fails if the session is over. Asks the server if nothing was heard of it for too long, as after the process was stopped.
    pub(super) async fn make_sure(&self) -> Result<()> {
        match &self.writer {
            Writer::Append(lease) => self.fs.renewer.make_sure(lease).await,
            Writer::Ordinary { .. } => Ok(()),
        }
    }

    /// The stream writes no more.
    pub(super) fn closing(&self) {
        if let Writer::Append(lease) = &self.writer {
            lease.closing();
        }
    }

    /// Nobody here will end the session, and the server may still hold it.
    pub(super) fn lose(&self) {
        if let Writer::Append(lease) = &self.writer {
            self.fs.renewer.lose(lease.handle.session);
        }
    }

    /// No renewal any more: the stream has ended, or will with this call.
    pub(super) fn let_go(&self) {
        if let Writer::Append(lease) = &self.writer {
            self.fs.renewer.forget(lease.handle.session);
        }
    }

    /// Names the session, and remembers its end.
    fn judge(&self, error: Error) -> Error {
        let over = matches!(error.kind(), ErrorKind::StaleSession | ErrorKind::NotFound);
        if let Writer::Append(lease) = &self.writer
            && over
        {
            let error = error.about_file(lease.handle.file);
            lease.end(error.kind(), error.text());
            self.let_go();
            return error.with_session(self.id());
        }
        error.with_session(self.id())
    }
}

/// A writer's requests repeat the key's replication.
fn writer_args(path: &FsPath, info: &KeyInfo) -> KeyArgs {
    KeyArgs {
        r#type: Some(info.r#type),
        factor: info.factor,
        ec_replication_config: info.ec_replication_config.clone(),
        ..key_args(path)
    }
}

fn location(block: &Location) -> KeyLocation {
    KeyLocation {
        block_id: BlockId {
            container_block_id: ContainerBlockId {
                container_id: block.container,
                local_id: block.local,
            },
            block_commit_sequence_id: Some(block.bcsid),
        },
        offset: 0,
        length: block.length,
        ..KeyLocation::default()
    }
}

impl Location {
    pub(super) fn of(address: &BlockAddress, bcsid: u64, length: u64) -> Location {
        Location {
            container: address.container,
            local: address.local,
            bcsid,
            length,
        }
    }
}
