//! Reads files by positions and compares them with local ones: at every seam of checksum windows, chunks and blocks, from one end to
//! the other in uneven steps, and from several threads at once.
//!
//! `ranges HOST:PORT BLOCK_SIZE (PATH LOCAL)...`; ends with a line for each file, and with an error at the first difference.

use std::error::Error;

use append_client::Config;
use append_client::blocking::{FileSystem, Reader, Wait};

/// What Ozone's clients cut checksums and chunks to unless told otherwise.
const WINDOW: u64 = 16 << 10;
const CHUNK: u64 = 4 << 20;

/// Neither a divisor nor a multiple of anything that files are cut to.
const STEP: u64 = 1_000_003;

const THREADS: u64 = 4;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, block, files @ ..] = arguments.as_slice() else {
        return Err("usage: ranges HOST:PORT BLOCK_SIZE (PATH LOCAL)...".into());
    };
    let block: u64 = block.parse()?;
    let wait = Wait::unbounded();
    let fs = FileSystem::connect(server, Config::from_environment()?, &wait)?;
    for pair in files.chunks(2) {
        let [path, local] = pair else {
            return Err(format!("{pair:?} is not a path and a local file").into());
        };
        let reader = fs.open(path, &wait)?;
        let reads = compare(&reader, &std::fs::read(local)?, block)
            .map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: {} bytes, {reads} reads", reader.len());
    }
    fs.close();
    Ok(())
}

/// Reads everything that is worth a read of its own; says how many reads there were.
fn compare(
    reader: &Reader,
    wanted: &[u8],
    block: u64,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let length = u64::try_from(wanted.len())?;
    if reader.len() != length {
        return Err(format!("{} bytes long, not {length}", reader.len()).into());
    }
    let ranges = ranges(length, block);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS)
            .map(|thread| {
                let own = ranges.iter().zip(0_u64..);
                let own = own.filter(move |(_, number)| number % THREADS == thread);
                scope.spawn(move || -> Outcome {
                    for ((from, bytes), _) in own {
                        one(reader, wanted, *from, *bytes)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in running {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    })?;
    // What nobody disturbs is read ahead.
    let mut steps = 0;
    let mut at = 0;
    while at < length {
        one(reader, wanted, at, STEP)?;
        at += STEP;
        steps += 1;
    }
    Ok(ranges.len() + steps)
}

/// Positions and lengths: around each seam, at both ends and behind the last byte.
fn ranges(length: u64, block: u64) -> Vec<(u64, u64)> {
    let mut seams: Vec<u64> = (0..=length / CHUNK).map(|chunk| chunk * CHUNK).collect();
    seams.extend((0..=length / block).map(|number| number * block));
    seams.extend([WINDOW, 2 * WINDOW, CHUNK + WINDOW, block + WINDOW, length]);
    let mut ranges = Vec::new();
    for seam in seams.into_iter().filter(|seam| *seam <= length) {
        for before in [0, 1, WINDOW, WINDOW + 1] {
            for bytes in [1, 2, WINDOW, CHUNK + 2] {
                ranges.push((seam.saturating_sub(before), bytes));
            }
        }
        ranges.push((seam + 1, 5));
    }
    ranges.push((0, length + 1));
    ranges.push((length + WINDOW, 1));
    ranges
}

fn one(reader: &Reader, wanted: &[u8], from: u64, bytes: u64) -> Outcome {
    let mut found = vec![0; usize::try_from(bytes)?];
    let read = reader.read_at(from, &mut found, &Wait::unbounded())?;
    let start = usize::try_from(from)?.min(wanted.len());
    let end = start.saturating_add(found.len()).min(wanted.len());
    if found.get(..read) != wanted.get(start..end) {
        return Err(format!(
            "{read} bytes at {from} are not the {} that are there",
            end - start
        )
        .into());
    }
    Ok(())
}
