//! The commands that show statuses: `-ls` and `-stat`.

use std::cmp::Reverse;

use chrono::{DateTime, Local, Utc};

use super::error::ShellError;
use super::item::Item;
use super::options::{Given, Syntax};
use super::shell::Shell;
use super::tree::Stat;

/// `-ls [-C] [-d] [-h] [-q] [-R] [-t] [-S] [-r] [-u] [<path> ...]`
///
/// # Errors
/// What ends the command.
pub(crate) fn ls(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let flags = &["C", "d", "h", "q", "R", "t", "S", "r", "u"];
    let mut given = Syntax {
        flags,
        values: &[],
        min: 0,
        max: usize::MAX,
    }
    .parse(args)?;
    if given.operands.is_empty() {
        given.operands.push(".".to_owned());
    }
    let mut items = Vec::new();
    for text in &given.operands {
        match shell.expand_some(text) {
            Ok(found) => items.extend(found),
            Err(error) => shell.report(error)?,
        }
    }
    let mut listing = Listing {
        shell,
        given: &given,
        columns: Columns::default(),
    };
    for item in items {
        shell.step(listing.operand(&item))?;
    }
    Ok(())
}

struct Listing<'a> {
    shell: &'a Shell,
    given: &'a Given,
    columns: Columns,
}

/// Widths only grow, over all that one command lists.
#[derive(Debug, Default)]
struct Columns {
    replication: usize,
    owner: usize,
    group: usize,
    length: usize,
}

impl Listing<'_> {
    fn operand(&mut self, item: &Item) -> Result<(), ShellError> {
        if item.there()?.directory && !self.given.has("d") {
            self.directory(item)
        } else {
            self.rows(std::slice::from_ref(item))
        }
    }

    fn directory(&mut self, item: &Item) -> Result<(), ShellError> {
        let mut children = item.children()?;
        if !children.is_empty() && !self.given.has("R") && !self.given.has("C") {
            self.shell
                .line(&format!("Found {} items", children.len()))?;
        }
        self.sort(&mut children);
        if !self.given.has("R") {
            return self.rows(&children);
        }
        self.columns.fit(&children);
        for child in &children {
            self.row(child)?;
            if child.is_directory() {
                self.shell.step(self.directory(child))?;
            }
        }
        Ok(())
    }

    fn sort(&self, items: &mut [Item]) {
        let time = |item: &Item| item.stat.as_ref().map(|stat| self.time(stat));
        let length = |item: &Item| item.stat.as_ref().map(|stat| stat.length);
        if self.given.has("t") {
            items.sort_by_key(|item| Reverse(time(item)));
        } else if self.given.has("S") {
            items.sort_by_key(|item| Reverse(length(item)));
        } else {
            items.sort_by(|a, b| a.path.cmp(&b.path));
        }
        if self.given.has("r") {
            items.reverse();
        }
    }

    fn time(&self, stat: &Stat) -> u64 {
        if self.given.has("u") {
            stat.accessed_ms
        } else {
            stat.modified_ms
        }
    }

    fn rows(&mut self, items: &[Item]) -> Result<(), ShellError> {
        self.columns.fit(items);
        items.iter().try_for_each(|item| self.row(item))
    }

    fn row(&self, item: &Item) -> Result<(), ShellError> {
        let shown = if self.given.has("q") {
            printable(&item.shown)
        } else {
            item.shown.clone()
        };
        if self.given.has("C") {
            return self.shell.line(&shown);
        }
        let stat = item.there()?;
        let kind = if stat.directory { 'd' } else { '-' };
        let replication = if stat.directory {
            "-".to_owned()
        } else {
            stat.replication.to_string()
        };
        let length = if self.given.has("h") {
            human(stat.length)
        } else {
            stat.length.to_string()
        };
        let Columns {
            replication: w_replication,
            owner: w_owner,
            group: w_group,
            length: w_length,
        } = self.columns;
        self.shell.line(&format!(
            "{kind}{mode} {replication:>w_replication$} {owner:<w_owner$} {group:<w_group$} {length:>w_length$} {time} {shown}",
            mode = symbolic(stat.mode),
            owner = stat.owner,
            group = stat.group,
            time = local_minute(self.time(stat)),
        ))
    }
}

impl Columns {
    /// At least what Hadoop's shell takes: 3 for copies, 10 for lengths. Its space before the copies is in the first of them.
    fn fit(&mut self, items: &[Item]) {
        self.replication = self.replication.max(3);
        self.length = self.length.max(10);
        for stat in items.iter().filter_map(|item| item.stat.as_ref()) {
            self.replication = self.replication.max(stat.replication.to_string().len());
            self.length = self.length.max(stat.length.to_string().len());
            self.owner = self.owner.max(stat.owner.chars().count());
            self.group = self.group.max(stat.group.chars().count());
        }
    }
}

/// `-stat [format] <path> ...`
///
/// # Errors
/// What ends the command.
pub(crate) fn stat(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    let mut given = Syntax {
        flags: &["R"],
        values: &[],
        min: 1,
        max: usize::MAX,
    }
    .parse(args)?;
    let mut format = "%y".to_owned();
    if given
        .operands
        .first()
        .is_some_and(|first| first.contains('%'))
    {
        format = given.operands.remove(0);
        if given.operands.is_empty() {
            return Err(ShellError::Usage(
                "Not enough arguments: expected 1 but got 0".to_owned(),
            ));
        }
    }
    let mut items = Vec::new();
    for text in &given.operands {
        match shell.expand_some(text) {
            Ok(found) => items.extend(found),
            Err(error) => shell.report(error)?,
        }
    }
    for item in &items {
        shell.step(stat_item(shell, item, &format, given.has("R")))?;
    }
    Ok(())
}

fn stat_item(shell: &Shell, item: &Item, format: &str, recursive: bool) -> Result<(), ShellError> {
    let stat = item.there()?;
    shell.line(&formatted(format, item.name(), stat))?;
    if recursive && stat.directory {
        for child in item.children()? {
            shell.step(stat_item(shell, &child, format, recursive))?;
        }
    }
    Ok(())
}

/// Fills in a format. Unknown letters stand for themselves, as does a percent sign at the end.
fn formatted(format: &str, name: &str, stat: &Stat) -> String {
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('a') => text.push_str(&format!("{:o}", stat.mode)),
            Some('A') => text.push_str(&symbolic(stat.mode)),
            Some('b') => text.push_str(&stat.length.to_string()),
            Some('F') => text.push_str(if stat.directory {
                "directory"
            } else {
                "regular file"
            }),
            Some('g') => text.push_str(&stat.group),
            Some('n') => text.push_str(name),
            Some('o') => text.push_str(&stat.block_size.to_string()),
            Some('r') => text.push_str(&stat.replication.to_string()),
            Some('u') => text.push_str(&stat.owner),
            Some('x') => text.push_str(&utc_second(stat.accessed_ms)),
            Some('X') => text.push_str(&stat.accessed_ms.to_string()),
            Some('y') => text.push_str(&utc_second(stat.modified_ms)),
            Some('Y') => text.push_str(&stat.modified_ms.to_string()),
            Some(other) => text.push(other),
            None => text.push('%'),
        }
    }
    text
}

/// `rwxr-x---`
fn symbolic(mode: u16) -> String {
    (0..9)
        .rev()
        .zip("rwxrwxrwx".chars())
        .map(|(bit, letter)| if mode >> bit & 1 == 1 { letter } else { '-' })
        .collect()
}

/// A size as Hadoop's shell writes it for people: `4 K`, `2.9 K`, `1.0 M`.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 0;
    while unit + 1 < UNITS.len() && bytes >> (10 * (unit + 2)) > 0 {
        unit += 1;
    }
    let shift = 10 * (unit + 1);
    let (whole, rest) = (bytes >> shift, bytes & ((1 << shift) - 1));
    if rest == 0 {
        return format!("{whole} {}", UNITS[unit]);
    }
    // Half up, in tenths.
    let tenths = (u128::from(bytes) * 10 + (1 << (shift - 1))) >> shift;
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A name with question marks for what no terminal should get.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

fn time(ms: u64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(i64::try_from(ms).ok()?)
}

/// In the time zone of this machine; a time that no calendar has is shown as its number.
fn local_minute(ms: u64) -> String {
    time(ms).map_or_else(
        || ms.to_string(),
        |time| {
            time.with_timezone(&Local)
                .format("%Y-%m-%d %H:%M")
                .to_string()
        },
    )
}

fn utc_second(ms: u64) -> String {
    time(ms).map_or_else(
        || ms.to_string(),
        |time| time.format("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Stat {
        Stat {
            directory: false,
            length: 6,
            replication: 1,
            block_size: 268_435_456,
            modified_ms: 1_796_061_876_991,
            accessed_ms: 1_796_061_876_990,
            owner: "alice".to_owned(),
            group: "staff".to_owned(),
            mode: 0o644,
        }
    }

    #[test]
    fn stat_formats_are_hadoops() {
        let line = formatted(
            "%F %b %g %n %o %r %u %a %A %x %y %X %Y %% %q%",
            "f",
            &sample(),
        );
        assert_eq!(
            line,
            "regular file 6 staff f 268435456 1 alice 644 rw-r--r-- 2026-11-30 18:04:36 2026-11-30 18:04:36 \
             1796061876990 1796061876991 % q%"
        );
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(human(0), "0");
        assert_eq!(human(1023), "1023");
        assert_eq!(human(4096), "4 K");
        assert_eq!(human(3000), "2.9 K");
        assert_eq!(human(1 << 20), "1 M");
        assert_eq!(human((1 << 20) + (1 << 19)), "1.5 M");
        assert_eq!(human(u64::MAX), "16.0 E");
    }

    #[test]
    fn modes_and_names() {
        assert_eq!(symbolic(0o750), "rwxr-x---");
        assert_eq!(printable("a\u{7}b"), "a?b");
    }
}
