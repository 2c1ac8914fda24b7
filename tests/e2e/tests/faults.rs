//! Servers that go away and come back, and disks that lie.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use append_client::admin::BucketLayout;
use append_client::{Config, CreateOptions, ErrorKind};
use append_e2e::{Server, append, config, get, noise, path, put};

/// Chunks of 64 KiB, so that much is under way.
fn small_pieces() -> Config {
    config()
        .with("ozone.client.stream.buffer.size", "64KB")
        .with("ozone.client.stream.buffer.max.size", "1MB")
}

#[tokio::test]
async fn a_writer_outlives_its_server() {
    let mut server = Server::start();
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, small_pieces())
        .await;
    let file = path("f");
    let content = noise(1, 3_000_000);
    let stream = fs.create(&file, &CreateOptions::default()).await.unwrap();
    for (number, piece) in content.chunks(250_007).enumerate() {
        stream.write(piece).await.unwrap();
        match number % 4 {
            // With bytes on their way, with bytes synced, between a sync and the next write.
            0 => server.restart(),
            1 => stream.hsync().await.unwrap(),
            2 => {
                stream.hsync().await.unwrap();
                server.restart();
            }
            _ => {}
        }
    }
    server.restart();
    stream.close().await.unwrap();
    assert!(get(&fs, &file).await == content);
}

#[tokio::test]
async fn a_reader_outlives_its_server() {
    let mut server = Server::start();
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, small_pieces())
        .await;
    let file = path("f");
    let content = noise(1, 1_000_000);
    put(&fs, &file, &content).await;
    let reader = fs.open(&file).await.unwrap();
    let mut got = Vec::new();
    while got.len() < content.len() {
        let from = u64::try_from(got.len()).unwrap();
        got.extend_from_slice(&reader.bytes_at(from, 170_000).await.unwrap());
        reader.unbuffer();
        server.restart();
    }
    assert!(got == content);
}

#[tokio::test]
async fn a_close_without_a_server_fails_and_stays_closed() {
    let mut server = Server::start();
    let quick = small_pieces().with("libappend.call.timeout", "3s");
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, quick)
        .await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    let stream = fs.append(&file).open().await.unwrap();
    stream.write(b"2").await.unwrap();
    server.kill();
    stream.close().await.unwrap_err();
    // The second one writes nothing again.
    stream.close().await.unwrap();
    server.restart();
    assert_eq!(get(&fs, &file).await, b"1");
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            files_below(&entry, found);
        } else {
            found.push(entry);
        }
    }
}

/// Flips a bit of `needle` in the one file that holds it, in the middle.
fn damage(folder: &Path, needle: &[u8]) {
    let mut files = Vec::new();
    files_below(folder, &mut files);
    let mut hits = 0;
    for file in files {
        let mut content = Vec::new();
        std::fs::File::open(&file)
            .unwrap()
            .read_to_end(&mut content)
            .unwrap();
        let Some(at) = content
            .windows(needle.len())
            .position(|window| window == needle)
        else {
            continue;
        };
        hits += 1;
        let at = at + needle.len() / 2;
        let mut open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        open.seek(SeekFrom::Start(u64::try_from(at).unwrap()))
            .unwrap();
        open.write_all(&[content[at] ^ 1]).unwrap();
    }
    assert_eq!(hits, 1, "the block's bytes are in one file");
}

#[tokio::test]
async fn a_damaged_block_is_an_error_that_names_it_and_never_wrong_bytes() {
    let server = Server::start();
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, small_pieces())
        .await;
    let file = path("f");
    let (whole, broken) = (noise(1, 100_000), noise(2, 100_000));
    put(&fs, &file, &whole).await;
    append(&fs, &file, &broken).await;
    damage(server.data(), &broken[40_000..60_000]);

    let reader = fs.open(&file).await.unwrap();
    let error = reader.bytes_at(0, 200_000).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checksum, "{error}");
    assert_eq!(error.errno(), libc::EBADMSG);
    let shown = error.to_string();
    assert!(shown.contains(&file) && shown.contains("block"), "{shown}");
    assert!(shown.contains("offset"), "{shown}");
    // What is not damaged can be read.
    assert!(reader.bytes_at(0, 100_000).await.unwrap() == whole);
    assert!(reader.bytes_at(100_000, 16_000).await.unwrap() == broken[..16_000]);
    assert!(reader.bytes_at(190_000, 10_000).await.unwrap() == broken[90_000..]);
}
