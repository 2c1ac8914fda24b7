//! What is in force, for `/conf`: every key that is read with the value that holds, and whatever else was given.

use super::{Options, keys};
use append_namespace::command::Limits;
use std::collections::BTreeMap;

/// What stands in the place of a secret.
pub const REDACTED: &str = "<redacted>";

/// One key as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub name: String,
    /// The value; [`REDACTED`] for a secret.
    pub value: String,
    /// Where it comes from: `ozone-site.xml` (or the command line) or the program's own default.
    pub resource: &'static str,
}

impl Options {
    /// All keys in the order of their names, `limits` being those in force.
    #[must_use]
    pub fn effective(&self, limits: &Limits) -> Vec<Entry> {
        let mut values: BTreeMap<String, (String, &'static str)> = BTreeMap::new();
        for (name, value) in [
            (keys::APPEND_ENABLED, limits.append_enabled.to_string()),
            (keys::SOFT_LIMIT, format!("{}ms", limits.soft_limit_ms)),
            (keys::HARD_LIMIT, format!("{}ms", limits.hard_limit_ms)),
            (
                keys::OPEN_EXPIRE,
                format!("{}ms", limits.ordinary_expiry_ms()),
            ),
            (keys::BLOCK_SIZE, limits.block_size.to_string()),
            (keys::MAX_BLOCKS, limits.max_blocks_per_file.to_string()),
            (
                keys::DEDUPE_RETENTION,
                format!("{}ms", limits.dedupe_retention_ms),
            ),
            (keys::DEDUPE_MAX, limits.dedupe_max.to_string()),
            (keys::RENEW_BATCH, limits.max_renew_batch.to_string()),
            (keys::FRAME_BYTES, self.rpc.frame_bytes.to_string()),
            (
                keys::SEGMENT_BYTES,
                self.consensus.segment_bytes.to_string(),
            ),
            (keys::CONTAINER_BYTES, self.container_bytes.to_string()),
            (
                keys::CHECKPOINT_BYTES,
                self.consensus.checkpoint_log_bytes.to_string(),
            ),
            (keys::HEARTBEAT, format!("{}ms", self.heartbeat.as_millis())),
            (keys::LOG_KEPT, self.log_kept.to_string()),
            (keys::ELECTION, format!("{}ms", self.election.as_millis())),
            (keys::CALLS, self.rpc.calls_per_connection.to_string()),
            (keys::CONNECTIONS, self.rpc.connections.to_string()),
        ] {
            let resource = if self.given.contains_key(name) {
                "site"
            } else {
                "default"
            };
            values.insert(name.to_owned(), (value, resource));
        }
        for (name, value) in &self.given {
            values
                .entry(name.clone())
                .or_insert_with(|| (value.clone(), "site"));
        }
        values
            .into_iter()
            .map(|(name, (value, resource))| {
                let value = if is_secret(&name) {
                    REDACTED.to_owned()
                } else {
                    value
                };
                Entry {
                    name,
                    value,
                    resource,
                }
            })
            .collect()
    }
}

/// Hadoop's own list of what must not be shown, in short.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [
        "password",
        "passwd",
        "secret",
        "credential",
        "token",
        "private.key",
        "access.key",
        "account.key",
    ]
    .iter()
    .any(|word| name.contains(word))
}
