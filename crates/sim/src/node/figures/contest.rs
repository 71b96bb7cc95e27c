//! Transactions that want what others want: under the worst skew, to see how long anybody has to wait.
//!
//! Each reads all of its keys and writes all of them, so that any two that share a key are in each other's way.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::rc::Rc;

use bytes::Bytes;
use quorate_api::{Bucket, key_in_slot};
use quorate_kernel::Rng;
use quorate_workload::transaction::{Ask, Read, Seen, Transaction, Write};
use quorate_workload::ycsb::{Zipfian, scatter};

/// Names of its kinds of transactions.
pub(super) const KINDS: [&str; 2] = ["short", "long"];
/// Records of which unpopular keys are drawn.
const RECORDS: u64 = 1_000_000;
/// Keys of a short transaction.
const KEYS: usize = 5;

/// Which keys are wanted by many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skew {
    /// All want the same five keys, each of another bucket.
    Same,
    /// Zipfian 0.99 over a million.
    Zipfian,
    /// All want one key, and others that few want.
    Hot,
}

impl Skew {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Skew::Same => "same-five",
            Skew::Zipfian => "zipfian",
            Skew::Hot => "one-key",
        }
    }
}

/// Where a client's transactions come from.
#[derive(Debug)]
pub(super) struct Contestants {
    skew: Skew,
    keys: usize,
    optimistic: bool,
    buckets: NonZeroU16,
    popular: Rc<Zipfian>,
    rng: Rng,
}

impl Contestants {
    /// For each of some clients. Every eighth wants `long` keys at once, unless that is 0.
    pub(super) fn all(
        (skew, long): (Skew, usize),
        clients: usize,
        optimistic: bool,
        buckets: NonZeroU16,
        rng: &mut Rng,
    ) -> Vec<Contestants> {
        let popular = Rc::new(Zipfian::new(RECORDS));
        let one = |number: usize| {
            let keys = if long > 0 && number.is_multiple_of(8) { long } else { KEYS };
            let (popular, rng) = (popular.clone(), rng.fork());
            Contestants { skew, keys, optimistic, buckets, popular, rng }
        };
        (0..clients).map(one).collect()
    }

    pub(super) fn next(&mut self) -> Contest {
        let mut keys = BTreeSet::new();
        match self.skew {
            Skew::Same => {
                let buckets = (0..self.buckets.get()).map(Bucket).cycle().zip(0..KEYS as u16);
                keys.extend(buckets.map(|(bucket, turn)| {
                    let slots = bucket.slots(self.buckets);
                    Bytes::copy_from_slice(&key_in_slot(slots.start + turn))
                }));
            }
            Skew::Hot => {
                keys.insert(Bytes::from_static(b"hot"));
            }
            Skew::Zipfian => {}
        }
        while keys.len() < self.keys {
            let record = match self.skew {
                Skew::Zipfian => self.popular.draw(&mut self.rng),
                Skew::Same | Skew::Hot => self.rng.below(RECORDS),
            };
            keys.insert(Bytes::from(format!("user{}", scatter(record))));
        }
        let is_long = self.keys > KEYS;
        Contest { keys: keys.into_iter().collect(), is_long, optimistic: self.optimistic, has_read: false }
    }
}

/// One transaction.
#[derive(Debug, Clone)]
pub(super) struct Contest {
    keys: Vec<Bytes>,
    is_long: bool,
    optimistic: bool,
    has_read: bool,
}

impl Contest {
    fn reads(&self) -> Vec<Read> {
        self.keys.iter().cloned().map(Read::Value).collect()
    }
}

impl Transaction for Contest {
    fn kind(&self) -> usize {
        usize::from(self.is_long)
    }

    fn operations(&self) -> u64 {
        self.keys.len() as u64
    }

    fn is_write(&self) -> bool {
        true
    }

    fn is_guarded(&self) -> bool {
        self.optimistic
    }

    fn next(&mut self) -> Ask {
        if self.optimistic && !self.has_read {
            return Ask::Read { reads: self.reads(), kind: None };
        }
        let reads = if self.optimistic { Vec::new() } else { self.reads() };
        let write = |key: &Bytes| Write::Put { key: key.clone(), value: Bytes::from_static(b"contents") };
        Ask::Commit { reads, writes: self.keys.iter().map(write).collect() }
    }

    fn answered(&mut self, _: Vec<Seen>) {
        self.has_read = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(skew: Skew, optimistic: bool) -> Vec<Contest> {
        let five = NonZeroU16::MIN.saturating_add(4);
        let mut all = Contestants::all((skew, 40), 16, optimistic, five, &mut Rng::new(1));
        all.iter_mut().map(Contestants::next).collect()
    }

    #[test]
    fn every_eighth_is_long_and_all_share_what_is_popular() {
        let hot = drawn(Skew::Hot, false);
        assert_eq!(hot.iter().filter(|one| one.is_long && one.keys.len() == 40).count(), 2);
        assert!(hot.iter().all(|one| one.keys.contains(&Bytes::from_static(b"hot"))));
        let same = drawn(Skew::Same, false);
        assert!(same[1..8].iter().all(|one| one.keys == same[1].keys));
        let five = NonZeroU16::MIN.saturating_add(4);
        let buckets: BTreeSet<Bucket> = same[1].keys.iter().map(|key| Bucket::of_key(key, five)).collect();
        assert_eq!(buckets.len(), 5);
        assert!(drawn(Skew::Zipfian, false).iter().all(|one| one.keys.len() >= KEYS));
    }

    #[test]
    fn who_watches_reads_first() {
        let mut one = drawn(Skew::Hot, true).remove(1);
        assert!(matches!(one.next(), Ask::Read { reads, .. } if reads.len() == KEYS));
        one.answered(Vec::new());
        assert!(
            matches!(one.next(), Ask::Commit { reads, writes } if reads.is_empty() && writes.len() == KEYS)
        );
    }
}
