//! Small appends without Java: cycles of append, write and close, each thread on a file of its own, beside what disk and loopback allow.
//!
//! `append HOST:PORT FOLDER CYCLES THREADS [BYTES]`; FOLDER is in a bucket. The limit is measured in the current directory, before and
//! after: per cycle three fdatasync calls, as the datanode makes one and the log two, and three round trips over a local socket.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use append_client::Config;
use append_client::CreateOptions;
use append_client::blocking::{AppendOptions, FileSystem, Wait};

/// Samples of the limit.
const SAMPLES: u64 = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, folder, cycles, threads, size @ ..] = arguments.as_slice() else {
        return Err("usage: append HOST:PORT FOLDER CYCLES THREADS [BYTES]".into());
    };
    let (cycles, threads): (usize, usize) = (cycles.parse()?, threads.parse()?);
    let bytes = size.first().map_or(Ok(4096), |size| size.parse())?;
    let data = vec![7_u8; bytes];
    let wait = Wait::unbounded();
    let fs = FileSystem::connect(server, Config::from_environment()?, &wait)?;
    for thread in 0..threads {
        fs.create(
            &format!("{folder}/{thread}"),
            &CreateOptions::default(),
            &wait,
        )?
        .close(&wait)?;
        cycle(&fs, &format!("{folder}/{thread}"), &data)?;
    }
    let before = limit()?;
    let began = Instant::now();
    let mut times: Vec<u128> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (fs, data) = (&fs, &data);
                scope.spawn(move || {
                    let path = format!("{folder}/{thread}");
                    (0..cycles / threads)
                        .map(|_| {
                            let began = Instant::now();
                            cycle(fs, &path, data).map(|()| began.elapsed().as_micros())
                        })
                        .collect::<Result<Vec<_>, String>>()
                })
            })
            .collect();
        let mut all = Vec::new();
        for thread in running {
            all.extend(
                thread
                    .join()
                    .map_err(|_| "a thread panicked".to_owned())??,
            );
        }
        Ok::<_, String>(all)
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let after = limit()?;
    let tenth = times.len().div_ceil(10);
    let ends = [&times[..tenth], &times[times.len() - tenth..]].map(median);
    times.sort_unstable();
    let count = u32::try_from(times.len())?;
    println!(
        "{threads} threads: {:.1} cycles/s, p50 {} us (first tenth {}, last {}), p90 {} us; \
         limit of one thread {:.1}/s before, {:.1}/s after",
        f64::from(count) / seconds,
        times[times.len() / 2],
        ends[0],
        ends[1],
        times[times.len() * 9 / 10],
        1.0 / before,
        1.0 / after,
    );
    fs.close();
    Ok(())
}

fn median(times: &[u128]) -> u128 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

fn cycle(fs: &FileSystem, path: &str, data: &[u8]) -> Result<(), String> {
    let wait = Wait::unbounded();
    let stream = fs
        .append(path, &AppendOptions::default(), &wait)
        .map_err(|error| error.to_string())?;
    stream
        .write(data, &wait)
        .map_err(|error| error.to_string())?;
    stream.close(&wait).map_err(|error| error.to_string())
}

/// Seconds that a cycle takes at least, on average.
fn limit() -> Result<f64, Box<dyn Error>> {
    let name = format!("limit-{}.tmp", std::process::id());
    let file = std::fs::File::create_new(&name)?;
    let began = Instant::now();
    for at in 0..SAMPLES {
        file.write_all_at(&[7; 4096], at * 4096)?;
        file.sync_data()?;
    }
    let syncs = began.elapsed().as_secs_f64();
    std::fs::remove_file(&name)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut peer, _) = listener.accept()?;
        peer.set_nodelay(true)?;
        let mut byte = [0];
        while peer.read(&mut byte)? > 0 {
            peer.write_all(&byte)?;
        }
        Ok(())
    });
    let mut peer = TcpStream::connect(address)?;
    peer.set_nodelay(true)?;
    let began = Instant::now();
    for _ in 0..SAMPLES {
        peer.write_all(&[1])?;
        peer.read_exact(&mut [0])?;
    }
    let trips = began.elapsed().as_secs_f64();
    drop(peer);
    echo.join().map_err(|_| "the echo panicked")??;
    let samples = f64::from(u32::try_from(SAMPLES)?);
    Ok(3.0 * (syncs + trips) / samples)
}
