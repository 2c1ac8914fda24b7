//! What an operator sets: addresses, the data folder, and the keys of `ozone-site.xml` under Ozone's names.
//!
//! Reads text, opens nothing. A value that does not parse is an error that names its key; a key that nothing reads is kept for
//! `/conf` and otherwise ignored, as Hadoop does.

mod effective;
mod group;
mod site;
mod value;

pub use effective::{Entry, REDACTED};
pub use group::GroupSettings;

use crate::consensus;
use crate::rpc::{MAX_FRAME_BYTES, RpcLimits};
use append_namespace::command::Limits;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The port of Hadoop RPC and gRPC: Ozone's.
pub const DEFAULT_PORT: u16 = 9862;
/// The port of health, metrics and configuration: Ozone's.
pub const DEFAULT_HTTP_PORT: u16 = 9874;

/// A leader shows that it lives four times a second.
const HEARTBEAT: Duration = Duration::from_millis(250);
/// What a few minutes of appends write.
const LOG_KEPT: u64 = 10_000;
/// Another leader after about two seconds of silence.
const ELECTION: Duration = Duration::from_millis(1_200);

/// The file of a configuration folder that is read.
const SITE_FILE: &str = "ozone-site.xml";

/// Keys that are read, under Ozone's or Hadoop's name where they have the thing, else under `libappend.`.
pub mod keys {
    /// Whether new append sessions are admitted.
    pub const APPEND_ENABLED: &str = "ozone.om.append.enabled";
    /// Lease time without renewal after which a session may be recovered.
    pub const SOFT_LIMIT: &str = "ozone.om.lease.soft.limit";
    /// Lease time after which background cleanup ends a session.
    pub const HARD_LIMIT: &str = "ozone.om.lease.hard.limit";
    /// Lease time without a call after which an ordinary writer is ended.
    pub const OPEN_EXPIRE: &str = "ozone.om.open.key.expire.threshold";
    /// Block size told to writers.
    pub const BLOCK_SIZE: &str = "ozone.scm.block.size";
    /// Bytes of one frame at most.
    pub const FRAME_BYTES: &str = "ipc.maximum.data.length";
    /// Blocks that one file may have.
    pub const MAX_BLOCKS: &str = "libappend.om.file.blocks.max";
    /// How long decided answers are kept for retries, in lease time.
    pub const DEDUPE_RETENTION: &str = "libappend.om.retry.retention";
    /// Decided answers kept at most.
    pub const DEDUPE_MAX: &str = "libappend.om.retry.entries.max";
    /// Sessions in one renewal at most.
    pub const RENEW_BATCH: &str = "libappend.om.lease.renew.batch.max";
    /// Bytes after which the log begins a new file.
    pub const SEGMENT_BYTES: &str = "libappend.om.log.segment.bytes";
    /// Bytes after which the datanode begins a new container file.
    pub const CONTAINER_BYTES: &str = "libappend.datanode.container.bytes";
    /// Calls of one connection in flight.
    pub const CALLS: &str = "libappend.rpc.calls.per.connection";
    /// Connections at once.
    pub const CONNECTIONS: &str = "libappend.rpc.connections.max";
    /// The number of this server in its group.
    pub const SERVER_ID: &str = "libappend.om.server.id";
    /// `NUMBER=HOST:PORT,...`: where the servers of the group reach each other.
    pub const PEERS: &str = "libappend.om.peers";
    /// Time between signs of life of the leader.
    pub const HEARTBEAT: &str = "libappend.om.group.heartbeat";
    /// Most silence of a leader beyond its lease before another server wants to lead; also the lease.
    pub const ELECTION: &str = "libappend.om.group.election.timeout";
    /// `HOST:PORT,...` of the datanodes that blocks are placed on, instead of one in the server's own process.
    pub const DATANODES: &str = "libappend.datanodes";
    /// Entries of the log that a server of a group keeps behind a checkpoint.
    pub const LOG_KEPT: &str = "libappend.om.group.log.kept";
    /// Bytes of log after which a checkpoint is taken.
    pub const CHECKPOINT_BYTES: &str = "libappend.om.checkpoint.log.bytes";
}

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is there and cannot be read.
    #[error("{path} cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// The file is not Hadoop's XML.
    #[error("{path} is not a configuration file: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// A value that its key cannot have.
    #[error("{key} = {value:?}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it should be.
        reason: String,
    },
    /// The part in a group is incomplete.
    #[error("{0}")]
    Group(String),
    /// A listener that others could reach, though callers are not authenticated.
    #[error(
        "{address} can be reached from other machines, and callers are not authenticated: listen on 127.0.0.1, or say --insecure"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
}

/// Limits of the rules that the operator sets; what is not set stays as it is in the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// See [`Limits::append_enabled`].
    pub append_enabled: Option<bool>,
    /// See [`Limits::soft_limit_ms`].
    pub soft_limit_ms: Option<u64>,
    /// See [`Limits::hard_limit_ms`].
    pub hard_limit_ms: Option<u64>,
    /// See [`Limits::block_size`].
    pub block_size: Option<u64>,
    /// See [`Limits::max_blocks_per_file`].
    pub max_blocks_per_file: Option<u64>,
    /// See [`Limits::dedupe_retention_ms`].
    pub dedupe_retention_ms: Option<u64>,
    /// See [`Limits::dedupe_max`].
    pub dedupe_max: Option<u64>,
    /// See [`Limits::max_renew_batch`].
    pub max_renew_batch: Option<u32>,
    /// See [`Limits::open_expire_ms`].
    pub open_expire_ms: Option<u64>,
}

impl LimitSettings {
    /// `limits` with what is set here.
    #[must_use]
    pub fn over(&self, limits: Limits) -> Limits {
        Limits {
            soft_limit_ms: self.soft_limit_ms.unwrap_or(limits.soft_limit_ms),
            hard_limit_ms: self.hard_limit_ms.unwrap_or(limits.hard_limit_ms),
            max_blocks_per_file: self
                .max_blocks_per_file
                .unwrap_or(limits.max_blocks_per_file),
            dedupe_retention_ms: self
                .dedupe_retention_ms
                .unwrap_or(limits.dedupe_retention_ms),
            dedupe_max: self.dedupe_max.unwrap_or(limits.dedupe_max),
            append_enabled: self.append_enabled.unwrap_or(limits.append_enabled),
            block_size: self.block_size.unwrap_or(limits.block_size),
            max_renew_batch: self.max_renew_batch.unwrap_or(limits.max_renew_batch),
            open_expire_ms: self.open_expire_ms.or(limits.open_expire_ms),
        }
    }
}

/// Ends the process at once: what it could still answer may not be kept.
fn end_process(reason: &str) {
    tracing::error!(reason, "the process ends");
    eprintln!("append: fatal: {reason}");
    std::process::exit(1);
}

/// How a server is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder that holds everything: log, rows, checkpoints, blocks. Made when it is missing.
    pub data: PathBuf,
    /// Where Hadoop RPC and gRPC are served. Port 0: any free one.
    pub listen: SocketAddr,
    /// Where gRPC alone is served, for clients that are configured with a port of its own.
    pub grpc_listen: Option<SocketAddr>,
    /// Where health, metrics and configuration are served.
    pub http_listen: Option<SocketAddr>,
    /// Listeners that other machines reach are allowed, although nobody is authenticated.
    pub insecure: bool,
    /// The host that clients are told; without it the address of `listen`, or this machine's name when that is a wildcard.
    pub advertise: Option<String>,
    /// Limits of the rules.
    pub limits: LimitSettings,
    /// Limits of the listeners.
    pub rpc: RpcLimits,
    /// Settings of log, rows and checkpoints. Its `on_fatal` is also called when the datanode can promise nothing any more.
    pub consensus: consensus::Options,
    /// Bytes after which the datanode begins a new container file.
    pub container_bytes: u64,
    /// The part in a group; without one the server is alone, with a datanode in its own process.
    pub group: GroupSettings,
    /// `host:port` of the datanodes that blocks are placed on; without any, a server that is alone has one in its own process.
    pub datanodes: Vec<String>,
    /// Time between signs of life of the group's leader.
    pub heartbeat: Duration,
    /// Most silence of the group's leader beyond its lease, and its lease.
    pub election: Duration,
    /// Entries that a server of a group keeps behind a checkpoint, for others that come back soon.
    pub log_kept: u64,
    given: BTreeMap<String, String>,
}

impl Options {
    /// Ozone's ports on the loopback, starting limits, data in `data`.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>) -> Options {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Options {
            data: data.into(),
            listen: loopback(DEFAULT_PORT),
            grpc_listen: None,
            http_listen: Some(loopback(DEFAULT_HTTP_PORT)),
            insecure: false,
            advertise: None,
            limits: LimitSettings::default(),
            rpc: RpcLimits::default(),
            consensus: consensus::Options {
                on_fatal: Arc::new(end_process),
                ..consensus::Options::default()
            },
            container_bytes: append_datanode::StoreOptions::default().roll_bytes,
            group: GroupSettings::default(),
            datanodes: Vec::new(),
            heartbeat: HEARTBEAT,
            election: ELECTION,
            log_kept: LOG_KEPT,
            given: BTreeMap::new(),
        }
    }

    /// As [`Options::new`], on any free ports.
    #[must_use]
    pub fn any_port(data: impl Into<PathBuf>) -> Options {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Options {
            listen: any,
            http_listen: Some(any),
            ..Options::new(data)
        }
    }

    /// Takes the keys of `ozone-site.xml` in `folder`, if it is there.
    ///
    /// # Errors
    /// [`ConfigError`] for a file that cannot be read, is no configuration, or has a value that its key cannot have.
    pub fn read_folder(&mut self, folder: &Path) -> Result<(), ConfigError> {
        let path = folder.join(SITE_FILE);
        let shown = path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(ConfigError::Unreadable {
                    path: shown,
                    reason: error.to_string(),
                });
            }
        };
        let properties = site::parse(&text).map_err(|reason| ConfigError::Malformed {
            path: shown,
            reason,
        })?;
        for (key, value) in properties {
            self.set(&key, &value)?;
        }
        Ok(())
    }

    /// Sets one key, as `ozone-site.xml` would.
    ///
    /// # Errors
    /// [`ConfigError::Value`] when the key is read and cannot have the value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        self.read(key, value.trim())
            .map_err(|reason| ConfigError::Value {
                key: key.to_owned(),
                value: value.to_owned(),
                reason,
            })?;
        self.given.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            keys::APPEND_ENABLED => self.limits.append_enabled = Some(value::boolean(value)?),
            keys::SOFT_LIMIT => {
                self.limits.soft_limit_ms = Some(value::positive(value::millis(value)?)?)
            }
            keys::HARD_LIMIT => {
                self.limits.hard_limit_ms = Some(value::positive(value::millis(value)?)?)
            }
            keys::OPEN_EXPIRE => {
                self.limits.open_expire_ms = Some(value::positive(value::millis(value)?)?)
            }
            keys::BLOCK_SIZE => {
                self.limits.block_size = Some(value::positive(value::bytes(value)?)?)
            }
            keys::MAX_BLOCKS => {
                self.limits.max_blocks_per_file = Some(value::positive(value::count(value)?)?)
            }
            keys::DEDUPE_RETENTION => {
                self.limits.dedupe_retention_ms = Some(value::positive(value::millis(value)?)?);
            }
            keys::DEDUPE_MAX => {
                self.limits.dedupe_max = Some(value::positive(value::count(value)?)?)
            }
            keys::RENEW_BATCH => {
                self.limits.max_renew_batch = Some(value::narrow(value::count(value)?)?)
            }
            keys::FRAME_BYTES => {
                let bytes: usize = value::narrow(value::bytes(value)?)?;
                if bytes > MAX_FRAME_BYTES {
                    return Err(format!("at most {MAX_FRAME_BYTES} bytes"));
                }
                self.rpc.frame_bytes = bytes;
            }
            keys::SEGMENT_BYTES => {
                self.consensus.segment_bytes = value::positive(value::bytes(value)?)?;
            }
            keys::CONTAINER_BYTES => {
                self.container_bytes = value::positive(value::bytes(value)?)?;
            }
            keys::SERVER_ID => self.group.id = value::positive(value::count(value)?)?,
            keys::PEERS => self.group.peers = group::peers(value)?,
            keys::DATANODES => self.datanodes = group::addresses(value)?,
            keys::HEARTBEAT => {
                self.heartbeat = Duration::from_millis(value::positive(value::millis(value)?)?);
            }
            keys::ELECTION => {
                self.election = Duration::from_millis(value::positive(value::millis(value)?)?);
            }
            keys::LOG_KEPT => self.log_kept = value::count(value)?,
            keys::CHECKPOINT_BYTES => {
                self.consensus.checkpoint_log_bytes = value::positive(value::bytes(value)?)?;
            }
            keys::CALLS => self.rpc.calls_per_connection = value::narrow(value::count(value)?)?,
            keys::CONNECTIONS => self.rpc.connections = value::narrow(value::count(value)?)?,
            _ => {}
        }
        Ok(())
    }

    /// Refuses a part in a group that is incomplete, and listeners that others reach, unless `insecure` is said.
    ///
    /// # Errors
    /// [`ConfigError::Exposed`], [`ConfigError::Group`].
    pub fn check(&self) -> Result<(), ConfigError> {
        self.group.check().map_err(ConfigError::Group)?;
        if self.election < self.heartbeat * 2 {
            return Err(ConfigError::Group(format!(
                "{} must be at least twice {}",
                keys::ELECTION,
                keys::HEARTBEAT
            )));
        }
        let peers = if self.group.is_set() {
            Some(self.group.listen().map_err(ConfigError::Group)?)
        } else {
            None
        };
        let listeners = [Some(self.listen), self.grpc_listen, self.http_listen, peers];
        let exposed = listeners
            .into_iter()
            .flatten()
            .find(|address| !address.ip().is_loopback());
        match exposed {
            Some(address) if !self.insecure => Err(ConfigError::Exposed { address }),
            _ => Ok(()),
        }
    }

    /// The host that clients are told.
    #[must_use]
    pub fn host(&self) -> String {
        if let Some(host) = &self.advertise {
            return host.clone();
        }
        if !self.listen.ip().is_unspecified() {
            return self.listen.ip().to_string();
        }
        std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map(|name| name.trim().to_owned())
            .ok()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "localhost".to_owned())
    }
}

#[cfg(test)]
mod tests;
