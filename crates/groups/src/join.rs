//! Which group a node joins, who leads a group, and how members are shared out when it splits: for diversity, resilience, latency
//! and load, in this order of importance (Scatter 6, table 1).

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::borders::UNEVEN_BESIDE;
use crate::group::{GroupId, MEMBERS_MAX};

/// What a node shares failures with, from the largest to the smallest. Nodes without a name for something share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Place<T> {
    /// A site.
    pub zone: T,
    /// Within it.
    pub rack: T,
    /// A network: the first part of an address, which those have in common who are reached over the same lines.
    pub prefix: T,
    /// A machine.
    pub host: T,
}

/// A group that a node may join.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Which.
    pub group: GroupId,
    /// How many members it has.
    pub size: usize,
    /// The chance that it fails before it can replace who dies, if lifetimes are known.
    pub failure: Option<f64>,
    /// How many of its members share a host, a network, a rack, a zone with the node.
    pub near: Near,
    /// What is asked of all its buckets in a second of late.
    pub load: f64,
    /// How long an operation takes that the node would lead, if that was tried.
    pub latency: Option<Duration>,
}

/// How many members of a group share something with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Near {
    /// Its machine.
    pub host: usize,
    /// Its network, within its rack.
    pub prefix: usize,
    /// Its rack.
    pub rack: usize,
    /// Its site.
    pub zone: usize,
}

impl Near {
    /// Counts.
    pub fn count<'a, T: Eq + 'a>(node: &Place<T>, members: impl IntoIterator<Item = &'a Place<T>>) -> Near {
        let mut near = Near::default();
        for member in members.into_iter().filter(|member| member.zone == node.zone) {
            near.zone += 1;
            let in_rack = member.rack == node.rack;
            near.rack += usize::from(in_rack);
            near.prefix += usize::from(in_rack && member.prefix == node.prefix);
            near.host += usize::from(in_rack && member.host == node.host);
        }
        near
    }

    /// The same for each thousand of so many members: where all nodes share a site, a large group is no nearer than a small one.
    pub fn share(self, size: usize) -> Near {
        let share = |count: usize| count * 1_000 / size.max(1);
        Near {
            host: share(self.host),
            prefix: share(self.prefix),
            rack: share(self.rack),
            zone: share(self.zone),
        }
    }
}

/// What is wanted of groups that are safe enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aim {
    /// Fast operations.
    Latency,
    /// Even load.
    Load,
}

/// A group that a node chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub group: GroupId,
    /// Why: none, because it is not safe enough; else because all are, and it fits this best.
    pub aim: Option<Aim>,
}

/// The group that a node joins, of those it looked at: never one that has a member on the same machine, if others have not. Of
/// these the one most likely to fail, as long as one is likelier than `most`; the smallest, if lifetimes are not known. Once
/// all are safe, as `aim` says.
pub fn choose(candidates: &[Candidate], most: f64, aim: Aim) -> Option<Choice> {
    let open = candidates.iter().filter(|candidate| candidate.size < MEMBERS_MAX);
    let alone = |candidate: &&Candidate| candidate.near.host == 0;
    let apart: Vec<&Candidate> = open.clone().filter(alone).collect();
    let open: Vec<&Candidate> = if apart.is_empty() { open.collect() } else { apart };
    let known = |failure: &f64| !failure.is_nan();
    let fails = |candidate: &Candidate| candidate.failure.filter(known).unwrap_or(1.0);
    let unsafe_ones = || open.iter().copied().filter(|candidate| fails(candidate) > most);
    // Whoever is as likely to fail: fewer members, and fewer that fail together with the node.
    let by_need = |one: &&Candidate, other: &&Candidate| {
        let rest = |candidate: &Candidate| Reverse((candidate.size, candidate.near, candidate.group));
        fails(one).total_cmp(&fails(other)).then_with(|| rest(one).cmp(&rest(other)))
    };
    let chosen = |aim| move |candidate: &Candidate| Choice { group: candidate.group, aim };
    let needy = unsafe_ones().max_by(by_need).map(chosen(None));
    let best = || match aim {
        // Whoever was not tried comes last.
        Aim::Latency => open.iter().copied().min_by_key(|candidate| {
            (candidate.latency.unwrap_or(Duration::MAX), candidate.near, candidate.size, candidate.group)
        }),
        // Borders even out what differs by less than this; of such equals the largest: it splits soonest, while the others stay as large as
        // they should be. If the smallest were chosen, or the busiest for each member, which mostly is the same, all would grow until they
        // are as large as may be, and each write would have more copies than are wanted. For each member one that has grown had less to do,
        // and would never come to split.
        Aim::Load => {
            let busiest = open.iter().map(|candidate| candidate.load).fold(0.0, f64::max);
            let is_busy = |candidate: &&Candidate| candidate.load * UNEVEN_BESIDE >= busiest;
            open.iter().copied().filter(is_busy).max_by_key(|candidate| {
                (Reverse(candidate.near.share(candidate.size)), candidate.size, Reverse(candidate.group))
            })
        }
    };
    needy.or_else(|| best().map(chosen(Some(aim))))
}

/// How long an agreement takes that a node leads among others, to which the ways to and fro are these: until half of them, rounded up, have
/// answered. None if too few are known.
pub fn agreement(ways: &[Option<Duration>]) -> Option<Duration> {
    let mut known: Vec<Duration> = ways.iter().flatten().copied().collect();
    known.sort_unstable();
    match ways.len().div_ceil(2) {
        0 => Some(Duration::ZERO),
        answers => known.get(answers - 1).copied(),
    }
}

/// Agreements that differ by less than this are alike: machines of one room are busy now and then.
const NOISE: Duration = Duration::from_millis(5);

/// Which members may lead, where agreements shall be fast: those whose agreements take no more than a quarter longer than the fastest; and of
/// those who lead already, no more than half as long again, or as long as that is not known. Each with how long its agreements take, if that is known, and whether it leads.
pub fn may_lead(members: &[(Option<Duration>, bool)]) -> Vec<bool> {
    let Some(best) = members.iter().filter_map(|(agreement, _)| *agreement).min() else {
        return members.iter().map(|_| true).collect();
    };
    let fits = |(agreement, leads): &(Option<Duration>, bool)| {
        let most = (if *leads { best * 3 / 2 } else { best * 5 / 4 }).max(best + NOISE);
        agreement.map_or(*leads, |agreement| agreement <= most)
    };
    members.iter().map(fits).collect()
}

/// Two halves of a group's members, the first not the smaller: those who are near to whoever splits it, and the others.
pub fn near_and_far(mut members: Vec<(NodeId, Duration)>) -> (Vec<NodeId>, Vec<NodeId>) {
    members.sort_by_key(|(node, way)| (*way, *node));
    let far = members.split_off(members.len().div_ceil(2));
    let ids = |members: Vec<(NodeId, Duration)>| members.into_iter().map(|(node, _)| node).collect();
    (ids(members), ids(far))
}

/// Who should leave a group so that a machine takes fewer of its members along: of those on one machine with another the last to be named.
pub fn one_too_many<T: Eq>(members: &[(NodeId, Place<T>)]) -> Option<NodeId> {
    let shares = |at: usize| members[..at].iter().any(|(_, other)| *other == members[at].1);
    (0..members.len()).rev().find(|at| shares(*at)).map(|at| members[at].0)
}

/// Two halves of a group's members, the first not the smaller, both spread over zones, racks, networks and hosts as the whole is.
pub fn halves<T: Ord + Clone>(members: &[(NodeId, Place<T>)]) -> (Vec<NodeId>, Vec<NodeId>) {
    let mut ordered: Vec<&(NodeId, Place<T>)> = members.iter().collect();
    ordered.sort_by(|one, other| (&one.1, one.0).cmp(&(&other.1, other.0)));
    let half = |odd: usize| ordered.iter().skip(odd).step_by(2).map(|(node, _)| *node).collect();
    (half(0), half(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn candidate(group: u64, size: usize, failure: Option<f64>) -> Candidate {
        let (near, load, latency) = (Near::default(), 0.0, None);
        Candidate { group: GroupId(group), size, failure, near, load, latency }
    }

    /// A node in whose zone and rack all four members are, and so many in its network.
    fn of_one_zone(prefix: usize) -> Near {
        Near { host: 0, prefix, rack: 4, zone: 4 }
    }

    fn needy(group: u64) -> Option<Choice> {
        Some(Choice { group: GroupId(group), aim: None })
    }

    fn fits(group: u64, aim: Aim) -> Option<Choice> {
        Some(Choice { group: GroupId(group), aim: Some(aim) })
    }

    #[test]
    fn the_group_most_likely_to_fail_is_joined() {
        let groups = [candidate(1, 5, Some(1e-4)), candidate(2, 7, Some(1e-3)), candidate(3, 3, Some(1e-5))];
        assert_eq!(choose(&groups, 1e-7, Aim::Load), needy(2));
        let unknown = [candidate(1, 5, None), candidate(2, 4, None), candidate(3, 4, None)];
        assert_eq!(choose(&unknown, 1e-7, Aim::Load), needy(2), "the smallest");
        let mut diverse = unknown.clone();
        diverse[1].near.zone = 2;
        assert_eq!(choose(&diverse, 1e-7, Aim::Load), needy(3), "where fewer fail with it");
        (diverse[1].near, diverse[2].near) = (of_one_zone(1), of_one_zone(0));
        assert_eq!(choose(&diverse, 1e-7, Aim::Load), needy(3), "where fewer are of its network");
        diverse[1].size = 3;
        assert_eq!(choose(&diverse, 1e-7, Aim::Load), needy(2), "but size goes first");
        assert_eq!(choose(&[], 1e-7, Aim::Load), None);
        assert_eq!(choose(&[candidate(1, MEMBERS_MAX, None)], 1e-7, Aim::Load), None, "it is full");
    }

    #[test]
    fn no_machine_has_two_members_of_a_group_if_that_can_be() {
        let mut groups = [candidate(1, 3, Some(0.5)), candidate(2, 9, Some(1e-9))];
        groups[0].near = Near { host: 1, prefix: 1, rack: 1, zone: 1 };
        assert_eq!(choose(&groups, 1e-7, Aim::Latency), fits(2, Aim::Latency));
        groups[1].near.host = 1;
        assert_eq!(choose(&groups, 1e-7, Aim::Latency), needy(1), "or else as if it were not so");
    }

    #[test]
    fn safe_groups_are_chosen_by_latency_or_load() {
        let mut groups =
            [candidate(1, 9, Some(1e-9)), candidate(2, 9, Some(1e-8)), candidate(3, 9, Some(1e-9))];
        groups[0].latency = Some(Duration::from_millis(80));
        groups[1].latency = Some(Duration::from_millis(50));
        groups[2].load = 900.0;
        assert_eq!(choose(&groups, 1e-7, Aim::Latency), fits(2, Aim::Latency));
        assert_eq!(choose(&groups, 1e-7, Aim::Load), fits(3, Aim::Load));
        (groups[2].load, groups[1].size) = (0.0, 11);
        groups.iter_mut().for_each(|group| (group.near.rack, group.near.zone) = (group.size, group.size));
        assert_eq!(choose(&groups, 1e-7, Aim::Load), fits(2, Aim::Load), "the largest splits soonest");
        groups[1].near.zone = 10;
        groups[2].near.zone = 4;
        assert_eq!(
            choose(&groups, 1e-7, Aim::Load),
            fits(3, Aim::Load),
            "but where fewer share a site with it"
        );
        groups.iter_mut().for_each(|group| group.near = Near::default());
        for (group, load) in groups.iter_mut().zip([150.0, 100.0, 90.0]) {
            group.load = load;
        }
        assert_eq!(
            choose(&groups, 1e-7, Aim::Load),
            fits(2, Aim::Load),
            "also if it has a little less to do"
        );
        groups[0].load = 170.0;
        assert_eq!(choose(&groups, 1e-7, Aim::Load), fits(1, Aim::Load), "but not if it has much less");
        groups[0].failure = Some(1e-6);
        assert_eq!(choose(&groups, 1e-7, Aim::Load), needy(1), "safety goes first");
    }

    #[test]
    fn an_agreement_takes_as_long_as_the_way_to_half_of_the_others() {
        let ms = |ms: &[u64]| -> Vec<Option<Duration>> {
            ms.iter().map(|ms| (*ms > 0).then_some(Duration::from_millis(*ms))).collect()
        };
        assert_eq!(agreement(&[]), Some(Duration::ZERO));
        assert_eq!(agreement(&ms(&[30])), Some(Duration::from_millis(30)), "both of two");
        assert_eq!(agreement(&ms(&[80, 1])), Some(Duration::from_millis(1)), "two of three");
        assert_eq!(agreement(&ms(&[80, 1, 2])), Some(Duration::from_millis(2)), "three of four");
        assert_eq!(agreement(&ms(&[80, 0, 2, 0])), Some(Duration::from_millis(80)));
        assert_eq!(agreement(&ms(&[0, 0, 2, 0])), None, "too little is known");
    }

    #[test]
    fn leadership_moves_where_much_is_gained_and_not_back() {
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        assert_eq!(may_lead(&[(ms(80), true), (ms(100), false), (ms(101), false)]), [true, true, false]);
        assert_eq!(may_lead(&[(ms(80), false), (ms(110), true), (ms(121), true)]), [true, true, false]);
        assert_eq!(
            may_lead(&[(ms(1), false), (ms(6), false), (ms(7), true)]),
            [true, true, false],
            "of one room"
        );
        assert_eq!(
            may_lead(&[(None, true), (None, false), (ms(50), false)]),
            [true, false, true],
            "it stays"
        );
        assert_eq!(may_lead(&[(None, true), (None, false)]), [true, true], "nothing is known");
    }

    #[test]
    fn the_near_stay_together() {
        let all = [(1, 50), (2, 0), (3, 7), (4, 90), (5, 8)];
        let all = all.map(|(id, ms)| (NodeId(id), Duration::from_millis(ms))).into();
        assert_eq!(near_and_far(all), ([2, 3, 5].map(NodeId).into(), [1, 4].map(NodeId).into()));
    }

    #[test]
    fn both_halves_are_spread_as_the_whole_is() {
        let place = |id: u64| Place { zone: id % 3, rack: id % 2, prefix: 0, host: id };
        let members: Vec<(NodeId, Place<u64>)> = (1..=13).map(|id| (NodeId(id), place(id))).collect();
        let (first, second) = halves(&members);
        assert_eq!((first.len(), second.len()), (7, 6));
        for half in [first, second] {
            let places: Vec<Place<u64>> = half.iter().map(|node| place(node.0)).collect();
            let in_zone = |zone| places.iter().filter(|place| place.zone == zone).count();
            assert!((0..3).all(|zone| (2..=3).contains(&in_zone(zone))), "{half:?}");
        }
    }

    #[test]
    fn where_nobody_names_zones_both_halves_span_the_networks() {
        let place = |id: u64| Place { zone: 0, rack: 0, prefix: id / 4, host: 100 - id };
        let members: Vec<(NodeId, Place<u64>)> = (0..12).map(|id| (NodeId(id), place(id))).collect();
        let (first, second) = halves(&members);
        for half in [first, second] {
            let in_network = |prefix| half.iter().filter(|node| place(node.0).prefix == prefix).count();
            assert_eq!([0, 1, 2].map(in_network), [2; 3], "{half:?}");
        }
    }

    #[test]
    fn who_is_near_is_counted_from_the_largest_on() {
        let place = |zone, rack, prefix, host| Place { zone, rack, prefix, host };
        let members = vec![
            place(1, 1, 1, 1),
            place(1, 1, 1, 2),
            place(1, 1, 2, 3),
            place(1, 2, 1, 1),
            place(2, 1, 1, 1),
        ];
        let near = Near::count(&place(1, 1, 1, 1), &members);
        assert_eq!(near, Near { host: 1, prefix: 2, rack: 3, zone: 4 });
    }

    #[test]
    fn who_shares_a_machine_is_one_too_many() {
        let on = |node, rack, host| (NodeId(node), Place { zone: 1, rack, prefix: 1, host });
        assert_eq!(
            one_too_many(&[on(1, 1, 1), on(2, 1, 2), on(3, 2, 1)]),
            None,
            "another rack, another machine"
        );
        assert_eq!(one_too_many(&[on(1, 1, 1), on(2, 1, 1), on(3, 1, 2)]), Some(NodeId(2)));
        assert_eq!(one_too_many(&[on(1, 1, 1), on(2, 1, 1), on(3, 1, 1)]), Some(NodeId(3)));
        assert_eq!(one_too_many::<u8>(&[]), None);
    }
}
