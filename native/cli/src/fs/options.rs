//! Options of one shell command, read as Hadoop's shell reads them: in front of the operands, one dash, whole words.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ShellError;

/// What a command takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Syntax {
    /// Options without a value.
    pub(crate) flags: &'static [&'static str],
    /// Options that take the next argument.
    pub(crate) values: &'static [&'static str],
    /// Fewest operands.
    pub(crate) min: usize,
    /// Most operands.
    pub(crate) max: usize,
}

/// What a caller gave.
#[derive(Debug, Default)]
pub(crate) struct Given {
    flags: BTreeSet<String>,
    values: BTreeMap<String, String>,
    /// What is left: paths.
    pub(crate) operands: Vec<String>,
}

impl Given {
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(String::as_str)
    }
}

impl Syntax {
    /// Splits arguments into options and operands. `-` alone is an operand (standard input), `--` ends the options.
    ///
    /// # Errors
    /// [`ShellError::Usage`] in Hadoop's words.
    pub(crate) fn parse(&self, args: &[String]) -> Result<Given, ShellError> {
        let mut given = Given::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let Some(option) = arg.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                given.operands.push(arg.clone());
                break;
            };
            if option == "-" {
                break;
            }
            if self.flags.contains(&option) {
                given.flags.insert(option.to_owned());
            } else if self.values.contains(&option) {
                let value = args.next().ok_or_else(|| {
                    ShellError::Usage(format!("option '{option}' requires 1 argument."))
                })?;
                given.values.insert(option.to_owned(), value.clone());
            } else {
                return Err(ShellError::Usage(format!("Illegal option {arg}")));
            }
        }
        given.operands.extend(args.cloned());
        let count = given.operands.len();
        if count < self.min {
            return Err(ShellError::Usage(format!(
                "Not enough arguments: expected {} but got {count}",
                self.min
            )));
        }
        if count > self.max {
            return Err(ShellError::Usage(format!(
                "Too many arguments: expected {} but got {count}",
                self.max
            )));
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: Syntax = Syntax {
        flags: &["f", "R"],
        values: &["s"],
        min: 1,
        max: 2,
    };

    fn parse(args: &[&str]) -> Result<Given, String> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        SYNTAX.parse(&args).map_err(|error| error.to_string())
    }

    #[test]
    fn options_end_at_the_first_operand() {
        let given = parse(&["-f", "-s", "3", "a", "-R"]).unwrap();
        assert!(given.has("f") && !given.has("R"));
        assert_eq!(given.value("s"), Some("3"));
        assert_eq!(given.operands, ["a", "-R"]);
    }

    #[test]
    fn a_lone_dash_is_an_operand_and_two_end_the_options() {
        assert_eq!(parse(&["-f", "-", "b"]).unwrap().operands, ["-", "b"]);
        assert_eq!(parse(&["--", "-R"]).unwrap().operands, ["-R"]);
    }

    #[test]
    fn complaints_are_hadoops() {
        assert_eq!(parse(&["-x", "a"]).unwrap_err(), "Illegal option -x");
        assert_eq!(
            parse(&["-f"]).unwrap_err(),
            "Not enough arguments: expected 1 but got 0"
        );
        assert_eq!(
            parse(&["a", "b", "c"]).unwrap_err(),
            "Too many arguments: expected 2 but got 3"
        );
        assert_eq!(
            parse(&["-s"]).unwrap_err(),
            "option 's' requires 1 argument."
        );
    }
}
