//! Strict serializability from versions: since each committed change gives its key the next version, the history of versions
//! is the whole graph of who must come before whom. Time adds its own arrows. There must be no cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_commit::{LogId, TransactionId};

use crate::Verdict;

type Key = (LogId, u8);

/// What committed transactions read and wrote, and when their clients waited.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Who made this version of the key.
    writers: BTreeMap<(Key, u64), TransactionId>,
    readers: BTreeMap<(Key, u64), BTreeSet<TransactionId>>,
    spans: BTreeMap<TransactionId, (Duration, Option<Duration>)>,
    committed: BTreeSet<TransactionId>,
}

impl Order {
    /// `id` found `key` in `version`, and made the next one if it `writes`.
    pub(super) fn did(&mut self, id: TransactionId, key: Key, version: u64, writes: bool) {
        self.committed.insert(id);
        self.readers.entry((key, version)).or_default().insert(id);
        if writes {
            self.writers.insert((key, version + 1), id);
        }
    }

    /// Its client waited from `start` to `end`, or for ever. Of several, as those of a bundle, all did: it happens after the
    /// last of them began to wait and before the first was told.
    pub(super) fn ran(&mut self, id: TransactionId, start: Duration, end: Option<Duration>) {
        let known = self.spans.entry(id).or_insert((start, end));
        known.0 = known.0.max(start);
        known.1 = known.1.into_iter().chain(end).min();
    }

    /// How many were committed.
    pub(super) fn committed(&self) -> usize {
        self.committed.len()
    }

    /// Looks for a cycle.
    pub(super) fn check(&self) -> Verdict {
        let mut after: BTreeMap<TransactionId, BTreeSet<TransactionId>> = BTreeMap::new();
        let mut arrow = |from: TransactionId, to: TransactionId| {
            if from != to {
                after.entry(from).or_default().insert(to);
            }
        };
        for ((key, version), readers) in &self.readers {
            for reader in readers {
                if let Some(writer) = self.writers.get(&(*key, *version)) {
                    arrow(*writer, *reader);
                }
                if let Some(next) = self.writers.get(&(*key, version + 1)) {
                    arrow(*reader, *next);
                }
            }
        }
        for one in &self.committed {
            let Some((_, Some(end))) = self.spans.get(one) else { continue };
            for other in &self.committed {
                if self.spans.get(other).is_some_and(|(start, _)| start > end) {
                    arrow(*one, *other);
                }
            }
        }
        self.sort(&after)
    }

    /// Takes away whoever nobody must come before, until nobody is left.
    fn sort(&self, after: &BTreeMap<TransactionId, BTreeSet<TransactionId>>) -> Verdict {
        let mut before: BTreeMap<TransactionId, usize> = self.committed.iter().map(|id| (*id, 0)).collect();
        for id in after.values().flatten() {
            *before.entry(*id).or_default() += 1;
        }
        let mut free: Vec<TransactionId> =
            before.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
        while let Some(id) = free.pop() {
            before.remove(&id);
            for next in after.get(&id).into_iter().flatten() {
                let Some(count) = before.get_mut(next) else { continue };
                *count -= 1;
                if *count == 0 {
                    free.push(*next);
                }
            }
        }
        if before.is_empty() {
            return Ok(());
        }
        Err(format!("T6: no order explains {:?}", before.keys().collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(age: u64) -> TransactionId {
        TransactionId { age, origin: 0, sequence: 0 }
    }

    #[test]
    fn orders_are_accepted_and_cycles_are_not() {
        let (x, y) = ((LogId(1), 0), (LogId(2), 0));
        let mut order = Order::default();
        order.did(id(1), x, 0, true);
        order.did(id(2), x, 1, false);
        order.did(id(2), y, 0, true);
        assert_eq!(order.check(), Ok(()));
        let mut skew = Order::default();
        skew.did(id(1), x, 0, false);
        skew.did(id(1), y, 0, true);
        skew.did(id(2), y, 0, false);
        skew.did(id(2), x, 0, true);
        assert!(skew.check().is_err());
        order.ran(id(2), Duration::from_secs(1), Some(Duration::from_secs(2)));
        assert_eq!(order.check(), Ok(()));
        order.ran(id(1), Duration::from_secs(3), None);
        assert!(order.check().is_err(), "the second ended before the first began");
    }
}
