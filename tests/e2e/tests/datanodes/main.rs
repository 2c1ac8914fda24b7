//! Datanodes that are processes of their own: one that dies costs an allocation and never a session; what lies on it cannot be read until
//! it is back, and is never taken for something else.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where something unexpected happens"
)]

mod process;

use std::time::{Duration, Instant};

use append_client::admin::BucketLayout;
use append_client::{Config, CreateOptions, ErrorKind, FileSystem};
use append_e2e::{Server, append, config, get, noise, path, put};
use process::Datanode;

fn settings(datanodes: &[&Datanode]) -> String {
    let addresses: Vec<_> = datanodes
        .iter()
        .map(|datanode| datanode.address.as_str())
        .collect();
    format!("libappend.datanodes={}", addresses.join(","))
}

fn serve(datanodes: &[&Datanode]) -> Server {
    Server::with(&[&settings(datanodes)])
}

/// A client that does not wait long for a datanode.
fn impatient() -> Config {
    config()
        .with("libappend.datanode.timeout", "2s")
        .with("libappend.call.timeout", "10s")
}

/// Which of the two has grown most since `before`.
fn grown(datanodes: [&Datanode; 2], before: [u64; 2]) -> usize {
    usize::from(datanodes[1].bytes() - before[1] > datanodes[0].bytes() - before[0])
}

fn sizes(datanodes: [&Datanode; 2]) -> [u64; 2] {
    datanodes.map(Datanode::bytes)
}

/// Requests of a kind that the server answered, by its own count.
async fn served(server: &Server, command: &str) -> u64 {
    let page = server.page("/prom").await;
    let label = format!("command=\"{command}\"");
    page.lines()
        .filter(|line| line.starts_with("append_om_requests_total") && line.contains(&label))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

/// The content, once it can be read.
async fn get_soon(fs: &FileSystem, path: &str, length: usize) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let reader = fs.open(path).await.unwrap();
        let mut content = vec![0; length];
        match reader.read_at(0, &mut content).await {
            Ok(read) => {
                content.truncate(read);
                return content;
            }
            Err(error) if Instant::now() >= end => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_36_a_datanode_that_dies_under_a_writer_costs_one_allocation() {
    let mut nodes = [Datanode::start(), Datanode::start()];
    let server = serve(&[&nodes[0], &nodes[1]]);
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, impatient())
        .await;
    let file = path("file");
    put(&fs, &file, b"prefix").await;
    let content = noise(36, 3 << 20);
    let part = content.len() / 3;

    let before = sizes([&nodes[0], &nodes[1]]);
    let stream = fs.append(&file).open().await.unwrap();
    stream.write(&content[..part]).await.unwrap();
    stream.hsync().await.unwrap();
    let dead = grown([&nodes[0], &nodes[1]], before);
    // Written and not synced: it has to be sent again.
    stream.write(&content[part..2 * part]).await.unwrap();
    let allocations = served(&server, "AllocateBlock").await;
    nodes[dead].kill();
    stream.hsync().await.unwrap();
    stream.write(&content[2 * part..]).await.unwrap();
    stream.close().await.unwrap();
    assert_eq!(
        served(&server, "AllocateBlock").await,
        allocations + 1,
        "one allocation, which excludes the dead one"
    );

    // What lies on the dead one cannot be read, and the error says why.
    let status = fs.status(&file).await.unwrap();
    assert_eq!(status.length, 6 + u64::try_from(content.len()).unwrap());
    let reader = fs.open(&file).await.unwrap();
    let error = reader.read_at(0, &mut [0; 100]).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Connect | ErrorKind::Timeout),
        "{error}"
    );
    assert!(
        error.to_string().contains(&nodes[dead].address),
        "the error does not name the datanode: {error}"
    );
    // The rest can.
    let tail = status.length - 100;
    let mut end = [0; 100];
    assert_eq!(reader.read_at(tail, &mut end).await.unwrap(), 100);
    assert_eq!(end[..], content[content.len() - 100..]);

    nodes[dead].run();
    let whole = get_soon(&fs, &file, 6 + content.len()).await;
    assert_eq!(whole[..6], *b"prefix");
    assert!(whole[6..] == content, "other bytes than were written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_36_appends_go_on_while_datanodes_die_in_turn() {
    let mut nodes = [Datanode::start(), Datanode::start()];
    let server = serve(&[&nodes[0], &nodes[1]]);
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, impatient())
        .await;
    let names: Vec<_> = (0..4).map(|n| path(&format!("file-{n}"))).collect();
    for name in &names {
        put(&fs, name, b"").await;
    }
    let mut written = vec![Vec::new(); names.len()];
    for round in 0..12_u64 {
        let dead = usize::try_from(round % 3).unwrap();
        if dead < 2 {
            nodes[dead].kill();
        }
        for (at, name) in names.iter().enumerate() {
            let more = noise(round * 10 + u64::try_from(at).unwrap(), 4000);
            append(&fs, name, &more).await;
            written[at].extend(more);
        }
        if dead < 2 {
            nodes[dead].run();
            // The other one dies next: the server must have met this one again.
            let end = Instant::now() + Duration::from_secs(60);
            while !server
                .page("/prom")
                .await
                .lines()
                .any(|line| line.starts_with("append_datanodes_live") && line.ends_with(" 2"))
            {
                assert!(Instant::now() < end, "the datanode was not met again");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    for (name, written) in names.iter().zip(&written) {
        assert!(get(&fs, name).await == *written, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_datanode_that_hangs_is_passed_over() {
    let nodes = [Datanode::start(), Datanode::start()];
    let server = serve(&[&nodes[0], &nodes[1]]);
    let fs = server
        .bucket_with(BucketLayout::FileSystemOptimized, impatient())
        .await;
    let file = path("file");
    let content = noise(7, 1 << 20);
    let before = sizes([&nodes[0], &nodes[1]]);
    let stream = fs.create(&file, &CreateOptions::default()).await.unwrap();
    stream.write(&content).await.unwrap();
    stream.hsync().await.unwrap();
    let hung = grown([&nodes[0], &nodes[1]], before);
    nodes[hung].signal("STOP");
    stream.write(&content).await.unwrap();
    stream.close().await.unwrap();
    for n in 0..5 {
        put(&fs, &path(&format!("other-{n}")), &content).await;
    }
    nodes[hung].signal("CONT");
    let whole = get_soon(&fs, &file, 2 * content.len()).await;
    assert!(whole[..content.len()] == content && whole[content.len()..] == content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_datanode_nothing_is_proposed_and_the_writer_waits() {
    let mut node = Datanode::start();
    let server = serve(&[&node]);
    let fs = server
        .bucket_with(
            BucketLayout::FileSystemOptimized,
            impatient().with("libappend.call.timeout", "5s"),
        )
        .await;
    let file = path("file");
    put(&fs, &file, b"before").await;
    node.kill();
    let end = Instant::now() + Duration::from_secs(60);
    let refused = loop {
        match fs.append(&file).open().await {
            // It was not missed yet.
            Ok(stream) => stream.abort(Duration::from_secs(5)).await,
            Err(error) => break error,
        }
        assert!(Instant::now() < end, "a dead datanode is picked");
    };
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(refused.to_string().contains("datanode"), "{refused}");
    let open = fs.append_status(&file).await.unwrap();
    assert!(open.is_none(), "the refused append left {open:?}");
    // One that waits is served as soon as it is back.
    let patient = server.client().await;
    let waiting = {
        let file = file.clone();
        tokio::spawn(async move {
            append(&patient, &file, b" and after").await;
        })
    };
    node.run();
    waiting.await.unwrap();
    assert_eq!(get_soon(&fs, &file, 100).await, b"before and after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_datanode_in_the_place_of_one_is_not_taken_for_it() {
    let mut node = Datanode::start();
    let server = serve(&[&node]);
    let fs = server
        .bucket_with(
            BucketLayout::FileSystemOptimized,
            impatient().with("libappend.call.timeout", "5s"),
        )
        .await;
    let file = path("file");
    put(&fs, &file, b"content").await;
    let stranger = node.replaced();
    assert_ne!(stranger.uuid, node.uuid);
    let reader = fs.open(&file).await.unwrap();
    let error = reader.read_at(0, &mut [0; 7]).await.unwrap_err();
    assert!(error.to_string().contains(&stranger.uuid), "{error}");
    let end = Instant::now() + Duration::from_secs(60);
    while let Ok(stream) = fs.create(&path("new"), &CreateOptions::default()).await {
        assert!(stream.write(b"x").await.is_err() || stream.close().await.is_err());
        assert!(Instant::now() < end, "the stranger is picked");
    }
    assert!(
        stranger.bytes() < 4096,
        "a block was placed on the stranger"
    );
    drop(stranger);
    node.run();
    assert_eq!(get_soon(&fs, &file, 100).await, b"content");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_datanode_that_moved_is_found_at_its_new_address() {
    let mut node = Datanode::start();
    let mut server = serve(&[&node]);
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    let file = path("file");
    put(&fs, &file, b"content").await;
    let old = node.address.clone();
    node.move_away();
    assert_ne!(node.address, old);
    server.restart_with(&[&settings(&[&node])]);
    let fs = server.client().await;
    assert_eq!(get_soon(&fs, &file, 100).await, b"content");
    append(&fs, &file, b" and more").await;
    assert_eq!(get(&fs, &file).await, b"content and more");
}
