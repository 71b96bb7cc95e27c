//! As much of a store as transactions of benchmarks need, in memory: what they mean, without any protocol.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::transaction::{Ask, Read, Seen, Transaction, Write};

/// Keys with their values and versions.
#[derive(Debug, Clone, Default)]
pub struct Model {
    values: BTreeMap<Bytes, Seen>,
    versions: BTreeMap<Bytes, u64>,
    writes: u64,
}

/// How a transaction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Its writes are there; these are they.
    Committed(Vec<Write>),
    /// It wanted to leave no trace.
    RolledBack,
    /// It only read.
    Finished,
    /// A key it had read has changed since.
    Outrun,
    /// It could make no sense of what it read.
    Impossible(String),
}

/// A transaction under way, with the versions of what it has read.
#[derive(Debug, Default)]
pub struct Attempt {
    watched: BTreeMap<Bytes, u64>,
}

impl Model {
    /// Reads.
    pub fn read(&self, read: &Read) -> Seen {
        match (read, self.values.get(read.key())) {
            (Read::Version(_), _) => Seen::Nothing,
            (Read::Elements { from, to, .. }, found) => {
                let Some(Seen::Elements(elements)) = found else { return Seen::Elements(Vec::new()) };
                let count = elements.len() as i64;
                let place = |index: i64| if index < 0 { index + count } else { index };
                let (from, to) = (place(*from).max(0), place(*to).min(count - 1));
                let taken = elements.iter().skip(from as usize).take((to - from + 1).max(0) as usize);
                Seen::Elements(taken.cloned().collect())
            }
            (Read::Value(_), found) => found.cloned().unwrap_or(Seen::Nothing),
        }
    }

    /// Writes.
    pub fn apply(&mut self, write: &Write) {
        self.writes += 1;
        self.versions.insert(write.key().clone(), self.writes);
        let slot = self.values.entry(write.key().clone()).or_insert(Seen::Nothing);
        match (write, slot) {
            (Write::Put { value, .. }, slot) => *slot = Seen::Value(value.clone()),
            (Write::Fill { elements, .. }, slot) => *slot = Seen::Elements(elements.clone()),
            (Write::PutAt { offset, value, .. }, slot) => {
                let mut whole = if let Seen::Value(old) = slot { old.to_vec() } else { Vec::new() };
                whole.resize(whole.len().max(offset + value.len()), 0);
                whole[*offset..offset + value.len()].copy_from_slice(value);
                *slot = Seen::Value(whole.into());
            }
            (Write::Push { elements, .. }, Seen::Elements(list)) => list.extend(elements.iter().cloned()),
            (Write::Push { elements, .. }, slot) => *slot = Seen::Elements(elements.clone()),
            (Write::Replace { index, element, .. }, Seen::Elements(list)) if *index < list.len() => {
                list[*index] = element.clone();
            }
            (Write::Replace { .. }, _) => {}
            (Write::Remove { key }, _) => {
                self.values.remove(key);
            }
        }
    }

    /// One step of a transaction; how it ended, if it did. Without `watch` nobody looks whether keys have changed.
    pub fn step(
        &mut self,
        transaction: &mut impl Transaction,
        attempt: &mut Attempt,
        watch: bool,
    ) -> Option<Ended> {
        let is_guarded = watch && transaction.is_guarded();
        match transaction.next() {
            Ask::Read { reads, .. } => {
                for read in reads.iter().filter(|_| is_guarded) {
                    let version = self.version(read.key());
                    attempt.watched.entry(read.key().clone()).or_insert(version);
                }
                let seen = reads.iter().map(|read| self.read(read)).collect();
                transaction.answered(seen);
                None
            }
            Ask::Commit { writes, .. } => {
                if attempt.watched.iter().any(|(key, version)| self.version(key) != *version) {
                    return Some(Ended::Outrun);
                }
                writes.iter().for_each(|write| self.apply(write));
                Some(Ended::Committed(writes))
            }
            Ask::Rollback => Some(Ended::RolledBack),
            Ask::Finish => Some(Ended::Finished),
            Ask::Impossible(why) => Some(Ended::Impossible(why)),
        }
    }

    /// Performs a transaction alone.
    pub fn perform(&mut self, transaction: &mut impl Transaction) -> Ended {
        let mut attempt = Attempt::default();
        loop {
            if let Some(ended) = self.step(transaction, &mut attempt, true) {
                return ended;
            }
        }
    }

    fn version(&self, key: &Bytes) -> u64 {
        self.versions.get(key).copied().unwrap_or_default()
    }
}
