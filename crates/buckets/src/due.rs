//! What the leader of a bucket has to do: bring the members of its log in line with the placement.
//!
//! A log keeps a mark: the number that [`Due::number`] had when its members were last to change, stored before they are
//! changed, or with them. A placement in which the bucket changed last before that is older than what the log is in line with, and
//! has no say. So two leaders with different placements cannot undo each other's work for ever, whatever they believe.

use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_kernel::NodeId;

use crate::placement::{Place, Placement};

/// What must become of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The mark that the log keeps from then on.
    pub number: u64,
    /// Who must become a member; they catch up before they count.
    pub add: Vec<NodeId>,
    /// Who must be one no more.
    pub remove: Vec<NodeId>,
}

impl Placement {
    /// What must become of a bucket's log, which has these members and this mark. If nobody is to come or go, only the mark is
    /// to be kept: otherwise a placement from in between could still change the members back.
    pub fn members_due(&self, bucket: Bucket, log: &[NodeId], mark: u64) -> Option<Due> {
        let place = self.place_for(bucket, mark)?;
        let add: Vec<NodeId> = place.members.iter().copied().filter(|id| !log.contains(id)).collect();
        let remove: Vec<NodeId> = log.iter().copied().filter(|id| !place.members.contains(id)).collect();
        let in_line = mark == place.since && add.is_empty() && remove.is_empty();
        (!in_line).then_some(Due { number: place.since, add, remove })
    }

    /// Who should lead a bucket, of those who are members of its log already.
    pub fn leader_due(&self, bucket: Bucket, log: &[NodeId], mark: u64) -> Option<NodeId> {
        let place = self.place_for(bucket, mark)?;
        place.members.iter().copied().find(|id| log.contains(id))
    }

    /// The place of a bucket, unless its log is in line with a newer placement or nobody is left to hold it.
    fn place_for(&self, bucket: Bucket, mark: u64) -> Option<&Place> {
        let place = self.places.get(usize::from(bucket.0))?;
        (mark <= place.since && !place.members.is_empty()).then_some(place)
    }
}
