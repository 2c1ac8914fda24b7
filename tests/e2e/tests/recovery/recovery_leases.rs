//! Leases: idle writers, stopped writers, writers that lost their file.

use std::time::{Duration, Instant};

use append_client::{CreateOptions, ErrorKind, FileSystem, Retry};
use append_e2e::{append, config, get, noise, path, put};

use crate::writer::Writer;
use crate::{LAYOUTS, LONGEST, SOFT_LIMIT, recover, server};

/// Until the writer of a file has renewed so often, which it does four times in a lease.
pub(crate) async fn renewed(fs: &FileSystem, file: &str, renewals: u64) {
    let begun = Instant::now();
    loop {
        let status = fs.append_status(file).await.unwrap().unwrap();
        if status.renewals >= renewals {
            return;
        }
        assert!(begun.elapsed() < LONGEST, "{status:?}");
        tokio::time::sleep(SOFT_LIMIT / 20).await;
    }
}

/// Case P4, its times by a fifth: the writer is idle for three and a half leases.
#[tokio::test]
async fn fault_03_an_idle_writer_keeps_its_file() {
    let server = server();
    let fs = server.bucket(LAYOUTS[0]).await;
    let file = path("idle");
    put(&fs, &file, b"").await;
    let mut writer = Writer::start(&server);
    writer.must(&format!("append {file}"));
    writer.must("write 1 4");
    for renewals in [2, 6, 12] {
        renewed(&fs, &file, renewals).await;
        let error = fs.append(&file).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let owner = error.conflict().unwrap();
        assert!(owner.handle.is_some() && owner.renewals > 0, "{owner:?}");
        let session = owner.handle.unwrap().session.to_string();
        assert!(error.text().contains(&session), "{error}");
        assert!(matches!(error.retry(), Retry::After(left) if left <= SOFT_LIMIT));
        assert!(!fs.is_file_closed(&file).await.unwrap());
    }
    renewed(&fs, &file, 14).await;
    writer.must("write 2 4");
    writer.must("close");
    let expected = [noise(1, 4), noise(2, 4)].concat();
    assert_eq!(get(&fs, &file).await, expected);
    assert!(fs.is_file_closed(&file).await.unwrap());
}

/// Case P4, second half.
#[tokio::test]
async fn a_writer_that_was_stopped_for_longer_than_its_lease_learns_it_at_its_next_call() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        for first in ["write 2 4", "hsync", "close"] {
            let file = path(&format!("stopped-{}", first.split(' ').next().unwrap()));
            put(&fs, &file, b"1").await;
            let mut writer = Writer::start(&server);
            writer.must(&format!("append {file}"));
            writer.must("write 1 4");
            writer.stop();
            append(&fs, &file, b"2").await;
            writer.go_on();
            let told = writer.fails(first, "StaleSession");
            assert!(told.contains("session") && told.contains("file"), "{told}");
            if first != "close" {
                writer.fails("write 3 5000", "StaleSession");
                writer.fails("hsync", "StaleSession");
                writer.fails("close", "StaleSession");
            }
            writer.must("close");
            assert_eq!(get(&fs, &file).await, b"12");
        }
    }
}

#[tokio::test]
async fn a_writer_whose_file_was_deleted_is_told_that_it_is_not_there() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("d/f");
        put(&fs, &file, b"1").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 4");
        assert!(fs.delete(&path("d"), true).await.unwrap());
        writer.fails("hsync", "NotFound");
        writer.fails("close", "NotFound");
        assert_eq!(
            fs.status(&file).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
}

#[tokio::test]
async fn fault_39_a_sync_after_the_path_was_replaced_names_session_and_file() {
    let server = server();
    let fs = server.bucket(LAYOUTS[0]).await;
    let file = path("f");
    let mut writer = Writer::start(&server);
    writer.must(&format!("create {file}"));
    writer.must("write 1 100");
    put(&fs, &file, b"another").await;
    let told = writer.fails("hsync", "NotFound");
    assert!(told.contains("session") && told.contains("file"), "{told}");
    assert_eq!(get(&fs, &file).await, b"another");
}

#[tokio::test]
async fn the_old_writer_is_fenced_by_a_recovery_for_good() {
    let server = server();
    let fs = server.bucket(LAYOUTS[0]).await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    let mut writer = Writer::start(&server);
    writer.must(&format!("append {file}"));
    writer.must("write 1 10000");
    writer.must("hsync");
    writer.stop();
    recover(&fs, &file).await;
    let recovered = get(&fs, &file).await;
    writer.go_on();
    writer.fails("write 2 30000", "StaleSession");
    writer.fails("close", "StaleSession");
    assert!(get(&fs, &file).await == recovered);
    // What was recovered is not touched by what its writer had under way.
    append(&fs, &file, b"2").await;
    assert!(get(&fs, &file).await == [&recovered[..], b"2"].concat());
}

/// Case P8, its end, and what kafka-connect-hdfs could not.
#[tokio::test]
async fn fault_01_fault_07_after_a_failed_close_the_same_client_appends_again() {
    for layout in LAYOUTS {
        let mut server = server();
        let quick = config()
            .with("libappend.call.timeout", "3s")
            .with("libappend.outcome.timeout", "3s");
        let fs = server.bucket_with(layout, quick).await;
        let file = path("f");
        put(&fs, &file, b"1").await;
        let stream = fs.append(&file).open().await.unwrap();
        stream.write(b"2").await.unwrap();
        stream.hsync().await.unwrap();
        stream.write(b"lost").await.unwrap();
        server.kill();
        stream.close().await.unwrap_err();
        server.restart();
        // Closed for good: nothing is sent again.
        stream.close().await.unwrap();
        // What was not published is not called durable.
        for refused in [stream.hflush().await, stream.write(b"x").await] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
        }
        let begun = Instant::now();
        append(&fs, &file, b"3").await;
        assert!(begun.elapsed() < LONGEST);
        let seen = get(&fs, &file).await;
        assert!(seen == b"123" || seen == b"12lost3", "{seen:?}");
    }
}

#[tokio::test]
async fn fault_09_a_second_append_is_told_for_how_long_and_can_be_tried_again() {
    let server = server();
    let fs = server.bucket(LAYOUTS[0]).await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    let mut writer = Writer::start(&server);
    writer.must(&format!("append {file}"));
    let asked = fs
        .append(&file)
        .deadline(Instant::now() + Duration::from_millis(300));
    let error = asked.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(matches!(error.retry(), Retry::After(left) if left <= SOFT_LIMIT));
    writer.must("close");
    append(&fs, &file, b"2").await;
    // One of our own is not waited for.
    let held = fs.append(&file).open().await.unwrap();
    let error = fs.append(&file).open().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry()),
        (ErrorKind::Conflict, Retry::Never)
    );
    held.close().await.unwrap();
    assert_eq!(get(&fs, &file).await, b"12");
}

#[tokio::test]
async fn an_append_waits_for_a_writer_that_closes() {
    let server = server();
    let fs = server.bucket(LAYOUTS[0]).await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    let other = server.client().await;
    let first = other.append(&file).open().await.unwrap();
    first.write(b"2").await.unwrap();
    // The first look comes before the first renewal.
    let waits = append(&fs, &file, b"3");
    let closes = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        first.close().await.unwrap();
    };
    tokio::join!(waits, closes);
    assert_eq!(get(&fs, &file).await, b"123");
}

#[tokio::test]
async fn a_stopped_server_ends_no_session() {
    let server = server();
    let fs = server.bucket(LAYOUTS[0]).await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    let mut writer = Writer::start(&server);
    writer.must(&format!("append {file}"));
    writer.must("write 1 4");
    let pid = server.pid().to_string();
    let signal = |signal: &str| {
        let done = std::process::Command::new("kill")
            .args([signal, &pid])
            .status();
        assert!(done.unwrap().success());
    };
    signal("-STOP");
    tokio::time::sleep(SOFT_LIMIT * 2).await;
    signal("-CONT");
    writer.must("hsync");
    writer.must("close");
    assert_eq!(get(&fs, &file).await, [&b"1"[..], &noise(1, 4)].concat());
    let options = CreateOptions::default();
    fs.create(&file, &options)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
}
