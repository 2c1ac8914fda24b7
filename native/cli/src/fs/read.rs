//! The commands that show what is in files: `-cat` and `-tail`.

use std::thread;
use std::time::Duration;

use super::error::ShellError;
use super::item::Item;
use super::options::Syntax;
use super::shell::Shell;
use super::tree::PIECE;

/// How much of a file `-tail` shows.
const TAIL: u64 = 1024;

/// How often `-tail -f` looks, unless `-s` says otherwise.
const TAIL_INTERVAL: Duration = Duration::from_secs(5);

/// `-cat [-ignoreCrc] <src> ...`
///
/// Checksums are verified whatever is said: damage is an error, never wrong bytes.
///
/// # Errors
/// What ends the command.
pub(crate) fn cat(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let given = Syntax {
        flags: &["ignoreCrc"],
        values: &[],
        min: 1,
        max: usize::MAX,
    }
    .parse(args)?;
    let mut items = Vec::new();
    for text in &given.operands {
        match shell.expand_some(text) {
            Ok(found) => items.extend(found),
            Err(error) => shell.report(error)?,
        }
    }
    for item in &items {
        shell.step(readable(item).and_then(|()| print_from(shell, item, 0).map(|_| ())))?;
    }
    Ok(())
}

/// `-tail [-f] [-s <sleep interval>] <file>`: the last kilobyte.
///
/// # Errors
/// What ends the command.
pub(crate) fn tail(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let given = Syntax {
        flags: &["f"],
        values: &["s"],
        min: 1,
        max: 1,
    }
    .parse(args)?;
    let interval = match given.value("s") {
        Some(text) => text
            .parse()
            .ok()
            .filter(|&millis| millis > 0)
            .map(Duration::from_millis)
            .ok_or_else(|| ShellError::Usage(format!("{text} is no time in milliseconds")))?,
        None => TAIL_INTERVAL,
    };
    let mut item = shell.destination(given.operands.first().map_or("", String::as_str))?;
    readable(&item)?;
    let mut shown = print_from(shell, &item, item.there()?.length.saturating_sub(TAIL))?;
    while given.has("f") {
        shell.flush()?;
        thread::sleep(interval);
        item.refresh()?;
        item.there()?;
        shown = print_from(shell, &item, shown)?;
    }
    Ok(())
}

fn readable(item: &Item) -> Result<(), ShellError> {
    if item.there()?.directory {
        Err(ShellError::is_directory(&item.shown))
    } else {
        Ok(())
    }
}

/// Prints a file from a position to its end, and answers where that is.
fn print_from(shell: &Shell, item: &Item, position: u64) -> Result<u64, ShellError> {
    let mut from = item
        .tree
        .open(&item.path, position)
        .map_err(|error| error.of(&item.shown))?;
    let mut buffer = vec![0; PIECE];
    let mut end = position;
    loop {
        let count = from
            .read(&mut buffer)
            .map_err(|error| error.of(&item.shown))?;
        if count == 0 {
            return Ok(end);
        }
        shell.bytes(&buffer[..count])?;
        end += u64::try_from(count).unwrap_or_default();
    }
}
