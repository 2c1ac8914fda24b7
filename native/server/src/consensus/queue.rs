//! Commands that wait for the log, bounded, taken out in batches.

use super::ProposeError;
use append_namespace::command::Request;
use append_namespace::reply::Decided;
use prost::Message;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// Where a caller gets its answer. Dropped without one, the outcome is unknown.
pub(crate) type Answer = oneshot::Sender<Result<Decided, ProposeError>>;

/// A command and who waits for it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) answer: Answer,
    bytes: usize,
}

impl Waiting {
    /// Bytes that it takes in the log.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }
}

/// How much a queue and a batch hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) batch_commands: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) command_bytes: usize,
    pub(crate) queue_commands: usize,
    pub(crate) queue_bytes: usize,
}

/// What the log thread does next.
#[derive(Debug)]
pub(crate) enum Work {
    /// Write these.
    Batch(Vec<Waiting>),
    /// Cut the log below this index.
    Cut(u64),
    /// Nothing.
    Idle,
    /// The queue is closed and empty.
    Closed,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    cut: Option<u64>,
    closed: bool,
}

/// Many callers put in, one thread takes out.
#[derive(Debug)]
pub(crate) struct Queue {
    bounds: Bounds,
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    pub(crate) fn new(bounds: Bounds) -> Queue {
        Queue {
            bounds,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a command in and gives the place where its answer comes.
    pub(crate) fn push(
        &self,
        request: Request,
    ) -> Result<oneshot::Receiver<Result<Decided, ProposeError>>, ProposeError> {
        let receiver = self.push_quietly(request)?;
        self.changed.notify_one();
        Ok(receiver)
    }

    /// As [`Queue::push`], but wakes nobody: the caller takes what is inside itself, or calls [`Queue::wake`].
    pub(crate) fn push_quietly(
        &self,
        request: Request,
    ) -> Result<oneshot::Receiver<Result<Decided, ProposeError>>, ProposeError> {
        let bytes = request.encoded_len();
        if bytes > self.bounds.command_bytes {
            return Err(ProposeError::TooLarge {
                bytes,
                limit: self.bounds.command_bytes,
            });
        }
        let mut state = self.lock();
        if state.closed {
            return Err(ProposeError::Stopped);
        }
        let full = state.waiting.len() >= self.bounds.queue_commands
            || (!state.waiting.is_empty() && state.bytes + bytes > self.bounds.queue_bytes);
        if full {
            metrics::counter!("append_proposals_refused_busy").increment(1);
            return Err(ProposeError::Busy);
        }
        let (answer, receiver) = oneshot::channel();
        state.bytes += bytes;
        state.waiting.push_back(Waiting {
            request,
            answer,
            bytes,
        });
        Ok(receiver)
    }

    /// Wakes the log thread.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Whether no command waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Asks for the log to be cut.
    pub(crate) fn cut(&self, below: u64) {
        let mut state = self.lock();
        state.cut = state.cut.max(Some(below));
        drop(state);
        self.changed.notify_one();
    }

    /// Takes nothing more in. What is inside still comes out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes nothing more in and tells all who wait that nothing was proposed.
    pub(crate) fn abort(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.bytes = 0;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waiting in waiting {
            let _ = waiting.answer.send(Err(ProposeError::Stopped));
        }
        self.changed.notify_all();
    }

    /// Waits until there is work, or until `deadline`, and takes nothing.
    pub(crate) fn wait(&self, deadline: Instant) {
        let mut state = self.lock();
        while state.cut.is_none() && state.waiting.is_empty() && !state.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits for work until `deadline` and takes it.
    pub(crate) fn take_by(&self, deadline: Instant) -> Work {
        self.wait(deadline);
        self.take()
    }

    /// Takes what is to be done now.
    pub(crate) fn take(&self) -> Work {
        let mut state = self.lock();
        if let Some(below) = state.cut.take() {
            Work::Cut(below)
        } else if !state.waiting.is_empty() {
            Work::Batch(self.batch(&mut state))
        } else if state.closed {
            Work::Closed
        } else {
            Work::Idle
        }
    }

    /// Takes commands; tells whether anything is left to be done.
    pub(crate) fn take_commands(&self) -> (Vec<Waiting>, bool) {
        let mut state = self.lock();
        let batch = self.batch(&mut state);
        (batch, state.cut.is_some() || !state.waiting.is_empty())
    }

    fn batch(&self, state: &mut State) -> Vec<Waiting> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < self.bounds.batch_commands
            && let Some(next) = state.waiting.front()
            && (batch.is_empty() || bytes + next.bytes <= self.bounds.batch_bytes)
            && let Some(next) = state.waiting.pop_front()
        {
            bytes += next.bytes;
            batch.push(next);
        }
        state.bytes -= bytes;
        metrics::gauge!("append_proposals_waiting").set(f64::from(
            u32::try_from(state.waiting.len()).unwrap_or(u32::MAX),
        ));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn bounds() -> Bounds {
        Bounds {
            batch_commands: 3,
            batch_bytes: 100,
            command_bytes: 200,
            queue_commands: 5,
            queue_bytes: 250,
        }
    }

    fn request(bytes: usize) -> Request {
        // A string of n < 126 bytes encodes to n + 2, a longer one to n + 3.
        let user = "u".repeat(if bytes < 130 { bytes - 2 } else { bytes - 3 });
        let request = Request {
            user,
            ..Request::default()
        };
        assert_eq!(request.encoded_len(), bytes);
        request
    }

    fn sizes(work: Work) -> Vec<usize> {
        match work {
            Work::Batch(batch) => batch.iter().map(|waiting| waiting.bytes).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn batches_are_bounded_by_count_and_bytes_and_never_empty() {
        let queue = Queue::new(bounds());
        let _answers: Vec<_> = [10, 10, 10, 10]
            .map(|bytes| queue.push(request(bytes)).unwrap())
            .into();
        assert_eq!(sizes(queue.take()), [10, 10, 10]);
        assert_eq!(sizes(queue.take()), [10]);
        let _answers: Vec<_> = [60, 60, 120]
            .map(|bytes| queue.push(request(bytes)).unwrap())
            .into();
        assert_eq!(sizes(queue.take()), [60]);
        assert_eq!(sizes(queue.take()), [60]);
        assert_eq!(sizes(queue.take()), [120]);
    }

    #[test]
    fn a_full_queue_says_busy_and_a_large_command_is_refused_for_good() {
        let queue = Queue::new(bounds());
        let _answers: Vec<_> = (0..5).map(|_| queue.push(request(10)).unwrap()).collect();
        assert_eq!(queue.push(request(10)).unwrap_err(), ProposeError::Busy);
        let queue = Queue::new(bounds());
        let _answers: Vec<_> = (0..2).map(|_| queue.push(request(120)).unwrap()).collect();
        assert_eq!(queue.push(request(120)).unwrap_err(), ProposeError::Busy);
        assert_eq!(
            queue.push(request(201)).unwrap_err(),
            ProposeError::TooLarge {
                bytes: 201,
                limit: 200
            }
        );
    }

    #[test]
    fn closing_lets_out_what_is_inside_and_aborting_answers_it() {
        let queue = Queue::new(bounds());
        let mut first = queue.push(request(10)).unwrap();
        queue.close();
        assert_eq!(queue.push(request(10)).unwrap_err(), ProposeError::Stopped);
        assert_eq!(sizes(queue.take()), [10]);
        assert!(matches!(queue.take(), Work::Closed));
        // Its batch was dropped without an answer.
        assert!(first.try_recv().is_err());

        let queue = Queue::new(bounds());
        let mut waiting = queue.push(request(10)).unwrap();
        queue.abort();
        assert_eq!(waiting.try_recv().unwrap(), Err(ProposeError::Stopped));
        assert!(matches!(queue.take(), Work::Closed));
    }

    #[test]
    fn a_cut_and_a_deadline_come_through() {
        let queue = Queue::new(bounds());
        queue.cut(5);
        queue.cut(3);
        assert!(matches!(queue.take(), Work::Cut(5)));
        queue.wait(Instant::now() + Duration::from_millis(1));
        assert!(matches!(queue.take(), Work::Idle));
    }
}
