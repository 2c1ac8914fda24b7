//! The server is killed (SIGKILL) at a hundred random moments under four appenders. After each restart every acknowledged hsync
//! and close is there byte for byte, and the published length of a file is one at which somebody asked for a sync or a close:
//! nothing is half visible. `append admin fsck` finds nothing after every tenth kill and at the end.
//!
//! Every file's byte at an offset follows from its name and the offset alone, so whoever wrote it, whatever is visible can be
//! checked. The moments come from a seed that the test prints; `APPEND_CRASH_SEED` and `APPEND_CRASH_ROUNDS` replace it and the
//! number of kills.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use append_client::{Config, CreateOptions, Error, ErrorKind, FileSystem, WriteStream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const APPENDERS: u64 = 4;
const ROUNDS: u64 = 100;
const SEED: u64 = 0x00A9_9E4D;
/// Kills between two offline checks of the folder.
const FSCK_EVERY: u64 = 10;
/// A file that is longer is left alone and another one begun, so that checking stays cheap.
const FILE_LIMIT: u64 = 200_000;
/// Far beyond what a restart or a call takes; reached only if something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What may be seen of a file.
#[derive(Debug, Default)]
struct Expectation {
    /// Largest length that a sync or close acknowledged.
    acknowledged: u64,
    /// Every length at which a sync or a close was asked for, whatever became of it.
    asked: BTreeSet<u64>,
}

/// All files of the test.
type Book = Mutex<BTreeMap<String, Expectation>>;

fn with<T>(book: &Book, path: &str, change: impl FnOnce(&mut Expectation) -> T) -> T {
    change(book.lock().unwrap().entry(path.to_owned()).or_default())
}

fn byte_at(path: &str, offset: u64) -> u8 {
    let mut state = offset
        ^ path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state.to_be_bytes()[0]
}

fn bytes_at(path: &str, offset: u64, count: u64) -> Vec<u8> {
    (offset..offset + count)
        .map(|offset| byte_at(path, offset))
        .collect()
}

/// A running server, killed when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(data: &Path, listen: &str) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_append"))
            .arg("serve")
            .arg("--data")
            .arg(data)
            .args(["--listen", listen, "--http", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .env("APPEND_LOG", "warn")
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            lines.find_map(|line| line.ok()?.strip_prefix("ready ofs://").map(str::to_owned));
        Server {
            address: address.expect("the server ended before it served"),
            child,
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended, or the test failed: nothing is left behind either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config() -> Config {
    Config::empty()
        .with_user("crash")
        .with("ozone.client.wait.between.retries.millis", "50ms")
}

/// One appender: opens a file, writes, syncs, closes, over and over, through all the crashes.
struct Appender {
    number: u64,
    fs: FileSystem,
    book: Arc<Book>,
    random: StdRng,
    files: u64,
    closes: Arc<AtomicU64>,
}

impl Appender {
    async fn run(mut self, stop: Arc<AtomicBool>) -> Result<(), String> {
        let mut path = self.next_file();
        let mut created = false;
        while !stop.load(Ordering::SeqCst) {
            let opened = if created {
                self.fs.append(&path).open().await
            } else {
                self.fs
                    .create(
                        &path,
                        &CreateOptions {
                            overwrite: false,
                            ..CreateOptions::default()
                        },
                    )
                    .await
            };
            let stream = match opened {
                Ok(stream) => stream,
                Err(error) => {
                    expected_of_a_crash(&error, &path)?;
                    if created && error.kind() == ErrorKind::NotFound {
                        return Err(format!("{path} is gone: {error}"));
                    }
                    // A session of ours that the server never heard the end of holds the file, or creating has an unknown
                    // outcome: go on with another file. What is in this one is checked all the same.
                    path = self.next_file();
                    created = false;
                    continue;
                }
            };
            if !created {
                with(&self.book, &path, |file| file.asked.insert(0));
                created = true;
            }
            self.check_start(&path, &stream)?;
            match self.session(&path, &stream).await {
                Ok(()) => {
                    self.closes.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => {
                    expected_of_a_crash(&error, &path)?;
                    stream.abort(Duration::from_secs(10)).await;
                }
            }
            if stream.pos() > FILE_LIMIT {
                path = self.next_file();
                created = false;
            }
        }
        Ok(())
    }

    fn next_file(&mut self) -> String {
        self.files += 1;
        format!("/crash/fso/a{}/f{:04}", self.number, self.files)
    }

    /// An append begins at what is published: all that was acknowledged, and no part of a close.
    fn check_start(&self, path: &str, stream: &WriteStream) -> Result<(), String> {
        let start = stream.start();
        with(&self.book, path, |file| {
            if start < file.acknowledged || !file.asked.contains(&start) {
                return Err(format!("{path} begins at {start}: {file:?}"));
            }
            Ok(())
        })
    }

    async fn session(&mut self, path: &str, stream: &WriteStream) -> Result<(), Error> {
        for _ in 0..self.random.random_range(0..4) {
            self.write(path, stream).await?;
            let length = stream.pos();
            with(&self.book, path, |file| file.asked.insert(length));
            stream.hsync().await?;
            with(&self.book, path, |file| {
                file.acknowledged = file.acknowledged.max(length)
            });
        }
        self.write(path, stream).await?;
        let length = stream.pos();
        with(&self.book, path, |file| file.asked.insert(length));
        stream.close().await?;
        with(&self.book, path, |file| {
            file.acknowledged = file.acknowledged.max(length)
        });
        Ok(())
    }

    async fn write(&mut self, path: &str, stream: &WriteStream) -> Result<(), Error> {
        let count = self.random.random_range(1..6000);
        stream.write(&bytes_at(path, stream.pos(), count)).await
    }
}

/// A kill may make calls fail, but only in ways that say so.
fn expected_of_a_crash(error: &Error, path: &str) -> Result<(), String> {
    match error.kind() {
        ErrorKind::Connect
        | ErrorKind::Timeout
        | ErrorKind::Unavailable
        | ErrorKind::OutcomeUnknown
        | ErrorKind::Conflict
        | ErrorKind::StaleSession
        | ErrorKind::AlreadyExists
        | ErrorKind::NoSpace
        | ErrorKind::Io => Ok(()),
        kind => Err(format!("{path}: a crash must not cause {kind:?}: {error}")),
    }
}

/// Reads a file as a newcomer and compares it with what it must be.
async fn check(fs: &FileSystem, book: &Book, path: &str) -> Result<(), String> {
    let acknowledged = with(book, path, |file| file.acknowledged);
    let fault = |what: String| with(book, path, |file| format!("{path}: {what}; {file:?}"));
    let published = fs
        .status(path)
        .await
        .map_err(|error| fault(error.to_string()))?
        .length;
    if published < acknowledged {
        return Err(fault(format!(
            "{published} bytes are published, {acknowledged} were acknowledged"
        )));
    }
    if with(book, path, |file| !file.asked.contains(&published)) {
        return Err(fault(format!(
            "the published length {published} is nobody's"
        )));
    }
    let reader = fs
        .open(path)
        .await
        .map_err(|error| fault(error.to_string()))?;
    if reader.len() < published {
        return Err(fault(format!(
            "{} of {published} published bytes can be read",
            reader.len()
        )));
    }
    let mut bytes = vec![0; usize::try_from(reader.len()).unwrap()];
    let count = reader
        .read_at(0, &mut bytes)
        .await
        .map_err(|error| fault(error.to_string()))?;
    if count != bytes.len() {
        return Err(fault(format!("{count} of {} bytes were read", bytes.len())));
    }
    let wrong = (0..reader.len())
        .zip(&bytes)
        .find(|&(offset, &byte)| byte != byte_at(path, offset));
    wrong.map_or(Ok(()), |(offset, _)| {
        Err(fault(format!("the byte at {offset} is wrong")))
    })
}

/// Nothing in the folder of a server that was killed breaks an invariant.
fn fsck(data: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_append"))
        .args(["admin", "fsck", "--data"])
        .arg(data)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

async fn check_all(address: &str, book: &Book, newest_only: bool) {
    // A client of its own: nothing that an appender remembers can hide a loss.
    let fs = FileSystem::connect(address, config()).await.unwrap();
    // A file is in the book before it exists for sure only if its creation was acknowledged.
    let mut paths: Vec<String> = book.lock().unwrap().keys().cloned().collect();
    if newest_only {
        let newest: BTreeMap<String, String> = paths
            .iter()
            .map(|path| (path.rsplit_once('/').unwrap().0.to_owned(), path.clone()))
            .collect();
        paths = newest.into_values().collect();
    }
    for path in paths {
        check(&fs, book, &path).await.unwrap();
    }
    fs.close().await;
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_in_a_hundred_kills() {
    let (seed, rounds) = (
        setting("APPEND_CRASH_SEED", SEED),
        setting("APPEND_CRASH_ROUNDS", ROUNDS),
    );
    println!("seed {seed}, {rounds} kills");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), "127.0.0.1:0");
    // The same port every time, as a real server has: the appenders find it again by themselves.
    let address = server.address.clone();
    let book = Arc::new(Book::default());
    let stop = Arc::new(AtomicBool::new(false));

    let mut appenders = Vec::new();
    let mut closes = Vec::new();
    for number in 0..APPENDERS {
        let fs = FileSystem::connect(&address, config()).await.unwrap();
        if number == 0 {
            fs.mkdirs("/crash/fso", true).await.unwrap();
        }
        let count = Arc::new(AtomicU64::new(0));
        closes.push(Arc::clone(&count));
        let appender = Appender {
            number,
            fs,
            book: Arc::clone(&book),
            random: StdRng::seed_from_u64(seed ^ (number + 1)),
            files: 0,
            closes: count,
        };
        appenders.push(tokio::spawn(appender.run(Arc::clone(&stop))));
    }

    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(random.random_range(5..400))).await;
        server.kill();
        if round % FSCK_EVERY == 0 {
            fsck(folder.path());
        }
        server = Server::start(folder.path(), &address);
        assert_eq!(server.address, address);
        check_all(&address, &book, true).await;
        if let Some(at) = appenders.iter().position(|appender| appender.is_finished()) {
            panic!(
                "an appender ended early: {:?}",
                appenders.swap_remove(at).await
            );
        }
    }

    // Life goes on: each appender closes a file twice more, so at least one whole session was after the last kill.
    let before: Vec<u64> = closes
        .iter()
        .map(|count| count.load(Ordering::SeqCst))
        .collect();
    let progress = async {
        while closes
            .iter()
            .zip(&before)
            .any(|(now, before)| now.load(Ordering::SeqCst) < before + 2)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, progress)
        .await
        .expect("an appender makes no progress after the last restart");
    stop.store(true, Ordering::SeqCst);
    for appender in appenders {
        tokio::time::timeout(PATIENCE, appender)
            .await
            .expect("an appender hangs")
            .unwrap()
            .unwrap();
    }
    check_all(&address, &book, false).await;
    server.kill();
    fsck(folder.path());

    let files = book.lock().unwrap().len();
    let total: u64 = closes
        .iter()
        .map(|count| count.load(Ordering::SeqCst))
        .sum();
    println!("{total} acknowledged closes in {files} files");
    assert!(
        total > rounds,
        "the appenders hardly worked: {total} closes"
    );
}
