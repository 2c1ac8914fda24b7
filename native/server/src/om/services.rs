//! What the server says about itself, and the small commands beside the data.

use super::failure::Failure;
use super::{Listed, Om, done, node_id, render};
use crate::rpc::SMALL_ANSWER_BYTES;
use append_namespace::command::{KeyPath, LAYOUT_APPEND};
use append_namespace::read;
use append_namespace::view::Node;
use append_wire::hdds::NodeType;
use append_wire::om::ozone_obj::ObjectType;
use append_wire::om::service_port::Type as PortType;
use append_wire::om::{
    AppendFeature, EchoRpcRequest, EchoRpcResponse, FsServerDefaultsProto, GetAclRequest,
    GetAclResponse, OmRequest, OmResponse, OmRoleInfo, SafeMode, ServiceInfo, ServiceListResponse,
    ServicePort, SetSafeModeRequest, SetSafeModeResponse, Type,
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

/// What one entry of a listing has, about.
const ENTRY_BYTES: usize = 1 << 10;

/// What the answer about a file may have whose number of blocks the request does not tell.
const BLOCKS_BYTES: usize = 256 << 10;

/// What a listing has at most.
const LISTING_BYTES: usize = 4 << 20;

/// See [`crate::rpc::Service::answer_bytes`].
pub(super) fn answer_bytes(request: &OmRequest) -> usize {
    let entries = |count: u64| {
        usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_mul(ENTRY_BYTES)
            .clamp(SMALL_ANSWER_BYTES, LISTING_BYTES)
    };
    match request.cmd_type() {
        Type::EchoRpc => request
            .echo_rpc_request
            .as_ref()
            .map(|echo| echo.payload_size_resp().clamp(0, MAX_ECHO))
            .and_then(|bytes| usize::try_from(bytes).ok())
            .map_or(SMALL_ANSWER_BYTES, |bytes| bytes + SMALL_ANSWER_BYTES),
        Type::ListStatus | Type::ListStatusLight => entries(
            request
                .list_status_request
                .as_ref()
                .map_or(0, |list| list.num_entries),
        ),
        Type::ListKeys
        | Type::ListKeysLight
        | Type::ListBuckets
        | Type::ListVolume
        | Type::ListOpenFiles => LISTING_BYTES / 8,
        Type::LookupKey | Type::LookupFile | Type::GetKeyInfo | Type::RecoverLease => BLOCKS_BYTES,
        _ => SMALL_ANSWER_BYTES,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::{Consensus, LocalConsensus, Options};
    use crate::engine::Embedded;
    use crate::om::Advertised;
    use append_wire::om::ListStatusRequest;
    use std::sync::Arc;

    async fn listed(om: &Om) -> Vec<(String, String, u32, String)> {
        let response = om.service_list().await.unwrap();
        let services = response.service_list_response.unwrap().service_info;
        services
            .into_iter()
            .filter(|service| service.node_type() == NodeType::Om)
            .map(|om| {
                assert!(om.append.is_some());
                let role = om.om_role.unwrap();
                let port = om.service_ports[0].value;
                (role.node_id, om.hostname, port, role.server_role)
            })
            .collect()
    }

    #[tokio::test]
    async fn all_servers_of_a_group_are_named_and_the_asked_one_always() {
        let folder = tempfile::tempdir().unwrap();
        let consensus =
            LocalConsensus::open(&folder.path().join("om"), Options::default()).unwrap();
        let om = || {
            let advertised = Advertised {
                host: "me".to_owned(),
                rpc_port: 7,
                http_port: None,
            };
            let consensus = Arc::clone(&consensus) as Arc<dyn Consensus>;
            Om::new(consensus, Arc::new(Embedded::new(1, "d")), advertised)
        };
        let named = |id: &str, host: &str, port, role: &str| {
            (id.to_owned(), host.to_owned(), port, role.to_owned())
        };
        assert_eq!(listed(&om()).await, [named("om1", "me", 7, "LEADER")]);
        let other = |id, leads| Listed {
            id,
            host: format!("host{id}"),
            rpc_port: 9,
            leads,
        };
        // The address of the third is not known yet, nor its own to the second.
        let group = om().in_group(2, Arc::new(move || vec![other(1, true)]));
        assert_eq!(
            listed(&group).await,
            [
                named("om1", "host1", 9, "LEADER"),
                named("om2", "me", 7, "FOLLOWER")
            ]
        );
        let whole = om().in_group(
            2,
            Arc::new(move || vec![other(1, false), other(2, true), other(3, false)]),
        );
        let listed: Vec<_> = listed(&whole)
            .await
            .into_iter()
            .map(|(id, _, _, role)| (id, role))
            .collect();
        let role = |id: &str, role: &str| (id.to_owned(), role.to_owned());
        assert_eq!(
            listed,
            [
                role("om1", "FOLLOWER"),
                role("om2", "LEADER"),
                role("om3", "FOLLOWER")
            ]
        );
        consensus.shutdown();
    }

    #[test]
    fn the_size_of_an_answer_is_guessed_within_bounds() {
        let echo = |bytes| OmRequest {
            cmd_type: Type::EchoRpc.into(),
            echo_rpc_request: Some(Box::new(EchoRpcRequest {
                payload_size_resp: Some(bytes),
                ..EchoRpcRequest::default()
            })),
            ..OmRequest::default()
        };
        assert!(answer_bytes(&echo(8 << 20)) >= 8 << 20);
        for odd in [-1, i32::MIN, 0] {
            assert_eq!(answer_bytes(&echo(odd)), SMALL_ANSWER_BYTES);
        }
        assert!(answer_bytes(&echo(i32::MAX)) < 64 << 20);
        let list = OmRequest {
            cmd_type: Type::ListStatus.into(),
            list_status_request: Some(Box::new(ListStatusRequest {
                num_entries: u64::MAX,
                ..ListStatusRequest::default()
            })),
            ..OmRequest::default()
        };
        assert_eq!(answer_bytes(&list), LISTING_BYTES);
        assert_eq!(answer_bytes(&OmRequest::default()), SMALL_ANSWER_BYTES);
    }
}
