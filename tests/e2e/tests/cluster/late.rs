//! Servers that were away for long, or are new: they get a checkpoint.

use std::time::Duration;

use append_e2e::{append, get, noise, path, put};
use rand::Rng;

use crate::rounds;
use crate::world::{QUICK, World, until};

/// Small logs, so that few commands are enough for a checkpoint and a cut.
const SMALL: [&str; 3] = [
    "libappend.om.checkpoint.log.bytes=20KB",
    "libappend.om.log.segment.bytes=8KB",
    "libappend.om.group.log.kept=10",
];

fn settings() -> Vec<&'static str> {
    [&QUICK[..], &SMALL].concat()
}

/// Makes files until the leader has cut its log behind `index`.
async fn fill(world: &World, fs: &append_client::FileSystem, from: u32) -> u32 {
    for at in from..from + 150 {
        put(fs, &path(&format!("fill{at}")), &noise(u64::from(at), 100)).await;
    }
    let leader = tokio::task::block_in_place(|| world.leader());
    tokio::task::block_in_place(|| {
        until("a checkpoint of the leader", || {
            world
                .count(leader, "append_checkpoint_index")
                .filter(|index| *index > 0.0)
        })
    });
    from + 150
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_server_gets_a_checkpoint_and_survives_kills_while_it_comes_in() {
    let mut world = World::start(1, &settings()).await;
    let fs = world.client().await;
    put(&fs, &path("before"), b"before").await;
    let leader = tokio::task::block_in_place(|| world.leader());
    let late = (1..=3).find(|id| *id != leader).unwrap();
    world.kill(late);
    let mut from = fill(&world, &fs, 0).await;
    from = fill(&world, &fs, from).await;
    for _ in 0..rounds(6, 40) {
        world.launch(late);
        let wait = Duration::from_millis(rand::rng().random_range(0..700));
        // The moment of the kill.
        tokio::time::sleep(wait).await;
        world.kill(late);
    }
    // Twice, as the log is cut behind the older of two checkpoints, and one that was not killed in time may have reached the newer.
    from = fill(&world, &fs, from).await;
    from = fill(&world, &fs, from).await;
    tokio::task::block_in_place(|| {
        world.run(late);
        world.catch_up(late);
        let installed = world.count(late, "append_checkpoints_installed");
        assert_eq!(installed, Some(1.0), "it came by log");
        // What it has now is what it serves with.
        let transferred = world.admin(world.leader(), &["transfer", &late.to_string()]);
        assert!(transferred.status.success(), "{transferred:?}");
        assert_eq!(world.leader(), late);
    });
    append(&fs, &path("before"), b" and after").await;
    assert_eq!(get(&fs, &path("before")).await, b"before and after");
    let last = path(&format!("fill{}", from - 1));
    assert_eq!(get(&fs, &last).await, noise(u64::from(from - 1), 100));
    fs.close().await;
    world.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_disk_is_replaced_by_a_new_server() {
    let mut world = World::start(1, &settings()).await;
    let fs = world.client().await;
    put(&fs, &path("kept"), b"kept").await;
    let from = fill(&world, &fs, 0).await;
    let leader = tokio::task::block_in_place(|| world.leader());
    let lost = (1..=3).find(|id| *id != leader).unwrap();
    world.kill(lost);
    std::fs::remove_dir_all(&world.members[&lost].data).unwrap();
    fill(&world, &fs, from).await;
    tokio::task::block_in_place(|| {
        // With its number and another disk it gets nothing: it could vote twice.
        world.run(lost);
        let admitted = world.admin(leader, &["admit", &world.peer(lost)]);
        assert!(!admitted.status.success(), "{admitted:?}");
        world.kill(lost);
        world.add(4);
        world.run(4);
        let leader = world.leader();
        let admitted = world.admin(leader, &["admit", &world.peer(4)]);
        assert!(admitted.status.success(), "{admitted:?}");
        let dismissed = world.admin(leader, &["dismiss", &lost.to_string()]);
        assert!(dismissed.status.success(), "{dismissed:?}");
        world.catch_up(4);
        assert_eq!(world.count(4, "append_checkpoints_installed"), Some(1.0));
        let transferred = world.admin(leader, &["transfer", "4"]);
        assert!(transferred.status.success(), "{transferred:?}");
        assert_eq!(world.leader(), 4);
    });
    let fs4 = world.client().await;
    append(&fs4, &path("kept"), b" on 4").await;
    assert_eq!(get(&fs4, &path("kept")).await, b"kept on 4");
    std::fs::remove_dir_all(&world.members[&lost].data).unwrap();
    fs.close().await;
    fs4.close().await;
    world.finish();
}
