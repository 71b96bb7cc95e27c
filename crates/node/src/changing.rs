//! Keys that change while they are read.
//!
//! A request that reads several buckets asks each of them again and again until nothing has changed in between (`collect.rs`). Some keys change more often than
//! that can be asked. A node remembers for a moment which, by what its clients' requests met.

use quorate_kernel::Time;

use crate::spans::Spans;

/// A key changes all the time once it was seen to change so many times more than not.
const OFTEN: u32 = 2;
/// No more than this is remembered of it, so that a key that rests is soon known to.
const MOST: u32 = 4;
/// How often keys changed of late while they were read, by their positions.
#[derive(Debug, Default)]
pub(crate) struct Changing(Spans);

impl Changing {
    /// Whether no key is known to change.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A key was read twice, and had changed in between or not.
    pub(crate) fn saw(&mut self, now: Time, position: u64, has_changed: bool) {
        self.0.turn(now);
        let count = self.count(position);
        if has_changed {
            self.0.now.insert(position, MOST.min(count + 1));
        } else if count > 0 {
            self.0.now.insert(position, count - 1);
        }
    }

    /// Whether a key changes all the time.
    pub(crate) fn is_restless(&mut self, now: Time, position: u64) -> bool {
        self.0.turn(now);
        self.count(position) >= OFTEN
    }

    fn count(&self, position: u64) -> u32 {
        let counted = self.0.now.get(&position).or_else(|| self.0.before.get(&position));
        counted.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::KEYS_MAX;

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
        assert!(changing.0.now.len() <= KEYS_MAX && changing.0.before.len() <= KEYS_MAX);
        (200_000..300_000).for_each(|position| changing.saw(ms(0), position, false));
        assert!(changing.count(200_000) == 0, "of what does not change nothing");
    }
}
