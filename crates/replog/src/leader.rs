//! What a leader keeps, and how entries reach the followers and become chosen.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};
use core::time::Duration;
use quorate_kernel::{Cx, NodeId, Time};
use quorate_quorum::QuorumSystem;

use crate::Mutant;
use crate::log::Log;
use crate::machine::{Out, Output, Replog, Role, Timer};
use crate::member::{Change, ChangeEnd};
use crate::message::{Append, Ballot, Echo, Index, Message};
use crate::read::Read;
use crate::record::{Content, Entry, Epoch, Member};
use crate::send::Sending;
use crate::thrift::Thrift;

/// Messages with entries on their way to one follower. Entries that come while so many are under way leave together when
/// the next one is acknowledged: under load a message carries many, otherwise none waits.
const INFLIGHT_MESSAGES_MAX: usize = 16;

/// State of a leader; lost, and not missed, when it steps down.
#[derive(Debug, Clone)]
pub(crate) struct Leader {
    pub(crate) ballot: Ballot,
    /// Newest entry when this ballot was taken up. Once it is chosen, all that came before is, too.
    pub(crate) takeover: Index,
    pub(crate) since: Time,
    /// Newest entry of the own log that is on the own disk.
    pub(crate) own_matched: Index,
    pub(crate) peers: BTreeMap<NodeId, Peer>,
    /// A quorum of the members has everything up to `takeover`: former members are needed no more.
    pub(crate) settled: bool,
    /// Beats since then.
    pub(crate) retiring: u32,
    /// The seal at the end of the log that is not chosen yet.
    pub(crate) seal: Option<Index>,
    /// Newest read round that was sent.
    pub(crate) round: u64,
    pub(crate) reads: VecDeque<Read>,
    /// No lease any more in this ballot: somebody else was asked to stand, who may do so at any time from then on.
    pub(crate) lease_given_up: bool,
    pub(crate) transfer: Option<Transfer>,
    pub(crate) change: Option<Change>,
    pub(crate) thrift: Thrift,
}

/// A handover under way.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) to: NodeId,
    pub(crate) until: Time,
    pub(crate) asked: bool,
}

/// What a leader knows of another replica.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The logs agree up to here, on the peer's disk.
    pub(crate) matched: Index,
    /// The next entry to send.
    pub(crate) next: Index,
    pub(crate) mode: Mode,
    /// Entries sent and not acknowledged: the last index and the bytes of each message.
    inflight: VecDeque<(Index, usize)>,
    inflight_bytes: usize,
    /// When it was last heard, on this node's clock.
    pub(crate) heard: Option<Time>,
    /// When `matched` last moved, or something was first sent after silence.
    progressed: Time,
    /// The newest sending time and read round that it acknowledged.
    pub(crate) echo: Option<Echo>,
    /// The newest entry that it was told to be chosen, whether or not that arrived.
    told: Index,
    /// How long it takes to answer, as a moving mean; zero before the first answer.
    pub(crate) took: Duration,
    /// New entries are kept back from it for a moment.
    pub(crate) is_spared: bool,
}

/// How a peer is served.
#[derive(Debug, Clone)]
pub(crate) enum Mode {
    /// Finding out where the logs agree: one message at a time.
    Probe { waiting: bool },
    /// Entries are sent as they come, within the limit of bytes under way.
    Stream,
    /// The entries it needs are gone: it gets the state.
    Snapshot(Box<Sending>),
}

impl Peer {
    pub(crate) fn new(next: Index, now: Time) -> Self {
        Peer {
            matched: 0,
            next,
            mode: Mode::Probe { waiting: false },
            inflight: VecDeque::new(),
            inflight_bytes: 0,
            heard: None,
            progressed: now,
            echo: None,
            told: 0,
            took: Duration::ZERO,
            is_spared: false,
        }
    }

    /// Starts over: what was sent may be lost.
    pub(crate) fn probe(&mut self, next: Index) {
        self.next = next.max(self.matched + 1);
        self.mode = Mode::Probe { waiting: false };
        self.inflight.clear();
        self.inflight_bytes = 0;
    }

    fn sent(&mut self, last: Index, bytes: usize, now: Time) {
        if self.inflight.is_empty() {
            self.progressed = now;
        }
        self.next = last + 1;
        self.inflight.push_back((last, bytes));
        self.inflight_bytes += bytes;
    }

    fn acknowledged(&mut self, matched: Index, now: Time) {
        if matched > self.matched {
            self.matched = matched;
            self.progressed = now;
        }
        while let Some((last, bytes)) = self.inflight.front().copied() {
            if last > matched {
                break;
            }
            self.inflight.pop_front();
            self.inflight_bytes -= bytes;
        }
        if matches!(self.mode, Mode::Probe { .. }) && matched + 1 >= self.next {
            self.mode = Mode::Stream;
        }
        self.next = self.next.max(self.matched + 1);
    }

    fn stalled(&self, now: Time, after: Duration) -> bool {
        matches!(self.mode, Mode::Stream) && !self.inflight.is_empty() && now.since(self.progressed) > after
    }
}

impl Leader {
    pub(crate) fn new(
        now: Time,
        me: NodeId,
        ballot: Ballot,
        log: &Log,
        epoch: &Epoch,
        chosen: Index,
    ) -> Self {
        let takeover = log.last();
        let seal = (chosen + 1..=takeover)
            .rfind(|index| log.get(*index).is_some_and(|entry| matches!(entry.content, Content::Seal(_))))
            .filter(|index| *index > epoch.start);
        let mut leader = Leader {
            ballot,
            takeover,
            since: now,
            own_matched: 0,
            peers: BTreeMap::new(),
            settled: false,
            retiring: 0,
            seal,
            round: 0,
            reads: VecDeque::new(),
            lease_given_up: false,
            transfer: None,
            change: None,
            thrift: Thrift::default(),
        };
        leader.keep_peers(me, epoch, takeover + 1, now);
        leader
    }

    /// Serves exactly the members, former members and learners, as they are now.
    pub(crate) fn keep_peers(&mut self, me: NodeId, epoch: &Epoch, next: Index, now: Time) {
        let learners = self.learners().to_vec();
        let wanted = |id: NodeId| {
            id != me && (epoch.has(id) || epoch.had(id) || learners.iter().any(|learner| learner.id == id))
        };
        self.peers.retain(|id, _| wanted(*id));
        let ids = epoch.members.iter().chain(&epoch.former).chain(&learners).map(|member| member.id);
        for id in ids.filter(|id| wanted(*id)) {
            self.peers.entry(id).or_insert_with(|| Peer::new(next, now));
        }
    }

    /// Nodes that catch up to become members.
    pub(crate) fn learners(&self) -> &[Member] {
        self.change.as_ref().map_or(&[], |change| &change.learners)
    }

    /// Whether `id` catches up to become a member.
    fn teaches(&self, id: NodeId) -> bool {
        self.learners().iter().any(|learner| learner.id == id)
    }

    pub(crate) fn takes_commands(&self) -> bool {
        self.seal.is_none() && self.transfer.is_none()
    }

    /// Settles what a leader owes when it steps down.
    pub(crate) fn resign(self, out: &mut Out) {
        for read in self.reads {
            out.output(Output::ReadRefused { ticket: read.ticket });
        }
        if let Some(change) = self.change {
            let end = if change.sealed {
                ChangeEnd::Unknown
            } else {
                ChangeEnd::Refused("the leader changed before the new members were agreed: try again".into())
            };
            out.output(Output::ChangeEnded { ticket: change.ticket, end });
            out.output(Output::Peers);
        }
    }
}

impl Replog {
    /// Appends to the log and sends it on its way.
    pub(crate) fn propose(&mut self, cx: &mut Cx<'_>, content: Content, out: &mut Out) {
        let sealed_too = self.breaks(Mutant::WriteAfterSeal);
        let member = self.is_member();
        let Role::Leader(leader) = &mut self.role else { return cx.marks.hit("replog.propose.dropped") };
        if !(leader.takes_commands() || (sealed_too && leader.transfer.is_none())) || !(member || sealed_too)
        {
            return cx.marks.hit("replog.propose.dropped");
        }
        let ballot = leader.ballot;
        let is_seal = matches!(content, Content::Seal(_));
        let is_alone = !is_seal && self.chosen == self.log.last();
        let entry = Entry { ballot, content };
        let index = self.log.push(entry.clone());
        if is_seal {
            leader.seal = Some(index);
        }
        self.persist_entries(index, alloc::vec![entry], out);
        self.spare_some(cx.now, is_alone, out);
        self.broadcast(cx, false, out);
        if is_seal && self.breaks(Mutant::SealBeforeChosen) {
            self.choose(cx, index, out);
        }
        let own = Message::Accepted { ballot, matched: index, echo: Echo::default() };
        if self.breaks(Mutant::CountSelfEarly) {
            out.send_early(self.me, own); // A mutant: the own copy may be forgotten.
        } else {
            out.send(self.me, own);
        }
    }

    /// Sends every peer what it may have; with `beat` at least an empty message.
    pub(crate) fn broadcast(&mut self, cx: &mut Cx<'_>, beat: bool, out: &mut Out) {
        let Role::Leader(leader) = &self.role else { return };
        let mut next = leader.peers.keys().next().copied();
        while let Some(id) = next {
            self.serve(cx, id, beat, out);
            let Role::Leader(leader) = &self.role else { return };
            next = leader.peers.range((Excluded(id), Unbounded)).next().map(|(id, _)| *id);
        }
    }

    /// Sends one peer what it may have.
    pub(crate) fn serve(&mut self, cx: &mut Cx<'_>, id: NodeId, beat: bool, out: &mut Out) {
        let former_may_go = self.lets_former_go();
        let Role::Leader(leader) = &mut self.role else { return };
        let (ballot, takeover) = (leader.ballot, leader.takeover);
        let echo = Echo { sent_at: cx.now, round: leader.round };
        let served = !former_may_go || self.voters.binary_search(&id).is_ok() || leader.teaches(id);
        let Some(peer) = leader.peers.get_mut(&id).filter(|_| served) else { return };
        if peer.is_spared && !beat {
            return;
        }
        // What made the state is mostly longer than the state, and takes longer to apply.
        let has_nothing =
            peer.next == 1 && self.applied > 0 && self.log.bytes() > self.config.append_bytes_max;
        if (peer.next <= self.log.base() || has_nothing) && !matches!(peer.mode, Mode::Snapshot(_)) {
            self.begin_snapshot(cx, id, out);
            return self.beat_without_entries(id, ballot, takeover, echo, out);
        }
        let mut sent = false;
        loop {
            let (bytes_max, go_on) = match &mut peer.mode {
                Mode::Snapshot(_) => break,
                Mode::Probe { waiting: true } => break,
                Mode::Probe { waiting } => {
                    *waiting = true;
                    (0, false)
                }
                Mode::Stream if peer.inflight_bytes >= self.config.inflight_bytes_max => break,
                Mode::Stream if peer.inflight.len() >= INFLIGHT_MESSAGES_MAX => break,
                Mode::Stream if peer.next > self.log.last() => break,
                Mode::Stream => (self.config.append_bytes_max, true),
            };
            let prev = peer.next - 1;
            let Some(prev_ballot) = self.log.ballot_at(prev) else { break };
            // A probe only compares: who knows whether anybody is there.
            let entries = if go_on { self.log.slice(peer.next, bytes_max) } else { Vec::new() };
            if go_on {
                let bytes = entries.iter().map(Entry::size_bytes).sum();
                peer.sent(prev + entries.len() as u64, bytes, cx.now);
            }
            let chosen = self.chosen;
            peer.told = chosen;
            let append = Append { ballot, takeover, prev, prev_ballot, entries, chosen, echo };
            // The receiver counts its own copy, and this node counts its own only when its disk has it.
            out.send_early(id, Message::Append(append));
            sent = true;
            if !go_on {
                break;
            }
        }
        if beat && !sent {
            peer.told = self.chosen;
            self.beat_without_entries(id, ballot, takeover, echo, out);
        }
    }

    /// Tells a peer up to where entries are chosen, if it was not told.
    pub(crate) fn inform(&mut self, cx: &mut Cx<'_>, id: NodeId, out: &mut Out) {
        let Role::Leader(leader) = &self.role else { return };
        if leader.peers.get(&id).is_some_and(|peer| peer.told < self.chosen) {
            self.serve(cx, id, true, out);
        }
    }

    /// A message that only says who leads, and up to where entries are chosen.
    fn beat_without_entries(&self, id: NodeId, ballot: Ballot, takeover: Index, echo: Echo, out: &mut Out) {
        let Role::Leader(Leader { peers, .. }) = &self.role else { return };
        let Some(peer) = peers.get(&id) else { return };
        // A streaming peer is asked to compare, so that it notices what was lost; others have nothing to compare.
        let streaming = matches!(peer.mode, Mode::Stream);
        let prev = if streaming { peer.next - 1 } else { peer.matched };
        let (prev, prev_ballot) = match self.log.ballot_at(prev) {
            Some(ballot) => (prev, ballot),
            None => (0, Ballot::default()),
        };
        let append =
            Append { ballot, takeover, prev, prev_ballot, entries: Vec::new(), chosen: self.chosen, echo };
        // As above: nothing here depends on this node's disk.
        out.send_early(id, Message::Append(append));
    }

    pub(crate) fn on_accepted(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        ballot: Ballot,
        matched: Index,
        echo: Echo,
        out: &mut Out,
    ) {
        let Role::Leader(leader) = &mut self.role else { return };
        if leader.ballot != ballot {
            return;
        }
        if from == self.me {
            leader.own_matched = leader.own_matched.max(matched);
        } else {
            let Some(peer) = leader.peers.get_mut(&from) else {
                return cx.marks.hit("replog.accepted.stranger");
            };
            peer.heard = Some(cx.now);
            peer.echo = Some(newer(peer.echo, echo));
            peer.acknowledged(matched, cx.now);
            peer.answered_in(cx.now.since(echo.sent_at));
            self.end_snapshot(cx, from, matched);
        }
        self.advance(cx, out);
        if from != self.me {
            self.serve(cx, from, false, out);
        }
        self.after_news(cx, out);
    }

    pub(crate) fn on_conflict(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        ballot: Ballot,
        matched_max: Index,
        echo: Echo,
        out: &mut Out,
    ) {
        let Role::Leader(leader) = &mut self.role else { return };
        if leader.ballot != ballot {
            return;
        }
        let Some(peer) = leader.peers.get_mut(&from) else { return };
        peer.heard = Some(cx.now);
        peer.echo = Some(newer(peer.echo, echo));
        // A late answer to something that is being asked again already says nothing new.
        if !matches!(peer.mode, Mode::Snapshot(_)) && matched_max + 1 < peer.next {
            peer.probe(matched_max + 1);
        }
        self.serve(cx, from, false, out);
        self.after_news(cx, out);
    }

    /// Moves the chosen mark to what a quorum has on disk.
    fn advance(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let reached = self.quorum_matched();
        let Role::Leader(leader) = &self.role else { return };
        if reached >= leader.takeover && !leader.settled {
            self.settle_takeover(cx);
        }
        let Role::Leader(leader) = &self.role else { return };
        // What earlier leaders proposed counts only when all that was taken over has arrived (their acknowledgements
        // were for other ballots, under which something else might still win).
        if reached >= leader.takeover || self.breaks(Mutant::ChooseBeforeTakeover) {
            self.choose(cx, reached, out);
        }
    }

    /// Whether a quorum of the members has all that this leader took over.
    pub(crate) fn quorum_holds_takeover(&self) -> bool {
        matches!(&self.role, Role::Leader(leader) if leader.settled)
    }

    /// Up to where a quorum of the members has the log on disk.
    fn quorum_matched(&self) -> Index {
        let Role::Leader(leader) = &self.role else { return 0 };
        let learners_count = self.breaks(Mutant::LearnersCount);
        let anybody = || leader.peers.values().map(|peer| peer.matched).max().unwrap_or(0);
        let matched = |id: NodeId| match () {
            () if id == self.me => leader.own_matched,
            () if learners_count => anybody(),
            () => leader.peers.get(&id).map_or(0, |peer| peer.matched),
        };
        self.quorum().chosen(matched).min(self.log.last())
    }

    /// What may be possible now that somebody answered.
    fn after_news(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.settle_reads(cx, out);
        self.drive_transfer(cx, out);
        self.drive_change(cx, out);
    }

    pub(crate) fn on_heartbeat(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Role::Leader(leader) = &mut self.role else { return };
        let election = self.config.election;
        for peer in leader.peers.values_mut() {
            match &mut peer.mode {
                Mode::Probe { waiting } => *waiting = false,
                Mode::Stream | Mode::Snapshot(_) => {}
            }
            if peer.stalled(cx.now, election) {
                cx.marks.hit("replog.peer.stalled");
                peer.probe(peer.matched + 1);
            }
        }
        let since = leader.since;
        let me = self.me;
        let heard = |id: NodeId| match (&self.role, id == me) {
            (_, true) => cx.now,
            (Role::Leader(leader), false) => {
                leader.peers.get(&id).and_then(|peer| peer.heard).unwrap_or(since)
            }
            (Role::Follower | Role::Candidate(_), false) => since,
        };
        let oldest = self.quorum().quorum_value(heard).unwrap_or(since);
        if cx.now.since(oldest.max(since)) > election {
            cx.marks.hit("replog.leader.lost_quorum");
            return self.follow(cx, None, out);
        }
        out.arm(Timer::Heartbeat, self.config.heartbeat);
        self.resend_parts(cx, out);
        self.retire_former(out);
        self.broadcast(cx, true, out);
        self.after_news(cx, out);
    }

    pub(crate) fn peer_connected(&mut self, cx: &mut Cx<'_>, id: NodeId, out: &mut Out) {
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(peer) = leader.peers.get_mut(&id) else { return };
        match &mut peer.mode {
            Mode::Stream => peer.probe(peer.matched + 1), // What was under way is lost.
            Mode::Probe { waiting } => *waiting = false, // Nothing is known to match yet: that does not mean that it has nothing.
            Mode::Snapshot(_) => {}
        }
        self.serve(cx, id, true, out);
    }
}

/// The newest of what a peer acknowledged; answers may overtake each other.
fn newer(old: Option<Echo>, new: Echo) -> Echo {
    let old = old.unwrap_or_default();
    Echo { sent_at: old.sent_at.max(new.sent_at), round: old.round.max(new.round) }
}
