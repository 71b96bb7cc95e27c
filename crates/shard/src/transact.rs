//! Transactions over several shards at one of them: locks, votes, and what is held back meanwhile.
//!
//! `quorate-commit` decides; this is its parent. A transaction's keys are locked at the primary first and looked at when everything
//! without locks that was in the log by then is applied; its commands run once to learn their replies, and again, alike, at every
//! replica when it has happened. Batches that touch what is locked wait at the primary, and behind them those of the
//! same session.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_commit::locks::LockTable;
use quorate_commit::{
    Commit, Effect, Entry, Ledger, LogId, Message, State, Transaction, TransactionId, Turn, Vote, Word,
};
use quorate_kernel::{Cx, Marks, Rng, Time};
use quorate_replog::Index;
use quorate_store::Scan;

use crate::Mutant;
use crate::aside::Aside;
use crate::desk::{At, Desk};
use crate::held::{Held, Passing};
use crate::holds::Holds;
use crate::layout::{Area, ledger_key, ledger_name, ledger_range};
use crate::look::Ahead;
use crate::machine::{Out, Output, Shard, Timer};
use crate::overlay::Overlay;
use crate::part::{Export, Place};
use crate::sessions::Limits;
use crate::shield::Shield;
use crate::time::Times;
use crate::view::View;

/// Entries of transactions that go into the log together.
const TOGETHER_MAX: usize = 32;
/// After so long the log is asked again to take what it did not.
const AGAIN: Duration = Duration::from_millis(25);

/// What a shard keeps of transactions.
#[derive(Debug)]
pub(crate) struct Transactions {
    pub(crate) commit: Commit,
    /// Replicated: follows from the ledger.
    pub(crate) shield: Shield,
    pub(crate) desk: Desk,
    /// To be put into the log, in this order.
    pub(crate) entries: VecDeque<Entry>,
    held: Held,
    /// What those who read without locks hold.
    pub(crate) holds: Holds,
    /// For a primary: the newest time that it put into the log, or is about to.
    pub(crate) latest_ms: u64,
    /// For a primary: when an origin asked last.
    heard: BTreeMap<u64, Time>,
    /// For a mutant: nothing is held back.
    passes: bool,
    /// For a mutant: what was exported once.
    pub(crate) exported: BTreeMap<TransactionId, Export>,
}

impl Transactions {
    pub(crate) fn new(me: LogId, limits: &Limits, ledger: Ledger) -> Self {
        Transactions {
            shield: Shield::of(&ledger),
            commit: Commit::new(me, limits.commit.clone(), ledger),
            desk: Desk {
                me,
                limits: limits.clone(),
                locks: lock_table(limits),
                hopes: Vec::new(),
                unchecked: Vec::new(),
                ahead: Ahead::default(),
                aside: Aside::default(),
                overtaken: BTreeSet::new(),
                outranked: Vec::new(),
                reigns: false,
                released: false,
                newest_batch: 0,
                strayed: None,
            },
            entries: VecDeque::new(),
            held: Held::default(),
            holds: Holds::default(),
            latest_ms: 0,
            heard: BTreeMap::new(),
            passes: limits.breaks(Mutant::BatchesPassLocks),
            exported: BTreeMap::new(),
        }
    }

    /// What the store says.
    pub(crate) fn load(cx: &Cx<'_>, area: Area, me: LogId, limits: &Limits, has_lost: bool) -> Self {
        let (start, end) = ledger_range(area);
        let mut ledger = Ledger::new(me).after_losses(has_lost);
        for (key, value) in cx.store.scan(Scan::range(&start, Some(&end))) {
            if let Err(error) = ledger.load(ledger_name(&key), &value) {
                panic!("a row of the ledger of transactions: {error}");
            }
        }
        Transactions::new(me, limits, ledger)
    }

    /// Adds the rows of what has changed to `overlay`.
    pub(crate) fn write(&mut self, area: Area, overlay: &mut Overlay) {
        for (row, value) in self.commit.take_changes() {
            let key = ledger_key(area, &row.to_bytes());
            match value {
                Some(value) => overlay.put(key, value),
                None => overlay.delete(key),
            }
        }
    }

    /// Applies an entry of commitment, of the log's entry `index`, on every replica.
    pub(crate) fn apply(
        &mut self,
        (now, rng, marks): (Time, &mut Rng, &mut Marks),
        view: &mut View<'_>,
        (index, entry): (Index, &Entry),
        effects: &mut Vec<Effect>,
    ) {
        // Nothing about it leaves it as it was.
        let part = entry.id().and_then(|id| view.shield.lower(id));
        let mut at = At { desk: &mut self.desk, view: Some(&mut *view), part };
        let mut turn = Turn { now, rng, marks, resources: &mut at, out: effects };
        self.commit.applied(&mut turn, entry);
        let after = entry.id().and_then(|id| Some((id, self.commit.ledger().get(id)?)));
        if let Some((id, record)) = after
            && let State::Prepared(export) = &record.state
        {
            view.shield.raise(index, id, &record.transaction, export);
        }
    }

    /// Which batches go into the log now; see [`Held::pass`].
    pub(crate) fn let_pass(&mut self, marks: &mut Marks, now_ms: u64, batches: Vec<Bytes>) -> Passing {
        if (self.desk.locks.count() == 0 && self.held.is_empty()) || self.passes {
            return Passing { batches, ..Passing::default() };
        }
        let again = core::mem::take(&mut self.desk.released);
        let passing = self.held.pass(
            &mut self.desk.locks,
            batches,
            (again, now_ms, self.desk.limits.entry_bytes_max),
            marks,
        );
        self.desk.released = passing.more;
        passing
    }

    /// A place for a read that waits; see [`Held::place`].
    pub(crate) fn place(&mut self, now_ms: u64) -> TransactionId {
        self.held.place(now_ms)
    }

    /// Whether these batches, or some that were held back, may have the locks of an outcome that the log does not have yet: they
    /// must come behind it.
    pub(crate) fn hands_over_to(&self, batches: &[Bytes]) -> bool {
        let outcome = |entry: &Entry| matches!(entry, Entry::Global { .. } | Entry::AtOnce { .. });
        let anybody = !batches.is_empty() || !self.held.is_empty();
        anybody
            && !self.desk.ahead.is_empty()
            && self.entries.iter().any(outcome)
            && !self.desk.limits.breaks(Mutant::BatchesPassOutcomes)
    }

    /// An entry of the log changes something without a lock.
    pub(crate) fn has_batch(&mut self, index: Index) {
        self.desk.newest_batch = index;
    }

    /// Asserts that what was carried out did what its vote had said. Not while it is carried out: the client has been told
    /// what the vote said, and a server that stops at the entry would stop there again.
    pub(crate) fn check(&self) {
        self.commit.check();
        assert_eq!(self.desk.strayed, None, "a transaction has other replies than its vote had");
    }
}

impl Shard {
    /// Hands something to commitment, and does what it wants.
    pub(crate) fn commit(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Out,
        act: impl FnOnce(&mut Commit, &mut Turn<'_, At<'_, '_>>),
    ) {
        let mut effects = Vec::new();
        let transactions = &mut self.transactions;
        let mut at = At { desk: &mut transactions.desk, view: None, part: None };
        let mut turn = Turn {
            now: cx.now,
            rng: &mut *cx.rng,
            marks: &mut *cx.marks,
            resources: &mut at,
            out: &mut effects,
        };
        act(&mut transactions.commit, &mut turn);
        self.carry_on(cx, effects, out);
    }

    /// Does what commitment wants, and looks at what is locked and due.
    pub(crate) fn carry_on(&mut self, cx: &mut Cx<'_>, mut effects: Vec<Effect>, out: &mut Out) {
        loop {
            for effect in effects.drain(..) {
                self.effect(cx, effect, out);
            }
            let looked = self.hopeless(cx).or_else(|| self.next_look(cx, out));
            let woken = if looked.is_none() { self.end_holds_of_younger(cx.marks) } else { Vec::new() };
            if looked.is_none() && woken.is_empty() {
                break;
            }
            let mut at = At { desk: &mut self.transactions.desk, view: None, part: None };
            let mut turn = Turn {
                now: cx.now,
                rng: &mut *cx.rng,
                marks: &mut *cx.marks,
                resources: &mut at,
                out: &mut effects,
            };
            match looked {
                Some((id, attempt)) => self.transactions.commit.answered(&mut turn, id, attempt),
                None => self.transactions.commit.may_go_on(&mut turn, woken),
            }
        }
        if self.transactions.desk.released && !self.transactions.held.is_empty() {
            out.arm(Timer::Propose, Duration::ZERO);
        }
    }

    /// What was let pass is in the log: who comes after it may go on, and who still waits says so.
    pub(crate) fn has_passed(&mut self, cx: &mut Cx<'_>, passing: Passing, out: &mut Out) {
        for id in passing.places {
            let woken = self.transactions.desk.locks.release(id);
            if !woken.is_empty() {
                self.commit(cx, out, |commit, turn| commit.may_go_on(turn, woken));
            }
        }
        for (id, owners) in passing.hindered {
            self.commit(cx, out, |commit, turn| commit.wanted_by(turn, id, &owners));
        }
        if passing.more {
            out.arm(Timer::Propose, Duration::ZERO);
        }
    }

    fn effect(&mut self, cx: &mut Cx<'_>, effect: Effect, out: &mut Out) {
        match effect {
            Effect::Append(entry) => {
                let times = Times::of(&entry, self.transactions.desk.me);
                self.transactions.latest_ms = self.transactions.latest_ms.max(times.found.max(times.brought));
                self.transactions.entries.push_back(entry);
                out.arm(Timer::Propose, Duration::ZERO);
            }
            // What commitment says is about chosen entries: a quorum's disks have them.
            Effect::Send { to, mut message } => {
                if let Word::Vote { vote: Vote::Yes(export), .. } = &mut message.word {
                    *export = self.whole_export(cx, message.id, core::mem::take(export));
                }
                out.output_early(Output::Tell { to, message });
            }
            // As above.
            Effect::Result { id, outcome } => {
                let outcome = self.transactions.desk.aside.whole_outcome(id, outcome);
                out.output_early(Output::Transacted { id, outcome });
            }
            // Nothing happened.
            Effect::NotTaken { id, why } => out.output_early(Output::TransactionNotTaken { id, why }),
            Effect::Waits { id, wait } => self.tell_wait(id, &wait, out),
            Effect::Arm(after) => out.arm(Timer::Commit, after),
        }
    }

    /// Begins or ends what depends on leading the log.
    pub(crate) fn look_after_reign(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let reign = self.reign();
        if self.transactions.commit.view().is_some_and(|view| Some(view) != reign) {
            self.transactions.commit.follow();
            let transactions = &mut self.transactions;
            let desk = &mut transactions.desk;
            desk.locks = lock_table(&self.limits);
            desk.hopes.clear();
            desk.unchecked.clear();
            desk.ahead = Ahead::default();
            desk.aside = Aside::default();
            desk.overtaken.clear();
            desk.outranked.clear();
            desk.newest_batch = 0;
            desk.reigns = false;
            transactions.holds.clear();
            transactions.entries.clear();
            transactions.heard.clear();
            let held: Vec<Bytes> = transactions.held.take().collect();
            self.turn_away(&held, out);
        }
        if let Some(view) = reign
            && self.transactions.commit.view().is_none()
            && self.has_caught_up()
        {
            self.transactions.desk.reigns = true;
            self.commit(cx, out, |commit, turn| commit.lead(turn, view));
        }
    }

    /// A transaction is asked for.
    pub(crate) fn transact(&mut self, cx: &mut Cx<'_>, transaction: Transaction, out: &mut Out) {
        self.hear(cx, transaction.id.origin, out);
        if let Some(origin) = self.transactions.commit.bundles_origin() {
            self.hear(cx, origin, out);
        }
        self.commit(cx, out, |commit, turn| commit.request(turn, transaction, Default::default()));
    }

    /// An origin lives. Those that have been silent for long are settled if they, or what is remembered of them, are too
    /// many.
    fn hear(&mut self, cx: &mut Cx<'_>, origin: u64, out: &mut Out) {
        self.transactions.heard.insert(origin, cx.now);
        let limits = &self.limits.commit;
        let (ledger, heard) = (self.transactions.commit.ledger(), &mut self.transactions.heard);
        let is_crowded =
            ledger.origins() * 4 >= limits.origins_max * 3 || ledger.count() * 4 >= limits.records_max * 3;
        if is_crowded {
            // Lives of nodes that are over: nobody says so, they are just silent.
            let idle = self.limits.origin_idle;
            for origin in ledger.horizons() {
                heard.entry(origin).or_insert(cx.now);
            }
            let silent = heard.iter().filter(|(_, at)| cx.now.since(**at) >= idle);
            let silent: Vec<u64> = silent.map(|(origin, _)| *origin).collect();
            for origin in silent {
                cx.marks.hit("shard.origin.settled");
                self.transactions.heard.remove(&origin);
                self.commit(cx, out, |commit, turn| commit.settle(turn, origin, u64::MAX));
            }
        }
    }

    /// A message from the primary of another shard.
    pub(crate) fn told_by(&mut self, cx: &mut Cx<'_>, message: Message, out: &mut Out) {
        self.hear(cx, message.id.origin, out);
        self.commit(cx, out, |commit, turn| commit.message(turn, message));
    }

    /// Takes the next entries of transactions to be logged: a few, so that together they still fit a message.
    pub(crate) fn next_entries(&mut self, out: &mut Out) -> Vec<Entry> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let waiting = &mut self.transactions.entries;
        while entries.len() < TOGETHER_MAX
            && let Some(entry) = waiting.front()
        {
            bytes += entry.size_bytes();
            if bytes > self.limits.entry_bytes_max && !entries.is_empty() {
                break;
            }
            entries.extend(waiting.pop_front());
        }
        if !waiting.is_empty() {
            out.arm(Timer::Propose, Duration::ZERO);
        }
        entries
    }

    /// The log takes nothing now: it is asked again.
    pub(crate) fn propose_later(&self, out: &mut Out) {
        if !self.transactions.entries.is_empty() || !self.transactions.held.is_empty() {
            out.arm(Timer::Propose, AGAIN);
        }
    }
}

/// An empty one.
fn lock_table(limits: &Limits) -> LockTable<Place> {
    let locks = LockTable::new(limits.locked_keys_max);
    #[cfg(feature = "mutants")]
    let locks = locks.broken(limits.commit.mutant);
    locks
}

#[cfg(test)]
mod tests {
    use quorate_commit::locks::Taken;

    use super::*;
    use crate::batch::{BatchHeader, encode_batch};
    use quorate_api::{Command, Request, SessionId};
    use quorate_commit::locks::{Mode, Want};
    use quorate_kernel::NodeId;

    fn set(first_seq: u64, key: &'static [u8]) -> Bytes {
        let (origin, session) = (NodeId(1), SessionId(7));
        let header = BatchHeader { origin, session, first_seq, count: 1, settled_before: 1, since: 0 };
        let spec = quorate_values::find(b"set").expect("a command");
        let args = [Bytes::from_static(key), Bytes::from_static(b"x")].into();
        encode_batch(&header, [&Request::One(Command { code: spec.code, args })])
    }

    const LOCKED: TransactionId = TransactionId { age: 5, origin: 1, sequence: 1 };

    fn transactions() -> Transactions {
        let me = LogId(0);
        let mut transactions = Transactions::new(me, &Limits::production(), Ledger::new(me));
        assert_eq!(transactions.desk.locks.try_all(LOCKED, &write(b"locked")), Taken::All);
        transactions
    }

    fn write(key: &'static [u8]) -> [Want<Place>; 1] {
        [Want { key: Place::Key(Bytes::from_static(key)), mode: Mode::Write, expected: None }]
    }

    #[test]
    fn a_batch_does_not_pass_one_of_its_session_that_was_held_back_before() {
        let mut transactions = transactions();
        let mut marks = Marks::default();
        assert!(transactions.let_pass(&mut marks, 9, alloc::vec![set(1, b"locked")]).batches.is_empty());
        assert!(transactions.let_pass(&mut marks, 9, alloc::vec![set(2, b"free")]).batches.is_empty());
        transactions.desk.released = true;
        assert!(transactions.let_pass(&mut marks, 9, Vec::new()).batches.is_empty(), "nothing is free");
        transactions.desk.locks.release(LOCKED);
        assert!(transactions.let_pass(&mut marks, 9, Vec::new()).batches.is_empty(), "nobody said so");
        transactions.desk.released = true;
        let passing = transactions.let_pass(&mut marks, 9, Vec::new());
        assert_eq!(passing.batches, [set(1, b"locked"), set(2, b"free")]);
    }

    /// Or a stream of transactions would keep it waiting for ever, as whole clusters did in `placement` seed 56348920.
    #[test]
    fn what_comes_later_and_locks_does_not_pass_a_batch_that_waits() {
        let mut transactions = transactions();
        let mut marks = Marks::default();
        let passing = transactions.let_pass(&mut marks, 9, alloc::vec![set(1, b"locked")]);
        assert!(matches!(&passing.hindered[..], [(_, owners)] if *owners == [LOCKED]));
        let id = |age| TransactionId { age, origin: 7, sequence: age };
        let locks = &mut transactions.desk.locks;
        assert_eq!(locks.try_all(id(10), &write(b"locked")), Taken::Waits(alloc::vec![LOCKED]));
        locks.release(LOCKED);
        assert_eq!(locks.try_all(id(10), &write(b"locked")), Taken::Waits(Vec::new()), "younger");
        transactions.desk.released = true;
        let passing = transactions.let_pass(&mut marks, 11, Vec::new());
        assert_eq!((passing.batches.len(), passing.places.len()), (1, 1));
        let woken: Vec<_> =
            passing.places.iter().flat_map(|place| transactions.desk.locks.release(*place)).collect();
        assert_eq!(woken, [id(10)]);
        assert_eq!(transactions.desk.locks.try_all(id(10), &write(b"locked")), Taken::All);
    }

    #[test]
    fn batches_are_not_in_each_others_way() {
        let mut transactions = transactions();
        let mut marks = Marks::default();
        let both = [&b"locked"[..], b"free"].map(|key| {
            Request::One(Command {
                code: quorate_values::find(b"set").expect("a command").code,
                args: [Bytes::from_static(key), Bytes::from_static(b"x")].into(),
            })
        });
        let of = |session, requests: &[Request]| {
            let header = BatchHeader {
                origin: NodeId(1),
                session: SessionId(session),
                first_seq: 1,
                count: requests.len() as u64,
                settled_before: 1,
                since: 0,
            };
            encode_batch(&header, requests)
        };
        assert!(transactions.let_pass(&mut marks, 9, alloc::vec![of(1, &both)]).batches.is_empty());
        let free = of(2, &both[1..]);
        assert_eq!(transactions.let_pass(&mut marks, 9, alloc::vec![free.clone()]).batches, [free]);
    }

    #[test]
    fn what_was_held_back_goes_on_in_entries_that_fit() {
        let mut transactions = transactions();
        transactions.desk.limits.entry_bytes_max = 2 * set(1, b"locked").len();
        let mut marks = Marks::default();
        let batches = (1..=5).map(|number| set(number, b"locked")).collect();
        assert!(transactions.let_pass(&mut marks, 9, batches).batches.is_empty());
        transactions.desk.locks.release(LOCKED);
        transactions.desk.released = true;
        let mut count = || transactions.let_pass(&mut marks, 9, Vec::new()).batches.len();
        assert_eq!([count(), count(), count(), count()], [2, 2, 1, 0]);
    }
}
