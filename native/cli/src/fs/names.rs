//! The commands that change names: `-mkdir`, `-mv`, `-rm`.

use super::copy::{check_destination, check_not_below_itself, target_of};
use super::error::ShellError;
use super::item::Item;
use super::options::Syntax;
use super::path;
use super::shell::Shell;

const MANY: usize = usize::MAX;

/// Minutes that deleted files stay in the trash; 0, the default, means that there is none.
const TRASH_INTERVAL: &str = "fs.trash.interval";

/// `-mkdir [-p] <path> ...`
///
/// # Errors
/// What ends the command.
pub(crate) fn mkdir(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let given = Syntax {
        flags: &["p"],
        values: &[],
        min: 1,
        max: MANY,
    }
    .parse(args)?;
    for item in every(shell, &given.operands)? {
        shell.step(make(&item, given.has("p")))?;
    }
    Ok(())
}

fn make(item: &Item, parents: bool) -> Result<(), ShellError> {
    match &item.stat {
        Some(stat) if !stat.directory => return Err(ShellError::not_a_directory(&item.shown)),
        Some(_) if parents => return Ok(()),
        Some(_) => return Err(ShellError::exists(&item.shown)),
        None => {}
    }
    if let Some(file) = item.file_above()? {
        let reason = "Parent path is not a directory";
        return Err(ShellError::failed(format!(
            "{reason}: {}{file}",
            item.tree.uri()
        )));
    }
    if !parents
        && !item.parent_exists()?
        && let Some(parent) = path::parent(&item.path)
    {
        return Err(ShellError::not_found(&format!(
            "{}{parent}",
            item.tree.uri()
        )));
    }
    item.tree
        .mkdirs(&item.path, parents)
        .map_err(|error| error.of(&item.shown))
}

/// `-mv <src> ... <dst>`
///
/// # Errors
/// What ends the command.
pub(crate) fn mv(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let given = Syntax {
        flags: &[],
        values: &[],
        min: 2,
        max: MANY,
    }
    .parse(args)?;
    let Some((text, sources)) = given.operands.split_last() else {
        return Ok(());
    };
    let destination = shell.destination(text)?;
    let sources = every(shell, sources)?;
    check_destination(sources.len(), &destination, false)?;
    for source in &sources {
        shell.step(move_one(source, &destination))?;
    }
    Ok(())
}

fn move_one(source: &Item, destination: &Item) -> Result<(), ShellError> {
    source.there()?;
    let target = target_of(source.name(), destination)?;
    check_not_below_itself(source, &target)?;
    if !source.same_tree(&target) {
        return Err(ShellError::failed(format!(
            "`{}': Does not match target filesystem",
            source.shown
        )));
    }
    if target.exists() {
        return Err(ShellError::exists(&target.shown));
    }
    let renamed = source
        .tree
        .rename(&source.path, &target.path)
        .map_err(|error| error.of(&source.shown))?;
    if renamed {
        Ok(())
    } else {
        Err(ShellError::input_output(&source.shown))
    }
}

/// `-rm [-f] [-r|-R] [-skipTrash] <src> ...`
///
/// # Errors
/// What ends the command.
pub(crate) fn rm(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let given = Syntax {
        flags: &["f", "r", "R", "skipTrash"],
        values: &[],
        min: 1,
        max: MANY,
    }
    .parse(args)?;
    let recursive = given.has("r") || given.has("R");
    if !given.has("skipTrash") {
        refuse_trash(shell)?;
    }
    let mut items = Vec::new();
    for text in &given.operands {
        // A pattern that matches nothing fails without -f and is nothing to do with it.
        match shell.expand(text) {
            Ok(found) if found.is_empty() && !given.has("f") => {
                shell.report(ShellError::not_found(text))?
            }
            Ok(found) => items.extend(found),
            Err(error) => shell.report(error)?,
        }
    }
    for item in &items {
        if !item.exists() && given.has("f") {
            continue;
        }
        shell.step(remove(shell, item, recursive))?;
    }
    Ok(())
}

/// Deleting for good where the user's settings promise a trash would lose files that he expects to find there.
fn refuse_trash(shell: &Shell) -> Result<(), ShellError> {
    let interval = shell
        .config()
        .get(TRASH_INTERVAL)
        .map(str::trim)
        .unwrap_or_default();
    match interval.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 => Err(ShellError::Unsupported(format!(
            "moving to the trash ({TRASH_INTERVAL} is {interval}) is not supported: use -skipTrash"
        ))),
        _ => Ok(()),
    }
}

fn remove(shell: &Shell, item: &Item, recursive: bool) -> Result<(), ShellError> {
    if item.there()?.directory && !recursive {
        return Err(ShellError::is_directory(&item.shown));
    }
    let deleted = item
        .tree
        .delete(&item.path, recursive)
        .map_err(|error| error.of(&item.shown))?;
    if !deleted {
        return Err(ShellError::input_output(&item.shown));
    }
    shell.line(&format!("Deleted {}", item.shown))
}

/// All operands, expanded; one that fails is reported and left out.
fn every(shell: &Shell, texts: &[String]) -> Result<Vec<Item>, ShellError> {
    let mut items = Vec::new();
    for text in texts {
        match shell.expand_some(text) {
            Ok(found) => items.extend(found),
            Err(error) => shell.report(error)?,
        }
    }
    Ok(items)
}
