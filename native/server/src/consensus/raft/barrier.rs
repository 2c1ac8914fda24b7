//! Reads that see everything answered anywhere before they were asked for. All that wait together share one round to the others.

use super::GroupRaft;
use crate::consensus::shared::Shared;
use crate::store::View;
use openraft::ReadPolicy;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// A leader that hears nothing of a majority for so long sends its callers away.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// The server does not lead, or cannot show that it does.
    NotLeader,
    /// The server stops.
    Stopped,
}

type Answer = oneshot::Sender<Result<View, Failed>>;

/// See the module.
pub(super) struct Barriers {
    asked: mpsc::UnboundedSender<Answer>,
}

impl Barriers {
    pub(super) fn start(runtime: &Handle, raft: GroupRaft, shared: Arc<Shared>) -> Barriers {
        let (asked, waiting) = mpsc::unbounded_channel();
        runtime.spawn(serve(waiting, raft, shared));
        Barriers { asked }
    }

    pub(super) fn ask(&self) -> impl Future<Output = Result<View, Failed>> + Send + 'static {
        let (answer, answered) = oneshot::channel();
        let sent = self.asked.send(answer);
        async move {
            if sent.is_err() {
                return Err(Failed::Stopped);
            }
            answered.await.unwrap_or(Err(Failed::Stopped))
        }
    }
}

async fn serve(mut waiting: mpsc::UnboundedReceiver<Answer>, raft: GroupRaft, shared: Arc<Shared>) {
    let mut answers = Vec::new();
    while waiting.recv_many(&mut answers, usize::MAX).await > 0 {
        let round = tokio::time::timeout(PATIENCE, round(&raft)).await;
        let result = match round {
            Ok(Ok(())) => Ok(()),
            Ok(Err(())) | Err(_) => Err(Failed::NotLeader),
        };
        for answer in answers.drain(..) {
            // A caller that has gone needs no answer.
            let _ = answer.send(result.map(|()| shared.store.applied().rows));
        }
    }
}

async fn round(raft: &GroupRaft) -> Result<(), ()> {
    let linearizer = raft
        .get_read_linearizer(ReadPolicy::ReadIndex)
        .await
        .map_err(|error| tracing::debug!(%error, "no barrier"))?;
    linearizer
        .await_ready(raft)
        .await
        .map(|_| ())
        .map_err(|error| tracing::debug!(%error, "no barrier"))
}
