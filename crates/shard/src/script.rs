//! Running the commands of a transaction where its coordinator is, over values that all its shards have lent.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Bound;
use quorate_api::{Command, position_of};
use quorate_commit::LogId;
use quorate_kernel::Rng;
use quorate_values::{Kind, Meta, Space};

use crate::Mutant;
use crate::part::{Change, Decision, Export, Share};
use crate::run::run_on;
use crate::sessions::Limits;

#[derive(Debug, Clone)]
struct Entry {
    meta: Meta,
    rows: BTreeMap<Bytes, Bytes>,
}

/// The keys that the commands see.
#[derive(Debug, Clone, Default)]
struct Keyspace {
    lent: BTreeMap<Bytes, Entry>,
    /// All keys whose names are known, by position.
    ring: BTreeMap<(u64, Bytes), Kind>,
    /// Keys that no command names.
    rest: u64,
}

/// A [`Space`] over what was lent, which writes down what becomes of it.
///
/// What was lent does not expire: its shards hold on to it until the outcome, whatever their clocks say.
struct Workbench {
    now_ms: u64,
    chance: Rng,
    keys: Keyspace,
    /// Who lent a key, there or not.
    owners: BTreeMap<Bytes, LogId>,
    shares: BTreeMap<LogId, Share>,
    bytes: usize,
    /// Whether a key was changed that nobody lent: the parts do not fit the script.
    is_stray: bool,
}

/// What comes of running `script` over what the logs export; `None`: it is longer than a decision may be, or the exports
/// are not those of the script.
pub(crate) fn evaluate(
    me: LogId,
    script: &[(u32, Command)],
    exports: BTreeMap<LogId, Export>,
    limits: &Limits,
) -> Option<Decision> {
    let bytes_max = limits.commit.payload_bytes_max;
    let mut bench = Workbench::new(me, exports);
    let lent = limits.breaks(Mutant::CommandsSeeLoans).then(|| bench.keys.clone());
    let mut replies = Vec::with_capacity(script.len());
    for (number, command) in script {
        if let Some(lent) = &lent {
            bench.keys = lent.clone();
        }
        let reply = run_on(&mut bench, command);
        bench.bytes += reply.size_bytes();
        if bench.bytes > bytes_max || bench.is_stray {
            return None;
        }
        replies.push((*number, reply));
    }
    let now_ms = if script.is_empty() { 0 } else { bench.now_ms };
    Some(Decision { shares: bench.shares, replies, now_ms })
}

impl Workbench {
    fn new(me: LogId, exports: BTreeMap<LogId, Export>) -> Self {
        let seed = exports.get(&me).map_or(0, |export| export.seed);
        // The latest: a time to live counts from when everything was there. All logs take it over with the outcome, so
        // that what has expired by it shows up nowhere again.
        let now_ms = exports.values().map(|export| export.now_ms).max().unwrap_or(0);
        let mut bench = Workbench {
            now_ms,
            chance: Rng::new(seed),
            keys: Keyspace::default(),
            owners: BTreeMap::new(),
            shares: BTreeMap::new(),
            bytes: 0,
            is_stray: false,
        };
        for (log, export) in exports {
            let Export { now_ms, seed, replies, loans, rest, digest } = export;
            bench.shares.insert(log, Share { now_ms, seed, replies, digest, ..Share::default() });
            bench.keys.rest += rest.count;
            for (key, kind) in rest.names {
                bench.keys.ring.insert((position_of(&key), key), kind);
            }
            for (key, loan) in loans {
                if let Some(loan) = loan {
                    bench.keys.ring.insert((position_of(&key), key.clone()), loan.meta.kind);
                    let rows = loan.rows.into_iter().collect();
                    bench.keys.lent.insert(key.clone(), Entry { meta: loan.meta, rows });
                }
                bench.owners.insert(key, log);
            }
        }
        bench
    }

    fn note(&mut self, change: Change) {
        let owner = change.key().and_then(|key| self.owners.get(key)).copied();
        let Some(share) = owner.and_then(|owner| self.shares.get_mut(&owner)) else {
            self.is_stray = true;
            return;
        };
        self.bytes += change.size_bytes();
        share.changes.push(change);
    }

    fn rows_of(&mut self, key: &[u8]) -> &mut BTreeMap<Bytes, Bytes> {
        match self.keys.lent.get_mut(key) {
            Some(entry) => &mut entry.rows,
            None => panic!("rows belong to a key that exists"),
        }
    }
}

impl Space for Workbench {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn random(&mut self) -> u64 {
        self.chance.next_u64()
    }

    fn get(&mut self, key: &[u8]) -> Option<Meta> {
        self.keys.lent.get(key).map(|entry| entry.meta.clone())
    }

    fn set(&mut self, key: &[u8], meta: Meta) {
        let key = Bytes::copy_from_slice(key);
        self.keys.ring.insert((position_of(&key), key.clone()), meta.kind);
        let entry = Entry { meta: meta.clone(), rows: BTreeMap::new() };
        self.keys.lent.entry(key.clone()).or_insert(entry).meta = meta.clone();
        self.note(Change::Set(key, meta));
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let Some((key, _)) = self.keys.lent.remove_entry(key) else { return false };
        self.keys.ring.remove(&(position_of(&key), key.clone()));
        self.note(Change::Remove(key));
        true
    }

    fn row(&mut self, key: &[u8], row: &[u8]) -> Option<Bytes> {
        self.rows_of(key).get(row).cloned()
    }

    fn set_row(&mut self, key: &[u8], row: &[u8], value: Bytes) {
        let row = Bytes::copy_from_slice(row);
        self.rows_of(key).insert(row.clone(), value.clone());
        self.note(Change::SetRow(Bytes::copy_from_slice(key), row, value));
    }

    fn remove_row(&mut self, key: &[u8], row: &[u8]) {
        self.rows_of(key).remove(row);
        self.note(Change::RemoveRow(Bytes::copy_from_slice(key), Bytes::copy_from_slice(row)));
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
        let range = self.rows_of(key).range::<[u8], _>((Bound::Included(start), end));
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
        for ((position, key), kind) in self.keys.ring.range((from, Bytes::new())..) {
            if found.len() >= keys_max && last != Some(*position) {
                return (found, Some(*position));
            }
            last = Some(*position);
            found.push((key.clone(), *kind));
        }
        (found, None)
    }

    fn key_count(&mut self) -> u64 {
        self.keys.rest + self.keys.lent.len() as u64
    }

    fn clear(&mut self) {
        self.keys = Keyspace::default();
        let changes = self.shares.values_mut().map(|share| &mut share.changes);
        changes.for_each(|changes| changes.push(Change::Clear));
    }
}
