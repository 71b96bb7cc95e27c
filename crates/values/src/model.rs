//! A keyspace in memory, for tests, simulations and whoever wants to run commands without a store.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Bound;
use quorate_api::position_of;

use crate::{Kind, Meta, Space};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    meta: Meta,
    rows: BTreeMap<Bytes, Bytes>,
}

/// A [`Space`] in memory: time stands until it is set, chance comes from a seed.
///
/// It holds callers to the trait's contract: rows of a key that does not exist, or a change of kind without a
/// removal, panic.
#[derive(Debug, Clone)]
pub struct MemorySpace {
    now_ms: u64,
    seed: u64,
    changes: u64,
    entries: BTreeMap<Bytes, Entry>,
    ring: BTreeSet<(u64, Bytes)>,
    expiries: BTreeSet<(u64, Bytes)>,
}

impl MemorySpace {
    /// An empty keyspace at this time, with chance from this seed.
    pub fn new(now_ms: u64, seed: u64) -> Self {
        MemorySpace {
            now_ms,
            seed,
            changes: 0,
            entries: BTreeMap::new(),
            ring: BTreeSet::new(),
            expiries: BTreeSet::new(),
        }
    }

    /// Moves time on; keys that expire by then are gone.
    ///
    /// # Panics
    /// If time would run backwards.
    pub fn set_now_ms(&mut self, now_ms: u64) {
        assert!(now_ms >= self.now_ms, "time runs backwards");
        self.now_ms = now_ms;
        while let Some((expire_ms, key)) = self.expiries.first().cloned() {
            if expire_ms > now_ms {
                break;
            }
            self.forget(&key);
        }
    }

    /// Chance for the next command comes from this seed.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Counts the changes that commands have made, removals of nothing apart; expiry does not count.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Number of rows under a key; 0 if there is no such key.
    pub fn row_count(&self, key: &[u8]) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.rows.len())
    }

    fn forget(&mut self, key: &[u8]) -> bool {
        let Some((key, entry)) = self.entries.remove_entry(key) else { return false };
        if let Some(expire_ms) = entry.meta.expire_ms {
            self.expiries.remove(&(expire_ms, key.clone()));
        }
        self.ring.remove(&(position_of(&key), key));
        true
    }

    fn entry(&mut self, key: &[u8]) -> &mut Entry {
        self.entries.get_mut(key).expect("rows belong to a key that exists")
    }
}

impl Space for MemorySpace {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn random(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood 2014).
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.seed;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn get(&mut self, key: &[u8]) -> Option<Meta> {
        self.entries.get(key).map(|entry| entry.meta.clone())
    }

    fn set(&mut self, key: &[u8], meta: Meta) {
        self.changes += 1;
        let rows = match self.entries.remove(key) {
            Some(old) => {
                assert_eq!(old.meta.kind, meta.kind, "a key changes its kind without being removed");
                if let Some(expire_ms) = old.meta.expire_ms {
                    self.expiries.remove(&(expire_ms, Bytes::copy_from_slice(key)));
                }
                old.rows
            }
            None => BTreeMap::new(),
        };
        let key = Bytes::copy_from_slice(key);
        let expire_ms = meta.expire_ms;
        self.ring.insert((position_of(&key), key.clone()));
        self.entries.insert(key.clone(), Entry { meta, rows });
        if let Some(expire_ms) = expire_ms {
            self.expiries.insert((expire_ms, key.clone()));
            if expire_ms <= self.now_ms {
                self.forget(&key);
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let existed = self.forget(key);
        self.changes += u64::from(existed);
        existed
    }

    fn row(&mut self, key: &[u8], row: &[u8]) -> Option<Bytes> {
        self.entry(key).rows.get(row).cloned()
    }

    fn set_row(&mut self, key: &[u8], row: &[u8], value: Bytes) {
        self.changes += 1;
        self.entry(key).rows.insert(Bytes::copy_from_slice(row), value);
    }

    fn remove_row(&mut self, key: &[u8], row: &[u8]) {
        self.changes += 1;
        self.entry(key).rows.remove(row);
    }

    fn rows(
        &mut self,
        key: &[u8],
        start: &[u8],
        end: Option<&[u8]>,
        reverse: bool,
        rows_max: usize,
    ) -> Vec<(Bytes, Bytes)> {
        if end.is_some_and(|end| end <= start) {
            return Vec::new();
        }
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.entry(key).rows.range::<[u8], _>((Bound::Included(start), end));
        let pair = |(row, value): (&Bytes, &Bytes)| (row.clone(), value.clone());
        if reverse {
            range.rev().take(rows_max).map(pair).collect()
        } else {
            range.take(rows_max).map(pair).collect()
        }
    }

    fn keys(&mut self, from: u64, keys_max: usize) -> (Vec<(Bytes, Kind)>, Option<u64>) {
        let mut found: Vec<(Bytes, Kind)> = Vec::new();
        let mut last = None;
        for (position, key) in self.ring.range((from, Bytes::new())..) {
            if found.len() >= keys_max && last != Some(*position) {
                return (found, Some(*position));
            }
            last = Some(*position);
            found.push((key.clone(), self.entries[key].meta.kind));
        }
        (found, None)
    }

    fn key_count(&mut self) -> u64 {
        self.entries.len() as u64
    }

    fn clear(&mut self) {
        self.changes += 1;
        self.entries.clear();
        self.ring.clear();
        self.expiries.clear();
    }
}
