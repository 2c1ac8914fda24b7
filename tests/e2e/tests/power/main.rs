//! The power fails: a preloaded shim writes down everything that the real server does to its files, the engine of the rows included,
//! and each point of that journal is replayed into data folders as a power cut there may leave them. On each the server must start,
//! show every byte that it had acknowledged before, show no length that nobody had asked for, go on, and pass `append admin fsck`.
//!
//! `APPEND_POWER_POINTS` (40) is the number of cuts, `APPEND_POWER_SEED` the seed. `APPEND_POWER_OMIT=1` instead leaves out each fsync of
//! the program in turn and wants the loss to be noticed.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where something unexpected happens"
)]

mod book;
mod disk;
mod journal;
mod server;
mod workload;

use std::path::Path;
use std::sync::Arc;

use append_client::{CreateOptions, FileSystem};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use book::{Book, bytes_at, config};
use disk::{Disk, Fate};
use journal::Event;
use server::{Server, Shim, fsck};

const LIVES: u64 = 4;
/// Folders that are looked at at once.
const AT_ONCE: usize = 4;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// What one folder turned out to be.
#[derive(Debug, Default)]
struct Found {
    rebuilt: bool,
}

/// Starts the server on what a cut left, and checks all that was promised before it, and that life goes on.
async fn survives(data: &Path, shim: &Shim, book: &Book, position: u64) -> Result<Found, String> {
    let errors = data.with_extension("errors");
    let mut server = tokio::task::block_in_place(|| Server::start(data, shim, false, &errors))?;
    let fs = FileSystem::connect(&server.address, config())
        .await
        .map_err(|error| error.to_string())?;
    let checked = async {
        book.check(&fs, position).await?;
        let path = "/after/fso/file";
        let content = bytes_at(path, 0, 5000);
        let write = async {
            fs.mkdirs("/after/fso", true).await?;
            let stream = fs.create(path, &CreateOptions::default()).await?;
            stream.write(&content[..2000]).await?;
            stream.hsync().await?;
            stream.close().await?;
            let stream = fs.append(path).open().await?;
            stream.write(&content[2000..]).await?;
            stream.close().await
        };
        write
            .await
            .map_err(|error| format!("afterwards: {error}"))?;
        if append_e2e::get(&fs, path).await != content {
            return Err("afterwards: what was written is not read".to_owned());
        }
        Ok(())
    };
    let checked = checked.await;
    fs.close().await;
    let said = server.said();
    server.kill();
    checked.map_err(|error| format!("{error}\n{said}"))?;
    tokio::task::block_in_place(|| fsck(data, shim))?;
    std::fs::remove_dir_all(data).unwrap();
    Ok(Found {
        rebuilt: said.contains("rebuilt"),
    })
}

/// The journal, replayed whole, gives the folder as it is: nothing escaped the shim.
fn replays_to_what_is_there(events: &[Event], data: &Path, scratch: &Path) {
    let mut disk = Disk::new(None);
    events.iter().for_each(|event| disk.apply(event));
    let copy = scratch.join("copy");
    disk.cut(&copy, Fate::Kept, &mut StdRng::seed_from_u64(0));
    let compared = std::process::Command::new("diff")
        .arg("-r")
        .args([data, &copy])
        .output()
        .unwrap();
    assert!(
        compared.status.success(),
        "the shim has not seen everything: {}",
        String::from_utf8_lossy(&compared.stdout)
    );
    std::fs::remove_dir_all(copy).unwrap();
}

/// A recorded history.
struct History {
    folder: tempfile::TempDir,
    events: Vec<Event>,
    book: Arc<Book>,
    shim: Shim,
}

impl History {
    /// Bytes of the journal up to the event `cut`.
    fn position(&self, cut: usize) -> u64 {
        cut.checked_sub(1).map_or(0, |last| self.events[last].end)
    }

    /// The events before `cut`, for people.
    fn last(&self, cut: usize) -> Vec<String> {
        self.events[cut.saturating_sub(8)..cut]
            .iter()
            .map(|event| format!("{:.120}", format!("{:?}", event.op)))
            .collect()
    }
}

async fn record(seed: u64) -> History {
    let folder = tempfile::tempdir().unwrap();
    let shim = Shim::build(folder.path());
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let book = workload::run(&data, &shim, seed, LIVES).await;
    let events = journal::read(&shim.journal);
    replays_to_what_is_there(&events, &data, folder.path());
    println!(
        "{} changes and fsyncs, {} promises",
        events.len(),
        book.promises().len()
    );
    History {
        folder,
        events,
        book,
        shim,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_promised_is_lost_when_the_power_fails() {
    let seed = setting("APPEND_POWER_SEED", 0x00A9_9E4D);
    let points = usize::try_from(setting("APPEND_POWER_POINTS", 40)).unwrap();
    println!("seed {seed}, {points} cuts");
    let history = record(seed).await;
    let events = &history.events;
    let mut random = StdRng::seed_from_u64(seed);
    let promises = history.book.promises();
    // Half of the cuts come right behind a promise: nothing that was promised had time to be written out for another reason.
    let mut cuts: Vec<usize> = (0..points)
        .map(|point| {
            if point % 2 == 0 {
                let promise = promises[random.random_range(0..promises.len())];
                events.partition_point(|event| event.end <= promise)
            } else {
                random.random_range(0..=events.len())
            }
        })
        .collect();
    cuts.sort_unstable();
    let mut disk = Disk::new(None);
    let history = Arc::new(history);
    let (mut applied, mut rebuilt) = (0, 0);
    let mut running = JoinSet::new();
    for (number, cut) in cuts.into_iter().enumerate() {
        history.events[applied..cut]
            .iter()
            .for_each(|event| disk.apply(event));
        applied = cut;
        let fate = match number % 4 {
            0 => Fate::Dropped,
            1 => Fate::Drawn(50),
            2 => Fate::Drawn(90),
            _ if number % 8 == 3 => Fate::Kept,
            _ => Fate::Drawn(15),
        };
        let data = history.folder.path().join(format!("cut{number}"));
        disk.cut(&data, fate, &mut random);
        let history = Arc::clone(&history);
        running.spawn(async move {
            let found = survives(&data, &history.shim, &history.book, history.position(cut)).await;
            found.unwrap_or_else(|error| {
                panic!(
                    "power cut {number} behind event {cut} ({fate:?}) of seed {seed}: {error}\nlast events: {:#?}",
                    history.last(cut)
                )
            })
        });
        while running.len() >= AT_ONCE || (number + 1 == points && !running.is_empty()) {
            let found = running.join_next().await.unwrap().unwrap();
            rebuilt += usize::from(found.rebuilt);
        }
    }
    println!("{points} cuts survived, in {rebuilt} of them the rows were rebuilt");
}
