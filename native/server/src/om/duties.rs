//! What the leader does unasked: ends sessions that nobody ends, and takes deleted trees apart. Each beat looks at a bounded part of the rows
//! and proposes what the rules say is due; the command looks again when it is applied, so that a look may be as old as it likes.
//!
//! A server that may not propose does nothing: only the leader's read barrier and proposals succeed.

use super::sized_read;
use crate::consensus::Consensus;
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
/// Steps of the sweep in one beat.
const STEPS: usize = 4;
/// What one step of the sweep takes at most.
const STEP: u32 = 500;

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
        for _ in 0..STEPS {
            let from = self.trees.clone();
            let Some(look) = look_at_trees(consensus, from).await else {
                return done;
            };
            let (Some(command), Some(next)) = (look.command, look.next) else {
                return done;
            };
            if !propose(consensus, Some(command), &mut done).await {
                return done;
            }
            if !std::mem::take(&mut done.more) {
                self.trees = next;
            }
        }
        done
    }
}

async fn look_at_trees(consensus: &dyn Consensus, from: Vec<u8>) -> Option<Look> {
    look(consensus, move |rows| {
        read::deleted_tree(rows, &from, STEP)
    })
    .await
}

/// A look at rows that show everything decided; nothing when this server does not lead or its rows cannot be read.
async fn look(
    consensus: &dyn Consensus,
    read: impl FnOnce(&dyn Rows) -> Result<Look, RowsError> + Send + 'static,
) -> Option<Look> {
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
async fn propose(
    consensus: &dyn Consensus,
    command: Option<Command>,
    done: &mut Cleaned,
) -> bool {
    let Some(command) = command else { return true };
    let request = Request {
        user: DUTY_USER.to_owned(),
        invocation: None,
        answered_below: None,
        command: Some(command),
    };
    let cleaned = match consensus.propose(request).await {
        Ok(Ok(reply)) => match reply.answer {
            Some(Answer::Cleaned(cleaned)) => cleaned,
            _ => Cleaned::default(),
        },
        Ok(Err(refusal)) => {
            tracing::error!(%refusal, "a duty was refused");
            return false;
        }
        // Another server leads, or this one is about to stop: whoever leads does it.
        Err(_) => return false,
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
    done.sessions += cleaned.sessions;
    done.files += cleaned.files;
    done.directories += cleaned.directories;
    done.blocks += cleaned.blocks;
    done.more = cleaned.more;
    true
}
