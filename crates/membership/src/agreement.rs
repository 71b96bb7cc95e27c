//! What a member waits for, in words for operators. Nothing is decided by it.

use alloc::vec::Vec;
use core::fmt;
use quorate_kernel::NodeId;

use crate::alert::Level;
use crate::machine::Membership;
use crate::message::Rank;
use crate::seat::Seat;

/// A change of members that one member holds is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// Number of the view that is to be changed.
    pub view: u64,
    /// How many members it has.
    pub members: usize,
    /// Who is to be removed or let in, reported on so many rings.
    pub certain: Vec<(NodeId, usize)>,
    /// The same, of whom it is not certain yet: nobody proposes anything meanwhile.
    pub unsure: Vec<(NodeId, usize)>,
    /// So many votes, in which round; each line for one value.
    pub votes: Vec<(Rank, usize)>,
    /// So many votes are needed in the fast round, and in any other.
    pub needed: (usize, usize),
}

impl Seat {
    fn agreement(&self) -> Agreement {
        let of = |wanted: Level| {
            let subjects = self.alerts.subjects().filter(|(id, _)| self.alerts.level(*id) == wanted);
            subjects.map(|(id, subject)| (id, subject.raised().len())).collect()
        };
        Agreement {
            view: self.view().seq(),
            members: self.rings.ids().len(),
            certain: of(Level::Stable),
            unsure: of(Level::Unstable),
            votes: self.consensus.tallies.iter().map(|votes| (votes.rank, votes.voters.len())).collect(),
            needed: (self.fast_needed, self.classic_needed),
        }
    }
}

impl Membership {
    /// What this member waits for, unless nothing is under way.
    pub fn agreement(&self) -> Option<Agreement> {
        self.seat().filter(|seat| !seat.is_quiet()).map(Seat::agreement)
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement { members, certain, unsure, votes, needed: (fast, classic), .. } = self;
        write!(f, "{members} members; certain:")?;
        certain.iter().try_for_each(|(id, rings)| write!(f, " {id} ({rings})"))?;
        write!(f, "; unsure:")?;
        unsure.iter().try_for_each(|(id, rings)| write!(f, " {id} ({rings})"))?;
        write!(f, "; votes ({fast} or {classic} needed):")?;
        votes.iter().try_for_each(|(rank, count)| write!(f, " {rank:?} {count}"))
    }
}
