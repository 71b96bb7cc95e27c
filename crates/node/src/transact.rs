//! Transactions on their way: from origins to the buckets that coordinate them, between buckets, and back.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_commit::{LogId, NotTaken, Outcome as End, Transaction, TransactionId};
use quorate_kernel::{Cx, Event, NodeId, Time};
use quorate_shard::{self as shard, Mutant};

use crate::carry::MOMENT;
use crate::govern::OWN;
use crate::interface::Output;
use crate::machine::{Node, Out, Timer};
use crate::message::Message;
use crate::origin::Address;
use crate::plan::Plan;
use crate::transactions::{Departure, Due, Ended};

/// Transactions that this node was too busy for. Their clients were told that nothing happened: a network that delivers a
/// request twice must not make it happen then.
#[derive(Debug, Default)]
pub(crate) struct TurnedAway {
    ids: BTreeMap<TransactionId, Time>,
    order: VecDeque<(Time, TransactionId)>,
}

impl TurnedAway {
    /// How long a network may keep a message.
    const KEPT: Duration = Duration::from_secs(2);
    const COUNT_MAX: usize = 4_096;

    fn remember(&mut self, id: TransactionId, now: Time) {
        if self.has(id, now) {
            return;
        }
        while let Some((at, oldest)) = self.order.front().copied()
            && (self.order.len() >= Self::COUNT_MAX || now.since(at) >= Self::KEPT)
        {
            self.order.pop_front();
            self.ids.remove(&oldest);
        }
        self.ids.insert(id, now);
        self.order.push_back((now, id));
    }

    fn has(&self, id: TransactionId, now: Time) -> bool {
        self.ids.get(&id).is_some_and(|at| now.since(*at) < Self::KEPT)
    }
}

/// What goes together in one message, and how many bytes of it, about: so that it fits a frame.
pub(crate) const TOGETHER: (usize, usize) = (64, 256 << 10);

/// Requests that meet wait, and go together, while so many messages before them have no answer: of all nodes together, about, and of each
/// at least. The place where they meet has to hear them all, in time for the next bundle; where nodes are few, what waits misses it.
const UNDER_WAY: (usize, usize) = (40, 2);

impl Node {
    /// Takes a request of a client that was taken apart.
    pub(crate) fn take_transaction(
        &mut self,
        cx: &mut Cx<'_>,
        address: Address,
        mut plan: Plan,
        (bytes, age, taken_at): (usize, u64, Time),
    ) {
        let meets = self.meets(cx.now, &plan);
        if meets {
            cx.marks.hit("node.transaction.meets");
            plan.meet();
        }
        self.transactions.take(address, (plan, meets), (bytes, age, taken_at));
    }

    /// Whether a request meets others that want what is popular.
    fn meets(&mut self, now: Time, plan: &Plan) -> bool {
        self.may_meet(plan) && self.transactions.wants_popular(now, plan)
    }

    /// Whether a request could meet others. Where buckets are so many that not all could take part in one transaction, a single
    /// place would only hold them up; and one that nobody leads would.
    pub(crate) fn may_meet(&self, plan: &Plan) -> bool {
        let commit = &self.config.limits.shard.commit;
        let can = commit.members_max > 1 && usize::from(self.config.buckets.get()) <= commit.logs_max;
        can && plan.may_share()
            && self.believed_leader(Bucket(0)).is_some()
            && !self.transactions.doubts(Bucket(0))
    }

    /// What goes to one node is said in one message, which nodes of a cluster with one bucket may be too old for.
    pub(crate) fn say_together(&self, out: &mut Out) {
        if self.config.buckets.get() > 1 {
            out.gather(TOGETHER, Message::bytes_together, Message::Together);
        }
    }

    pub(crate) fn receive_together(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        all: Vec<Message>,
        out: &mut Out,
    ) {
        for msg in all {
            match msg.bytes_together().is_some() {
                true => self.receive(cx, from, msg, out),
                false => cx.marks.hit("node.message.nested"),
            }
        }
    }

    /// How those that meet leave this node, and when what was not answered is asked again.
    fn departure(&self) -> (Departure, Duration) {
        let departure = match self.are_carried() {
            true => Departure::After(MOMENT),
            false => Departure::Answered((UNDER_WAY.0 / self.connected.len().max(1)).max(UNDER_WAY.1)),
        };
        (departure, self.config.limits.retry)
    }

    /// Sends transactions that are due to those who coordinate them.
    pub(crate) fn send_transactions(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.config.limits.breaks(Mutant::MeetsElsewhere) {
            self.transactions.forget_meetings();
        }
        let (departure, retry) = self.departure();
        if let Some(after) = self.transactions.departs_in(departure, cx.now) {
            out.arm(Timer::Meet, after);
        }
        let are_carried = self.are_carried();
        for Due { bucket, transaction, any_way } in self.transactions.due((departure, retry), cx.now) {
            match self.believed_leader(bucket) {
                Some(leader) if leader == self.config.me.id => {
                    self.transact(cx, bucket, leader, transaction, out);
                }
                Some(leader) if any_way && are_carried => {
                    let (origin, transaction) = (self.config.me.id, Box::new(transaction));
                    // It counts when logs have it; this node keeps nothing of it on disk.
                    out.send_early(self.carrier(leader), Message::Carry { origin, transaction });
                }
                Some(leader) => {
                    // Nor of this.
                    self.want_if_missing(cx, bucket, leader, out);
                    out.send_early(leader, Message::Transact(Box::new(transaction)).about(bucket));
                }
                None => self.seek(cx, bucket, out),
            }
        }
    }

    /// Hands a transaction to this node's copy of the bucket that is to coordinate it.
    pub(crate) fn transact(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        from: NodeId,
        transaction: Transaction,
        out: &mut Out,
    ) {
        const ASKERS_MAX: usize = 4_096;
        if self.turned_away.has(transaction.id, cx.now) {
            cx.marks.hit("node.transaction.turned_away_again");
            return self.transaction_not_taken(cx, from, transaction.id, NotTaken::Busy, out);
        }
        if self.takes_batches(bucket) && !self.takes_nothing() {
            while self.askers.len() >= ASKERS_MAX && !self.askers.contains_key(&transaction.id) {
                // Whoever still waits asks again.
                self.askers.pop_first();
            }
            self.lives.remember(transaction.id.origin, from);
            self.askers.insert(transaction.id, from);
            let input = shard::Input::Transact(Box::new(transaction));
            self.step_shard(cx, bucket, Event::Input(input), out);
        } else {
            self.transaction_not_taken(cx, from, transaction.id, NotTaken::NotLeading, out);
        }
    }

    /// Tells whoever asked how a transaction ended.
    pub(crate) fn transacted(&mut self, cx: &mut Cx<'_>, id: TransactionId, outcome: End, out: &mut Out) {
        match self.askers.remove(&id) {
            Some(asker) if asker == self.config.me.id => self.on_transacted(cx, id, &outcome, out),
            // It is chosen: a quorum's disks have it.
            Some(asker) => out.send_early(asker, Message::Transacted { id, outcome: Box::new(outcome) }),
            // Whoever asked will ask again.
            None => {}
        }
    }

    /// Tells whoever asked that a transaction was not taken.
    pub(crate) fn transaction_not_taken(
        &mut self,
        cx: &mut Cx<'_>,
        asker: NodeId,
        id: TransactionId,
        why: NotTaken,
        out: &mut Out,
    ) {
        if why == NotTaken::Busy {
            self.turned_away.remember(id, cx.now);
        }
        if asker == self.config.me.id {
            self.on_transaction_not_taken(cx, id, why, out);
        } else {
            // Nothing was done.
            out.send_early(asker, Message::TransactionNotTaken { id, why });
        }
    }

    pub(crate) fn on_transacted(&mut self, cx: &mut Cx<'_>, id: TransactionId, outcome: &End, out: &mut Out) {
        self.explain_abort(id, outcome, out);
        let chance = cx.rng.next_u64();
        let ends = match self.transactions.named.has(id) {
            true => self.transactions.named.ended(id, outcome, chance),
            false => Vec::from_iter(self.transactions.ended((cx.now, cx.marks), id, outcome, chance)),
        };
        self.end_transactions(cx, ends, out);
    }

    pub(crate) fn on_transaction_not_taken(
        &mut self,
        cx: &mut Cx<'_>,
        id: TransactionId,
        why: NotTaken,
        out: &mut Out,
    ) {
        let chance = cx.rng.next_u64();
        let ends = match self.transactions.named.has(id) {
            true => self.transactions.named.not_taken(id, why, cx.now),
            false => Vec::from_iter(self.transactions.not_taken(id, why, chance, cx.now)),
        };
        self.end_transactions(cx, ends, out);
    }

    /// Gives ends to clients, and lets what waited for them begin.
    pub(crate) fn end_transactions(
        &mut self,
        cx: &mut Cx<'_>,
        ends: impl IntoIterator<Item = Ended>,
        out: &mut Out,
    ) {
        for ((connection, ticket), outcome) in ends {
            if connection == OWN {
                self.governed(cx, Bucket(ticket.0 as u16), &outcome, out);
                continue;
            }
            // What happened is chosen, on quorums' disks.
            out.output_early(Output::Replies(alloc::vec![(connection, ticket, outcome)]));
            if let Some(gate) = self.gates.gates.get_mut(&connection) {
                gate.running = false;
            }
            self.pass_gate(cx, connection, out);
        }
        if self.transactions.some_may_meet(self.departure(), cx.now) {
            self.send_transactions(cx, out);
        }
    }

    /// Carries what one bucket says to whoever leads another. What is lost is said again.
    pub(crate) fn tell(
        &mut self,
        cx: &mut Cx<'_>,
        to: LogId,
        message: quorate_commit::Message,
        out: &mut Out,
    ) {
        let known = u16::try_from(to.0).ok().filter(|bucket| *bucket < self.config.buckets.get());
        let Some(bucket) = known.map(Bucket) else { return cx.marks.hit("node.message.no_such_bucket") };
        self.spoken_to.insert(bucket);
        if self.believed_leader(bucket) == Some(self.config.me.id) {
            return self.own.push_back((bucket, Box::new(message)));
        }
        for message in self.acknowledged.say(bucket, message) {
            self.carry(cx, bucket, message, out);
        }
        if !self.acknowledged.is_empty() {
            self.rouse(out);
        }
    }

    /// Carries what waited for something to go with.
    pub(crate) fn tell_acknowledged(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        for (bucket, message) in self.acknowledged.take() {
            self.carry(cx, bucket, message, out);
        }
    }

    fn carry(&mut self, cx: &mut Cx<'_>, bucket: Bucket, message: quorate_commit::Message, out: &mut Out) {
        let message = Box::new(message);
        match self.believed_leader(bucket) {
            Some(leader) if leader == self.config.me.id => self.own.push_back((bucket, message)),
            // It speaks of what is chosen: a quorum's disks have it.
            Some(leader) => {
                self.want_if_missing(cx, bucket, leader, out);
                out.send_early(leader, Message::Told(message).about(bucket));
            }
            None => self.seek(cx, bucket, out),
        }
    }

    /// Takes up what buckets led by this node have said to each other, until they are silent.
    pub(crate) fn hear_own(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        while let Some((bucket, message)) = self.own.pop_front() {
            self.hear(cx, bucket, message, out);
        }
    }

    /// Takes up what another bucket says.
    pub(crate) fn hear(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        message: Box<quorate_commit::Message>,
        out: &mut Out,
    ) {
        self.step_shard(cx, bucket, Event::Input(shard::Input::Told(message)), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { age: 1, origin: 1, sequence }
    }

    /// As in seed 298 of `placement`: the first copy of a request met a full table, the second did not.
    #[test]
    fn what_was_turned_away_stays_so_for_a_while() {
        let mut away = TurnedAway::default();
        away.remember(id(1), Time(0));
        away.remember(id(1), Time(1_000_000_000));
        assert!(away.has(id(1), Time(1_999_999_999)) && !away.has(id(2), Time(0)));
        assert!(!away.has(id(1), Time(2_000_000_000)), "it may be asked again");
        away.remember(id(1), Time(2_000_000_000));
        assert!(away.has(id(1), Time(3_000_000_000)));
        (0..5_000).for_each(|sequence| away.remember(id(10 + sequence), Time(2_000_000_000)));
        assert_eq!((away.ids.len(), away.order.len()), (4_096, 4_096));
    }
}
