//! The black-box cases P1 and P2, and what callers are told when something is wrong.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use append_client::admin::{BucketLayout, BucketOptions};
use append_client::{Config, CreateOptions, ErrorKind, FileSystem};
use append_e2e::{BUCKET, Server, append, config, get, path, put};

async fn refused(fs: &FileSystem, file: &str) -> append_client::Error {
    let error = fs.append(file).open().await.unwrap_err();
    assert_eq!(error.path(), Some(file), "{error}");
    assert!(error.to_string().contains(file), "{error}");
    let open = fs.open_files(BUCKET, "", 100).await.unwrap();
    assert!(open.files.is_empty(), "a session is left: {:?}", open.files);
    error
}

/// P1, but for permissions, which nobody checks yet.
#[tokio::test]
async fn append_wants_an_existing_file() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    fs.mkdirs(&path("dir"), true).await.unwrap();
    put(&fs, &path("file"), b"x").await;
    let objects = BucketOptions {
        layout: Some(BucketLayout::ObjectStore),
        ..BucketOptions::default()
    };
    fs.create_bucket("vol", "objects", &objects).await.unwrap();
    put(&fs, "/vol/objects/key", b"x").await;

    for (file, kind, errno, asks) in [
        (path("missing"), ErrorKind::NotFound, libc::ENOENT, true),
        (path("no/parent"), ErrorKind::NotFound, libc::ENOENT, true),
        (
            "/vol/none/x".to_owned(),
            ErrorKind::NotFound,
            libc::ENOENT,
            true,
        ),
        (
            "/none/none/x".to_owned(),
            ErrorKind::NotFound,
            libc::ENOENT,
            true,
        ),
        (path("dir"), ErrorKind::IsDirectory, libc::EISDIR, true),
        (
            BUCKET.to_owned(),
            ErrorKind::IsDirectory,
            libc::EISDIR,
            false,
        ),
        (
            path(".snapshot/s/file"),
            ErrorKind::ReadOnly,
            libc::EROFS,
            false,
        ),
        (
            "/vol/objects/key".to_owned(),
            ErrorKind::Unsupported,
            libc::ENOTSUP,
            true,
        ),
    ] {
        let error = refused(&fs, &file).await;
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.errno(), errno, "{error}");
        // What the server refused names the request.
        assert_eq!(error.request().is_some(), asks, "{error}");
        if let Some(request) = error.request() {
            assert!(error.to_string().contains(request), "{error}");
        }
    }
    // Nothing was created.
    for name in ["missing", "no", ".snapshot"] {
        let error = fs.status(&path(name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

/// P2.
#[tokio::test]
async fn an_empty_file_and_empty_appends() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    let file = path("e");
    put(&fs, &file, b"").await;
    assert_eq!(fs.status(&file).await.unwrap().length, 0);
    let letters: Vec<u8> = (b'a'..=b'z').cycle().take(256).collect();
    append(&fs, &file, &letters).await;
    assert_eq!(get(&fs, &file).await, letters);

    let status = fs.status(&file).await.unwrap();
    let bucket = fs.bucket("vol", "bucket").await.unwrap();
    for _ in 0..5 {
        append(&fs, &file, b"").await;
    }
    assert_eq!(fs.status(&file).await.unwrap(), status);
    let after = fs.bucket("vol", "bucket").await.unwrap();
    assert_eq!(
        (after.used_bytes, after.used_names),
        (bucket.used_bytes, bucket.used_names)
    );
    assert_eq!(fs.append_status(&file).await.unwrap(), None);
    assert_eq!(get(&fs, &file).await, letters);
}

#[tokio::test]
async fn a_missing_file_can_be_created_by_its_first_append() {
    let server = Server::start();
    let fs = server.client().await;
    // Volume, bucket and folders are made, too.
    let file = "/newvol/newbucket/a/b/log";
    for record in ["one", "two"] {
        let stream = fs
            .append(file)
            .create_if_missing(true)
            .open()
            .await
            .unwrap();
        stream.write(record.as_bytes()).await.unwrap();
        stream.close().await.unwrap();
    }
    assert_eq!(get(&fs, file).await, b"onetwo");
}

#[tokio::test]
async fn creating_follows_the_rules_of_hadoop() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    put(&fs, &path("file"), b"x").await;
    fs.mkdirs(&path("dir"), true).await.unwrap();
    let fresh = CreateOptions {
        overwrite: false,
        ..CreateOptions::default()
    };
    let flat = CreateOptions {
        recursive: false,
        ..CreateOptions::default()
    };
    let all = CreateOptions::default();
    for (name, options, kind) in [
        ("file", &fresh, ErrorKind::AlreadyExists),
        ("dir", &all, ErrorKind::IsDirectory),
        ("file/below", &all, ErrorKind::NotADirectory),
        ("no/parent", &flat, ErrorKind::ParentNotFound),
        (".snapshot/s/x", &all, ErrorKind::ReadOnly),
    ] {
        let error = fs.create(&path(name), options).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    put(&fs, &path("made/parents/x"), b"1").await;
    put(&fs, &path("file"), b"replaced").await;
    assert_eq!(get(&fs, &path("file")).await, b"replaced");
    let open = fs.open_files(BUCKET, "", 100).await.unwrap();
    assert!(open.files.is_empty(), "{:?}", open.files);
}

#[tokio::test]
async fn reading_what_is_no_file_is_refused() {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    fs.mkdirs(&path("dir"), true).await.unwrap();
    for (file, kind) in [
        (path("none"), ErrorKind::NotFound),
        (path("dir"), ErrorKind::IsDirectory),
        (BUCKET.to_owned(), ErrorKind::IsDirectory),
        ("/vol/none".to_owned(), ErrorKind::NotFound),
        ("/".to_owned(), ErrorKind::IsDirectory),
    ] {
        let error = fs.open(&file).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test]
async fn bad_surroundings_are_clear_errors() {
    let server = Server::start();
    for (address, kind) in [
        ("hdfs://host/", ErrorKind::InvalidArgument),
        ("ofs://127.0.0.1:nope/", ErrorKind::InvalidArgument),
        ("", ErrorKind::InvalidArgument),
    ] {
        let error = FileSystem::connect(address, config()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let mut server = server;
    server.kill();
    let error = FileSystem::connect(&server.uri(), config())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    assert!(error.to_string().contains(server.address()), "{error}");
    let malformed = Config::empty().with("ozone.client.stream.buffer.size", "a lot");
    let error = FileSystem::connect(&server.uri(), malformed)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}
