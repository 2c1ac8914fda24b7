//! Reading ahead: decides what to fetch, keeps what was fetched. Does no I/O itself.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::length_of;
use crate::Result;

/// The first window of reads that follow each other; each further one is twice as long.
const FIRST_WINDOW: usize = 128 << 10;

/// Fetches under way when windows have their full length: while one is taken apart here, the next is sent there.
const DEPTH: usize = 2;

/// Bytes of a file one behind the other, in the pieces in which they came.
#[derive(Debug)]
pub(super) struct Window {
    start: u64,
    /// Each with the offset in the file behind it.
    pieces: Vec<(u64, Bytes)>,
}

impl Window {
    pub(super) fn new(start: u64, pieces: Vec<Bytes>) -> Window {
        let mut end = start;
        Window {
            start,
            pieces: pieces
                .into_iter()
                .map(|piece| {
                    end += length_of(piece.len());
                    (end, piece)
                })
                .collect(),
        }
    }

    fn end(&self) -> u64 {
        self.pieces.last().map_or(self.start, |(end, _)| *end)
    }

    /// The bytes at an offset, as far as they lie in one piece and not more than `length`.
    pub(super) fn get(&self, from: u64, length: usize) -> Option<Bytes> {
        if from < self.start {
            return None;
        }
        let (end, piece) = self
            .pieces
            .get(self.pieces.partition_point(|(end, _)| *end <= from))?;
        let left = usize::try_from(end - from).ok()?;
        let skip = piece.len().checked_sub(left)?;
        Some(piece.slice(skip..skip + left.min(length)))
    }
}

/// Bytes that are on their way.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) task: JoinHandle<Result<Window>>,
}

/// What a read does next.
#[derive(Debug)]
pub(super) enum Step {
    /// Here are some of the bytes; these further ones should be fetched meanwhile, and be expected.
    Have { bytes: Bytes, then: Vec<(u64, u64)> },
    /// They are on their way.
    Await(Next),
    /// Fetch up to `to`, and keep it for the reads behind this one if `keep`.
    Fetch { to: u64, keep: bool },
}

#[derive(Debug)]
pub(super) struct Ahead {
    largest: usize,
    size: usize,
    window: Option<Window>,
    /// One behind the other, the first behind the window.
    next: VecDeque<Next>,
    /// Where a read begins that follows the last one.
    follows: u64,
}

impl Ahead {
    /// With at most `most` bytes under way, and a window beside them; 0 switches reading ahead off.
    pub(super) fn new(most: usize) -> Ahead {
        let largest = most / DEPTH;
        Ahead {
            largest,
            size: FIRST_WINDOW.min(largest),
            window: None,
            next: VecDeque::new(),
            follows: 0,
        }
    }

    /// For a read of `length` bytes at `from` in a file of `end` bytes.
    pub(super) fn step(&mut self, from: u64, length: usize, end: u64) -> Step {
        let kept = self.window.as_ref().and_then(|w| w.get(from, length));
        if let Some(bytes) = kept {
            self.follows = from + length_of(bytes.len());
            let then = self.behind(end);
            return Step::Have { bytes, then };
        }
        let coming = |next: &Next| (next.from..next.to).contains(&from);
        if let Some(index) = self.next.iter().position(coming) {
            for skipped in self.next.drain(..index) {
                skipped.task.abort();
            }
            if let Some(next) = self.next.pop_front() {
                return Step::Await(next);
            }
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

    /// What to fetch behind what is here or coming: the next window once half of this one was read, and several as soon as windows
    /// have their full length.
    fn behind(&mut self, end: u64) -> Vec<(u64, u64)> {
        let Some(window) = &self.window else {
            return Vec::new();
        };
        let growing = self.size < self.largest;
        let half = window.start + (window.end() - window.start) / 2;
        let depth = if growing { 1 } else { DEPTH };
        let mut at = self.next.back().map_or(window.end(), |next| next.to);
        let mut then = Vec::new();
        if growing && self.follows < half {
            return then;
        }
        while self.next.len() + then.len() < depth && at < end {
            self.size = self.size.saturating_mul(2).min(self.largest);
            let to = self.edge(at).min(end);
            then.push((at, to));
            at = to;
        }
        then
    }

    /// Where a window that begins at an offset ends: at a multiple of its length, so that it seldom crosses the end of a chunk.
    fn edge(&self, from: u64) -> u64 {
        let size = length_of(self.size).max(1);
        let to = from.saturating_add(size);
        let even = to - to % size;
        if even > from { even } else { to }
    }

    /// Keeps bytes for the next reads.
    pub(super) fn put(&mut self, window: Window) {
        if self
            .next
            .front()
            .is_some_and(|next| next.from != window.end())
        {
            self.give_up();
        }
        self.window = Some(window);
    }

    /// Bytes are on their way.
    pub(super) fn expect(&mut self, next: Next) {
        self.next.push_back(next);
    }

    pub(super) fn clear(&mut self) {
        self.window = None;
        self.give_up();
    }

    fn give_up(&mut self) {
        for next in self.next.drain(..) {
            next.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 100 << 20;

    fn window(from: u64, lengths: &[usize]) -> Ahead {
        let mut ahead = Ahead::new(4 << 20);
        ahead.put(Window::new(
            from,
            lengths
                .iter()
                .map(|length| Bytes::from(vec![7; *length]))
                .collect(),
        ));
        ahead
    }

    fn coming(runtime: &tokio::runtime::Runtime, (from, to): (u64, u64)) -> Next {
        Next {
            from,
            to,
            task: runtime.spawn(std::future::pending()),
        }
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
    fn what_is_kept_is_served_piece_by_piece_and_the_next_window_fetched_from_its_half_on() {
        let mut ahead = window(100, &[400, 600]);
        let Step::Have { bytes, then } = ahead.step(150, 200, END) else {
            panic!("it is kept");
        };
        assert_eq!((bytes.len(), then), (200, vec![]));
        let Step::Have { bytes, then } = ahead.step(450, 500, END) else {
            panic!("it is kept");
        };
        assert_eq!((bytes.len(), then), (50, vec![]));
        let Step::Have { bytes, then } = ahead.step(900, 500, END) else {
            panic!("it is kept");
        };
        assert_eq!(bytes.len(), 200);
        assert_eq!(then, [(1100, 2 * length_of(FIRST_WINDOW))]);
        assert!(matches!(ahead.step(1100, 1, END), Step::Fetch { .. }));
        assert!(matches!(ahead.step(99, 1, END), Step::Fetch { .. }));
    }

    #[test]
    fn windows_grow_to_the_largest_and_shrink_after_a_jump() {
        let mut ahead = window(0, &[1000]);
        ahead.largest = 3 * FIRST_WINDOW;
        let behind = |ahead: &mut Ahead| match ahead.step(900, 50, END) {
            Step::Have { then, .. } => then,
            other => panic!("{other:?}"),
        };
        let first = length_of(FIRST_WINDOW);
        assert_eq!(behind(&mut ahead), [(1000, 2 * first)]);
        assert_eq!(behind(&mut ahead), [(1000, 3 * first)]);
        assert_eq!(
            behind(&mut ahead),
            [(1000, 3 * first), (3 * first, 6 * first)]
        );
        ahead.step(5000, 1, END);
        assert_eq!(ahead.size, FIRST_WINDOW);
    }

    #[test]
    fn several_windows_are_under_way_and_those_that_a_reader_skips_are_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut ahead = window(0, &[1000]);
        ahead.size = ahead.largest;
        let Step::Have { then, .. } = ahead.step(0, 10, END) else {
            panic!("it is kept");
        };
        assert_eq!(then, [(1000, 2 << 20), (2 << 20, 4 << 20)]);
        for range in then {
            ahead.expect(coming(&runtime, range));
        }
        let Step::Have { then, .. } = ahead.step(10, 10, END) else {
            panic!("it is kept");
        };
        assert!(then.is_empty(), "enough is under way");
        let Step::Await(next) = ahead.step(3 << 20, 10, END) else {
            panic!("it is coming");
        };
        assert_eq!(next.from, 2 << 20);
        assert!(ahead.next.is_empty());
        // What does not follow a window that is put is of no use.
        ahead.expect(coming(&runtime, (4 << 20, 6 << 20)));
        ahead.put(Window::new(0, vec![Bytes::from_static(b"x")]));
        assert!(ahead.next.is_empty());
    }
}
