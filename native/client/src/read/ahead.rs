//! Reading ahead: decides what to fetch, keeps what was fetched. Does no I/O itself.

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::length_of;
use crate::Result;

/// The first window of reads that follow each other; each further one is twice as long.
const FIRST_WINDOW: usize = 128 << 10;

/// Bytes that are on their way.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) task: JoinHandle<Result<Bytes>>,
}

/// What a read does next.
#[derive(Debug)]
pub(super) enum Step {
    /// Here are some of the bytes; these further ones should be fetched meanwhile.
    Have {
        bytes: Bytes,
        then: Option<(u64, u64)>,
    },
    /// They are on their way.
    Await(Next),
    /// Fetch up to `to`, and keep it for the reads behind this one if `keep`.
    Fetch { to: u64, keep: bool },
}

#[derive(Debug)]
pub(super) struct Ahead {
    largest: usize,
    size: usize,
    window: Option<(u64, Bytes)>,
    next: Option<Next>,
    /// Where a read begins that follows the last one.
    follows: u64,
}

impl Ahead {
    /// With windows of at most `largest` bytes; 0 switches reading ahead off.
    pub(super) fn new(largest: usize) -> Ahead {
        Ahead {
            largest,
            size: FIRST_WINDOW.min(largest),
            window: None,
            next: None,
            follows: 0,
        }
    }

    /// For a read of `length` bytes at `from` in a file of `end` bytes.
    pub(super) fn step(&mut self, from: u64, length: usize, end: u64) -> Step {
        if let Some(bytes) = self.kept(from, length) {
            self.follows = from + length_of(bytes.len());
            let then = self.behind(end);
            return Step::Have { bytes, then };
        }
        if let Some(next) = self
            .next
            .take_if(|next| (next.from..next.to).contains(&from))
        {
            return Step::Await(next);
        }
        let sequential = from == self.follows && self.largest > 0;
        self.follows = from.saturating_add(length_of(length));
        let wanted = if sequential {
            length.max(self.size)
        } else {
            self.size = FIRST_WINDOW.min(self.largest);
            length
        };
        Step::Fetch {
            to: from.saturating_add(length_of(wanted)).min(end),
            keep: sequential && wanted > length,
        }
    }

    fn kept(&self, from: u64, length: usize) -> Option<Bytes> {
        let (start, bytes) = self.window.as_ref()?;
        let skip = usize::try_from(from.checked_sub(*start)?).ok()?;
        if skip >= bytes.len() {
            return None;
        }
        Some(bytes.slice(skip..bytes.len().min(skip.saturating_add(length))))
    }

    /// What to fetch behind the window, once half of it was read.
    fn behind(&mut self, end: u64) -> Option<(u64, u64)> {
        let (start, bytes) = self.window.as_ref()?;
        let window_end = start + length_of(bytes.len());
        let half = start + length_of(bytes.len() / 2);
        if self.next.is_some() || self.follows < half || window_end >= end {
            return None;
        }
        self.size = self.size.saturating_mul(2).min(self.largest);
        let to = window_end.saturating_add(length_of(self.size)).min(end);
        Some((window_end, to))
    }

    /// Keeps bytes for the next reads.
    pub(super) fn put(&mut self, from: u64, bytes: Bytes) {
        self.window = Some((from, bytes));
    }

    /// Bytes are on their way.
    pub(super) fn expect(&mut self, next: Next) {
        if let Some(other) = self.next.replace(next) {
            other.task.abort();
        }
    }

    pub(super) fn clear(&mut self) {
        self.window = None;
        if let Some(next) = self.next.take() {
            next.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 10 << 20;

    fn window(from: u64, length: usize) -> Ahead {
        let mut ahead = Ahead::new(4 << 20);
        ahead.put(from, Bytes::from(vec![7; length]));
        ahead
    }

    #[test]
    fn a_first_read_and_those_that_follow_fetch_more_than_they_want() {
        let mut ahead = Ahead::new(4 << 20);
        let Step::Fetch { to, keep } = ahead.step(0, 1000, END) else {
            panic!("nothing is kept yet");
        };
        assert_eq!((to, keep), (length_of(FIRST_WINDOW), true));
        // Elsewhere: exactly what is wanted.
        let Step::Fetch { to, keep } = ahead.step(5000, 10, END) else {
            panic!("nothing is kept yet");
        };
        assert_eq!((to, keep), (5010, false));
        let Step::Fetch { keep, .. } = ahead.step(5010, 10, END) else {
            panic!("nothing is kept yet");
        };
        assert!(keep);
    }

    #[test]
    fn fetches_end_where_the_file_does() {
        let mut ahead = Ahead::new(4 << 20);
        assert!(matches!(
            ahead.step(0, 50, 100),
            Step::Fetch {
                to: 100,
                keep: true
            }
        ));
        let mut off = Ahead::new(0);
        assert!(matches!(
            off.step(0, 50, 100),
            Step::Fetch {
                to: 50,
                keep: false
            }
        ));
    }

    #[test]
    fn what_is_kept_is_served_and_the_next_window_fetched_from_its_half_on() {
        let mut ahead = window(100, 1000);
        let Step::Have { bytes, then } = ahead.step(150, 200, END) else {
            panic!("it is kept");
        };
        assert_eq!((bytes.len(), then), (200, None));
        let Step::Have { bytes, then } = ahead.step(900, 500, END) else {
            panic!("it is kept");
        };
        assert_eq!(bytes.len(), 200);
        let (from, to) = then.unwrap();
        assert_eq!((from, to), (1100, 1100 + 2 * length_of(FIRST_WINDOW)));
    }

    #[test]
    fn windows_grow_to_the_largest_and_shrink_after_a_jump() {
        let mut ahead = window(0, 1000);
        ahead.largest = 3 * FIRST_WINDOW;
        let behind = |ahead: &mut Ahead| match ahead.step(900, 50, END) {
            Step::Have {
                then: Some((from, to)),
                ..
            } => to - from,
            other => panic!("{other:?}"),
        };
        assert_eq!(behind(&mut ahead), 2 * length_of(FIRST_WINDOW));
        assert_eq!(behind(&mut ahead), 3 * length_of(FIRST_WINDOW));
        assert_eq!(behind(&mut ahead), 3 * length_of(FIRST_WINDOW));
        ahead.step(5000, 1, END);
        assert_eq!(ahead.size, FIRST_WINDOW);
    }
}
