//! Keys that many requests over several buckets want within a short while.
//!
//! Requests over several buckets that want the same key go one after the other: each bundle of them (decision 0016) waits for
//! the one before it, whichever bucket coordinates that. With a coordinator in each bucket, a cluster with more buckets has more and
//! smaller bundles in the same queue. So those that want a popular key meet at one bucket, whether they have keys there or not,
//! and go as one bundle after the other, each as large as it has to be.

use alloc::vec::Vec;
use quorate_api::position_of;
use quorate_kernel::Time;

use crate::spans::Spans;

/// A key that requests of this node's clients want for the second time within a span or two is popular.
const OFTEN: u32 = 2;
/// Keys of one request that are counted.
const COUNTED_MAX: usize = 64;

/// All requests, as a share.
const ALL: u32 = 1 << 16;
/// If more than so many want something popular, the others are in their way as often as not, and meet them as well.
const MOST: u32 = ALL / 3;
/// The last request counts like so many of those before it.
const WEIGHT: u32 = 16;

/// How often keys were wanted of late, by their positions.
#[derive(Debug, Default)]
pub(crate) struct Popular {
    counts: Spans,
    /// Of the requests that were counted last, how many in [`ALL`] wanted something popular, about.
    share: u32,
}

impl Popular {
    /// Whether one of these keys is popular.
    pub(crate) fn is_popular(&mut self, now: Time, keys: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
        self.counts.turn(now);
        let mut positions = keys.take(COUNTED_MAX).map(|key| position_of(key.as_ref()));
        positions.any(|position| self.counts.count(position) >= OFTEN)
    }

    /// Counts what a request wants; `is_alone`: no other is under way here. Whether it meets others.
    pub(crate) fn want(
        &mut self,
        now: Time,
        keys: impl Iterator<Item = impl AsRef<[u8]>>,
        is_alone: bool,
    ) -> bool {
        self.counts.turn(now);
        let mut wanted: Vec<u64> = keys.take(COUNTED_MAX).map(|key| position_of(key.as_ref())).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut is_popular = false;
        for position in wanted {
            let count = self.counts.now.entry(position).or_default();
            *count = count.saturating_add(1);
            is_popular |= self.counts.count(position) >= OFTEN;
        }
        // One that is alone is in nobody's way, nor was the one before it.
        if !is_alone {
            let more = if is_popular { ALL / WEIGHT } else { 0 };
            self.share = self.share - self.share / WEIGHT + more;
        }
        (is_popular && !is_alone) || self.share >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::KEYS_MAX;

    #[test]
    fn what_is_wanted_often_within_a_while_is_popular() {
        let mut popular = Popular::default();
        let mut want = |ms: u64, keys: &[&str]| popular.want(Time(ms * 1_000_000), keys.iter(), false);
        assert!(!want(0, &["a", "b", "b"]));
        assert!(want(1, &["c", "a"]), "the second time");
        assert!(want(600, &["b"]), "of two spans");
        assert!(!want(1_200, &["a"]), "long ago");
        assert!(!want(5_000, &["b"]), "all of it");
    }

    #[test]
    fn where_many_want_what_is_popular_all_meet() {
        let mut popular = Popular::default();
        let mut key = 0_u64;
        let mut want = |hot: bool, is_alone: bool| {
            key += 1;
            let keys = [key, if hot { 0 } else { u64::MAX - key }].map(u64::to_be_bytes);
            popular.want(Time(0), keys.iter(), is_alone)
        };
        (0..100).for_each(|_| assert!(!want(true, true)));
        assert!(!want(true, true) && !want(false, false), "each was alone");
        (0..8).for_each(|_| assert!(want(true, false)));
        assert!(want(false, false) && want(true, true), "the others are in their way");
        let met = (0..32).filter(|_| want(false, false)).count();
        assert!(met < 16, "{met} met");
        assert!(!want(false, false) && want(true, false), "only those that want it");
    }

    #[test]
    fn it_remembers_so_many_keys() {
        let mut popular = Popular::default();
        for key in 0..100_000_u64 {
            popular.want(Time(0), core::iter::once(key.to_be_bytes()), false);
        }
        assert!(popular.counts.now.len() <= KEYS_MAX && popular.counts.before.len() <= KEYS_MAX);
    }
}
