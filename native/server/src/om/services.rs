//! What the server says about itself, and the small commands beside the data.

use super::failure::Failure;
use super::{Listed, Om, done, node_id, render};
use append_namespace::command::{KeyPath, LAYOUT_APPEND};
use append_namespace::read;
use append_namespace::view::Node;
use append_wire::hdds::NodeType;
use append_wire::om::ozone_obj::ObjectType;
use append_wire::om::service_port::Type as PortType;
use append_wire::om::{
    AppendFeature, EchoRpcRequest, EchoRpcResponse, FsServerDefaultsProto, GetAclRequest,
    GetAclResponse, OmResponse, OmRoleInfo, SafeMode, ServiceInfo, ServiceListResponse,
    ServicePort, SetSafeModeRequest, SetSafeModeResponse,
};

/// The version of the ordinary API in Ozone's counting: up to creating only what is absent.
const OM_VERSION: i32 = 12;

/// The version of the append commands.
const APPEND_PROTOCOL: u32 = 1;

/// Parts of the soft limit after which a session is renewed.
const RENEWALS_PER_SOFT_LIMIT: u64 = 4;

/// Bytes that an echo answers at most.
const MAX_ECHO: i32 = 32 << 20;

impl Om {
    /// The servers of the group, and the block manager whose place they take: Ozone's Java client wants both in the list.
    ///
    /// What appending may do is told by the leader alone: a server that lags would tell of the past.
    pub(super) async fn service_list(&self) -> Result<OmResponse, Failure> {
        let finalized = read::layout(&*self.current().await?)? >= LAYOUT_APPEND;
        let limits = self.consensus.limits();
        let port = |kind: PortType, value: u16| ServicePort {
            r#type: kind.into(),
            value: value.into(),
        };
        let role = |server: &Listed| OmRoleInfo {
            node_id: node_id(server.id),
            server_role: if server.leads { "LEADER" } else { "FOLLOWER" }.to_owned(),
        };
        let om = |server: &Listed| ServiceInfo {
            node_type: NodeType::Om.into(),
            hostname: server.host.clone(),
            service_ports: std::iter::once(port(PortType::Rpc, server.rpc_port))
                .chain(
                    // Only this server's own is known to it.
                    self.advertised
                        .http_port
                        .filter(|_| server.id == self.id())
                        .map(|http| port(PortType::Http, http)),
                )
                .collect(),
            om_role: Some(role(server)),
            om_version: Some(OM_VERSION),
            server_defaults: Some(FsServerDefaultsProto::default()),
            append: Some(AppendFeature {
                supported: Some(true),
                finalized: Some(finalized),
                enabled: Some(limits.append_enabled),
                protocol_version: Some(APPEND_PROTOCOL),
                soft_limit_ms: Some(limits.soft_limit_ms),
                suggested_renew_ms: Some((limits.soft_limit_ms / RENEWALS_PER_SOFT_LIMIT).max(1)),
                max_renew_batch: Some(limits.max_renew_batch),
                max_blocks_per_file: Some(render::saturated(limits.max_blocks_per_file)),
            }),
        };
        let scm = ServiceInfo {
            node_type: NodeType::Scm.into(),
            hostname: self.advertised.host.clone(),
            service_ports: vec![port(PortType::Rpc, self.advertised.rpc_port)],
            ..ServiceInfo::default()
        };
        let answer = ServiceListResponse {
            service_info: self.servers().iter().map(om).chain([scm]).collect(),
            ..ServiceListResponse::default()
        };
        Ok(OmResponse {
            service_list_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn get_acl(&self, request: &GetAclRequest) -> Result<OmResponse, Failure> {
        let path = request.obj.path.trim_start_matches('/');
        let mut parts = path.splitn(3, '/');
        let mut next = || {
            parts
                .next()
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
        };
        let (volume, bucket, key) = (next(), next(), next());
        let acls = match (
            ObjectType::try_from(request.obj.res_type),
            volume,
            bucket,
            key,
        ) {
            (Ok(ObjectType::Volume), Some(volume), None, None) => {
                self.read(|rows| read::volume(rows, &volume)).await?.acls
            }
            (Ok(ObjectType::Bucket), Some(volume), Some(bucket), None) => {
                self.read(|rows| read::bucket(rows, &volume, &bucket))
                    .await?
                    .acls
            }
            (Ok(ObjectType::Key), Some(volume), Some(bucket), Some(key)) => {
                let path = KeyPath {
                    volume,
                    bucket,
                    key,
                };
                match self.read(|rows| read::status(rows, &path)).await? {
                    Node::File(file) => file.acls,
                    Node::Directory(directory) => directory.acls,
                    Node::BucketRoot => Vec::new(),
                }
            }
            (Ok(ObjectType::Prefix), ..) => {
                return Err(Failure::unsupported("prefix ACLs are not supported"));
            }
            _ => {
                return Err(Failure::invalid(format!(
                    "{} is not of the kind asked for",
                    request.obj.path
                )));
            }
        };
        let answer = GetAclResponse {
            acls: render::acl_infos(&acls),
        };
        Ok(OmResponse {
            get_acl_response: Some(Box::new(answer)),
            ..done()
        })
    }
}

pub(super) fn echo(request: &EchoRpcRequest) -> Result<OmResponse, Failure> {
    let size = request.payload_size_resp();
    let length = usize::try_from(size)
        .ok()
        .filter(|_| size <= MAX_ECHO)
        .ok_or_else(|| {
            Failure::invalid(format!("an echo answers 0 to {MAX_ECHO} bytes, not {size}"))
        })?;
    let answer = EchoRpcResponse {
        payload: Some(vec![0; length].into()),
    };
    Ok(OmResponse {
        echo_rpc_response: Some(Box::new(answer)),
        ..done()
    })
}

/// There is no safe mode: it can be asked about and is off.
pub(super) fn safe_mode(request: &SetSafeModeRequest) -> Result<OmResponse, Failure> {
    match SafeMode::try_from(request.safe_mode) {
        Ok(SafeMode::Get) => {
            let answer = SetSafeModeResponse {
                response: Some(false),
            };
            Ok(OmResponse {
                set_safe_mode_response: Some(Box::new(answer)),
                ..done()
            })
        }
        Ok(SafeMode::Enter | SafeMode::Leave | SafeMode::ForceExit) => {
            Err(Failure::unsupported("safe mode cannot be entered or left"))
        }
        Err(_) => Err(Failure::invalid("unknown action on safe mode")),
    }
}
