//! A disk that fails: full, refusing to sync, or losing on a power failure everything that no sync
//! covered. What a sync covers is recorded where the system call is made, so that leaving one out
//! loses acknowledged data here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;

use super::super::media::{Faults, Room};
use super::super::record::FILE_HEADER_LEN;
use super::*;

#[derive(Default)]
struct Disk {
    /// Each file as syncs have covered it.
    synced: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    /// Names that a sync of their folder has covered.
    names: Mutex<BTreeSet<OsString>>,
    /// Bytes that still fit.
    room: Mutex<Option<usize>>,
    refuse_sync: AtomicBool,
    panic_in_sync: AtomicBool,
    refuse_cut: AtomicBool,
    free: Mutex<Option<u64>>,
    syncs: AtomicUsize,
    /// A sync passes only while nobody holds this.
    gate: Mutex<()>,
}

impl Faults for Disk {
    fn write(&self, _: &Path, len: usize) -> Option<(usize, io::Error)> {
        let mut room = lock(&self.room);
        let left = room.as_mut()?;
        if *left >= len {
            *left -= len;
            return None;
        }
        Some((std::mem::take(left), io::ErrorKind::StorageFull.into()))
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        drop(lock(&self.gate));
        assert!(!self.panic_in_sync.load(Ordering::SeqCst), "as asked");
        if self.refuse_sync.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.syncs.fetch_add(1, Ordering::SeqCst);
        // Two threads may sync one file, and the one that saw less of it come here later.
        let mut synced = lock(&self.synced);
        synced.insert(path.to_owned(), std::fs::read(path)?);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let found = container_files(dir).into_iter();
        *lock(&self.names) = found
            .filter_map(|p| Some(p.file_name()?.to_owned()))
            .collect();
        Ok(())
    }

    fn room(&self) -> Option<Room> {
        lock(&self.free).map(|free| Room {
            free,
            total: 100_000,
        })
    }

    fn cut(&self, path: &Path, len: u64) -> io::Result<()> {
        if self.refuse_cut.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        if let Some(synced) = lock(&self.synced).get_mut(path) {
            synced.truncate(to_usize(len));
        }
        Ok(())
    }
}

impl Disk {
    /// Takes from the files in `dir` what no sync covered: each 64-byte piece may be as it was written or as it was synced.
    fn lose_power(&self, dir: &Path, seed: u64) {
        let names = lock(&self.names).clone();
        for path in container_files(dir) {
            if !names.contains(path.file_name().unwrap()) {
                std::fs::remove_file(&path).unwrap();
                continue;
            }
            let mut synced = lock(&self.synced).get(&path).cloned().unwrap_or_default();
            let mut file = std::fs::read(&path).unwrap();
            let luck = bytes(seed, file.len() / 64 + 2);
            let lost = file.len().saturating_sub(synced.len()) * usize::from(luck[0]) / 255;
            file.truncate(file.len() - lost);
            synced.resize(file.len(), 0);
            let pieces = file.chunks_mut(64).zip(synced.chunks(64));
            for ((piece, synced), luck) in pieces.zip(&luck[1..]) {
                if luck % 2 == 0 {
                    piece.copy_from_slice(synced);
                }
            }
            std::fs::write(&path, file).unwrap();
        }
    }
}

fn options() -> StoreOptions {
    StoreOptions {
        roll_bytes: 3000,
        ..StoreOptions::default()
    }
}

fn open_on(disk: &Arc<Disk>, dir: &Path, options: StoreOptions) -> Store {
    let media = Media {
        faults: Some(Arc::clone(disk) as Arc<dyn Faults>),
    };
    Store::open_on(media, dir, options).unwrap()
}

#[derive(Clone, Debug)]
struct Round {
    /// Block, length, and whether the commit's acknowledgement is waited for.
    appends: Vec<(i64, usize, bool)>,
    power: bool,
    seed: u64,
}

fn round() -> impl Strategy<Value = Round> {
    (
        prop::collection::vec((0i64..4, 1usize..200, any::<bool>()), 1..12),
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(|(appends, power, seed)| Round {
            appends,
            power,
            seed,
        })
}

/// Content of a block after each of its commits, and how many of those must survive.
#[derive(Default)]
struct History {
    states: Vec<(Vec<u8>, Vec<Chunk>)>,
    floor: usize,
}

fn run(rounds: Vec<Round>) {
    let dir = tempfile::tempdir().unwrap();
    let mut histories: BTreeMap<i64, History> = BTreeMap::new();
    let disk = Arc::new(Disk::default());
    for round in rounds {
        disk.refuse_sync.store(false, Ordering::SeqCst);
        let store = open_on(&disk, dir.path(), options());
        assert!(store.damage().is_empty(), "{:?}", store.damage());
        for (block, history) in &mut histories {
            let found = match store.view(BlockId::new(1, *block)) {
                Ok(view) => {
                    let data = all(&store, BlockId::new(1, *block)).unwrap();
                    let at = history.states.iter().position(|s| s.0 == data);
                    assert_eq!(view.chunks, history.states[at.unwrap()].1);
                    at.unwrap() + 1
                }
                Err(StoreError::NoSuchBlock(_)) => 0,
                Err(e) => panic!("{e}"),
            };
            assert!(
                found >= history.floor,
                "acknowledged data of block {block} is lost"
            );
            // What a restarted store shows to readers it must keep.
            history.states.truncate(found);
            history.floor = found;
        }
        for (n, (block, len, wait_for)) in round.appends.iter().enumerate() {
            let id = BlockId::new(1, *block);
            let history = histories.entry(*block).or_default();
            let (mut data, mut chunks) = history.states.last().cloned().unwrap_or_default();
            let more = bytes(round.seed.wrapping_add(to_u64(n)), *len);
            let next = chunk(to_u64(data.len()), &more);
            store.write_chunk(id, &next, &more).unwrap();
            data.extend_from_slice(&more);
            chunks.push(next);
            let done = store.put_block(&put(id, chunks.clone())).unwrap();
            history.states.push((data, chunks));
            if *wait_for {
                wait(store.durable(done.at)).unwrap();
                history.floor = history.states.len();
            }
        }
        // From here on nothing more gets durable, whatever the dying store still does.
        disk.refuse_sync.store(true, Ordering::SeqCst);
        drop(store);
        if round.power {
            disk.lose_power(dir.path(), round.seed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn what_was_acknowledged_survives_kill_and_power_failure(rounds in prop::collection::vec(round(), 2..8)) {
        run(rounds);
    }
}

#[test]
fn a_full_disk_refuses_the_write_and_keeps_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let store = open_on(&disk, dir.path(), options());
    let (a, b) = (BlockId::new(1, 1), BlockId::new(1, 2));
    let mut chunks = Vec::new();
    let data = bytes(1, 500);
    append(&store, a, &mut chunks, &data);
    for room in [0, 1, 55, 56, 200] {
        *lock(&disk.room) = Some(room);
        let refused = store.write_chunk(b, &chunk(0, &data), &data);
        assert!(
            matches!(refused, Err(StoreError::DiskFull(_))),
            "{refused:?}"
        );
        assert_eq!(all(&store, a).unwrap(), data);
    }
    // The chunk fits, its commit does not.
    *lock(&disk.room) = Some(600);
    store.write_chunk(b, &chunk(0, &data), &data).unwrap();
    let refused = store.put_block(&put(b, vec![chunk(0, &data)]));
    assert!(matches!(refused, Err(StoreError::DiskFull(_))));
    assert!(matches!(store.view(b), Err(StoreError::NoSuchBlock(_))));
    // The next file does not fit either.
    let many = bytes(2, 2500);
    assert!(matches!(
        store.write_chunk(b, &chunk(500, &many), &many),
        Err(StoreError::DiskFull(_))
    ));
    *lock(&disk.room) = None;
    let done = store.put_block(&put(b, vec![chunk(0, &data)])).unwrap();
    wait(store.durable(done.at)).unwrap();
    append(&store, a, &mut chunks, &many);
    drop(store);
    let store = open_on(&disk, dir.path(), options());
    assert!(store.damage().is_empty());
    assert_eq!(all(&store, a).unwrap(), [data.clone(), many].concat());
    assert_eq!(all(&store, b).unwrap(), data);
}

#[test]
fn chunks_leave_a_reserve_for_commits() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let store = open_on(&disk, dir.path(), options());
    let id = BlockId::new(1, 1);
    let (first, second) = (chunk(0, b"first"), chunk(5, b"second"));
    store.write_chunk(id, &first, b"first").unwrap();
    // A tenth of the disk is less than the reserve that was asked for.
    *lock(&disk.free) = Some(10_050);
    let refused = store.write_chunk(id, &second, b"second");
    assert!(matches!(refused, Err(StoreError::DiskFull(_))));
    let done = store.put_block(&put(id, vec![first.clone()])).unwrap();
    wait(store.durable(done.at)).unwrap();
    *lock(&disk.free) = Some(10_100);
    append(&store, id, &mut vec![first], b"second");
    assert_eq!(all(&store, id).unwrap(), b"firstsecond");
}

#[test]
fn a_failed_sync_stops_the_store_and_says_so_once() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let mut options = options();
    let hook = Arc::clone(&calls);
    options.on_fatal = Some(Arc::new(move |_: &str| {
        hook.fetch_add(1, Ordering::SeqCst);
    }));
    let store = open_on(&disk, dir.path(), options);
    let id = BlockId::new(1, 1);
    let mut chunks = Vec::new();
    append(&store, id, &mut chunks, b"kept");
    disk.refuse_sync.store(true, Ordering::SeqCst);
    let more = chunk(4, b"lost");
    store.write_chunk(id, &more, b"lost").unwrap();
    let mut longer = chunks.clone();
    longer.push(more.clone());
    let done = store.put_block(&put(id, longer)).unwrap();
    assert!(matches!(
        wait(store.durable(done.at)),
        Err(StoreError::Poisoned(_))
    ));
    // The disk comes back, the promise does not.
    disk.refuse_sync.store(false, Ordering::SeqCst);
    assert!(matches!(
        store.write_chunk(id, &more, b"lost"),
        Err(StoreError::Poisoned(_))
    ));
    assert!(matches!(
        store.put_block(&put(id, chunks)),
        Err(StoreError::Poisoned(_) | StoreError::LengthBelowCommitted { .. })
    ));
    assert!(matches!(store.finalize(id), Err(StoreError::Poisoned(_))));
    assert!(matches!(store.delete(id), Err(StoreError::Poisoned(_))));
    // Readers see what was durable before.
    assert_eq!(all(&store, id).unwrap(), b"kept");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn a_sync_thread_that_panics_leaves_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let store = open_on(&disk, dir.path(), options());
    disk.panic_in_sync.store(true, Ordering::SeqCst);
    let next = chunk(0, b"abc");
    store
        .write_chunk(BlockId::new(1, 1), &next, b"abc")
        .unwrap();
    let done = store
        .put_block(&put(BlockId::new(1, 1), vec![next]))
        .unwrap();
    let waited = wait(store.durable(done.at));
    assert!(matches!(waited, Err(StoreError::Poisoned(_))));
    store.sync(done.at);
    assert!(matches!(wait(store.failed()), StoreError::Poisoned(_)));
}

#[test]
fn a_next_file_that_could_not_be_begun_says_nothing_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let store = open_on(&disk, dir.path(), options());
    let id = BlockId::new(1, 1);
    append(&store, id, &mut Vec::new(), &bytes(1, 2000));
    *lock(&disk.room) = Some(to_usize(FILE_HEADER_LEN) - 1);
    let other = BlockId::new(1, 2);
    let large = bytes(2, 700);
    let refused = store.write_chunk(other, &chunk(0, &large), &large);
    assert!(matches!(refused, Err(StoreError::DiskFull(_))));
    assert_eq!(container_files(dir.path()).len(), 1);
    *lock(&disk.room) = None;
    append(&store, other, &mut Vec::new(), b"fits");
    drop(store);
    let store = open(dir.path());
    assert!(store.damage().is_empty());
    assert_eq!(all(&store, other).unwrap(), b"fits");
}

#[test]
fn a_failed_write_that_cannot_be_cut_back_stops_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let store = open_on(&disk, dir.path(), options());
    *lock(&disk.room) = Some(10);
    disk.refuse_cut.store(true, Ordering::SeqCst);
    let id = BlockId::new(1, 1);
    assert!(matches!(
        store.write_chunk(id, &chunk(0, b"data"), b"data"),
        Err(StoreError::Poisoned(_))
    ));
    assert!(matches!(
        store.write_chunk(id, &chunk(0, b"data"), b"data"),
        Err(StoreError::Poisoned(_))
    ));
}

#[test]
fn commits_that_wait_together_share_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let store = open_on(&disk, dir.path(), options());
    let before = disk.syncs.load(Ordering::SeqCst);
    let held = lock(&disk.gate);
    let mut last = None;
    for n in 0..10 {
        let id = BlockId::new(1, n);
        store.write_chunk(id, &chunk(0, b"x"), b"x").unwrap();
        last = Some(store.put_block(&put(id, vec![chunk(0, b"x")])).unwrap());
    }
    drop(held);
    wait(store.durable(last.unwrap().at)).unwrap();
    // One that was under way, one for all that came meanwhile.
    let used = disk.syncs.load(Ordering::SeqCst) - before;
    assert!((1..=2).contains(&used), "{used} syncs");
}

#[test]
fn readers_see_a_commit_only_when_it_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let store = open_on(&disk, dir.path(), options());
    let id = BlockId::new(1, 1);
    let mut chunks = Vec::new();
    append(&store, id, &mut chunks, b"first");
    let held = lock(&disk.gate);
    store
        .write_chunk(id, &chunk(5, b"second"), b"second")
        .unwrap();
    chunks.push(chunk(5, b"second"));
    let done = store.put_block(&put(id, chunks)).unwrap();
    store.finalize(id).unwrap();
    assert_eq!(all(&store, id).unwrap(), b"first");
    assert!(!store.view(id).unwrap().finalized);
    drop(held);
    wait(store.durable(done.at)).unwrap();
    assert_eq!(all(&store, id).unwrap(), b"firstsecond");
}
