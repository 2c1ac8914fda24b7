//! The commands that write files: `-put`, `-appendToFile`, and their mirror `-get`.

use std::io;

use super::copy::{CopyOptions, check_destination, copy_all, copy_stream, pump, target_of};
use super::error::ShellError;
use super::item::Item;
use super::local::Stdin;
use super::options::{Given, Syntax};
use super::shell::Shell;
use super::tree::{Sink, Source, TreeError};

/// The operand that means standard input.
const STDIN: &str = "-";

const MANY: usize = usize::MAX;

/// Options that tell Hadoop's shell how many files to copy at once. Here one follows the other, so they change nothing but must be
/// numbers.
const COPY_THREADS: [&str; 2] = ["t", "q"];

/// `-put [-f] [-p] [-d] [-t <thread count>] [-q <queue size>] <localsrc> ... <dst>`
///
/// # Errors
/// What ends the command.
pub(crate) fn put(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let given = Syntax {
        flags: &["f", "p", "d"],
        values: &COPY_THREADS,
        min: 1,
        max: MANY,
    }
    .parse(args)?;
    check_threads(&given)?;
    let (sources, destination) = with_destination(&given);
    let destination = shell.destination(destination)?;
    let options = CopyOptions {
        overwrite: given.has("f"),
        preserve: given.has("p"),
        direct: given.has("d"),
    };
    if sources == [STDIN] {
        let target = target_of(STDIN, &destination)?;
        return copy_stream(Box::new(Stdin), STDIN, &target, options);
    }
    let sources = items(shell, sources, |text| {
        shell.local(text).map(|item| vec![item])
    })?;
    check_destination(sources.len(), &destination, options.overwrite)?;
    copy_all(shell, &sources, &destination, options)
}

/// `-get [-f] [-p] [-ignoreCrc] [-t <thread count>] [-q <queue size>] <src> ... <localdst>`
///
/// Checksums are verified whatever is said: damage is an error, never wrong bytes.
///
/// # Errors
/// What ends the command.
pub(crate) fn get(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let given = Syntax {
        flags: &["f", "p", "ignoreCrc"],
        values: &COPY_THREADS,
        min: 1,
        max: MANY,
    }
    .parse(args)?;
    check_threads(&given)?;
    let (sources, destination) = with_destination(&given);
    let destination = shell.local(destination)?;
    let options = CopyOptions {
        overwrite: given.has("f"),
        preserve: given.has("p"),
        direct: false,
    };
    let sources = items(shell, sources, |text| shell.expand_some(text))?;
    check_destination(sources.len(), &destination, options.overwrite)?;
    copy_all(shell, &sources, &destination, options)
}

fn check_threads(given: &Given) -> Result<(), ShellError> {
    for option in COPY_THREADS {
        if let Some(text) = given.value(option)
            && text.parse::<i32>().is_err()
        {
            return Err(ShellError::Usage(format!("For input string: \"{text}\"")));
        }
    }
    Ok(())
}

/// The last operand is the destination; a single one is a source, and the destination the home or working directory.
fn with_destination(given: &Given) -> (&[String], &str) {
    match given.operands.as_slice() {
        [sources @ .., destination] if !sources.is_empty() => (sources, destination),
        sources => (sources, "."),
    }
}

/// Expands operands; one that fails is reported and left out.
fn items(
    shell: &Shell,
    texts: &[String],
    expand: impl Fn(&str) -> Result<Vec<Item>, ShellError>,
) -> Result<Vec<Item>, ShellError> {
    let mut all = Vec::new();
    for text in texts {
        match expand(text) {
            Ok(items) => all.extend(items),
            Err(error) => shell.report(error)?,
        }
    }
    Ok(all)
}

/// `-appendToFile [-n] <localsrc> ... <dst>`
///
/// A missing target is created, its parents too. The sources are appended in order, in one session: one that cannot be read ends
/// it, and what the sources before it gave stays in the file.
///
/// # Errors
/// What ends the command.
pub(crate) fn append_to_file(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    if args.len() < 2 {
        return Err(ShellError::failed("missing destination argument"));
    }
    let given = Syntax {
        flags: &["n"],
        values: &[],
        min: 2,
        max: MANY,
    }
    .parse(args)?;
    let (sources, text) = with_destination(&given);
    let mut target = shell.destination(text)?;
    let remote = shell.remote_of(text)?;
    if !target.exists() {
        // A file that could never be appended to is not made for it.
        if remote
            .refuses_append(&target.path)
            .map_err(|error| error.of(&target.shown))?
        {
            return Err(ShellError::Unsupported(format!(
                "append {}: this bucket takes no append",
                target.path
            )));
        }
        if let Some(file) = target.file_above()? {
            return Err(ShellError::failed(format!("{file} (is not a directory)")));
        }
        let made = target
            .tree
            .create(&target.path, false, false)
            .map_err(|error| appending(error, &target))?;
        made.close().map_err(|error| appending(error, &target))?;
        target.refresh()?;
    }
    if target.is_directory() {
        return Err(ShellError::failed(format!(
            "Cannot append to directory {}; already exists as a directory.",
            target.path
        )));
    }
    let mut stream = remote
        .append(&target.path, given.has("n"))
        .map_err(|error| appending(error, &target))?;
    let appended = append_sources(shell, sources, &mut *stream, &target);
    // The bytes of the sources that could be read stay, as with Hadoop's shell.
    let closed = stream.close().map_err(|error| appending(error, &target));
    appended.and(closed)
}

fn append_sources(
    shell: &Shell,
    sources: &[String],
    stream: &mut dyn Sink,
    target: &Item,
) -> Result<(), ShellError> {
    if sources == [STDIN] {
        return pump(&mut Stdin, STDIN, stream, &target.shown);
    }
    if sources.iter().any(|source| source == STDIN) {
        return Err(ShellError::failed(
            "stdin (-) must be the sole input argument when present",
        ));
    }
    for source in sources {
        let mut from = open_local(shell, source)?;
        pump(&mut *from, source, stream, &target.shown)?;
    }
    Ok(())
}

/// Opens a source of an append. Hadoop's shell names a missing one by its absolute path alone.
fn open_local(shell: &Shell, text: &str) -> Result<Box<dyn Source>, ShellError> {
    let source = shell.local(text)?;
    source
        .tree
        .open(&source.path, 0)
        .map_err(|error| match error {
            TreeError::Local(error) if error.kind() == io::ErrorKind::NotFound => {
                ShellError::failed(source.path.clone())
            }
            TreeError::Local(error) if error.kind() == io::ErrorKind::IsADirectory => {
                ShellError::failed("Is a directory")
            }
            error => error.of(&source.shown),
        })
}

/// A failure of the append itself. The client's own text names the path, the other writer if there is one, and the request.
fn appending(error: TreeError, target: &Item) -> ShellError {
    match error {
        TreeError::Remote(error) => match ShellError::remote(&error, &target.shown) {
            ShellError::Failed(_) => ShellError::Failed(error.to_string()),
            other => other,
        },
        error => error.of(&target.shown),
    }
}
