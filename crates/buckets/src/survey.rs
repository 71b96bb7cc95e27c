//! A placement taken apart for arithmetic: nodes by their index, who holds what, who shares which zone and rack.
//!
//! The spread of a bucket is measured by pairs: how many pairs of its members share a zone, then how many share a rack. The fewest
//! pairs mean the most zones, and the members as evenly over them as can be. Zones and racks are nested, and the number of pairs
//! is convex in the members of each; for such functions (laminar, M-natural-convex: Murota 2003) the best set is found by adding the
//! node that costs least, one after the other, and a set that no exchange of one node improves is a best one.

use alloc::vec;
use alloc::vec::Vec;

use crate::even::{Ratio, down, up};
use crate::placement::Placement;

/// Pairs of members that share a zone, and a rack; or with how many members a node shares them.
pub(crate) type Crowd = (usize, usize);

#[derive(Debug)]
pub(crate) struct Survey {
    /// By node: its zone and its rack, numbered.
    at: Vec<(usize, usize)>,
    capacity: Vec<u32>,
    /// By node: the copies it holds.
    pub(crate) copies: Vec<u32>,
    /// By node: the buckets it should lead.
    pub(crate) leads: Vec<u32>,
    /// By bucket: its members, in order.
    pub(crate) members: Vec<Vec<usize>>,
}

impl Survey {
    pub(crate) fn of(placement: &Placement) -> Survey {
        let nodes = &placement.nodes;
        let mut zones: Vec<_> = nodes.iter().map(|node| &node.zone).collect();
        zones.sort_unstable();
        zones.dedup();
        let mut racks: Vec<_> = nodes.iter().map(|node| (&node.zone, &node.rack)).collect();
        racks.sort_unstable();
        racks.dedup();
        let at = nodes.iter().map(|node| {
            let rack = racks.partition_point(|rack| *rack < (&node.zone, &node.rack));
            (zones.partition_point(|zone| *zone < &node.zone), rack)
        });
        let mut survey = Survey {
            at: at.collect(),
            capacity: nodes.iter().map(|node| node.capacity).collect(),
            copies: vec![0; nodes.len()],
            leads: vec![0; nodes.len()],
            members: Vec::with_capacity(placement.places.len()),
        };
        for place in &placement.places {
            let members: Vec<usize> = place.members.iter().filter_map(|id| placement.index(*id)).collect();
            members.iter().for_each(|node| survey.copies[*node] += 1);
            // Nobody leads what is halted.
            let leader = members.first().filter(|_| !place.is_halted());
            leader.into_iter().for_each(|node| survey.leads[*node] += 1);
            survey.members.push(members);
        }
        survey
    }

    /// The nodes that take copies.
    pub(crate) fn able(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.capacity.len()).filter(|node| self.takes_copies(*node))
    }

    pub(crate) fn takes_copies(&self, node: usize) -> bool {
        self.capacity[node] > 0
    }

    /// With how many of `members`, `without` and itself aside, a node shares its zone and its rack.
    pub(crate) fn crowd(&self, node: usize, members: &[usize], without: Option<usize>) -> Crowd {
        let others = members.iter().filter(|other| **other != node && Some(**other) != without);
        let (zone, rack) = self.at[node];
        others.fold((0, 0), |(zones, racks), other| {
            let (z, r) = self.at[*other];
            (zones + usize::from(z == zone), racks + usize::from(r == rack))
        })
    }

    /// How badly `members` are spread.
    pub(crate) fn pairs(&self, members: &[usize]) -> Crowd {
        (0..members.len()).fold((0, 0), |(zones, racks), at| {
            let (z, r) = self.crowd(members[at], &members[..at], None);
            (zones + z, racks + r)
        })
    }

    /// How badly the best `count` nodes are spread.
    pub(crate) fn fewest_pairs(&self, count: usize) -> Crowd {
        let mut best: Vec<usize> = Vec::with_capacity(count);
        for _ in 0..count {
            let open = self.able().filter(|node| !best.contains(node));
            best.extend(open.min_by_key(|node| self.crowd(*node, &best, None)));
        }
        self.pairs(&best)
    }

    pub(crate) fn copies_up(&self, node: usize) -> Ratio {
        up(self.copies[node], self.capacity[node])
    }

    pub(crate) fn copies_down(&self, node: usize) -> Option<Ratio> {
        down(self.copies[node], self.capacity[node])
    }

    pub(crate) fn lead_up(&self, node: usize) -> Ratio {
        up(self.leads[node], self.capacity[node])
    }

    pub(crate) fn lead_down(&self, node: usize) -> Option<Ratio> {
        down(self.leads[node], self.capacity[node])
    }
}
