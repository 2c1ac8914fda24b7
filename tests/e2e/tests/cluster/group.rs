//! How a group is made, what is refused, and the way from one server to three and back.

use append_client::{CreateOptions, FileSystem};
use append_e2e::{append, config, get, path, put};

use crate::world::{QUICK, World, append as admin, text, until};

fn complaint(mut command: std::process::Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_founded_once_and_by_word_only() {
    let mut world = World::bare(0, &QUICK);
    for id in 1..=3 {
        world.add(id);
        world.run(id);
    }
    // Nobody leads a group that nobody founded.
    let page = world.page(1, "/health").unwrap();
    assert!(page.starts_with("HTTP/1.0 503"), "{page}");
    for id in 1..=3 {
        world.kill(id);
    }
    drop(world);

    let mut world = World::start(0, &QUICK).await;
    let peers = world.peers();
    world.kill(1);
    let again = complaint(world.command(1, &["--id", "1", "--peers", &peers, "--found"]));
    assert!(again.contains("belongs to a group already"), "{again}");
    let alone = complaint(world.command(1, &[]));
    assert!(alone.contains("--id and --peers"), "{alone}");
    let other = complaint(world.command(1, &["--id", "2", "--peers", &peers]));
    assert!(!other.is_empty());
    let unnamed = complaint(world.command(1, &["--peers", &peers]));
    assert!(unnamed.contains("--id"), "{unnamed}");
    world.run(1);
    let members = world.admin(1, &["members"]);
    let shown = String::from_utf8(members.stdout).unwrap();
    assert_eq!(shown.lines().count(), 4, "{shown}");
    assert!(shown.contains(&world.client_address(2)), "{shown}");
    world.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_grows_to_three_and_a_survivor_goes_on_alone() {
    let mut world = World::bare(1, &QUICK);
    world.add(1);
    let data = world.members[&1].data.clone();
    // Alone, with the datanode that the group will have.
    let mut single = alone(&world, 1);
    let uri = format!("ofs://{}/", world.client_address(1));
    let fs = FileSystem::connect(&uri, config()).await.unwrap();
    made(&fs).await;
    put(&fs, &path("file"), b"one").await;
    fs.close().await;
    single.kill().unwrap();
    single.wait().unwrap();

    for id in [2, 3] {
        world.add(id);
    }
    let peers = world.peers();
    let refused = complaint(world.command(1, &["--id", "1", "--peers", &peers]));
    assert!(refused.contains("append admin grow"), "{refused}");
    let listen = world.client_address(1);
    let grown = admin(&[
        "grow",
        "--data",
        text(&data),
        "--id",
        "1",
        "--peers",
        &peers,
        "--listen",
        &listen,
    ]);
    assert!(grown.status.success(), "{grown:?}");
    for id in 1..=3 {
        world.run(id);
    }
    tokio::task::block_in_place(|| {
        assert_eq!(world.leader(), 1);
        for id in [2, 3] {
            let admitted = world.admin(1, &["admit", &world.peer(id)]);
            assert!(admitted.status.success(), "{admitted:?}");
            world.catch_up(id);
        }
    });
    let fs = world.client().await;
    append(&fs, &path("file"), b", three").await;
    assert_eq!(get(&fs, &path("file")).await, b"one, three");
    // A follower tells who leads.
    let follower = world.admin(2, &["transfer", "3"]);
    assert!(!follower.status.success(), "{follower:?}");
    let told = String::from_utf8(follower.stderr).unwrap();
    assert!(told.contains(&world.client_address(1)), "{told}");

    tokio::task::block_in_place(|| {
        for id in 1..=3 {
            world.catch_up(id);
        }
    });
    fs.close().await;
    for id in 1..=3 {
        world.kill(id);
    }
    let survivor = world.members[&2].data.clone();
    let refused = admin(&["leave", "--data", text(&survivor)]);
    assert!(!refused.status.success(), "{refused:?}");
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(
        told.contains("--accept-loss") && told.contains('1') && told.contains('3'),
        "{told}"
    );
    let left = admin(&["leave", "--data", text(&survivor), "--accept-loss"]);
    assert!(left.status.success(), "{left:?}");
    assert!(String::from_utf8(left.stdout).unwrap().contains("epoch 1"));
    append_e2e::fsck(&survivor, &[]);

    let mut child = alone(&world, 2);
    let uri = format!("ofs://{}/", world.client_address(2));
    let fs = FileSystem::connect(&uri, config()).await.unwrap();
    append(&fs, &path("file"), b", and alone").await;
    assert_eq!(get(&fs, &path("file")).await, b"one, three, and alone");
    put(&fs, &path("new"), b"in a new epoch").await;
    fs.close().await;
    child.kill().unwrap();
    child.wait().unwrap();
    append_e2e::fsck(&survivor, &[]);
}

async fn made(fs: &FileSystem) {
    use append_client::admin::{BucketOptions, VolumeOptions};
    fs.create_volume("vol", &VolumeOptions::default())
        .await
        .unwrap();
    fs.create_bucket("vol", "bucket", &BucketOptions::default())
        .await
        .unwrap();
    let stream = fs
        .create(&path("empty"), &CreateOptions::default())
        .await
        .unwrap();
    stream.close().await.unwrap();
}

/// Runs a server that belongs to no group, and waits until it serves.
fn alone(world: &World, id: u64) -> std::process::Child {
    let child = world
        .command(id, &[])
        .env_remove("HADOOP_CONF_DIR")
        .spawn()
        .unwrap();
    until("the server", || {
        world
            .page(id, "/health")
            .filter(|page| page.contains("200 OK"))
    });
    child
}
