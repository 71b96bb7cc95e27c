//! How news reach everybody.
//!
//! In a small view each member sends its own news to all others. In a large one that would be N^2 messages for one
//! decision: there, a node with something new tells a few others, for a few rounds, and they do the same. Alerts are
//! merged by subject and votes by value, so a message holds all that is known and never more than one line for each.
//! What may have been lost is said again while anything is under way.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use quorate_kernel::{Cx, NodeId};

use crate::Mutant;
use crate::machine::{Out, Timer};
use crate::message::{Message, Report};
use crate::seat::Seat;

/// What is on its way to others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spread {
    /// Subjects with new alerts.
    pub(crate) reports: BTreeSet<NodeId>,
    /// Whether there are new votes.
    votes: bool,
    /// For how many more rounds of gossip.
    rounds: u32,
    gossiping: bool,
    resending: bool,
}

impl Seat {
    fn gossips(&self) -> bool {
        self.rings.ids().len() > self.config.unicast_members_max
    }

    /// Own votes leave.
    pub(crate) fn spread_votes(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.spread.votes = true;
        self.spread_now(cx, out);
    }

    /// Somebody else's alert was new here. Only gossip passes it on.
    pub(crate) fn relay(&mut self, subject: NodeId, out: &mut Out) {
        if self.gossips() {
            self.spread.reports.insert(subject);
            self.gossip_on(out);
        }
    }

    /// Somebody else's vote was new here. Only gossip passes it on.
    pub(crate) fn relay_votes(&mut self, out: &mut Out) {
        if self.gossips() {
            self.spread.votes = true;
            self.gossip_on(out);
        }
    }

    fn gossip_on(&mut self, out: &mut Out) {
        self.spread.rounds = self.config.gossip_rounds;
        if !core::mem::replace(&mut self.spread.gossiping, true) {
            out.arm(Timer::Gossip, self.config.gossip_interval);
        }
    }

    /// What is new here and was not heard from others leaves.
    pub(crate) fn spread_now(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.gossips() {
            self.gossip_on(out);
            return;
        }
        let subjects: Vec<NodeId> = core::mem::take(&mut self.spread.reports).into_iter().collect();
        let votes = core::mem::take(&mut self.spread.votes);
        let others: Vec<NodeId> = self.others().collect();
        self.send_news(cx, &others, &subjects, votes, out);
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.rings.ids().iter().copied().filter(|id| *id != self.me)
    }

    /// Some others, at random, each once.
    pub(crate) fn sample(&self, cx: &mut Cx<'_>, count: usize) -> Vec<NodeId> {
        let ids = self.rings.ids();
        let mut sample = BTreeSet::new();
        // A few more draws than wanted make up for doubles; a round with one receiver fewer does no harm.
        for _ in 0..count.min(ids.len() - 1) + 2 {
            let id = ids[cx.rng.below(ids.len() as u64) as usize];
            if id != self.me && sample.len() < count {
                sample.insert(id);
            }
        }
        sample.into_iter().collect()
    }

    /// One round of gossip.
    pub(crate) fn on_gossip(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.spread.gossiping = false;
        if self.spread.rounds == 0 {
            return;
        }
        self.spread.rounds -= 1;
        let subjects: Vec<NodeId> = self.spread.reports.iter().copied().collect();
        let votes = self.spread.votes;
        let some = self.sample(cx, self.config.gossip_fanout);
        self.send_news(cx, &some, &subjects, votes, out);
        if self.spread.rounds == 0 {
            self.spread.reports.clear();
            self.spread.votes = false;
        } else {
            self.spread.gossiping = true;
            out.arm(Timer::Gossip, self.config.gossip_interval);
        }
    }

    /// Sees to it that what is under way is said again.
    pub(crate) fn keep_resending(&mut self, out: &mut Out) {
        let idle = self.alerts.is_empty() && !self.consensus.is_active();
        if idle || self.is_alone() || core::mem::replace(&mut self.spread.resending, true) {
            return;
        }
        out.arm(Timer::Resend, self.config.resend);
    }

    /// What may have been lost is said again.
    pub(crate) fn on_resend(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.spread.resending = false;
        let subjects: Vec<NodeId> = self.alerts.subjects().map(|(id, _)| id).collect();
        let receivers = match self.gossips() {
            true => self.sample(cx, self.config.gossip_fanout),
            false => self.others().collect(),
        };
        let votes = self.consensus.is_active();
        self.send_news(cx, &receivers, &subjects, votes, out);
        self.keep_resending(out);
    }

    fn send_news(&self, cx: &mut Cx<'_>, to: &[NodeId], subjects: &[NodeId], votes: bool, out: &mut Out) {
        let mut reports: Vec<Report> = subjects.iter().filter_map(|id| self.alerts.report(*id)).collect();
        let mut votes = if votes { self.consensus.tallies.clone() } else { Vec::new() };
        if reports.is_empty() && votes.is_empty() {
            return;
        }
        cx.marks.hit("membership.news.sent");
        loop {
            let rest = reports.split_off(reports.len().min(self.config.reports_max));
            let news = Message::News {
                view: self.id(),
                epoch: self.alerts.epoch,
                reports,
                votes: core::mem::take(&mut votes),
            };
            for id in to {
                if self.config.breaks(Mutant::VoteEarly) {
                    // Only where this rule is to be broken: the simulator must notice.
                    out.send_early(*id, news.clone());
                } else {
                    out.send(*id, news.clone());
                }
            }
            reports = rest;
            if reports.is_empty() {
                return;
            }
        }
    }
}
