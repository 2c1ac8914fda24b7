//! An input read as a list of changes to bytes that were good: so that most executions come behind the first checksum.

/// Reads numbers off the front of an input; zeros behind its end.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    pub(crate) fn number(&mut self) -> usize {
        let taken = self.take(2);
        taken
            .iter()
            .fold(0, |number, &byte| number << 8 | usize::from(byte))
    }
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Bytes were changed in place.
    Changed,
    /// The end was cut off, or bytes were added behind it.
    End,
    /// Bytes inside were added or removed.
    Shifted,
}

/// Applies the next change of `input` to `bytes`.
pub(crate) fn patch(input: &mut Input<'_>, bytes: &mut Vec<u8>) -> Change {
    let (kind, at, with) = (input.byte(), input.number(), input.byte());
    let at = if bytes.is_empty() {
        0
    } else {
        at % bytes.len()
    };
    match kind % 8 {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= with.max(1);
            }
            Change::Changed
        }
        2 => {
            bytes.truncate(at);
            Change::End
        }
        3 => {
            let end = at.saturating_add(usize::from(with)).min(bytes.len());
            bytes[at..end].fill(0);
            Change::Changed
        }
        4 => {
            let more = input.take(usize::from(with));
            bytes.extend_from_slice(more);
            Change::End
        }
        5 => {
            let more = input.take(usize::from(with));
            bytes.splice(at..at, more.iter().copied());
            Change::Shifted
        }
        6 => {
            let end = at.saturating_add(usize::from(with)).min(bytes.len());
            bytes.drain(at..end);
            Change::Shifted
        }
        _ => {
            let more = input.take(usize::from(with));
            for (byte, &new) in bytes.iter_mut().skip(at).zip(more) {
                *byte = new;
            }
            Change::Changed
        }
    }
}

/// The inverse for seeds: an input of one change.
pub(crate) fn one(kind: u8, at: u16, with: u8, more: &[u8]) -> Vec<u8> {
    let [high, low] = at.to_be_bytes();
    let mut input = vec![kind, high, low, with];
    input.extend_from_slice(more);
    input
}
