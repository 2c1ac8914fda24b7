//! Patterns in paths, by Hadoop's rules: `*`, `?`, `[a-c]`, `[^x]`, `{a,b}` and the backslash that takes a meaning away.
//!
//! A pattern never matches a slash; alternatives that hold one are spread into several patterns first.

use super::error::ShellError;

/// Whether a path has anything to expand.
pub(crate) fn has_pattern(path: &str) -> bool {
    path.chars()
        .any(|c| matches!(c, '*' | '?' | '[' | '{' | '\\'))
}

/// Takes the backslashes away that quoted something.
pub(crate) fn unquote(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            plain.extend(chars.next());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Spreads `{a,b}` into one path each, nested ones too.
pub(crate) fn spread(path: &str) -> Result<Vec<String>, ShellError> {
    let chars: Vec<char> = path.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 1,
            '{' => {
                let (choices, end) = choices(&chars, at, path)?;
                let head: String = chars[..at].iter().collect();
                let mut all = Vec::new();
                for tail in spread(&chars[end..].iter().collect::<String>())? {
                    for choice in &choices {
                        for middle in spread(choice)? {
                            all.push(format!("{head}{middle}{tail}"));
                        }
                    }
                }
                return Ok(all);
            }
            _ => {}
        }
        at += 1;
    }
    Ok(vec![path.to_owned()])
}

/// The alternatives of the brace at `open`, and where the text behind it starts.
fn choices(chars: &[char], open: usize, path: &str) -> Result<(Vec<String>, usize), ShellError> {
    let mut choices = vec![String::new()];
    let mut depth = 0;
    let mut at = open + 1;
    while at < chars.len() {
        let c = chars[at];
        let last = choices.last_mut();
        match c {
            '}' if depth == 0 => return Ok((choices, at + 1)),
            ',' if depth == 0 => {
                choices.push(String::new());
                at += 1;
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            '\\' => {
                if let Some(last) = last {
                    last.push(c);
                    last.extend(chars.get(at + 1));
                }
                at += 2;
                continue;
            }
            _ => {}
        }
        if let Some(last) = last {
            last.push(c);
        }
        at += 1;
    }
    Err(ShellError::failed(format!(
        "Unclosed group near index {} in `{path}'",
        chars.len()
    )))
}

/// One component of a path, compiled. Braces must have been spread.
#[derive(Debug)]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Debug)]
enum Part {
    Any,
    One,
    Char(char),
    Set {
        not: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Pattern {
    /// Compiles a component.
    ///
    /// # Errors
    /// [`ShellError::Failed`] for a set without its closing bracket.
    pub(crate) fn new(component: &str) -> Result<Pattern, ShellError> {
        let mut parts = Vec::new();
        let mut chars = component.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '*' => parts.push(Part::Any),
                '?' => parts.push(Part::One),
                '\\' => parts.push(Part::Char(chars.next().unwrap_or('\\'))),
                '[' => {
                    let not = chars.next_if(|&c| c == '^' || c == '!').is_some();
                    let mut ranges: Vec<(char, char)> = Vec::new();
                    loop {
                        let mut c = chars.next().ok_or_else(|| {
                            ShellError::failed(format!("Unclosed character class in `{component}'"))
                        })?;
                        if c == ']' {
                            break;
                        }
                        if c == '\\' {
                            c = chars.next().unwrap_or('\\');
                        }
                        let mut end = c;
                        let mut ahead = chars.clone();
                        if ahead.next() == Some('-')
                            && let Some(last) = ahead.next().filter(|&last| last != ']')
                        {
                            end = last;
                            chars = ahead;
                        }
                        ranges.push((c, end));
                    }
                    parts.push(Part::Set { not, ranges });
                }
                _ => parts.push(Part::Char(c)),
            }
        }
        Ok(Pattern(parts))
    }

    /// Whether a name matches as a whole.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut part, mut at) = (0, 0);
        // Where to go back to: the last star, and how much it has eaten so far.
        let mut star: Option<(usize, usize)> = None;
        loop {
            match self.0.get(part) {
                Some(Part::Any) => {
                    star = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(one) if at < name.len() && one.takes(name[at]) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                None if at == name.len() => return true,
                _ => {}
            }
            match star {
                Some((starred, eaten)) if eaten < name.len() => {
                    star = Some((starred, eaten + 1));
                    part = starred + 1;
                    at = eaten + 1;
                }
                _ => return false,
            }
        }
    }
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Part::Any => false,
            Part::One => true,
            Part::Char(own) => *own == c,
            Part::Set { not, ranges } => {
                ranges.iter().any(|&(first, last)| first <= c && c <= last) != *not
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(name)
    }

    #[test]
    fn stars_and_questions() {
        assert!(matches("ne*w", "new") && matches("ne*w", "neeew") && !matches("ne*w", "new2"));
        assert!(matches("*", "") && matches("*a*b*", "xaybz") && !matches("*a*b*", "xbya"));
        assert!(matches("a?c", "abc") && !matches("a?c", "ac"));
        assert!(matches("*.log", ".log"), "hidden names match, as in Hadoop");
    }

    #[test]
    fn sets_and_quotes() {
        assert!(matches("[ab]x", "ax") && !matches("[ab]x", "cx"));
        assert!(matches("[a-c0]", "b") && matches("[a-c0]", "0") && !matches("[a-c0]", "d"));
        assert!(matches("[^a-c]", "d") && !matches("[^a-c]", "b"));
        assert!(matches("\\*", "*") && !matches("\\*", "a"));
        assert!(matches("[a-]", "-"), "a dash at the end is a dash");
        assert!(Pattern::new("[ab").is_err());
    }

    #[test]
    fn braces_are_spread() {
        assert_eq!(spread("/a/{b,c}/d").unwrap(), ["/a/b/d", "/a/c/d"]);
        assert_eq!(spread("/{a/b,c{d,e}}").unwrap(), ["/a/b", "/cd", "/ce"]);
        assert_eq!(spread("/a\\{b,c}").unwrap(), ["/a\\{b,c}"]);
        assert!(spread("/a{b").is_err());
    }

    #[test]
    fn quoting_is_taken_away() {
        assert_eq!(unquote("/a\\*b\\\\c"), "/a*b\\c");
        assert!(has_pattern("/a\\b") && !has_pattern("/a-b"));
    }
}
