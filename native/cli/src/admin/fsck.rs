//! `append admin fsck`: the offline check of a data folder.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use append_server::fsck::{self, Report};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// The server's data folder; the server must not run
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// Runs it: code 0 for a sound folder, 1 with one line for each thing that is wrong.
pub(crate) fn run(args: &FsckArgs) -> ExitCode {
    let report = match fsck::fsck(&args.data) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("append admin: {error}");
            return ExitCode::FAILURE;
        }
    };
    let shown = show(&report);
    if report.violations.is_empty() && shown.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn show(report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for violation in &report.violations {
        writeln!(out, "{violation}")?;
    }
    writeln!(
        out,
        "log {}..{}, {} checkpoints, {} published blocks, {} bytes read: {} violations",
        report.log.0,
        report.log.1,
        report.checkpoints,
        report.published,
        report.bytes,
        report.violations.len()
    )
}
