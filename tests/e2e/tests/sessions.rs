//! Who may write, what others see meanwhile, and what happens to a writer whose file changes under it.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::time::{Duration, Instant};

use append_client::admin::BucketLayout;
use append_client::status::{Phase, RenameOutcome, WriterKind};
use append_client::{AppendStatus, CreateOptions, ErrorKind, FileSystem, Retry};
use append_e2e::{BUCKET, Server, append, get, noise, path, put};

/// Far beyond what anything here takes; reached only if something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn fso() -> (Server, FileSystem) {
    let server = Server::start();
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    (server, fs)
}

/// Asks until the writer of a file is as wanted.
async fn wait_for_writer(
    fs: &FileSystem,
    file: &str,
    wanted: impl Fn(Option<&AppendStatus>) -> bool,
) {
    let end = Instant::now() + PATIENCE;
    loop {
        let status = fs.append_status(file).await.unwrap();
        if wanted(status.as_ref()) {
            return;
        }
        assert!(Instant::now() < end, "{status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_second_writer_is_told_who_holds_the_file() {
    let (server, first) = fso().await;
    let file = path("f");
    put(&first, &file, b"0123456789").await;
    let stream = first.append(&file).open().await.unwrap();
    stream.write(b"abc").await.unwrap();
    stream.hsync().await.unwrap();

    let second = server.client().await;
    let error = second.append(&file).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let owner = error.conflict().unwrap();
    assert_eq!(owner.kind, WriterKind::Append);
    assert_eq!(owner.phase, Some(Phase::Active));
    assert_eq!(owner.handle, stream.session());
    assert_eq!((owner.prefix_length, owner.published_length), (10, 13));
    assert!(
        matches!(error.retry(), Retry::After(time) if time == owner.remaining && !time.is_zero())
    );
    assert!(error.to_string().contains(&file), "{error}");

    // The same client would wait for itself.
    let error = first.append(&file).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(error.retry(), Retry::Never);

    let open = second.open_files(BUCKET, "", 10).await.unwrap();
    assert_eq!((open.files.len(), open.total), (1, 1));
    assert_eq!(open.files[0].path.to_string(), file);
    assert_eq!(
        Some(open.files[0].session),
        stream.session().map(|s| s.session)
    );

    stream.close().await.unwrap();
    // Closed means free for the very next append.
    append(&second, &file, b"!").await;
    assert_eq!(get(&first, &file).await, b"0123456789abc!");
}

#[tokio::test]
async fn readers_see_what_was_synced_and_no_more() {
    let (server, fs) = fso().await;
    let other = server.client().await;
    let file = path("f");
    put(&fs, &file, b"prefix").await;
    let before = other.open(&file).await.unwrap();
    let stream = fs.append(&file).open().await.unwrap();
    assert_eq!(other.status(&file).await.unwrap().length, 6);
    stream.write(b"-one").await.unwrap();
    assert_eq!(other.status(&file).await.unwrap().length, 6);
    assert_eq!(get(&other, &file).await, b"prefix");
    stream.hsync().await.unwrap();
    assert_eq!(other.status(&file).await.unwrap().length, 10);
    assert_eq!(get(&other, &file).await, b"prefix-one");
    stream.write(b"-two").await.unwrap();
    stream.hflush().await.unwrap();
    assert_eq!(get(&other, &file).await, b"prefix-one-two");
    // An open reader keeps its view.
    assert_eq!(before.len(), 6);
    assert_eq!(before.bytes_at(0, 100).await.unwrap(), &b"prefix"[..]);
    stream.close().await.unwrap();
    assert_eq!(get(&other, &file).await, b"prefix-one-two");
}

#[tokio::test]
async fn a_reader_of_a_synced_file_sees_what_its_writer_made_durable_since() {
    let server = Server::start();
    let config = append_e2e::config()
        .with("ozone.client.stream.buffer.size", "64KB")
        .with("ozone.client.stream.buffer.max.size", "128KB");
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, config)
        .await;
    let file = path("f");
    put(&fs, &file, b"prefix").await;
    let content = noise(3, 1 << 20);
    let stream = fs.append(&file).open().await.unwrap();
    stream.write(&content[..100]).await.unwrap();
    stream.hsync().await.unwrap();
    // Enough to be committed at the datanode on the way, without a sync.
    stream.write(&content[100..]).await.unwrap();
    assert_eq!(fs.status(&file).await.unwrap().length, 106);
    let other = server.client().await;
    let seen = get(&other, &file).await;
    assert!(seen.len() > 106, "only {} bytes are seen", seen.len());
    assert!(seen[6..] == content[..seen.len() - 6]);
    stream.close().await.unwrap();
    assert_eq!(get(&other, &file).await.len(), 6 + content.len());
}

#[tokio::test]
async fn syncs_without_new_bytes_publish_nothing() {
    let (_server, fs) = fso().await;
    let file = path("f");
    let stream = fs.create(&file, &CreateOptions::default()).await.unwrap();
    stream.hsync().await.unwrap();
    stream.write(b"x").await.unwrap();
    stream.hsync().await.unwrap();
    let status = fs.status(&file).await.unwrap();
    for _ in 0..3 {
        stream.hsync().await.unwrap();
    }
    assert_eq!(fs.status(&file).await.unwrap(), status);
    stream.close().await.unwrap();
}

#[tokio::test]
async fn after_close_everything_is_over() {
    let (_server, fs) = fso().await;
    let file = path("f");
    let stream = fs.create(&file, &CreateOptions::default()).await.unwrap();
    stream.write(b"abc").await.unwrap();
    stream.close().await.unwrap();
    stream.hflush().await.unwrap();
    stream.close().await.unwrap();
    stream.close().await.unwrap();
    let error = stream.write(b"d").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(stream.pos(), 3);
    assert_eq!(get(&fs, &file).await, b"abc");
}

#[tokio::test]
async fn a_created_file_is_there_at_once_and_another_create_takes_it_over() {
    let (server, fs) = fso().await;
    let file = path("f");
    let stream = fs.create(&file, &CreateOptions::default()).await.unwrap();
    assert_eq!(fs.status(&file).await.unwrap().length, 0);
    stream.write(b"old").await.unwrap();
    // An append is refused while the creator lives, an overwriting create is not.
    let other = server.client().await;
    let error = other.append(&file).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let exclusive = CreateOptions {
        overwrite: false,
        ..CreateOptions::default()
    };
    let error = other.create(&file, &exclusive).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    put(&other, &file, b"new").await;
    let error = stream.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(get(&fs, &file).await, b"new");
}

#[tokio::test]
async fn an_append_cannot_be_overwritten() {
    let (server, fs) = fso().await;
    let file = path("f");
    put(&fs, &file, b"old").await;
    let stream = fs.append(&file).open().await.unwrap();
    let other = server.client().await;
    let error = other
        .create(&file, &CreateOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    stream.write(b"er").await.unwrap();
    stream.close().await.unwrap();
    assert_eq!(get(&fs, &file).await, b"older");
}

#[tokio::test]
async fn an_overwrite_shows_the_old_content_until_it_is_closed() {
    let (_server, fs) = fso().await;
    let file = path("f");
    put(&fs, &file, b"old content").await;
    let stream = fs.create(&file, &CreateOptions::default()).await.unwrap();
    stream.write(b"new").await.unwrap();
    assert_eq!(get(&fs, &file).await, b"old content");
    stream.close().await.unwrap();
    assert_eq!(get(&fs, &file).await, b"new");
}

#[tokio::test]
async fn a_session_follows_its_file_through_renames() {
    for layout in [BucketLayout::FileSystemOptimized, BucketLayout::Legacy] {
        let server = Server::start();
        let fs = server.bucket(layout).await;
        fs.mkdirs(&path("a"), true).await.unwrap();
        put(&fs, &path("a/f"), b"1").await;
        let stream = fs.append(&path("a/f")).open().await.unwrap();
        stream.write(b"2").await.unwrap();
        fs.rename(&path("a/f"), &path("a/g")).await.unwrap();
        stream.write(b"3").await.unwrap();
        stream.hsync().await.unwrap();
        // A new file at the old name has nothing to do with it.
        put(&fs, &path("a/f"), b"other").await;
        fs.rename(&path("a"), &path("b")).await.unwrap();
        stream.write(b"4").await.unwrap();
        stream.close().await.unwrap();
        assert_eq!(get(&fs, &path("b/g")).await, b"1234");
        assert_eq!(get(&fs, &path("b/f")).await, b"other");
        let gone = fs.status(&path("a/g")).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_deleted_file_does_not_come_back() {
    let (_server, fs) = fso().await;
    put(&fs, &path("d/f"), b"1").await;
    let stream = fs.append(&path("d/f")).open().await.unwrap();
    stream.write(b"2").await.unwrap();
    assert!(fs.delete(&path("d"), true).await.unwrap());
    let error = stream.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(error.session(), stream.session().map(|s| s.session));
    let gone = fs.status(&path("d/f")).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_dropped_stream_gives_its_file_back_at_what_was_synced() {
    let (_server, fs) = fso().await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    let stream = fs.append(&file).open().await.unwrap();
    stream.write(b"2").await.unwrap();
    stream.hsync().await.unwrap();
    stream.write(b"3").await.unwrap();
    drop(stream);
    wait_for_writer(&fs, &file, |writer| writer.is_none()).await;
    assert_eq!(get(&fs, &file).await, b"12");
    let stream = fs.append(&file).open().await.unwrap();
    stream.write(b"x").await.unwrap();
    stream.abort(PATIENCE).await;
    assert_eq!(fs.append_status(&file).await.unwrap(), None);
    append(&fs, &file, b"4").await;
    assert_eq!(get(&fs, &file).await, b"124");
}

#[tokio::test]
async fn an_open_that_nobody_waits_for_leaves_no_session() {
    let (_server, fs) = fso().await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    for give_up_after in 0..40_u32 {
        // Polled a few times, then dropped, somewhere on the way.
        let mut open = Box::pin(fs.append(&file).open());
        for _ in 0..give_up_after {
            let once =
                std::future::poll_fn(|context| std::task::Poll::Ready(open.as_mut().poll(context)));
            if once.await.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(open);
    }
    // Opens that are still on their way come and go; none of them stays.
    let end = Instant::now() + PATIENCE;
    let stream = loop {
        match fs.append(&file).open().await {
            Ok(stream) => break stream,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
        assert!(Instant::now() < end, "a session was left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    stream.write(b"2").await.unwrap();
    stream.close().await.unwrap();
    assert_eq!(get(&fs, &file).await, b"12");
}

#[tokio::test]
async fn an_idle_writer_keeps_its_file() {
    let server = Server::with(&["ozone.om.lease.soft.limit=400ms"]);
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    let file = path("f");
    put(&fs, &file, b"1").await;
    let stream = fs.append(&file).open().await.unwrap();
    let other = server.client().await;
    // Several times the limit goes by, told by the renewals that were applied.
    wait_for_writer(&other, &file, |writer| {
        writer.is_some_and(|writer| writer.renewals >= 20)
    })
    .await;
    let error = other.append(&file).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    stream.write(b"2").await.unwrap();
    stream.close().await.unwrap();
    assert_eq!(get(&other, &file).await, b"12");
}

#[tokio::test]
async fn renaming_into_follows_the_rules_of_hadoop() {
    for layout in [BucketLayout::FileSystemOptimized, BucketLayout::Legacy] {
        let server = Server::start();
        let fs = server.bucket(layout).await;
        fs.mkdirs(&path("dir/inner"), true).await.unwrap();
        put(&fs, &path("file"), b"f").await;
        put(&fs, &path("dir/taken"), b"t").await;
        put(&fs, &path("taken"), b"t").await;
        for (from, to, outcome) in [
            ("none", "x", RenameOutcome::SourceMissing),
            ("none", "dir", RenameOutcome::SourceMissing),
            ("file", "file", RenameOutcome::SameFile),
            ("dir", "dir", RenameOutcome::SameDirectory),
            ("file", "taken", RenameOutcome::DestinationExists),
            ("taken", "dir", RenameOutcome::DestinationExists),
            ("file", "no/parent", RenameOutcome::NoDestinationParent),
            ("file", "taken/x", RenameOutcome::NoDestinationParent),
            ("dir", "dir/inner/x", RenameOutcome::BelowItself),
            ("dir", "dir/inner", RenameOutcome::BelowItself),
            ("file", "dir", RenameOutcome::Done),
            ("dir/inner", "moved", RenameOutcome::Done),
            ("dir", "moved", RenameOutcome::Done),
        ] {
            let result = fs.rename_into(&path(from), &path(to)).await;
            assert_eq!(result.unwrap(), outcome, "{layout:?}: {from} to {to}");
        }
        assert_eq!(get(&fs, &path("moved/dir/file")).await, b"f");
        assert_eq!(get(&fs, &path("moved/dir/taken")).await, b"t");
    }
}

#[tokio::test]
async fn an_overwrite_that_is_given_up_leaves_the_file_to_others() {
    let (_server, fs) = fso().await;
    let file = path("f");
    put(&fs, &file, b"old").await;
    let over = CreateOptions::default();

    let stream = fs.create(&file, &over).await.unwrap();
    stream.write(b"never").await.unwrap();
    stream.abort(PATIENCE).await;
    append(&fs, &file, b" and appended").await;
    assert_eq!(get(&fs, &file).await, b"old and appended");

    // What a sync has published stays.
    let stream = fs.create(&file, &over).await.unwrap();
    stream.write(b"new").await.unwrap();
    stream.hsync().await.unwrap();
    stream.write(b"never").await.unwrap();
    stream.abort(PATIENCE).await;
    append(&fs, &file, b"er").await;
    assert_eq!(get(&fs, &file).await, b"newer");
}

#[tokio::test]
async fn an_overwrite_goes_where_its_directory_goes() {
    let (_server, fs) = fso().await;
    put(&fs, &path("d/f"), b"old").await;
    let stream = fs
        .create(&path("d/f"), &CreateOptions::default())
        .await
        .unwrap();
    fs.rename(&path("d"), &path("e")).await.unwrap();
    stream.write(b"new").await.unwrap();
    stream.close().await.unwrap();
    assert_eq!(get(&fs, &path("e/f")).await, b"new");
}
