//! Linearizable reads without a log entry.
//!
//! A leader may answer from its own state if it is certain that nobody has chosen anything it does not know of. It is
//! certain while a quorum is bound by its lease; otherwise it asks a quorum once, and all reads that wait share the
//! round.

use quorate_kernel::{Cx, NodeId, Time};
use quorate_quorum::QuorumSystem;

use crate::Mutant;
use crate::leader::Leader;
use crate::machine::{Out, Output, Replog, Role};

/// A read that waits for its round.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) ticket: u64,
    /// Answers to this round, or a later one, allow the read.
    pub(crate) round: u64,
}

impl Replog {
    pub(crate) fn read(&mut self, cx: &mut Cx<'_>, ticket: u64, out: &mut Out) {
        let member = self.is_member() || self.breaks(Mutant::LeaseAcrossSeal);
        let may_now = self.may_read_now(cx);
        let stale = self.breaks(Mutant::ReadRoundStale).then(|| self.confirmed_round());
        let index = self.chosen;
        let Role::Leader(leader) = &mut self.role else { return out.output(Output::ReadRefused { ticket }) };
        if !member {
            return out.output(Output::ReadRefused { ticket });
        }
        if leader.reads.is_empty() && may_now {
            return out.output(Output::Read { ticket, index });
        }
        let round = stale.unwrap_or(leader.round + 1);
        leader.reads.push_back(Read { ticket, round });
        self.settle_reads(cx, out);
    }

    /// Lets go of the reads that may be answered, and starts the next round if others wait.
    pub(crate) fn settle_reads(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Role::Leader(leader) = &self.role else { return };
        if leader.reads.is_empty() {
            return;
        }
        let leased = self.may_read_now(cx);
        let confirmed = self.confirmed_round();
        let taken_over = self.chosen >= leader.takeover || self.breaks(Mutant::ReadBeforeTakeover);
        let index = self.chosen;
        let Role::Leader(leader) = &mut self.role else { return };
        while let Some(read) = leader.reads.front() {
            if !(leased || (taken_over && read.round <= confirmed)) {
                break;
            }
            out.output(Output::Read { ticket: read.ticket, index });
            leader.reads.pop_front();
        }
        let waiting = leader.reads.back().is_some_and(|read| read.round > leader.round);
        if waiting && confirmed >= leader.round {
            cx.marks.hit("replog.read.round");
            leader.round += 1;
            self.broadcast(cx, true, out);
        }
    }

    /// The newest round that a quorum has answered.
    fn confirmed_round(&self) -> u64 {
        let Role::Leader(leader) = &self.role else { return 0 };
        let round = |id: NodeId| {
            if id == self.me {
                return leader.round;
            }
            leader.peers.get(&id).and_then(|peer| peer.echo).map_or(0, |echo| echo.round)
        };
        self.quorum().chosen(round)
    }

    /// Whether this leader's lease holds and it knows all that was chosen before it.
    fn may_read_now(&self, cx: &Cx<'_>) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        let ready = self.chosen >= leader.takeover || self.breaks(Mutant::ReadBeforeTakeover);
        let across_seal = self.breaks(Mutant::LeaseAcrossSeal) && !self.is_member();
        let given_up = leader.lease_given_up && !self.breaks(Mutant::LeaseAfterHandover) && !across_seal;
        ready && !given_up && !self.config.lease.is_zero() && self.lease_holds(cx, leader)
    }

    fn lease_holds(&self, cx: &Cx<'_>, leader: &Leader) -> bool {
        let from_receipt = self.breaks(Mutant::LeaseFromReceipt);
        let granted = |id: NodeId| {
            if id == self.me {
                return cx.now;
            }
            match leader.peers.get(&id) {
                Some(peer) if from_receipt => peer.heard.unwrap_or_default(),
                Some(peer) => peer.echo.map_or(Time::default(), |echo| echo.sent_at),
                None => Time::default(),
            }
        };
        let believed = if self.breaks(Mutant::LeaseWithoutMargin) {
            self.config.lease * 5 / 4
        } else {
            self.config.lease_believed()
        };
        let Some(granted) = self.quorum().quorum_value(granted) else { return false };
        granted > Time::default() && cx.now < granted + believed
    }
}
