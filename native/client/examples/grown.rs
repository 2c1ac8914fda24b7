//! A file that grew by many small appends beside one of the same bytes in one piece: both are read in turn, without Java.
//!
//! `grown HOST:PORT FOLDER APPENDS SIZE READS`; the folder must be there. Prints milliseconds and MB/s of both, and their ratio.

use std::error::Error;
use std::time::{Duration, Instant};

use append_client::blocking::{AppendOptions, FileSystem, Wait};
use append_client::{Config, CreateOptions};

/// As the Java workload reads.
const PIECE: usize = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, folder, appends, size, reads] = arguments.as_slice() else {
        return Err("usage: grown HOST:PORT FOLDER APPENDS SIZE READS".into());
    };
    let (appends, size): (u32, usize) = (appends.parse()?, size.parse()?);
    let reads: u32 = reads.parse()?;
    let wait = Wait::unbounded();
    let fs = FileSystem::connect(server, Config::from_environment()?, &wait)?;
    let [grown, whole] = ["grown", "whole"].map(|name| format!("{folder}/{name}"));
    let data = vec![7; size];

    fs.create(&grown, &CreateOptions::default(), &wait)?
        .close(&wait)?;
    for _ in 0..appends {
        let stream = fs.append(&grown, &AppendOptions::default(), &wait)?;
        stream.write(&data, &wait)?;
        stream.close(&wait)?;
    }
    let stream = fs.create(&whole, &CreateOptions::default(), &wait)?;
    for _ in 0..appends {
        stream.write(&data, &wait)?;
    }
    stream.close(&wait)?;

    let mut times = [Duration::ZERO; 2];
    let mut bytes = 0;
    // The first reading of each is for the caches.
    for round in 0..=reads {
        for (path, time) in [&whole, &grown].into_iter().zip(&mut times) {
            let began = Instant::now();
            bytes = read(&fs, path)?;
            if round > 0 {
                *time += began.elapsed();
            }
        }
    }
    fs.delete(&grown, false, &wait)?;
    fs.delete(&whole, false, &wait)?;
    fs.close();

    let [whole, grown] = times.map(|time| time.as_secs_f64() / f64::from(reads.max(1)));
    let megabytes = f64::from(u32::try_from(bytes / 1000)?) / 1000.0;
    println!(
        "contiguous {:.1} ms {:.0} MB/s, grown {:.1} ms {:.0} MB/s, ratio {:.2}",
        whole * 1e3,
        megabytes / whole,
        grown * 1e3,
        megabytes / grown,
        whole / grown,
    );
    Ok(())
}

/// Reads from end to end and tells how many bytes there were.
fn read(fs: &FileSystem, path: &str) -> Result<u64, Box<dyn Error>> {
    let wait = Wait::unbounded();
    let reader = fs.open(path, &wait)?;
    let mut target = vec![0; PIECE];
    let mut at = 0;
    loop {
        let got = reader.read_at(at, &mut target, &wait)?;
        if got == 0 {
            return Ok(at);
        }
        at += u64::try_from(got)?;
    }
}
