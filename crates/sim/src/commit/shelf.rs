//! What transactions are about in these worlds: a few keys with versions and lists of labels, and their locks.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use quorate_commit::locks::{LockTable, Mode, Taken, Want};
use quorate_commit::{Attempt, LogId, Mutant, Resources, Transaction, TransactionId, Verdict};
use quorate_kernel::wire;
use serde::{Deserialize, Serialize};

/// What a transaction does with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Reads it.
    Read,
    /// Reads it and appends its label.
    Append,
    /// Removes it.
    Remove,
}

/// One key of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The key.
    pub key: u8,
    /// What is done with it.
    pub act: Act,
    /// The version it must have; `None`: any.
    pub expected: Option<u64>,
    /// What is appended.
    pub label: u64,
    /// Of a bundle: whose it is.
    pub member: usize,
}

/// What a transaction does at one log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// To be aborted by the coordinator if a key that it looks at does not exist.
    pub needs_all: bool,
    /// What it does.
    pub items: Vec<Item>,
}

impl Part {
    /// The part of `transaction` at this log; nothing for a tombstone.
    pub fn of(transaction: &Transaction) -> Part {
        Part::decode(&transaction.part)
    }

    /// Reads a part.
    pub fn decode(bytes: &Bytes) -> Part {
        if bytes.is_empty() {
            return Part::default();
        }
        wire::decode(bytes).expect("parts are ours")
    }

    /// The part as bytes.
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }

    /// What its items find one after the other.
    pub fn finds(&self, id: TransactionId, cells: &BTreeMap<u8, Cell>) -> Export {
        let mut changed: BTreeMap<u8, Cell> = BTreeMap::new();
        let items = self.items.iter().map(|item| {
            let fresh = || cells.get(&item.key).cloned().unwrap_or_default();
            let cell = changed.entry(item.key).or_insert_with(fresh);
            let found = Found { member: item.member, key: item.key, cell: cell.clone() };
            cell.change(item.act, item.label, id);
            found
        });
        items.collect()
    }

    /// Whether two parts may not hold their locks together.
    pub fn clashes(&self, other: &Part) -> bool {
        self.items.iter().any(|one| {
            other.items.iter().any(|two| one.key == two.key && (one.act != Act::Read || two.act != Act::Read))
        })
    }

    fn wants(&self) -> Vec<Want<u8>> {
        let mode = |act| if act == Act::Read { Mode::Read } else { Mode::Write };
        let wants = self.items.iter();
        wants.map(|item| Want { key: item.key, mode: mode(item.act), expected: item.expected }).collect()
    }
}

/// A key's value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Counts changes, removals too.
    pub version: u64,
    /// Whether it exists.
    pub exists: bool,
    /// Labels of those that appended, in order.
    pub labels: Vec<u64>,
    /// Who changed it last.
    pub by: Option<TransactionId>,
}

impl Cell {
    /// What the act of `id` makes of it.
    pub fn change(&mut self, act: Act, label: u64, id: TransactionId) {
        match act {
            Act::Read => return,
            Act::Append => {
                self.exists = true;
                self.labels.push(label);
            }
            Act::Remove => {
                self.exists = false;
                self.labels.clear();
            }
        }
        self.version += 1;
        self.by = Some(id);
    }
}

/// A key as one that looked at it found it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Of a bundle: which member looked.
    pub member: usize,
    /// The key.
    pub key: u8,
    /// What stood there.
    pub cell: Cell,
}

/// What a log exports: its keys as they were under locks, and for later members of a bundle as earlier ones leave them.
pub type Export = Vec<Found>;
/// What a coordinator decides: all that was exported.
pub type Decision = BTreeMap<LogId, Export>;

/// What a parent may do or leave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ways {
    /// Locks are given to others while an outcome is on its way into the log.
    pub hands_over: bool,
    /// Locks alone keep what was found, so that the vote of whoever decides need not be in the log before the decision.
    pub stays: bool,
}

/// Keys and locks of one bucket.
#[derive(Debug)]
pub struct Shelf {
    cells: BTreeMap<u8, Cell>,
    locks: LockTable<u8>,
    /// Overtaken by what was carried out, and not told yet.
    overtaken: BTreeSet<TransactionId>,
    /// Whether versions are looked at a while after the locks are taken.
    slow: bool,
    /// Locked, and to be looked at.
    pub(super) unchecked: Vec<Transaction>,
    ways: Ways,
    /// These outcomes, and what they do.
    ahead: Vec<(TransactionId, Part)>,
    mutant: Option<Mutant>,
}

impl Shelf {
    /// An empty one.
    pub fn new(keys_max: usize, slow: bool, ways: Ways, mutant: Option<Mutant>) -> Self {
        let locks = LockTable::new(keys_max);
        #[cfg(feature = "mutants")]
        let locks = locks.broken(mutant);
        Shelf {
            cells: BTreeMap::new(),
            locks,
            overtaken: BTreeSet::new(),
            slow,
            unchecked: Vec::new(),
            ways,
            ahead: Vec::new(),
            mutant,
        }
    }

    /// The keys.
    pub fn cells(&self) -> &BTreeMap<u8, Cell> {
        &self.cells
    }

    /// The locks.
    pub fn locks(&self) -> &LockTable<u8> {
        &self.locks
    }

    /// The keys as the outcomes on their way leave them.
    fn coming(&self) -> Cow<'_, BTreeMap<u8, Cell>> {
        let mut cells = Cow::Borrowed(&self.cells);
        for (id, part) in self.ahead.iter().filter(|_| self.mutant != Some(Mutant::OutcomesUnseen)) {
            for item in &part.items {
                cells.to_mut().entry(item.key).or_default().change(item.act, item.label, *id);
            }
        }
        cells
    }

    /// What is not as it must be.
    fn mismatch(&self, part: &Part) -> Option<Attempt> {
        let coming = self.coming();
        let cell = |key| coming.get(&key).cloned().unwrap_or_default();
        let wrong = part
            .items
            .iter()
            .find(|item| item.expected.is_some_and(|expected| cell(item.key).version != expected))?;
        let resource = Bytes::from(format!("k{}", wrong.key));
        Some(Attempt::Refused { resource, by: cell(wrong.key).by })
    }

    /// Looks at versions with the locks held.
    pub(super) fn verify(&self, transaction: &Transaction) -> Attempt {
        let part = Part::of(transaction);
        let mismatch = self.mismatch(&part).filter(|_| self.mutant != Some(Mutant::CheckThenLock));
        mismatch.unwrap_or_else(|| {
            let export = wire::encode(&part.finds(transaction.id, &self.coming())).into();
            Attempt::Ready { export, stays: self.ways.stays }
        })
    }
}

impl Resources for Shelf {
    fn prepare(&mut self, transaction: &Transaction) -> Attempt {
        let part = Part::of(transaction);
        let checks = self.mutant != Some(Mutant::CheckThenLock) || !self.locks.waits(transaction.id);
        if let Some(refused) = self.mismatch(&part).filter(|_| checks) {
            return refused;
        }
        match self.locks.try_all(transaction.id, &part.wants()) {
            Taken::Full => Attempt::Full,
            Taken::Waits(owners) => Attempt::Waits(owners),
            Taken::All if self.slow => {
                self.unchecked.push(transaction.clone());
                Attempt::Later
            }
            Taken::All => self.verify(transaction),
        }
    }

    fn relock(&mut self, transaction: &Transaction) {
        self.locks.relock(transaction.id, &Part::of(transaction).wants());
    }

    fn wait(&mut self, transaction: &Transaction) -> Vec<TransactionId> {
        self.locks.wait(transaction.id, &Part::of(transaction).wants())
    }

    fn hand_over(&mut self, transaction: &Transaction, commits: bool) -> Vec<TransactionId> {
        if !self.ways.hands_over {
            return Vec::new();
        }
        if commits {
            self.ahead.push((transaction.id, Part::of(transaction)));
        }
        self.unchecked.retain(|unchecked| unchecked.id != transaction.id);
        self.locks.release(transaction.id)
    }

    fn release(&mut self, id: TransactionId) -> Vec<TransactionId> {
        self.ahead.retain(|(other, _)| *other != id);
        self.unchecked.retain(|transaction| transaction.id != id);
        let mut woken = self.locks.release(id);
        woken.extend(std::mem::take(&mut self.overtaken).into_iter().filter(|other| *other != id));
        woken
    }

    fn decide(&mut self, transaction: &Transaction, exports: &BTreeMap<LogId, Bytes>) -> Verdict {
        let decode = |bytes: &Bytes| match bytes.is_empty() {
            true => Export::new(),
            false => wire::decode(bytes).expect("exports are ours"),
        };
        let decision: Decision = exports.iter().map(|(log, bytes)| (*log, decode(bytes))).collect();
        let absent = decision.values().flatten().any(|found| !found.cell.exists);
        if absent && Part::of(transaction).needs_all {
            return Verdict::Abort(Bytes::from_static(b"absent"));
        }
        Verdict::Commit(wire::encode(&decision).into())
    }

    fn carry_out(&mut self, transaction: &Transaction, _: &Bytes) {
        let part = Part::of(transaction);
        for item in &part.items {
            let cell = self.cells.entry(item.key).or_default();
            cell.change(item.act, item.label, transaction.id);
            let version = cell.version;
            if self.mutant == Some(Mutant::VersionsRestart) && item.act == Act::Remove {
                self.cells.remove(&item.key);
            }
            if item.act != Act::Read {
                self.overtaken.extend(self.locks.overtaken(&item.key, version));
            }
        }
    }

    fn share(&mut self, decision: &Bytes, to: LogId) -> Bytes {
        let mut whole: Decision = wire::decode(decision).expect("decisions are ours");
        whole.retain(|log, _| *log == to);
        wire::encode(&whole).into()
    }

    fn bundle(&mut self, parts: &[(usize, Bytes)]) -> Bytes {
        let items = parts.iter().flat_map(|(member, part)| {
            let items = Part::decode(part).items.into_iter();
            items.map(|item| Item { member: *member, ..item })
        });
        Part { needs_all: false, items: items.collect() }.encode()
    }

    fn excerpts(&mut self, _: TransactionId, decision: &Bytes, count: usize) -> Vec<Bytes> {
        let whole: Decision = wire::decode(decision).expect("decisions are ours");
        let of = |member| -> Decision {
            let his = |found: &&Found| found.member == member;
            let alone = |found: &Found| Found { member: 0, ..found.clone() };
            let shares = whole.iter();
            shares.map(|(log, found)| (*log, found.iter().filter(his).map(alone).collect())).collect()
        };
        (0..count).map(|member| wire::encode(&of(member)).into()).collect()
    }
}
