//! What the leader does unasked: ends sessions that nobody ends, and takes deleted trees apart. Each beat looks at a bounded part of the rows
//! and proposes what the rules say is due; the command looks again when it is applied, so that a look may be as old as it likes.
//!
//! A server that may not propose does nothing: only the leader's read barrier and proposals succeed.

use super::sized_read;
use crate::consensus::{Consensus, Proposal};
use append_namespace::command::{Command, Request};
use append_namespace::read::{self, Look};
use append_namespace::reply::{Answer, Cleaned};
use append_namespace::rows::{Rows, RowsError};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// In whose name duties are proposed.
const DUTY_USER: &str = "append-server";
/// Time between two beats.
const BEAT: Duration = Duration::from_secs(1);
/// Sessions that a beat looks at.
const SESSIONS: usize = 4_096;
/// Rounds of the sweep in one beat.
const ROUNDS: usize = 4;
/// What the commands of one round take at most.
const ROUND: usize = 500;
/// Trees that a round looks at: each directory of a deleted tree becomes one, and a command for each alone would take a sync for each.
const TREES: usize = 250;

/// How far the looks have come.
#[derive(Debug, Default)]
pub struct Duties {
    sessions: Vec<u8>,
    trees: Vec<u8>,
}

impl Duties {
    /// Beats until `stop`.
    pub async fn run(mut self, consensus: Arc<dyn Consensus>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(BEAT) => {}
            }
            self.beat(&*consensus).await;
        }
    }

    /// Looks once and proposes what is due; gives what was done.
    pub async fn beat(&mut self, consensus: &dyn Consensus) -> Cleaned {
        let mut done = Cleaned::default();
        let from = std::mem::take(&mut self.sessions);
        let Some(look) = look(consensus, {
            let from = from.clone();
            move |rows| read::due_sessions(rows, &from, SESSIONS)
        })
        .await
        else {
            return done;
        };
        if propose(consensus, look.command, &mut done).await {
            self.sessions = look.next.unwrap_or_default();
        } else {
            self.sessions = from;
        }
        for _ in 0..ROUNDS {
            if !self.sweep(consensus, &mut done).await {
                return done;
            }
        }
        done
    }

    /// Takes a part of the next deleted trees apart. The commands are proposed together, so that they share a record of the log. Tells
    /// whether there may be more to do.
    async fn sweep(&mut self, consensus: &dyn Consensus, done: &mut Cleaned) -> bool {
        let from = self.trees.clone();
        let Some(trees) = look(consensus, move |rows| next_trees(rows, from)).await else {
            return false;
        };
        let proposals: Vec<_> = trees
            .iter()
            .filter_map(|tree| tree.command.clone())
            .map(|command| consensus.propose(request(command)))
            .collect();
        let mut from = Some(std::mem::take(&mut self.trees));
        let mut went_on = !proposals.is_empty();
        let mut unfinished = None;
        for (tree, proposal) in trees.into_iter().zip(proposals) {
            let begun = std::mem::replace(&mut from, tree.next);
            let cleaned = decided(proposal).await;
            if cleaned.is_none_or(|cleaned| cleaned.more) && unfinished.is_none() {
                unfinished = begun;
            }
            match cleaned {
                Some(cleaned) => add(done, cleaned),
                None => went_on = false,
            }
        }
        self.trees = unfinished.or(from).unwrap_or_default();
        went_on
    }
}

/// What to do about the next deleted trees, together no more than a round may.
fn next_trees(rows: &dyn Rows, mut from: Vec<u8>) -> Result<Vec<Look>, RowsError> {
    let mut trees = Vec::new();
    while trees.len() < TREES {
        let look = read::deleted_tree(rows, &from, 1)?;
        match (&look.command, &look.next) {
            (Some(_), Some(next)) => from.clone_from(next),
            _ => break,
        }
        trees.push(look);
    }
    let share = ROUND / trees.len().max(1);
    for tree in &mut trees {
        if let Some(Command::Sweep(sweep)) = &mut tree.command {
            sweep.max = u32::try_from(share).unwrap_or(1);
        }
    }
    Ok(trees)
}

/// A look at rows that show everything decided; nothing when this server does not lead or its rows cannot be read.
async fn look<T: Send + 'static>(
    consensus: &dyn Consensus,
    read: impl FnOnce(&dyn Rows) -> Result<T, RowsError> + Send + 'static,
) -> Option<T> {
    let view = consensus.read_barrier().await.ok()?;
    match sized_read(view, true, move |rows| Ok(read(rows)?)).await {
        Ok(look) => Some(look),
        Err(failure) => {
            tracing::error!(?failure, "a duty cannot read the rows");
            None
        }
    }
}

/// Proposes a command, if there is one, and adds what it did to `done`. Tells whether the duty may go on.
async fn propose(consensus: &dyn Consensus, command: Option<Command>, done: &mut Cleaned) -> bool {
    let Some(command) = command else { return true };
    match decided(consensus.propose(request(command))).await {
        Some(cleaned) => {
            add(done, cleaned);
            true
        }
        None => false,
    }
}

fn request(command: Command) -> Request {
    Request {
        user: DUTY_USER.to_owned(),
        invocation: None,
        answered_below: None,
        command: Some(command),
    }
}

/// What a command did; nothing when the duty may not go on.
async fn decided(proposal: Proposal) -> Option<Cleaned> {
    let cleaned = match proposal.await {
        Ok(Ok(reply)) => match reply.answer {
            Some(Answer::Cleaned(cleaned)) => cleaned,
            _ => Cleaned::default(),
        },
        Ok(Err(refusal)) => {
            tracing::error!(%refusal, "a duty was refused");
            return None;
        }
        // Another server leads, or this one is about to stop: whoever leads does it.
        Err(_) => return None,
    };
    if cleaned != Cleaned::default() {
        tracing::info!(
            sessions = cleaned.sessions,
            files = cleaned.files,
            directories = cleaned.directories,
            blocks = cleaned.blocks,
            more = cleaned.more,
            "cleaned up"
        );
    }
    for (what, count) in [
        ("session", cleaned.sessions),
        ("file", cleaned.files),
        ("directory", cleaned.directories),
        ("block", cleaned.blocks),
    ] {
        metrics::counter!("append_om_cleaned_total", "what" => what).increment(count);
    }
    Some(cleaned)
}

fn add(done: &mut Cleaned, cleaned: Cleaned) {
    done.sessions += cleaned.sessions;
    done.files += cleaned.files;
    done.directories += cleaned.directories;
    done.blocks += cleaned.blocks;
    done.more = cleaned.more;
}
