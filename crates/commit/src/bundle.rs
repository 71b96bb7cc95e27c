//! Bundles: requests of one coordinator that go together as one transaction.
//!
//! What comes while enough is under way waits, and then begins as one: with one vote, one lock and one outcome at each log for
//! all of them. So what a popular resource can bear is not one request for each time that its lock is held, and most
//! messages and entries are shared.
//!
//! A bundle has a name of its own, of an origin that this reign alone uses: names of members would be used twice, with
//! different contents, when a primary dies and its successor is asked again. Other logs never hear of members. The
//! coordinator's log remembers whose bundle it is, so that a member that is asked for again is answered with what became of its
//! bundle, and does not begin a second time.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_kernel::Time;

use crate::machine::{Commit, Effect, Resources, Turn};
use crate::record::Member;
use crate::{Cause, LogId, Mutant, Outcome, Refusal, Transaction, TransactionId, View};

/// What a primary knows of bundles.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    /// Whose bundles they are; 0: not drawn yet.
    origin: u64,
    newest: u64,
    /// Wait for others to go with, in the order in which they came.
    waiting: VecDeque<Transaction>,
    /// These, and members of bundles that the log does not have.
    unlogged: BTreeSet<TransactionId>,
    /// Under way here, and not decided: when they began. Not all of them are bundles.
    open: BTreeMap<TransactionId, Time>,
}

impl Bundles {
    /// How many requests wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The outcome of a transaction is in the log.
    pub(crate) fn ended(&mut self, id: TransactionId) {
        self.open.remove(&id);
    }

    /// The log remembers these.
    pub(crate) fn logged(&mut self, members: &[Member]) {
        for member in members {
            self.unlogged.remove(&member.id);
        }
    }

    /// When those that wait go on without an outcome of those before them.
    pub(crate) fn due(&self, now: Time, wait: Duration) -> Option<Time> {
        let count = self.open.values().filter(|began| now.since(**began) < wait);
        if self.waiting.is_empty() { None } else { count.min().map(|began| *began + wait) }
    }

    fn has_turn(&self, now: Time, wait: Duration, bundles_max: usize) -> bool {
        let counts = self.open.values().filter(|began| now.since(**began) < wait).count();
        !self.waiting.is_empty() && counts < bundles_max
    }

    /// The next to go together: at most so many, with so many logs and bytes.
    fn next(&mut self, (members_max, logs_max, bytes_max): (usize, usize, usize)) -> Vec<Transaction> {
        let (mut members, mut logs, mut bytes) = (Vec::new(), BTreeSet::new(), 0);
        while members.len() < members_max
            && let Some(next) = self.waiting.front()
        {
            bytes += next.bytes();
            logs.extend(next.logs.iter().copied());
            if !members.is_empty() && (bytes > bytes_max || logs.len() > logs_max) {
                break;
            }
            members.extend(self.waiting.pop_front());
        }
        members
    }

    /// Below this number all bundles have ended.
    fn settled_before(&self) -> u64 {
        let own = self.open.keys().filter(|id| id.origin == self.origin);
        own.map(|id| id.sequence).min().unwrap_or(self.newest)
    }
}

impl Commit {
    /// Whether a request is a member of a bundle, or about to be.
    pub(crate) fn is_member(&self, id: TransactionId) -> bool {
        let waits = self.reign.as_ref().is_some_and(|reign| reign.bundles.unlogged.contains(&id));
        let forgets = self.config.breaks(Mutant::MembersForgotten);
        waits || (!forgets && self.ledger.bundle_of(id).is_some())
    }

    /// Under which name this reign began bundles, if it did: an origin that the parent must take for alive.
    pub fn bundles_origin(&self) -> Option<u64> {
        self.reign.as_ref().map(|reign| reign.bundles.origin).filter(|origin| *origin > 0)
    }

    /// Whether a request that is new may go with others.
    pub(crate) fn may_share(&self, transaction: &Transaction) -> bool {
        self.config.members_max > 1
            && transaction.shares
            && transaction.coordinator == self.me
            && transaction.others.len() + 1 == transaction.logs.len()
            && !transaction.is_alone()
    }

    /// A request waits until it is its turn, and goes with those that wait then.
    pub(crate) fn wait_for_others(&mut self, transaction: Transaction) {
        let Some(reign) = &mut self.reign else { return };
        reign.bundles.unlogged.insert(transaction.id);
        reign.bundles.waiting.push_back(transaction);
    }

    /// Begins what waits, if it is its turn.
    pub(crate) fn bundle<R: Resources>(&mut self, turn: &mut Turn<'_, R>) {
        let wait = self.config.bundle_wait;
        let has_turn = |commit: &Commit, now: Time| {
            let reign = commit.reign.as_ref();
            reign.is_some_and(|reign| reign.bundles.has_turn(now, wait, commit.config.bundles_max))
        };
        if !has_turn(self, turn.now) {
            return;
        }
        self.send_ahead(turn);
        let limits = (self.config.members_max, self.config.logs_max, self.config.part_bytes_max / 4);
        while has_turn(self, turn.now) {
            let Some(reign) = &mut self.reign else { return };
            let mut members = reign.bundles.next(limits);
            if members.len() > 1 {
                let bundle = self.join(turn, &members);
                self.open(bundle.id, turn.now);
                self.begin(turn, bundle, View::default());
            } else if let Some(alone) = members.pop() {
                self.open(alone.id, turn.now);
                self.begin_alone(turn, alone);
            }
        }
    }

    fn open(&mut self, id: TransactionId, now: Time) {
        if let Some(reign) = &mut self.reign {
            reign.bundles.open.insert(id, now);
        }
    }

    /// Begins what waited, under its own name; unless it was asked about under that name meanwhile, and does not happen.
    fn begin_alone<R: Resources>(&mut self, turn: &mut Turn<'_, R>, transaction: Transaction) {
        let id = transaction.id;
        if let Some(reign) = &mut self.reign {
            reign.bundles.unlogged.remove(&id);
        }
        match self.ledger.get(id) {
            None if !self.is_live(id) => self.begin(turn, transaction, View::default()),
            // Its origin is told when that is in the log.
            None => {}
            Some(record) => {
                let outcome = record.outcome().cloned();
                turn.out.extend(outcome.map(|outcome| Effect::Result { id, outcome }));
                if let Some(reign) = &mut self.reign {
                    reign.bundles.ended(id);
                }
            }
        }
    }

    /// Those who need a log that is late go alone, and do not keep the others waiting.
    fn send_ahead<R: Resources>(&mut self, turn: &mut Turn<'_, R>) {
        let late = self.late_logs(turn.now);
        let Some(reign) = self.reign.as_mut().filter(|_| !late.is_empty()) else { return };
        let needs = |transaction: &Transaction| transaction.logs.iter().any(|log| late.contains(log));
        let waiting = core::mem::take(&mut reign.bundles.waiting);
        let (ahead, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(needs);
        reign.bundles.waiting.extend(others);
        for transaction in ahead {
            turn.marks.hit("commit.bundle.ahead");
            self.begin_alone(turn, transaction);
        }
    }

    /// Logs that have not voted for long on something that is under way.
    fn late_logs(&self, now: Time) -> BTreeSet<LogId> {
        let Some(reign) = &self.reign else { return BTreeSet::new() };
        let old =
            reign.bundles.open.iter().filter(|(_, began)| now.since(**began) >= self.config.bundle_wait);
        let mut late = BTreeSet::new();
        for (id, _) in old {
            let (Some(live), Some(transaction)) = (reign.live.get(id), self.transaction(*id)) else {
                continue;
            };
            let voted = |log: &LogId| live.decided || live.votes.contains_key(log);
            late.extend(transaction.logs.iter().copied().filter(|log| *log != self.me && !voted(log)));
        }
        late
    }

    /// Makes one transaction of several.
    fn join<R: Resources>(&mut self, turn: &mut Turn<'_, R>, requests: &[Transaction]) -> Transaction {
        turn.marks.hit("commit.bundle");
        let mut parts: BTreeMap<LogId, Vec<(usize, Bytes)>> = BTreeMap::new();
        for (member, request) in requests.iter().enumerate() {
            parts.entry(self.me).or_default().push((member, request.part.clone()));
            for (log, part) in &request.others {
                parts.entry(*log).or_default().push((member, part.clone()));
            }
        }
        let logs: Vec<LogId> = parts.keys().copied().collect();
        let part = turn.resources.bundle(&parts.remove(&self.me).unwrap_or_default());
        let others = parts.iter().map(|(log, parts)| (*log, turn.resources.bundle(parts))).collect();
        let members =
            requests.iter().map(|request| Member { id: request.id, settled_before: request.settled_before });
        let (members, coordinator) = (members.collect(), self.me);
        let age = requests.iter().map(|request| request.id.age).min().unwrap_or_default();
        let by_member = self.config.breaks(Mutant::BundleNamedByMember);
        let bundles = self.reign.as_mut().map(|reign| &mut reign.bundles);
        let (id, settled_before) = bundles.map_or_else(Default::default, |bundles| {
            if bundles.origin == 0 {
                bundles.origin = turn.rng.next_u64().max(1);
            }
            bundles.newest += 1;
            let id = TransactionId { age, origin: bundles.origin, sequence: bundles.newest };
            (if by_member { requests[0].id } else { id }, bundles.settled_before())
        });
        Transaction { id, coordinator, logs, part, others, settled_before, shares: false, members }
    }

    /// Tells the origins of a bundle's members how it ended, and how many there are.
    pub(crate) fn tell_members<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) -> usize {
        let Some(record) = self.ledger.get(id) else { return 0 };
        let members = &record.transaction.members;
        let outcomes = record.outcome().map(|outcome| outcomes_of(turn, id, outcome, members.len()));
        for (member, outcome) in members.iter().zip(outcomes.into_iter().flatten()) {
            turn.out.push(Effect::Result { id: member.id, outcome });
        }
        let refused = record.outcome().is_some_and(is_settled);
        let count = members.len();
        if let Some(reign) = self.reign.as_mut().filter(|reign| refused && reign.bundles.origin == id.origin)
        {
            // Somebody has taken this reign for dead, since it was silent for so long.
            reign.bundles.origin = 0;
        }
        count
    }

    /// Tells the origin of a member, which asks again, how its bundle ended, if it did.
    pub(crate) fn tell_member<R: Resources>(&mut self, turn: &mut Turn<'_, R>, id: TransactionId) {
        let bundle = self.ledger.bundle_of(id).and_then(|bundle| self.ledger.get(bundle));
        let Some((record, outcome)) = bundle.and_then(|record| Some((record, record.outcome()?))) else {
            return;
        };
        let members = &record.transaction.members;
        let outcomes = outcomes_of(turn, record.transaction.id, outcome, members.len());
        let his = members.iter().zip(outcomes).find(|(member, _)| member.id == id);
        if let Some((_, outcome)) = his {
            turn.out.push(Effect::Result { id, outcome });
        }
    }
}

/// How a bundle's end is that of each of its members.
fn outcomes_of<R: Resources>(
    turn: &mut Turn<'_, R>,
    bundle: TransactionId,
    outcome: &Outcome,
    count: usize,
) -> Vec<Outcome> {
    match outcome {
        Outcome::Committed(_) if count == 0 => Vec::new(),
        Outcome::Committed(decision) => {
            turn.resources.excerpts(bundle, decision, count).into_iter().map(Outcome::Committed).collect()
        }
        Outcome::Aborted(refusal) => {
            let cause = match refusal.cause {
                Cause::TooLarge => Cause::Crowded,
                // That of the bundle, not theirs.
                Cause::Settled => Cause::GaveUp,
                cause => cause,
            };
            alloc::vec![Outcome::Aborted(Refusal { cause, ..refusal.clone() }); count]
        }
    }
}

fn is_settled(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Aborted(Refusal { cause: Cause::Settled, .. }))
}
