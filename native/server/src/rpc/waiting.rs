//! Memory of replies that are made or wait for their peer: bounded for each connection, and for the large ones of all together. A call is
//! served when there is room for what it may answer; the peer that takes nothing waits for itself.

use super::{LARGE_FRAME_BYTES, RpcLimits};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Bytes that are accounted for, up to a limit.
#[derive(Debug)]
pub(crate) struct Room {
    taken: AtomicUsize,
    limit: usize,
    changed: Notify,
}

impl Room {
    pub(crate) fn new(limit: usize) -> Arc<Room> {
        Arc::new(Room {
            taken: AtomicUsize::new(0),
            limit,
            changed: Notify::new(),
        })
    }

    /// The room of one connection.
    pub(crate) fn of_connection(limits: &RpcLimits) -> Arc<Room> {
        Room::new(limits.replies_bytes_per_connection)
    }

    /// Waits until `bytes` fit, or nothing else is taken: what is larger than the limit goes alone.
    async fn take(self: &Arc<Room>, bytes: usize) -> Share {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let fits = |taken: usize| {
                (taken == 0 || taken.saturating_add(bytes) <= self.limit)
                    .then(|| taken.saturating_add(bytes))
            };
            if self
                .taken
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
                .is_ok()
            {
                return Share {
                    of: Arc::clone(self),
                    bytes,
                };
            }
            changed.await;
        }
    }
}

/// Bytes of a [`Room`], until this is dropped.
#[derive(Debug)]
struct Share {
    of: Arc<Room>,
    bytes: usize,
}

impl Share {
    /// It is as large as this, whether that fits or not: it is there already.
    fn settle(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.of
                .taken
                .fetch_add(bytes - self.bytes, Ordering::AcqRel);
        } else if bytes < self.bytes {
            self.of
                .taken
                .fetch_sub(self.bytes - bytes, Ordering::AcqRel);
            self.of.changed.notify_waiters();
        }
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.taken.fetch_sub(self.bytes, Ordering::AcqRel);
        self.of.changed.notify_waiters();
    }
}

/// The memory of one reply: to be kept as long as the reply.
#[derive(Debug)]
pub(crate) struct Held {
    own: Share,
    /// Of what all connections share, for a large one.
    shared: Option<Share>,
}

impl Held {
    /// Waits for room for a reply of so many bytes, of the connection's own and of what all share.
    pub(crate) async fn take(own: &Arc<Room>, all: &Arc<Room>, bytes: usize) -> Held {
        let own = own.take(bytes).await;
        let shared = if bytes >= LARGE_FRAME_BYTES {
            Some(all.take(bytes).await)
        } else {
            None
        };
        Held { own, shared }
    }

    /// The reply is made and has so many bytes.
    pub(crate) fn settle(&mut self, bytes: usize) {
        self.own.settle(bytes);
        if let Some(shared) = &mut self.shared {
            shared.settle(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn waits<T>(work: impl Future<Output = T>) -> bool {
        tokio::time::timeout(Duration::from_millis(5), work)
            .await
            .is_err()
    }

    #[tokio::test]
    async fn what_does_not_fit_waits_and_what_is_too_large_goes_alone() {
        let room = Room::new(100);
        let huge = room.take(1000).await;
        assert!(waits(room.take(1)).await);
        drop(huge);
        let mut half = room.take(50).await;
        let other = room.take(50).await;
        assert!(waits(room.take(1)).await);
        half.settle(20);
        let third = room.take(30).await;
        assert!(waits(room.take(1)).await);
        half.settle(200);
        drop((other, third));
        assert!(waits(room.take(1)).await);
        drop(half);
        let _whole = room.take(100).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_release_is_missed() {
        let room = Room::new(10);
        let tasks: Vec<_> = (0..64_usize)
            .map(|n| {
                let room = Arc::clone(&room);
                tokio::spawn(async move {
                    for _ in 0..200 {
                        let share = room.take(1 + n % 10).await;
                        assert!(room.taken.load(Ordering::Acquire) <= 10);
                        tokio::task::yield_now().await;
                        drop(share);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(room.taken.load(Ordering::Acquire), 0);
    }

    #[tokio::test]
    async fn small_replies_do_not_wait_for_the_large_ones_of_others() {
        let all = Room::new(2 * LARGE_FRAME_BYTES);
        let (one, other) = (Room::new(usize::MAX), Room::new(usize::MAX));
        let large = Held::take(&one, &all, 2 * LARGE_FRAME_BYTES).await;
        let small = Held::take(&other, &all, LARGE_FRAME_BYTES - 1).await;
        assert!(waits(Held::take(&other, &all, LARGE_FRAME_BYTES)).await);
        drop((large, small));
        let _ = Held::take(&other, &all, LARGE_FRAME_BYTES).await;
    }
}
