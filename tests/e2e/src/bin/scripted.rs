//! A writer in a process of its own, so that it can be killed and stopped: does what each line of its input says, and answers each
//! with one line, `ok POSITION` or `err KIND TEXT`.
//!
//! `scripted URI KEY=VALUE...`, then: `append PATH`, `create PATH`, `write SEED LENGTH` (the bytes of `append_e2e::noise`),
//! `hsync`, `close`, `drop`.

use std::io::{BufRead, Write};

use append_client::{CreateOptions, Error, ErrorKind, FileSystem, WriteStream};
use append_e2e::{noise, settings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let uri = arguments.next().ok_or("a URI is missing")?;
    let config = settings(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let fs = runtime.block_on(FileSystem::connect(&uri, config))?;
    let mut stream = None;
    answer("ok connected")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        match runtime.block_on(obey(&fs, &mut stream, &words)) {
            Ok(position) => answer(&format!("ok {position}"))?,
            Err(error) => answer(&format!("err {:?} {error}", error.kind()))?,
        }
    }
    // What a stream that is still open does at an orderly end is not what is tested here.
    std::mem::forget(stream);
    Ok(())
}

async fn obey(
    fs: &FileSystem,
    stream: &mut Option<WriteStream>,
    words: &[&str],
) -> Result<u64, Error> {
    match *words {
        ["append", path] => *stream = Some(fs.append(path).open().await?),
        ["create", path] => *stream = Some(fs.create(path, &CreateOptions::default()).await?),
        ["write", seed, length] => {
            let number = |text: &str| text.parse().map_err(|_| bad(text));
            let length = length.parse().map_err(|_| bad(length))?;
            open(stream)?.write(&noise(number(seed)?, length)).await?;
        }
        ["hsync"] => open(stream)?.hsync().await?,
        ["close"] => open(stream)?.close().await?,
        ["drop"] => drop(stream.take()),
        _ => return Err(bad(&words.join(" "))),
    }
    Ok(stream.as_ref().map_or(0, WriteStream::pos))
}

fn open(stream: &Option<WriteStream>) -> Result<&WriteStream, Error> {
    stream.as_ref().ok_or_else(|| bad("nothing is open"))
}

fn bad(text: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("not understood: {text}"),
    )
}

fn answer(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
