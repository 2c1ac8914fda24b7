//! A process that is killed at random moments: everything that it acknowledged is there, and the rows are what a replay gives.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command as Process, Stdio};

const FOLDER: &str = "APPEND_TEST_CRASH_FOLDER";
const ROUND: &str = "APPEND_TEST_CRASH_ROUND";
const KILLS: u64 = 12;
const WRITERS: usize = 4;

fn eager() -> Options {
    Options {
        checkpoint_log_bytes: 8_000,
        persist_bytes: 3_000,
        persist_every: Duration::from_millis(5),
        on_fatal: Arc::new(|reason| panic!("{reason}")),
        ..options()
    }
}

/// The process that is killed. Does nothing when the tests run it as one of them.
#[test]
fn child() {
    let (Ok(folder), Ok(round)) = (std::env::var(FOLDER), std::env::var(ROUND)) else {
        return;
    };
    let consensus = LocalConsensus::open_with::<Tally>(Path::new(&folder), eager()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (consensus, round) = (&consensus, &round);
            scope.spawn(move || {
                for at in 0.. {
                    let key = format!("{round}-{writer}-{at}");
                    propose(consensus, &key).unwrap().unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "acked {key}")
                        .and_then(|()| out.flush())
                        .unwrap();
                }
            });
        }
    });
}

#[test]
fn whatever_was_acknowledged_survives_kills() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("data");
    let mut acked: Vec<String> = Vec::new();
    for round in 0..KILLS {
        // Spreads the moments of the kill over first entries, segment rolls, persists and checkpoints.
        let lives_for = (round * 37 + 1) % 300;
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args([
                concat!(module_path!(), "::child")
                    .split_once("::")
                    .unwrap()
                    .1,
                "--exact",
                "--nocapture",
            ])
            .env(FOLDER, &folder)
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut seen = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some((_, key)) = line.split_once("acked ") {
                acked.push(key.to_owned());
                seen += 1;
                if seen == lives_for + 1 {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert!(
            seen > lives_for,
            "the child ended by itself in round {round}"
        );

        let consensus = open(&folder);
        for key in &acked {
            assert!(
                row(&consensus, key).is_some(),
                "{key} is lost in round {round}"
            );
        }
        let rows = dump(&consensus);
        drop(consensus);
        // The rows may be lost at any time: checkpoint and log give the same ones.
        std::fs::remove_dir_all(folder.join("rows")).unwrap();
        assert_eq!(dump(&open(&folder)), rows, "round {round}");
    }
    // The kills have met checkpoints and cuts, not only a growing log.
    assert!(!folder.join("log").join(format!("{:020}.log", 1)).exists());
    assert_eq!(
        std::fs::read_dir(folder.join("checkpoints"))
            .unwrap()
            .count(),
        2
    );
}
