//! The machine: what it is told, what it wants, and what it asks of its parent.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_kernel::{Marks, Rng, Time};
use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, Row};
use crate::reign::{Live, Reign};
use crate::{
    Cause, Config, Entry, LogId, Message, Mutant, Outcome, Refusal, Transaction, TransactionId, View, Wait,
    Word,
};

/// What came of trying to take what a transaction needs at this log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// Everything is locked, and found in order while it was.
    Ready {
        /// What is exported to the coordinator.
        export: Bytes,
        /// Whether locks alone keep it true, so that the vote may stand in the log as late as the decision. What time
        /// changes, for example, locks do not keep.
        stays: bool,
    },
    /// It cannot happen, whatever others do. It holds nothing and waits for nothing any more.
    Refused {
        /// What is in the way, for explanations.
        resource: Bytes,
        /// Who put it there.
        by: Option<TransactionId>,
    },
    /// It holds nothing and waits for everything. These hold what it needs; none, if it only waits behind others that
    /// wait.
    Waits(Vec<TransactionId>),
    /// Everything is locked; whether it is in order is told later, by [`Commit::answered`].
    Later,
    /// The parent's tables are full. It holds nothing and waits for nothing.
    Full,
    /// What would have to be exported is longer than it may be. It holds nothing and waits for nothing any more.
    TooLarge,
}

/// What the coordinator's parent makes of the votes when all are yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It happens, with this for all participants and for the origin.
    Commit(Bytes),
    /// What was exported speaks against it; this tells the origin why.
    Abort(Bytes),
    /// What would have to be decided is longer than it may be.
    TooLarge,
}

/// What transactions are about: the parent's locks and data.
///
/// All but [`Resources::carry_out`] are called on the primary alone and concern volatile locks; a parent whose node stops
/// leading throws its locks away, and [`Resources::relock`] brings back those that count.
pub trait Resources {
    /// Takes all that `transaction` needs, or waits for all of it: all or nothing, and not past an older one that waits.
    /// Whether it is in order (versions) is looked at with the locks held.
    fn prepare(&mut self, transaction: &Transaction) -> Attempt;

    /// Takes all that `transaction` needs for a new primary. Nothing can be in the way.
    fn relock(&mut self, transaction: &Transaction);

    /// Gives back what `transaction` holds, and waits for it. Who may get it now, and whom it overtakes?
    fn wait(&mut self, transaction: &Transaction) -> Vec<TransactionId>;

    /// Gives back what `id` holds and no longer waits. Who is to be tried again: waiters that may get their locks, and
    /// those that can never succeed since what was just carried out.
    fn release(&mut self, id: TransactionId) -> Vec<TransactionId>;

    /// The outcome of `transaction` is on its way into the log, behind everything that was appended before and before everything
    /// that will be. A parent that knows what its data will be by then may give back now what `transaction` holds, and show
    /// just that to whoever gets it. Who may get it now? If it does not, [`Resources::release`] gives it back in the end.
    fn hand_over(&mut self, _transaction: &Transaction, _commits: bool) -> Vec<TransactionId> {
        Vec::new()
    }

    /// For explanations: which resource `transaction`, which waits, cannot have, and who has it or is before it.
    fn in_the_way(&self, _transaction: &Transaction) -> Option<(Bytes, TransactionId)> {
        None
    }

    /// Decides, for a coordinator, once everybody has voted yes. `exports` holds what each log exported.
    fn decide(&mut self, transaction: &Transaction, exports: &BTreeMap<LogId, Bytes>) -> Verdict;

    /// What of a decision concerns log `to`, another than this.
    fn share(&mut self, decision: &Bytes, to: LogId) -> Bytes;

    /// Does what `transaction` does here: replicated, and the same on every replica.
    fn carry_out(&mut self, transaction: &Transaction, decision: &Bytes);

    /// The part of a bundle at one log: what each of these does, which are numbered members, one after the other.
    fn bundle(&mut self, parts: &[(usize, Bytes)]) -> Bytes;

    /// What the decision on a bundle says to each of its `count` members alone.
    fn excerpts(&mut self, bundle: TransactionId, decision: &Bytes, count: usize) -> Vec<Bytes>;
}

/// Why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NotTaken {
    /// This log's primary does not reign, or not yet.
    NotLeading,
    /// The tables are full. Nothing happened, and nothing will unless it is asked again or was asked twice.
    Busy,
    /// It is longer than the limits allow, or makes no sense. Nothing happened.
    Malformed,
    /// Its origin has settled it before; it may have happened then.
    Settled,
}

/// What the machine wants of its parent, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Append this to the log, in order. Entries are appended in the order they are asked for, or from one on none of
    /// this reign. Once it is chosen and applied, it comes back by [`Commit::applied`], on all replicas.
    Append(Entry),
    /// Carry this to whoever leads that log. What it says is chosen: it may leave before this node's disk is done.
    Send {
        /// Which log.
        to: LogId,
        /// What is said.
        message: Message,
    },
    /// Tell the origin how it ended.
    Result {
        /// Which transaction.
        id: TransactionId,
        /// How.
        outcome: Outcome,
    },
    /// Tell the origin that its request was not taken.
    NotTaken {
        /// Which transaction.
        id: TransactionId,
        /// Why.
        why: NotTaken,
    },
    /// Tell the origin what its transaction waits or has waited for. Harmless if forgotten.
    Waits {
        /// Which transaction.
        id: TransactionId,
        /// What for.
        wait: Wait,
    },
    /// Call [`Commit::tick`] so long from now, and not at the time asked for before.
    Arm(Duration),
}

/// What goes with each call: clocks, chance, the parent's resources, and where effects go.
#[derive(Debug)]
pub struct Turn<'a, R> {
    /// Monotonic time.
    pub now: Time,
    /// Chance.
    pub rng: &'a mut Rng,
    /// Counters of notable states.
    pub marks: &'a mut Marks,
    /// The parent's locks and data.
    pub resources: &'a mut R,
    /// What is to happen.
    pub out: &'a mut Vec<Effect>,
}

/// Atomic commitment at one log.
#[derive(Debug)]
pub struct Commit {
    pub(crate) me: LogId,
    pub(crate) config: Config,
    pub(crate) ledger: Ledger,
    pub(crate) reign: Option<Reign>,
}

impl Commit {
    /// Commitment at the log whose replicated part is `ledger`: an empty one, or one that was loaded.
    pub fn new(me: LogId, config: Config, ledger: Ledger) -> Self {
        #[cfg(feature = "mutants")]
        let ledger = ledger.broken(config.mutant);
        Commit { me, config, ledger, reign: None }
    }

    /// The replicated part.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Rows of the replicated part that changed; see [`Ledger::take_changes`].
    pub fn take_changes(&mut self) -> Vec<(Row, Option<Bytes>)> {
        self.ledger.take_changes()
    }

    /// The view in which this is the primary.
    pub fn view(&self) -> Option<View> {
        self.reign.as_ref().map(|reign| reign.view)
    }

    /// How many transactions the primary is concerned with.
    pub fn live_count(&self) -> usize {
        self.reign.as_ref().map_or(0, |reign| reign.live.len())
    }

    /// What a transaction that the primary is concerned with waits for, and how long it has: for explanations.
    pub fn waits_for(&self, id: TransactionId, now: Time) -> Option<(Option<TransactionId>, Duration)> {
        let live = self.reign.as_ref()?.live.get(&id).filter(|live| !live.decided)?;
        Some((live.behind, now.since(live.since)))
    }

    /// This node no longer leads: everything volatile is gone, and so must be the parent's locks.
    pub fn follow(&mut self) {
        self.reign = None;
    }

    /// A client's request, or that of whoever acts for it. `coordinator_view` is the coordinator's view as far as the asker
    /// knows, which saves a round trip, or the default.
    pub fn request<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        transaction: Transaction,
        coordinator_view: View,
    ) {
        let (id, settled) = (transaction.id, transaction.settled_before);
        let refused = match self.judge(&transaction) {
            Err(why) => Some(why),
            Ok(()) => self.admit(turn, transaction, coordinator_view).err(),
        };
        if let Some(why) = refused {
            if why == NotTaken::Busy && self.ledger.remembers(id.origin) {
                // What its origin has settled may be what fills the tables, and an origin that is never taken could
                // never say so.
                self.settle_news(turn, id.origin, settled);
            }
            turn.out.push(Effect::NotTaken { id, why });
        }
        self.finish(turn);
    }

    /// Whether a request makes sense.
    pub(crate) fn judge(&self, transaction: &Transaction) -> Result<(), NotTaken> {
        let Transaction { id, coordinator, logs, part, others, settled_before, .. } = transaction;
        let others_bytes: usize = others.iter().map(|(_, part)| part.len()).sum();
        let others_fit = others.iter().all(|(log, _)| *log != self.me && logs.contains(log));
        let fits = logs.is_sorted_by(|one, next| one < next)
            && logs.len() <= self.config.logs_max
            && logs.contains(&self.me)
            && logs.contains(coordinator)
            && others.len() < logs.len()
            && others_fit
            && (others.is_empty() || *coordinator == self.me)
            && *settled_before <= id.sequence
            && part.len() + others_bytes <= self.config.part_bytes_max;
        if fits { Ok(()) } else { Err(NotTaken::Malformed) }
    }

    /// Takes up a transaction, unless it is known.
    pub(crate) fn admit<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        transaction: Transaction,
        cv: View,
    ) -> Result<(), NotTaken> {
        let id = transaction.id;
        if self.reign.is_none() {
            return Err(NotTaken::NotLeading);
        }
        if self.is_member(id) {
            turn.marks.hit("commit.request.again");
            self.tell_member(turn, id);
            return Ok(());
        }
        if let Some(record) = self.ledger.get(id) {
            turn.marks.hit("commit.request.again");
            if let (Some(outcome), true) = (record.outcome(), record.transaction.coordinator == self.me) {
                turn.out.push(Effect::Result { id, outcome: outcome.clone() });
            }
            return Ok(());
        }
        if self.is_live(id) {
            turn.marks.hit("commit.request.again");
            return Ok(());
        }
        if self.ledger.is_settled(id) {
            turn.marks.hit("commit.request.settled");
            return Err(NotTaken::Settled);
        }
        if !self.has_room(id) {
            turn.marks.hit("commit.request.busy");
            return Err(NotTaken::Busy);
        }
        if self.may_share(&transaction) {
            self.wait_for_others(transaction);
        } else {
            self.begin(turn, transaction, cv);
        }
        Ok(())
    }

    /// Begins what is asked for.
    pub(crate) fn begin<R: Resources>(&mut self, turn: &mut Turn<'_, R>, transaction: Transaction, cv: View) {
        let id = transaction.id;
        let hands_on = transaction.coordinator == self.me;
        let others: Vec<LogId> = transaction.others.iter().map(|(log, _)| *log).collect();
        let due = turn.now + self.config.retry;
        if let Some(reign) = &mut self.reign {
            let live = Live { cv_seen: cv, due, ..Live::new(Some(transaction), turn.now) };
            reign.insert(id, live);
        }
        if hands_on {
            for log in others {
                self.query(turn, id, log);
            }
        }
        self.try_local(turn, id);
    }

    pub(crate) fn is_live(&self, id: TransactionId) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.live.contains_key(&id))
    }

    /// Whether a new transaction fits.
    fn has_room(&self, id: TransactionId) -> bool {
        let Some(reign) = &self.reign else { return false };
        let unlogged = reign.unlogged + reign.bundles.waiting();
        let origins = self.ledger.origins();
        self.ledger.unfinished() + unlogged < self.config.live_max
            && self.ledger.count() + unlogged < self.config.records_max - self.config.records_max / 8
            && (self.ledger.knows_origin(id.origin) || origins < self.config.origins_max)
    }

    /// Whether there is room to refuse something for good.
    pub(crate) fn has_room_for_tombstone(&self) -> bool {
        let unlogged = self.reign.as_ref().map_or(0, |reign| reign.unlogged);
        self.ledger.count() + unlogged < self.config.records_max
    }

    /// The parent, who said [`Attempt::Later`] about a transaction, knows now; or it has found that one that waits can never
    /// happen.
    pub fn answered<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId, attempt: Attempt) {
        let refused = matches!(attempt, Attempt::Refused { .. }) && self.is_waiting(id);
        let wanted = |live: &&mut Live| (live.pending || refused) && !live.flight.any();
        if let Some(live) = self.live_mut(id).filter(wanted) {
            live.pending = false;
            self.attempted(turn, id, attempt);
        }
        self.finish(turn);
    }

    /// What the parent does without a transaction and under no lock, `id` in its table, waits for what `owners` hold:
    /// younger ones are to give it back, as for a transaction.
    pub fn wanted_by<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        id: TransactionId,
        owners: &[TransactionId],
    ) {
        self.ask_back_younger(turn, id, owners);
        self.finish(turn);
    }

    /// Something of the parent's own is no longer in the way of these in its table.
    pub fn may_go_on<R: Resources>(&mut self, turn: &mut Turn<'_, R>, ids: Vec<TransactionId>) {
        self.wake(ids);
        self.finish(turn);
    }

    /// A message from the primary of another log.
    pub fn message<R: Resources>(&mut self, turn: &mut Turn<'_, R>, message: Message) {
        let Message { from, id, word } = message;
        if self.reign.is_none() || from == self.me {
            return;
        }
        match word {
            Word::Vote { cv, epoch, vote } => self.on_vote(turn, from, id, cv, epoch, vote),
            Word::RevertRequest { epoch, pv } => self.on_revert_request(turn, from, id, epoch, pv),
            Word::QueryGlobal { logs } => self.on_query_global(turn, from, id, logs),
            Word::Acknowledge => self.on_acknowledge(turn, from, id),
            Word::Global { logs, outcome } => self.on_global(turn, from, id, logs, outcome),
            Word::RevertGrant { epoch, cv, pv } => self.on_grant(turn, from, id, epoch, cv, pv),
            Word::QueryLocal { cv, min_epoch, transaction } => {
                self.on_query_local(turn, from, id, cv, min_epoch, transaction);
            }
            Word::Waits(wait) => self.on_waits(turn, from, id, wait),
        }
        self.finish(turn);
    }

    /// An origin says, by whatever way its parent has, that it has the outcomes of everything it numbered below `before`
    /// and asks for none of it again; the greatest number means that it is gone for good. Logged if that is news.
    pub fn settle<R: Resources>(&mut self, turn: &mut Turn<'_, R>, origin: u64, before: u64) {
        self.settle_news(turn, origin, before);
        self.finish(turn);
    }

    pub(crate) fn settle_news<R>(&mut self, turn: &mut Turn<'_, R>, origin: u64, before: u64) {
        let Some(reign) = &mut self.reign else { return };
        let known = self.ledger.horizon(origin).max(reign.settling.get(&origin).copied().unwrap_or_default());
        if before > known {
            reign.settling.insert(origin, before);
            turn.out.push(Effect::Append(Entry::Settle { origin, before }));
        }
    }

    /// What ends every call: whoever was woken is tried again, and the next tick is asked for.
    pub(crate) fn finish<R: Resources>(&mut self, turn: &mut Turn<'_, R>) {
        loop {
            // Ends: a transaction is woken by one that gives up something to an older one, or that is decided.
            while let Some(id) = self.reign.as_mut().and_then(|reign| reign.woken.pop_first()) {
                self.try_local(turn, id);
            }
            self.bundle(turn);
            if self.reign.as_ref().is_none_or(|reign| reign.woken.is_empty()) {
                break;
            }
        }
        self.arm(turn);
    }

    /// Others may go on, oldest first.
    pub(crate) fn wake(&mut self, mut ids: Vec<TransactionId>) {
        ids.sort_unstable();
        if self.config.breaks(Mutant::WakeOne) {
            ids.truncate(1);
        }
        if let Some(reign) = &mut self.reign {
            reign.woken.extend(ids);
        }
    }

    /// Appends an outcome, and hands on what it sets free. What the log that decides does not know yet begins and ends there
    /// in one entry.
    pub(crate) fn append_outcome<R: Resources>(
        &mut self,
        turn: &mut Turn<'_, R>,
        id: TransactionId,
        (coordinator, logs, outcome): (LogId, Vec<LogId>, Outcome),
    ) {
        let me = self.me;
        let commits = outcome.is_commit();
        let decides = self.live_mut(id).filter(|live| coordinator == me && !live.flight.local);
        let entry = match decides.and_then(|live| live.begins.clone().map(|begins| (live, begins))) {
            Some((live, transaction)) => {
                live.flight.local = true;
                Entry::AtOnce { transaction, outcome }
            }
            None => Entry::Global { id, coordinator, logs, outcome },
        };
        turn.out.push(Effect::Append(entry));
        let woken = self.transaction(id).map(|known| turn.resources.hand_over(known, commits));
        self.wake(woken.unwrap_or_default());
    }

    pub(crate) fn send<R>(&self, turn: &mut Turn<'_, R>, to: LogId, id: TransactionId, word: Word) {
        turn.out.push(Effect::Send { to, message: Message { from: self.me, id, word } });
    }

    /// The transaction, from the log or from its request.
    pub(crate) fn transaction(&self, id: TransactionId) -> Option<&Transaction> {
        let unlogged = || self.reign.as_ref()?.live.get(&id)?.begins.as_ref();
        self.ledger.get(id).map(|record| &record.transaction).or_else(unlogged)
    }

    /// A reason that is found here and now.
    pub(crate) fn refusal(
        &self,
        now: Time,
        id: TransactionId,
        cause: Cause,
        resource: Bytes,
        by: Option<TransactionId>,
    ) -> Refusal {
        let live = self.reign.as_ref().and_then(|reign| reign.live.get(&id));
        let waited = live.map_or(Duration::ZERO, |live| now.since(live.since));
        let stalled = live.filter(|_| cause == Cause::GaveUp);
        let by = by.or_else(|| stalled?.behind);
        let (resource, by) = match stalled.and_then(|live| live.in_the_way.clone()) {
            Some((resource, owner)) => (resource, Some(owner)),
            None => (resource, by),
        };
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        Refusal { log: self.me, cause, resource, by, waited_ms }
    }
}
