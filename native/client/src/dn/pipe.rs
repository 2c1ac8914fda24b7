//! An ordered stream of requests to one datanode, answered in its order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use append_wire::datanode::{ContainerCommandRequestProto, ContainerCommandResponseProto};
use tokio::sync::{mpsc, oneshot};

use super::{Datanode, DnError, stream};
use crate::Result;
use crate::runtime;

/// What an answer comes to.
pub(crate) type Reply = std::result::Result<ContainerCommandResponseProto, DnError>;

/// A stream of requests. What is sent is not bounded here: the writer bounds what it has not seen answered. Dropping it ends
/// the stream.
#[derive(Debug)]
pub(crate) struct Pipe {
    node: Arc<Datanode>,
    requests: mpsc::UnboundedSender<ContainerCommandRequestProto>,
    waiting: Arc<Mutex<Waiting>>,
    task: tokio::task::AbortHandle,
}

#[derive(Debug, Default)]
struct Waiting {
    replies: VecDeque<oneshot::Sender<Reply>>,
    ended: Option<DnError>,
}

impl Pipe {
    /// Begins a stream; connecting happens behind the first request.
    pub(crate) fn open(node: Arc<Datanode>) -> Result<Pipe> {
        let (requests, queue) = mpsc::unbounded_channel();
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let task = runtime::handle()?.spawn(run(Arc::clone(&node), queue, Arc::clone(&waiting)));
        Ok(Pipe {
            node,
            requests,
            waiting,
            task: task.abort_handle(),
        })
    }

    /// Sends a request without waiting.
    pub(crate) fn send(&self, request: ContainerCommandRequestProto) -> oneshot::Receiver<Reply> {
        let (reply, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = &waiting.ended {
            let _ = reply.send(Err(ended.clone()));
            return receiver;
        }
        // Both under one lock: answers are matched by their order.
        if self.requests.send(request).is_ok() {
            waiting.replies.push_back(reply);
        } else {
            let _ = reply.send(Err(self.node.unreachable("the stream has ended")));
        }
        receiver
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    node: Arc<Datanode>,
    requests: mpsc::UnboundedReceiver<ContainerCommandRequestProto>,
    waiting: Arc<Mutex<Waiting>>,
) {
    let error = answers(&node, requests, &waiting).await;
    let replies = {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.ended = Some(error.clone());
        std::mem::take(&mut waiting.replies)
    };
    for reply in replies {
        let _ = reply.send(Err(error.clone()));
    }
}

async fn answers(
    node: &Datanode,
    requests: mpsc::UnboundedReceiver<ContainerCommandRequestProto>,
    waiting: &Mutex<Waiting>,
) -> DnError {
    let Some(channel) = node.channel() else {
        return node.unreachable("no connection");
    };
    let mut answers = match stream::open(channel, requests).await {
        Ok(answers) => answers,
        Err(status) => return node.unreachable(status.message()),
    };
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                let next = {
                    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    waiting.replies.pop_front()
                };
                match next {
                    // The writer may have stopped waiting.
                    Some(reply) => drop(reply.send(node.judge(answer))),
                    None => return node.unreachable("an answer that nobody asked for"),
                }
            }
            Ok(None) => return node.unreachable("the datanode ended the stream"),
            Err(status) => return node.unreachable(status.message()),
        }
    }
}
