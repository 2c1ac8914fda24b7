//! The two times of an entry.
//!
//! Lease time follows the monotonic clock, but by at most two seconds from one entry to the next and never back: a server that stood
//! still expires nobody. Wall time is what the system says.

use append_namespace::Stamp;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far lease time may move in one entry.
pub(crate) const MAX_STEP: Duration = Duration::from_secs(2);
/// A step of the wall clock against the monotonic one that is worth a line.
const JUMP_MS: u64 = 60_000;

/// Stamps entries. One thread uses it.
#[derive(Debug)]
pub(crate) struct Stamper {
    lease_ms: u64,
    /// Monotonic time that lease time has followed up to.
    at: Instant,
    wall_ms: Option<u64>,
}

impl Stamper {
    /// Goes on from the lease time of the applied position.
    pub(crate) fn new(lease_ms: u64, now: Instant) -> Stamper {
        Stamper {
            lease_ms,
            at: now,
            wall_ms: None,
        }
    }

    /// As [`Stamper::next`], with a lease time of at most `most`; what is beyond it never counts.
    pub(crate) fn next_below(&mut self, most: u64, now: Instant, wall: SystemTime) -> Stamp {
        let stamp = self.next(now, wall);
        self.lease_ms = self.lease_ms.min(most);
        Stamp {
            lease_ms: self.lease_ms,
            ..stamp
        }
    }

    /// The stamp of the next entry.
    pub(crate) fn next(&mut self, now: Instant, wall: SystemTime) -> Stamp {
        let passed = now.saturating_duration_since(self.at);
        let step = millis(passed.min(MAX_STEP));
        self.lease_ms = self.lease_ms.saturating_add(step);
        // What is left below a millisecond counts next time; what is beyond the step never does.
        self.at = if passed > MAX_STEP {
            now
        } else {
            self.at + Duration::from_millis(step)
        };

        let wall_ms = wall
            .duration_since(UNIX_EPOCH)
            .map(millis)
            .unwrap_or_default();
        if let Some(before) = self.wall_ms {
            let expected = before.saturating_add(millis(passed));
            let off = wall_ms.abs_diff(expected);
            if off > JUMP_MS {
                tracing::warn!(
                    before_ms = before,
                    now_ms = wall_ms,
                    off_ms = off,
                    "the wall clock jumped"
                );
            }
        }
        self.wall_ms = Some(wall_ms);
        Stamp {
            lease_ms: self.lease_ms,
            wall_ms,
            rules: append_namespace::command::RULES,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn lease_time_follows_the_monotonic_clock_by_small_steps_only() {
        let start = Instant::now();
        let mut stamper = Stamper::new(1_000, start);
        let wall = SystemTime::now();
        assert_eq!(stamper.next(after(start, 500), wall).lease_ms, 1_500);
        assert_eq!(stamper.next(after(start, 500), wall).lease_ms, 1_500);
        assert_eq!(stamper.next(after(start, 2_500), wall).lease_ms, 3_500);
        // An hour of standing still is two seconds, and is not made up for.
        assert_eq!(stamper.next(after(start, 3_602_500), wall).lease_ms, 5_500);
        assert_eq!(stamper.next(after(start, 3_602_600), wall).lease_ms, 5_600);
    }

    #[test]
    fn fractions_of_a_millisecond_add_up() {
        let start = Instant::now();
        let mut stamper = Stamper::new(0, start);
        let mut last = 0;
        for at in 1..=1_000u32 {
            last = stamper
                .next(start + Duration::from_micros(300) * at, SystemTime::now())
                .lease_ms;
        }
        assert_eq!(last, 300);
    }

    #[test]
    fn the_wall_clock_does_not_move_lease_time() {
        let start = Instant::now();
        let mut stamper = Stamper::new(7, start);
        let stamp = stamper.next(start, UNIX_EPOCH + Duration::from_secs(1_000_000));
        assert_eq!((stamp.lease_ms, stamp.wall_ms), (7, 1_000_000_000));
        let stamp = stamper.next(start, UNIX_EPOCH - Duration::from_secs(5));
        assert_eq!((stamp.lease_ms, stamp.wall_ms), (7, 0));
    }
}
