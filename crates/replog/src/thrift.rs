//! Sparing members whose copies a lone entry does not wait for.
//!
//! An entry is chosen once a quorum has it on disk. Where entries come one at a time, each waits for a few syncs and nothing else, and the syncs of members beyond the
//! quorum only stand in the way: of the disk if it is shared, of the network and of processors if not. So while entries have come alone for a while, those members that
//! answer soonest get each at once, as many as a quorum needs, and the others a moment later what has gathered. Everybody gets everything at once as soon as entries come
//! while others are under way, and when a spared moment is over: a member that answers late costs one such moment, as does one that has just stopped answering. Nothing
//! but time depends on who is served first. ("Thrifty" quorums as in EPaxos, for a lone entry only; what it brings: decision 0006.)

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;
use quorate_kernel::{Cx, NodeId, Time};
use quorate_quorum::majority_of;

use crate::leader::{Leader, Mode, Peer};
use crate::machine::{Out, Replog, Role, Timer};

/// So many entries in a row have to come alone.
const ALONE_MIN: u32 = 4;

/// What a leader keeps about entries that come alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Thrift {
    /// How many have come alone, one after the other.
    alone: u32,
    /// Whether the end of a spared moment is waited for.
    is_armed: bool,
}

impl Peer {
    /// Takes note of how long an answer took.
    pub(crate) fn answered_in(&mut self, took: Duration) {
        self.took = if self.took.is_zero() { took } else { (self.took * 7 + took) / 8 };
    }

    /// Whether it has answered all that it was sent, beats among it.
    fn is_prompt(&self, since: Time) -> bool {
        let is_there = self.heard.is_some_and(|heard| heard >= since);
        is_there && matches!(self.mode, Mode::Stream) && self.matched + 1 == self.next
    }
}

impl Leader {
    fn spare_nobody(&mut self) {
        self.peers.values_mut().for_each(|peer| peer.is_spared = false);
    }
}

impl Replog {
    /// An entry is about to be sent: chooses whom it need not go to yet. `is_alone`: nothing else is under way.
    pub(crate) fn spare_some(&mut self, now: Time, is_alone: bool, out: &mut Out) {
        let (me, spare, needed) = (self.me, self.config.spare, majority_of(self.voters.len()));
        let Role::Leader(leader) = &mut self.role else { return };
        leader.thrift.alone = if is_alone { leader.thrift.alone.saturating_add(1) } else { 0 };
        let is_calm = leader.settled && leader.change.is_none() && leader.transfer.is_none();
        if spare.is_zero() || !is_calm || leader.thrift.alone <= ALONE_MIN {
            return leader.spare_nobody();
        }
        let (peers, since) = (&leader.peers, now - self.config.election);
        let rank = |id: &NodeId| {
            let peer = peers.get(id);
            // Whoever is not spared now stays so unless somebody else is clearly sooner.
            let took = peer.map(|peer| if peer.is_spared { peer.took } else { peer.took / 2 });
            (Reverse(peer.is_some_and(|peer| peer.is_prompt(since))), took, *id)
        };
        let mut others: Vec<NodeId> = self.voters.iter().copied().filter(|id| *id != me).collect();
        others.sort_by_key(rank);
        let spared = others.split_off((needed - 1).min(others.len()));
        leader.spare_nobody();
        for id in &spared {
            if let Some(peer) = leader.peers.get_mut(id) {
                peer.is_spared = true;
            }
        }
        if !spared.is_empty() && !core::mem::replace(&mut leader.thrift.is_armed, true) {
            out.arm(Timer::Spared, spare);
        }
    }

    /// The moment is over: whoever was spared gets what has gathered.
    pub(crate) fn on_spared_timer(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Role::Leader(leader) = &mut self.role else { return };
        leader.thrift.is_armed = false;
        if leader.peers.values().any(|peer| peer.is_spared) {
            cx.marks.hit("replog.spared");
            leader.spare_nobody();
            self.broadcast(cx, false, out);
        }
    }
}
