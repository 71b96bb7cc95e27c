//! Requests that bear a name of their client, on their way from this node's clients: each is a transaction under that name,
//! over however many buckets, so that it is found again wherever it is asked for.
//!
//! The name is never changed. Where a request of the node's own would be tried again under a new number, the client is told that
//! nothing happened under this one and never will.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Bucket, Identity, Outcome, Refusal, Reply};
use quorate_commit::{Cause, NotTaken, Outcome as End, Transaction, TransactionId};
use quorate_kernel::Time;
use quorate_shard::decode_decision;

use crate::origin::Address;
use crate::plan::Plan;
use crate::transactions::Ended;

/// A request that is under way.
#[derive(Debug)]
struct Open {
    plan: Plan,
    settled_before: u64,
    bytes: usize,
    /// When it was sent last; `None`: it was not, or has to be sent again.
    sent_at: Option<Time>,
    /// How often it was sent, so far as it matters: never, once, or more.
    sent: u8,
    not_before: Time,
    /// Who waits, and since when: a client whose connection broke may be here again.
    waiting: Vec<(Address, Time)>,
}

/// The named requests of this node.
#[derive(Debug, Default)]
pub(crate) struct Named {
    open: BTreeMap<TransactionId, Open>,
    waiting: usize,
    bytes: usize,
}

impl Named {
    /// Requests whose clients wait.
    pub(crate) fn count(&self) -> usize {
        self.waiting
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn has(&self, id: TransactionId) -> bool {
        self.open.contains_key(&id)
    }

    /// Takes a request that was taken apart.
    pub(crate) fn take(
        &mut self,
        address: Address,
        identity: Identity,
        plan: Plan,
        bytes: usize,
        taken_at: Time,
    ) {
        let Identity { age_ms, origin, sequence, settled_before } = identity;
        let id = TransactionId { age: age_ms, origin, sequence };
        self.waiting += 1;
        let held = &mut self.bytes;
        let open = self.open.entry(id).or_insert_with(|| {
            *held += bytes;
            let (sent_at, sent, not_before, waiting) = (None, 0, taken_at, Vec::new());
            Open { plan, settled_before, bytes, sent_at, sent, not_before, waiting }
        });
        open.waiting.push((address, taken_at));
    }

    /// Who waits for it.
    pub(crate) fn addresses(&self, id: TransactionId) -> Vec<Address> {
        let open = self.open.get(&id);
        open.map_or_else(Vec::new, |open| open.waiting.iter().map(|(address, _)| *address).collect())
    }

    /// What is to be sent now, and to whose leader. `retry`: so long after it was sent it is sent again.
    pub(crate) fn due(&mut self, retry: Duration, now: Time) -> Vec<(Bucket, Transaction)> {
        let mut due = Vec::new();
        for (id, open) in &mut self.open {
            let waits = open.sent_at.is_some_and(|at| now.since(at) < retry);
            if waits || now < open.not_before {
                continue;
            }
            open.sent = (open.sent + 1).min(2);
            open.sent_at = Some(now);
            // What a client names goes alone: should it be too long beside others, the name would be lost.
            due.extend(open.plan.transaction(*id, open.settled_before, (false, false)));
        }
        due
    }

    /// The coordinators of those that were sent and not answered for a while.
    pub(crate) fn doubted(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.open.values().filter(|open| open.sent > 1).filter_map(|open| open.plan.coordinator())
    }

    /// A leader that was asked is no more: what it did not answer is asked of another.
    pub(crate) fn ask_again(&mut self, bucket: Bucket) {
        for open in self.open.values_mut() {
            if open.plan.coordinator() == Some(bucket) {
                open.sent_at = None;
            }
        }
    }

    /// It has ended. What its clients are told.
    pub(crate) fn ended(&mut self, id: TransactionId, end: &End, chance: u64) -> Vec<Ended> {
        let Some(open) = self.open.get(&id) else { return Vec::new() };
        let outcome = match end {
            End::Committed(decision) => {
                let decision = decode_decision(decision).ok();
                let reply = decision.and_then(|all| open.plan.whole.reply(&all, chance));
                // It happened; a decision that cannot be read leaves open how.
                reply.map_or(Outcome::Unknown, Outcome::Done)
            }
            End::Aborted(refusal) => match refusal.cause {
                Cause::Resource => Outcome::Done(Reply::NilArray),
                Cause::TooLarge => Outcome::Refused(Refusal::ValuesTooLarge),
                Cause::Settled
                | Cause::Votes
                | Cause::Unreached
                | Cause::Unknown
                | Cause::Busy
                | Cause::GaveUp
                | Cause::Crowded => Outcome::Refused(Refusal::Aborted),
            },
        };
        self.close(id, &outcome)
    }

    /// A leader did not take it. What its clients are told, unless it is asked again.
    pub(crate) fn not_taken(&mut self, id: TransactionId, why: NotTaken, now: Time) -> Vec<Ended> {
        const REST: Duration = Duration::from_millis(25);
        let Some(open) = self.open.get_mut(&id) else { return Vec::new() };
        let once = open.sent < 2;
        let outcome = match why {
            NotTaken::Busy if once => Outcome::Refused(Refusal::Busy),
            NotTaken::NotLeading | NotTaken::Busy => {
                open.sent_at = None;
                open.not_before = now + REST;
                return Vec::new();
            }
            NotTaken::Malformed => Outcome::Refused(Refusal::TooLarge),
            NotTaken::Settled if once => Outcome::Refused(Refusal::Settled),
            NotTaken::Settled => Outcome::Unknown,
        };
        self.close(id, &outcome)
    }

    /// Who has waited for longer than `deadline` is told so; what was sent may have happened.
    pub(crate) fn overdue(&mut self, deadline: Duration, now: Time) -> Vec<Ended> {
        let mut ends = Vec::new();
        let (count, bytes) = (&mut self.waiting, &mut self.bytes);
        self.open.retain(|_, open| {
            let unsent = Outcome::Refused(Refusal::NoLeader);
            let end = if open.sent > 0 { Outcome::Unknown } else { unsent };
            let late = open.waiting.extract_if(.., |(_, since)| now.since(*since) >= deadline);
            ends.extend(late.map(|(address, _)| (address, end.clone())));
            let keep = !open.waiting.is_empty();
            *bytes -= if keep { 0 } else { open.bytes };
            keep
        });
        *count -= ends.len();
        ends
    }

    fn close(&mut self, id: TransactionId, outcome: &Outcome) -> Vec<Ended> {
        let Some(open) = self.open.remove(&id) else { return Vec::new() };
        self.bytes -= open.bytes;
        self.waiting -= open.waiting.len();
        open.waiting.into_iter().map(|(address, _)| (address, outcome.clone())).collect()
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.bytes, self.open.values().map(|open| open.bytes).sum(), "bytes of named requests");
        let waiting = self.open.values().map(|open| open.waiting.len()).sum();
        assert_eq!(self.waiting, waiting, "clients that wait for named requests");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{ConnectionId, Ticket};
    use crate::plan::plan;
    use bytes::Bytes;
    use core::num::NonZeroU16;
    use quorate_api::{Command, Request};
    use quorate_commit::{LogId, Refusal as Why};

    const RETRY: Duration = Duration::from_millis(100);
    const ID: TransactionId = TransactionId { age: 9, origin: 77, sequence: 3 };

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(ms)
    }

    fn client(number: u64) -> Address {
        (ConnectionId(number), Ticket(number))
    }

    fn take(named: &mut Named, number: u64, ms: u64) {
        let spec = quorate_values::find(b"incr").expect("a command");
        let commands = Vec::from([Command { code: spec.code, args: Vec::from([Bytes::from_static(b"n")]) }]);
        let request = Request::Transaction { watched: Vec::new(), commands };
        let identity = Identity { age_ms: 9, origin: 77, sequence: 3, settled_before: 2 };
        let plan = plan(&request, NonZeroU16::MIN);
        named.take(client(number), identity, plan, 40, at(ms));
        named.check();
    }

    fn aborted(cause: Cause) -> End {
        let (resource, by, waited_ms) = (Bytes::new(), None, 0);
        End::Aborted(Why { log: LogId(0), cause, resource, by, waited_ms })
    }

    #[test]
    fn it_is_sent_under_its_name_until_somebody_answers() {
        let mut named = Named::default();
        take(&mut named, 1, 0);
        let due = named.due(RETRY, at(0));
        let (bucket, transaction) = &due[0];
        assert_eq!((*bucket, transaction.id, transaction.settled_before), (Bucket(0), ID, 2));
        assert!(transaction.is_alone());
        assert!(named.due(RETRY, at(99)).is_empty());
        assert_eq!(named.due(RETRY, at(100)).len(), 1);
        named.ask_again(Bucket(0));
        assert_eq!(named.due(RETRY, at(101)), due, "never under another name");
    }

    #[test]
    fn who_asks_twice_is_answered_twice() {
        let mut named = Named::default();
        take(&mut named, 1, 0);
        assert_eq!(named.due(RETRY, at(0)).len(), 1);
        take(&mut named, 2, 1);
        assert!(named.due(RETRY, at(1)).is_empty(), "it is under way");
        assert_eq!((named.count(), named.bytes()), (2, 40));
        let ends = named.ended(ID, &aborted(Cause::Resource), 0);
        let nil = Outcome::Done(Reply::NilArray);
        assert_eq!(ends, [(client(1), nil.clone()), (client(2), nil)]);
        assert_eq!((named.count(), named.bytes()), (0, 0));
        assert!(named.ended(ID, &aborted(Cause::Resource), 0).is_empty());
    }

    #[test]
    fn what_was_aborted_is_not_tried_under_a_name_that_the_client_does_not_know() {
        for cause in [Cause::Unknown, Cause::Settled, Cause::GaveUp, Cause::Busy, Cause::Unreached] {
            let mut named = Named::default();
            take(&mut named, 1, 0);
            assert_eq!(named.due(RETRY, at(0)).len(), 1);
            let ends = named.ended(ID, &aborted(cause), 0);
            assert_eq!(ends, [(client(1), Outcome::Refused(Refusal::Aborted))], "{cause:?}");
            assert!(named.due(RETRY, at(500)).is_empty());
        }
    }

    #[test]
    fn it_is_refused_only_if_it_cannot_have_been_taken_before() {
        let refused = |why| [(client(1), Outcome::Refused(why))];
        for (why, refusal) in [(NotTaken::Busy, Refusal::Busy), (NotTaken::Settled, Refusal::Settled)] {
            let mut named = Named::default();
            take(&mut named, 1, 0);
            assert_eq!(named.due(RETRY, at(0)).len(), 1);
            assert_eq!(named.not_taken(ID, why, at(1)), refused(refusal));
        }
        let twice = || {
            let mut named = Named::default();
            take(&mut named, 1, 0);
            assert_eq!(named.due(RETRY, at(0)).len() + named.due(RETRY, at(100)).len(), 2);
            named
        };
        assert_eq!(twice().not_taken(ID, NotTaken::Settled, at(101)), [(client(1), Outcome::Unknown)]);
        let mut named = twice();
        assert!(named.not_taken(ID, NotTaken::Busy, at(101)).is_empty());
        assert_eq!(named.due(RETRY, at(200)).len(), 1, "it is asked again after a rest");
    }

    #[test]
    fn each_waits_no_longer_than_the_deadline() {
        let mut named = Named::default();
        take(&mut named, 1, 0);
        let unsent = Outcome::Refused(Refusal::NoLeader);
        assert_eq!(named.overdue(RETRY, at(100)), [(client(1), unsent)]);
        take(&mut named, 1, 100);
        assert_eq!(named.due(RETRY, at(100)).len(), 1);
        take(&mut named, 2, 150);
        assert_eq!(named.overdue(RETRY, at(200)), [(client(1), Outcome::Unknown)]);
        named.check();
        assert!(named.has(ID), "somebody waits still");
        assert_eq!(named.overdue(RETRY, at(250)), [(client(2), Outcome::Unknown)]);
        assert!(!named.has(ID));
        named.check();
    }
}
