//! Flexible quorums (Howard, Malkhi and Spiegelman 2016): only quorums of different phases must intersect.

use core::fmt;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

use crate::{Threshold, majority_of};

/// Sizes of the quorums that elect (phase 1) and that accept (phase 2), known to intersect for their member count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flexible {
    members: usize,
    phase1: usize,
    phase2: usize,
}

/// Why two sizes are not a pair of flexible quorums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlexibleError {
    /// A size is 0 or more than the number of members.
    Size {
        /// The size that was asked for.
        size: usize,
        /// The number of members.
        members: usize,
    },
    /// A phase 1 quorum could miss a phase 2 quorum.
    Disjoint {
        /// Size of phase 1 quorums.
        phase1: usize,
        /// Size of phase 2 quorums.
        phase2: usize,
        /// The number of members.
        members: usize,
    },
}

impl fmt::Display for FlexibleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlexibleError::Size { size, members } => {
                write!(f, "a quorum of {size} out of {members} members: choose a size from 1 to {members}")
            }
            FlexibleError::Disjoint { phase1, phase2, members } => write!(
                f,
                "quorums of {phase1} (phase 1) and {phase2} (phase 2) out of {members} members may have no member in \
                 common: choose sizes whose sum is more than {members}"
            ),
        }
    }
}

impl core::error::Error for FlexibleError {}

impl Flexible {
    /// These sizes for `members` members.
    ///
    /// # Errors
    /// If a size is impossible or quorums of the two phases might not intersect.
    pub fn new(members: usize, phase1: usize, phase2: usize) -> Result<Self, FlexibleError> {
        for size in [phase1, phase2] {
            if size == 0 || size > members {
                return Err(FlexibleError::Size { size, members });
            }
        }
        if phase1 + phase2 <= members {
            return Err(FlexibleError::Disjoint { phase1, phase2, members });
        }
        Ok(Flexible { members, phase1, phase2 })
    }

    /// Majorities in both phases.
    pub fn majority(members: usize) -> Self {
        Flexible { members, phase1: majority_of(members), phase2: majority_of(members) }
    }

    /// Size of phase 1 quorums.
    pub fn phase1_size(&self) -> usize {
        self.phase1
    }

    /// Size of phase 2 quorums.
    pub fn phase2_size(&self) -> usize {
        self.phase2
    }

    /// The quorums that elect and recover.
    ///
    /// # Panics
    /// If the number of members is not the one the sizes were checked for.
    pub fn phase1<'a>(&self, members: &'a [NodeId]) -> Threshold<'a> {
        self.phase(members, self.phase1)
    }

    /// The quorums that accept.
    ///
    /// # Panics
    /// If the number of members is not the one the sizes were checked for.
    pub fn phase2<'a>(&self, members: &'a [NodeId]) -> Threshold<'a> {
        self.phase(members, self.phase2)
    }

    fn phase<'a>(&self, members: &'a [NodeId], needed: usize) -> Threshold<'a> {
        assert_eq!(members.len(), self.members, "flexible sizes hold for one number of members");
        // Again here, because sizes may have come from disk or from a peer.
        assert!(self.phase1 + self.phase2 > self.members, "quorums of the two phases intersect");
        Threshold::new(members, needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_intersecting_sizes_are_accepted() {
        for members in 0..=9 {
            for phase1 in 0..=10 {
                for phase2 in 0..=10 {
                    let possible = (1..=members).contains(&phase1) && (1..=members).contains(&phase2);
                    let expected = possible && phase1 + phase2 > members;
                    assert_eq!(Flexible::new(members, phase1, phase2).is_ok(), expected);
                }
            }
        }
    }

    #[test]
    fn errors_say_what_to_choose() {
        use alloc::string::ToString;
        let disjoint = Flexible::new(4, 2, 2).expect_err("2 + 2 is not more than 4");
        assert!(disjoint.to_string().contains("sum is more than 4"));
        let size = Flexible::new(3, 4, 1).expect_err("4 of 3");
        assert!(size.to_string().contains("from 1 to 3"));
    }

    #[test]
    #[should_panic(expected = "one number of members")]
    fn sizes_of_another_configuration_are_refused() {
        Flexible::majority(3).phase1(&[NodeId(1)]);
    }
}
