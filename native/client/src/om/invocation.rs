//! The identities of mutating calls: one sequence for each, the same over all its resends.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use append_wire::invocation::InvocationId;

/// Numbers the calls of one client and knows which are still without an answer.
#[derive(Debug)]
pub(crate) struct Invocations {
    client: [u8; 8],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    open: BTreeSet<u64>,
}

/// A call under way; dropped when its answer is there or nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    owner: &'a Invocations,
    pub(crate) id: InvocationId,
}

impl Invocations {
    pub(crate) fn new(client: [u8; 8]) -> Invocations {
        Invocations {
            client,
            state: Mutex::new(State {
                next: 1,
                open: BTreeSet::new(),
            }),
        }
    }

    /// Begins a call.
    pub(crate) fn begin(&self) -> Invocation<'_> {
        let mut state = self.state();
        let sequence = state.next;
        state.next += 1;
        state.open.insert(sequence);
        Invocation {
            owner: self,
            id: InvocationId {
                client: self.client,
                sequence,
            },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Invocation<'_> {
    /// Below this sequence every call has its answer or will not be asked about again.
    pub(crate) fn answered_below(&self) -> u64 {
        let state = self.owner.state();
        state.open.first().copied().unwrap_or(state.next)
    }
}

impl Drop for Invocation<'_> {
    fn drop(&mut self) {
        self.owner.state().open.remove(&self.id.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_open_call_holds_the_mark() {
        let invocations = Invocations::new([7; 8]);
        let first = invocations.begin();
        let second = invocations.begin();
        let third = invocations.begin();
        assert_eq!(
            [first.id.sequence, second.id.sequence, third.id.sequence],
            [1, 2, 3]
        );
        assert_eq!(third.answered_below(), 1);
        drop(second);
        assert_eq!(third.answered_below(), 1);
        drop(first);
        assert_eq!(third.answered_below(), 3);
    }
}
