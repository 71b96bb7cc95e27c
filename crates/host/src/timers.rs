//! Named timers: arming a name again replaces it, so a stale one never fires.

use std::collections::{BTreeMap, BTreeSet};

use quorate_kernel::Time;

/// The armed timers of one machine.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    /// When each timer fires, and its place among those of the same instant.
    armed: BTreeMap<T, (Time, u64)>,
    order: BTreeSet<(Time, u64, T)>,
    count: u64,
}

impl<T: Ord + Clone> Timers<T> {
    pub(crate) fn new() -> Self {
        Timers { armed: BTreeMap::new(), order: BTreeSet::new(), count: 0 }
    }

    /// Fires `timer` at `at`, whatever it was set to before.
    pub(crate) fn arm(&mut self, timer: T, at: Time) {
        self.disarm(&timer);
        self.count += 1;
        self.armed.insert(timer.clone(), (at, self.count));
        self.order.insert((at, self.count, timer));
    }

    /// Makes sure that `timer` does not fire.
    pub(crate) fn disarm(&mut self, timer: &T) {
        if let Some((at, count)) = self.armed.remove(timer) {
            // The set wants the whole key, timer included.
            self.order.remove(&(at, count, timer.clone()));
        }
    }

    /// How many are armed.
    pub(crate) fn len(&self) -> usize {
        self.armed.len()
    }

    /// When the next timer fires.
    pub(crate) fn next(&self) -> Option<Time> {
        self.order.first().map(|(at, ..)| *at)
    }

    /// Takes the first timer that is due.
    pub(crate) fn due(&mut self, now: Time) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        let (_, _, timer) = self.order.pop_first()?;
        self.armed.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_in_order_of_time_then_of_arming() {
        let mut timers = Timers::new();
        timers.arm('b', Time(5));
        timers.arm('a', Time(5));
        timers.arm('c', Time(3));
        assert_eq!(timers.next(), Some(Time(3)));
        assert_eq!(timers.due(Time(2)), None);
        assert_eq!(
            (timers.due(Time(5)), timers.due(Time(5)), timers.due(Time(5))),
            (Some('c'), Some('b'), Some('a'))
        );
        assert_eq!((timers.due(Time(9)), timers.next()), (None, None));
    }

    #[test]
    fn arming_again_replaces_and_disarming_removes() {
        let mut timers = Timers::new();
        timers.arm('a', Time(1));
        timers.arm('a', Time(7));
        assert_eq!(timers.due(Time(6)), None);
        timers.arm('b', Time(2));
        timers.disarm(&'b');
        timers.disarm(&'b');
        assert_eq!(timers.due(Time(7)), Some('a'));
        assert_eq!(timers.due(Time(7)), None);
    }
}
