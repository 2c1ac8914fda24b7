//! Writers that die, are stopped, or lose their file, and what becomes of it: on the real server, with real processes.
//!
//! Times are short by configuration, and everything is waited for by its condition.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod raw;
mod recovery_crashes;
mod recovery_faults;
mod recovery_killed;
mod recovery_leases;
mod recovery_names;
mod writer;

use std::time::{Duration, Instant};

use append_client::admin::BucketLayout;
use append_client::{ErrorKind, FileSystem};
use append_e2e::Server;

const LAYOUTS: [BucketLayout; 2] = [BucketLayout::FileSystemOptimized, BucketLayout::Legacy];

/// Soft limit of [`server`].
const SOFT_LIMIT: Duration = Duration::from_secs(2);

/// A test that waits longer than this for something is wrong.
const LONGEST: Duration = Duration::from_secs(60);

fn server() -> Server {
    Server::with(&["ozone.om.lease.soft.limit=2s"])
}

/// Recovers a file as soon as its writer's lease is over.
async fn recover(fs: &FileSystem, path: &str) {
    let begun = Instant::now();
    loop {
        match fs.recover_lease(path).await {
            Ok(closed) => {
                assert!(closed && fs.is_file_closed(path).await.unwrap());
                return;
            }
            Err(error) if error.kind() == ErrorKind::Conflict && begun.elapsed() < LONGEST => {
                let left = error.conflict().unwrap().remaining;
                assert!(left <= SOFT_LIMIT, "{left:?}");
                tokio::time::sleep(left.max(Duration::from_millis(20))).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
