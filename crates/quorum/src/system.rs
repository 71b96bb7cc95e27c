//! What every quorum system answers, and the systems that count members.

use alloc::vec::Vec;
use quorate_kernel::NodeId;

/// The size of a majority of `count` members; 1 for none, so that an empty list never has one.
pub const fn majority_of(count: usize) -> usize {
    count / 2 + 1
}

/// Says which sets of members are quorums.
pub trait QuorumSystem {
    /// Whether the members for which `acked` holds are a quorum. Only members are asked.
    fn is_quorum(&self, acked: impl Fn(NodeId) -> bool) -> bool;

    /// The largest `v` such that the members with a value of at least `v` are a quorum; `None` if there are too few
    /// members for any quorum.
    fn quorum_value<T: Ord + Copy>(&self, value: impl Fn(NodeId) -> T) -> Option<T>;

    /// The largest index that a quorum has reached, 0 if there is none.
    fn chosen(&self, matched: impl Fn(NodeId) -> u64) -> u64 {
        self.quorum_value(matched).unwrap_or(0)
    }
}

/// Any `needed` members are a quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold<'a> {
    members: &'a [NodeId],
    needed: usize,
}

impl<'a> Threshold<'a> {
    /// Any `needed` of `members`; more than there are members means that there is no quorum.
    ///
    /// # Panics
    /// If `members` is not sorted and free of duplicates, or `needed` is 0.
    pub fn new(members: &'a [NodeId], needed: usize) -> Self {
        assert!(members.is_sorted_by(|left, right| left < right), "members sorted, each once: {members:?}");
        assert!(needed > 0, "an empty set is never a quorum");
        Threshold { members, needed }
    }

    /// The members, in order.
    pub fn members(&self) -> &'a [NodeId] {
        self.members
    }

    /// How many members make a quorum.
    pub fn needed(&self) -> usize {
        self.needed
    }
}

impl QuorumSystem for Threshold<'_> {
    fn is_quorum(&self, acked: impl Fn(NodeId) -> bool) -> bool {
        self.members.iter().filter(|member| acked(**member)).count() >= self.needed
    }

    fn quorum_value<T: Ord + Copy>(&self, value: impl Fn(NodeId) -> T) -> Option<T> {
        if self.members.len() < self.needed {
            return None;
        }
        let mut values: Vec<T> = self.members.iter().map(|member| value(*member)).collect();
        let place = values.len() - self.needed;
        let (_, reached, _) = values.select_nth_unstable(place);
        Some(*reached)
    }
}

/// More than half of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Majority<'a>(Threshold<'a>);

impl<'a> Majority<'a> {
    /// The majorities of `members`.
    ///
    /// # Panics
    /// If `members` is not sorted and free of duplicates.
    pub fn new(members: &'a [NodeId]) -> Self {
        Majority(Threshold::new(members, majority_of(members.len())))
    }

    /// The members, in order.
    pub fn members(&self) -> &'a [NodeId] {
        self.0.members
    }

    /// How many members make a quorum.
    pub fn needed(&self) -> usize {
        self.0.needed
    }
}

impl QuorumSystem for Majority<'_> {
    fn is_quorum(&self, acked: impl Fn(NodeId) -> bool) -> bool {
        self.0.is_quorum(acked)
    }

    fn quorum_value<T: Ord + Copy>(&self, value: impl Fn(NodeId) -> T) -> Option<T> {
        self.0.quorum_value(value)
    }
}

/// A majority of an old and a majority of a new member list, for the time in which both count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joint<'a> {
    old: Majority<'a>,
    new: Majority<'a>,
}

impl<'a> Joint<'a> {
    /// The sets that hold a majority of both lists. If one list is empty there is none.
    ///
    /// # Panics
    /// If a list is not sorted and free of duplicates.
    pub fn new(old: &'a [NodeId], new: &'a [NodeId]) -> Self {
        Joint { old: Majority::new(old), new: Majority::new(new) }
    }

    /// The majorities of the old list.
    pub fn old(&self) -> Majority<'a> {
        self.old
    }

    /// The majorities of the new list.
    pub fn new_members(&self) -> Majority<'a> {
        self.new
    }
}

impl QuorumSystem for Joint<'_> {
    fn is_quorum(&self, acked: impl Fn(NodeId) -> bool) -> bool {
        self.old.is_quorum(&acked) && self.new.is_quorum(&acked)
    }

    fn quorum_value<T: Ord + Copy>(&self, value: impl Fn(NodeId) -> T) -> Option<T> {
        let (old, new) = (self.old.quorum_value(&value)?, self.new.quorum_value(&value)?);
        Some(old.min(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_members_than_two_f_and_one_need_more_than_f_and_one() {
        let members = [1, 2, 3, 4, 5, 6].map(NodeId);
        assert_eq!(Majority::new(&members).needed(), 4);
        assert!(!Majority::new(&members).is_quorum(|member| member.0 <= 3));
    }

    #[test]
    fn strangers_are_not_asked() {
        let members = [1, 2, 3].map(NodeId);
        let strangers = [7, 8, 9].map(NodeId);
        assert!(!Majority::new(&members).is_quorum(|member| strangers.contains(&member)));
    }

    #[test]
    #[should_panic(expected = "each once")]
    fn duplicates_are_refused() {
        Majority::new(&[NodeId(1), NodeId(1)]);
    }

    #[test]
    #[should_panic(expected = "sorted")]
    fn disorder_is_refused() {
        Majority::new(&[NodeId(2), NodeId(1)]);
    }
}
