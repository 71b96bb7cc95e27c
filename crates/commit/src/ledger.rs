//! The replicated part: what all replicas of a log agree on by applying its entries in order.
//!
//! It is kept as rows, one for each transaction and one for each origin, so that a parent can write the rows that an
//! entry changed into its store beside the data, and snapshots take them along in bounded pieces.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_kernel::wire;
use serde::{Deserialize, Serialize};

use crate::record::{Entry, Outcome, Record, State, Transaction, Vote};
use crate::{LogId, Mutant, TransactionId};

/// Records forgotten by one entry because their origin has settled them. Part of what the log means.
const FORGET_MAX: usize = 256;

/// Origins that are gone for good and whose horizon is kept, so that messages that come late find it; beyond, that of the
/// one that went first is forgotten. Part of what the log means.
const GONE_MAX: usize = 1_024;

/// What an origin will not ask for again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Horizon {
    before: u64,
    /// Counts those that are gone for good, in the order in which they went; 0 for others.
    gone: u64,
}

/// The name of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// The horizon of an origin.
    Origin(u64),
    /// A transaction.
    Transaction(TransactionId),
}

impl Row {
    /// The name as bytes; their order is that of rows.
    pub fn to_bytes(self) -> Vec<u8> {
        let words = match self {
            Row::Origin(origin) => Vec::from([origin]),
            Row::Transaction(TransactionId { age, origin, sequence }) => Vec::from([age, origin, sequence]),
        };
        let tag = [u8::from(matches!(self, Row::Transaction(_)))];
        tag.into_iter().chain(words.into_iter().flat_map(u64::to_be_bytes)).collect()
    }

    /// The row that such bytes name; `None` if they name none.
    pub fn of_bytes(bytes: &[u8]) -> Option<Row> {
        let (tag, rest) = bytes.split_first()?;
        let word = |at: usize| Some(u64::from_be_bytes(rest.get(at * 8..at * 8 + 8)?.try_into().ok()?));
        match (tag, rest.len()) {
            (0, 8) => Some(Row::Origin(word(0)?)),
            (1, 24) => {
                Some(Row::Transaction(TransactionId { age: word(0)?, origin: word(1)?, sequence: word(2)? }))
            }
            _ => None,
        }
    }
}

/// What a log remembers of transactions.
#[derive(Debug, Clone)]
pub struct Ledger {
    me: LogId,
    records: BTreeMap<TransactionId, Record>,
    /// By origin, number and age: what an advancing horizon lets go of. Origins are not believed to use a number once.
    by_origin: BTreeSet<(u64, u64, u64)>,
    /// The bundles that members belong to; members by origin, number and age too.
    bundles: BTreeMap<(u64, u64, u64), TransactionId>,
    horizons: BTreeMap<u64, Horizon>,
    /// Origins that are gone, by when they went.
    gone: BTreeMap<u64, u64>,
    changed: BTreeSet<Row>,
    unfinished: usize,
    /// Entries of the log were lost: what others say of it may be true though it knows nothing of it.
    pub(crate) has_lost: bool,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

/// What an entry has to do to the data, on every replica alike.
pub(crate) type Deed = Option<(Transaction, Bytes)>;

impl Ledger {
    /// The empty ledger of log `me`.
    pub fn new(me: LogId) -> Self {
        Ledger {
            me,
            records: BTreeMap::new(),
            by_origin: BTreeSet::new(),
            bundles: BTreeMap::new(),
            horizons: BTreeMap::new(),
            gone: BTreeMap::new(),
            changed: BTreeSet::new(),
            unfinished: 0,
            has_lost: false,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Of a log that went on without its newest entries because an operator said so. Transactions that it had voted on, or
    /// decided, in these are ended here, so that nobody asks for ever: they may have happened elsewhere.
    #[must_use]
    pub fn after_losses(self, has_lost: bool) -> Self {
        Ledger { has_lost, ..self }
    }

    /// Takes back a row that was written before.
    ///
    /// # Errors
    /// [`wire::Malformed`] if it is none.
    pub fn load(&mut self, name: &[u8], value: &[u8]) -> Result<(), wire::Malformed> {
        match Row::of_bytes(name).ok_or(wire::Malformed)? {
            Row::Origin(origin) => {
                let horizon: Horizon = wire::decode(value)?;
                self.horizons.insert(origin, horizon);
                if horizon.gone > 0 {
                    self.gone.insert(horizon.gone, origin);
                }
            }
            Row::Transaction(id) => {
                let record: Record = wire::decode(value)?;
                self.unfinished += usize::from(record.outcome().is_none());
                self.insert(id, record);
            }
        }
        Ok(())
    }

    /// The rows that have changed since this was last asked, with their new values; `None`: the row is gone.
    pub fn take_changes(&mut self) -> Vec<(Row, Option<Bytes>)> {
        let changed = core::mem::take(&mut self.changed);
        changed.into_iter().map(|row| (row, self.value(row))).collect()
    }

    fn value(&self, row: Row) -> Option<Bytes> {
        let bytes = match row {
            Row::Origin(origin) => wire::encode(self.horizons.get(&origin)?),
            Row::Transaction(id) => wire::encode(self.records.get(&id)?),
        };
        Some(Bytes::from(bytes))
    }

    /// All rows, one after the other.
    pub fn rows(&self) -> impl Iterator<Item = (Row, Bytes)> + '_ {
        let origins = self.horizons.keys().map(|origin| Row::Origin(*origin));
        let rows = origins.chain(self.records.keys().map(|id| Row::Transaction(*id)));
        rows.filter_map(|row| Some((row, self.value(row)?)))
    }

    /// What is remembered of a transaction.
    pub fn get(&self, id: TransactionId) -> Option<&Record> {
        self.records.get(&id)
    }

    /// All that is remembered, oldest first.
    pub fn records(&self) -> impl Iterator<Item = (TransactionId, &Record)> + '_ {
        self.records.iter().map(|(id, record)| (*id, record))
    }

    /// How many transactions are remembered.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// How many of them have no outcome here yet.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// The origins that have a horizon and are not gone for good.
    pub fn horizons(&self) -> impl Iterator<Item = u64> + '_ {
        self.horizons.iter().filter(|(_, horizon)| horizon.gone == 0).map(|(origin, _)| *origin)
    }

    /// How many origins have a horizon and are not gone for good.
    pub fn origins(&self) -> usize {
        self.horizons.len() - self.gone.len()
    }

    /// Whether the origin of `id` is known.
    pub(crate) fn knows_origin(&self, origin: u64) -> bool {
        self.horizons.contains_key(&origin)
    }

    /// What an origin has settled: everything that it numbered below this.
    pub fn horizon(&self, origin: u64) -> u64 {
        self.horizons.get(&origin).map_or(0, |horizon| horizon.before)
    }

    /// Whether anything of an origin is remembered beside its horizon.
    pub(crate) fn remembers(&self, origin: u64) -> bool {
        let all = (origin, 0, 0)..=(origin, u64::MAX, u64::MAX);
        self.by_origin.range(all.clone()).next().is_some() || self.bundles.range(all).next().is_some()
    }

    /// Whether the origin of `id` has said that it will not ask for it again.
    pub fn is_settled(&self, id: TransactionId) -> bool {
        self.horizons.get(&id.origin).is_some_and(|horizon| id.sequence < horizon.before)
    }

    /// The bundle of which `id` is a member.
    pub(crate) fn bundle_of(&self, id: TransactionId) -> Option<TransactionId> {
        self.bundles.get(&key(id)).copied()
    }

    /// Whether those who asked for it will not ask again: its origin, and those of its members.
    pub(crate) fn is_settled_by_all(&self, id: TransactionId) -> bool {
        let members = self.get(id).into_iter().flat_map(|record| &record.transaction.members);
        self.is_settled(id) && members.into_iter().all(|member| self.is_settled(member.id))
    }

    /// Applies an entry. The primary appends nothing that does not fit what is before it.
    ///
    /// # Panics
    /// If it does not: the log holds what no primary may have put there.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Deed {
        match entry {
            Entry::Local { id, epoch, vote, begins } => self.local(*id, *epoch, vote, begins.as_ref()),
            Entry::Revert { id, epoch } => self.revert(*id, *epoch),
            Entry::Global { id, coordinator, logs, outcome } => {
                return self.global(*id, *coordinator, logs, outcome);
            }
            Entry::AtOnce { transaction, outcome } => return self.at_once(transaction, outcome),
            Entry::Forget { ids } => {
                for id in ids {
                    let done = self.get(*id).is_some_and(|record| record.outcome().is_some());
                    assert!(done, "{id:?} is to be forgotten and not done");
                    self.remove(*id);
                }
            }
            Entry::Settle { origin, before } => self.settle(*origin, *before),
        }
        None
    }

    fn local(&mut self, id: TransactionId, epoch: u64, vote: &Vote, begins: Option<&Transaction>) {
        if let Some(transaction) = begins {
            assert!(self.get(id).is_none(), "{id:?} begins a second time");
            self.begin(transaction, State::Waiting);
        }
        let Some(record) = self.change(id) else { panic!("a vote on {id:?}, which is not known") };
        assert!(record.state == State::Waiting, "a vote on {id:?}, which is {:?}", record.state);
        assert!(record.epoch == epoch, "a vote of epoch {epoch} on {id:?} in {}", record.epoch);
        record.state = match vote {
            Vote::Yes(export) => State::Prepared(export.clone()),
            Vote::No(refusal) => State::Refused(refusal.clone()),
        };
        let settled = record.transaction.settled_before;
        let members = record.transaction.members.clone();
        self.settle(id.origin, settled);
        members.iter().for_each(|member| self.settle(member.id.origin, member.settled_before));
    }

    fn revert(&mut self, id: TransactionId, epoch: u64) {
        let Some(record) = self.change(id) else { panic!("a revert of {id:?}, which is not known") };
        assert!(record.is_prepared(), "a revert of {id:?}, which is {:?}", record.state);
        assert!(record.epoch == epoch, "a revert of epoch {epoch} of {id:?} in {}", record.epoch);
        record.epoch += 1;
        record.state = State::Waiting;
    }

    fn global(&mut self, id: TransactionId, coordinator: LogId, logs: &[LogId], outcome: &Outcome) -> Deed {
        let decides = coordinator == self.me;
        if self.get(id).is_none() {
            let transaction = Transaction::unknown(id, coordinator, logs.to_vec(), self.me);
            self.begin(&transaction, State::Waiting);
        }
        let twice = self.breaks(Mutant::GlobalTwice);
        let record = self.change(id)?;
        assert!(record.outcome().is_none() || twice, "a second outcome of {id:?}");
        let first = record.outcome().is_none();
        let deed = match outcome {
            Outcome::Committed(decision) => {
                assert!(record.is_prepared() || twice, "{id:?} is committed and {:?}", record.state);
                Some((record.transaction.clone(), decision.clone()))
            }
            Outcome::Aborted(_) => None,
        };
        record.state = State::Done(match outcome {
            Outcome::Committed(_) if !decides => Outcome::Committed(Bytes::new()),
            outcome => outcome.clone(),
        });
        if !twice {
            record.transaction.part = Bytes::new();
        }
        record.transaction.others = Vec::new();
        self.unfinished -= usize::from(first);
        self.forget_done(id);
        deed
    }

    fn at_once(&mut self, transaction: &Transaction, outcome: &Outcome) -> Deed {
        let id = transaction.id;
        self.local(id, 0, &Vote::Yes(Bytes::new()), Some(transaction));
        self.global(id, self.me, &transaction.logs, outcome)
    }

    fn begin(&mut self, transaction: &Transaction, state: State) {
        let id = transaction.id;
        self.insert(id, Record { transaction: transaction.clone(), epoch: 0, state });
        self.changed.insert(Row::Transaction(id));
        self.unfinished += 1;
    }

    fn insert(&mut self, id: TransactionId, record: Record) {
        self.by_origin.insert(key(id));
        self.bundles.extend(record.transaction.members.iter().map(|member| (key(member.id), id)));
        self.records.insert(id, record);
    }

    fn change(&mut self, id: TransactionId) -> Option<&mut Record> {
        self.changed.insert(Row::Transaction(id));
        self.records.get_mut(&id)
    }

    fn settle(&mut self, origin: u64, before: u64) {
        let known = self.horizons.get(&origin).copied().unwrap_or_default();
        if before > known.before {
            let last = self.gone.last_key_value().map_or(0, |(last, _)| *last);
            let gone = if before == u64::MAX { last + 1 } else { 0 };
            self.horizons.insert(origin, Horizon { before, gone });
            self.changed.insert(Row::Origin(origin));
            if gone > 0 {
                self.gone.insert(gone, origin);
                self.forget_gone();
            }
        }
        let settled = self.by_origin.range((origin, 0, 0)..(origin, before.max(known.before), 0));
        let ids = settled.map(|(origin, sequence, age)| TransactionId {
            age: *age,
            origin: *origin,
            sequence: *sequence,
        });
        let done = ids.filter(|id| self.is_over(*id));
        let done: Vec<TransactionId> = done.take(FORGET_MAX).collect();
        for id in done {
            self.remove(id);
        }
    }

    fn forget_gone(&mut self) {
        if self.gone.len() > GONE_MAX
            && let Some((_, origin)) = self.gone.pop_first()
        {
            self.horizons.remove(&origin);
            self.changed.insert(Row::Origin(origin));
        }
    }

    /// Whether nothing is left to do here about a transaction, should its origin have settled it. A coordinator first has
    /// to know that all participants have the outcome, and says so in an entry.
    fn is_over(&self, id: TransactionId) -> bool {
        self.get(id).is_some_and(|record| {
            let awaits = record.transaction.coordinator == self.me && !record.transaction.is_alone();
            record.outcome().is_some() && (!awaits || self.breaks(Mutant::ForgottenBeforeAcknowledged))
        })
    }

    fn forget_done(&mut self, id: TransactionId) {
        let settled = self.is_settled(id) || self.breaks(Mutant::ForgottenBeforeSettled);
        if settled && self.is_over(id) {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: TransactionId) {
        if let Some(record) = self.records.remove(&id) {
            self.by_origin.remove(&key(id));
            for member in &record.transaction.members {
                self.bundles.remove(&key(member.id));
            }
            self.changed.insert(Row::Transaction(id));
        }
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn broken(mut self, mutant: Option<Mutant>) -> Self {
        self.mutant = mutant;
        self
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) const fn breaks(&self, _: Mutant) -> bool {
        false
    }
}

/// The order in which an advancing horizon meets transactions.
fn key(id: TransactionId) -> (u64, u64, u64) {
    (id.origin, id.sequence, id.age)
}

impl PartialEq for Ledger {
    /// Whether both remember the same; what was taken by [`Ledger::take_changes`] does not matter.
    fn eq(&self, other: &Self) -> bool {
        self.me == other.me
            && self.records == other.records
            && self.horizons == other.horizons
            && self.by_origin == other.by_origin
            && self.bundles == other.bundles
            && self.unfinished == other.unfinished
    }
}
