//! The way of this node's clients into one bucket.

use core::time::Duration;
use quorate_kernel::{Rng, Time};
use quorate_shard::Mutant;

use crate::config::NodeConfig;
use crate::connections::Connections;
use crate::origin::Origin;
use crate::reads::Reads;

/// What this node keeps of requests for one bucket, whether it has a copy of it or not.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) origin: Origin,
    pub(crate) reads: Reads,
    pub(crate) connections: Connections,
    /// No sooner is the log's end asked for again.
    pub(crate) begin_again_at: Time,
    /// The leader said that its disk is full; until then it is believed.
    pub(crate) leader_full_until: Time,
    /// Whether requests are being sent on right now.
    pub(crate) dispatching: bool,
}

impl Lane {
    pub(crate) fn new(config: &NodeConfig, names: &mut Rng) -> Self {
        let (mut origin, mut reads) = (Origin::new(config.me.id), Reads::default());
        origin.begin_session(names.next_u64());
        // Answers to an earlier life's questions must not be taken for answers to this one's.
        let name = names.next_u64();
        if !config.limits.breaks(Mutant::NamesRepeat) {
            reads.begin(name);
        }
        Lane {
            origin,
            reads,
            connections: Connections::default(),
            begin_again_at: Time::default(),
            leader_full_until: Time::default(),
            dispatching: false,
        }
    }

    /// Requests taken from clients and not answered.
    pub(crate) fn pending(&self) -> usize {
        self.origin.count() + self.reads.count() + self.connections.waiting()
    }

    /// Whether it has no requests at all.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending() == 0 && self.origin.bytes() == 0
    }

    /// Requests whose clients wait.
    pub(crate) fn awaited(&self) -> usize {
        self.origin.awaited() + self.reads.count() + self.connections.waiting()
    }

    /// A new leader is known: whatever was asked of another is asked again.
    pub(crate) fn leader_changed(&mut self, now: Time) {
        self.reads.ask_again(Duration::ZERO, now);
        self.reads.forget_leader();
        self.begin_again_at = Time::default();
    }
}
