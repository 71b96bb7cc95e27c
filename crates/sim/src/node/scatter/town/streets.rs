//! Who is asked for a key.

use std::num::NonZeroU16;

use quorate_api::{Bucket, SLOT_COUNT, slot_of};
use quorate_kernel::{NodeId, Rng};
use quorate_node::Node;

use super::chirps::{Trend, Users, key};
use super::setup::{Setup, System};
use crate::Nodes;

/// Operations of the first half of the trace, by which partitions are cut.
const HISTORY: usize = 500_000;

/// What clients know.
#[derive(Debug)]
pub(super) struct Streets {
    system: System,
    copies: usize,
    buckets: NonZeroU16,
    /// For partitions: to which each slot belongs.
    partitions: Vec<u16>,
    /// Who leads each bucket; those of the first partition come first.
    leaders: Vec<Option<NodeId>>,
}

impl Streets {
    /// Partitions are cut so that each has the same load while what trends in `history` does.
    pub(super) fn new(setup: &Setup, users: &Users, history: &[Trend], rng: &mut Rng) -> Streets {
        let is_ring = setup.system == System::Groups;
        let parts = if is_ring { 1 } else { setup.nodes / usize::from(setup.copies) };
        let buckets = if is_ring { setup.buckets() } else { setup.buckets_of_one() };
        let mut loads = vec![0_u32; usize::from(SLOT_COUNT)];
        for trend in history.iter().filter(|_| parts > 1) {
            for _ in 0..HISTORY / history.len() {
                loads[usize::from(slot_of(key(trend.pick(users, rng)).as_bytes()))] += 1;
            }
        }
        Streets {
            system: setup.system,
            copies: setup.copies.into(),
            buckets,
            partitions: cut(&loads, parts),
            leaders: vec![None; parts * usize::from(buckets.get())],
        }
    }

    /// Which cluster has a node, from 0; all have the same in one of groups.
    pub(super) fn part_of(&self, node: NodeId) -> usize {
        if self.system == System::Groups { 0 } else { (node.0 as usize - 1) / self.copies }
    }

    /// Where a key is, and under which name: partitions spread their keys over all of their buckets.
    pub(super) fn find(&self, key: String) -> (usize, String) {
        let part = self.partitions[usize::from(slot_of(key.as_bytes()))];
        let name = if self.system == System::Groups { key } else { format!("{part}.{key}") };
        let bucket = Bucket::of_key(name.as_bytes(), self.buckets);
        (usize::from(part) * usize::from(self.buckets.get()) + usize::from(bucket.0), name)
    }

    pub(super) fn leader(&self, place: usize) -> Option<NodeId> {
        self.leaders[place]
    }

    /// Asks all who leads.
    pub(super) fn look(&mut self, nodes: &Nodes<Node>) {
        let count = usize::from(self.buckets.get());
        for (id, node) in nodes.live() {
            let first = self.part_of(id) * count;
            for bucket in node.buckets() {
                if node.shard(bucket).is_some_and(|shard| shard.takes_batches()) {
                    self.leaders[first + usize::from(bucket.0)] = Some(id);
                }
            }
        }
    }

    /// Whether somebody leads each bucket.
    pub(super) fn is_led(&self) -> bool {
        self.leaders.iter().all(Option::is_some)
    }
}

/// Cuts slots into so many stretches, each with the same load or a little more.
fn cut(loads: &[u32], parts: usize) -> Vec<u16> {
    let all: u64 = loads.iter().map(|load| u64::from(*load)).sum();
    let mut before = 0;
    let mut of = Vec::with_capacity(loads.len());
    for load in loads {
        // By the middle of the slot.
        let at = (2 * before + u64::from(*load)) * parts as u64 / (2 * all).max(1);
        of.push((at as usize).min(parts - 1) as u16);
        before += u64::from(*load);
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_the_same_load() {
        assert_eq!(cut(&[1, 1, 1, 1], 2), [0, 0, 1, 1]);
        assert_eq!(cut(&[1, 1, 1, 9], 2), [0, 0, 0, 1]);
        assert_eq!(cut(&[0, 0], 1), [0, 0]);
        let loads: Vec<u32> = (0..1_000).map(|slot| slot % 7).collect();
        let of = cut(&loads, 8);
        let sums = (0..8).map(|part| {
            let own = loads.iter().zip(&of).filter(|(_, of)| **of == part);
            own.map(|(load, _)| load).sum::<u32>()
        });
        assert!(of.is_sorted() && sums.into_iter().all(|sum| (365..385).contains(&sum)));
    }
}
