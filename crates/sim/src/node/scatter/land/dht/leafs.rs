//! Whom a node of the baseline knows: its leafs, and others by the digits of their distance.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_kernel::{NodeId, Rng, Time};

/// Who was found dead is not believed to live because others say so, for so long.
const DEAD_FOR: Duration = Duration::from_secs(30);

/// Where a node or a key stands on the circle: anywhere, as hashes are.
pub(super) fn place_of(number: u64) -> u64 {
    Rng::new(number).next_u64()
}

#[derive(Debug)]
pub(super) struct Leafs {
    me: NodeId,
    /// So many hold a key; so many leafs there are on each side.
    copies: usize,
    /// The leafs, by their distance clockwise, and when they were heard last.
    leafs: BTreeMap<u64, (NodeId, Time)>,
    /// One node for each place of the first hexadecimal digit of its distance, and that digit.
    table: BTreeMap<(u32, u64), NodeId>,
    dead: BTreeMap<NodeId, Time>,
}

impl Leafs {
    pub(super) fn new(me: NodeId, copies: usize) -> Leafs {
        Leafs { me, copies, leafs: BTreeMap::new(), table: BTreeMap::new(), dead: BTreeMap::new() }
    }

    fn distance(&self, id: NodeId) -> u64 {
        place_of(id.0).wrapping_sub(place_of(self.me.0))
    }

    /// Somebody lives who may be far.
    pub(super) fn meet(&mut self, id: NodeId) {
        let distance = self.distance(id);
        if distance > 0 {
            let row = distance.ilog2() / 4;
            self.table.entry((row, distance >> (4 * row))).or_insert(id);
        }
    }

    /// Somebody speaks: it lives.
    pub(super) fn hear(&mut self, id: NodeId, now: Time) {
        self.dead.remove(&id);
        let distance = self.distance(id);
        if distance > 0 {
            self.leafs.insert(distance, (id, now));
            self.trim();
            self.meet(id);
        }
    }

    /// Others say that somebody lives.
    pub(super) fn tell(&mut self, id: NodeId, now: Time) {
        if !self.dead.contains_key(&id) && !self.leafs.contains_key(&self.distance(id)) {
            self.hear(id, now);
        }
    }

    /// Only the nearest on both sides stay.
    fn trim(&mut self) {
        while self.leafs.len() > 2 * self.copies {
            let middle = self.leafs.keys().nth(self.copies).copied();
            middle.map(|middle| self.leafs.remove(&middle));
        }
    }

    pub(super) fn gone(&mut self, id: NodeId, now: Time) {
        self.dead.insert(id, now);
        self.leafs.remove(&self.distance(id));
        self.table.retain(|_, known| *known != id);
    }

    pub(super) fn drop_gone(&mut self, now: Time, after: Duration) {
        let silent: Vec<NodeId> =
            self.leafs.values().filter(|(_, at)| now.since(*at) >= after).map(|(id, _)| *id).collect();
        silent.into_iter().for_each(|id| self.gone(id, now));
        self.dead.retain(|_, at| now.since(*at) < DEAD_FOR);
    }

    /// The leafs.
    pub(super) fn near(&self) -> Vec<NodeId> {
        self.leafs.values().map(|(id, _)| *id).collect()
    }

    /// All who are known.
    pub(super) fn known(&self) -> Vec<NodeId> {
        self.near().into_iter().chain(self.table.values().copied()).collect()
    }

    /// Whether this node is the root of a place, the first there or after it: nobody stands between the one before this node and it.
    pub(super) fn is_root(&self, place: u64) -> bool {
        let own = place_of(self.me.0);
        let span = |(_, (before, _)): (&u64, &(NodeId, Time))| own.wrapping_sub(place_of(before.0));
        self.leafs.last_key_value().map(span).is_none_or(|span| own.wrapping_sub(place) < span)
    }

    /// The next node on the way to a place; none if this one is its root.
    pub(super) fn next(&self, place: u64) -> Option<NodeId> {
        if self.is_root(place) {
            return None;
        }
        let own = place_of(self.me.0);
        let to_go = |id: &NodeId| place.wrapping_sub(place_of(id.0));
        let all = self.leafs.values().map(|(id, _)| id).chain(self.table.values());
        let nearest = all.min_by_key(|id| to_go(id)).copied();
        let nearer = nearest.filter(|id| to_go(id) < place.wrapping_sub(own));
        nearer.or_else(|| self.leafs.first_key_value().map(|(_, (id, _))| *id))
    }

    /// Those that hold a place, its root first, as far as this node can see.
    pub(super) fn holders(&self, place: u64) -> Vec<NodeId> {
        let after = |id: &NodeId| place_of(id.0).wrapping_sub(place);
        let mut all = self.near();
        all.push(self.me);
        all.sort_by_key(after);
        all.truncate(self.copies);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_come_nearer_and_end_at_the_root() {
        let nodes: Vec<NodeId> = (1..200).map(NodeId).collect();
        let leafs = |me: NodeId| {
            let mut leafs = Leafs::new(me, 4);
            nodes.iter().filter(|id| **id != me).for_each(|id| leafs.tell(*id, Time::default()));
            leafs
        };
        let all: BTreeMap<NodeId, Leafs> = nodes.iter().map(|id| (*id, leafs(*id))).collect();
        for key in 1_000..1_200 {
            let place = place_of(key);
            let root = nodes.iter().min_by_key(|id| place_of(id.0).wrapping_sub(place)).copied();
            let (mut at, mut hops) = (NodeId(1 + key % 199), 0);
            while let Some(next) = all[&at].next(place) {
                (at, hops) = (next, hops + 1);
                assert!(hops < 20, "{key} is looked for for ever");
            }
            assert_eq!(Some(at), root, "{key}");
            assert_eq!(all[&at].holders(place)[0], at);
            assert!(all[&at].near().len() == 8);
        }
    }

    #[test]
    fn the_dead_stay_dead_until_they_speak() {
        let mut leafs = Leafs::new(NodeId(1), 4);
        leafs.tell(NodeId(2), Time::default());
        leafs.drop_gone(Time(3_000_000_000), Duration::from_secs(2));
        leafs.tell(NodeId(2), Time(3_000_000_000));
        assert!(leafs.near().is_empty());
        leafs.hear(NodeId(2), Time(4_000_000_000));
        assert_eq!(leafs.near(), [NodeId(2)]);
    }
}
