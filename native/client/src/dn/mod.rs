//! Datanodes: which of a block's members to talk to, the connections to them, and single requests.
//!
//! A datanode is known by id and address. What its answers mean for a file is decided by readers and writers.

mod line;
mod pipe;
mod stream;

pub(crate) use line::{SMALL, exchange};
pub(crate) use pipe::{Pipe, Reply};

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use append_wire::datanode::xceiver_client_protocol_service_client::XceiverClientProtocolServiceClient;
use append_wire::datanode::{
    ContainerCommandRequestProto, ContainerCommandResponseProto, DatanodeBlockId, Result as Code,
    Type,
};
use append_wire::hdds::{DatanodeDetailsProto, Pipeline, Uuid};
use append_wire::om::KeyLocation;
use bytes::Bytes;
use tonic::transport::{Channel, Endpoint};

use crate::Result;
use crate::config::Settings;
use crate::error::{Error, ErrorKind};
use crate::runtime;

/// The port by whose name datanodes offer their gRPC service.
const PORT_NAME: &str = "STANDALONE";

/// The version that requests carry.
const VERSION: u32 = 3;

/// Largest message in either direction: the largest chunk and room for what is around it.
const MAX_MESSAGE: usize = 64 << 20;

const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Why a datanode did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum DnError {
    /// It could not be reached, did not answer in time, or broke off. It may have done it.
    #[error("datanode {node}: {why}")]
    Unreachable { node: String, why: String },
    /// It answered and refused.
    #[error("datanode {node}: {code}: {why}", code = code.as_str_name())]
    Refused {
        node: String,
        code: Code,
        why: String,
    },
}

impl DnError {
    /// The error for a caller who has no other replica to turn to.
    pub(crate) fn into_error(self) -> Error {
        let kind = match &self {
            DnError::Unreachable { .. } => ErrorKind::Connect,
            DnError::Refused { code, .. } => match code {
                Code::NoSuchBlock | Code::ContainerNotFound | Code::ContainerMissing => {
                    ErrorKind::NotFound
                }
                Code::ChecksumMismatch => ErrorKind::Checksum,
                Code::DiskOutOfSpace => ErrorKind::NoSpace,
                Code::BlockTokenVerificationFailed => ErrorKind::PermissionDenied,
                Code::UnsupportedRequest => ErrorKind::Unsupported,
                _ => ErrorKind::Io,
            },
        };
        Error::new(kind, self.to_string())
    }
}

/// All datanodes that this client has met.
#[derive(Debug)]
pub(crate) struct Datanodes {
    nodes: Mutex<HashMap<(String, String, bool), Arc<Datanode>>>,
    connections: usize,
    connect_timeout: Duration,
    request_timeout: Duration,
}

/// One datanode. Connections are made when they are needed.
#[derive(Debug)]
pub(crate) struct Datanode {
    id: String,
    address: String,
    channels: Vec<Channel>,
    next: AtomicUsize,
    connect_timeout: Duration,
    timeout: Duration,
    /// For one that advertises them.
    lines: Option<line::Lines>,
}

/// A block as a datanode is asked about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockAddress {
    pub(crate) container: i64,
    pub(crate) local: i64,
    pub(crate) bcsid: u64,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) token: Option<String>,
}

impl Datanodes {
    pub(crate) fn new(settings: &Settings) -> Datanodes {
        Datanodes {
            nodes: Mutex::default(),
            connections: settings.datanode_connections,
            connect_timeout: settings.connect_timeout,
            request_timeout: settings.datanode_timeout,
        }
    }

    /// The members of a pipeline, nearest first.
    pub(crate) fn members(&self, pipeline: &Pipeline) -> Result<Vec<Arc<Datanode>>> {
        if pipeline.members.is_empty() {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "no datanode is known that has the block",
            ));
        }
        let mut order: Vec<usize> = pipeline
            .member_orders
            .iter()
            .filter_map(|index| usize::try_from(*index).ok())
            .filter(|index| *index < pipeline.members.len())
            .collect();
        for index in 0..pipeline.members.len() {
            if !order.contains(&index) {
                order.push(index);
            }
        }
        order
            .into_iter()
            .filter_map(|index| pipeline.members.get(index))
            .map(|member| self.node(member))
            .collect()
    }

    fn node(&self, details: &DatanodeDetailsProto) -> Result<Arc<Datanode>> {
        let id = datanode_id(details);
        let address = address(details)?;
        let key = (id, address, details.framed());
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(&key) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(self.make(&key.0, &key.1, key.2)?);
        nodes.insert(key, Arc::clone(&node));
        Ok(node)
    }

    fn make(&self, id: &str, address: &str, framed: bool) -> Result<Datanode> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|e| Error::new(ErrorKind::Protocol, format!("datanode {address}: {e}")))?
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        // The tasks of a channel live where it is made.
        let _entered = runtime::handle()?.enter();
        Ok(Datanode {
            id: id.to_owned(),
            address: address.to_owned(),
            channels: (0..self.connections)
                .map(|_| endpoint.connect_lazy())
                .collect(),
            next: AtomicUsize::new(0),
            connect_timeout: self.connect_timeout,
            timeout: self.request_timeout,
            lines: framed.then(line::Lines::default),
        })
    }
}

impl Datanode {
    /// The id under which servers know it.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// One of the connections, in turn.
    fn channel(&self) -> Option<Channel> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.channels.len().max(1);
        self.channels.get(at).cloned()
    }

    fn client(&self) -> Option<XceiverClientProtocolServiceClient<Channel>> {
        Some(
            XceiverClientProtocolServiceClient::new(self.channel()?)
                .max_decoding_message_size(MAX_MESSAGE)
                .max_encoding_message_size(MAX_MESSAGE),
        )
    }

    /// Whether small requests have a shorter way than gRPC.
    pub(crate) fn has_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// A request about a block, its payload unset.
    pub(crate) fn request(&self, kind: Type, block: &BlockAddress) -> ContainerCommandRequestProto {
        ContainerCommandRequestProto {
            cmd_type: kind.into(),
            container_id: block.container,
            datanode_uuid: self.id.clone(),
            pipeline_id: pipeline_id(&block.pipeline),
            encoded_token: block.token.clone(),
            version: Some(VERSION),
            ..ContainerCommandRequestProto::default()
        }
    }

    /// Sends one request and waits for its answer.
    pub(crate) async fn call(
        &self,
        request: ContainerCommandRequestProto,
    ) -> std::result::Result<ContainerCommandResponseProto, DnError> {
        let work = async {
            let mut client = self
                .client()
                .ok_or_else(|| self.unreachable("no connection"))?;
            let answers = client
                .send(tokio_stream::once(request))
                .await
                .map_err(|status| self.unreachable(status.message()))?;
            let answer = answers
                .into_inner()
                .message()
                .await
                .map_err(|status| self.unreachable(status.message()))?
                .ok_or_else(|| self.unreachable("no answer"))?;
            self.judge(answer)
        };
        tokio::time::timeout(self.timeout, work)
            .await
            .unwrap_or_else(|_| Err(self.unreachable("no answer in time")))
    }

    fn unreachable(&self, why: impl Into<String>) -> DnError {
        DnError::Unreachable {
            node: self.address.clone(),
            why: why.into(),
        }
    }

    fn judge(
        &self,
        answer: ContainerCommandResponseProto,
    ) -> std::result::Result<ContainerCommandResponseProto, DnError> {
        match Code::try_from(answer.result) {
            Ok(Code::Success) => Ok(answer),
            Ok(code) => Err(DnError::Refused {
                node: self.address.clone(),
                code,
                why: answer.message().to_owned(),
            }),
            Err(_) => Err(DnError::Refused {
                node: self.address.clone(),
                code: Code::MalformedRequest,
                why: format!("unknown result {}: {}", answer.result, answer.message()),
            }),
        }
    }
}

impl BlockAddress {
    /// The address in a location of the OM.
    pub(crate) fn of(location: &KeyLocation) -> BlockAddress {
        let id = &location.block_id;
        BlockAddress {
            container: id.container_block_id.container_id,
            local: id.container_block_id.local_id,
            bcsid: id.block_commit_sequence_id(),
            pipeline: Arc::new(location.pipeline.clone().unwrap_or_default()),
            token: location.token.as_ref().map(token),
        }
    }

    pub(crate) fn id(&self) -> DatanodeBlockId {
        DatanodeBlockId {
            container_id: self.container,
            local_id: self.local,
            block_commit_sequence_id: Some(self.bcsid),
            replica_index: None,
        }
    }
}

fn pipeline_id(pipeline: &Pipeline) -> Option<String> {
    match &pipeline.id.uuid128 {
        Some(uuid) => Some(uuid_text(uuid)),
        None => pipeline.id.id.clone(),
    }
}

/// Readers take `id`, then `uuid128`, then `uuid`.
fn datanode_id(details: &DatanodeDetailsProto) -> String {
    match (&details.id, &details.uuid128, &details.uuid) {
        (Some(id), _, _) => uuid_text(&id.uuid),
        (None, Some(uuid), _) => uuid_text(uuid),
        (None, None, Some(text)) => text.clone(),
        (None, None, None) => String::new(),
    }
}

fn uuid_text(wire: &Uuid) -> String {
    uuid::Uuid::from_u64_pair(
        wire.most_sig_bits.cast_unsigned(),
        wire.least_sig_bits.cast_unsigned(),
    )
    .to_string()
}

fn address(details: &DatanodeDetailsProto) -> Result<String> {
    let host = if details.ip_address.is_empty() {
        &details.host_name
    } else {
        &details.ip_address
    };
    let port = details
        .ports
        .iter()
        .find(|port| port.name == PORT_NAME)
        .map(|port| port.value)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Protocol,
                format!("datanode {host} has no port {PORT_NAME}"),
            )
        })?;
    if host.contains(':') {
        Ok(format!("[{host}]:{port}"))
    } else {
        Ok(format!("{host}:{port}"))
    }
}

/// Hadoop's text form of a token: URL-safe base64, without padding, of its four parts, each behind its length.
fn token(wire: &append_wire::common::TokenProto) -> String {
    let mut raw = Vec::new();
    let parts: [&[u8]; 4] = [
        &wire.identifier,
        &wire.password,
        wire.kind.as_bytes(),
        wire.service.as_bytes(),
    ];
    for part in parts {
        hadoop_length(part.len(), &mut raw);
        raw.extend_from_slice(part);
    }
    base64_url(&raw)
}

/// Hadoop's variable-length number, for lengths.
fn hadoop_length(length: usize, out: &mut Vec<u8>) {
    if length <= 127 {
        out.extend(u8::try_from(length));
        return;
    }
    let bytes = u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes();
    let significant = bytes.iter().skip_while(|byte| **byte == 0);
    let count = u8::try_from(significant.clone().count()).unwrap_or(8);
    out.push((-112_i8).cast_unsigned().wrapping_sub(count));
    out.extend(significant);
}

fn base64_url(raw: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(raw.len().div_ceil(3) * 4);
    for group in raw.chunks(3) {
        let mut bits = 0_u32;
        for index in 0..3 {
            bits = bits << 8 | u32::from(group.get(index).copied().unwrap_or(0));
        }
        for digit in 0..=group.len() {
            let value = bits >> (18 - 6 * digit) & 0x3f;
            if let Some(c) = usize::try_from(value).ok().and_then(|i| DIGITS.get(i)) {
                text.push(char::from(*c));
            }
        }
    }
    text
}

/// The bytes of an answer that may come in one piece or in many.
pub(crate) fn joined(buffers: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(buffers) {
        Ok([one]) => one,
        Err(many) => {
            let mut all = bytes::BytesMut::with_capacity(many.iter().map(Bytes::len).sum());
            for buffer in many {
                all.extend_from_slice(&buffer);
            }
            all.freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_wire::common::TokenProto;
    use append_wire::hdds::{DatanodeIdProto, Port};

    fn details(port: &str) -> DatanodeDetailsProto {
        DatanodeDetailsProto {
            ip_address: "10.0.0.7".to_owned(),
            host_name: "dn7".to_owned(),
            ports: vec![Port {
                name: port.to_owned(),
                value: 9859,
            }],
            ..DatanodeDetailsProto::default()
        }
    }

    #[test]
    fn a_datanode_is_where_its_grpc_port_is() {
        assert_eq!(address(&details("STANDALONE")).unwrap(), "10.0.0.7:9859");
        assert_eq!(
            address(&details("RATIS")).unwrap_err().kind(),
            ErrorKind::Protocol
        );
        let mut named = details("STANDALONE");
        named.ip_address.clear();
        assert_eq!(address(&named).unwrap(), "dn7:9859");
        named.host_name = "::1".to_owned();
        assert_eq!(address(&named).unwrap(), "[::1]:9859");
    }

    #[test]
    fn the_newest_form_of_an_id_wins() {
        let uuid = Uuid {
            most_sig_bits: -1,
            least_sig_bits: 1,
        };
        let mut node = details("STANDALONE");
        assert_eq!(datanode_id(&node), "");
        node.uuid = Some("text".to_owned());
        assert_eq!(datanode_id(&node), "text");
        node.uuid128 = Some(uuid);
        assert_eq!(datanode_id(&node), "ffffffff-ffff-ffff-0000-000000000001");
        node.id = Some(DatanodeIdProto {
            uuid: Uuid::default(),
        });
        assert_eq!(datanode_id(&node), "00000000-0000-0000-0000-000000000000");
    }

    #[test]
    fn the_nearest_member_comes_first_and_none_is_forgotten() {
        let settings = Settings::read(&crate::Config::empty()).unwrap();
        let nodes = Datanodes::new(&settings);
        let member = |id: i64| DatanodeDetailsProto {
            uuid128: Some(Uuid {
                most_sig_bits: 0,
                least_sig_bits: id,
            }),
            ..details("STANDALONE")
        };
        let mut pipeline = Pipeline {
            members: vec![member(0), member(1), member(2)],
            member_orders: vec![2, 9, 0],
            ..Pipeline::default()
        };
        let found = nodes.members(&pipeline).unwrap();
        let order: Vec<_> = found
            .iter()
            .map(|node| node.id().chars().last().unwrap())
            .collect();
        assert_eq!(order, ['2', '0', '1']);
        assert!(Arc::ptr_eq(
            &found[0],
            &nodes.members(&pipeline).unwrap()[0]
        ));
        pipeline.members.clear();
        assert_eq!(
            nodes.members(&pipeline).unwrap_err().kind(),
            ErrorKind::Unavailable
        );
    }

    #[test]
    fn tokens_have_hadoops_text_form() {
        for (raw, text) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"\xff\xfe\xfd", "__79"),
        ] {
            assert_eq!(base64_url(raw), text);
        }
        let mut lengths = Vec::new();
        for length in [0, 127, 128, 300] {
            hadoop_length(length, &mut lengths);
        }
        assert_eq!(lengths, [0, 127, 0x8f, 128, 0x8e, 1, 44]);
        let wire = TokenProto {
            identifier: Bytes::from_static(b"id"),
            password: Bytes::from_static(b"pw"),
            kind: "K".to_owned(),
            service: String::new(),
        };
        assert_eq!(token(&wire), base64_url(b"\x02id\x02pw\x01K\x00"));
    }
}
