//! The limits that the rules check. They are replicated, so nothing here may come from one server's configuration alone.

/// Named limits. Replicated, so that every replica refuses the same.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Limits {
    /// Lease time without renewal after which a session may be recovered, ms.
    #[prost(uint64, tag = "1")]
    pub soft_limit_ms: u64,
    /// Lease time after which background cleanup ends a session, ms.
    #[prost(uint64, tag = "2")]
    pub hard_limit_ms: u64,
    /// Blocks that one file may have.
    #[prost(uint64, tag = "3")]
    pub max_blocks_per_file: u64,
    /// Retention of decided answers, ms of lease time.
    #[prost(uint64, tag = "4")]
    pub dedupe_retention_ms: u64,
    /// Decided answers kept at most; beyond it admissions and namespace commands are told to come again.
    #[prost(uint64, tag = "5")]
    pub dedupe_max: u64,
    /// New append sessions are admitted.
    #[prost(bool, tag = "6")]
    pub append_enabled: bool,
    /// Block size told to writers, bytes.
    #[prost(uint64, tag = "7")]
    pub block_size: u64,
    /// Sessions in one renewal.
    #[prost(uint32, tag = "8")]
    pub max_renew_batch: u32,
    /// Lease time without a call after which an ordinary writer is ended, ms.
    #[prost(uint64, optional, tag = "9")]
    pub open_expire_ms: Option<u64>,
}

/// What limits that were set before the expiry of ordinary writers was one of them mean by it: Ozone's 7 days.
const OPEN_EXPIRE_MS: u64 = 7 * 24 * 3_600_000;

impl Limits {
    /// What a fresh data folder starts with: 60 s and 7 days of lease, a million blocks a file, 30 minutes of answers, 256 MiB blocks.
    #[must_use]
    pub fn starting() -> Limits {
        Limits {
            soft_limit_ms: 60_000,
            hard_limit_ms: 7 * 24 * 3_600_000,
            max_blocks_per_file: 1_000_000,
            dedupe_retention_ms: 30 * 60_000,
            dedupe_max: 1_000_000,
            append_enabled: true,
            block_size: 256 << 20,
            max_renew_batch: 100,
            open_expire_ms: Some(OPEN_EXPIRE_MS),
        }
    }

    /// Lease time without a call after which an ordinary writer is ended, ms.
    #[must_use]
    pub fn ordinary_expiry_ms(&self) -> u64 {
        self.open_expire_ms.unwrap_or(OPEN_EXPIRE_MS)
    }
}
