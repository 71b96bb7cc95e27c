//! Whether a leader answers reads as promptly as it can.
//!
//! One that is asked more than it can answer lets questions wait before it looks at them. A node that asks it sees that by how long
//! answers take beside the quickest of late. Some wait for locks as well; but not most of them.

use core::time::Duration;
use quorate_kernel::Time;

/// How long the quickest answer counts, at least; at most twice as long.
const SPAN: Duration = Duration::from_secs(10);
/// After so long without an answer nothing is known any more.
const STALE: Duration = Duration::from_secs(1);
/// All answers, as a share.
const ALL: u32 = 1 << 16;
/// The last answer counts like so many of those before it.
const WEIGHT: u32 = 16;
/// Of any leader, so many answers in [`ALL`] may be late.
const LATE_MIN: u32 = ALL / 8;
/// No more than this share of the questions goes elsewhere, and one in four goes on telling how prompt the leader is.
const ELSEWHERE_MAX: u32 = ALL / 4 * 3;

/// What answers have told of one leader.
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    /// The quickest answer of this span and of the one before.
    quickest: [Option<Duration>; 2],
    since: Time,
    /// Of the last answers, how many in [`ALL`] were late, about.
    late: u32,
    answered_at: Time,
}

impl Prompt {
    /// An answer came after `took`. It is late if that is longer by more than `slack` than the quickest took, and by three quarters.
    pub(crate) fn answered(&mut self, now: Time, took: Duration, slack: Duration) {
        let old = now.since(self.since);
        if old >= SPAN {
            self.quickest = [None, self.quickest[0].filter(|_| old < SPAN * 2)];
            self.since = now;
        }
        let quickest = self.quickest.iter().flatten().copied().min().map_or(took, |least| least.min(took));
        self.quickest[0] = Some(self.quickest[0].map_or(took, |least| least.min(took)));
        let more = if took > quickest + (quickest * 3 / 4).max(slack) { ALL / WEIGHT } else { 0 };
        self.late = self.late_now(now) / WEIGHT * (WEIGHT - 1) + more;
        self.answered_at = now;
    }

    fn late_now(&self, now: Time) -> u32 {
        self.late(now).unwrap_or_default()
    }

    /// The share of late answers, in 65,536, if some have come of late.
    pub(crate) fn late(&self, now: Time) -> Option<u32> {
        (now.since(self.answered_at) < STALE).then_some(self.late)
    }

    /// The share, in 65,536, of the questions that should go elsewhere: the more of the answers are late, the more, so that
    /// the leader is asked what it can answer. None, if as many are late of the promptest leader there is: then all are busy.
    pub(crate) fn elsewhere(&self, now: Time, promptest: u32) -> u32 {
        if promptest > LATE_MIN {
            return 0;
        }
        (self.late_now(now).saturating_sub(LATE_MIN) * 4).min(ELSEWHERE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLACK: Duration = Duration::from_micros(300);

    fn after(prompt: &mut Prompt, at_ms: u64, count: u64, took_us: u64) -> u32 {
        let at = |number| Time((at_ms * 1_000 + number) * 1_000);
        (0..count).for_each(|number| prompt.answered(at(number), Duration::from_micros(took_us), SLACK));
        prompt.elsewhere(at(count), 0)
    }

    #[test]
    fn the_more_answers_are_late_the_more_is_asked_elsewhere() {
        let mut prompt = Prompt::default();
        assert_eq!(after(&mut prompt, 0, 100, 600), 0);
        assert_eq!(after(&mut prompt, 1, 100, 1_000), 0, "not so much longer");
        assert_eq!(after(&mut prompt, 2, 2, 1_300), 0, "two that had to wait for locks, perhaps");
        let few = after(&mut prompt, 3, 1, 1_300);
        let more = after(&mut prompt, 4, 2, 1_300);
        assert!(few > 0 && more > few && more < ELSEWHERE_MAX, "{few} {more}");
        assert_eq!(after(&mut prompt, 5, 100, 1_300), ELSEWHERE_MAX, "some go on asking it");
        assert_eq!(after(&mut prompt, 6, 100, 600), 0, "it is prompt again");
    }

    #[test]
    fn a_quick_leader_may_be_late_by_a_little() {
        let mut prompt = Prompt::default();
        assert_eq!(after(&mut prompt, 0, 1, 50), 0);
        assert_eq!(after(&mut prompt, 1, 100, 300), 0, "six times, and a quarter of a millisecond");
        assert!(after(&mut prompt, 2, 100, 400) > 0);
    }

    #[test]
    fn where_all_leaders_are_late_no_one_else_is_asked() {
        let mut prompt = Prompt::default();
        after(&mut prompt, 0, 100, 600);
        after(&mut prompt, 1, 100, 1_300);
        let now = Time(2_000_000);
        let late = prompt.late(now).expect("answers have come");
        assert_eq!((prompt.elsewhere(now, 0), prompt.elsewhere(now, late)), (ELSEWHERE_MAX, 0));
        assert_eq!(prompt.late(Time(2_000_000_000)), None);
    }

    #[test]
    fn what_was_long_ago_counts_for_nothing() {
        let mut prompt = Prompt::default();
        after(&mut prompt, 0, 1, 600);
        assert!(after(&mut prompt, 1, 100, 2_000) > 0);
        assert_eq!(prompt.elsewhere(Time(2_000_000_000), 0), 0, "nobody asks any more");
        after(&mut prompt, 30_000, 1, 2_000);
        assert_eq!(after(&mut prompt, 30_001, 100, 2_000), 0, "it is far now, and not slow");
    }
}
