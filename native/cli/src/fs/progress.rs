//! A progress bar for transfers that take long, on a terminal only.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter transfers show nothing.
const LONG: Duration = Duration::from_secs(2);

/// Counts the bytes of one transfer.
pub(crate) struct Progress {
    started: Instant,
    shown: bool,
    /// Counts unseen from the start, so that its rate is that of the whole transfer. None where there is no terminal.
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts counting; `total` is the number of bytes, if it is known.
    pub(crate) fn new(what: &str, total: Option<u64>) -> Progress {
        Progress {
            started: Instant::now(),
            shown: false,
            bar: stderr().is_terminal().then(|| unseen(what, total)),
        }
    }

    /// Counts bytes that were moved.
    pub(crate) fn add(&mut self, bytes: usize) {
        let Some(bar) = &self.bar else { return };
        if !self.shown && self.started.elapsed() >= LONG {
            self.shown = true;
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.inc(u64::try_from(bytes).unwrap_or_default());
    }
}

fn unseen(what: &str, total: Option<u64>) -> ProgressBar {
    let template = match total {
        Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        None => "{msg} {spinner} {bytes} {bytes_per_sec}",
    };
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_message(what.to_owned())
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
