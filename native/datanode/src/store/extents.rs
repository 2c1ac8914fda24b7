//! Where the bytes of one block lie: sorted, non-overlapping extents in container files. A later write
//! over an uncommitted range replaces what was there. Pure data, no I/O.

/// A run of block bytes in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First byte, counted from the block's start.
    pub(crate) start: u64,
    /// Length in bytes.
    pub(crate) len: u32,
    /// Container file of the record.
    pub(crate) file: u32,
    /// Where the record begins.
    pub(crate) record: u64,
    /// Bytes of the record's payload before this run.
    pub(crate) skip: u32,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// The part of this extent inside `from..to`, if any.
    pub(crate) fn cut(&self, from: u64, to: u64) -> Option<Self> {
        let start = self.start.max(from);
        let end = self.end().min(to);
        if start >= end {
            return None;
        }
        let skipped = u32::try_from(start - self.start).ok()?;
        Some(Self {
            start,
            len: u32::try_from(end - start).ok()?,
            skip: self.skip.checked_add(skipped)?,
            ..*self
        })
    }
}

/// All extents of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents(Vec<Extent>);

impl Extents {
    /// Puts `new` in, over whatever it overlaps.
    pub(crate) fn put(&mut self, new: Extent) {
        if self.0.last().is_none_or(|last| last.end() <= new.start) {
            super::block::push(&mut self.0, new);
            return;
        }
        let from = self.0.partition_point(|e| e.end() <= new.start);
        let to = self.0.partition_point(|e| e.start < new.end());
        let mut between = Vec::with_capacity(3);
        if from < to {
            between.extend(self.0[from].cut(0, new.start));
        }
        between.push(new);
        if from < to {
            between.extend(self.0[to - 1].cut(new.end(), u64::MAX));
        }
        self.0.splice(from..to.max(from), between);
    }

    /// The extents inside `from..to`, cut at its ends.
    pub(crate) fn range(&self, from: u64, to: u64) -> Vec<Extent> {
        let first = self.0.partition_point(|e| e.end() <= from);
        self.0[first..]
            .iter()
            .take_while(|e| e.start < to)
            .filter_map(|e| e.cut(from, to))
            .collect()
    }

    /// The first byte of `from..to` that no extent holds.
    pub(crate) fn first_gap(&self, from: u64, to: u64) -> Option<u64> {
        let first = self.0.partition_point(|e| e.end() <= from);
        first_gap(&self.0[first..], from, to)
    }

    /// One behind the last byte that any extent holds.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, Extent::end)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}

/// The first byte of `from..to` that none of the sorted `extents` holds.
pub(crate) fn first_gap(extents: &[Extent], from: u64, to: u64) -> Option<u64> {
    let mut at = from;
    for e in extents {
        if at >= to || e.start > at {
            break;
        }
        at = at.max(e.end());
    }
    (at < to).then_some(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(start: u64, len: u32, record: u64) -> Extent {
        Extent {
            start,
            len,
            file: 1,
            record,
            skip: 0,
        }
    }

    proptest! {
        // The reference: for each byte, which write put it there and at which place of that write.
        #[test]
        fn later_writes_win_byte_by_byte(
            writes in prop::collection::vec((0u64..60, 1u32..20), 1..30),
            from in 0u64..80, len in 0u64..80,
        ) {
            let mut plain = vec![None; 100];
            let mut extents = Extents::default();
            for (n, (start, len)) in writes.into_iter().enumerate() {
                let record = u64::try_from(n).unwrap();
                extents.put(extent(start, len, record));
                for i in 0..len {
                    plain[usize::try_from(start).unwrap() + usize::try_from(i).unwrap()] = Some((record, i));
                }
            }
            let mut seen = vec![None; 100];
            let all = extents.range(0, 100);
            for pair in all.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].start);
            }
            for e in &all {
                for i in 0..e.len {
                    seen[usize::try_from(e.start).unwrap() + usize::try_from(i).unwrap()] = Some((e.record, e.skip + i));
                }
            }
            prop_assert_eq!(&seen, &plain);
            let to = (from + len).min(100);
            let gap = (from..to).find(|&i| plain[usize::try_from(i).unwrap()].is_none());
            prop_assert_eq!(extents.first_gap(from, to), gap);
            let cut: u64 = extents.range(from, to).iter().map(|e| u64::from(e.len)).sum();
            let held = (from..to).filter(|&i| plain[usize::try_from(i).unwrap()].is_some()).count();
            prop_assert_eq!(cut, u64::try_from(held).unwrap());
        }
    }
}
