//! The thread that makes entries of what waits, stamps them, and gives them to the group while this server leads.

use super::GroupRaft;
use super::log_store::LogStore;
use super::seen::Seen;
use super::types::{Commands, Group};
use crate::consensus::queue::{Answer, Waiting, Work};
use crate::consensus::shared::Shared;
use crate::consensus::stamp::{MAX_STEP, Stamper};
use crate::consensus::{NotLeader, ProposeError};
use append_namespace::command::Entry;
use bytes::Bytes;
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Entries under way: while they are, what comes waits and shares the next one.
const UNDER_WAY: usize = 4;
/// Time after which a caller is told that the outcome is not known, so that it asks elsewhere: a leader without a majority may never know.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Proposer {
    raft: GroupRaft,
    seen: Seen,
    log: LogStore,
    runtime: Handle,
    under_way: Arc<Semaphore>,
}

impl Proposer {
    pub(super) fn new(raft: GroupRaft, seen: Seen, log: LogStore, runtime: Handle) -> Proposer {
        Proposer {
            raft,
            seen,
            log,
            runtime,
            under_way: Arc::new(Semaphore::new(UNDER_WAY)),
        }
    }

    pub(super) fn run(&self, shared: &Arc<Shared>) -> Result<(), String> {
        let mut stamps: Option<(u64, Stamper)> = None;
        let mut quiet_since = Instant::now();
        loop {
            let Some(permit) = self.permit()? else {
                // A leader without a majority. What waits was not proposed.
                match shared.queue.take_by(Instant::now()) {
                    Work::Closed => return Ok(()),
                    Work::Cut(below) => self.log.may_cut(below),
                    Work::Batch(batch) => refuse(batch, &self.nobody()),
                    Work::Idle => {}
                }
                continue;
            };
            let due = quiet_since + shared.options.tick;
            let batch = match shared.queue.take_by(due) {
                Work::Closed => return Ok(()),
                Work::Cut(below) => {
                    self.log.may_cut(below);
                    continue;
                }
                Work::Batch(batch) => batch,
                Work::Idle if quiet_since.elapsed() < shared.options.tick => continue,
                Work::Idle => Vec::new(),
            };
            let tick = batch.is_empty();
            let idle = !shared.sessions.load(Ordering::Acquire)
                || self.under_way.available_permits() + 1 < UNDER_WAY;
            if tick {
                quiet_since = Instant::now();
                if idle {
                    continue;
                }
            }
            let term = match self.seen.leading(shared) {
                Ok(term) => term,
                Err(error) => {
                    refuse(batch, &error);
                    continue;
                }
            };
            let bytes = batch.iter().map(Waiting::bytes).sum();
            if !shared.space.has(bytes) {
                refuse(batch, &ProposeError::NoSpace);
                continue;
            }
            let applied = shared.standing().position.lease_ms;
            let stamper = match &mut stamps {
                Some((stamped, stamper)) if *stamped == term => stamper,
                // Everything that an earlier leader stamped is applied: this leader's first entry is.
                _ => {
                    &mut stamps
                        .insert((term, Stamper::new(applied, Instant::now())))
                        .1
                }
            };
            // However many entries wait for a majority, together they move lease time by one step.
            let most = applied.saturating_add(MAX_STEP.as_millis().try_into().unwrap_or(0));
            let stamp = stamper.next_below(most, Instant::now(), SystemTime::now());
            quiet_since = Instant::now();
            let (requests, answers) = batch
                .into_iter()
                .map(|waiting| (waiting.request, waiting.answer))
                .unzip();
            self.propose(shared, Entry { stamp, requests }, answers, permit)?;
        }
    }

    /// Waits for room among the entries that are under way, but not for long.
    fn permit(&self) -> Result<Option<OwnedSemaphorePermit>, String> {
        let wait = async {
            tokio::time::timeout(PATIENCE / 5, Arc::clone(&self.under_way).acquire_owned()).await
        };
        match self.runtime.block_on(wait) {
            Ok(Ok(permit)) => Ok(Some(permit)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Ok(None),
        }
    }

    fn nobody(&self) -> ProposeError {
        ProposeError::NotLeader(NotLeader {
            me: self.seen.me,
            leader: None,
        })
    }

    fn propose(
        &self,
        shared: &Arc<Shared>,
        entry: Entry,
        answers: Vec<Answer>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), String> {
        let commands = Commands {
            payload: Bytes::from(entry.encode_to_vec()),
            entry: Some(Arc::new(entry)),
        };
        let (responder, decided) =
            ProgressResponder::<Group, ClientWriteResult<Group>>::complete_only();
        let given = self
            .runtime
            .block_on(self.raft.client_write_ff(commands, Some(responder)));
        if let Err(error) = given {
            // Dropped answers say that the outcome is not known.
            return if shared.stop.load(Ordering::Acquire) {
                Ok(())
            } else {
                Err(error.to_string())
            };
        }
        let seen = self.seen.clone();
        self.runtime.spawn(async move {
            let mut decided = decided;
            let mut answers = answers;
            let result = match tokio::time::timeout(PATIENCE, &mut decided).await {
                Ok(result) => result,
                Err(_) => {
                    answers.clear();
                    decided.await
                }
            };
            drop(permit);
            match result {
                Ok(Ok(written)) if written.data.0.len() == answers.len() => {
                    for (answer, outcome) in answers.into_iter().zip(written.data.0) {
                        // A caller that has gone needs no answer.
                        let _ = answer.send(Ok(outcome));
                    }
                }
                Ok(Err(ClientWriteError::ForwardToLeader(_))) => {
                    let not = seen.not_leader();
                    for answer in answers {
                        let _ = answer.send(Err(ProposeError::NotLeader(not.clone())));
                    }
                }
                // Another leader may have decided it: without an answer the outcome is not known.
                Ok(_) | Err(_) => {}
            }
        });
        Ok(())
    }
}

fn refuse(batch: Vec<Waiting>, error: &ProposeError) {
    for waiting in batch {
        let _ = waiting.answer.send(Err(error.clone()));
    }
}
