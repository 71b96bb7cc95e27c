//! A run minute by minute: what its sums hide is when something became slow.

use serde::Serialize;

const MINUTE_NS: u64 = 60_000_000_000;
/// What counts as answered in time.
const IN_TIME_NS: u64 = 1_000_000_000;
/// Minutes that are told apart, more than a week; the last of them takes what comes later.
const MINUTES_MAX: usize = 11_000;

/// Operations that were due in one minute and that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Minute {
    /// How many.
    pub done: u64,
    /// How many of them took no longer than a second from when they were due.
    pub within_1s: u64,
    /// Microseconds that they were under way, all together. Less than they took where they were due before a client was free.
    pub under_way_us: u64,
    /// Microseconds that one of them was under way, at most: how long something stood still.
    pub longest_us: u64,
}

impl Minute {
    /// Counts what another thread has seen of the same minute.
    pub fn add(&mut self, other: &Minute) {
        self.done += other.done;
        self.within_1s += other.within_1s;
        self.under_way_us += other.under_way_us;
        self.longest_us = self.longest_us.max(other.longest_us);
    }
}

/// All minutes of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Minutes(Vec<Minute>);

impl Minutes {
    /// An operation is done that was due so long after the beginning, and was sent and answered so long after that.
    pub(crate) fn count(&mut self, due_ns: u64, sent_after_ns: u64, took_ns: u64) {
        let index = usize::try_from(due_ns / MINUTE_NS).unwrap_or(usize::MAX).min(MINUTES_MAX - 1);
        self.grow(index + 1);
        let under_way_us = took_ns.saturating_sub(sent_after_ns) / 1_000;
        let within_1s = u64::from(took_ns <= IN_TIME_NS);
        let one = Minute { done: 1, within_1s, under_way_us, longest_us: under_way_us };
        self.0[index].add(&one);
    }

    pub(crate) fn merge(&mut self, other: &Minutes) {
        self.grow(other.0.len());
        self.0.iter_mut().zip(&other.0).for_each(|(minute, other)| minute.add(other));
    }

    pub(crate) fn get(&self) -> &[Minute] {
        &self.0
    }

    fn grow(&mut self, length: usize) {
        if self.0.len() < length {
            self.0.resize(length, Minute::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_count_for_the_minute_in_which_they_were_due() {
        let ms = 1_000_000;
        let (mut one, mut other) = (Minutes::default(), Minutes::default());
        one.count(59_999 * ms, 900 * ms, 1_000 * ms);
        other.count(59_000 * ms, 0, 2 * ms);
        other.count(125_000 * ms, 1_990 * ms, 2_000 * ms);
        one.merge(&other);
        let all = [
            Minute { done: 2, within_1s: 2, under_way_us: 102_000, longest_us: 100_000 },
            Minute::default(),
            Minute { done: 1, within_1s: 0, under_way_us: 10_000, longest_us: 10_000 },
        ];
        assert_eq!(one.get(), all);
    }

    #[test]
    fn there_are_not_more_minutes_than_are_told_apart() {
        let mut minutes = Minutes::default();
        minutes.count(u64::MAX, 0, 1);
        minutes.count(u64::MAX - MINUTE_NS, 0, 1);
        assert_eq!((minutes.get().len(), minutes.get()[MINUTES_MAX - 1].done), (MINUTES_MAX, 2));
    }
}
