//! Every key that the client reads, with its default. Sizes take `KB`, `MB`, `GB` (powers of 1024), times `ms`, `s`, `m`, `h`.

/// Host and optional port of the OM, or the prefix of `<service>.<node>`. No default.
pub const OM_ADDRESS: &str = "ozone.om.address";
/// Names of OM groups, separated by commas. No default.
pub const OM_SERVICE_IDS: &str = "ozone.om.service.ids";
/// Prefix: names of the nodes of a group.
pub const OM_NODES: &str = "ozone.om.nodes";
/// Transport to the OM: a class name that ends with `GrpcOmTransportFactory` means gRPC, everything else Hadoop RPC.
pub const OM_TRANSPORT: &str = "ozone.om.transport.class";
/// Port of the OM's gRPC service, 8981.
pub const OM_GRPC_PORT: &str = "ozone.om.grpc.port";
/// Time-out of a connection attempt, 20 s.
pub const CONNECT_TIMEOUT: &str = "ipc.client.connect.timeout";
/// Longest answer of a server, 128 MB.
pub const MAX_RESPONSE: &str = "ipc.maximum.response.length";
/// An idle connection is pinged after this time, 1 minute.
pub const PING_INTERVAL: &str = "ipc.ping.interval";
/// How often all servers are tried, 500.
pub const FAILOVER_ATTEMPTS: &str = "ozone.client.failover.max.attempts";
/// Wait once all servers were tried, 2 s.
pub const FAILOVER_WAIT: &str = "ozone.client.wait.between.retries.millis";
/// How long one call may take with all its retries, 2 minutes.
pub const CALL_TIMEOUT: &str = "libappend.call.timeout";
/// How long one of several servers is listened to before another is asked, 5 s. Nothing else than the call's own time bounds a single one.
pub const ATTEMPT_TIMEOUT: &str = "libappend.om.attempt.timeout";
/// How long the result of a publication is asked for again when its answer was lost, 15 minutes, which is also the most.
pub const OUTCOME_TIMEOUT: &str = "libappend.outcome.timeout";
/// How long an append goes on, once the lease of the writer before it is over, to recover the file, 30 s.
pub const RECOVERY_BUDGET: &str = "libappend.recovery.budget";
/// Checksum of chunks: `CRC32C` (default), `CRC32` or `NONE`.
pub const CHECKSUM_TYPE: &str = "ozone.client.checksum.type";
/// Bytes of one checksum window, 16 KB.
pub const BYTES_PER_CHECKSUM: &str = "ozone.client.bytes.per.checksum";
/// Bytes of one chunk, which is also the buffer of a stream, 4 MB.
pub const STREAM_BUFFER: &str = "ozone.client.stream.buffer.size";
/// Unacknowledged bytes of one stream, 32 MB.
pub const STREAM_BUFFER_MAX: &str = "ozone.client.stream.buffer.max.size";
/// Bytes of one block, 256 MB. A server's allocation may be smaller.
pub const BLOCK_SIZE: &str = "ozone.scm.block.size";
/// Replication of new files if neither caller nor bucket says: copies, 1 or 3. Default: the server's choice.
pub const REPLICATION: &str = "ozone.replication";
/// Replication type of new files: `RATIS`, `STAND_ALONE`. Default: the server's choice.
pub const REPLICATION_TYPE: &str = "ozone.replication.type";
/// Layout of buckets that mkdir and create make: `FILE_SYSTEM_OPTIMIZED` (default), `LEGACY`, `OBJECT_STORE`.
pub const BUCKET_LAYOUT: &str = "ozone.client.fs.default.bucket.layout";
/// Entries of one page of a listing, 1024.
pub const LIST_PAGE: &str = "ozone.fs.listing.page.size";
/// Bytes that a sequential reader asks for ahead, 4 MB.
pub const READ_AHEAD: &str = "libappend.read.ahead.size";
/// Connections to one datanode, 2.
pub const DATANODE_CONNECTIONS: &str = "libappend.datanode.connections";
/// How long one request to a datanode may take, 30 s.
pub const DATANODE_TIMEOUT: &str = "libappend.datanode.timeout";
