//! What threads that put load tell each other and whoever watches.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::clock;

/// Gaps shorter than this are not listed one by one.
const GAP_LISTED_MIN: Duration = Duration::from_millis(20);
/// Gaps listed at most.
const GAPS_LISTED_MAX: usize = 10_000;

/// Answers that make no sense, kept at most.
const SURPRISES_MAX: usize = 20;

/// A time in which no write was acknowledged to any client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// When it began, in nanoseconds of [`crate::now_ns`].
    pub from_ns: u64,
    /// How long it was.
    pub ms: u64,
}

/// Counters that can be read while load runs, and the way to stop it.
#[derive(Debug)]
pub struct Progress {
    stop: AtomicBool,
    done: AtomicU64,
    failed: AtomicU64,
    begun_ns: u64,
    last_write_ns: AtomicU64,
    longest_gap_ns: AtomicU64,
    gaps: Mutex<Vec<Gap>>,
    surprises: Mutex<Vec<String>>,
    /// How often `addresses` was replaced.
    moves: AtomicU64,
    addresses: Mutex<Vec<SocketAddr>>,
}

impl Default for Progress {
    fn default() -> Self {
        let now = clock::now_ns();
        Progress {
            stop: AtomicBool::new(false),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            begun_ns: now,
            last_write_ns: AtomicU64::new(0),
            longest_gap_ns: AtomicU64::new(0),
            gaps: Mutex::new(Vec::new()),
            surprises: Mutex::new(Vec::new()),
            moves: AtomicU64::new(0),
            addresses: Mutex::new(Vec::new()),
        }
    }
}

impl Progress {
    /// Begins nothing new; what is under way is waited for.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The first answers that no correct server gives.
    pub fn surprises(&self) -> Vec<String> {
        self.surprises.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn surprised(&self, text: String) {
        let mut surprises = self.surprises.lock().unwrap_or_else(PoisonError::into_inner);
        if surprises.len() < SURPRISES_MAX {
            surprises.push(text);
        }
    }

    /// Tells clients that the cluster is at these addresses from now on. Connections that stand are kept.
    pub fn move_to(&self, addresses: Vec<SocketAddr>) {
        if addresses.is_empty() {
            return;
        }
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
        self.moves.fetch_add(1, Ordering::Release);
    }

    /// The addresses, if they have changed since `seen`.
    pub(crate) fn moved(&self, seen: &mut u64) -> Option<Vec<SocketAddr>> {
        let moves = self.moves.load(Ordering::Acquire);
        if *seen == moves {
            return None;
        }
        *seen = moves;
        Some(self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Operations that succeeded so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Operations that were refused or have an unknown end.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// For how long the load has run.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.begun_ns))
    }

    /// When the last write was acknowledged to anybody, in nanoseconds of [`crate::now_ns`]; 0: none was.
    pub fn last_write_ns(&self) -> u64 {
        self.last_write_ns.load(Ordering::Relaxed)
    }

    /// The longest time without an acknowledged write between two that were.
    pub fn longest_gap(&self) -> Duration {
        Duration::from_nanos(self.longest_gap_ns.load(Ordering::Relaxed))
    }

    /// Gaps of more than 20 ms, in order of their ends.
    pub fn gaps(&self) -> Vec<Gap> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn count_done(&self, count: u64) {
        self.done.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count_failed(&self, count: u64) {
        self.failed.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn write_acknowledged(&self, now_ns: u64) {
        let before = self.last_write_ns.fetch_max(now_ns, Ordering::Relaxed);
        if before == 0 || now_ns <= before {
            return;
        }
        let gap = now_ns - before;
        self.longest_gap_ns.fetch_max(gap, Ordering::Relaxed);
        if gap >= GAP_LISTED_MIN.as_nanos() as u64 {
            let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
            if gaps.len() < GAPS_LISTED_MAX {
                gaps.push(Gap { from_ns: before, ms: gap / 1_000_000 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_addresses_are_told_once() {
        let (progress, mut seen) = (Progress::default(), 0);
        assert_eq!(progress.moved(&mut seen), None);
        let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
        progress.move_to(vec![address]);
        progress.move_to(Vec::new());
        assert_eq!(progress.moved(&mut seen), Some(vec![address]));
        assert_eq!(progress.moved(&mut seen), None);
    }

    #[test]
    fn gaps_are_between_acknowledged_writes() {
        let progress = Progress::default();
        let ms = 1_000_000;
        for at in [1_000, 1_010, 1_005, 1_310, 1_311] {
            progress.write_acknowledged(at * ms);
        }
        assert_eq!(progress.longest_gap(), Duration::from_millis(300));
        assert_eq!(progress.gaps(), [Gap { from_ns: 1_010 * ms, ms: 300 }]);
        assert_eq!(progress.last_write_ns(), 1_311 * ms);
    }
}
