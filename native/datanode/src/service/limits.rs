//! The named limits of the datanode's service. Each bounds memory or time that a peer could otherwise
//! take from everybody else.

use std::time::Duration;

/// Longest message that is taken or sent, in bytes: a chunk of 32 MiB with its checksums and a piggybacked
/// chunk list. Clients set the same on their side.
pub const MAX_MESSAGE_LEN: usize = (32 << 20) + (1 << 20);

/// Bytes after which the answer to a read of many ranges ends; the client asks again for the rest.
pub const MAX_READ_BLOCKS_REPLY: u64 = 4 << 20;

/// Longest answer of a streamed block read, whatever the client asks for, in bytes.
pub(super) const MAX_READ_BLOCK_REPLY: u64 = 4 << 20;
/// Length of the answers of a streamed block read when the client does not say, in bytes.
pub(super) const DEFAULT_READ_BLOCK_REPLY: u64 = 1 << 20;
/// Most blocks in one answer to a listing, and about how many bytes.
pub(super) const MAX_LIST: usize = 1000;
pub(super) const MAX_LIST_BYTES: usize = 4 << 20;
/// Longest payload that an echo is asked to make, in bytes, and how long it may sleep.
pub(super) const MAX_ECHO: usize = 4 << 20;
pub(super) const MAX_ECHO_SLEEP: Duration = Duration::from_secs(10);

/// Answers of one stream that wait for their turn: commits that wait for the disk, mostly.
pub(super) const ANSWERS_WAITING: usize = 8;
/// How long an answer may wait for a client that does not take it; then its stream ends.
pub(super) const SLOW_CLIENT: Duration = Duration::from_secs(120);
/// Lines at once; one more is closed before it is greeted.
pub(crate) const LINES: usize = 64;
/// Time for the hello of a line, and for a frame from its first byte to its last.
pub(super) const LINE_HELLO: Duration = Duration::from_secs(10);
pub(super) const LINE_FRAME: Duration = Duration::from_secs(60);
/// How long a line may rest between two requests. Our client gives one up much sooner.
pub(super) const LINE_IDLE: Duration = Duration::from_secs(60);
/// Disk operations at a time, over all streams.
pub(super) const DISK_OPERATIONS: usize = 32;
/// Bytes of data in answers that no client has taken yet, over all streams, in KiB.
pub(super) const ANSWER_KIB: usize = 256 << 10;

/// Flow control and keep-alive of connections.
pub(crate) const STREAM_WINDOW: u32 = 4 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 8 << 20;
pub(crate) const FRAME_LEN: u32 = 256 << 10;
pub(crate) const STREAMS_PER_CONNECTION: u32 = 256;
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(30);
pub(crate) const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(20);
