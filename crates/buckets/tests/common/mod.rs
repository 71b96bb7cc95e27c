//! Drawn clusters, and measures of a placement that share nothing with the crate.
#![allow(dead_code, reason = "each test file uses a part")]

use bytes::Bytes;
use quorate_api::Bucket;
use quorate_buckets::{Change, Lost, Node, Placement, Step};
use quorate_kernel::{NodeId, Rng};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

pub(crate) fn node(id: u64) -> Node {
    Node { id: NodeId(id), zone: Bytes::new(), rack: Bytes::new(), capacity: 1 }
}

pub(crate) fn node_in(id: u64, zone: u64, rack: u64, capacity: u32) -> Node {
    let name = |kind: &str, number: u64| Bytes::from(format!("{kind}{number}"));
    Node { id: NodeId(id), zone: name("zone", zone), rack: name("rack", rack), capacity }
}

pub(crate) fn nodes(ids: impl IntoIterator<Item = u64>) -> Vec<Node> {
    ids.into_iter().map(node).collect()
}

pub(crate) fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<NodeId> {
    numbers.into_iter().map(NodeId).collect()
}

pub(crate) fn founded(buckets: u16, copies: u8, nodes: Vec<Node>) -> Placement {
    Placement::founded(count(buckets), copies, nodes).expect("fits")
}

pub(crate) fn count(buckets: u16) -> NonZeroU16 {
    NonZeroU16::new(buckets).expect("above zero")
}

pub(crate) fn buckets(placement: &Placement) -> impl Iterator<Item = Bucket> + use<> {
    (0..placement.bucket_count().get()).map(Bucket)
}

/// All members of all buckets.
pub(crate) fn table(placement: &Placement) -> Vec<Vec<NodeId>> {
    buckets(placement).map(|bucket| placement.members(bucket).to_vec()).collect()
}

pub(crate) fn halted(placement: &Placement) -> BTreeSet<Bucket> {
    placement.halted().map(|lost: Lost| lost.bucket).collect()
}

/// All logs are brought in line, but those that can agree on nothing.
pub(crate) fn settle_all(placement: &mut Placement) {
    let halted = halted(placement);
    for bucket in buckets(placement).filter(|bucket| !halted.contains(bucket)) {
        let (since, members) = (placement.since(bucket), placement.members(bucket).to_vec());
        if !members.is_empty() {
            assert_eq!(placement.settle(bucket, since, &members), Ok(None));
        }
    }
}

/// Takes steps until there is none, with all logs prompt. Returns how many.
pub(crate) fn rest(placement: &mut Placement) -> usize {
    settle_all(placement);
    for steps in 0..steps_max(placement) {
        let Some(step) = placement.next_step() else { return steps };
        check_step(placement, &step);
        settle_all(placement);
    }
    panic!("no end of steps: {placement:?}")
}

/// A bound on the steps from any placement to rest: each copy is added, dropped, moved for spread and moved for load at most
/// once, and each leadership is passed on twice at most.
pub(crate) fn steps_max(placement: &Placement) -> usize {
    let all: usize =
        table(placement).iter().map(|members| members.len().max(placement.members_wanted())).sum();
    4 * all + 2 * usize::from(placement.bucket_count().get()) + 1
}

/// What is wrong with a placement, the weightiest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Burden {
    pub(crate) missing: usize,
    pub(crate) excess: usize,
    pub(crate) drained: usize,
    pub(crate) pairs: (usize, usize),
    pub(crate) load: u128,
    pub(crate) leads: u128,
}

pub(crate) fn burden(placement: &Placement) -> Burden {
    let halted = halted(placement);
    let live: Vec<Vec<&Node>> = buckets(placement)
        .filter(|bucket| !halted.contains(bucket))
        .map(|bucket| {
            placement.members(bucket).iter().map(|id| placement.node(*id).expect("a node")).collect()
        })
        .collect();
    let wanted = placement.members_wanted();
    let uneven = |units: &dyn Fn(NodeId) -> u128| -> u128 {
        let cost = |node: &Node| {
            // The drawn capacities divide 12; none at all costs more than any imbalance.
            let weight = if node.capacity == 0 { 1_000_000 } else { 12 / u128::from(node.capacity) };
            units(node.id) * units(node.id) * weight
        };
        placement.nodes().iter().map(cost).sum()
    };
    let leads = |id| live.iter().filter(|members| members.first().is_some_and(|node| node.id == id)).count();
    Burden {
        missing: live.iter().map(|members| wanted.saturating_sub(members.len())).sum(),
        excess: live.iter().map(|members| members.len().saturating_sub(wanted)).sum(),
        drained: live.iter().flatten().filter(|node| node.capacity == 0).count(),
        pairs: live
            .iter()
            .map(|members| pairs(members))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        load: uneven(&|id| placement.buckets_of(id).count() as u128),
        leads: uneven(&|id| leads(id) as u128),
    }
}

/// Pairs of members that share a zone, and a rack.
pub(crate) fn pairs(members: &[&Node]) -> (usize, usize) {
    let shared = |same: &dyn Fn(&Node, &Node) -> bool| {
        let all = (0..members.len()).flat_map(|left| (0..left).map(move |right| (left, right)));
        all.filter(|(left, right)| same(members[*left], members[*right])).count()
    };
    (
        shared(&|left, right| left.zone == right.zone),
        shared(&|left, right| (&left.zone, &left.rack) == (&right.zone, &right.rack)),
    )
}

/// Why a step that leads from one burden to the other should not have been proposed.
pub(crate) fn fault(change: Change, before: &Burden, after: &Burden) -> Option<&'static str> {
    let copies = |burden: &Burden| Burden { leads: 0, ..burden.clone() };
    if let Change::Lead(_) = change {
        // Where they stay as even, the way to a better step got shorter: that is judged by the bound on steps.
        let fair = copies(after) == copies(before) && after.leads <= before.leads;
        return (!fair).then_some("leaderships less even");
    }
    // By rank: the first that differs decides.
    (copies(after) >= copies(before)).then_some("nothing gained, or something weightier paid for it")
}

/// Takes a proposed step and holds it to its promise.
pub(crate) fn check_step(placement: &mut Placement, step: &Step) {
    let before = burden(placement);
    placement.take(step).expect("fits");
    let after = burden(placement);
    assert_eq!(fault(step.change, &before, &after), None, "{step:?}: {before:?} -> {after:?}");
}

/// Buckets in which somebody moved who did not have to: a survivor that went or changed its place, or a node that came without
/// having joined.
pub(crate) fn moved_needlessly(
    before: &[Vec<NodeId>],
    after: &[Vec<NodeId>],
    joined: &[NodeId],
    left: &[NodeId],
) -> usize {
    let needless = |(was, is): &(&Vec<NodeId>, &Vec<NodeId>)| {
        let stay: Vec<NodeId> = was.iter().copied().filter(|id| !left.contains(id)).collect();
        !is.starts_with(&stay) || is.iter().skip(stay.len()).any(|id| !joined.contains(id))
    };
    before.iter().zip(after).filter(needless).count()
}

/// The fewest pairs that any `count` nodes share, by trying them all.
pub(crate) fn fewest_pairs(nodes: &[Node], count: usize) -> (usize, usize) {
    let able: Vec<&Node> = nodes.iter().filter(|node| node.capacity > 0).collect();
    let subsets = (0..1_u32 << able.len()).filter(|bits| bits.count_ones() as usize == count);
    let chosen = |bits: u32| -> Vec<&Node> {
        (0..able.len()).filter(|at| bits >> at & 1 == 1).map(|at| able[at]).collect()
    };
    subsets.map(|bits| pairs(&chosen(bits))).min().unwrap_or_default()
}

/// Copies by node.
pub(crate) fn loads(placement: &Placement) -> BTreeMap<NodeId, usize> {
    placement.nodes().iter().map(|node| (node.id, placement.buckets_of(node.id).count())).collect()
}

/// Leaderships by node.
pub(crate) fn leads(placement: &Placement) -> BTreeMap<NodeId, usize> {
    let first = |id| table(placement).iter().filter(|members| members.first() == Some(&id)).count();
    placement.nodes().iter().map(|node| (node.id, first(node.id))).collect()
}

/// The difference between the most and the least.
pub(crate) fn gap(units: &BTreeMap<NodeId, usize>) -> usize {
    let (most, least) = (units.values().max(), units.values().min());
    most.zip(least).map_or(0, |(most, least)| most - least)
}

/// Nodes with drawn zones, racks and capacities, which divide 12.
pub(crate) struct Landscape {
    zones: u64,
    racks: u64,
    capacities: &'static [u32],
    next: u64,
}

impl Landscape {
    pub(crate) fn draw(rng: &mut Rng) -> Landscape {
        let capacities: [&[u32]; 4] = [&[1], &[1], &[1, 1, 2, 4], &[1, 2, 3, 12]];
        Landscape {
            zones: rng.between(1, 4),
            racks: rng.between(1, 3),
            capacities: rng.pick(&capacities).expect("not empty"),
            next: 0,
        }
    }

    pub(crate) fn is_even(&self) -> bool {
        self.capacities.len() == 1
    }

    pub(crate) fn node(&mut self, rng: &mut Rng) -> Node {
        // Small numbers are no older than large ones.
        self.next += 1;
        let id = self.next * 7 % 101 + self.next / 101 * 101 + 1;
        let capacity = *rng.pick(self.capacities).expect("not empty");
        node_in(id, rng.below(self.zones), rng.below(self.racks), capacity)
    }

    pub(crate) fn nodes(&mut self, count: u64, rng: &mut Rng) -> Vec<Node> {
        (0..count).map(|_| self.node(rng)).collect()
    }
}
