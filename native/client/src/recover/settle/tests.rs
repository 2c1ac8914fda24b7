//! Settlements of writers that were made up: every byte of a file is known by its offset, so that a byte that stands twice or is
//! missing shows.

use super::*;
use proptest::prelude::*;

fn settled(start: u64, length: u64) -> Candidate {
    Candidate {
        published: None,
        found: Found::Settled {
            start: Some(start),
            length,
        },
    }
}

fn shown(published: u64, found: Found) -> Candidate {
    Candidate {
        published: Some(published),
        found,
    }
}

const ABSENT: Candidate = Candidate {
    published: None,
    found: Found::Absent,
};

const UNKNOWN: Candidate = Candidate {
    published: None,
    found: Found::Unknown,
};

fn kept(floor: u64, blocks: &[Candidate]) -> (Vec<(usize, u64)>, u64) {
    let settlement = settle(floor, blocks).unwrap();
    let kept = settlement
        .kept
        .iter()
        .map(|k| (k.index, k.length))
        .collect();
    (kept, settlement.length)
}

#[test]
fn nothing_was_written_or_given() {
    assert_eq!(kept(100, &[]), (vec![], 100));
    assert_eq!(kept(0, &[ABSENT, ABSENT]), (vec![], 0));
    assert_eq!(kept(100, &[settled(100, 0)]), (vec![], 100));
}

#[test]
fn blocks_that_follow_each_other_all_stay() {
    let blocks = [settled(100, 10), ABSENT, settled(110, 5), settled(115, 1)];
    assert_eq!(kept(100, &blocks), (vec![(0, 10), (2, 5), (3, 1)], 116));
}

#[test]
fn a_block_is_cut_where_the_next_begins() {
    // The writer had heard of 7 bytes of the first when it failed.
    let blocks = [settled(100, 10), settled(107, 5)];
    assert_eq!(kept(100, &blocks), (vec![(0, 7), (1, 5)], 112));
    // Of none: the first goes wholly.
    let blocks = [settled(100, 10), settled(100, 3)];
    assert_eq!(kept(100, &blocks), (vec![(1, 3)], 103));
    // Two failures in a row at one place.
    let blocks = [
        settled(100, 10),
        settled(107, 9),
        settled(107, 2),
        settled(109, 1),
    ];
    assert_eq!(kept(100, &blocks), (vec![(0, 7), (2, 2), (3, 1)], 110));
}

#[test]
fn behind_a_hole_nothing_stays() {
    let blocks = [settled(100, 10), settled(111, 5), settled(110, 5)];
    assert_eq!(kept(100, &blocks), (vec![(0, 10)], 110));
    assert_eq!(kept(100, &[settled(101, 10)]), (vec![], 100));
}

#[test]
fn an_unknown_block_ends_what_is_kept() {
    let blocks = [settled(100, 10), UNKNOWN, settled(110, 5)];
    assert_eq!(kept(100, &blocks), (vec![(0, 10)], 110));
    let unmarked = Candidate {
        published: None,
        found: Found::Settled {
            start: None,
            length: 4,
        },
    };
    assert_eq!(kept(100, &[unmarked, settled(100, 5)]), (vec![], 100));
}

#[test]
fn what_was_published_stays_whatever_the_datanodes_say() {
    for found in [
        Found::Absent,
        Found::Unknown,
        Found::Settled {
            start: Some(90),
            length: 3,
        },
        Found::Settled {
            start: Some(50),
            length: 900,
        },
        Found::Settled {
            start: None,
            length: 900,
        },
    ] {
        let (blocks, length) = kept(100, &[shown(10, found), settled(100, 1)]);
        assert_eq!((blocks, length), (vec![(0, 10), (1, 1)], 101), "{found:?}");
    }
    // A block that begins below the floor failed before, and what came later counts.
    let blocks = [shown(10, Found::Absent), settled(95, 9), settled(100, 2)];
    assert_eq!(kept(100, &blocks), (vec![(0, 10), (2, 2)], 102));
}

#[test]
fn the_last_published_block_keeps_what_came_after_the_publication() {
    let grown = Found::Settled {
        start: Some(90),
        length: 15,
    };
    assert_eq!(kept(100, &[shown(10, grown)]), (vec![(0, 15)], 105));
    assert_eq!(
        kept(100, &[shown(10, grown), settled(103, 4)]),
        (vec![(0, 13), (1, 4)], 107)
    );
    // One that failed before and was never published is no part of it.
    assert_eq!(
        kept(100, &[settled(90, 3), shown(10, grown)]),
        (vec![(1, 15)], 105)
    );
}

#[test]
fn a_server_that_contradicts_itself_is_not_followed() {
    assert_eq!(settle(9, &[shown(10, Found::Absent)]), None);
    assert_eq!(
        settle(
            u64::MAX,
            &[shown(u64::MAX, Found::Absent), shown(1, Found::Absent)]
        ),
        None
    );
    let far = [settled(100, 10), settled(105, u64::MAX)];
    assert_eq!(kept(100, &far), (vec![(0, 10)], 110));
}

/// A step of a made-up writer.
#[derive(Debug, Clone)]
enum Step {
    /// Bytes go to the block and are committed there; the writer hears of it, or not.
    Write { bytes: u64, heard: bool },
    /// The block fails: what was not heard of is sent again, into another block.
    Fail,
    /// Everything that was heard of is published.
    Sync,
    /// A block is asked for and never written to.
    Waste,
}

#[derive(Debug, Clone, Default)]
struct Block {
    start: u64,
    committed: u64,
    heard: u64,
    written: bool,
    published: Option<u64>,
}

/// What a writer does that begins at `prefix`.
struct Writer {
    blocks: Vec<Block>,
    open: bool,
    heard: u64,
    floor: u64,
}

impl Writer {
    fn run(prefix: u64, steps: &[Step]) -> Writer {
        let mut writer = Writer {
            blocks: Vec::new(),
            open: false,
            heard: prefix,
            floor: prefix,
        };
        for step in steps {
            writer.step(step);
        }
        writer
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { bytes, heard } => {
                if !self.open {
                    self.open = true;
                    self.blocks.push(Block {
                        start: self.heard,
                        written: true,
                        ..Block::default()
                    });
                }
                let block = self.blocks.iter_mut().rfind(|b| b.written).unwrap();
                block.committed += bytes;
                if heard {
                    block.heard = block.committed;
                    self.heard = block.start + block.heard;
                }
            }
            Step::Fail => self.open = false,
            Step::Waste => {
                if !self.open {
                    self.blocks.push(Block::default());
                }
            }
            Step::Sync => {
                for block in self.blocks.iter_mut().filter(|b| b.heard > 0) {
                    block.published = Some(block.heard);
                }
                self.floor = self.heard;
            }
        }
    }

    /// As the server lists it.
    fn candidates(&self, lost: &[bool]) -> Vec<Candidate> {
        let blocks = self.blocks.iter().enumerate();
        blocks
            .map(|(index, block)| Candidate {
                published: block.published,
                found: if lost.get(index).copied().unwrap_or(false) {
                    Found::Unknown
                } else if block.committed == 0 {
                    Found::Absent
                } else {
                    Found::Settled {
                        start: Some(block.start),
                        length: block.committed,
                    }
                },
            })
            .collect()
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..20_u64, any::<bool>()).prop_map(|(bytes, heard)| Step::Write { bytes, heard }),
        2 => Just(Step::Fail),
        1 => Just(Step::Sync),
        1 => Just(Step::Waste),
    ]
}

/// The blocks that stay follow each other without a gap from where the first listed published one begins, and within their
/// committed lengths.
fn check_whole(writer: &Writer, candidates: &[Candidate], settlement: &Settlement) {
    let shown: u64 = candidates.iter().filter_map(|c| c.published).sum();
    let mut at = writer.floor - shown;
    let mut before = None;
    for kept in &settlement.kept {
        let block = &writer.blocks[kept.index];
        assert!(before < Some(kept.index), "out of order");
        before = Some(kept.index);
        assert_eq!(block.start, at, "a byte twice, or a hole");
        assert!(kept.length > 0);
        assert!(kept.length <= block.committed, "bytes that are not there");
        assert!(kept.length >= block.published.unwrap_or(0));
        at += kept.length;
    }
    assert_eq!(at, settlement.length);
    assert!(settlement.length >= writer.floor, "below the floor");
    for (index, candidate) in candidates.iter().enumerate() {
        let stays = settlement.kept.iter().any(|kept| kept.index == index);
        assert!(stays || candidate.published.is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_byte_stands_twice_and_none_that_was_heard_of_is_missing(
        prefix in 0..1000_u64,
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let writer = Writer::run(prefix, &steps);
        let candidates = writer.candidates(&[]);
        let settlement = settle(writer.floor, &candidates).unwrap();
        check_whole(&writer, &candidates, &settlement);
        prop_assert!(settlement.length >= writer.heard);
    }

    #[test]
    fn blocks_that_nobody_can_ask_cost_only_what_was_not_published(
        prefix in 0..1000_u64,
        steps in proptest::collection::vec(step(), 0..40),
        lost in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let writer = Writer::run(prefix, &steps);
        let candidates = writer.candidates(&lost);
        let settlement = settle(writer.floor, &candidates).unwrap();
        check_whole(&writer, &candidates, &settlement);
    }

    #[test]
    fn only_the_blocks_from_the_last_published_on_need_be_listed(
        prefix in 0..1000_u64,
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let writer = Writer::run(prefix, &steps);
        let all = writer.candidates(&[]);
        let from = all.iter().rposition(|c| c.published.is_some()).unwrap_or(0);
        let whole = settle(writer.floor, &all).unwrap();
        let tail = settle(writer.floor, &all[from..]).unwrap();
        prop_assert_eq!(whole.length, tail.length);
        let whole: Vec<_> = whole.kept.iter().filter(|k| k.index >= from).map(|k| (k.index - from, k.length)).collect();
        let tail: Vec<_> = tail.kept.iter().map(|k| (k.index, k.length)).collect();
        prop_assert_eq!(whole, tail);
    }

    /// The server names the last published block first and then all that were not, those that failed before it among them.
    #[test]
    fn blocks_that_failed_before_the_last_published_one_change_nothing(
        prefix in 0..1000_u64,
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let writer = Writer::run(prefix, &steps);
        let all = writer.candidates(&[]);
        let whole = settle(writer.floor, &all).unwrap();
        let last = all.iter().rposition(|c| c.published.is_some());
        let listed: Vec<_> = last
            .into_iter()
            .chain((0..all.len()).filter(|i| all[*i].published.is_none()))
            .collect();
        let candidates: Vec<_> = listed.iter().map(|i| all[*i]).collect();
        let told = settle(writer.floor, &candidates).unwrap();
        prop_assert_eq!(whole.length, told.length);
        let from = last.unwrap_or(0);
        let whole: Vec<_> = whole.kept.iter().filter(|k| k.index >= from).map(|k| (k.index, k.length)).collect();
        let told: Vec<_> = told.kept.iter().map(|k| (listed[k.index], k.length)).collect();
        prop_assert_eq!(whole, told);
    }

    #[test]
    fn whatever_datanodes_say_the_floor_stands(
        floor in 0..1000_u64,
        blocks in proptest::collection::vec(
            (proptest::option::of(1..50_u64), proptest::option::of((proptest::option::of(0..1200_u64), 0..100_u64))),
            0..8,
        ),
    ) {
        let candidates: Vec<_> = blocks
            .into_iter()
            .map(|(published, told)| Candidate {
                published,
                found: told.map_or(Found::Absent, |(start, length)| Found::Settled { start, length }),
            })
            .collect();
        if let Some(settlement) = settle(floor, &candidates) {
            prop_assert!(settlement.length >= floor);
            let shown: u64 = candidates.iter().filter_map(|c| c.published).sum();
            let sum: u64 = settlement.kept.iter().map(|k| k.length).sum();
            prop_assert_eq!(floor - shown + sum, settlement.length);
        }
    }
}
