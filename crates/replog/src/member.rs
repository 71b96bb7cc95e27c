//! Seal and succeed: how the members of a log change.
//!
//! Nodes that are to join first catch up as learners. Then the leader proposes a seal, the last entry of the epoch,
//! which names the members of the next one. Nothing is proposed behind it. Once it is chosen the next epoch begins,
//! with the state at the seal, and only its members count. The leader who proposed the seal goes on in the new epoch
//! without an election: its ballot is the lowest of that epoch and nobody else can have it (the *heir*). A leader that
//! finds somebody else's seal at the end of its log completes it and is then elected like anybody else.
//!
//! A leader that is no member of the new epoch, or a former member that survives it, stays as a *caretaker* until a
//! quorum of the new members holds everything: it replicates, proposes nothing, answers nothing, and hands over.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_kernel::{Cx, NodeId, Time};
use quorate_quorum::{QuorumSystem, Threshold, majority_of};

use crate::Mutant;
use crate::leader::{Leader, Peer, Transfer};
use crate::machine::{Out, Output, Replog, Role, Timer};
use crate::message::{Ballot, Echo, Message};
use crate::record::{Content, Epoch, Member, Record, Seal};
use crate::send::is_due_again;

/// A successor that takes longer to answer than so many election timeouts is not waited for: nothing is taken meanwhile.
const SUCCESSOR_FAR: u32 = 2;

/// How a member change ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeEnd {
    /// The new members are in charge.
    Done,
    /// Nothing was changed, for this reason.
    Refused(String),
    /// Leadership was lost on the way: it may still happen.
    Unknown,
}

/// A member change under way.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) ticket: u64,
    target: Vec<Member>,
    /// Those of the target who are no members yet.
    pub(crate) learners: Vec<Member>,
    /// When it is given up, unless something comes nearer until then.
    until: Time,
    /// The fewest entries that the learners lacked together, and the most parts of the state that they had.
    least_lag: u64,
    most_parts: u64,
    /// Whether the seal is proposed: from then on the change may happen, whatever becomes of this leader.
    pub(crate) sealed: bool,
}

impl Replog {
    /// Members, former members who may still be needed, and nodes that are to become members.
    pub fn peers(&self) -> Vec<Member> {
        let epoch = self.epoch();
        let mut peers: Vec<Member> = epoch.members.iter().chain(&epoch.former).cloned().collect();
        if let Role::Leader(leader) = &self.role {
            peers.extend(leader.learners().iter().cloned());
        }
        peers.retain(|member| member.id != self.me);
        peers.sort_by_key(|member| member.id);
        peers.dedup_by_key(|member| member.id);
        peers
    }

    /// The same, by name: some of them more than once, and this node too.
    pub fn peer_ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        let epoch = self.epoch();
        let learners = match &self.role {
            Role::Leader(leader) => leader.learners(),
            Role::Follower | Role::Candidate(_) => &[],
        };
        epoch.members.iter().chain(&epoch.former).chain(learners).map(|member| member.id)
    }

    pub(crate) fn change_members(
        &mut self,
        cx: &mut Cx<'_>,
        ticket: u64,
        add: Vec<Member>,
        remove: &[NodeId],
        out: &mut Out,
    ) {
        let epoch = self.epoch().clone();
        let mut target: Vec<Member> =
            epoch.members.iter().filter(|member| !remove.contains(&member.id)).cloned().collect();
        for member in add {
            target.retain(|other| other.id != member.id);
            target.push(member);
        }
        target.sort_by_key(|member| member.id);
        if let Some(reason) = self.change_refused(&target) {
            let end = ChangeEnd::Refused(reason);
            return out.output(Output::ChangeEnded { ticket, end });
        }
        if target == epoch.members {
            return out.output(Output::ChangeEnded { ticket, end: ChangeEnd::Done });
        }
        let learners = target.iter().filter(|member| !epoch.has(member.id)).cloned().collect();
        let until = cx.now + self.config.change_deadline;
        let (me, next) = (self.me, self.log.last() + 1);
        let Role::Leader(leader) = &mut self.role else { return };
        leader.change = Some(Change {
            ticket,
            target,
            learners,
            until,
            least_lag: u64::MAX,
            most_parts: 0,
            sealed: false,
        });
        leader.keep_peers(me, &epoch, next, cx.now);
        out.output(Output::Peers);
        self.broadcast(cx, true, out);
        self.drive_change(cx, out);
    }

    fn change_refused(&self, target: &[Member]) -> Option<String> {
        let Role::Leader(leader) = &self.role else { return Some("this node does not lead".into()) };
        if target.is_empty() {
            return Some("the last member cannot be removed".into());
        }
        if leader.change.is_some() || leader.seal.is_some() {
            return Some("another member change is under way: wait for its end".into());
        }
        if leader.transfer.is_some() || !self.is_member() {
            return Some("the leader is about to change: try again".into());
        }
        if (self.epoch().number + 1).is_multiple_of(crate::recover::ERA_EPOCHS) {
            return Some("the members of this log have changed as often as they can".into());
        }
        // No change builds on one of an earlier leader that is not agreed (protocols 19.10). How choosing sees to that as well: decision 0003.
        (self.chosen < leader.takeover).then(|| "the leader has only just taken over: try again".into())
    }

    /// Puts the deadline of a change off as its learners come nearer: however long the state takes, one that is only slow
    /// gets there. Entries that come as fast as they are learned are no way to get there.
    fn note_learning(&mut self, now: Time) {
        let (last, deadline) = (self.log.last(), self.config.change_deadline);
        let Role::Leader(Leader { change: Some(change), peers, .. }) = &mut self.role else { return };
        let learners = || change.learners.iter().filter_map(|learner| peers.get(&learner.id));
        let lag = learners().map(|peer| last.saturating_sub(peer.matched)).sum();
        let parts = learners().map(Peer::parts).sum();
        if lag < change.least_lag || parts > change.most_parts {
            (change.least_lag, change.most_parts) = (change.least_lag.min(lag), change.most_parts.max(parts));
            change.until = now + deadline;
        }
    }

    /// Proposes the seal when the learners are ready, or gives up at the deadline.
    pub(crate) fn drive_change(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.note_learning(cx.now);
        let Role::Leader(leader) = &self.role else { return };
        let Some(change) = leader.change.as_ref().filter(|change| !change.sealed) else { return };
        let near = |id: NodeId| id == self.me || self.is_near(cx, leader.peers.get(&id));
        let ids: Vec<NodeId> = change.target.iter().map(|member| member.id).collect();
        let quorum = Threshold::new(&ids, majority_of(ids.len()));
        let ready = change.learners.iter().all(|learner| near(learner.id)) && quorum.is_quorum(near);
        if ready && leader.takes_commands() {
            let members = change.target.clone();
            let gone = |member: &&Member| members.iter().all(|new| new.id != member.id);
            let former = self.epoch().members.iter().filter(gone).cloned().collect();
            cx.marks.hit("replog.seal.proposed");
            if let Role::Leader(leader) = &mut self.role
                && let Some(change) = &mut leader.change
            {
                change.sealed = true;
            }
            self.propose(cx, Content::Seal(Arc::new(Seal { members, former })), out);
        } else if cx.now >= change.until {
            let missing: Vec<NodeId> = ids.into_iter().filter(|id| !near(*id)).collect();
            let reason =
                alloc::format!("nodes {missing:?} did not catch up in time: are they running and reachable?");
            self.end_change(cx, reason, out);
        }
    }

    /// Leaves out the learners that are not ready of the change called so, if others are or members are to go: it ends as done, and
    /// whoever wants the others in asks again. So one that is slow keeps nobody waiting.
    pub(crate) fn leave_out_late(&mut self, cx: &mut Cx<'_>, ticket: u64, out: &mut Out) {
        let Role::Leader(leader) = &self.role else { return };
        let change = leader.change.as_ref().filter(|change| change.ticket == ticket && !change.sealed);
        let Some(change) = change else { return };
        let is_ready = |learner: &&Member| self.is_near(cx, leader.peers.get(&learner.id));
        let ready: Vec<Member> = change.learners.iter().filter(is_ready).cloned().collect();
        let late: Vec<NodeId> = change
            .learners
            .iter()
            .map(|learner| learner.id)
            .filter(|id| ready.iter().all(|member| member.id != *id))
            .collect();
        let left: Vec<Member> =
            change.target.iter().filter(|member| !late.contains(&member.id)).cloned().collect();
        if late.is_empty() || left.is_empty() || left == self.epoch().members {
            return;
        }
        cx.marks.hit("replog.change.without_late");
        if let Role::Leader(Leader { change: Some(change), .. }) = &mut self.role {
            (change.target, change.learners) = (left, ready);
        }
        self.drive_change(cx, out);
    }

    /// Gives up the change called so, unless it may happen already.
    pub(crate) fn give_up(&mut self, cx: &mut Cx<'_>, ticket: u64, out: &mut Out) {
        let Role::Leader(leader) = &self.role else { return };
        if leader.change.as_ref().is_some_and(|change| change.ticket == ticket && !change.sealed) {
            cx.marks.hit("replog.change.given_up");
            self.end_change(cx, "it was given up".into(), out);
        }
    }

    /// Ends a change of which no seal was proposed.
    fn end_change(&mut self, cx: &mut Cx<'_>, reason: String, out: &mut Out) {
        let (epoch, next, me) = (self.epoch().clone(), self.log.last() + 1, self.me);
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(Change { ticket, .. }) = leader.change.take() else { return };
        let views: Vec<_> = leader.peers.values().filter_map(Peer::view).collect();
        leader.keep_peers(me, &epoch, next, cx.now);
        let kept: Vec<_> = leader.peers.values().filter_map(Peer::view).collect();
        views.into_iter().filter(|view| !kept.contains(view)).for_each(|view| cx.store.release(view));
        out.output(Output::ChangeEnded { ticket, end: ChangeEnd::Refused(reason) });
        out.output(Output::Peers);
    }

    /// Whether a peer has nearly all entries and was heard of lately.
    fn is_near(&self, cx: &Cx<'_>, peer: Option<&Peer>) -> bool {
        let Some(peer) = peer else { return false };
        let heard = peer.heard.is_some_and(|heard| cx.now.since(heard) <= self.config.election);
        heard && peer.matched + self.config.learner_lag_max >= self.log.last()
    }

    /// A seal is chosen: the next epoch begins.
    pub(crate) fn enter_epoch(&mut self, cx: &mut Cx<'_>, epoch: Epoch, out: &mut Out) {
        cx.marks.hit("replog.epoch.entered");
        let (number, heir) = (epoch.number, epoch.heir);
        let proposed_by = Ballot { epoch: number - 1, ..heir };
        self.epochs.push(epoch.clone());
        self.adopt_epoch();
        out.persist(Record::Entered(epoch));
        out.output(Output::Peers);
        let Role::Leader(leader) = &self.role else { return self.arm_election(cx, out) };
        if leader.ballot == proposed_by {
            self.succeed(cx, heir, out);
        } else if self.breaks(Mutant::SucceedWithoutElection) {
            let taken = Ballot { epoch: number, ..leader.ballot };
            self.succeed(cx, taken, out);
        } else {
            // Somebody else's seal: tell the others that it is chosen, then stand like anybody else.
            cx.marks.hit("replog.epoch.completed_for_another");
            self.broadcast(cx, true, out);
            self.stand(cx, false, None, out);
        }
    }

    /// The proposer of the seal goes on in the new epoch.
    fn succeed(&mut self, cx: &mut Cx<'_>, ballot: Ballot, out: &mut Out) {
        let (me, next) = (self.me, self.log.last() + 1);
        let takeover = self.log.last();
        let epoch = self.epoch().clone();
        let Role::Leader(leader) = &mut self.role else { return };
        leader.ballot = ballot;
        leader.takeover = takeover;
        leader.settled = false;
        leader.since = cx.now;
        leader.seal = None;
        let change = leader.change.take();
        leader.keep_peers(me, &epoch, next, cx.now);
        if let Some(change) = change {
            out.output(Output::ChangeEnded { ticket: change.ticket, end: ChangeEnd::Done });
        }
        if !self.is_member() {
            cx.marks.hit("replog.epoch.caretaker");
        }
        out.output(Output::Role);
        out.send(self.me, Message::Accepted { ballot, matched: takeover, echo: Echo::default() });
        self.broadcast(cx, true, out);
    }

    /// The ids of the current members, sorted.
    pub(crate) fn refresh_voters(&mut self) {
        self.voters = self.epoch().members.iter().map(|member| member.id).collect();
        self.voters.sort_unstable();
    }

    /// Begins to hand leadership over.
    pub(crate) fn transfer(&mut self, cx: &mut Cx<'_>, to: Option<NodeId>, out: &mut Out) {
        let me = self.me;
        let election = self.config.election;
        let Role::Leader(leader) = &self.role else { return };
        if leader.transfer.is_some() || leader.seal.is_some() {
            return;
        }
        let candidates = self.voters.iter().filter(|id| **id != me);
        let best = candidates
            .filter(|id| to.is_none_or(|to| to == **id))
            .filter_map(|id| leader.peers.get(id).map(|peer| (peer, *id)))
            .filter(|(peer, _)| peer.heard.is_some_and(|heard| cx.now.since(heard) <= election))
            .max_by_key(|(peer, id)| (peer.matched, *id));
        let Some((_, to)) = best else { return };
        let Role::Leader(leader) = &mut self.role else { return };
        cx.marks.hit("replog.transfer.begun");
        leader.transfer = Some(Transfer { to, until: cx.now + election, asked: false });
        self.drive_transfer(cx, out);
    }

    /// Asks the successor to stand as soon as it has everything; takes leadership up again if nothing came of it.
    pub(crate) fn drive_transfer(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let election = self.config.election;
        let caretaker_done = !self.is_member() && self.quorum_holds_takeover();
        let last = self.log.last();
        let Role::Leader(leader) = &mut self.role else { return };
        if caretaker_done && leader.transfer.is_none() {
            // A caretaker's work is done: a quorum of the members has everything.
            return self.transfer(cx, None, out);
        }
        let Some(transfer) = &mut leader.transfer else { return };
        let (matched, took) =
            leader.peers.get(&transfer.to).map_or((0, Duration::ZERO), |peer| (peer.matched, peer.took));
        if !transfer.asked && matched == last {
            transfer.asked = true;
            // Nothing is heard of the successor's standing before it can have answered: who gave up sooner would stand against it, and win.
            transfer.until = cx.now + election + took.min(election * SUCCESSOR_FAR);
            // From here on the successor may be elected without waiting for the lease, so there is none any more.
            leader.lease_given_up = true;
            let (to, ballot) = (transfer.to, leader.ballot);
            // Asks for something; says nothing about this node's disk.
            out.send_early(to, Message::Handover { ballot });
        } else if cx.now >= transfer.until {
            cx.marks.hit("replog.transfer.failed");
            leader.transfer = None;
            if leader.lease_given_up {
                // A new ballot has a new lease. The followers owe theirs to this node, so they will promise.
                self.stand(cx, false, None, out);
            }
        }
    }

    pub(crate) fn on_handover(&mut self, cx: &mut Cx<'_>, from: NodeId, ballot: Ballot, out: &mut Out) {
        if self.promised == ballot
            && ballot.node == Some(from)
            && self.is_member()
            && !self.is_fenced()
            && !self.awaits_install()
        {
            cx.marks.hit("replog.transfer.taken");
            self.stand(cx, false, Some(ballot), out);
        }
    }

    /// Whether former members are of no more use: what this leader took over is where it must be without them.
    pub(crate) fn lets_former_go(&self) -> bool {
        self.quorum_holds_takeover() || self.breaks(Mutant::FormerLetGoEarly)
    }

    /// Once a quorum of the members has everything, former members are served no longer.
    pub(crate) fn settle_takeover(&mut self, cx: &mut Cx<'_>) {
        let learners = self.learners();
        let voters = &self.voters;
        let Role::Leader(leader) = &mut self.role else { return };
        leader.settled = true;
        leader.retiring = 0;
        for (id, peer) in &mut leader.peers {
            if voters.binary_search(id).is_err() && !learners.contains(id) {
                peer.view().into_iter().for_each(|view| cx.store.release(view));
                peer.probe(peer.matched + 1);
            }
        }
    }

    /// Tells former members that nobody needs them, once a quorum of the members has everything. Nobody answers that, and those who
    /// are dead or have given their copy up never need it: it is told again after twice as many beats each time.
    pub(crate) fn retire_former(&mut self, out: &mut Out) {
        let may_go = self.is_member() && self.lets_former_go();
        let Role::Leader(leader) = &mut self.role else { return };
        if !may_go {
            return;
        }
        leader.retiring = leader.retiring.saturating_add(1);
        if !is_due_again(leader.retiring) {
            return;
        }
        let ballot = leader.ballot;
        let epoch = self.epoch();
        for member in &epoch.former {
            let retire = Message::Retire { ballot, epoch: epoch.clone() };
            // What a quorum holds is on their disks, not on this one alone.
            out.send_early(member.id, retire);
        }
    }

    pub(crate) fn on_retire(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        ballot: Ballot,
        epoch: &Epoch,
        out: &mut Out,
    ) {
        let newer = epoch.number >= self.epoch().number && epoch.had(self.me);
        if ballot.node != Some(from) || !newer || self.leads() {
            return;
        }
        if !self.is_retired() {
            cx.marks.hit("replog.retired.told");
            self.retire(epoch, true, out);
        }
        if self.believed_leader != Some(from) {
            // Whoever still waits for answers here can get them there.
            self.believed_leader = Some(from);
            out.output(Output::Role);
        }
    }

    /// Stops standing for election: this replica is of no more use.
    pub(crate) fn retire(&mut self, epoch: &Epoch, settled: bool, out: &mut Out) {
        self.retired = Some((epoch.clone(), settled));
        out.disarm(Timer::Election);
        out.output(Output::Retired);
    }
}
