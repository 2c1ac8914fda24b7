//! Every target for a moment, in every build: its corpus, its seeds, and mutations of both from a seeded generator.
//!
//! `APPEND_FUZZ_RUNS` (20,000) is how often the cheapest target runs; dearer ones run less often. `APPEND_FUZZ_SEED` is the seed. The input
//! of a failed run is left in the corpus, where every later run meets it first.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use append_fuzz::{TARGETS, Target, target};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Executions of the dearest target, however few are asked for.
const FEWEST: u64 = 100;
/// Bytes of one input at most.
const LONGEST: usize = 60_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn corpus(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name)
}

fn kept(target: &Target) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(corpus(target)) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// Numbers at which something often changes.
fn interesting(random: &mut StdRng) -> u64 {
    let shift = random.random_range(0..64);
    match random.random_range(0..4) {
        0 => 1 << shift,
        1 => (1_u64 << shift).wrapping_sub(1),
        2 => u64::MAX << shift,
        _ => random.random(),
    }
}

fn mutated(random: &mut StdRng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = inputs[random.random_range(0..inputs.len())].clone();
    for _ in 0..1 << random.random_range(0..5) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..9) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            2 if at < bytes.len() => bytes[at] = random.random(),
            3 => bytes.truncate(at),
            4 => {
                let end = (at + random.random_range(0..16)).min(bytes.len());
                bytes.drain(at..end);
            }
            5 => {
                let more: Vec<u8> = (0..random.random_range(0..16))
                    .map(|_| random.random())
                    .collect();
                bytes.splice(at..at, more);
            }
            6 => {
                let number = interesting(random).to_le_bytes();
                let count = [1, 2, 4, 8][random.random_range(0..4)];
                for (byte, new) in bytes.iter_mut().skip(at).zip(&number[..count]) {
                    *byte = *new;
                }
            }
            // A number as protobuf writes it.
            7 => {
                let mut number = interesting(random);
                let mut more = Vec::new();
                while number >= 0x80 {
                    more.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
                    number >>= 7;
                }
                more.push(u8::try_from(number).unwrap());
                let end = (at + more.len()).min(bytes.len());
                bytes.splice(at..end, more);
            }
            _ => {
                let other = &inputs[random.random_range(0..inputs.len())];
                let from = random.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
        bytes.truncate(LONGEST);
    }
    bytes
}

fn run(target: &Target, input: &[u8], from: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.fuzz)(input))).is_ok() {
        return;
    }
    let folder = corpus(target);
    std::fs::create_dir_all(&folder).unwrap();
    // The same input has the same name.
    let name = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let file = folder.join(format!("found-{name:016x}"));
    std::fs::write(&file, input).unwrap();
    panic!(
        "{}: {from} fails; its {} bytes are in {}",
        target.name,
        input.len(),
        file.display()
    );
}

fn short(name: &str) {
    let target = target(name);
    let seed = setting("APPEND_FUZZ_SEED", 7);
    let runs = (setting("APPEND_FUZZ_RUNS", 20_000) / target.cost).max(FEWEST);
    let kept = kept(&target);
    let seeds = (target.seeds)();
    for (number, input) in kept.iter().enumerate() {
        run(&target, input, &format!("input {number} of the corpus"));
    }
    for (number, input) in seeds.iter().enumerate() {
        run(&target, input, &format!("seed input {number}"));
    }
    let mut random = StdRng::seed_from_u64(seed);
    let inputs: Vec<_> = kept.iter().chain(&seeds).cloned().collect();
    for number in 0..runs {
        let input = mutated(&mut random, &inputs);
        run(&target, &input, &format!("run {number} of seed {seed}"));
    }
    println!(
        "{name}: {} of the corpus, {} seeds, {runs} mutations of seed {seed}",
        kept.len(),
        seeds.len()
    );
}

#[test]
fn frames() {
    short("frames");
}

#[test]
fn xml() {
    short("xml");
}

#[test]
fn commands() {
    short("commands");
}

#[test]
fn rows() {
    short("rows");
}

#[test]
fn checkpoint() {
    short("checkpoint");
}

#[test]
fn log() {
    short("log");
}

#[test]
fn containers() {
    short("containers");
}

#[test]
fn port() {
    short("port");
}

#[test]
fn datanode() {
    short("datanode");
}

/// A target that nothing runs is no target: each has a test here and a program for `cargo fuzz`.
#[test]
fn every_target_runs() {
    let programs = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/Cargo.toml"),
    )
    .unwrap();
    let tests = include_str!("short.rs");
    for target in TARGETS {
        let name = target.name;
        assert!(tests.contains(&format!("short(\"{name}\")")), "{name}");
        assert!(programs.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
