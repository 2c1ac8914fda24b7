//! What is done to the server while its changes are written down: appenders, checkpoints, kills and restarts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use append_client::{CreateOptions, Error, FileSystem, WriteStream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::book::{Book, bytes_at, config};
use crate::server::{Server, Shim};

const APPENDERS: u64 = 3;
/// Sessions that one appender finishes between two kills.
const SESSIONS: u64 = 4;

/// One appender of one life of the server.
struct Appender {
    fs: FileSystem,
    book: Arc<Book>,
    shim: Shim,
    random: StdRng,
    folder: String,
    stop: Arc<AtomicBool>,
}

impl Appender {
    /// Until it has done its part, or the server is gone.
    async fn run(mut self) {
        for number in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let path = format!("{}/f{number}", self.folder);
            for session in 0..self.random.random_range(1..4) {
                if self.session(&path, session == 0).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn session(&mut self, path: &str, create: bool) -> Result<(), Error> {
        let stream = if create {
            self.book.ask(path, self.shim.position(), 0);
            let options = CreateOptions {
                overwrite: false,
                ..CreateOptions::default()
            };
            let stream = self.fs.create(path, &options).await?;
            self.book.promise(path, self.shim.position(), 0);
            stream
        } else {
            self.fs.append(path).open().await?
        };
        for _ in 0..self.random.random_range(0..3) {
            self.write(path, &stream).await?;
            self.book.ask(path, self.shim.position(), stream.pos());
            stream.hsync().await?;
            self.book.promise(path, self.shim.position(), stream.pos());
        }
        self.write(path, &stream).await?;
        let length = stream.pos();
        self.book.ask(path, self.shim.position(), length);
        stream.close().await?;
        self.book.promise(path, self.shim.position(), length);
        Ok(())
    }

    async fn write(&mut self, path: &str, stream: &WriteStream) -> Result<(), Error> {
        let count = self.random.random_range(1..9000);
        stream.write(&bytes_at(path, stream.pos(), count)).await
    }
}

/// Runs `lives` servers one after the other on `data`, with a checkpoint in each and a kill at its end.
pub(crate) async fn run(data: &Path, shim: &Shim, seed: u64, lives: u64) -> Arc<Book> {
    let book = Arc::new(Book::default());
    let errors = shim.journal.with_extension("errors");
    // The same address each time: a start that has nothing to tell the rows writes no entry, whose fsync would cover what came before.
    let mut address = "127.0.0.1:0".to_owned();
    // What a killed process left unsynced in the log is felt only if it changed what readers see, so the log's turn comes often.
    let ends = [
        Some("USR2"),
        Some("HUP"),
        Some("USR2"),
        Some("WINCH"),
        Some("USR2"),
        Some("IO"),
        Some("USR2"),
        None,
    ];
    for life in 0..lives {
        let mut server = Server::start(data, shim, true, &address, &errors).unwrap();
        address.clone_from(&server.address);
        let fs = FileSystem::connect(&server.address, config())
            .await
            .unwrap();
        // What a reader was shown is promised like what was acknowledged.
        let checked = book.check(&fs, u64::MAX).await.unwrap_or_else(|error| {
            let said = std::fs::read_to_string(&errors).unwrap_or_default();
            panic!("{error}\n{said}")
        });
        for (path, length) in checked {
            book.promise(&path, shim.position(), length);
        }
        fs.mkdirs("/power/fso", true).await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut appenders = Vec::new();
        for number in 0..APPENDERS {
            let appender = Appender {
                fs: FileSystem::connect(&server.address, config())
                    .await
                    .unwrap(),
                book: Arc::clone(&book),
                shim: shim.clone(),
                random: StdRng::seed_from_u64(seed ^ (life << 8) ^ number),
                folder: format!("/power/fso/l{life}/a{number}"),
                stop: Arc::clone(&stop),
            };
            appenders.push(tokio::spawn(appender.run()));
        }
        let until = |count: usize| {
            let book = Arc::clone(&book);
            async move {
                while book.promises().len() < count {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        };
        let begun = book.promises().len();
        let part = usize::try_from(APPENDERS * SESSIONS).unwrap();
        until(begun + part).await;
        tokio::task::block_in_place(|| server.checkpoint());
        until(book.promises().len() + part).await;
        tokio::task::block_in_place(|| {
            server.end_between_changes(ends[usize::try_from(life).unwrap() % ends.len()])
        });
        stop.store(true, Ordering::SeqCst);
        for appender in appenders {
            appender.await.unwrap();
        }
    }
    book
}
