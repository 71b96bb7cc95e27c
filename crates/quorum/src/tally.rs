//! Votes by sender.

use alloc::collections::BTreeMap;
use quorate_kernel::NodeId;

use crate::QuorumSystem;

/// What each sender said first. Networks duplicate messages; a tally does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally<V = ()> {
    votes: BTreeMap<NodeId, V>,
}

impl<V> Default for Tally<V> {
    fn default() -> Self {
        Tally { votes: BTreeMap::new() }
    }
}

impl<V> Tally<V> {
    /// Nobody has said anything.
    pub fn new() -> Self {
        Tally::default()
    }

    /// Takes down what `from` says; false, and without effect, if it has said something before.
    pub fn record(&mut self, from: NodeId, vote: V) -> bool {
        match self.votes.entry(from) {
            alloc::collections::btree_map::Entry::Vacant(place) => {
                place.insert(vote);
                true
            }
            alloc::collections::btree_map::Entry::Occupied(_) => false,
        }
    }

    /// What `from` said.
    pub fn get(&self, from: NodeId) -> Option<&V> {
        self.votes.get(&from)
    }

    /// Whether `from` has said anything.
    pub fn contains(&self, from: NodeId) -> bool {
        self.votes.contains_key(&from)
    }

    /// How many have said something.
    pub fn len(&self) -> usize {
        self.votes.len()
    }

    /// Whether nobody has said anything.
    pub fn is_empty(&self) -> bool {
        self.votes.is_empty()
    }

    /// Who said what, in the order of the senders.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &V)> {
        self.votes.iter().map(|(from, vote)| (*from, vote))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.votes.clear();
    }

    /// Whether those who have said anything are a quorum.
    pub fn reaches(&self, system: &impl QuorumSystem) -> bool {
        system.is_quorum(|member| self.contains(member))
    }

    /// Whether those whose vote satisfies `wanted` are a quorum.
    pub fn reaches_with(&self, system: &impl QuorumSystem, wanted: impl Fn(&V) -> bool) -> bool {
        system.is_quorum(|member| self.get(member).is_some_and(&wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Majority;

    #[test]
    fn the_same_sender_counts_once() {
        let members = [1, 2, 3].map(NodeId);
        let system = Majority::new(&members);
        let mut tally = Tally::new();
        assert!(tally.record(NodeId(1), 'a'));
        assert!(!tally.record(NodeId(1), 'b'));
        assert_eq!(tally.get(NodeId(1)), Some(&'a'));
        assert!(!tally.reaches(&system));
        assert!(tally.record(NodeId(9), 'a'), "a stranger may speak");
        assert!(!tally.reaches(&system), "but does not count");
        assert!(tally.record(NodeId(3), 'b'));
        assert!(tally.reaches(&system));
        assert!(!tally.reaches_with(&system, |vote| *vote == 'a'));
        assert_eq!(tally.iter().count(), 3);
        tally.clear();
        assert!(tally.is_empty());
    }
}
