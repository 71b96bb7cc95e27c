//! Why requests did nothing, were tried anew or wait: from whoever finds it to the connection that asked, ahead of the answer.
//!
//! Nothing depends on it, and nothing of it is kept here but who the origins of transactions are.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use quorate_api::{Bucket, Culprit, Reason};
use quorate_commit::{Outcome as End, TransactionId};
use quorate_kernel::NodeId;
use quorate_shard::{Asked, reason_of_refusal};

use crate::interface::Output;
use crate::machine::{Node, Out};
use crate::message::Message;

/// By way of which nodes transactions of which origins came here.
#[derive(Debug, Default)]
pub(crate) struct Lives(BTreeMap<u64, NodeId>);

impl Lives {
    const COUNT_MAX: usize = 4_096;

    pub(crate) fn remember(&mut self, origin: u64, node: NodeId) {
        while self.0.len() >= Self::COUNT_MAX && !self.0.contains_key(&origin) {
            self.0.pop_first();
        }
        self.0.insert(origin, node);
    }
}

impl Node {
    /// A copy of a bucket here has found a reason.
    pub(crate) fn tell_reason(
        &mut self,
        bucket: Bucket,
        (to, asked): (Option<NodeId>, Asked),
        mut reason: Box<Reason>,
        out: &mut Out,
    ) {
        let (to, asked) = match asked {
            Asked::Request { .. } => (to, asked),
            Asked::Transaction(id) => (self.askers.get(&id).copied(), asked),
            Asked::Read { name, place } => {
                let asker = self.replicas.get(&bucket).and_then(|replica| replica.asked_by.get(&name));
                (asker.map(|asker| asker.0), Asked::Read { name: asker.map_or(0, |asker| asker.1), place })
            }
        };
        self.identify(&mut reason.by);
        match to {
            Some(to) if to == self.config.me.id => self.on_reason(bucket, asked, *reason, out),
            // Nothing rests on it.
            Some(to) => out.send_early(to, Message::Reason { asked, reason }.about(bucket)),
            None => {}
        }
    }

    /// Hands a reason to the connection that asked, if it waits still.
    pub(crate) fn on_reason(&mut self, bucket: Bucket, asked: Asked, mut reason: Reason, out: &mut Out) {
        let addresses = match asked {
            Asked::Request { session, seq } => Vec::from_iter(self.lane(bucket).origin.address(session, seq)),
            Asked::Read { name, place } => Vec::from_iter(self.lane(bucket).reads.address(name, place)),
            Asked::Transaction(id) => self.transactions.addresses(id),
        };
        self.identify(&mut reason.by);
        for address in addresses {
            let (connection, ticket) = self.collects.client(address);
            // Nothing rests on it.
            out.output_early(Output::Reason(connection, ticket, Box::new(reason.clone())));
        }
    }

    /// Says why a transaction was aborted.
    pub(crate) fn explain_abort(&mut self, id: TransactionId, end: &End, out: &mut Out) {
        if let End::Aborted(refusal) = end {
            self.on_reason(Bucket::default(), Asked::Transaction(id), reason_of_refusal(refusal), out);
        }
    }

    /// Finds out whose transaction it was that stood in the way, as far as that is known here.
    fn identify(&self, culprit: &mut Culprit) {
        let Some(name) = culprit.transaction.filter(|_| culprit.client.is_none()) else { return };
        let id = TransactionId { age: name.age_ms, origin: name.origin, sequence: name.sequence };
        if let Some((connection, _)) = self.transactions.addresses(id).first() {
            culprit.node = Some(self.config.me.id.0);
            culprit.client = Some(connection.0);
        } else if culprit.node.is_none() {
            culprit.node = match self.transactions.is_own(id) {
                true => Some(self.config.me.id.0),
                false => self.lives.0.get(&id.origin).map(|node| node.0),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_that_are_remembered_are_few() {
        let mut lives = Lives::default();
        (0..5_000).for_each(|origin| lives.remember(origin, NodeId(origin % 3)));
        assert_eq!(lives.0.len(), Lives::COUNT_MAX);
        lives.remember(4_999, NodeId(9));
        assert_eq!(lives.0.get(&4_999), Some(&NodeId(9)));
        assert_eq!(lives.0.len(), Lives::COUNT_MAX);
    }
}
