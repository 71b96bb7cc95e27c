//! Standing for election, promising, and following a new leader.
//!
//! A candidate first asks in a *trial* (pre-vote) whether it would be of use to stand, so that a node that returns
//! disturbs nobody. A promise is given only to a candidate whose log is at least as far, compared by (ballot of the
//! newest leader it has caught up with, newest entry) as in a Viewstamped Replication view change; therefore a new
//! leader never has to fetch anything.

use core::time::Duration;
use quorate_kernel::{Cx, NodeId};
use quorate_quorum::Tally;

use crate::Mutant;
use crate::leader::{Leader, Peer};
use crate::machine::{Out, Output, Replog, Role, Timer};
use crate::message::{Ballot, Echo, Message, Prepare};
use crate::record::Epoch;

/// Candidates that cross each other spread out over at most so many doublings of [`Config::election`][crate::Config].
const CONTESTS_MAX: u32 = 4;
/// After more contests than these a leader is also given longer before it is missed: it may be held up now and then for longer than
/// the timeout, and whoever is elected in its place would be as well.
const CONTESTS_MIN: u32 = 2;

/// Who is outlived stands more rarely each time, after up to so many doublings.
const OUTLIVED_MAX: u32 = 5;

/// What a candidate keeps.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) ballot: Ballot,
    trial: bool,
    promises: Tally,
}

impl Replog {
    /// Whether this replica may stand: it is a member, or a former one that may be the last to hold the seal.
    fn may_stand(&self) -> bool {
        let epoch = self.epoch();
        let caretaker = epoch.had(self.me);
        (self.is_member() || caretaker) && !self.is_retired() && !self.is_fenced() && !self.awaits_install()
    }

    /// Over what time candidates spread out: longer after each election in which this replica stood, until somebody has led for as long.
    fn spread(&self) -> Duration {
        self.config.election * (1 << self.contests.min(CONTESTS_MAX))
    }

    /// Arms the election timer anew with fresh patience.
    pub(crate) fn arm_election(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let spread = self.spread();
        let base = self.config.election.max(spread / (1 << CONTESTS_MIN));
        let random =
            Duration::from_nanos(cx.rng.below(u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX).max(1)));
        let wait = (if self.is_member() { 1 } else { 3 }) << self.outlived.min(OUTLIVED_MAX);
        self.patience = base * wait + random + base / 2 * u32::from(self.config.priority);
        out.arm(Timer::Election, self.patience);
    }

    pub(crate) fn on_election_timer(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.leads() {
            return;
        }
        let silent_until = if self.suspect { self.heard } else { self.heard + self.patience };
        let until = silent_until.max(self.bound_until);
        if cx.now < until {
            out.arm(Timer::Election, until.since(cx.now));
        } else if self.may_stand() {
            cx.marks.hit("replog.election.trial");
            self.abandon_receiving(cx, out);
            self.stand(cx, true, None, out);
        } else {
            // Whoever sent it is silent, too.
            self.abandon_receiving(cx, out);
            self.arm_election(cx, out);
        }
    }

    /// Asks the members for their promise, or in a trial for their opinion.
    pub(crate) fn stand(
        &mut self,
        cx: &mut Cx<'_>,
        trial: bool,
        handed_over_by: Option<Ballot>,
        out: &mut Out,
    ) {
        let epoch = self.epoch().number;
        let number = self.promised.max(self.seen).number + 1;
        let ballot = Ballot { epoch, number, node: Some(self.me) };
        self.set_role(cx, Role::Candidate(Candidate { ballot, trial, promises: Tally::new() }), out);
        self.believed_leader = None;
        let prepare =
            Prepare { ballot, log_ballot: self.log_ballot, last: self.log.last(), trial, handed_over_by };
        if !trial {
            self.contests = self.contests.saturating_add(1);
            self.promise(ballot, out);
        }
        for voter in self.voters.iter().copied().filter(|voter| *voter != self.me) {
            out.send(voter, Message::Prepare(prepare.clone()));
        }
        if self.is_member() {
            out.send(self.me, Message::Promise { ballot, trial });
        }
        self.arm_election(cx, out);
    }

    pub(crate) fn on_prepare(&mut self, cx: &mut Cx<'_>, from: NodeId, prepare: &Prepare, out: &mut Out) {
        let ballot = prepare.ballot;
        self.note(ballot);
        if ballot.node != Some(from) {
            return cx.marks.hit("replog.prepare.forged");
        }
        let used_up = prepare.trial && ballot == self.promised_in(ballot.epoch);
        // Later members need no vote of this replica's, and whoever asks for it is to hear of them. While these have not everything, it may be needed.
        let is_past =
            self.retired.as_ref().is_some_and(|(told, settled)| *settled && told.number > ballot.epoch);
        if self.is_overtaken(ballot) || used_up || is_past {
            // Nothing is promised, and what was promised is on disk or will be asked for again.
            return out.send_early(from, self.stale(ballot));
        }
        let log_ok = (prepare.log_ballot, prepare.last) >= (self.log_ballot, self.log.last());
        if !log_ok && !self.breaks(Mutant::VoteForShorterLog) {
            cx.marks.hit("replog.prepare.shorter_log");
            return self.stand_instead(cx, from, out);
        }
        let released = prepare.handed_over_by.is_some_and(|by| by >= self.bound_to);
        let bound = cx.now < self.bound_until && self.bound_to.node != Some(from) && !released;
        if bound {
            return cx.marks.hit("replog.prepare.bound_by_lease");
        }
        if prepare.trial {
            let led =
                cx.now < self.heard + self.config.election && !self.suspect && self.believed_leader.is_some();
            if self.leads() || (led && self.believed_leader != Some(from)) {
                return cx.marks.hit("replog.prepare.trial_refused");
            }
            // A trial promises nothing, so there is nothing to forget.
            return out.send_early(from, Message::Promise { ballot, trial: true });
        }
        self.promise(ballot, out);
        self.follow(cx, None, out);
        let promise = Message::Promise { ballot, trial: false };
        if self.breaks(Mutant::PromiseEarly) {
            out.send_early(from, promise); // A mutant: the promise may be forgotten.
        } else {
            out.send(from, promise);
        }
    }

    /// Somebody whose log is shorter misses the leader. If this replica does as well, it is the one to stand; and if it has stood already and
    /// was refused, since the other was bound by its lease at the time, that one may vote for it now. Else both would wait for a whole timeout.
    fn stand_instead(&mut self, cx: &mut Cx<'_>, other: NodeId, out: &mut Out) {
        let is_missed = self.suspect || cx.now >= self.heard + self.config.election;
        match &self.role {
            Role::Candidate(Candidate { ballot, trial, promises }) if !promises.contains(other) => {
                cx.marks.hit("replog.election.asked_again");
                let (ballot, trial) = (*ballot, *trial);
                let (log_ballot, last) = (self.log_ballot, self.log.last());
                let prepare = Prepare { ballot, log_ballot, last, trial, handed_over_by: None };
                out.send(other, Message::Prepare(prepare));
            }
            Role::Follower if is_missed && cx.now >= self.bound_until && self.may_stand() => {
                cx.marks.hit("replog.election.stood_instead");
                self.abandon_receiving(cx, out);
                self.stand(cx, true, None, out);
            }
            _ => {}
        }
    }

    pub(crate) fn on_promise(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        ballot: Ballot,
        trial: bool,
        out: &mut Out,
    ) {
        let Role::Candidate(candidate) = &mut self.role else { return };
        if candidate.ballot != ballot || candidate.trial != trial {
            return;
        }
        candidate.promises.record(from, ());
        let promises = candidate.promises.clone();
        if !promises.reaches(&self.quorum()) {
            return;
        }
        if trial {
            self.stand(cx, false, None, out);
        } else {
            self.take_over(cx, ballot, out);
        }
    }

    /// A quorum has promised: lead.
    fn take_over(&mut self, cx: &mut Cx<'_>, ballot: Ballot, out: &mut Out) {
        assert_eq!(self.promised, ballot, "a candidate keeps its own promise");
        cx.marks.hit("replog.election.won");
        self.log_ballot = ballot;
        self.persist_entries(self.log.last() + 1, alloc::vec::Vec::new(), out);
        self.lead(cx, ballot, out);
    }

    /// Leads `ballot` from the end of the log on.
    pub(crate) fn lead(&mut self, cx: &mut Cx<'_>, ballot: Ballot, out: &mut Out) {
        let leader = Leader::new(cx.now, self.me, ballot, &self.log, self.epoch(), self.chosen);
        self.set_role(cx, Role::Leader(leader), out);
        self.believed_leader = None;
        self.suspect = false;
        out.disarm(Timer::Election);
        out.arm(Timer::Heartbeat, self.config.heartbeat);
        out.send(self.me, Message::Accepted { ballot, matched: self.log.last(), echo: Echo::default() });
        self.broadcast(cx, true, out);
    }

    /// Whom this replica follows, and that replica's ballot.
    pub fn followed(&self) -> Option<(Ballot, NodeId)> {
        let leader = self.believed_leader.filter(|leader| self.promised.node == Some(*leader))?;
        Some((self.promised, leader))
    }

    /// Follows `leader`, or waits for one.
    pub(crate) fn follow(&mut self, cx: &mut Cx<'_>, leader: Option<NodeId>, out: &mut Out) {
        let was_leader = self.leads();
        let changed = self.believed_leader != leader || !matches!(self.role, Role::Follower);
        if changed {
            self.followed_since = cx.now;
        } else if leader.is_some() && cx.now.since(self.followed_since) >= self.spread() {
            // Whoever leads for no longer than that may be one of many that overthrow each other.
            self.contests = 0;
        }
        if leader.is_some() {
            self.outlived = 0;
        }
        self.believed_leader = leader;
        self.heard = cx.now;
        self.suspect = false;
        if changed {
            self.set_role(cx, Role::Follower, out);
            if was_leader {
                cx.marks.hit("replog.leader.stepped_down");
            }
            self.arm_election(cx, out);
        }
    }

    pub(crate) fn on_stale(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        promised: Ballot,
        epoch: &Epoch,
        settled: bool,
        out: &mut Out,
    ) {
        self.note(promised);
        // The epoch in which this node is no member any more, as far as it knows. Once there is a later one, a quorum of
        // it has everything: members change only when what was taken over is chosen.
        let left = self.epoch().number + u64::from(self.is_member());
        let was_member = self.is_member() || self.epoch().had(self.me);
        let newest = epoch.number + u64::from(settled);
        if was_member && !self.is_retired() && newest > left && !epoch.has(self.me) {
            cx.marks.hit("replog.retired.by_stale");
            self.retire(epoch, settled, out);
        }
        let mine = match &self.role {
            Role::Leader(leader) => leader.ballot,
            Role::Candidate(candidate) => candidate.ballot,
            Role::Follower => return,
        };
        if promised > mine && from != self.me {
            cx.marks.hit("replog.leader.met_higher_ballot");
            // Later members have everything, and need no vote of this epoch. One of them should bring it to this replica, or tell it that it is not needed; whoever
            // was a member by name alone, and never heard from their leader, may be forgotten by all who could, and would ask the members of old for ever.
            if settled && epoch.number > self.epoch().number && epoch.has(self.me) {
                cx.marks.hit("replog.election.outlived");
                self.outlived = self.outlived.saturating_add(1);
            }
            self.follow(cx, None, out);
        }
    }

    /// Takes up a new role and settles what the old one owed.
    pub(crate) fn set_role(&mut self, cx: &mut Cx<'_>, role: Role, out: &mut Out) {
        let old = core::mem::replace(&mut self.role, role);
        if let Role::Leader(leader) = old {
            leader.peers.values().filter_map(Peer::view).for_each(|view| cx.store.release(view));
            leader.resign(out);
            out.disarm(Timer::Heartbeat);
        }
        out.output(Output::Role);
    }

    pub(crate) fn peer_lost(&mut self, cx: &mut Cx<'_>, peer: NodeId, out: &mut Out) {
        if !self.leads() && self.believed_leader == Some(peer) {
            cx.marks.hit("replog.leader.suspected");
            self.suspect = true;
            let spread = u64::try_from(self.config.heartbeat.as_nanos()).unwrap_or(u64::MAX);
            let wait = self.bound_until.since(cx.now) + Duration::from_nanos(cx.rng.below(spread.max(1)));
            out.arm(Timer::Election, wait + self.config.heartbeat * u32::from(self.config.priority));
        }
    }
}
