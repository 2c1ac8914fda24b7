//! How administration prints: aligned tables for people, JSON for programs.

use std::io::{Write, stdout};

use append_client::Error;
use append_client::ErrorKind;
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;

/// Prints a line.
///
/// # Errors
/// [`ErrorKind::Io`] when standard output takes nothing.
pub(crate) fn line(text: &str) -> Result<(), Error> {
    writeln!(stdout(), "{text}")
        .map_err(|error| Error::new(ErrorKind::Io, format!("standard output: {error}")))
}

/// Prints a value as JSON, in several lines.
///
/// # Errors
/// As [`line()`].
pub(crate) fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    line(&text)
}

/// Prints names and values, one pair a line.
///
/// # Errors
/// As [`line()`].
pub(crate) fn fields(fields: &[(&str, String)]) -> Result<(), Error> {
    let width = fields
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    fields
        .iter()
        .try_for_each(|(name, value)| line(&format!("{name:<width$}  {value}")))
}

/// Prints a table whose columns are as wide as they need be.
///
/// # Errors
/// As [`line()`].
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> Result<(), Error> {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells
            .chain(head.get(column).map(|name| name.len()))
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let print = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"))
            .collect();
        line(padded.join("  ").trim_end())
    };
    print(&head.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
    rows.iter().try_for_each(|row| print(row))
}

/// A time in UTC, to the millisecond; a time that no calendar has as its number.
pub(crate) fn time(ms: u64) -> String {
    i64::try_from(ms)
        .ok()
        .and_then(DateTime::from_timestamp_millis)
        .map_or_else(
            || ms.to_string(),
            |time| time.to_rfc3339_opts(SecondsFormat::Millis, true),
        )
}

/// A limit, or that there is none.
pub(crate) fn limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_utc() {
        assert_eq!(time(1_796_061_876_991), "2026-11-30T18:04:36.991Z");
        assert_eq!(time(u64::MAX), u64::MAX.to_string());
    }
}
