//! A progress bar for transfers that take long, on a terminal only.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter transfers show nothing.
const LONG: Duration = Duration::from_secs(2);

/// Counts the bytes of one transfer.
pub(crate) struct Progress {
    what: String,
    total: Option<u64>,
    moved: u64,
    started: Instant,
    terminal: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts counting; `total` is the number of bytes, if it is known.
    pub(crate) fn new(what: &str, total: Option<u64>) -> Progress {
        Progress {
            what: what.to_owned(),
            total,
            moved: 0,
            started: Instant::now(),
            terminal: stderr().is_terminal(),
            bar: None,
        }
    }

    /// Counts bytes that were moved.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.moved += u64::try_from(bytes).unwrap_or_default();
        if self.bar.is_none() && self.terminal && self.started.elapsed() >= LONG {
            self.bar = Some(self.show());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.moved);
        }
    }

    fn show(&self) -> ProgressBar {
        let (bar, template) = match self.total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            ),
            None => (
                ProgressBar::no_length(),
                "{msg} {spinner} {bytes} {bytes_per_sec}",
            ),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.with_message(self.what.clone())
            .with_elapsed(self.started.elapsed())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
