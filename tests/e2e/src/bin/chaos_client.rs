//! A client in a process of its own that does one thing after the other to a few files, and says of each when it began and how it ended,
//! until its input ends or it is killed.
//!
//! `chaos_client URI NUMBER SEED KEY=VALUE...`. Each line of its output is an event: `NANOSECONDS OPERATION begin WHAT` or
//! `NANOSECONDS OPERATION end RESULT`. Times are of the machine's monotonic clock, so that those of all processes compare.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use append_client::{Error, FileSystem};
use append_e2e::records::{FOLDERS, NAMES, Record, decode};
use append_e2e::{BUCKET, settings};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Outcome = Result<String, Error>;

struct Client {
    fs: FileSystem,
    number: u32,
    random: StdRng,
    operation: u64,
    session: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .ok_or("chaos_client URI NUMBER SEED KEY=VALUE...")
    };
    let (uri, number, seed) = (next()?, next()?.parse()?, next()?.parse::<u64>()?);
    let config = settings(arguments)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stopped.store(true, Ordering::Release);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let fs = FileSystem::connect(&uri, config).await?;
        let mut client = Client {
            fs,
            number,
            random: StdRng::seed_from_u64(seed),
            operation: 0,
            session: 0,
        };
        while !stop.load(Ordering::Acquire) {
            client.step().await;
        }
        client.fs.close().await;
        Ok(())
    })
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

fn say(operation: u64, text: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever listens may be gone; then nothing matters any more.
    let _ = writeln!(out, "{} {operation} {text}", now());
    let _ = out.flush();
}

impl Client {
    fn name(&mut self, folder: u32) -> String {
        let name = self.random.random_range(0..NAMES);
        format!("{BUCKET}/d{folder}/f{name}")
    }

    /// Says that something begins; gives its number.
    fn begin(&mut self, what: &str) -> u64 {
        self.operation += 1;
        say(self.operation, &format!("begin {what}"));
        self.operation
    }

    fn end(operation: u64, outcome: Outcome) -> bool {
        match outcome {
            Ok(result) => {
                say(operation, &format!("end ok {result}"));
                true
            }
            Err(error) => {
                let text = error.to_string().replace('\n', " ");
                say(operation, &format!("end {:?} {text}", error.kind()));
                false
            }
        }
    }

    async fn step(&mut self) {
        let folder = self.random.random_range(0..FOLDERS);
        let path = self.name(folder);
        match self.random.random_range(0..20) {
            0..=8 => self.append(&path).await,
            9..=14 => {
                let operation = self.begin(&format!("read {path}"));
                let outcome = self.read(&path).await;
                Client::end(operation, outcome);
            }
            15..=17 => {
                let to = self.name(folder);
                if to != path {
                    let operation = self.begin(&format!("rename {path} {to}"));
                    let outcome = self.fs.rename(&path, &to).await.map(|()| String::new());
                    Client::end(operation, outcome);
                }
            }
            18 => {
                let operation = self.begin(&format!("delete {path}"));
                let outcome = self.fs.delete(&path, false).await;
                Client::end(operation, outcome.map(|was| was.to_string()));
            }
            _ => {
                let operation = self.begin(&format!("recover {path}"));
                let outcome = self.fs.recover_lease(&path).await;
                Client::end(operation, outcome.map(|done| done.to_string()));
            }
        }
    }

    async fn read(&self, path: &str) -> Outcome {
        let status = self.fs.status(path).await?;
        let reader = self.fs.open(path).await?;
        let mut content = vec![0; usize::try_from(reader.len()).unwrap_or(0)];
        let read = reader.read_at(0, &mut content).await?;
        content.truncate(read);
        let mut text = format!("{} {}", status.object_id, content.len());
        match decode(&content) {
            Ok(found) => {
                for placed in found {
                    let cut = if placed.whole { "" } else { "~" };
                    text.push_str(&format!(
                        " {}:{}:{}{cut}",
                        placed.at, placed.record, placed.length
                    ));
                }
            }
            Err(why) => text.push_str(&format!(" damaged {why}")),
        }
        Ok(text)
    }

    /// One session: opens, writes records, syncs now and then, closes.
    async fn append(&mut self, path: &str) {
        self.session += 1;
        let session = self.session;
        let operation = self.begin(&format!("open {path} {session}"));
        let opened = self.fs.append(path).create_if_missing(true).open().await;
        let stream = match opened {
            Ok(stream) => stream,
            Err(error) => {
                Client::end(operation, Err(error));
                return;
            }
        };
        let file = stream.session().map_or(0, |handle| handle.file);
        Client::end(operation, Ok(format!("{file} {}", stream.start())));
        let records = self.random.random_range(1..5);
        for number in 0..records {
            let record = Record {
                client: self.number,
                session,
                number,
            };
            if stream.write(&record.bytes()).await.is_err() {
                stream.abort(Duration::ZERO).await;
                return;
            }
            if self.random.random_range(0..3) == 0 {
                let operation = self.begin(&format!("sync {session} {}", number + 1));
                let outcome = stream.hsync().await.map(|()| stream.pos().to_string());
                if !Client::end(operation, outcome) {
                    stream.abort(Duration::ZERO).await;
                    return;
                }
            }
        }
        let operation = self.begin(&format!("close {session} {records}"));
        let outcome = stream.close().await.map(|()| stream.pos().to_string());
        Client::end(operation, outcome);
    }
}
