//! Writers that are killed.

use append_client::FileSystem;
use append_e2e::{append, get, noise, path, put};

use crate::writer::Writer;
use crate::{LAYOUTS, recover, server};

/// Every reader, new or not, on this client or another, sees the same.
async fn same_for_all(server: &append_e2e::Server, fs: &FileSystem, file: &str) -> Vec<u8> {
    let seen = get(fs, file).await;
    let other = server.client().await;
    assert!(get(&other, file).await == seen);
    assert_eq!(
        fs.status(file).await.unwrap().length,
        u64::try_from(seen.len()).unwrap()
    );
    seen
}

/// Three blocks of 8 KiB, an hsync in the second, more behind it.
async fn killed_in_the_third_block(layout: append_client::admin::BucketLayout) {
    let server = server();
    let fs = server.bucket(layout).await;
    let file = path("f");
    put(&fs, &file, b"prefix").await;
    let mut writer = Writer::start(&server);
    writer.must(&format!("append {file}"));
    writer.must("write 1 10000");
    writer.must("hsync");
    writer.must("write 2 10000");
    writer.kill();
    recover(&fs, &file).await;
    let seen = same_for_all(&server, &fs, &file).await;
    let written = [&b"prefix"[..], &noise(1, 10_000), &noise(2, 10_000)].concat();
    assert!(seen.len() >= 10_006, "the hsync is lost: {}", seen.len());
    assert!(written.starts_with(&seen), "{} other bytes", seen.len());
    append(&fs, &file, b"after").await;
    assert!(get(&fs, &file).await == [&seen[..], b"after"].concat());
}

#[tokio::test]
async fn fault_17_a_killed_writer_loses_nothing_that_was_synced_fso() {
    killed_in_the_third_block(LAYOUTS[0]).await;
}

#[tokio::test]
async fn fault_17_a_killed_writer_loses_nothing_that_was_synced_legacy() {
    killed_in_the_third_block(LAYOUTS[1]).await;
}

#[tokio::test]
async fn fault_05_fault_08_the_next_append_recovers_by_itself() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("f");
        put(&fs, &file, b"1").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 20000");
        writer.must("hsync");
        writer.kill();
        // Nobody helps: no call but the append.
        append(&fs, &file, b"2").await;
        let expected = [&b"1"[..], &noise(1, 20_000), b"2"].concat();
        assert!(get(&fs, &file).await == expected);
    }
}

#[tokio::test]
async fn fault_06_a_writer_that_wrote_nothing_is_recovered() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        // Right after admission, before a block holds anything.
        let file = path("admitted");
        put(&fs, &file, b"as it was").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.kill();
        recover(&fs, &file).await;
        assert_eq!(get(&fs, &file).await, b"as it was");
        // Of a file that its writer made.
        let file = path("created");
        let mut writer = Writer::start(&server);
        writer.must(&format!("create {file}"));
        writer.kill();
        recover(&fs, &file).await;
        assert_eq!(get(&fs, &file).await, b"");
        append(&fs, &file, b"more").await;
        assert_eq!(get(&fs, &file).await, b"more");
    }
}

#[tokio::test]
async fn fault_16_a_synced_file_without_blocks_is_recovered_to_what_was_published() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("f");
        let mut writer = Writer::start(&server);
        writer.must(&format!("create {file}"));
        writer.must("hsync");
        writer.kill();
        recover(&fs, &file).await;
        assert_eq!(get(&fs, &file).await, b"");
    }
}

#[tokio::test]
async fn fault_19_a_file_below_directories_is_recovered_wherever_it_is_by_then() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("a/b/c/f");
        put(&fs, &file, b"1").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 9000");
        writer.must("hsync");
        writer.kill();
        fs.rename(&path("a/b"), &path("moved")).await.unwrap();
        let file = path("moved/c/f");
        recover(&fs, &file).await;
        let expected = [&b"1"[..], &noise(1, 9000)].concat();
        assert!(get(&fs, &file).await == expected);
    }
}

#[tokio::test]
async fn a_file_is_recovered_after_its_server_was_killed_too() {
    let mut server = server();
    let fs = server.bucket(LAYOUTS[0]).await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    let mut writer = Writer::start(&server);
    writer.must(&format!("append {file}"));
    writer.must("write 1 9000");
    writer.must("hsync");
    writer.kill();
    server.restart();
    recover(&fs, &file).await;
    let expected = [&b"1"[..], &noise(1, 9000)].concat();
    assert!(get(&fs, &file).await == expected);
}
