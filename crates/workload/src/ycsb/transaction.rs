//! A group of YCSB's operations, as a transaction.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Operation;
use crate::transaction::{Ask, Read, Seen, Transaction, Write};

/// The kinds of rounds and of whole transactions, as numbers of [`super::KINDS`].
const GROUPED: usize = 6;

/// How operations are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Not at all: each operation is one command, a read-modify-write two.
    None,
    /// One after the other, as a client asks that decides as it goes; the writes wait for the end, when nothing that
    /// was touched may have changed.
    Optimistic,
    /// All at one moment: reads and writes are sent together.
    OneShot,
}

/// Operations under way.
#[derive(Debug, Clone)]
pub struct YcsbTransaction {
    group: Group,
    operations: Vec<Operation>,
    /// Which is next.
    at: usize,
    /// Keys that were asked for.
    held: BTreeSet<Bytes>,
    /// Records of a plain read or scan that were not there.
    missing: u64,
}

impl YcsbTransaction {
    pub(super) fn new(operations: Vec<Operation>, group: Group) -> YcsbTransaction {
        YcsbTransaction { group, operations, at: 0, held: BTreeSet::new(), missing: 0 }
    }

    /// The numbers of records it inserts.
    pub fn inserts(&self) -> impl Iterator<Item = u64> + '_ {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Insert { number, .. } => Some(*number),
            _ => None,
        })
    }

    /// How many records it asked for that were not there.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    fn commit(&mut self) -> Ask {
        let writes = self.operations.iter().filter_map(write_of).collect();
        let reads = match self.group {
            Group::OneShot => self.operations.iter().flat_map(reads_of).collect(),
            Group::None | Group::Optimistic => Vec::new(),
        };
        Ask::Commit { reads, writes }
    }
}

fn kind_of(operation: &Operation) -> usize {
    match operation {
        Operation::Read(_) => 0,
        Operation::Update { .. } => 1,
        Operation::Insert { .. } => 2,
        Operation::Scan(_) => 3,
        Operation::Modify { .. } => 4,
    }
}

fn write_of(operation: &Operation) -> Option<Write> {
    match operation {
        Operation::Read(_) | Operation::Scan(_) => None,
        Operation::Update { key, offset, value } | Operation::Modify { key, offset, value } => {
            Some(Write::PutAt { key: key.clone(), offset: *offset, value: value.clone() })
        }
        Operation::Insert { key, value, .. } => Some(Write::Put { key: key.clone(), value: value.clone() }),
    }
}

/// What has to be read before the writes. A blind write needs the version of its key.
fn reads_of(operation: &Operation) -> Vec<Read> {
    match operation {
        Operation::Read(key) | Operation::Modify { key, .. } => vec![Read::Value(key.clone())],
        Operation::Scan(keys) => keys.iter().cloned().map(Read::Value).collect(),
        Operation::Update { key, .. } | Operation::Insert { key, .. } => vec![Read::Version(key.clone())],
    }
}

impl Transaction for YcsbTransaction {
    fn kind(&self) -> usize {
        match (self.group, self.operations.first()) {
            (Group::None, Some(operation)) => kind_of(operation),
            _ => GROUPED,
        }
    }

    fn operations(&self) -> u64 {
        self.operations.len() as u64
    }

    fn is_write(&self) -> bool {
        self.operations.iter().any(|operation| write_of(operation).is_some())
    }

    fn is_guarded(&self) -> bool {
        self.group == Group::Optimistic
    }

    fn next(&mut self) -> Ask {
        if self.group == Group::OneShot {
            return self.commit();
        }
        while let Some(operation) = self.operations.get(self.at) {
            self.at += 1;
            let mut reads = reads_of(operation);
            reads.retain(|read| {
                let is_needed = self.group == Group::Optimistic || !matches!(read, Read::Version(_));
                is_needed && self.held.insert(read.key().clone())
            });
            if !reads.is_empty() {
                let kind = (self.group == Group::Optimistic).then(|| kind_of(operation));
                return Ask::Read { reads, kind };
            }
        }
        if self.group == Group::None && !self.is_write() { Ask::Finish } else { self.commit() }
    }

    fn answered(&mut self, seen: Vec<Seen>) {
        let Some(Operation::Read(_) | Operation::Scan(_) | Operation::Modify { .. }) =
            self.operations.get(self.at.wrapping_sub(1))
        else {
            return;
        };
        self.missing += seen.iter().filter(|seen| **seen == Seen::Nothing).count() as u64;
    }
}
