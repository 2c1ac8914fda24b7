//! Linearizability of the names of one folder: is there an order of all operations, each at one moment between its begin and its end, that
//! a plain map from names to objects explains? Searched as Wing and Gong do, remembering what was tried; an operation whose outcome nobody
//! knows may have taken effect at any time from its begin on, or never.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::history::{Call, Done, Found, NEVER, Operation};

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Object {
    Known(u64),
    /// Made by an operation that did not say what it made.
    Somebody(usize),
}

type Names = BTreeMap<String, Object>;

/// Steps of the search after which it is given up.
const MOST_STEPS: usize = 3_000_000;

/// How the search ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Linearizable,
    /// No order explains it; the operations that the longest explained beginning ends before.
    Not(Vec<String>),
    /// The search was too long.
    GivenUp,
}

struct Search<'a> {
    operations: &'a [&'a Operation],
    /// Where the search was: a hash of which operations were done and what the names were then.
    tried: HashSet<u128>,
    hashers: [RandomState; 2],
    best: usize,
    stuck: Vec<usize>,
    steps: usize,
}

/// Whether `operation` says anything of names.
fn matters(operation: &Operation) -> bool {
    match &operation.call {
        Call::Open { .. } => true,
        Call::Read { found, .. } => *found != Found::Unknown,
        Call::Rename { done, .. } | Call::Delete { done, .. } => *done != Done::No,
        Call::Sync { .. } | Call::Recover => false,
    }
}

/// Whether it may also have had no effect at all.
fn optional(operation: &Operation) -> bool {
    match &operation.call {
        Call::Open { opened, .. } => opened.is_none(),
        Call::Rename { done, .. } | Call::Delete { done, .. } => *done == Done::Unknown,
        _ => false,
    }
}

fn end_of(operation: &Operation) -> u64 {
    if optional(operation) {
        NEVER
    } else {
        operation.end
    }
}

/// What an operation of unknown outcome would do: its kind and its names.
fn effect(operation: &Operation) -> (u8, &str, &str) {
    match &operation.call {
        Call::Open { path, .. } => (0, path, ""),
        Call::Rename { from, to, .. } => (1, from, to),
        Call::Delete { path, .. } => (2, path, ""),
        Call::Read { path, .. } => (3, path, ""),
        Call::Sync { .. } | Call::Recover => (4, "", ""),
    }
}

/// Checks the operations on one folder, which began without a file.
pub(crate) fn check(operations: &[&Operation]) -> Verdict {
    let mut operations: Vec<&Operation> = operations
        .iter()
        .copied()
        .filter(|operation| matters(operation))
        .collect();
    operations.sort_by_key(|operation| operation.begin);
    let mut search = Search {
        operations: &operations,
        tried: HashSet::new(),
        hashers: [RandomState::new(), RandomState::new()],
        best: 0,
        stuck: Vec::new(),
        steps: 0,
    };
    search.run()
}

impl Search<'_> {
    fn run(&mut self) -> Verdict {
        let count = self.operations.len();
        let words = count.div_ceil(64);
        // Each frame: what is done, the names, and the candidates that are left to try.
        let mut frames = vec![(vec![0_u64; words], Names::new(), None::<Vec<usize>>)];
        while let Some((done, names, left)) = frames.last_mut() {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                eprintln!(
                    "of {count} operations {} were explained, then none of",
                    self.best
                );
                eprintln!("{}", self.next_ones().join("\n"));
                return Verdict::GivenUp;
            }
            let left = match left {
                Some(left) => left,
                None => {
                    let (candidates, certain) = self.candidates(done);
                    if certain == 0 {
                        return Verdict::Linearizable;
                    }
                    let explained: usize = done.iter().map(|word| word.count_ones() as usize).sum();
                    if explained >= self.best {
                        self.best = explained;
                        self.stuck.clone_from(&candidates);
                    }
                    left.insert(candidates)
                }
            };
            let Some(next) = left.pop() else {
                frames.pop();
                continue;
            };
            let Some(after) = step(names, next, self.operations[next]) else {
                continue;
            };
            // What may be left out and would change nothing is better left: it can still come later.
            if optional(self.operations[next]) && after == *names {
                continue;
            }
            let mut done = done.clone();
            done[next / 64] |= 1 << (next % 64);
            let [high, low] = self
                .hashers
                .each_ref()
                .map(|hasher| u128::from(hasher.hash_one((&done, &after))));
            if self.tried.insert(high << 64 | low) {
                frames.push((done, after, None));
            }
        }
        Verdict::Not(self.next_ones())
    }

    fn next_ones(&self) -> Vec<String> {
        let stuck = self.stuck.iter();
        stuck
            .map(|at| format!("{:?}", self.operations[*at]))
            .collect()
    }

    /// Which operations may come next, those tried last first, and how many of them must come at all.
    fn candidates(&self, done: &[u64]) -> (Vec<usize>, usize) {
        let mut found = Vec::new();
        let (mut first_end, mut certain) = (NEVER, 0);
        let mut at = 0;
        while let Some(operation) = self.operations.get(at) {
            let word = done[at / 64];
            if at % 64 == 0 && word == u64::MAX {
                at += 64;
                continue;
            }
            // They stand in the order in which they began: behind this none could come next, and none ends sooner.
            if operation.begin > first_end {
                break;
            }
            if word >> (at % 64) & 1 == 0 {
                found.push(at);
                if !optional(operation) {
                    certain += 1;
                    first_end = first_end.min(end_of(operation));
                }
            }
            at += 1;
        }
        // Of those that may come and would do the same, one is as good as another from now on.
        let mut seen = HashSet::new();
        found.retain(|at| {
            let operation = self.operations[*at];
            !optional(operation) || seen.insert(effect(operation))
        });
        // Those that must come, the earliest end first, before those that may.
        found.sort_by_key(|at| {
            let operation = self.operations[*at];
            std::cmp::Reverse((optional(operation), end_of(operation)))
        });
        (found, certain)
    }
}

/// The names after an operation; nothing when it could not have ended as it did.
fn step(names: &Names, number: usize, operation: &Operation) -> Option<Names> {
    let mut names = names.clone();
    match &operation.call {
        Call::Open { path, opened, .. } => {
            let made = opened.map_or(Object::Somebody(number), |(object, _)| {
                Object::Known(object)
            });
            match (names.get(path).copied(), opened) {
                (None, _) => {
                    names.insert(path.clone(), made);
                }
                (Some(_), None) => {}
                (Some(there), Some((object, _))) => return bind(names, path, there, *object),
            }
        }
        Call::Read { path, found } => match (names.get(path).copied(), found) {
            (None, Found::Nothing) => {}
            (Some(there), Found::This(content)) => return bind(names, path, there, content.object),
            _ => return None,
        },
        Call::Rename { from, to, done } => match done {
            Done::Yes | Done::Unknown => {
                let moved = names.remove(from)?;
                if names.insert(to.clone(), moved).is_some() {
                    return None;
                }
            }
            Done::NothingThere => return (!names.contains_key(from)).then_some(names),
            Done::InTheWay => return names.contains_key(to).then_some(names),
            Done::No => {}
        },
        Call::Delete { path, done } => match done {
            Done::Yes | Done::Unknown => {
                names.remove(path)?;
            }
            Done::NothingThere => return (!names.contains_key(path)).then_some(names),
            Done::InTheWay | Done::No => {}
        },
        Call::Sync { .. } | Call::Recover => {}
    }
    Some(names)
}

/// The name stands for this object, or for one that nobody has named yet.
fn bind(mut names: Names, path: &str, there: Object, object: u64) -> Option<Names> {
    match there {
        Object::Known(known) => (known == object).then_some(names),
        Object::Somebody(_) => {
            names.insert(path.to_owned(), Object::Known(object));
            Some(names)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::history::Content;

    fn operation(begin: u64, end: u64, call: Call) -> Operation {
        Operation {
            client: 1,
            begin,
            end,
            call,
        }
    }

    fn open(begin: u64, end: u64, path: &str, object: Option<u64>) -> Operation {
        let call = Call::Open {
            path: path.to_owned(),
            session: 1,
            opened: object.map(|object| (object, 0)),
        };
        operation(begin, end, call)
    }

    fn read(begin: u64, end: u64, path: &str, object: Option<u64>) -> Operation {
        let found = object.map_or(Found::Nothing, |object| {
            Found::This(Content {
                object,
                length: 0,
                records: Vec::new(),
            })
        });
        let path = path.to_owned();
        operation(begin, end, Call::Read { path, found })
    }

    fn rename(begin: u64, end: u64, from: &str, to: &str, done: Done) -> Operation {
        let (from, to) = (from.to_owned(), to.to_owned());
        operation(begin, end, Call::Rename { from, to, done })
    }

    fn verdict(operations: &[Operation]) -> Verdict {
        check(&operations.iter().collect::<Vec<_>>())
    }

    #[test]
    fn what_overlaps_may_have_come_in_either_order() {
        let history = [
            open(1, 2, "a", Some(7)),
            rename(3, 9, "a", "b", Done::Yes),
            read(4, 5, "b", Some(7)),
            read(6, 8, "a", None),
        ];
        assert_eq!(verdict(&history), Verdict::Linearizable);
    }

    #[test]
    fn a_name_that_comes_back_is_found() {
        let history = [
            open(1, 2, "a", Some(7)),
            rename(3, 4, "a", "b", Done::Yes),
            read(5, 6, "a", Some(7)),
        ];
        assert!(matches!(verdict(&history), Verdict::Not(_)));
        let lost = [open(1, 2, "a", Some(7)), read(3, 4, "a", None)];
        assert!(matches!(verdict(&lost), Verdict::Not(_)));
        let other = [open(1, 2, "a", Some(7)), open(3, 4, "a", Some(8))];
        assert!(matches!(verdict(&other), Verdict::Not(_)));
    }

    #[test]
    fn what_nobody_knows_may_have_happened_late_or_never() {
        let late = [
            open(1, 2, "a", Some(7)),
            rename(3, 4, "a", "b", Done::Unknown),
            read(5, 6, "a", Some(7)),
            read(9, 10, "b", Some(7)),
        ];
        assert_eq!(verdict(&late), Verdict::Linearizable);
        let never = [
            open(1, 2, "a", Some(7)),
            rename(3, 4, "a", "b", Done::Unknown),
            read(5, 6, "a", Some(7)),
        ];
        assert_eq!(verdict(&never), Verdict::Linearizable);
        let both = [
            open(1, 2, "a", Some(7)),
            rename(3, 4, "a", "b", Done::Unknown),
            read(5, 6, "b", Some(7)),
            read(7, 8, "a", Some(7)),
        ];
        assert!(matches!(verdict(&both), Verdict::Not(_)));
        let made = [
            open(1, NEVER, "a", None),
            read(2, 3, "a", None),
            read(4, 5, "a", Some(7)),
            open(6, 7, "a", Some(7)),
        ];
        assert_eq!(verdict(&made), Verdict::Linearizable);
    }

    #[test]
    fn many_unknown_outcomes_of_one_kind_are_searched_soon() {
        // Each open that was refused may have made the file at any time since.
        let mut history: Vec<_> = (0..40).map(|at| open(at, at + 1, "a", None)).collect();
        history.push(read(100, 101, "a", None));
        history.push(read(102, 103, "a", Some(7)));
        history.push(rename(104, 105, "a", "b", Done::Yes));
        history.push(read(106, 107, "b", Some(7)));
        assert_eq!(verdict(&history), Verdict::Linearizable);
        history.push(read(108, 109, "b", None));
        assert!(matches!(verdict(&history), Verdict::Not(_)));
    }
}
