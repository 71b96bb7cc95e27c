//! Fast quorums (Lamport 2006) in the sizes of Rapid (Suresh et al. 2018).

use quorate_kernel::NodeId;

use crate::{Threshold, majority_of};

/// Quorums of one fast round and of the classic rounds after it.
///
/// With F = floor((n - 1) / 4), a fast quorum has n - F members and a classic one floor(n / 2) + 1, so that two fast
/// quorums and a classic one always have a member in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fast<'a> {
    fast: Threshold<'a>,
    classic: Threshold<'a>,
}

impl<'a> Fast<'a> {
    /// The fast and classic quorums of `members`.
    ///
    /// # Panics
    /// If `members` is not sorted and free of duplicates.
    pub fn new(members: &'a [NodeId]) -> Self {
        let count = members.len();
        let fast = (count - count.saturating_sub(1) / 4).max(1);
        let classic = majority_of(count);
        assert!(count == 0 || 2 * fast + classic > 2 * count, "two fast quorums and a classic one intersect");
        Fast { fast: Threshold::new(members, fast), classic: Threshold::new(members, classic) }
    }

    /// The quorums of the fast round.
    pub fn fast(&self) -> Threshold<'a> {
        self.fast
    }

    /// The quorums of classic rounds.
    pub fn classic(&self) -> Threshold<'a> {
        self.classic
    }

    /// Whether a value may have been decided in the fast round when `copies` of the `heard` members that promised a
    /// classic round report it: all that are silent may have voted for it.
    ///
    /// # Panics
    /// If `heard` is not a classic quorum or not within the members, or less than `copies`.
    pub fn may_be_decided(&self, copies: usize, heard: usize) -> bool {
        let count = self.fast.members().len();
        assert!(copies <= heard && heard <= count, "{copies} copies from {heard} of {count} members");
        assert!(heard >= self.classic.needed(), "too few promises to judge: {heard} of {count}");
        copies + (count - heard) >= self.fast.needed()
    }

    /// The one value that a classic round must propose because the fast round may have decided it; `None` if the
    /// proposer is free. `votes` are the fast votes, one for each member that promised, `None` for no vote.
    ///
    /// # Panics
    /// If the members that promised are not a classic quorum.
    pub fn endangered<'v, V: Eq>(&self, votes: &[Option<&'v V>]) -> Option<&'v V> {
        let mut endangered: Option<&'v V> = None;
        for vote in votes.iter().flatten() {
            let copies = votes.iter().flatten().filter(|other| *other == vote).count();
            if self.may_be_decided(copies, votes.len()) {
                assert!(endangered.is_none_or(|other| other == *vote), "at most one value can be decided");
                endangered = Some(vote);
            }
        }
        endangered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn members(count: u64) -> Vec<NodeId> {
        (1..=count).map(NodeId).collect()
    }

    #[test]
    fn sizes() {
        let sizes = |count| {
            let members = members(count);
            let fast = Fast::new(&members);
            (fast.fast().needed(), fast.classic().needed())
        };
        assert_eq!(
            [1, 2, 3, 4, 5, 8, 9, 13].map(sizes),
            [(1, 1), (2, 2), (3, 2), (4, 3), (4, 3), (7, 5), (7, 5), (10, 7)]
        );
    }

    /// Every way in which n members can have voted for a, b or not at all in the fast round, and every set of them
    /// that a classic round may hear: a value with a fast quorum is the one that must be proposed.
    #[test]
    fn a_decided_value_is_always_endangered() {
        for count in 1..=7_usize {
            let members = members(count as u64);
            let fast = Fast::new(&members);
            for votes in 0..3_usize.pow(count as u32) {
                let vote = |place: usize| match votes / 3_usize.pow(place as u32) % 3 {
                    0 => None,
                    1 => Some(&'a'),
                    _ => Some(&'b'),
                };
                let decided = ['a', 'b']
                    .into_iter()
                    .find(|v| (0..count).filter(|p| vote(*p) == Some(v)).count() >= fast.fast().needed());
                for heard in 0..1_usize << count {
                    if (heard.count_ones() as usize) < fast.classic().needed() {
                        continue;
                    }
                    let reports: Vec<_> = (0..count).filter(|p| heard >> p & 1 == 1).map(vote).collect();
                    let endangered = fast.endangered(&reports);
                    if decided.is_some() {
                        assert_eq!(endangered, decided.as_ref());
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "too few promises")]
    fn a_minority_cannot_judge() {
        Fast::new(&members(5)).may_be_decided(1, 2);
    }
}
