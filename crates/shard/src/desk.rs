//! What a primary keeps while transactions are about, and what their commitment asks of it: locks, looks, decisions,
//! effects.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Reply, Version};
use quorate_commit::locks::{LockTable, Mode, Taken, Want};
use quorate_commit::{Attempt, LogId, Resources, Transaction, TransactionId, Verdict};
use quorate_replog::Index;

use crate::Mutant;
use crate::aside::Aside;
use crate::look::{Ahead, Unchecked};
use crate::part::{Decision, Export, Part, Place};
use crate::run::run_command;
use crate::script::evaluate;
use crate::sessions::Limits;
use crate::view::View;

/// The volatile part of what transactions are about.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) me: LogId,
    pub(crate) limits: Limits,
    pub(crate) locks: LockTable<Place>,
    /// These want versions, and were just tried: if what they want has passed, they need not wait to be told.
    pub(crate) hopes: Vec<(TransactionId, Vec<(Bytes, Version)>)>,
    /// Locked, and to be looked at.
    pub(crate) unchecked: Vec<Unchecked>,
    /// Outcomes on their way whose locks others may have.
    pub(crate) ahead: Ahead,
    /// What the log does not keep of votes and decisions.
    pub(crate) aside: Aside,
    /// Waiters that can never succeed since what was carried out last.
    pub(crate) overtaken: BTreeSet<TransactionId>,
    /// What holds something for which an older transaction waits, and is none itself.
    pub(crate) outranked: Vec<TransactionId>,
    /// Whether this is the primary's.
    pub(crate) reigns: bool,
    /// Whether locks were given back since batches were held back.
    pub(crate) released: bool,
    /// The newest entry of this reign that changes something without a lock: what is in the log behind it is of transactions,
    /// which keep their locks until it is applied.
    pub(crate) newest_batch: Index,
    /// One that was carried out in this life otherwise than its vote had said.
    pub(crate) strayed: Option<TransactionId>,
}

/// A desk, and the state in which something is carried out.
pub(crate) struct At<'a, 'v> {
    pub(crate) desk: &'a mut Desk,
    pub(crate) view: Option<&'a mut View<'v>>,
    /// What is carried out, if it was prepared.
    pub(crate) part: Option<Part>,
}

/// Runs a part's commands.
pub(crate) fn run_part(view: &mut View<'_>, part: &Part) -> Vec<(u32, Reply)> {
    let versions = part.versions.iter();
    let mut replies: Vec<(u32, Reply)> =
        versions.map(|(number, key)| (*number, Reply::Int(view.version(key).0 as i64))).collect();
    replies.extend(part.commands.iter().map(|(number, command)| (*number, run_command(view, command))));
    replies
}

impl Desk {
    /// What a part locks.
    fn wants(&self, part: &Part) -> Vec<Want<Place>> {
        let mut wants = part.wants();
        if self.limits.breaks(Mutant::LoansUnlocked) {
            let lent = |place: &Place| part.lends.iter().any(|(key, _)| *place == Place::Key(key.clone()));
            wants.retain(|want| !lent(&want.key));
        }
        if self.limits.breaks(Mutant::NotesUnlocked) {
            wants.retain(|want| !matches!(want.key, Place::Note(_)));
        }
        wants
    }

    /// Gives back what `id` holds or waits for. Who may get it now?
    fn give_back(&mut self, id: TransactionId) -> Vec<TransactionId> {
        self.released = true;
        self.unchecked.retain(|unchecked| unchecked.id != id);
        self.locks.release(id)
    }
}

impl Resources for At<'_, '_> {
    fn prepare(&mut self, transaction: &Transaction) -> Attempt {
        let part = Part::of(transaction);
        if !part.watched.is_empty() {
            self.desk.hopes.push((transaction.id, part.watched.clone()));
        }
        match self.desk.locks.try_all(transaction.id, &self.desk.wants(&part)) {
            Taken::Full => Attempt::Full,
            Taken::Waits(owners) => {
                // The origin of what holds without being a transaction.
                let holds = owners.iter().filter(|owner| owner.origin == 0 && transaction.id < **owner);
                self.desk.outranked.extend(holds);
                Attempt::Waits(owners)
            }
            Taken::All => {
                let (id, sees_ahead) = (transaction.id, part.sees_ahead());
                let (after, behind) = (self.desk.newest_batch, self.desk.ahead.newest());
                let decides = transaction.coordinator == self.desk.me;
                self.desk.unchecked.push(Unchecked { id, part, decides, after, behind, sees_ahead });
                Attempt::Later
            }
        }
    }

    fn relock(&mut self, transaction: &Transaction) {
        self.desk.locks.relock(transaction.id, &self.desk.wants(&Part::of(transaction)));
    }

    fn wait(&mut self, transaction: &Transaction) -> Vec<TransactionId> {
        self.desk.released = true;
        self.desk.ahead.forget(transaction.id);
        self.desk.aside.forget_found(transaction.id);
        self.desk.locks.wait(transaction.id, &self.desk.wants(&Part::of(transaction)))
    }

    fn hand_over(&mut self, transaction: &Transaction, commits: bool) -> Vec<TransactionId> {
        let id = transaction.id;
        if !commits {
            self.desk.aside.forget_decided(id);
        }
        if !self.desk.ahead.hand_over(id, commits) {
            return Vec::new();
        }
        self.desk.give_back(id)
    }

    fn release(&mut self, id: TransactionId) -> Vec<TransactionId> {
        self.desk.ahead.forget(id);
        self.desk.aside.forget_found(id);
        let mut woken = self.desk.give_back(id);
        woken.extend(core::mem::take(&mut self.desk.overtaken).into_iter().filter(|other| *other != id));
        woken
    }

    fn in_the_way(&self, transaction: &Transaction) -> Option<(Bytes, TransactionId)> {
        let (place, owner) = self.desk.locks.hindrance(transaction.id)?;
        Some((place.key(), owner))
    }

    fn decide(&mut self, transaction: &Transaction, exports: &BTreeMap<LogId, Bytes>) -> Verdict {
        let read = |(log, export): (&LogId, &Bytes)| (*log, Export::decode(export).unwrap_or_default());
        let exports: BTreeMap<LogId, Export> = exports.iter().map(read).collect();
        let Part { script, readers, .. } = Part::of(transaction);
        match evaluate(self.desk.me, &script, exports, &self.desk.limits) {
            Some(decision) if decision.replies_bytes() <= self.desk.limits.commit.payload_bytes_max => {
                Verdict::Commit(self.desk.aside.decided(transaction.id, decision, &readers))
            }
            _ => Verdict::TooLarge,
        }
    }

    fn share(&mut self, decision: &Bytes, to: LogId) -> Bytes {
        let mut whole = Decision::decode(decision).unwrap_or_default();
        let share = whole.shares.remove(&to).map(|share| (to, share.told()));
        Decision { shares: share.into_iter().collect(), replies: Vec::new(), ..whole }.encode()
    }

    fn bundle(&mut self, parts: &[(usize, Bytes)]) -> Bytes {
        Part::bundle(parts).encode()
    }

    fn excerpts(&mut self, bundle: TransactionId, decision: &Bytes, count: usize) -> Vec<Bytes> {
        let whole = self.desk.aside.take_decided(bundle, decision);
        let whole = whole.unwrap_or_else(|| Decision::decode(decision).unwrap_or_default());
        whole.excerpts(count).into_iter().map(Decision::encode).collect()
    }

    fn carry_out(&mut self, transaction: &Transaction, decision: &Bytes) {
        let Some(view) = &mut self.view else { panic!("only entries are carried out") };
        let part = self.part.take().unwrap_or_else(|| Part::of(transaction));
        let Ok(decision) = Decision::decode(decision) else { return };
        let Some(share) = decision.shares.get(&self.desk.me) else { return };
        let otherwise = u64::from(self.desk.limits.breaks(Mutant::RunsOtherwise));
        view.begin_transaction(share.now_ms + otherwise, share.seed ^ otherwise);
        // What only reads leaves nothing behind; the primary looks whether it still finds what it has told.
        let matters = !part.only_reads() || self.desk.reigns;
        if matters && !share.agrees(&run_part(view, &part)) {
            self.desk.strayed.get_or_insert(transaction.id);
        }
        if !share.changes.is_empty() {
            view.replay(&share.changes);
        }
        view.notes.extend(part.notes.iter().filter(|note| note.changes()).cloned());
        if !self.desk.limits.breaks(Mutant::TimeStaysBehind) {
            view.time_is(decision.now_ms);
        }
        view.end_transaction();
        if self.desk.locks.count() == 0 {
            return;
        }
        for want in part.wants() {
            if let (Place::Key(key), Mode::Write) = (&want.key, want.mode)
                && self.desk.locks.is_waited_for(&want.key)
            {
                let version = view.version(key).0;
                self.desk.overtaken.extend(self.desk.locks.overtaken(&want.key, version));
            }
        }
    }
}
