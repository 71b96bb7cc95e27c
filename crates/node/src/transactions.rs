//! Requests over several buckets on their way from this node's clients: as transactions that one of the buckets
//! coordinates.
//!
//! A transaction keeps its number until its outcome is known or nobody waits for it any more; asked again, it is answered
//! with what became of it. One that was aborted for reasons that pass is tried again under a new number, with its
//! age, so that it becomes older than what is in its way.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Bucket, Outcome, Refusal, Reply};
use quorate_commit::{Cause, NotTaken, Outcome as End, Transaction, TransactionId};
use quorate_kernel::{Marks, Time};
use quorate_shard::{Part, decode_decision};

use crate::meetings::Meetings;
use crate::named::Named;
use crate::origin::Address;
use crate::plan::Plan;
use crate::popular::Popular;

/// What was not answered, or not taken, may have come by a copy that does not reach the leader, or knows another one: for as long as it takes to ask so often again none go by copies.
const DIRECT: u32 = 5;

/// When requests that meet leave their node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Departure {
    /// So long after the first of them came.
    After(Duration),
    /// When fewer messages before them than so many have no answer.
    Answered(usize),
}

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Due {
    /// Which bucket coordinates it.
    pub(crate) bucket: Bucket,
    pub(crate) transaction: Transaction,
    /// Whether it may go by way of a copy: it meets others, and nothing tells that this way is not open.
    pub(crate) any_way: bool,
}

/// A transaction that has not ended.
#[derive(Debug)]
pub(crate) struct Open {
    /// Whose number it has.
    origin: u64,
    address: Address,
    plan: Plan,
    age: u64,
    bytes: usize,
    taken_at: Time,
    /// When it was sent last; `None`: it was not.
    pub(crate) sent_at: Option<Time>,
    /// Whether this attempt was sent more than once.
    sent_again: bool,
    not_before: Time,
    /// Whether it may go with others as one.
    shares: bool,
    /// Whether it only reads, so that no log has to remember what it found; then it may have to be asked anew.
    is_reader: bool,
    /// Whether it meets others that want what is popular; then it may have to wait for those before it that meet.
    pub(crate) meets: bool,
}

/// The transactions of this node.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// Names this life of this node, or a part of it.
    origin: u64,
    newest: u64,
    /// By number.
    open: BTreeMap<u64, Open>,
    meetings: Meetings,
    /// When the first of those that meet came that were not sent since.
    gathers_since: Option<Time>,
    /// When something was last not answered, or not taken.
    doubted_at: Option<Time>,
    bytes: usize,
    /// For a mutant: no log remembers what any of them found.
    all_forgotten: bool,
    /// Those that bear names of their clients.
    pub(crate) named: Named,
    /// What the others want.
    popular: Popular,
}

/// What came of a transaction for its client.
pub(crate) type Ended = (Address, Outcome);

impl Transactions {
    /// A life begins.
    pub(crate) fn begin(&mut self, chance: u64, all_forgotten: bool) {
        (self.origin, self.all_forgotten) = (chance, all_forgotten);
    }

    pub(crate) fn count(&self) -> usize {
        self.open.len() + self.named.count()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.named.bytes()
    }

    /// Takes a request that was taken apart. `age` is when, by any clock; `meets`: it wants what is popular.
    pub(crate) fn take(
        &mut self,
        address: Address,
        (plan, meets): (Plan, bool),
        (bytes, age, taken_at): (usize, u64, Time),
    ) {
        self.newest += 1;
        self.bytes += bytes;
        if meets {
            self.gathers_since.get_or_insert(taken_at);
        }
        let (origin, not_before, shares) = (self.origin, taken_at, plan.may_share());
        let is_reader = shares && plan.parts.len() > 1 && (plan.only_reads() || self.all_forgotten);
        let open = Open {
            origin,
            address,
            plan,
            age,
            bytes,
            taken_at,
            sent_at: None,
            sent_again: false,
            not_before,
            shares,
            is_reader,
            meets,
        };
        self.enter(open);
    }

    /// Gives a transaction the next number.
    fn enter(&mut self, open: Open) {
        self.meetings.add(&open);
        self.open.insert(self.newest, open);
    }

    fn leave(&mut self, sequence: u64) -> Option<Open> {
        let open = self.open.remove(&sequence)?;
        self.meetings.remove(&open);
        Some(open)
    }

    /// What is to be sent now. `retry`: so long after it was sent it is sent again.
    pub(crate) fn due(&mut self, (departure, retry): (Departure, Duration), now: Time) -> Vec<Due> {
        let settled_before = self.settled_before();
        let mut due = Vec::new();
        let waits = |open: &Open| open.sent_at.is_some_and(|at| now.since(at) < retry);
        let some_meet = !self.may_meet((departure, retry), now);
        if !some_meet {
            self.gathers_since = None;
        }
        for (sequence, open) in &mut self.open {
            if waits(open) || now < open.not_before || (some_meet && open.meets) {
                continue;
            }
            if open.sent_at.is_some() {
                open.sent_again = true;
                self.doubted_at = Some(now);
            }
            self.meetings.remove(open);
            open.sent_at = Some(now);
            self.meetings.add(open);
            let id = TransactionId { age: open.age, origin: open.origin, sequence: *sequence };
            let is_open = self.doubted_at.is_none_or(|at| now.since(at) >= retry * DIRECT);
            let any_way = open.meets && is_open;
            let own = open.plan.transaction(id, settled_before, (open.shares, open.is_reader));
            due.extend(own.map(|(bucket, transaction)| Due { bucket, transaction, any_way }));
        }
        let named = self.named.due(retry, now).into_iter();
        due.extend(named.map(|(bucket, transaction)| Due { bucket, transaction, any_way: false }));
        due
    }

    /// Whether a request that is about to be taken should meet others.
    pub(crate) fn wants_popular(&mut self, now: Time, plan: &Plan) -> bool {
        let is_alone = self.open.is_empty();
        self.popular.want(now, plan.keys(), is_alone)
    }

    /// Whether a request wants what is popular, without counting it.
    pub(crate) fn is_popular(&mut self, now: Time, plan: &Plan) -> bool {
        self.popular.is_popular(now, plan.keys())
    }

    /// Whether a message of those that meet may leave now.
    fn may_meet(&self, (departure, retry): (Departure, Duration), now: Time) -> bool {
        match departure {
            Departure::After(_) => self.departs_in(departure, now).is_none(),
            Departure::Answered(under_way_max) => {
                self.meetings.sent.keys().filter(|at| now.since(**at) < retry).count() < under_way_max
            }
        }
    }

    /// How long those that meet wait for others to come, if they do.
    pub(crate) fn departs_in(&self, departure: Departure, now: Time) -> Option<Duration> {
        let Departure::After(moment) = departure else { return None };
        let waits = self.gathers_since.map(|since| moment.saturating_sub(now.since(since)));
        waits.filter(|waits| !waits.is_zero())
    }

    /// Whether some waited for those before them that meet, and wait no longer.
    pub(crate) fn some_may_meet(&self, departure: (Departure, Duration), now: Time) -> bool {
        self.meetings.unsent > 0 && self.may_meet(departure, now)
    }

    /// What is sent again goes where it would have gone without meeting others: only a broken rule has that.
    pub(crate) fn forget_meetings(&mut self) {
        for open in self.open.values_mut().filter(|open| open.sent_again && open.meets) {
            open.plan.parts.retain(|_, part| *part != Part::default());
        }
    }

    /// The coordinators of those that were sent and not answered for a while.
    pub(crate) fn doubted(&self) -> BTreeSet<Bucket> {
        let own = self.open.values().filter(|open| open.sent_again);
        own.filter_map(|open| open.plan.coordinator()).chain(self.named.doubted()).collect()
    }

    /// Whether one of them is this.
    pub(crate) fn doubts(&self, bucket: Bucket) -> bool {
        let mut own = self.open.values().filter(|open| open.sent_again);
        own.any(|open| open.plan.coordinator() == Some(bucket))
            || self.named.doubted().any(|other| other == bucket)
    }

    /// The oldest number without an outcome.
    fn settled_before(&self) -> u64 {
        self.open.first_key_value().map_or(self.newest + 1, |(sequence, _)| *sequence)
    }

    /// A leader that was asked is no more: what it did not answer is asked of another.
    pub(crate) fn ask_again(&mut self, bucket: Bucket) {
        self.named.ask_again(bucket);
        for open in self.open.values_mut() {
            if open.plan.coordinator() == Some(bucket) && open.sent_at.is_some() {
                self.meetings.remove(open);
                (open.sent_at, open.sent_again) = (None, true);
                self.meetings.add(open);
            }
        }
    }

    /// A transaction has ended. What its client is told, unless it is tried again.
    pub(crate) fn ended(
        &mut self,
        (now, marks): (Time, &mut Marks),
        id: TransactionId,
        end: &End,
        chance: u64,
    ) -> Option<Ended> {
        let open = self.open.get(&id.sequence).filter(|open| open.origin == id.origin)?;
        let outcome = match end {
            End::Committed(decision) => {
                let reply =
                    decode_decision(decision).ok().and_then(|all| open.plan.whole.reply(&all, chance));
                if reply.is_none() && open.is_reader {
                    marks.hit("node.transaction.read_anew");
                    self.ask_anew(id.sequence, now);
                    return None;
                }
                // It happened; a decision that cannot be read leaves open how.
                reply.map_or(Outcome::Unknown, Outcome::Done)
            }
            End::Aborted(refusal) => match refusal.cause {
                Cause::Resource => Outcome::Done(Reply::NilArray),
                Cause::TooLarge => Outcome::Refused(Refusal::ValuesTooLarge),
                Cause::Crowded => {
                    if let Some(open) = self.open.get_mut(&id.sequence) {
                        self.meetings.remove(open);
                        (open.shares, open.meets) = (false, false);
                    }
                    self.try_again(id.sequence, now);
                    return None;
                }
                Cause::Settled => {
                    let sequence = id.sequence;
                    self.begin_anew(id.origin, chance);
                    self.try_again(sequence, now);
                    return None;
                }
                Cause::Votes | Cause::Unreached | Cause::Unknown | Cause::Busy | Cause::GaveUp => {
                    self.try_again(id.sequence, now);
                    return None;
                }
            },
        };
        self.close(id.sequence).map(|open| (open.address, outcome))
    }

    /// A log has taken this node for dead, since it was silent for so long: it goes on under another name. Nothing
    /// that was asked under the old one and not taken has happened.
    fn begin_anew(&mut self, origin: u64, chance: u64) {
        if origin == self.origin {
            self.origin = chance;
        }
    }

    /// It only reads, and what it found is lost. Next time it is remembered.
    fn ask_anew(&mut self, sequence: u64, now: Time) {
        if let Some(open) = self.open.get_mut(&sequence) {
            open.is_reader = false;
        }
        self.try_again(sequence, now);
    }

    /// Nothing came of it, and it is tried again soon, as somebody new of the same age.
    fn try_again(&mut self, sequence: u64, now: Time) {
        const REST: Duration = Duration::from_millis(5);
        let Some(open) = self.leave(sequence) else { return };
        self.newest += 1;
        let (origin, sent_at, sent_again, not_before) = (self.origin, None, false, now + REST);
        self.enter(Open { origin, sent_at, sent_again, not_before, ..open });
    }

    /// Who waits for it.
    pub(crate) fn addresses(&self, id: TransactionId) -> Vec<Address> {
        let own = self.open.get(&id.sequence).filter(|open| open.origin == id.origin);
        own.map_or_else(|| self.named.addresses(id), |open| Vec::from([open.address]))
    }

    /// Whether this life of this node began it.
    pub(crate) fn is_own(&self, id: TransactionId) -> bool {
        id.origin == self.origin
    }

    /// A leader did not take a transaction.
    pub(crate) fn not_taken(
        &mut self,
        id: TransactionId,
        why: NotTaken,
        chance: u64,
        now: Time,
    ) -> Option<Ended> {
        const REST: Duration = Duration::from_millis(25);
        let open = self.open.get_mut(&id.sequence).filter(|open| open.origin == id.origin)?;
        let outcome = match why {
            NotTaken::Busy if !open.sent_again => Outcome::Refused(Refusal::Busy),
            NotTaken::NotLeading | NotTaken::Busy => {
                if why == NotTaken::NotLeading {
                    self.doubted_at = Some(now);
                }
                self.meetings.remove(open);
                (open.sent_at, open.not_before) = (None, now + REST);
                self.meetings.add(open);
                return None;
            }
            NotTaken::Malformed => Outcome::Refused(Refusal::TooLarge),
            NotTaken::Settled if !open.sent_again => {
                self.begin_anew(id.origin, chance);
                self.try_again(id.sequence, now);
                return None;
            }
            NotTaken::Settled => Outcome::Unknown,
        };
        self.close(id.sequence).map(|open| (open.address, outcome))
    }

    /// What has waited for longer than `deadline` ends; what was sent may have happened.
    pub(crate) fn overdue(&mut self, deadline: Duration, now: Time) -> Vec<Ended> {
        let late = self.open.iter().filter(|(_, open)| now.since(open.taken_at) >= deadline);
        let late: Vec<u64> = late.map(|(sequence, _)| *sequence).collect();
        let mut ends = self.named.overdue(deadline, now);
        for sequence in late {
            if let Some(open) = self.close(sequence) {
                let sent = open.sent_at.is_some() || open.sent_again;
                let end = if sent { Outcome::Unknown } else { Outcome::Refused(Refusal::NoLeader) };
                ends.push((open.address, end));
            }
        }
        ends
    }

    fn close(&mut self, sequence: u64) -> Option<Open> {
        let open = self.leave(sequence)?;
        self.bytes -= open.bytes;
        Some(open)
    }

    pub(crate) fn check(&self) {
        self.named.check();
        let mut meetings = Meetings::default();
        self.open.values().for_each(|open| meetings.add(open));
        assert_eq!(self.meetings, meetings, "transactions that meet");
        assert_eq!(self.bytes, self.open.values().map(|open| open.bytes).sum(), "bytes of transactions");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use core::num::NonZeroU16;
    use quorate_api::Request;

    use crate::interface::{ConnectionId, Ticket};

    const MOMENT: Duration = Duration::from_micros(500);
    const RETRY: Duration = Duration::from_millis(200);

    fn us(us: u64) -> Time {
        Time(us * 1_000)
    }

    /// Somebody wants something that concerns two buckets, and meets others.
    fn take(transactions: &mut Transactions, now: Time) {
        let mut plan = plan(&Request::Versions(Vec::new()), NonZeroU16::MIN);
        plan.parts = [Bucket(0), Bucket(1)].map(|bucket| (bucket, Part::default())).into();
        let address = (ConnectionId(1), Ticket(transactions.newest));
        transactions.take(address, (plan, true), (1, 1, now));
    }

    fn due(transactions: &mut Transactions, now: Time) -> Vec<bool> {
        let due = transactions.due((Departure::After(MOMENT), RETRY), now);
        due.into_iter().map(|due| due.any_way).collect()
    }

    #[test]
    fn what_meets_leaves_after_a_moment_or_while_few_messages_have_no_answer() {
        let mut transactions = Transactions::default();
        take(&mut transactions, us(1_000));
        take(&mut transactions, us(1_300));
        assert_eq!(transactions.departs_in(Departure::After(MOMENT), us(1_300)), Some(MOMENT * 2 / 5));
        assert!(due(&mut transactions, us(1_499)).is_empty());
        assert_eq!(due(&mut transactions, us(1_500)), [true, true]);
        assert_eq!(transactions.departs_in(Departure::After(MOMENT), us(1_500)), None);
        take(&mut transactions, us(1_600));
        assert!(due(&mut transactions, us(1_600)).is_empty(), "of the next moment");
        assert_eq!(due(&mut transactions, us(2_100)), [true], "whatever else is under way");
        let mut others = Transactions::default();
        let sent = [1, 2, 3].map(|at| {
            take(&mut others, us(at));
            others.due((Departure::Answered(2), RETRY), us(at)).len()
        });
        assert_eq!(sent, [1, 1, 0]);
    }

    /// The first transaction is sent, something is said of it, and it ends; whether one that comes then goes by any way, soon and later.
    fn then(say: impl FnOnce(&mut Transactions, TransactionId)) -> [bool; 2] {
        let mut transactions = Transactions::default();
        take(&mut transactions, us(0));
        assert_eq!(due(&mut transactions, us(500)), [true]);
        let mut id = TransactionId { age: 1, origin: 0, sequence: 1 };
        say(&mut transactions, id);
        [500_000, 2_000_000].map(|at| {
            transactions.not_taken(id, NotTaken::Malformed, 7, us(at));
            take(&mut transactions, us(at));
            id.sequence += 1;
            let due = due(&mut transactions, us(at + 500));
            assert_eq!(due.len(), 1);
            due[0]
        })
    }

    #[test]
    fn where_the_way_is_not_open_all_go_to_the_leader() {
        assert_eq!(then(|_, _| ()), [true, true]);
        let unanswered = |transactions: &mut Transactions, _| {
            assert_eq!(due(transactions, us(200_500)), [false], "it is asked again");
        };
        assert_eq!(then(unanswered), [false, true]);
        let not_leading = |transactions: &mut Transactions, id| {
            assert_eq!(transactions.not_taken(id, NotTaken::NotLeading, 7, us(1_000)), None);
            assert_eq!(due(transactions, us(26_000)), [false]);
        };
        assert_eq!(then(not_leading), [false, true], "it was no copy, or knew another leader");
    }
}
