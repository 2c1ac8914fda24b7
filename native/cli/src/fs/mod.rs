//! `append fs`: the file system shell, with the commands, options, texts and exit codes of `hadoop fs`.
//!
//! Exit codes: 0, 1 when a step failed, 255 for a wrong command line or for what cannot be done at all, 130 and above for an
//! interrupt.

mod copy;
mod error;
mod glob;
mod interrupt;
mod item;
mod local;
mod names;
mod options;
mod path;
mod progress;
mod read;
mod remote;
mod shell;
mod show;
mod tree;
mod usage;
mod write;

use std::process::ExitCode;

use append_client::Config;
use clap::Args;

use self::error::ShellError;
use self::shell::{DEFAULT_FS, Shell};

/// Exit code for a wrong command line: Hadoop's -1.
const WRONG: u8 = 255;

/// Everything behind `append fs` is read by Hadoop's rules, not by clap's: long options with one dash.
#[derive(Debug, Args)]
pub(crate) struct FsArgs {
    /// Generic options, a command, its options and operands
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

type Command = fn(&Shell, &[String]) -> Result<(), ShellError>;

/// The code behind a command's name.
fn command(name: &str) -> Option<(&'static str, Command)> {
    let run: Command = match name {
        "appendToFile" => write::append_to_file,
        "cat" => read::cat,
        "get" => write::get,
        "help" => help,
        "ls" => show::ls,
        "mkdir" => names::mkdir,
        "mv" => names::mv,
        "put" => write::put,
        "rm" => names::rm,
        "stat" => show::stat,
        "tail" => read::tail,
        "usage" => show_usage,
        _ => return None,
    };
    usage::find(name).map(|&(name, ..)| (name, run))
}

/// Runs one shell command.
pub(crate) fn run(args: FsArgs) -> ExitCode {
    ExitCode::from(run_command(&args.args))
}

fn run_command(args: &[String]) -> u8 {
    let (settings, args) = match generic_options(args) {
        Ok(split) => split,
        Err(text) => return wrong(&text),
    };
    let Some((typed, args)) = args.split_first() else {
        eprint!("{}", usage::overview());
        return WRONG;
    };
    // What other programs of this binary, and clap's users, are used to.
    let typed = if typed == "--help" || typed == "-h" {
        "-help"
    } else {
        typed.as_str()
    };
    let Some((name, run)) = typed.strip_prefix('-').and_then(command) else {
        eprintln!("{typed}: Unknown command");
        if command(typed).is_some() {
            eprintln!("Did you mean -{typed}?  This command begins with a dash.");
        }
        eprint!("{}", usage::overview());
        return WRONG;
    };
    let shell = match open(&settings) {
        Ok(shell) => shell,
        Err(text) => {
            eprintln!("{name}: {text}");
            return 1;
        }
    };
    shell.begin(name);
    interrupt::watch();
    let result = run(&shell, args).and_then(|()| shell.flush());
    interrupt::settle();
    match result.or_else(|error| shell.report(error)) {
        Ok(()) => shell.exit_code(),
        Err(ShellError::Usage(text)) => {
            eprintln!("-{name}: {text}");
            eprint!("{}", usage::overview());
            if let Some((name, syntax, _)) = usage::find(name) {
                eprintln!("\n{}", usage::line(name, syntax));
            }
            WRONG
        }
        Err(_) => 1,
    }
}

fn wrong(text: &str) -> u8 {
    eprintln!("append fs: {text}");
    eprint!("{}", usage::overview());
    WRONG
}

type Settings = Vec<(String, String)>;

/// Takes the options in front of the command: `-fs URI`, `-D key=value` (or `-Dkey=value`), also with two dashes.
fn generic_options(args: &[String]) -> Result<(Settings, &[String]), String> {
    let mut settings = Settings::new();
    let mut rest = args;
    while let Some((arg, after)) = rest.split_first() {
        let value = || {
            after
                .first()
                .cloned()
                .ok_or_else(|| format!("{arg} needs a value"))
        };
        let (key_value, used) = match arg.as_str() {
            "-fs" | "--fs" => (format!("{DEFAULT_FS}={}", value()?), 1),
            "-D" | "--define" => (value()?, 1),
            "-conf" | "--conf" | "-jt" | "-files" | "-libjars" | "-archives" => {
                return Err(format!("the generic option {arg} is not supported"));
            }
            other => match other.strip_prefix("-D") {
                Some(key_value) => (key_value.to_owned(), 0),
                None => break,
            },
        };
        let (key, value) = key_value
            .split_once('=')
            .ok_or_else(|| format!("{key_value}: a setting is written key=value"))?;
        settings.push((key.to_owned(), value.to_owned()));
        rest = after.get(used..).unwrap_or_default();
    }
    Ok((settings, rest))
}

fn open(settings: &[(String, String)]) -> Result<Shell, String> {
    let mut config = Config::from_environment().map_err(|error| error.to_string())?;
    for (key, value) in settings {
        config.set(key, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    Ok(Shell::new(config, runtime))
}

/// `-help [cmd ...]`
fn help(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    describe(shell, args, |(name, syntax, text)| {
        format!("-{name} {syntax} :\n{}", usage::wrapped(text))
    })
}

/// `-usage [cmd ...]`
fn show_usage(shell: &Shell, args: &[String]) -> Result<(), ShellError> {
    describe(shell, args, |(name, syntax, _)| usage::line(name, syntax))
}

fn describe(
    shell: &Shell,
    names: &[String],
    text: impl Fn(&(&str, &str, &str)) -> String,
) -> Result<(), ShellError> {
    if names.is_empty() {
        shell.line(usage::overview().trim_end())?;
        return usage::COMMANDS
            .iter()
            .try_for_each(|command| shell.line(&format!("\n{}", text(command))));
    }
    for name in names {
        match usage::find(name.trim_start_matches('-')) {
            Some(command) => shell.line(&text(command))?,
            None => return Err(ShellError::Usage(format!("`{name}': Unknown command"))),
        }
    }
    Ok(())
}
