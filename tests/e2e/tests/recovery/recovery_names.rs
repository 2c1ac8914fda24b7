//! Names that change under writers, and answers that were given: rows of known faults that need no dying writer.

use append_client::admin::{BucketLayout, BucketOptions};
use append_client::{CreateOptions, ErrorKind};
use append_e2e::{append, fsck, get, noise, path, put};
use append_wire::om::{AppendCode, Status};

use crate::raw::Raw;
use crate::recovery_leases::renewed;
use crate::writer::Writer;
use crate::{LAYOUTS, recover, server};

#[tokio::test]
async fn fault_10_sessions_of_two_buckets_are_renewed_each() {
    let server = server();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    let options = BucketOptions {
        layout: Some(BucketLayout::Legacy),
        ..BucketOptions::default()
    };
    fs.create_bucket("vol", "other", &options).await.unwrap();
    let files = ["/vol/bucket/f", "/vol/other/f"];
    let mut writer = Vec::new();
    for file in files {
        put(&fs, file, b"1").await;
        let mut process = Writer::start(&server);
        process.must(&format!("append {file}"));
        writer.push(process);
    }
    for file in files {
        renewed(&fs, file, 5).await;
    }
    for (process, file) in writer.iter_mut().zip(files) {
        process.must("write 1 4");
        process.must("close");
        assert_eq!(get(&fs, file).await, [&b"1"[..], &noise(1, 4)].concat());
    }
}

#[tokio::test]
async fn fault_11_an_older_session_writes_nothing_once_a_younger_one_is_there() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("f");
        put(&fs, &file, b"1").await;
        let mut old = Writer::start(&server);
        old.must(&format!("append {file}"));
        old.must("write 1 100");
        let first = fs.append_status(&file).await.unwrap().unwrap();
        old.stop();
        recover(&fs, &file).await;
        let recovered = get(&fs, &file).await;
        let young = fs.append(&file).open().await.unwrap();
        let second = young.session().unwrap();
        assert!(second.session > first.handle.unwrap().session);
        young.write(b"young").await.unwrap();
        young.hsync().await.unwrap();
        old.go_on();
        old.fails("hsync", "StaleSession");
        old.fails("close", "StaleSession");
        young.write(b"er").await.unwrap();
        young.close().await.unwrap();
        assert!(get(&fs, &file).await == [&recovered[..], b"younger"].concat());
    }
}

#[tokio::test]
async fn fault_20_fault_21_a_rename_takes_the_open_file_along() {
    for layout in LAYOUTS {
        let mut server = server();
        let fs = server.bucket(layout).await;
        let file = path("wal/log");
        let mut writer = Writer::start(&server);
        writer.must(&format!("create {file}"));
        writer.must("write 1 9000");
        writer.must("hsync");
        fs.mkdirs(&path("archive"), true).await.unwrap();
        // The file itself, then the folder above it, again and back.
        fs.rename(&file, &path("archive/log")).await.unwrap();
        writer.must("write 2 9000");
        fs.rename(&path("archive"), &path("old")).await.unwrap();
        writer.must("hsync");
        server.restart();
        fs.rename(&path("old"), &path("archive")).await.unwrap();
        writer.must("write 3 9000");
        writer.must("close");
        let whole = [noise(1, 9_000), noise(2, 9_000), noise(3, 9_000)].concat();
        let there = path("archive/log");
        assert!(get(&fs, &there).await == whole);
        assert!(fs.is_file_closed(&there).await.unwrap());
        for gone in [&file, &path("old/log")] {
            let error = fs.status(gone).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
        // One copy, and its blocks stand once.
        server.kill();
        fsck(server.data(), &[]);
    }
}

#[tokio::test]
async fn a_writer_that_died_is_recovered_below_a_renamed_ancestor_also_while_it_is_recovered() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("a/b/f");
        put(&fs, &file, b"1").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 9000");
        writer.must("hsync");
        writer.kill();
        let mut helper = Raw::connect(&server).await;
        let begun = helper.fence("a/b/f").await;
        fs.rename(&path("a"), &path("x")).await.unwrap();
        // The helper that began knows the session, not the name.
        let blocks = begun.open_key_info.unwrap().key_location_list[0]
            .key_locations
            .iter()
            .filter(|block| block.length > 0)
            .cloned()
            .collect();
        let handle = begun.append_handle.unwrap();
        let end = helper.publication("a/b/f", handle, 9_001, blocks, true);
        let told = helper.send(&end).await;
        assert_eq!(told.status(), Status::Ok, "{}", told.message());
        let file = path("x/b/f");
        assert!(fs.is_file_closed(&file).await.unwrap());
        let expected = [&b"1"[..], &noise(1, 9_000)].concat();
        assert!(get(&fs, &file).await == expected);
    }
}

#[tokio::test]
async fn fault_22_a_deleted_file_stays_deleted_whatever_its_writer_sends() {
    for layout in LAYOUTS {
        let mut server = server();
        let fs = server.bucket(layout).await;
        for deleted in ["d/f", "d"] {
            let file = path("d/f");
            let mut writer = Writer::start(&server);
            writer.must(&format!("create {file}"));
            writer.must("write 1 9000");
            writer.must("hsync");
            assert!(fs.delete(&path(deleted), true).await.unwrap());
            writer.must("write 2 100");
            writer.fails("hsync", "NotFound");
            server.restart();
            writer.fails("close", "NotFound");
            let error = fs.status(&file).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
    }
}

#[tokio::test]
async fn fault_23_no_block_is_published_and_given_up_at_once() {
    for layout in LAYOUTS {
        let mut server = server();
        let fs = server.bucket(layout).await;
        for (number, end) in ["close", "kill", "replace", "delete", "recover"]
            .iter()
            .enumerate()
        {
            let file = path(&format!("f{number}"));
            put(&fs, &file, &noise(7, 9_000)).await;
            let mut writer = Writer::start(&server);
            writer.must(&format!("append {file}"));
            writer.must("write 1 20000");
            writer.must("hsync");
            writer.must("write 2 20000");
            match *end {
                "close" => writer.must("close"),
                "kill" => writer.kill(),
                "replace" => {
                    writer.must("close");
                    put(&fs, &file, b"new").await;
                }
                "delete" => assert!(fs.delete(&file, false).await.unwrap()),
                _ => {
                    writer.kill();
                    recover(&fs, &file).await;
                }
            }
        }
        server.kill();
        fsck(server.data(), &[]);
        server.restart();
        assert!(get(&fs, &path("f0")).await.len() == 49_000);
        assert_eq!(get(&fs, &path("f2")).await, b"new");
        server.kill();
        fsck(server.data(), &[]);
    }
}

#[tokio::test]
async fn fault_24_who_replaces_a_synced_file_ends_its_writer() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("f");
        let mut writer = Writer::start(&server);
        writer.must(&format!("create {file}"));
        writer.must("write 1 9000");
        writer.must("hsync");
        put(&fs, &file, b"another").await;
        writer.must("write 2 100");
        writer.fails("hsync", "NotFound");
        writer.fails("close", "NotFound");
        assert_eq!(get(&fs, &file).await, b"another");
        // A session that append admitted is not replaced, whoever asks.
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 4");
        writer.must("hsync");
        let options = CreateOptions::default();
        let error = fs.create(&file, &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        writer.must("close");
        let expected = [&b"another"[..], &noise(1, 4)].concat();
        assert_eq!(get(&fs, &file).await, expected);
    }
}

#[tokio::test]
async fn fault_25_syncs_are_charged_once_and_only_what_is_new() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let used = async || fs.bucket("vol", "bucket").await.unwrap().used_bytes;
        let file = path("f");
        put(&fs, &file, &noise(1, 1_000)).await;
        let stream = fs.append(&file).open().await.unwrap();
        for part in 1..=20 {
            stream.write(&noise(part, 500)).await.unwrap();
            stream.hsync().await.unwrap();
            stream.hsync().await.unwrap();
            assert_eq!(used().await, 1_000 + 500 * part);
        }
        stream.close().await.unwrap();
        assert_eq!(used().await, 11_000);
        assert!(fs.delete(&file, false).await.unwrap());
        assert_eq!(used().await, 0);
    }
}

#[tokio::test]
async fn fault_27_a_refusal_is_told_again_and_never_half_an_answer() {
    for layout in LAYOUTS {
        let mut server = server();
        let fs = server.bucket(layout).await;
        let mut client = Raw::connect(&server).await;
        let early = client.admission("f");
        for restarted in [false, true] {
            if restarted {
                server.restart();
                client = client.again(&server).await;
            }
            let told = client.send(&early).await;
            assert_eq!(told.status(), Status::FileNotFound, "{}", told.message());
            assert!(told.append_file_response.is_none());
        }
        put(&fs, &path("f"), b"1").await;
        // The call was decided; one of its own finds the file.
        assert_eq!(client.send(&early).await.status(), Status::FileNotFound);
        let session = client.append("f").await;
        let again = client.admission("f");
        let conflict = client.send(&again).await;
        assert_eq!(
            conflict.append_error.unwrap().code(),
            AppendCode::ConflictAppend
        );
        let handle = session.handle.unwrap();
        let close = client.publication("f", handle, 1, Vec::new(), true);
        assert_ne!(client.send(&close).await.status(), Status::Ok);
        assert!(fs.recover_lease_with(&path("f"), &FORCED).await.unwrap());
        append(&fs, &path("f"), b"2").await;
        assert_eq!(get(&fs, &path("f")).await, b"12");
    }
}

const FORCED: append_client::RecoverOptions = append_client::RecoverOptions {
    force: true,
    without_unreachable: false,
    deadline: None,
};
