//! The memory of chunks: filled a piece at a time, lent out as [`Bytes`], and taken back when nobody needs it any more, because
//! fresh memory costs a page fault for every 4 KiB, which is more than filling it costs.

use bytes::{Bytes, BytesMut};

/// Bytes that fill the next chunk.
#[derive(Debug)]
pub(super) struct Chunks {
    /// Bytes of a whole chunk.
    size: usize,
    /// Holds the bytes of the next chunk up to `filled`, and something older behind them.
    buffer: BytesMut,
    filled: usize,
    /// A chunk was filled: the next ones will be.
    whole: bool,
    spare: Vec<BytesMut>,
    most_spare: usize,
}

impl Chunks {
    /// Of `size` bytes each, keeping at most `most_spare` for use again.
    pub(super) fn new(size: usize, most_spare: usize) -> Chunks {
        Chunks {
            size,
            buffer: BytesMut::new(),
            filled: 0,
            whole: false,
            spare: Vec::new(),
            most_spare,
        }
    }

    /// Bytes in the next chunk.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    pub(super) fn is_whole(&self) -> bool {
        self.filled == self.size
    }

    /// Memory for the next bytes, at most `length` and what a chunk still takes. They count after [`Chunks::advance`].
    pub(super) fn space(&mut self, length: usize) -> &mut [u8] {
        let end = self.filled + length.min(self.size - self.filled);
        if self.buffer.len() < end {
            match self.spare.pop() {
                Some(spare) if self.filled == 0 => self.buffer = spare,
                _ if self.whole => self.buffer.resize(self.size, 0),
                _ => self.buffer.resize(end, 0),
            }
        }
        self.buffer.get_mut(self.filled..end).unwrap_or_default()
    }

    /// The first `length` bytes of the space were filled.
    pub(super) fn advance(&mut self, length: usize) {
        self.filled = (self.filled + length).min(self.buffer.len());
    }

    /// The bytes so far as a chunk of their own.
    pub(super) fn cut(&mut self) -> Option<Bytes> {
        if self.filled == 0 {
            return None;
        }
        self.whole |= self.is_whole();
        let mut chunk = std::mem::take(&mut self.buffer);
        if chunk.capacity() / 2 > self.filled {
            // Little of much: the rest goes on.
            self.buffer = chunk.split_off(self.filled);
        } else {
            chunk.truncate(self.filled);
        }
        self.filled = 0;
        Some(chunk.freeze())
    }

    /// Takes back a chunk that is not needed any more.
    pub(super) fn give_back(&mut self, chunk: Bytes) {
        if chunk.len() == self.size
            && self.spare.len() < self.most_spare
            && let Ok(chunk) = chunk.try_into_mut()
        {
            self.spare.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(chunks: &mut Chunks, bytes: &[u8]) -> usize {
        let space = chunks.space(bytes.len());
        let count = space.len();
        space.copy_from_slice(&bytes[..count]);
        chunks.advance(count);
        count
    }

    #[test]
    fn chunks_hold_what_was_filled_in_and_are_as_long_as_that() {
        let mut chunks = Chunks::new(8, 2);
        assert!(chunks.cut().is_none());
        assert_eq!(put(&mut chunks, b"abc"), 3);
        assert_eq!(chunks.filled(), 3);
        assert_eq!(put(&mut chunks, b"defghij"), 5);
        assert!(chunks.is_whole());
        assert!(chunks.space(1).is_empty());
        let first = chunks.cut().unwrap();
        assert_eq!(put(&mut chunks, b"xyz"), 3);
        let second = chunks.cut().unwrap();
        assert_eq!((&first[..], &second[..]), (&b"abcdefgh"[..], &b"xyz"[..]));
        assert_eq!(chunks.filled(), 0);
    }

    #[test]
    fn memory_that_is_given_back_is_used_again_and_a_shared_chunk_is_left_alone() {
        let mut chunks = Chunks::new(4096, 1);
        put(&mut chunks, &[1; 4096]);
        let lent = chunks.cut().unwrap();
        let (place, other) = (lent.as_ptr(), lent.clone());
        chunks.give_back(lent);
        assert!(chunks.spare.is_empty(), "somebody else still reads it");
        chunks.give_back(other);
        assert_eq!(chunks.spare.len(), 1);
        put(&mut chunks, &[2; 100]);
        assert_eq!(chunks.buffer.as_ptr(), place);
        // Short chunks out of it are right, too, and no more are kept than allowed.
        let short = chunks.cut().unwrap();
        assert_eq!(&short[..], &[2; 100]);
        put(&mut chunks, &[3; 4096]);
        let next = chunks.cut().unwrap();
        assert_eq!(&next[..], &[3; 4096]);
        assert_eq!(&short[..], &[2; 100]);
        chunks.spare.push(BytesMut::new());
        chunks.give_back(next);
        assert_eq!(chunks.spare.len(), 1);
    }
}
