//! Case P3 through Rust: one short append after the other, each admitted at once, and neither side's memory grows with their number.
//!
//! `P3_SESSIONS` (200) says how many; the whole case is 10,000, and only then memory is judged: the client's must be flat behind the first
//! thousand. The server's grows while what it keeps of its rows in memory fills up, which no number of sessions this small reaches the
//! end of; it may grow by that.

use append_client::admin::BucketLayout;
use append_e2e::{BUCKET, Server, append, config, path, put, resident};

/// The whole case.
const WHOLE: usize = 10_000;
/// Where memory is looked at first.
const EARLY: usize = 1_000;
/// What the server's caches and unwritten tables of rows may take within the case, bytes.
const ROWS_IN_MEMORY: u64 = 128 << 20;
const RECORD: &[u8] = b"\nbar";

fn flat(what: &str, early: u64, late: u64, more: u64) {
    println!("{what}: {} KiB, then {} KiB", early / 1024, late / 1024);
    assert!(
        late <= early + early / 10 + more,
        "the {what}'s memory grew"
    );
}

#[tokio::test]
async fn p3_short_sessions_one_after_the_other() {
    let sessions = std::env::var("P3_SESSIONS").map_or(200, |text| text.parse().unwrap());
    let server = Server::start();
    // As a user has it: a call that does not succeed the first time fails here, since the client waits for nothing.
    let patience = config().with("ozone.client.failover.max.attempts", "0");
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, patience)
        .await;
    let file = path("l");
    put(&fs, &file, b"").await;
    let memory = || (resident(std::process::id()), server.resident());
    let mut early = memory();
    for session in 1..=sessions {
        append(&fs, &file, RECORD).await;
        if session == EARLY {
            early = memory();
        }
    }
    let late = memory();
    let whole = RECORD.repeat(sessions);
    let reader = fs.open(&file).await.unwrap();
    assert_eq!(reader.len(), u64::try_from(whole.len()).unwrap());
    let length = whole.len();
    for from in (0..length).step_by(997).chain([0, length - 1]) {
        let count = (length - from).min(1_500);
        let at = u64::try_from(from).unwrap();
        assert_eq!(
            reader.bytes_at(at, count).await.unwrap(),
            whole[from..from + count]
        );
    }
    let open = fs.open_files(BUCKET, "", 10).await.unwrap();
    assert!(open.files.is_empty(), "{:?}", open.files);
    println!("{sessions} sessions");
    if sessions >= WHOLE {
        flat("client", early.0, late.0, 0);
        flat("server", early.1, late.1, ROWS_IN_MEMORY);
    }
}
