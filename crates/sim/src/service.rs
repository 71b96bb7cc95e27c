//! How long nodes work on what reaches them: workers that take messages and requests in the order in which they came.
//!
//! Without it a step takes no time, which is right for looking for mistakes and wrong for figures: nothing would ever queue.
//! A message, or an input from outside, occupies a worker for a drawn time; its step happens, and its effects leave, at the
//! end of that. Steps of one node happen in the order in which their events came, as if several threads read and decoded for
//! one machine: a connection keeps its order whatever the draws are. Timers and what a node sends to itself cost nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use quorate_kernel::Rng;

use crate::Latency;

/// What work costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Events that a node works on at the same time; at least one. 1 is a single loop.
    pub workers: usize,
    /// How long one of them takes, with no more than a KiB in it.
    pub time: Latency,
    /// How much longer for each further KiB: what goes together is still worked on one by one.
    pub kib: Duration,
    /// Whether what comes from outside waits until no message of another node does, as in the host's turns.
    pub peers_first: bool,
}

impl Service {
    /// Machines like those of SconeKV's evaluation: eight workers, 0.1 to 0.2 ms for a message, whatever is in it.
    pub fn eight_workers() -> Service {
        let time = Latency::Uniform(Duration::from_micros(100), Duration::from_micros(200));
        Service { workers: 8, time, kib: Duration::ZERO, peers_first: false }
    }

    fn takes(&self, bytes: usize, rng: &mut Rng) -> u64 {
        let further = self.kib.as_nanos() as u64 * (bytes as u64).saturating_sub(1_024) / 1_024;
        self.time.draw(rng) + further
    }
}

/// The workers of one node.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// When each that has ever worked is free.
    free: BinaryHeap<Reverse<u64>>,
    /// When the newest event is done.
    last: u64,
    /// Events that are not done.
    pub(crate) waiting: usize,
    /// Worked so far, by all together.
    pub(crate) busy: u64,
}

impl Workers {
    /// Something of so many bytes has come: when it is done.
    pub(crate) fn take(&mut self, service: &Service, now: u64, bytes: usize, rng: &mut Rng) -> u64 {
        let takes = service.takes(bytes, rng);
        let free = match self.free.len() < service.workers.max(1) {
            true => 0,
            false => self.free.pop().map_or(0, |Reverse(free)| free),
        };
        let done = free.max(now).saturating_add(takes);
        self.free.push(Reverse(done));
        self.last = self.last.max(done);
        self.waiting += 1;
        self.busy += takes;
        self.last
    }

    /// The node died: its workers have nothing to do.
    pub(crate) fn die(&mut self) {
        *self = Workers { busy: self.busy, ..Workers::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(workers: usize, arrivals: &[u64]) -> Vec<u64> {
        let service = Service {
            workers,
            time: Latency::Constant(Duration::from_nanos(10)),
            ..Service::eight_workers()
        };
        let (mut all, mut rng) = (Workers::default(), Rng::new(1));
        arrivals.iter().map(|now| all.take(&service, *now, 0, &mut rng)).collect()
    }

    #[test]
    fn whoever_finds_all_busy_waits_for_the_first_that_is_free() {
        assert_eq!(done(1, &[0, 0, 5, 100]), [10, 20, 30, 110]);
        assert_eq!(done(2, &[0, 4, 5, 6, 100]), [10, 14, 20, 24, 110]);
        assert_eq!(done(8, &[0, 0, 0]), [10, 10, 10]);
    }

    #[test]
    fn order_is_kept_though_draws_differ_and_work_is_counted() {
        let (mut workers, mut rng) = (Workers::default(), Rng::new(7));
        let service = Service::eight_workers();
        let done: Vec<u64> =
            (0..1_000).map(|now| workers.take(&service, now * 20_000, 0, &mut rng)).collect();
        assert!(done.is_sorted());
        assert!((140_000_000..160_000_000).contains(&workers.busy), "{}", workers.busy);
        assert_eq!(workers.waiting, 1_000, "nobody said that they were done");
        workers.die();
        assert_eq!((workers.waiting, workers.take(&service, 0, 0, &mut rng) < 200_001), (0, true));
    }

    #[test]
    fn what_goes_together_takes_longer() {
        let service = Service { kib: Duration::from_nanos(1_024), ..Service::eight_workers() };
        let mut both = (Rng::new(3), Rng::new(3));
        let one = service.takes(1_024, &mut both.0);
        assert_eq!((service.takes(0, &mut both.1), service.takes(1_034, &mut Rng::new(3))), (one, one + 10));
    }
}
