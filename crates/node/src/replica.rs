//! This node's copy of a bucket, and whom it owes answers.

use alloc::collections::{BTreeMap, BTreeSet};
use quorate_kernel::{NodeId, Position, Time};
use quorate_replog::Replog;
use quorate_shard::Shard;

/// A copy of a bucket.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) shard: Shard,
    /// Reads that this node, leading, answers: by the shard's ticket, who asked and under which name.
    pub(crate) asked_by: BTreeMap<u64, (NodeId, u64)>,
    /// Nodes whose batches this one did not take. They are told when it does.
    pub(crate) turned_away: BTreeSet<NodeId>,
    /// Whether it took batches after the last step.
    pub(crate) took: bool,
    /// The oldest record on this node's disk that the bucket needs; `None`: it has none there.
    pub(crate) needs: Option<Position>,
    /// Bytes of records that this node had persisted when the bucket let go of some last, or was asked to.
    pub(crate) tidied_at: u64,
    /// The member change that brings it in line with the placement of this number: its ticket, and that number.
    pub(crate) following: Option<(u64, u64)>,
    /// When its leader last noted or reported something.
    pub(crate) noted_at: Time,
    /// Since when no leader of it is known.
    pub(crate) leaderless_since: Option<Time>,
}

impl Replica {
    pub(crate) fn new(shard: Shard) -> Self {
        Replica {
            shard,
            asked_by: BTreeMap::new(),
            turned_away: BTreeSet::new(),
            took: false,
            needs: None,
            tidied_at: 0,
            following: None,
            noted_at: Time::default(),
            leaderless_since: None,
        }
    }

    pub(crate) fn log(&self) -> &Replog {
        self.shard.log()
    }
}
