//! Copies between trees, by the rules that `-put` and `-get` share: what the destination may be, directories with all that is in
//! them, and a temporary name until a file is whole.

use super::error::ShellError;
use super::item::Item;
use super::progress::Progress;
use super::shell::Shell;
use super::tree::{PIECE, Sink, Source};

/// Behind the name of a file that is not whole yet, as Hadoop's shell has it.
const TEMPORARY: &str = "._COPYING_";

/// How to copy.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopyOptions {
    /// Existing files are replaced.
    pub(crate) overwrite: bool,
    /// Times are kept.
    pub(crate) preserve: bool,
    /// Without the temporary name.
    pub(crate) direct: bool,
}

/// Refuses destinations that do not fit the number of sources: several need a directory; one needs a free name or a directory,
/// or leave to overwrite.
///
/// # Errors
/// The refusal, in Hadoop's words.
pub(crate) fn check_destination(
    sources: usize,
    destination: &Item,
    overwrite: bool,
) -> Result<(), ShellError> {
    match &destination.stat {
        None if sources > 1 => Err(ShellError::not_found(&destination.shown)),
        Some(stat) if sources > 1 && !stat.directory => {
            Err(ShellError::not_a_directory(&destination.shown))
        }
        Some(stat) if sources == 1 && !stat.directory && !overwrite => {
            Err(ShellError::exists(&destination.shown))
        }
        None if !destination.parent_exists()? => Err(ShellError::no_parent(
            &destination.shown,
            &destination.qualified(),
        )),
        _ => Ok(()),
    }
}

/// Copies sources, one after the other; a failed one is reported and the next is tried.
///
/// # Errors
/// What ends the command.
pub(crate) fn copy_all(
    shell: &Shell,
    sources: &[Item],
    destination: &Item,
    options: CopyOptions,
) -> Result<(), ShellError> {
    for source in sources {
        shell.step(copy_one(shell, source, destination, options))?;
    }
    Ok(())
}

/// The item that a source becomes: below the destination if that is a directory, or is written like one.
///
/// # Errors
/// A failed call.
pub(crate) fn target_of(source_name: &str, destination: &Item) -> Result<Item, ShellError> {
    if destination.is_directory() || destination.looks_like_directory() {
        destination.child(source_name)
    } else {
        Ok(destination.clone())
    }
}

/// Refuses a directory that would land on or below itself.
///
/// # Errors
/// The refusal, in Hadoop's words.
pub(crate) fn check_not_below_itself(source: &Item, target: &Item) -> Result<(), ShellError> {
    if !source.is_directory() || !source.same_tree(target) {
        return Ok(());
    }
    let refusal = if target.path == source.path {
        "are identical"
    } else if target
        .path
        .starts_with(&format!("{}/", source.path.trim_end_matches('/')))
    {
        "is a subdirectory of itself"
    } else {
        return Ok(());
    };
    Err(ShellError::failed(format!(
        "`{}' to `{}': {refusal}",
        source.shown, target.shown
    )))
}

fn copy_one(
    shell: &Shell,
    source: &Item,
    destination: &Item,
    options: CopyOptions,
) -> Result<(), ShellError> {
    let stat = source.there()?;
    let target = target_of(source.name(), destination)?;
    check_not_below_itself(source, &target)?;
    if !stat.directory {
        return copy_file(source, target, options);
    }
    let mut target = target;
    match &target.stat {
        Some(stat) if !stat.directory => return Err(ShellError::not_a_directory(&target.shown)),
        Some(_) => {}
        None => {
            target
                .tree
                .mkdirs(&target.path, true)
                .map_err(|error| error.of(&target.shown))?;
            target.refresh()?;
        }
    }
    for child in source.children()? {
        shell.step(copy_one(shell, &child, &target, options))?;
    }
    if options.preserve {
        keep_times(source, &target)?;
    }
    Ok(())
}

fn copy_file(source: &Item, target: Item, options: CopyOptions) -> Result<(), ShellError> {
    let from = source
        .tree
        .open(&source.path, 0)
        .map_err(|error| error.of(&source.shown))?;
    copy_stream(from, &source.shown, &target, options)?;
    if options.preserve {
        keep_times(source, &target)?;
    }
    Ok(())
}

fn keep_times(source: &Item, target: &Item) -> Result<(), ShellError> {
    let stat = source.there()?;
    target
        .tree
        .set_times(&target.path, stat.modified_ms, stat.accessed_ms)
        .map_err(|error| error.of(&target.shown))
}

/// Copies a stream into a file. Under the final name stands either what was there before or the whole new file, unless the copy
/// is direct.
///
/// # Errors
/// The target exists and may not be replaced, or a failed call; the unfinished file is deleted then.
pub(crate) fn copy_stream(
    mut from: Box<dyn Source>,
    source_shown: &str,
    target: &Item,
    options: CopyOptions,
) -> Result<(), ShellError> {
    if target.is_directory() || (target.exists() && !options.overwrite) {
        return Err(ShellError::exists(&target.shown));
    }
    let written = if options.direct {
        target.clone()
    } else {
        target.with_suffix(TEMPORARY)
    };
    let sink = written
        .tree
        .create(&written.path, true, !options.direct)
        .map_err(|error| error.of(&written.shown))?;
    let copied = copy_bytes(&mut *from, source_shown, sink, &written.shown);
    let done = match copied {
        Ok(()) if options.direct => return Ok(()),
        Ok(()) => put_in_place(&written, target),
        failed => failed,
    };
    if done.is_err() && !options.direct {
        // The failure itself is what the caller must hear of.
        if let Err(error) = written.tree.delete(&written.path, false) {
            tracing::warn!(path = written.path, %error, "the temporary file stays");
        }
    }
    done
}

/// Moves all bytes and publishes them; gives the file up when reading fails.
///
/// # Errors
/// A failed read, write or close.
fn copy_bytes(
    from: &mut dyn Source,
    source_shown: &str,
    sink: Box<dyn Sink>,
    sink_shown: &str,
) -> Result<(), ShellError> {
    let mut sink = sink;
    match pump(from, source_shown, &mut *sink, sink_shown) {
        Ok(()) => sink.close().map_err(|error| error.of(sink_shown)),
        Err(error) => {
            sink.abort();
            Err(error)
        }
    }
}

/// Moves all bytes of a source into a file that stays open.
///
/// # Errors
/// A failed read or write.
pub(crate) fn pump(
    from: &mut dyn Source,
    source_shown: &str,
    sink: &mut dyn Sink,
    sink_shown: &str,
) -> Result<(), ShellError> {
    let mut progress = Progress::new(source_shown, from.size());
    let mut buffer = vec![0; PIECE];
    loop {
        let count = from
            .read(&mut buffer)
            .map_err(|error| error.of(source_shown))?;
        if count == 0 {
            return Ok(());
        }
        sink.write(&buffer[..count])
            .map_err(|error| error.of(sink_shown))?;
        progress.add(count);
    }
}

fn put_in_place(written: &Item, target: &Item) -> Result<(), ShellError> {
    if target.exists() {
        let deleted = target
            .tree
            .delete(&target.path, false)
            .map_err(|error| error.of(&target.shown))?;
        if !deleted {
            return Err(ShellError::failed(format!(
                "delete `{}': Input/output error",
                target.shown
            )));
        }
    }
    let renamed = target
        .tree
        .rename(&written.path, &target.path)
        .map_err(|error| error.of(&target.shown))?;
    if !renamed {
        return Err(ShellError::failed(format!(
            "rename `{}' to `{}': Input/output error",
            written.shown, target.shown
        )));
    }
    Ok(())
}
