//! One long stream without Java: append it, read it, print both as the benchmark's lines (`bench/run` lays them beside the shim's).
//!
//! `stream HOST:PORT PATH SIZE [round=N]`; the size takes the suffixes k, m, g (powers of 1024).

use std::error::Error;
use std::time::Instant;

use append_client::Config;
use append_client::CreateOptions;
use append_client::blocking::{AppendOptions, FileSystem, Wait};

/// As the Java workload writes and reads.
const CHUNK: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, path, size, notes @ ..] = arguments.as_slice() else {
        return Err("usage: stream HOST:PORT PATH SIZE [round=N]".into());
    };
    let round = match notes {
        [note] => note
            .strip_prefix("round=")
            .ok_or("a note must be round=N")?
            .parse::<u32>()?,
        _ => 1,
    };
    let bytes = parse_size(size)?;
    let data = pattern();
    let wait = Wait::unbounded();

    let fs = FileSystem::connect(server, Config::from_environment()?, &wait)?;
    // Connections are made before time is taken, as in the Java workload.
    write(&fs, path, 1, &data)?;
    let began = Instant::now();
    write(&fs, path, bytes, &data)?;
    let written = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let wrong = read(&fs, path, bytes, &data)?;
    let done = began.elapsed().as_secs_f64();
    fs.delete(path, false, &wait)?;
    fs.close();

    let line = |name: &str, seconds: f64, errors: u64| {
        println!(
            "{{\"name\":\"{name}\",\"fs\":\"rust\",\"args\":\"size={size} chunk=1m open=append\",\"ops\":1,\
             \"seconds\":{seconds:.3},\"ops_per_s\":{:.3},\"mb_per_s\":{:.3},\"errors\":{errors},\"round\":{round}}}",
            1.0 / seconds,
            megabytes(bytes) / seconds,
        );
    };
    line("stream_write", written, 0);
    line("stream_read", done, wrong);
    if wrong > 0 {
        return Err(format!("{wrong} pieces were wrong").into());
    }
    Ok(())
}

fn write(fs: &FileSystem, path: &str, bytes: u64, data: &[u8]) -> Result<(), Box<dyn Error>> {
    let wait = Wait::unbounded();
    fs.create(path, &CreateOptions::default(), &wait)?
        .close(&wait)?;
    let stream = fs.append(path, &AppendOptions::default(), &wait)?;
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left).map_or(data.len(), |left| left.min(data.len()));
        stream.write(&data[..part], &wait)?;
        left -= u64::try_from(part)?;
    }
    Ok(stream.close(&wait)?)
}

/// Reads from end to end; counts pieces of which an end is not what was written, and a wrong length as one more.
fn read(fs: &FileSystem, path: &str, bytes: u64, data: &[u8]) -> Result<u64, Box<dyn Error>> {
    let wait = Wait::unbounded();
    let reader = fs.open(path, &wait)?;
    let mut target = vec![0; data.len()];
    let mut wrong = 0;
    let mut at = 0;
    loop {
        let got = reader.read_at(at, &mut target, &wait)?;
        if got == 0 {
            break;
        }
        let first = usize::try_from(at % u64::try_from(data.len())?)?;
        let last = (first + got - 1) % data.len();
        if target[0] != data[first] || target[got - 1] != data[last] {
            wrong += 1;
        }
        at += u64::try_from(got)?;
    }
    Ok(wrong + u64::from(at != bytes))
}

/// Bytes that do not compress, the same in each run (xorshift).
fn pattern() -> Vec<u8> {
    let mut state = 42_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    })
    .take(CHUNK)
    .collect()
}

fn parse_size(text: &str) -> Result<u64, Box<dyn Error>> {
    let power = ['k', 'm', 'g']
        .iter()
        .position(|unit| text.ends_with(*unit));
    let (digits, shift) = match power {
        Some(power) => (&text[..text.len() - 1], 10 * (power + 1)),
        None => (text, 0),
    };
    Ok(digits
        .parse::<u64>()?
        .checked_mul(1 << shift)
        .ok_or("the size is too large")?)
}

/// MB of 1,000,000 bytes.
fn megabytes(bytes: u64) -> f64 {
    // To the kilobyte, which is more than the figure shows.
    u32::try_from(bytes / 1000).map_or(f64::INFINITY, f64::from) / 1000.0
}
