//! The K monitoring rings: who watches whom.
//!
//! Ring k orders all nodes by a hash of (k, id). Everybody is watched by its *predecessor*, among the members, on every
//! ring; a node that wants to join is watched by those it would have if it were a member. So one function answers for
//! both (the published code uses successors for members and predecessors for joiners). With few members the same one
//! may be the predecessor on several rings: it then speaks for all of them.

use alloc::vec::Vec;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::hash::mix;

/// Most rings there may be.
pub(crate) const RINGS_MAX: usize = 32;

/// Some of the rings, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RingSet(pub u32);

impl RingSet {
    /// How many.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `ring` is among them.
    pub fn has(self, ring: usize) -> bool {
        self.0 >> ring & 1 == 1
    }

    /// These and `ring`.
    #[must_use]
    pub fn with(self, ring: usize) -> Self {
        RingSet(self.0 | 1 << ring)
    }

    /// What is in either.
    #[must_use]
    pub fn or(self, other: RingSet) -> Self {
        RingSet(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: RingSet) -> Self {
        RingSet(self.0 & other.0)
    }
}

/// All rings of one view.
#[derive(Debug, Clone)]
pub struct Rings {
    ids: Vec<NodeId>,
    /// For each ring, the members' places in `ids` by position.
    orders: Vec<Vec<u32>>,
}

fn position(ring: usize, node: NodeId) -> u64 {
    mix(node.0 ^ mix(ring as u64 + 1))
}

impl Rings {
    /// The rings over `ids`, which are sorted and each there once.
    pub fn new(ids: Vec<NodeId>, count: usize) -> Rings {
        let order = |ring| {
            let places = ids.iter().zip(0_u32..).map(|(id, place)| (position(ring, *id), place));
            let mut sorted: Vec<(u64, u32)> = places.collect();
            sorted.sort_unstable();
            sorted.into_iter().map(|(_, place)| place).collect()
        };
        let orders = (0..count).map(order).collect();
        Rings { ids, orders }
    }

    /// The members, by id.
    pub(crate) fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    /// How many rings there are.
    pub(crate) fn count(&self) -> usize {
        self.orders.len()
    }

    /// How many members stand before `node` on a ring.
    fn rank(&self, ring: usize, node: NodeId) -> usize {
        let wanted = position(ring, node);
        self.orders[ring].partition_point(|place| position(ring, self.ids[*place as usize]) < wanted)
    }

    /// Who watches `node`, member or not, on a ring; nobody if there is no other member.
    pub fn observer(&self, ring: usize, node: NodeId) -> Option<NodeId> {
        let order = &self.orders[ring];
        let before = self.rank(ring, node).checked_sub(1).unwrap_or(order.len().checked_sub(1)?);
        Some(self.ids[order[before] as usize]).filter(|observer| *observer != node)
    }

    /// Whom the member `node` watches on a ring; nobody if it is alone.
    pub fn subject(&self, ring: usize, node: NodeId) -> Option<NodeId> {
        let order = &self.orders[ring];
        let next = (self.rank(ring, node) + 1) % order.len().max(1);
        order.get(next).map(|place| self.ids[*place as usize]).filter(|subject| *subject != node)
    }

    /// All who watch `node`, each with its rings.
    pub fn observers(&self, node: NodeId) -> Vec<(NodeId, RingSet)> {
        self.gather(|ring| self.observer(ring, node))
    }

    /// All whom the member `node` watches, each with its rings.
    pub fn subjects(&self, node: NodeId) -> Vec<(NodeId, RingSet)> {
        self.gather(|ring| self.subject(ring, node))
    }

    /// The rings on which `observer` watches `node`.
    pub(crate) fn between(&self, observer: NodeId, node: NodeId) -> RingSet {
        let rings = (0..self.orders.len()).filter(|ring| self.observer(*ring, node) == Some(observer));
        rings.fold(RingSet::default(), RingSet::with)
    }

    fn gather(&self, who: impl Fn(usize) -> Option<NodeId>) -> Vec<(NodeId, RingSet)> {
        let mut found: Vec<(NodeId, RingSet)> = Vec::new();
        for (ring, node) in (0..self.orders.len()).filter_map(|ring| Some((ring, who(ring)?))) {
            match found.iter_mut().find(|(other, _)| *other == node) {
                Some((_, rings)) => *rings = rings.with(ring),
                None => found.push((node, RingSet::default().with(ring))),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(count: u64) -> Rings {
        Rings::new((1..=count).map(NodeId).collect(), 10)
    }

    #[test]
    fn subjects_and_observers_are_two_sides_of_one_edge() {
        for count in 1..30 {
            let rings = rings(count);
            for node in (1..=count).map(NodeId) {
                let watched: usize = rings.observers(node).iter().map(|(_, rings)| rings.len()).sum();
                assert_eq!(watched, if count == 1 { 0 } else { 10 }, "each ring has its observer");
                for (subject, over) in rings.subjects(node) {
                    assert_ne!(subject, node);
                    assert_eq!(rings.between(node, subject), over);
                }
            }
        }
    }

    #[test]
    fn a_joiner_is_watched_by_those_who_will_watch_the_member() {
        for count in 1..20 {
            let joiner = NodeId(count + 1);
            let (before, after) = (rings(count), rings(count + 1));
            assert_eq!(before.observers(joiner), after.observers(joiner));
        }
    }

    #[test]
    fn alone_nobody_watches_and_one_watches_every_joiner() {
        let alone = rings(1);
        assert!(alone.subjects(NodeId(1)).is_empty());
        assert_eq!(alone.observers(NodeId(2)), [(NodeId(1), RingSet(0x3ff))]);
    }

    #[test]
    fn positions_are_fixed_for_ever() {
        let order: Vec<u64> =
            (0..4).filter_map(|ring| rings(9).subject(ring, NodeId(1))).map(|id| id.0).collect();
        assert_eq!(order, GOLDEN);
    }

    const GOLDEN: [u64; 4] = [4, 4, 9, 2];
}
