//! Names: directories, listings, deletion, volumes and buckets, on every layout; and the blocking calls.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use append_client::admin::{BucketLayout, BucketOptions, VolumeOptions};
use append_client::blocking::{self, AppendOptions, Wait};
use append_client::{CancelToken, CreateOptions, ErrorKind, FileSystem};
use append_e2e::{BUCKET, Server, config, get, path, put};

const LAYOUTS: [BucketLayout; 3] = [
    BucketLayout::FileSystemOptimized,
    BucketLayout::Legacy,
    BucketLayout::ObjectStore,
];

async fn names(fs: &FileSystem, folder: &str) -> Vec<String> {
    let entries = fs.list(folder).await.unwrap();
    entries
        .iter()
        .map(|entry| entry.name().to_owned())
        .collect()
}

#[tokio::test]
async fn directories_are_made_with_their_parents() {
    let server = Server::start();
    let fs = server.client().await;
    fs.mkdirs("/one/two/three/four", true).await.unwrap();
    // Again: fine, at every depth.
    for folder in [
        "/",
        "/one",
        "/one/two",
        "/one/two/three",
        "/one/two/three/four",
    ] {
        fs.mkdirs(folder, true).await.unwrap();
        assert!(fs.status(folder).await.unwrap().directory, "{folder}");
    }
    assert_eq!(names(&fs, "/").await, ["one"]);
    assert_eq!(names(&fs, "/one/two").await, ["three"]);
    put(&fs, "/one/two/file", b"x").await;
    for (folder, recursive, kind) in [
        ("/one/two/file", true, ErrorKind::AlreadyExists),
        ("/one/two/file/below", true, ErrorKind::NotADirectory),
        ("/one/two/no/parent", false, ErrorKind::ParentNotFound),
        ("/one/two/file/below", false, ErrorKind::NotADirectory),
        ("/none/bucket", false, ErrorKind::ParentNotFound),
        ("/one/two/.snapshot/s", true, ErrorKind::ReadOnly),
    ] {
        let error = fs.mkdirs(folder, recursive).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    fs.mkdirs("/one/two/flat", false).await.unwrap();
}

#[tokio::test]
async fn listings_come_in_pages_and_in_order() {
    for layout in LAYOUTS {
        let server = Server::start();
        let fs = server.bucket(layout).await;
        let mut expected = Vec::new();
        for number in 0..25 {
            let name = format!("f{number:02}");
            put(&fs, &path(&format!("dir/{name}")), b"12345").await;
            expected.push(name);
        }
        put(&fs, &path("dir/sub/deep"), b"").await;
        expected.push("sub".to_owned());
        for max in [1, 7, 26, 100] {
            let mut found = Vec::new();
            let mut after = String::new();
            loop {
                let page = fs.list_page(&path("dir"), &after, max).await.unwrap();
                assert!(page.entries.len() <= usize::try_from(max).unwrap());
                found.extend(page.entries);
                if !page.more {
                    break;
                }
                after = found.last().unwrap().name().to_owned();
            }
            let names: Vec<_> = found.iter().map(|entry| entry.name()).collect();
            assert_eq!(names, expected, "{layout:?}, {max} a page");
            assert!(found[25].directory && !found[0].directory);
            assert_eq!(found[0].length, 5);
            assert_eq!(found[0].owner, "ann");
        }
        // A file is its own only entry; what is missing is missing.
        let own = fs.list(&path("dir/f03")).await.unwrap();
        assert_eq!(own.len(), 1);
        assert_eq!(own[0].path.to_string(), path("dir/f03"));
        let error = fs.list(&path("none")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

#[tokio::test]
async fn deleting_takes_what_it_may() {
    for layout in LAYOUTS {
        let server = Server::start();
        let fs = server.bucket(layout).await;
        for name in ["dir/a", "dir/sub/b", "file", "dir2/x"] {
            put(&fs, &path(name), b"x").await;
        }
        assert!(fs.delete(&path("file"), false).await.unwrap());
        assert!(!fs.delete(&path("file"), false).await.unwrap());
        assert!(!fs.delete(&path("none/x"), true).await.unwrap());
        assert!(!fs.delete("/vol/none", true).await.unwrap());
        assert!(!fs.delete("/none", true).await.unwrap());
        if layout != BucketLayout::ObjectStore {
            let error = fs.delete(&path("dir"), false).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty, "{error}");
            assert!(fs.delete(&path("dir"), true).await.unwrap());
            assert_eq!(names(&fs, BUCKET).await, ["dir2"], "{layout:?}");
        }
        for folder in [BUCKET, "/vol"] {
            let error = fs.delete(folder, false).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty, "{error}");
        }
        let error = fs.delete("/", true).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(fs.delete("/vol", true).await.unwrap(), "{layout:?}");
        assert!(names(&fs, "/").await.is_empty());
    }
}

#[tokio::test]
async fn volumes_and_buckets_are_described() {
    let server = Server::start();
    let fs = server.client().await;
    let options = VolumeOptions {
        quota_bytes: Some(1 << 30),
        ..VolumeOptions::default()
    };
    fs.create_volume("vol", &options).await.unwrap();
    for (name, layout) in ["fso", "legacy", "obs"].into_iter().zip(LAYOUTS) {
        let options = BucketOptions {
            layout: Some(layout),
            quota_bytes: Some(1 << 20),
            ..BucketOptions::default()
        };
        fs.create_bucket("vol", name, &options).await.unwrap();
        let bucket = fs.bucket("vol", name).await.unwrap();
        assert_eq!((bucket.layout, bucket.quota_bytes), (layout, Some(1 << 20)));
        assert_eq!(bucket.owner, "ann");
        let able = fs.capabilities(&format!("/vol/{name}/x")).await.unwrap();
        assert_eq!(able.append, layout != BucketLayout::ObjectStore);
    }
    let volume = fs.volume("vol").await.unwrap();
    assert_eq!(
        (volume.owner.as_str(), volume.quota_bytes),
        ("ann", Some(1 << 30))
    );
    let after = fs.buckets("vol", "fso", 1).await.unwrap();
    assert_eq!(after[0].name, "legacy");
    for (error, kind) in [
        (
            fs.create_volume("vol", &options).await,
            ErrorKind::AlreadyExists,
        ),
        (
            fs.create_volume("X", &options).await,
            ErrorKind::InvalidArgument,
        ),
        (fs.delete_volume("vol").await, ErrorKind::DirectoryNotEmpty),
        (fs.delete_volume("none").await, ErrorKind::NotFound),
        (fs.delete_bucket("vol", "none").await, ErrorKind::NotFound),
    ] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test]
async fn times_are_set_and_left() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    let file = path("f");
    put(&fs, &file, b"x").await;
    fs.set_times(&file, Some(1_000_000), None).await.unwrap();
    assert_eq!(fs.status(&file).await.unwrap().modified_ms, 1_000_000);
    fs.set_times(&file, None, Some(5)).await.unwrap();
    assert_eq!(fs.status(&file).await.unwrap().modified_ms, 1_000_000);
    let error = fs
        .set_times(&path("none"), Some(1), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn paths_of_an_o3fs_uri_are_below_its_bucket() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    let uri = format!("o3fs://bucket.vol.{}/", server.address());
    let below = FileSystem::connect(&uri, config()).await.unwrap();
    put(&below, "/dir/f", b"x").await;
    assert_eq!(get(&fs, &path("dir/f")).await, b"x");
    assert_eq!(names(&below, "/").await, ["dir"]);
    // Its root is not a bucket to be deleted.
    let error = below.delete("/", true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(names(&below, "/").await, ["dir"]);
}

#[tokio::test]
async fn garbage_on_the_port_harms_nobody_else() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"hrpc\x09\x00\x00\xff\xff\xff\xff",
        b"hrpc\x09\x00\x00\x00\x00\x00\x04\x03abc",
    ] {
        let mut raw = TcpStream::connect(server.address()).unwrap();
        raw.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        raw.write_all(garbage).unwrap();
        // Closed, perhaps after a word; never served.
        let mut said = Vec::new();
        if let Err(error) = raw.read_to_end(&mut said) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
        put(&fs, &path("f"), b"served").await;
    }
}

#[test]
fn blocking_calls_do_the_same_and_can_be_given_up() {
    let mut server = Server::start();
    let wait = Wait::unbounded();
    let fs = blocking::FileSystem::connect(&server.uri(), config(), &wait).unwrap();
    fs.mkdirs(BUCKET, true, &wait).unwrap();
    let file = path("f");
    let stream = fs.create(&file, &CreateOptions::default(), &wait).unwrap();
    stream.write(b"one", &wait).unwrap();
    stream.close(&wait).unwrap();
    let stream = fs.append(&file, &AppendOptions::default(), &wait).unwrap();
    stream.write(b"two", &wait).unwrap();
    stream.hsync(&wait).unwrap();
    stream.close(&wait).unwrap();
    let reader = fs.open(&file, &wait).unwrap();
    assert_eq!(reader.bytes_at(0, 10, &wait).unwrap(), &b"onetwo"[..]);

    // Nobody answers: the caller's bounds count, not the client's.
    server.kill();
    let error = fs
        .status(&file, &Wait::at_most(Duration::from_millis(50)))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let token = CancelToken::new();
    let other = token.clone();
    let canceller = std::thread::spawn(move || other.cancel());
    let error = fs.status(&file, &Wait::until(&token)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    canceller.join().unwrap();
    let error = fs
        .status(&file, &Wait::unbounded().or_interrupted(&|| true))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
}
