//! The power fails: a preloaded shim writes down everything that the real server does to its files, the engine of the rows included,
//! and each point of that journal is replayed into data folders as a power cut there may leave them. On each the server must start,
//! show every byte that it had acknowledged before, show no length that nobody had asked for, go on, and pass `append admin fsck`.
//!
//! `APPEND_POWER_POINTS` (40) is the number of cuts, `APPEND_POWER_SEED` the seed. The long form, which runs only when it is asked for,
//! leaves out each fsync of the program in turn and wants the loss to be noticed, or knows which other fsync covers it;
//! `APPEND_POWER_ONLY` limits it to paths with that text.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where something unexpected happens"
)]

mod book;
mod disk;
mod journal;
mod server;
mod sites;
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
use sites::Site;

/// Lives of the server in the history, and in that of the long form.
const LIVES: u64 = 8;
const LONG_LIVES: u64 = 24;
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
    let mut server =
        tokio::task::block_in_place(|| Server::start(data, shim, false, "127.0.0.1:0", &errors))?;
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

async fn record(seed: u64, lives: u64) -> History {
    let folder = tempfile::tempdir().unwrap();
    let shim = Shim::build(folder.path());
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let book = workload::run(&data, &shim, seed, lives).await;
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
    let history = record(seed, LIVES).await;
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

/// Which of the promises behind a call.
const LATER: [usize; 2] = [0, 5];
/// What becomes of the rest at each of them.
const FATES: [Fate; 4] = [
    Fate::Dropped,
    Fate::Drawn(50),
    Fate::Drawn(50),
    Fate::Drawn(85),
];
/// Cuts of one site that are tried before its omission counts as unnoticed.
const TRIES: usize = 16;
/// The engine's own files, which are left out: checkpoints and log replace them, so none of their fsyncs is needed for what was promised.
const ROWS: &str = "om/rows";

/// Fsyncs that another one covers before anything rests on them, so that no history can miss them alone. They stay in the program: each
/// makes its own step whole without knowing what follows.
struct Covered {
    /// The path that the fsync is for; one that ends in a slash stands for the files below it.
    path: &'static str,
    /// Its callers, innermost first.
    callers: &'static str,
    /// How many fsyncs of these callers may be covered: where they make two, one for what was there and one for what they made, the
    /// second may not be missed unless it says so here.
    sites: usize,
    /// What covers it.
    why: &'static str,
}

const COVERED: [Covered; 13] = [
    Covered {
        path: ".",
        callers: "files::create_dirs < append_server::consensus::folder::Folder::open",
        sites: 2,
        why: "the datanode's start, which follows, syncs the same folder",
    },
    Covered {
        path: ".",
        callers: "Media::create_dirs < append_datanode::datanode::Datanode::open",
        sites: 2,
        why: "the metadata's start, which came before, and the store's, which follows, sync the same folder",
    },
    Covered {
        path: "om",
        callers: "files::create_dirs < append_server::consensus::folder::Folder::open",
        sites: 2,
        why: "the next folder's making syncs the same one; what the last holds is made again from the log",
    },
    Covered {
        path: "om",
        callers: "check_format",
        sites: 1,
        why: "making the folders beside it syncs the same folder",
    },
    Covered {
        path: "blocks",
        callers: "identity",
        sites: 2,
        why: "making the containers' folder syncs the same folder",
    },
    Covered {
        path: "blocks",
        callers: "Media::create_dirs < append_datanode::store::Store::open_on",
        sites: 1,
        why: "the identity's fsync of the same folder came before",
    },
    Covered {
        path: "blocks/containers",
        callers: "files::create < append_datanode::store::recover",
        sites: 1,
        why: "the recovery that makes the first container syncs it again",
    },
    Covered {
        path: "blocks/containers/",
        callers: "files::create < append_datanode::store::recover",
        sites: 1,
        why: "the recovery that makes the first container syncs it again",
    },
    Covered {
        path: "om/FORMAT.new",
        callers: "check_format",
        sites: 1,
        why: "a fresh folder is finalized, and its format written again, before anything is promised",
    },
    Covered {
        path: "om",
        callers: "raise_format",
        sites: 1,
        why: "it keeps older servers out, of which there is none here; the next start raises the format again",
    },
    Covered {
        path: "om/log/",
        callers: "segment::create",
        sites: 1,
        why: "the fsync of the first record covers the header",
    },
    Covered {
        path: "om/log/",
        callers: "sync_file < append_server::log::writer::Log::roll",
        sites: 1,
        why: "every record is synced before the next is written",
    },
    Covered {
        path: "blocks/containers/",
        callers: "files::create < append_datanode::store::log::Log::roll",
        sites: 2,
        why: "the fsync of the first commit covers the header",
    },
];

impl Covered {
    fn is(&self, site: &Site, callers: &str) -> bool {
        let path = match self.path.strip_suffix('/') {
            Some(_) => site.path.starts_with(self.path),
            None => site.path == self.path,
        };
        path && callers.contains(self.callers)
    }
}

/// The entry for a site, and how often it was used with this time.
fn covered(
    used: &mut [usize; COVERED.len()],
    site: &Site,
    callers: &str,
) -> Option<&'static Covered> {
    let at = COVERED.iter().position(|entry| entry.is(site, callers))?;
    used[at] += 1;
    (used[at] <= COVERED[at].sites).then_some(&COVERED[at])
}

/// What became of leaving out one fsync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Omission {
    /// Nobody noticed.
    Unnoticed,
    /// Something promised was lost, or the server did not start, or fsck named it.
    Noticed,
}

/// Where the power may fail so that leaving out `site` is felt: behind a promise that soon follows one of its calls, the calls spread over
/// the history.
fn cuts_for(history: &History, promises: &[u64], site: u64) -> Vec<usize> {
    let calls: Vec<u64> = history
        .events
        .iter()
        .filter(|event| event.site == site)
        .map(|event| event.end)
        .collect();
    let mut cuts: Vec<usize> = calls
        .iter()
        .map(|call| promises.partition_point(|promise| promise < call))
        .flat_map(|next| LATER.map(|later| next + later))
        .filter_map(|promise| promises.get(promise))
        .map(|promise| {
            history
                .events
                .partition_point(|event| event.end <= *promise)
        })
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let step = cuts.len().div_ceil(TRIES).max(1);
    cuts.into_iter().step_by(step).collect()
}

async fn omit(history: &Arc<History>, promises: &[u64], site: u64) -> (Omission, String) {
    let mut disk = Disk::new(Some(site));
    let mut applied = 0;
    let mut random = StdRng::seed_from_u64(site);
    for cut in cuts_for(history, promises, site) {
        history.events[applied..cut]
            .iter()
            .for_each(|event| disk.apply(event));
        applied = cut;
        for (number, fate) in FATES.into_iter().enumerate() {
            let data = history
                .folder
                .path()
                .join(format!("omit{site:x}-{cut}-{number}"));
            disk.cut(&data, fate, &mut random);
            let position = history.position(cut);
            if let Err(error) = survives(&data, &history.shim, &history.book, position).await {
                return (Omission::Noticed, error);
            }
        }
    }
    (Omission::Unnoticed, String::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: starts the server some hundred times"]
async fn leaving_out_any_fsync_is_noticed() {
    let only = std::env::var("APPEND_POWER_ONLY").unwrap_or_default();
    let history = Arc::new(record(setting("APPEND_POWER_SEED", 0x00A9_9E4D), LONG_LIVES).await);
    let promises = history.book.promises();
    let mut waiting: Vec<_> = sites::read(&history.shim.journal)
        .into_iter()
        .filter(|(_, site)| site.path.contains(&only) && !site.path.starts_with(ROWS))
        .collect();
    let mut running = JoinSet::new();
    let mut unnoticed = Vec::new();
    let mut used = [0; COVERED.len()];
    let sites = waiting.len();
    let mut noticed = 0;
    while !waiting.is_empty() || !running.is_empty() {
        while running.len() < AT_ONCE
            && let Some((hash, site)) = waiting.pop()
        {
            let (history, promises) = (Arc::clone(&history), promises.clone());
            running.spawn(async move { (site, omit(&history, &promises, hash).await) });
        }
        let (site, (omission, error)) = running.join_next().await.unwrap().unwrap();
        let callers = site.callers();
        let line = format!("{omission:?}: {} {}: {callers}", site.kind, site.path);
        println!("{line}\n    {:.200}", error.replace('\n', " "));
        if omission == Omission::Noticed {
            noticed += 1;
            continue;
        }
        match covered(&mut used, &site, &callers) {
            Some(entry) => println!("    {}", entry.why),
            None => unnoticed.push(line),
        }
    }
    println!(
        "{sites} fsyncs left out: {noticed} noticed, {} covered by another, {} neither",
        sites - noticed - unnoticed.len(),
        unnoticed.len()
    );
    assert!(
        unnoticed.is_empty(),
        "nobody notices when these are left out:\n{}",
        unnoticed.join("\n")
    );
}
