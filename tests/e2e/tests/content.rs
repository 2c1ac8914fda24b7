//! What was written is what is read, at every size and seam.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use append_client::admin::BucketLayout;
use append_client::{Config, CreateOptions, FileSystem};
use append_e2e::{Server, append, config, get, noise, path, put};

const KIB: usize = 1024;

/// Chunks of 64 KiB, blocks of 200 KiB: seams at odd places, many of them.
fn small_pieces() -> Config {
    config()
        .with("ozone.client.stream.buffer.size", "64KB")
        .with("ozone.client.stream.buffer.max.size", "256KB")
        .with("ozone.scm.block.size", "200KB")
}

/// Sizes beside the borders of checksum windows, chunks and blocks.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 511, 4096];
    for border in [16 * KIB, 64 * KIB, 200 * KIB, 400 * KIB, 1024 * KIB] {
        sizes.extend([border - 1, border, border + 1]);
    }
    sizes
}

async fn check(fs: &FileSystem, file: &str, content: &[u8]) {
    assert_eq!(
        fs.status(file).await.unwrap().length,
        u64::try_from(content.len()).unwrap()
    );
    assert!(get(fs, file).await == content, "{file} differs");
    let reader = fs.open(file).await.unwrap();
    // Around every border, and at the end.
    for border in (0..=content.len()).step_by(8 * KIB).chain([content.len()]) {
        let from = border.saturating_sub(3);
        let expected = &content[from..content.len().min(border + 5)];
        let got = reader
            .bytes_at(u64::try_from(from).unwrap(), border + 5 - from)
            .await
            .unwrap();
        assert!(got == expected, "{file} differs around {border}");
    }
    let end = reader.len();
    assert_eq!(reader.read_at(end, &mut [0; 4]).await.unwrap(), 0);
    assert_eq!(reader.read_at(end + 1000, &mut [0; 4]).await.unwrap(), 0);
}

async fn round_trips(layout: BucketLayout, config: Config) {
    let server = Server::start();
    let fs = server.bucket_with(layout, config).await;
    for (seed, size) in (0..).zip(sizes()) {
        let file = path(&format!("file{size}"));
        let mut content = noise(seed, size);
        put(&fs, &file, &content).await;
        check(&fs, &file, &content).await;
        // In one session: a sync in the middle, and small writes.
        let more = noise(seed + 1000, size / 2 + 7);
        let stream = fs.append(&file).open().await.unwrap();
        assert_eq!(stream.start(), u64::try_from(content.len()).unwrap());
        for (number, piece) in more.chunks(10_007).enumerate() {
            stream.write(piece).await.unwrap();
            if number % 3 == 0 {
                stream.hsync().await.unwrap();
            }
        }
        stream.close().await.unwrap();
        content.extend_from_slice(&more);
        assert_eq!(stream.pos(), u64::try_from(content.len()).unwrap());
        check(&fs, &file, &content).await;
        append(&fs, &file, b"!").await;
        content.push(b'!');
        check(&fs, &file, &content).await;
    }
}

#[tokio::test]
async fn every_size_in_a_bucket_with_directories() {
    round_trips(BucketLayout::FileSystemOptimized, small_pieces()).await;
}

#[tokio::test]
async fn every_size_in_a_legacy_bucket_with_other_checksums() {
    let config = small_pieces()
        .with("ozone.client.checksum.type", "CRC32")
        .with("ozone.client.bytes.per.checksum", "1000");
    round_trips(BucketLayout::Legacy, config).await;
}

#[tokio::test]
async fn a_large_file_with_default_settings() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    let file = path("large");
    let content = noise(5, 50 * KIB * KIB + 12_345);
    put(&fs, &file, &content).await;
    assert!(get(&fs, &file).await == content);
    // Sequential, with an odd buffer, through the read-ahead.
    let reader = fs.open(&file).await.unwrap();
    let mut position = 0;
    let mut buffer = vec![0; 77_777];
    loop {
        let read = reader
            .read_at(u64::try_from(position).unwrap(), &mut buffer)
            .await
            .unwrap();
        assert!(buffer[..read] == content[position..position + read]);
        position += read;
        if read < buffer.len() {
            break;
        }
    }
    assert_eq!(position, content.len());
}

#[tokio::test]
async fn a_thousand_small_appends_read_back_at_every_seam() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    let file = path("log");
    put(&fs, &file, b"").await;
    let mut content = Vec::new();
    let mut seams = vec![0];
    for number in 0..1000_usize {
        let record = noise(u64::try_from(number).unwrap(), 1 + number * 37 % 300);
        append(&fs, &file, &record).await;
        content.extend_from_slice(&record);
        seams.push(content.len());
    }
    assert!(get(&fs, &file).await == content);
    let reader = fs.open(&file).await.unwrap();
    for seam in seams {
        let from = seam.saturating_sub(5);
        let to = content.len().min(seam + 5);
        let got = reader
            .bytes_at(u64::try_from(from).unwrap(), to - from)
            .await
            .unwrap();
        assert!(got == content[from..to], "seam at {seam}");
    }
    // Another client, whose list comes in ranges of its own.
    let other = server.client().await;
    let reader = other.open(&file).await.unwrap();
    for from in (0..content.len()).step_by(997) {
        let to = content.len().min(from + 4000);
        let got = reader
            .bytes_at(u64::try_from(from).unwrap(), to - from)
            .await
            .unwrap();
        assert!(got == content[from..to], "at {from}");
    }
}

#[tokio::test]
async fn the_grpc_transport_does_the_same() {
    let server = Server::start();
    let class = "org.apache.hadoop.ozone.om.protocolPB.GrpcOmTransportFactory";
    let config = config().with("ozone.om.transport.class", class);
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, config)
        .await;
    let file = path("over-grpc");
    put(&fs, &file, b"one").await;
    append(&fs, &file, b"two").await;
    assert_eq!(get(&fs, &file).await, b"onetwo");
    let error = fs.append(&path("none")).open().await.unwrap_err();
    assert_eq!(error.kind(), append_client::ErrorKind::NotFound);
}

#[tokio::test]
async fn an_object_store_bucket_takes_ordinary_files() {
    let server = Server::start();
    let fs = server
        .bucket_with(BucketLayout::ObjectStore, small_pieces())
        .await;
    let file = path("object");
    let content = noise(9, 700 * KIB);
    put(&fs, &file, &content).await;
    assert!(get(&fs, &file).await == content);
}

#[tokio::test]
async fn two_writers_of_one_stream_do_not_mix_their_records() {
    const RECORD: usize = 64;
    let server = Server::start();
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, small_pieces())
        .await;
    let file = path("records");
    let stream = fs.create(&file, &CreateOptions::default()).await.unwrap();
    let stream = std::sync::Arc::new(stream);
    let writers: Vec<_> = [b'a', b'b']
        .into_iter()
        .map(|letter| {
            let stream = std::sync::Arc::clone(&stream);
            tokio::spawn(async move {
                for _ in 0..1000 {
                    stream.write(&[letter; RECORD]).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    stream.close().await.unwrap();
    let content = get(&fs, &file).await;
    assert_eq!(content.len(), 2000 * RECORD);
    for record in content.chunks(RECORD) {
        assert!(record.iter().all(|byte| *byte == record[0]));
    }
}
