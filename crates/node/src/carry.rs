//! Requests that meet ([`popular`](crate::popular)), on their way by copies of the bucket where they meet.
//!
//! In a large cluster the leader of that bucket hears from every node about every bundle, and that is most of what it has time for. So a node sends such
//! requests to a copy that does not lead, always the same one, and this sends on as one message what has come within a moment, and says whose each is. The leader
//! answers those; copies have little else to do, and know who leads. Nothing rests on it by which way a request comes. What is asked for
//! again goes to the leader itself, so that a copy that is gone delays a request once.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_commit::{NotTaken, Transaction};
use quorate_kernel::{Cx, NodeId};

use crate::machine::{Node, Out, Timer};
use crate::message::Message;
use crate::transact::TOGETHER;

/// What goes together leaves a node, and then the copy, so long after the first of it came.
pub(crate) const MOMENT: Duration = Duration::from_micros(500);

/// What waits at a copy for others to go with. When it is as much as one message holds, it waits no longer.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    waiting: Vec<(NodeId, Box<Transaction>)>,
    bytes: usize,
}

impl Carried {
    fn is_full(&self) -> bool {
        self.waiting.len() >= TOGETHER.0 || self.bytes >= TOGETHER.1
    }
}

impl Node {
    /// Whether copies help leaders.
    pub(crate) fn is_large(&self) -> bool {
        self.connected.len() >= self.config.limits.large_from
    }

    /// Whether requests that meet go by way of copies.
    pub(crate) fn are_carried(&self) -> bool {
        self.placement().is_some() && self.is_large()
    }

    /// To whom a request goes that meets others, so that it comes to this leader.
    pub(crate) fn carrier(&self, leader: NodeId) -> NodeId {
        let members = self.placement().map_or(&[][..], |placement| placement.members(Bucket(0)));
        if members.contains(&self.config.me.id) {
            return leader;
        }
        let mut others = members.iter().filter(|id| **id != leader && self.connected.contains(*id));
        let count = others.clone().count().max(1) as u64;
        others.nth((self.config.me.id.0 % count) as usize).copied().unwrap_or(leader)
    }

    /// A request that meets others has come from its node, or from the copy that it was sent to.
    pub(crate) fn on_carry(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        (origin, transaction): (NodeId, Box<Transaction>),
        out: &mut Out,
    ) {
        let follows = self.replicas.get(&Bucket(0)).is_some_and(|replica| !replica.leads);
        // Once is enough: two that each take the other for the leader would carry for ever.
        if !follows || from != origin {
            return self.transact(cx, Bucket(0), origin, *transaction, out);
        }
        if self.carried.waiting.is_empty() {
            out.arm(Timer::Carry, MOMENT);
        }
        self.carried.bytes += transaction.bytes();
        self.carried.waiting.push((origin, transaction));
        if self.carried.is_full() {
            self.carry_on(cx, out);
        }
    }

    /// Sends on what waited here.
    pub(crate) fn carry_on(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let leader = self.believed_leader(Bucket(0));
        for (origin, transaction) in core::mem::take(&mut self.carried).waiting {
            match leader {
                Some(leader) if leader == self.config.me.id => {
                    self.transact(cx, Bucket(0), origin, *transaction, out);
                }
                // It counts when logs have it; this node keeps nothing of it on disk.
                Some(leader) => {
                    cx.marks.hit("node.transaction.carried");
                    out.send_early(leader, Message::Carry { origin, transaction });
                }
                None => self.transaction_not_taken(cx, origin, transaction.id, NotTaken::NotLeading, out),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use bytes::Bytes;
    use quorate_commit::{LogId, TransactionId};
    use quorate_kernel::{Effect, Time};

    use crate::fixture::{at, hear_leader, node};

    fn transaction(sequence: u64, bytes: usize) -> Box<Transaction> {
        Box::new(Transaction {
            id: TransactionId { age: 1, origin: 1, sequence },
            coordinator: LogId(0),
            logs: vec![LogId(0), LogId(1)],
            part: Bytes::new(),
            others: vec![(LogId(1), vec![0; bytes].into())],
            settled_before: 0,
            shares: true,
            members: Vec::new(),
        })
    }

    /// What the copy of node 1 says when node `from` sends it something of node 2.
    fn carry(node: &mut Node, from: u64, (sequence, bytes): (u64, usize)) -> Vec<(NodeId, Message)> {
        at(Time(1), |cx, out| {
            node.on_carry(cx, NodeId(from), (NodeId(2), transaction(sequence, bytes)), out);
            said(out)
        })
    }

    fn said(out: &mut Out) -> Vec<(NodeId, Message)> {
        let said = out.drain().filter_map(|effect| match effect {
            Effect::Send { to, msg, .. } => Some((to, msg)),
            _ => None,
        });
        said.collect()
    }

    fn carried(said: &[(NodeId, Message)]) -> usize {
        let to_leader = |(to, msg): &&(NodeId, Message)| {
            *to == NodeId(3) && matches!(msg, Message::Carry { origin: NodeId(2), .. })
        };
        said.iter().filter(to_leader).count()
    }

    fn refused(said: &[(NodeId, Message)]) -> bool {
        matches!(said, [(NodeId(2), Message::TransactionNotTaken { why: NotTaken::NotLeading, .. })])
    }

    #[test]
    fn what_comes_within_a_moment_goes_on_to_the_leader_together() {
        let mut node = node(1, &[1, 2, 3]);
        hear_leader(&mut node, 0, 3);
        assert!(carry(&mut node, 2, (1, 10)).is_empty() && carry(&mut node, 2, (2, 10)).is_empty());
        let said = at(Time(2), |cx, out| {
            node.carry_on(cx, out);
            said(out)
        });
        assert_eq!((said.len(), carried(&said)), (2, 2));
        let last = (3..).map(|sequence| carry(&mut node, 2, (sequence, 10))).take(TOGETHER.0).last();
        assert_eq!(carried(&last.unwrap_or_default()), TOGETHER.0, "as many as one message holds");
        assert_eq!(carried(&carry(&mut node, 2, (100, TOGETHER.1))), 1, "as long as one may be");
    }

    #[test]
    fn it_is_carried_once_and_by_copies() {
        let mut node = node(1, &[1, 2, 3]);
        hear_leader(&mut node, 0, 3);
        node.replicas.clear();
        assert!(refused(&carry(&mut node, 2, (1, 10))), "there is no copy here");
        node.make_replica(Bucket(0), Vec::new());
        assert!(
            refused(&carry(&mut node, 4, (1, 10))),
            "by another copy, which took this one for the leader"
        );
        assert!(carry(&mut node, 2, (1, 10)).is_empty());
    }
}
