//! Ways in which a network can be cut.

use std::collections::BTreeSet;

use quorate_kernel::{NodeId, Rng};

/// A state of the network: what does not work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cut {
    /// Who does not hear whom.
    pub(crate) deaf: BTreeSet<(NodeId, NodeId)>,
    /// Nodes that are cut from everybody, clients too.
    pub(crate) down: BTreeSet<NodeId>,
}

/// Kinds of cuts. All but one leave the way to the clients open: who is cut from the other nodes must refuse them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// One node and no other hear each other.
    Alone,
    /// Two groups, one of them a majority.
    Halves,
    /// Two groups that do not hear each other, and one node that hears all and is heard by all.
    Bridge,
    /// One pair does not hear each other.
    Pair,
    /// Each node hears two others only, around a ring.
    Ring,
    /// One node is heard by all and hears nobody.
    Deaf,
    /// One node hears all and is heard by nobody.
    Mute,
    /// Each way from one node to another is lost by chance.
    Holes,
    /// The link of one node is down, the way to its clients as well.
    Link,
    /// Nobody hears anybody.
    All,
}

impl Kind {
    pub(crate) const ALL: [Kind; 10] = [
        Kind::Alone,
        Kind::Halves,
        Kind::Bridge,
        Kind::Pair,
        Kind::Ring,
        Kind::Deaf,
        Kind::Mute,
        Kind::Holes,
        Kind::Link,
        Kind::All,
    ];

    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Alone => "alone",
            Kind::Halves => "halves",
            Kind::Bridge => "bridge",
            Kind::Pair => "pair",
            Kind::Ring => "ring",
            Kind::Deaf => "deaf",
            Kind::Mute => "mute",
            Kind::Holes => "holes",
            Kind::Link => "link",
            Kind::All => "all",
        }
    }

    /// A cut of this kind through these nodes; kinds that mean one node mean the first.
    pub(crate) fn draw(self, rng: &mut Rng, nodes: &[NodeId]) -> Cut {
        let Some((&first, others)) = nodes.split_first() else { return Cut::default() };
        let count = nodes.len();
        let minority = 1 + rng.below((count as u64 / 2).max(1)) as usize;
        let middle = others.len() / 2;
        let deaf = match self {
            Kind::Alone => apart(&[first], others),
            Kind::Halves => apart(&nodes[..minority.min(count - 1)], &nodes[minority.min(count - 1)..]),
            Kind::Bridge => apart(&others[..middle], &others[middle..]),
            Kind::Pair => apart(&[first], &others[others.len().saturating_sub(1)..]),
            Kind::Ring => all_pairs(nodes)
                .filter(|(a, b)| {
                    let at = |id: &NodeId| nodes.iter().position(|node| node == id).unwrap_or(0);
                    let distance = at(a).abs_diff(at(b));
                    distance != 1 && distance != count - 1
                })
                .collect(),
            Kind::Deaf => others.iter().map(|other| (first, *other)).collect(),
            Kind::Mute => others.iter().map(|other| (*other, first)).collect(),
            Kind::Holes => all_pairs(nodes).filter(|_| rng.chance(3, 10)).collect(),
            Kind::Link => BTreeSet::new(),
            Kind::All => all_pairs(nodes).collect(),
        };
        let down = if self == Kind::Link { BTreeSet::from([first]) } else { BTreeSet::new() };
        Cut { deaf, down }
    }
}

fn all_pairs(nodes: &[NodeId]) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
    nodes.iter().flat_map(move |a| nodes.iter().filter(move |b| *b != a).map(move |b| (*a, *b)))
}

/// Nobody of one group and nobody of the other hear each other.
fn apart(one: &[NodeId], other: &[NodeId]) -> BTreeSet<(NodeId, NodeId)> {
    one.iter().flat_map(|a| other.iter().flat_map(move |b| [(*a, *b), (*b, *a)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [NodeId; 5] = [NodeId(3), NodeId(1), NodeId(4), NodeId(2), NodeId(5)];

    fn cut(kind: Kind) -> Cut {
        kind.draw(&mut Rng::new(7), &NODES)
    }

    /// How many nodes this one hears, and how many hear it.
    fn hears(cut: &Cut, id: NodeId) -> (usize, usize) {
        let others = || NODES.iter().filter(|node| **node != id);
        let heard = others().filter(|other| !cut.deaf.contains(&(id, **other))).count();
        (heard, others().filter(|other| !cut.deaf.contains(&(**other, id))).count())
    }

    #[test]
    fn each_kind_cuts_what_its_name_says() {
        let all = |kind: Kind| NODES.map(|id| hears(&cut(kind), id));
        assert_eq!(all(Kind::Alone), [(0, 0), (3, 3), (3, 3), (3, 3), (3, 3)]);
        assert_eq!(all(Kind::Bridge), [(4, 4), (2, 2), (2, 2), (2, 2), (2, 2)]);
        assert_eq!(all(Kind::Pair), [(3, 3), (4, 4), (4, 4), (4, 4), (3, 3)]);
        assert_eq!(all(Kind::Ring), [(2, 2); 5]);
        assert_eq!(all(Kind::Deaf), [(0, 4), (4, 3), (4, 3), (4, 3), (4, 3)]);
        assert_eq!(all(Kind::Mute), [(4, 0), (3, 4), (3, 4), (3, 4), (3, 4)]);
        assert_eq!(all(Kind::All), [(0, 0); 5]);
        assert_eq!(all(Kind::Link), [(4, 4); 5]);
        assert_eq!(cut(Kind::Link).down, BTreeSet::from([NODES[0]]));
        let others = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Link);
        others.for_each(|kind| assert!(cut(kind).down.is_empty() && !cut(kind).deaf.is_empty()));
    }

    #[test]
    fn halves_leave_a_majority_and_holes_are_one_way() {
        let mut rng = Rng::new(1);
        let mut sizes = BTreeSet::new();
        let mut one_way = 0;
        for _ in 0..100 {
            let cut = Kind::Halves.draw(&mut rng, &NODES);
            let mut reach = NODES.map(|id| hears(&cut, id));
            reach.sort_unstable();
            sizes.insert(reach.map(|(heard, _)| heard));
            let holes = Kind::Holes.draw(&mut rng, &NODES);
            one_way += holes.deaf.iter().filter(|(a, b)| !holes.deaf.contains(&(*b, *a))).count();
        }
        assert_eq!(sizes, BTreeSet::from([[0, 3, 3, 3, 3], [1, 1, 2, 2, 2]]));
        assert!(one_way > 100, "{one_way}");
    }

    #[test]
    fn few_nodes_are_cut_as_well() {
        for kind in Kind::ALL {
            for count in 0..=3 {
                let cut = kind.draw(&mut Rng::new(3), &NODES[..count]);
                let is_known = |id: &NodeId| NODES[..count].contains(id);
                assert!(cut.deaf.iter().all(|(a, b)| a != b && is_known(a) && is_known(b)), "{kind:?}");
            }
        }
    }
}
