//! Keys that change while they are read.
//!
//! A request that reads several buckets asks each of them again and again until nothing has changed in between (`collect.rs`). Some keys change more often than
//! that can be asked. A node remembers for a moment which, by what its clients' requests met.

use alloc::collections::BTreeMap;
use core::time::Duration;
use quorate_kernel::Time;

/// What was seen in one span is kept as long again.
const SPAN: Duration = Duration::from_millis(500);
/// A key changes all the time once it was seen to change so many times more than not.
const OFTEN: u8 = 2;
/// No more than this is remembered of it, so that a key that rests is soon known to.
const MOST: u8 = 4;
/// Keys that are remembered of one span. What comes beyond begins another.
const KEYS_MAX: usize = 8_192;

/// How often keys changed of late while they were read, by their positions.
#[derive(Debug, Default)]
pub(crate) struct Changing {
    now: BTreeMap<u64, u8>,
    before: BTreeMap<u64, u8>,
    since: Time,
}

impl Changing {
    /// A key was read twice, and had changed in between or not.
    pub(crate) fn saw(&mut self, now: Time, position: u64, has_changed: bool) {
        self.turn(now);
        let count = self.count(position);
        if has_changed {
            self.now.insert(position, MOST.min(count + 1));
        } else if count > 0 {
            self.now.insert(position, count - 1);
        }
    }

    /// Whether a key changes all the time.
    pub(crate) fn is_restless(&mut self, now: Time, position: u64) -> bool {
        self.turn(now);
        self.count(position) >= OFTEN
    }

    fn count(&self, position: u64) -> u8 {
        let counted = self.now.get(&position).or_else(|| self.before.get(&position));
        counted.copied().unwrap_or_default()
    }

    fn turn(&mut self, now: Time) {
        let old = now.since(self.since);
        if old >= SPAN || self.now.len() >= KEYS_MAX {
            let last = core::mem::take(&mut self.now);
            self.before = if old < SPAN * 2 { last } else { BTreeMap::new() };
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(at: u64) -> Time {
        Time(at * 1_000_000)
    }

    #[test]
    fn what_changes_more_often_than_not_is_restless_for_a_while() {
        let mut changing = Changing::default();
        changing.saw(ms(0), 7, true);
        assert!(!changing.is_restless(ms(0), 7), "once");
        changing.saw(ms(1), 7, false);
        changing.saw(ms(2), 7, true);
        assert!(!changing.is_restless(ms(2), 7), "as often as not");
        changing.saw(ms(3), 7, true);
        assert!(changing.is_restless(ms(3), 7) && changing.is_restless(ms(600), 7));
        assert!(!changing.is_restless(ms(3), 8), "another key");
        assert!(!changing.is_restless(ms(1_200), 7), "it may have come to rest");
    }

    #[test]
    fn what_rests_is_soon_known_to() {
        let mut changing = Changing::default();
        (0..100).for_each(|at| changing.saw(ms(at), 7, true));
        (100..102).for_each(|at| changing.saw(ms(at), 7, false));
        assert!(changing.is_restless(ms(102), 7));
        changing.saw(ms(103), 7, false);
        assert!(!changing.is_restless(ms(103), 7));
    }

    #[test]
    fn it_remembers_so_many_keys() {
        let mut changing = Changing::default();
        (0..100_000).for_each(|position| changing.saw(ms(0), position, true));
        assert!(changing.now.len() <= KEYS_MAX && changing.before.len() <= KEYS_MAX);
        (200_000..300_000).for_each(|position| changing.saw(ms(0), position, false));
        assert!(changing.count(200_000) == 0, "of what does not change nothing");
    }
}
