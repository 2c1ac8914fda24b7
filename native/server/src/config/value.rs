//! Values as Hadoop writes them: durations, sizes, counts, truth.

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a whole number".to_owned())
}

/// Milliseconds, or a number with ns, us, ms, s, m, h or d.
pub(super) fn millis(text: &str) -> Result<u64, String> {
    let wrong = || "a duration such as 500ms, 60s, 5m or 7d".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    match unit.as_str() {
        "" | "ms" => Some(number),
        "ns" => Some(number / 1_000_000),
        "us" => Some(number / 1_000),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => None,
    }
    .ok_or_else(wrong)
}

/// Bytes, or a number with k, m, g or t, with or without a b behind it.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "a size such as 65536, 64KB or 256MB".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let shift = match unit.trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

pub(super) fn positive(number: u64) -> Result<u64, String> {
    match number {
        0 => Err("more than zero".to_owned()),
        number => Ok(number),
    }
}

/// A positive number in a narrower type.
pub(super) fn narrow<T: TryFrom<u64>>(number: u64) -> Result<T, String> {
    T::try_from(positive(number)?).map_err(|_| format!("{number} is too much"))
}

fn split(text: &str) -> Option<(u64, String)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim().to_ascii_lowercase()))
}
