//! Ozone's messages to commands and reads, and their outcomes back. Decides nothing: what may be done is said by the rules, and a
//! refusal of theirs is told by one table, [`status`].
//!
//! Every answer of an error names the path and the request. What is not built is refused by name, with NOT_SUPPORTED_OPERATION.

mod buckets;
mod call;
pub mod duties;
mod failure;
mod files;
mod list;
mod locate;
mod lookup;
mod recovery;
mod render;
mod services;
mod sessions;
pub mod status;
mod translate;
mod tree;
mod volumes;

use crate::consensus::{Consensus, View};
use crate::engine::BlockEngine;
use crate::rpc::{Caller, Raise, Service, Submitted};
use append_namespace::command::{Command, Request};
use append_namespace::read::ReadResult;
use append_namespace::reply::Answer;
use append_namespace::rows::Rows;
use append_wire::om::{OmRequest, OmResponse, Status, Type};
use call::Call;
use failure::Failure;
use std::sync::Arc;
use std::time::Instant;

/// The number of a server that is alone: one node is a group of one.
const ALONE: u64 = 1;

/// A server of the group, as ServiceList names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its number; it is called `om` and this number, as hints to the leader call it.
    pub id: u64,
    /// The host that clients reach.
    pub host: String,
    /// The port of Hadoop RPC and gRPC.
    pub rpc_port: u16,
    /// It leads, as far as is known.
    pub leads: bool,
}

/// The servers of the group as of now, those left out whose address for clients is not known.
pub type Roster = Arc<dyn Fn() -> Vec<Listed> + Send + Sync>;

/// The part of this server in a group.
struct Part {
    id: u64,
    roster: Roster,
}

/// The name of the server with a number.
fn node_id(id: u64) -> String {
    format!("om{id}")
}

/// Where clients reach this server, as ServiceList says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// The host.
    pub host: String,
    /// The port of Hadoop RPC and gRPC.
    pub rpc_port: u16,
    /// The port of health and metrics, if they are served.
    pub http_port: Option<u16>,
}

/// The OM's one method over the consensus and the block engine.
pub struct Om {
    consensus: Arc<dyn Consensus>,
    engine: Arc<dyn BlockEngine>,
    advertised: Advertised,
    part: Option<Part>,
}

impl Om {
    /// An OM that proposes to `consensus` and takes holders of blocks from `engine`.
    pub fn new(
        consensus: Arc<dyn Consensus>,
        engine: Arc<dyn BlockEngine>,
        advertised: Advertised,
    ) -> Om {
        Om {
            consensus,
            engine,
            advertised,
            part: None,
        }
    }

    /// The same as server `id` of a group, whose servers `roster` tells.
    #[must_use]
    pub fn in_group(self, id: u64, roster: Roster) -> Om {
        Om {
            part: Some(Part { id, roster }),
            ..self
        }
    }

    /// The number of this server.
    fn id(&self) -> u64 {
        self.part.as_ref().map_or(ALONE, |part| part.id)
    }

    /// All servers of the group, this one among them.
    fn servers(&self) -> Vec<Listed> {
        let me = Listed {
            id: self.id(),
            host: self.advertised.host.clone(),
            rpc_port: self.advertised.rpc_port,
            leads: self.part.is_none(),
        };
        let Some(part) = &self.part else {
            return vec![me];
        };
        let mut servers = (part.roster)();
        if !servers.iter().any(|server| server.id == me.id) {
            servers.push(me);
        }
        servers
    }

    async fn serve(&self, caller: Caller, mut request: OmRequest) -> Result<OmResponse, Raise> {
        let started = Instant::now();
        let number = request.cmd_type;
        let command = Type::try_from(number).unwrap_or(Type::UnknownCommand);
        let trace_id = request.trace_id.clone();
        let call = Call::new(caller, &mut request);
        let result = match &call {
            Ok(call) => self.dispatch(call, command, request).await,
            Err(_) => Err(Failure::invalid("the invocation id does not have 16 bytes")),
        };
        let (subject, request_id) = match &call {
            Ok(call) => (call.subject.as_str(), call.request_id.as_str()),
            Err(bad) => ("", bad.request_id.as_str()),
        };
        let answered = result.or_else(|failure| failure::answer(failure, subject, request_id));
        let outcome = match &answered {
            Ok(response) => response.status().as_str_name(),
            Err(Raise::NotLeader(_)) => "NOT_LEADER",
            Err(Raise::NotReady(_)) => "COME_AGAIN",
            Err(Raise::Disconnect(_)) => "OUTCOME_UNKNOWN",
        };
        let name = command.as_str_name();
        metrics::counter!("append_om_requests_total", "command" => name, "outcome" => outcome)
            .increment(1);
        metrics::histogram!("append_om_request_seconds", "command" => name)
            .record(started.elapsed());
        tracing::debug!(
            command = name,
            number,
            subject,
            request_id,
            outcome,
            "served"
        );
        answered.map(|response| OmResponse {
            cmd_type: number,
            trace_id,
            leader_om_node_id: Some(node_id(self.id())),
            ..response
        })
    }

    async fn dispatch(
        &self,
        call: &Call,
        command: Type,
        request: OmRequest,
    ) -> Result<OmResponse, Failure> {
        let r = request;
        match command {
            Type::ServiceList => self.service_list().await,
            Type::EchoRpc => services::echo(&body(r.echo_rpc_request)?),
            Type::SetSafeMode => services::safe_mode(&body(r.set_safe_mode_request)?),
            Type::GetAcl => self.get_acl(&body(r.get_acl_request)?).await,

            Type::CreateVolume => {
                self.create_volume(call, body(r.create_volume_request)?)
                    .await
            }
            Type::SetVolumeProperty => {
                self.set_volume(call, body(r.set_volume_property_request)?)
                    .await
            }
            Type::CheckVolumeAccess => {
                self.check_volume(&body(r.check_volume_access_request)?)
                    .await
            }
            Type::InfoVolume => self.info_volume(&body(r.info_volume_request)?).await,
            Type::DeleteVolume => {
                self.delete_volume(call, body(r.delete_volume_request)?)
                    .await
            }
            Type::ListVolume => self.list_volumes(call, body(r.list_volume_request)?).await,

            Type::CreateBucket => {
                self.create_bucket(call, body(r.create_bucket_request)?)
                    .await
            }
            Type::SetBucketProperty => {
                self.set_bucket(call, body(r.set_bucket_property_request)?)
                    .await
            }
            Type::InfoBucket => self.info_bucket(&body(r.info_bucket_request)?).await,
            Type::DeleteBucket => {
                self.delete_bucket(call, body(r.delete_bucket_request)?)
                    .await
            }
            Type::ListBuckets => self.list_buckets(body(r.list_buckets_request)?).await,

            Type::CreateKey => self.create_key(call, body(r.create_key_request)?).await,
            Type::CreateFile => self.create_file(call, body(r.create_file_request)?).await,
            Type::AllocateBlock => {
                self.allocate_block(call, body(r.allocate_block_request)?)
                    .await
            }
            Type::CommitKey => self.commit_key(call, body(r.commit_key_request)?).await,

            Type::LookupKey => self.lookup_key(body(r.lookup_key_request)?).await,
            Type::LookupFile => self.lookup_file(body(r.lookup_file_request)?).await,
            Type::GetKeyInfo => self.get_key_info(body(r.get_key_info_request)?).await,
            Type::GetFileStatus => self.get_file_status(body(r.get_file_status_request)?).await,
            Type::ListStatus => self.list_status(body(r.list_status_request)?).await,
            Type::ListStatusLight => self.list_status_light(body(r.list_status_request)?).await,
            Type::ListKeys => self.list_keys(body(r.list_keys_request)?).await,
            Type::ListKeysLight => self.list_keys_light(body(r.list_keys_request)?).await,

            Type::CreateDirectory => {
                self.create_directory(call, body(r.create_directory_request)?)
                    .await
            }
            Type::RenameKey => self.rename_key(call, body(r.rename_key_request)?).await,
            Type::RenameKeys => self.rename_keys(call, body(r.rename_keys_request)?).await,
            Type::DeleteKey => self.delete_key(call, body(r.delete_key_request)?).await,
            Type::DeleteKeys => self.delete_keys(call, body(r.delete_keys_request)?).await,
            Type::SetTimes => self.set_times(call, body(r.set_times_request)?).await,

            Type::AppendFile => self.append_file(call, body(r.append_file_request)?).await,
            Type::RenewAppendLeases => {
                self.renew_leases(call, body(r.renew_append_leases_request)?)
                    .await
            }
            Type::ListOpenFiles => self.list_open_files(body(r.list_open_files_request)?).await,
            Type::RecoverLease => {
                self.recover_lease(call, body(r.recover_lease_request)?)
                    .await
            }
            Type::FinalizeUpgrade => self.finalize(call).await,
            Type::FinalizeUpgradeProgress => self.finalization().await,

            Type::UnknownCommand => Err(Failure::unsupported(
                "this server does not know the command",
            )),
            other => Err(Failure::unsupported(format!(
                "{} is not supported",
                other.as_str_name()
            ))),
        }
    }

    /// Proposes a command and waits for its outcome.
    async fn propose(&self, call: &Call, command: Command) -> Result<Option<Answer>, Failure> {
        let request = Request {
            user: call.user.clone(),
            invocation: call.invocation.clone(),
            answered_below: call.answered_below,
            command: Some(command),
        };
        Ok(self.consensus.propose(request).await??.answer)
    }

    /// Rows that show every command answered before this call.
    async fn current(&self) -> Result<View, Failure> {
        Ok(self.consensus.read_barrier().await?)
    }

    /// A read of few rows, on the caller's thread.
    async fn read<T>(
        &self,
        read: impl FnOnce(&dyn Rows) -> ReadResult<T> + Send,
    ) -> Result<T, Failure> {
        let view = self.current().await?;
        Ok(read(&*view)??)
    }

    /// A read whose size its caller chose, on a thread that may block.
    async fn read_many<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Rows) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        sized_read(self.current().await?, true, read).await
    }
}

/// Reads from `view`: on the caller's thread, or, when the read is of `many` rows, on one that may block.
async fn sized_read<T: Send + 'static>(
    view: View,
    many: bool,
    read: impl FnOnce(&dyn Rows) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    if !many {
        return read(&*view);
    }
    match tokio::task::spawn_blocking(move || read(&*view)).await {
        Ok(result) => result,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Failure::Undecided(crate::consensus::ProposeError::Stopped)),
        },
    }
}

impl Service for Om {
    fn submit(&self, caller: Caller, request: OmRequest) -> Submitted<'_> {
        Box::pin(self.serve(caller, request))
    }

    fn answer_bytes(&self, request: &OmRequest) -> usize {
        services::answer_bytes(request)
    }
}

/// The payload that a command must have.
fn body<T>(payload: Option<Box<T>>) -> Result<T, Failure> {
    payload
        .map(|payload| *payload)
        .ok_or_else(|| Failure::invalid("the request has no payload for its command"))
}

/// A success, its payload to be filled in.
fn done() -> OmResponse {
    OmResponse {
        success: Some(true),
        status: Status::Ok.into(),
        ..OmResponse::default()
    }
}

/// The rules answered with something that the command does not have: a fault of this program, never of the caller.
fn unexpected(answer: Option<&Answer>) -> Failure {
    tracing::error!(?answer, "an outcome does not fit its command");
    Failure::Other {
        status: Status::InternalError,
        code: None,
        detail: "the outcome does not fit the command".to_owned(),
    }
}
