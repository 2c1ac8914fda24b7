//! Leaders that are killed under appenders.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use append_client::FileSystem;
use append_e2e::{get, noise, path};

use crate::rounds;
use crate::world::{LONG, World};

const APPENDERS: u64 = 3;

/// When an append began and when it was acknowledged.
type Served = Arc<Mutex<Vec<(Instant, Instant)>>>;

/// Appends to a file of its own, one session after the other, until it is told to stop; gives what was acknowledged.
async fn append_on(fs: FileSystem, number: u64, stop: Arc<AtomicBool>, served: Served) -> Vec<u8> {
    let file = path(&format!("file{number}"));
    let mut acknowledged = Vec::new();
    let mut turn = 0;
    while !stop.load(Ordering::Acquire) {
        let more = noise(
            number << 32 | turn,
            200 + usize::try_from(turn % 7).unwrap() * 900,
        );
        let begun = Instant::now();
        let stream = fs
            .append(&file)
            .create_if_missing(true)
            .open()
            .await
            .unwrap();
        assert_eq!(stream.start(), u64::try_from(acknowledged.len()).unwrap());
        let (first, second) = more.split_at(more.len() / 2);
        stream.write(first).await.unwrap();
        if turn % 3 == 0 {
            stream.hsync().await.unwrap();
        }
        stream.write(second).await.unwrap();
        stream.close().await.unwrap();
        served.lock().unwrap().push((begun, Instant::now()));
        acknowledged.extend(more);
        turn += 1;
    }
    acknowledged
}

/// The longest time without an acknowledgement, from `since` on.
fn silence(served: &[(Instant, Instant)], since: Instant) -> Duration {
    let mut done: Vec<_> = served.iter().map(|(_, done)| *done).collect();
    done.retain(|done| *done > since);
    done.push(since);
    done.sort();
    let gaps = done.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap()
}

fn shown(mut gaps: Vec<Duration>) -> String {
    gaps.sort();
    let p50 = gaps[gaps.len() / 2];
    let max = gaps[gaps.len() - 1];
    format!(
        "{} kills: appends served again after p50 {p50:?}, max {max:?}",
        gaps.len()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_leaders_are_killed() {
    let mut world = World::start(2, &[]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let served = Served::default();
    let mut appenders = Vec::new();
    for number in 0..APPENDERS {
        let fs = world.client().await;
        let work = append_on(fs, number, Arc::clone(&stop), Arc::clone(&served));
        appenders.push(tokio::spawn(work));
    }
    let again = async |since: Instant| {
        let end = Instant::now() + LONG;
        loop {
            let first = {
                let served = served.lock().unwrap();
                let after = served.iter().filter(|(begun, _)| *begun > since);
                after.map(|(_, done)| *done).min()
            };
            if let Some(done) = first {
                return done - since;
            }
            assert!(Instant::now() < end, "no append is served");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let mut gaps = Vec::new();
    for _ in 0..rounds(5, 20) {
        again(Instant::now()).await;
        let leader = tokio::task::block_in_place(|| world.leader());
        let killed = Instant::now();
        world.kill(leader);
        gaps.push(again(killed).await);
        tokio::task::block_in_place(|| {
            world.run(leader);
            world.catch_up(leader);
        });
    }
    again(Instant::now()).await;
    let leader = tokio::task::block_in_place(|| world.leader());
    let stopped = Instant::now();
    tokio::task::block_in_place(|| world.stop(leader));
    // An append that began after the signal may still have been served by the server that stops: what counts is the longest silence.
    again(Instant::now()).await;
    let gap = silence(&served.lock().unwrap(), stopped);
    stop.store(true, Ordering::Release);
    println!(
        "{}; longest silence of an orderly stop: {gap:?}",
        shown(gaps)
    );
    tokio::task::block_in_place(|| world.run(leader));
    let fs = world.client().await;
    for (number, appender) in appenders.into_iter().enumerate() {
        let acknowledged = appender.await.unwrap();
        let content = get(&fs, &path(&format!("file{number}"))).await;
        assert!(
            content == acknowledged,
            "file{number} has other bytes than were acknowledged"
        );
    }
    fs.close().await;
    world.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_three_are_killed_and_come_back() {
    let mut world = World::start(1, &[]).await;
    let fs = world.client().await;
    let file = path("file");
    let bytes = noise(1, 70_000);
    let (first, rest) = bytes.split_at(20_000);
    let stream = fs
        .append(&file)
        .create_if_missing(true)
        .open()
        .await
        .unwrap();
    stream.write(first).await.unwrap();
    stream.hsync().await.unwrap();
    for id in world.running() {
        world.kill(id);
    }
    for id in [1, 2, 3] {
        world.launch(id);
    }
    stream.write(rest).await.unwrap();
    stream.close().await.unwrap();
    assert!(get(&fs, &file).await == bytes);
    fs.close().await;
    tokio::task::block_in_place(|| world.leader());
    world.finish();
}
