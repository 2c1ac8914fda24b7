//! Servers that stand still: nobody is fenced by time that nobody could use, and an admission that was under way is decided once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use append_client::{ErrorKind, FileSystem};
use append_e2e::{get, noise, path};
use rand::Rng;

use crate::rounds;
use crate::world::{QUICK, World};

/// The soft limit of these tests: more than the step by which lease time may move when a majority is back, and what a renewal is late.
const SOFT_LIMIT: Duration = Duration::from_secs(4);

/// Whoever is silent for as long as the outages of these tests is fenced by anybody, and soon by the leader itself.
fn settings() -> Vec<&'static str> {
    let limits = [
        "ozone.om.lease.soft.limit=4s",
        "ozone.om.lease.hard.limit=5s",
    ];
    [&QUICK[..], &limits].concat()
}

/// Tries to fence the writer of a file, again and again until it is told to stop; gives how often it was told that the writer lives.
async fn contend(fs: FileSystem, file: String, stop: Arc<AtomicBool>) -> u32 {
    let mut refused = 0;
    while !stop.load(Ordering::Acquire) {
        match fs.recover_lease(&file).await {
            Err(error) if error.kind() == ErrorKind::Conflict => refused += 1,
            other => panic!("a live writer was fenced: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stands_still_fences_no_live_writer() {
    let world = World::start(1, &settings()).await;
    let fs = world.client().await;
    let bytes = noise(2, 30_000);
    let (first, rest) = bytes.split_at(10_000);
    let (second, third) = rest.split_at(10_000);
    let stream = fs
        .append(&path("file"))
        .create_if_missing(true)
        .open()
        .await
        .unwrap();
    stream.write(first).await.unwrap();
    stream.hsync().await.unwrap();
    let leader = tokio::task::block_in_place(|| world.leader());
    let stop = Arc::new(AtomicBool::new(false));
    let contender = tokio::spawn(contend(
        world.client().await,
        path("file"),
        Arc::clone(&stop),
    ));
    world.signal(leader, "STOP");
    // The outage itself.
    tokio::time::sleep(SOFT_LIMIT * 2 + SOFT_LIMIT / 2).await;
    stream.write(second).await.unwrap();
    stream.hsync().await.unwrap();
    world.signal(leader, "CONT");
    stream.write(third).await.unwrap();
    stop.store(true, Ordering::Release);
    assert!(contender.await.unwrap() > 0);
    stream.close().await.unwrap();
    assert!(get(&fs, &path("file")).await == bytes);
    fs.close().await;
    world.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_without_a_majority_fences_no_live_writer() {
    let mut world = World::start(1, &settings()).await;
    let fs = world.client().await;
    let bytes = noise(3, 20_000);
    let (first, second) = bytes.split_at(10_000);
    let stream = fs
        .append(&path("file"))
        .create_if_missing(true)
        .open()
        .await
        .unwrap();
    stream.write(first).await.unwrap();
    stream.hsync().await.unwrap();
    let leader = tokio::task::block_in_place(|| world.leader());
    let others: Vec<_> = world
        .running()
        .into_iter()
        .filter(|id| *id != leader)
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let contender = contend(world.client().await, path("file"), Arc::clone(&stop));
    let contender = tokio::spawn(contender);
    for id in &others {
        world.kill(*id);
    }
    // The outage itself.
    tokio::time::sleep(SOFT_LIMIT * 2 + SOFT_LIMIT / 2).await;
    for id in &others {
        world.launch(*id);
    }
    stream.write(second).await.unwrap();
    stream.hsync().await.unwrap();
    stop.store(true, Ordering::Release);
    assert!(contender.await.unwrap() > 0);
    stream.close().await.unwrap();
    assert!(get(&fs, &path("file")).await == bytes);
    fs.close().await;
    tokio::task::block_in_place(|| world.leader());
    world.finish();
}

/// P11: the leader is frozen while it may have taken an admission that is not decided yet. The retry at the next leader has one answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p11_an_admission_under_a_frozen_leader_is_decided_once() {
    let world = World::start(1, &QUICK).await;
    let fs = world.client().await;
    let rounds = rounds(20, 1_000);
    let mut under_way = 0;
    for round in 0..rounds {
        let file = path(&format!("file{round}"));
        let leader = tokio::task::block_in_place(|| world.leader());
        let others: Vec<_> = world
            .running()
            .into_iter()
            .filter(|id| *id != leader)
            .collect();
        // In every other round the leader takes the admission while nobody hears of it, or hears of it only when another leads.
        let alone = round % 2 == 0;
        if alone {
            others.iter().for_each(|id| world.signal(*id, "STOP"));
        }
        let admission = {
            let (fs, file) = (fs.clone(), file.clone());
            tokio::spawn(async move {
                let opened = fs.append(&file).create_if_missing(true).open().await;
                opened.map(|stream| (stream.session(), stream))
            })
        };
        let wait = rand::rng().random_range(0..if alone { 100_000 } else { 8_000 });
        // The moment of the freeze.
        tokio::time::sleep(Duration::from_micros(wait)).await;
        world.signal(leader, "STOP");
        under_way += usize::from(!admission.is_finished());
        if alone {
            others.iter().for_each(|id| world.signal(*id, "CONT"));
        }
        tokio::task::block_in_place(|| world.leader_among(&others));
        let answer = admission.await.unwrap();
        world.signal(leader, "CONT");
        let (session, stream) = answer.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(session.is_some());
        let open = fs.open_files("/", "", 100).await.unwrap();
        assert_eq!(open.files.len(), 1, "round {round}: {:?}", open.files);
        stream.write(b"once").await.unwrap();
        stream.close().await.unwrap();
        assert_eq!(get(&fs, &file).await, b"once", "round {round}");
    }
    println!(
        "{rounds} rounds, {under_way} admissions under way when the leader froze, each decided once"
    );
    assert!(under_way * 3 >= rounds, "{under_way} of {rounds}");
    fs.close().await;
    world.finish();
}
