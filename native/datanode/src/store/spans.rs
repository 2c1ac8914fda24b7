//! Neighbouring bytes of container files, brought by one reading: small blocks that lie behind each other cost one system call
//! together instead of two each. Nothing is verified here, and what is missing here is read one by one by its reader.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::files::{ContainerFile, Files};
use super::num::{to_u64, to_usize};

/// Bytes between two wanted ranges that are read rather than skipped: about what a system call costs.
const GAP: u64 = 8 << 10;

/// Longest span.
const LONGEST: u64 = 8 << 20;

/// Bytes in all spans of one reading, gaps included, whatever a client asks for; what is beyond is read one by one.
const MOST: u64 = 16 << 20;

/// Bytes of a container file that will be wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wanted {
    pub(crate) file: u32,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl Wanted {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }
}

struct Span {
    file: Arc<ContainerFile>,
    start: u64,
    bytes: Bytes,
}

/// Runs of container files in memory, in order.
#[derive(Default)]
pub(crate) struct Spans(Vec<Span>);

impl Spans {
    /// Reads what is wanted. A run that cannot be read is left out: whoever needs it learns why.
    pub(crate) fn read(files: &Files, wanted: Vec<Wanted>) -> Self {
        let runs = runs(wanted);
        Self(
            runs.into_iter()
                .filter_map(|run| {
                    let file = files.get(run.file).ok()?;
                    let mut bytes = BytesMut::zeroed(to_usize(run.len));
                    files.read(run.file, run.at, &mut bytes).ok()?;
                    Some(Span {
                        file,
                        start: run.at,
                        bytes: bytes.freeze(),
                    })
                })
                .collect(),
        )
    }

    /// The bytes at `at` of file `number`, if all of them are here, and the file.
    pub(crate) fn get(
        &self,
        number: u32,
        at: u64,
        len: usize,
    ) -> Option<(&Arc<ContainerFile>, Bytes)> {
        let behind = self
            .0
            .partition_point(|span| (span.file.number, span.start) <= (number, at));
        let span = self.0.get(behind.checked_sub(1)?)?;
        // The last one before may lie in an earlier file, and begin at any place of it.
        if span.file.number != number {
            return None;
        }
        let from = to_usize(at.checked_sub(span.start)?);
        let to = from.checked_add(len)?;
        (to <= span.bytes.len()).then(|| (&span.file, span.bytes.slice(from..to)))
    }

    /// Fills `out` with the bytes at `at` of file `number`, from here or from the file.
    pub(crate) fn fill(
        &self,
        files: &Files,
        number: u32,
        at: u64,
        out: &mut [u8],
    ) -> std::io::Result<()> {
        match self.get(number, at, out.len()) {
            Some((_, bytes)) => {
                out.copy_from_slice(&bytes);
                Ok(())
            }
            None => files.read(number, at, out),
        }
    }
}

/// Sorted runs that hold `wanted`, as far as they go; a range that stands alone is no run, for it is read as cheaply by its reader.
fn runs(mut wanted: Vec<Wanted>) -> Vec<Wanted> {
    wanted.sort_unstable();
    let mut runs: Vec<(Wanted, usize)> = Vec::new();
    for next in wanted {
        match runs.last_mut() {
            Some((run, parts))
                if run.file == next.file
                    && next.at <= run.end().saturating_add(GAP)
                    && next.end().saturating_sub(run.at) <= LONGEST =>
            {
                run.len = run.end().max(next.end()) - run.at;
                *parts += 1;
            }
            _ => runs.push((next, 1)),
        }
    }
    let mut left = MOST;
    runs.into_iter()
        .filter(|(run, parts)| *parts > 1 && run.len > 0)
        .map(|(run, _)| run)
        .take_while(|run| {
            let fits = run.len <= left;
            left = left.saturating_sub(run.len);
            fits
        })
        .collect()
}

/// The range of a record or of a part of its payload.
pub(crate) fn wanted(file: u32, at: u64, len: usize) -> Wanted {
    Wanted {
        file,
        at,
        len: to_u64(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together_and_what_is_far_away_is_not() {
        let near = [wanted(1, 100, 50), wanted(1, 150, 50), wanted(1, 4000, 10)];
        assert_eq!(runs(near.to_vec()), [wanted(1, 100, 3910)]);
        let mut mixed = near.to_vec();
        mixed.extend([wanted(2, 200, 8), wanted(1, 1 << 20, 8), wanted(2, 0, 8)]);
        assert_eq!(runs(mixed), [wanted(1, 100, 3910), wanted(2, 0, 208)]);
        assert!(runs(vec![wanted(1, 0, 10), wanted(1, 1 << 20, 10)]).is_empty());
        // Bytes within bytes do not shorten a run.
        let nested = vec![wanted(1, 0, 100), wanted(1, 10, 5)];
        assert_eq!(runs(nested), [wanted(1, 0, 100)]);
    }

    #[test]
    fn bytes_in_front_of_every_span_of_their_file_are_not_here() {
        let span = |number, start| Span {
            file: Arc::new(ContainerFile {
                number,
                nonce: 0,
                path: std::path::PathBuf::new(),
                file: tempfile::tempfile().unwrap(),
            }),
            start,
            bytes: Bytes::from_static(&[0; 100]),
        };
        let spans = Spans(vec![span(1, 5000), span(2, 4000), span(4, 300)]);
        let has = |number, at| spans.get(number, at, 10).is_some();
        assert!(has(1, 5000) && has(2, 4090) && has(4, 350));
        for (number, at) in [
            (1, 0),
            (1, 5095),
            (2, 0),
            (2, 3999),
            (3, 0),
            (3, 9000),
            (4, 0),
            (5, 0),
        ] {
            assert!(!has(number, at), "{at} of file {number}");
        }
    }

    #[test]
    fn no_run_is_longer_than_the_limit_and_all_together_are_not_longer_than_theirs() {
        let all = |count: u64| (0..count).map(|i| wanted(1, i << 18, 1 << 18)).collect();
        let some: Vec<Wanted> = runs(all(48));
        assert!(some.len() > 1);
        assert!(some.iter().all(|run| run.len <= LONGEST));
        assert_eq!(some.iter().map(|run| run.len).sum::<u64>(), 48 << 18);
        let most: u64 = runs(all(1000)).iter().map(|run| run.len).sum();
        assert!(most > MOST / 2 && most <= MOST, "{most}");
        // Ranges of a byte each, as far apart as is just read.
        let thin = (0..100_000).map(|i| wanted(1, i * GAP, 1)).collect();
        assert!(runs(thin).iter().map(|run| run.len).sum::<u64>() <= MOST);
    }
}
