//! One decision per view: a fast round without a coordinator, then classic rounds until one succeeds (Fast Paxos,
//! Lamport 2006, in the sizes of Rapid).
//!
//! Every member's own cut is its vote in the fast round; `quorate_quorum::Fast` says how many equal votes decide, and which
//! value a classic round may have to take up. Votes of either kind are sets of members that only grow, merged and
//! passed on by everybody (`spread.rs`), so that one lost message is no lost vote.
//!
//! A node that promised a classic round casts no fast vote any more. Without this guard a coordinator that was promised by
//! nodes without a vote is free to choose, and their later fast votes may decide something else.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_kernel::{Cx, NodeId, Time};
use quorate_quorum::Fast;

use crate::Mutant;
use crate::hash::Digest;
use crate::machine::{Out, Timer};
use crate::message::{Message, Rank, Voters, Votes};
use crate::record::{Record, Vote};
use crate::seat::Seat;
use crate::view::{Change, Cut};

/// Tallies of classic rounds that are remembered: those of the highest ranks.
const CLASSIC_TALLIES_MAX: usize = 4;

/// What one node knows of the decision of its view.
#[derive(Debug, Clone)]
pub(crate) struct Consensus {
    /// Nothing below this rank is accepted or promised.
    pub(crate) promised: Rank,
    /// The newest vote: in which round, and for what.
    pub(crate) voted: Option<(Rank, Digest)>,
    /// What this node itself proposes.
    pub(crate) own: Option<Digest>,
    /// Values by name.
    pub(crate) values: BTreeMap<Digest, Arc<Cut>>,
    /// Who voted for what.
    pub(crate) tallies: Vec<Votes>,
    /// The highest round heard of.
    pub(crate) seen_round: u64,
    /// The round this node coordinates.
    pub(crate) coordinator: Option<Coordinator>,
    /// Whether the timer for the next classic round is armed.
    armed: bool,
    /// When somebody was last asked for a value.
    asked: Option<Time>,
}

impl Default for Consensus {
    fn default() -> Self {
        Consensus {
            promised: Rank::NONE,
            voted: None,
            own: None,
            values: BTreeMap::new(),
            tallies: Vec::new(),
            seen_round: 1,
            coordinator: None,
            armed: false,
            asked: None,
        }
    }
}

/// A classic round led by this node.
#[derive(Debug, Clone)]
pub(crate) struct Coordinator {
    pub(crate) rank: Rank,
    /// Who promised, and what each had voted for.
    promises: Vec<(NodeId, Option<(Rank, Digest)>)>,
    chosen: Option<Digest>,
    proposed: bool,
}

impl Consensus {
    /// Whether anybody has proposed anything, as far as this node knows.
    pub(crate) fn is_active(&self) -> bool {
        self.own.is_some() || self.voted.is_some() || !self.tallies.is_empty() || self.coordinator.is_some()
    }

    /// The names of all values that matter still.
    pub(crate) fn named(&self) -> BTreeSet<Digest> {
        let chosen = self.coordinator.iter().filter_map(|coordinator| coordinator.chosen);
        let voted = self.voted.iter().map(|(_, digest)| *digest);
        self.tallies.iter().map(|votes| votes.digest).chain(self.own).chain(voted).chain(chosen).collect()
    }

    fn remember(&mut self, digest: Digest, cut: Arc<Cut>) {
        self.values.insert(digest, cut);
        let named = self.named();
        self.values.retain(|known, _| *known == digest || named.contains(known));
    }
}

impl Seat {
    /// This node's cut is ready: it is its vote in the fast round.
    pub(crate) fn propose(&mut self, cx: &mut Cx<'_>, cut: Arc<Cut>, out: &mut Out) {
        let digest = cut.digest();
        let removals = cut.removals();
        self.consensus.own = Some(digest);
        self.consensus.remember(digest, Arc::clone(&cut));
        cx.marks.hit("membership.cut.proposed");
        if self.consensus.promised <= Rank::FAST {
            self.cast(cx, Rank::FAST, digest, out);
        } else if self.config.breaks(Mutant::FastVoteAfterPromise) {
            self.count(self.me, Rank::FAST, digest);
            self.spread_votes(cx, out);
        } else {
            cx.marks.hit("membership.consensus.guarded");
        }
        if removals > self.rings.ids().len() - self.fast_needed {
            self.hurry(cx, &cut, out);
        }
        self.keep_trying(cx, out);
        self.learn(cx, None, out);
    }

    /// The fast round needs votes of those whom the cut removes: it will fail. The first survivor coordinates a classic
    /// round at once, the others soon after.
    fn hurry(&mut self, cx: &mut Cx<'_>, cut: &Cut, out: &mut Out) {
        let removed = |id: NodeId| cut.changes.iter().any(|change| *change == Change::Remove { id });
        let before = self.rings.ids().iter().filter(|id| **id < self.me && !removed(**id)).count();
        cx.marks.hit("membership.consensus.hurried");
        if before == 0 {
            self.start_round(cx, out);
        } else {
            let wait = self.config.fallback_spread * u32::try_from(before).unwrap_or(u32::MAX);
            self.consensus.armed = true;
            out.arm(Timer::Fallback, wait.min(self.config.fallback));
        }
    }

    /// Votes, in a round that is not below what was promised.
    fn cast(&mut self, cx: &mut Cx<'_>, rank: Rank, digest: Digest, out: &mut Out) {
        assert!(rank >= self.consensus.promised, "{rank:?} below {:?}", self.consensus.promised);
        assert!(self.consensus.voted.is_none_or(|(voted, _)| voted < rank), "a second vote in {rank:?}");
        self.consensus.promised = rank;
        self.consensus.voted = Some((rank, digest));
        self.persist_acceptor(out);
        self.count(self.me, rank, digest);
        self.spread_votes(cx, out);
    }

    /// What was promised and voted for must be found again.
    fn persist_acceptor(&self, out: &mut Out) {
        let vote = self.consensus.voted.map(|(rank, digest)| {
            let Some(cut) = self.consensus.values.get(&digest) else { panic!("a vote for an unknown value") };
            Vote { rank, cut: Arc::clone(cut) }
        });
        out.persist(Record::Acceptor { view: self.id(), promised: self.consensus.promised, vote });
    }

    /// Takes back what was promised and voted for before a restart.
    pub(crate) fn restore_acceptor(
        &mut self,
        cx: &mut Cx<'_>,
        promised: Rank,
        vote: Option<Vote>,
        out: &mut Out,
    ) {
        self.consensus.promised = promised;
        self.consensus.seen_round = promised.round.max(1);
        if let Some(Vote { rank, cut }) = vote {
            let digest = cut.digest();
            self.consensus.voted = Some((rank, digest));
            if rank == Rank::FAST {
                // It is what this node itself proposed: it must not vote in the fast round once more.
                self.consensus.own = Some(digest);
            }
            self.consensus.remember(digest, cut);
            self.count(self.me, rank, digest);
            self.keep_trying(cx, out);
            self.keep_resending(out);
        }
    }

    /// Counts one vote; whether it is new. A second fast vote of one member is nonsense.
    fn count(&mut self, voter: NodeId, rank: Rank, digest: Digest) -> bool {
        let Some(index) = self.view().index(voter) else { return false };
        let tallies = &mut self.consensus.tallies;
        let elsewhere = tallies
            .iter()
            .any(|votes| votes.rank == rank && votes.digest != digest && votes.voters.has(index));
        if elsewhere {
            return false;
        }
        if let Some(votes) = tallies.iter_mut().find(|votes| votes.rank == rank && votes.digest == digest) {
            return votes.voters.insert(index);
        }
        if rank == Rank::FAST {
            let proposals = tallies.iter().filter(|votes| votes.rank == Rank::FAST).count();
            if proposals >= self.config.proposals_max && voter != self.me {
                return false;
            }
        } else {
            let classic = tallies.iter().filter(|votes| votes.rank != Rank::FAST);
            let lowest = classic.clone().map(|votes| votes.rank).min();
            if classic.count() >= CLASSIC_TALLIES_MAX {
                if lowest.is_some_and(|lowest| rank < lowest) {
                    return false;
                }
                tallies.retain(|votes| Some(votes.rank) != lowest);
            }
        }
        let mut voters = Voters::default();
        voters.insert(index);
        tallies.push(Votes { rank, digest, voters });
        true
    }

    /// Others tell who voted for what.
    pub(crate) fn on_votes(&mut self, cx: &mut Cx<'_>, from: NodeId, votes: Vec<Votes>, out: &mut Out) {
        let mut fresh = false;
        for Votes { rank, digest, voters } in votes {
            if rank.round == 0 || (rank.round > 1 && !self.may_coordinate(rank)) {
                cx.marks.hit("membership.consensus.nonsense");
                continue;
            }
            self.consensus.seen_round = self.consensus.seen_round.max(rank.round);
            for index in voters.iter() {
                let Some(voter) = self.rings.ids().get(index).copied() else { break };
                fresh |= self.count(voter, rank, digest);
            }
        }
        if fresh {
            self.relay_votes(out);
            self.keep_trying(cx, out);
            self.keep_resending(out);
        }
        self.learn(cx, Some(from), out);
    }

    fn may_coordinate(&self, rank: Rank) -> bool {
        self.view().has(rank.node) || self.config.breaks(Mutant::RankNotUnique)
    }

    /// Whether there is a decision. If its value is not known, `from` is asked for it.
    fn learn(&mut self, cx: &mut Cx<'_>, from: Option<NodeId>, out: &mut Out) {
        let fast = self.fast_needed - usize::from(self.config.breaks(Mutant::FastQuorumOffByOne));
        let classic = self.classic_needed - usize::from(self.config.breaks(Mutant::ClassicQuorumOffByOne));
        let needed = |rank| if rank == Rank::FAST { fast } else { classic }.max(1);
        let decided = self.consensus.tallies.iter().find(|votes| votes.voters.len() >= needed(votes.rank));
        let Some(Votes { rank, digest, .. }) = decided else { return };
        let (rank, digest) = (*rank, *digest);
        if let Some(cut) = self.consensus.values.get(&digest).cloned() {
            let how =
                if rank == Rank::FAST { "membership.decided.fast" } else { "membership.decided.classic" };
            cx.marks.hit(how);
            self.decide(cx, cut, out);
        } else if let Some(from) = from {
            self.ask(cx, from, digest, out);
        }
    }

    fn ask(&mut self, cx: &mut Cx<'_>, from: NodeId, digest: Digest, out: &mut Out) {
        if from == self.me || self.consensus.asked.is_some_and(|at| cx.now.since(at) < self.config.resend / 8)
        {
            return;
        }
        cx.marks.hit("membership.consensus.asked");
        self.consensus.asked = Some(cx.now);
        out.send(from, Message::Ask { view: self.id(), digest });
    }

    /// Somebody lacks a value.
    pub(crate) fn on_ask(&mut self, from: NodeId, digest: Digest, out: &mut Out) {
        if let Some(cut) = self.consensus.values.get(&digest) {
            out.send(from, Message::Value { view: self.id(), cut: Arc::clone(cut) });
        }
    }

    /// A value that was asked for.
    pub(crate) fn on_value(&mut self, cx: &mut Cx<'_>, cut: Arc<Cut>, out: &mut Out) {
        let digest = cut.digest();
        if !self.named().contains(&digest) || self.view().after(&cut).is_none() {
            cx.marks.hit("membership.consensus.nonsense");
            return;
        }
        self.consensus.remember(digest, cut);
        self.propose_chosen(cx, out);
        self.learn(cx, None, out);
    }

    /// Arms the timer for a classic round, unless it is.
    fn keep_trying(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if !core::mem::replace(&mut self.consensus.armed, true) {
            out.arm(Timer::Fallback, self.patience(cx));
        }
    }

    /// How long until this node starts a classic round: on average about one of all members does in each
    /// [`crate::Config::fallback_spread`].
    fn patience(&self, cx: &mut Cx<'_>) -> Duration {
        let members = u32::try_from(self.rings.ids().len()).unwrap_or(u32::MAX);
        let most = self.config.fallback_spread.saturating_mul(members.saturating_mul(2));
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        self.config.fallback + Duration::from_nanos(cx.rng.between(0, nanos))
    }

    /// There was time enough for a decision: (another) classic round. For ever, each above all before.
    pub(crate) fn on_fallback(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.consensus.armed = false;
        if self.consensus.is_active() {
            self.start_round(cx, out);
            self.keep_trying(cx, out);
        }
    }

    fn start_round(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let mut round = self.consensus.seen_round.max(self.consensus.promised.round).max(1) + 1;
        if self.config.breaks(Mutant::RoundNeverGrows) {
            if self.consensus.coordinator.is_some() {
                return;
            }
            round = 2;
        }
        let node = if self.config.breaks(Mutant::RankNotUnique) { NodeId(u64::MAX) } else { self.me };
        let rank = Rank { round, node };
        self.consensus.seen_round = round;
        self.consensus.coordinator =
            Some(Coordinator { rank, promises: Vec::new(), chosen: None, proposed: false });
        cx.marks.hit("membership.consensus.round");
        for id in self.rings.ids() {
            out.send(*id, Message::Phase1a { view: self.id(), rank });
        }
    }

    /// A coordinator asks for a promise.
    pub(crate) fn on_phase1a(&mut self, cx: &mut Cx<'_>, from: NodeId, rank: Rank, out: &mut Out) {
        if rank.round < 2 || (rank.node != from && !self.config.breaks(Mutant::RankNotUnique)) {
            cx.marks.hit("membership.consensus.nonsense");
            return;
        }
        self.consensus.seen_round = self.consensus.seen_round.max(rank.round);
        let promised = self.consensus.promised;
        if rank > promised || self.config.breaks(Mutant::PromiseAnything) {
            self.consensus.promised = rank;
            self.persist_acceptor(out);
        } else if rank < promised {
            cx.marks.hit("membership.consensus.outdone");
            out.send(from, Message::Outdone { view: self.id(), promised });
            return;
        }
        out.send(from, Message::Phase1b { view: self.id(), rank, voted: self.consensus.voted });
    }

    /// Somebody promised.
    pub(crate) fn on_phase1b(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        rank: Rank,
        voted: Option<(Rank, Digest)>,
        out: &mut Out,
    ) {
        let is_member = self.view().has(from);
        let Some(coordinator) = &mut self.consensus.coordinator else { return };
        if coordinator.rank != rank || coordinator.chosen.is_some() || !is_member {
            return;
        }
        let again = coordinator.promises.iter().any(|(who, _)| *who == from);
        if again && !self.config.breaks(Mutant::PromiseNotDeduplicated) {
            return;
        }
        coordinator.promises.push((from, voted));
        if coordinator.promises.len() >= self.classic_needed {
            self.choose(cx, out);
        }
    }

    /// A quorum promised: what must be proposed is what may have been decided; otherwise anything may.
    fn choose(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Some(coordinator) = &self.consensus.coordinator else { return };
        let votes = coordinator.promises.iter().map(|(_, voted)| *voted);
        let newest = votes.clone().flatten().map(|(rank, _)| rank).max();
        let own = self.consensus.own;
        let others = votes.clone().flatten().map(|(_, digest)| digest);
        let known = self.consensus.tallies.iter().map(|votes| votes.digest);
        // Of several cuts the one that removes the fewest: who holds that most are gone is likely to be gone itself.
        let removals =
            |digest: &Digest| self.consensus.values.get(digest).map_or(usize::MAX, |cut| cut.removals());
        let free = own.into_iter().chain(others).chain(known).min_by_key(removals);
        let free = if self.config.breaks(Mutant::ClassicPicksFreely) { own.or(free) } else { free };
        let bound = match newest {
            None => None,
            Some(Rank::FAST) => {
                let votes: Vec<Option<Digest>> = votes.map(|vote| vote.map(|(_, digest)| digest)).collect();
                let votes: Vec<Option<&Digest>> = votes.iter().map(Option::as_ref).collect();
                Fast::new(self.rings.ids()).endangered(&votes).copied()
            }
            Some(rank) => votes.flatten().find(|vote| vote.0 == rank).map(|(_, digest)| digest),
        };
        let bound = if self.config.breaks(Mutant::ClassicPicksFreely) { None } else { bound };
        cx.marks.hit(if bound.is_some() {
            "membership.consensus.bound"
        } else {
            "membership.consensus.free"
        });
        if let Some(coordinator) = &mut self.consensus.coordinator {
            coordinator.chosen = bound.or(free);
        }
        self.propose_chosen(cx, out);
    }

    /// Proposes what was chosen, once its value is known.
    fn propose_chosen(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Some(coordinator) = &mut self.consensus.coordinator else { return };
        let (rank, Some(chosen)) = (coordinator.rank, coordinator.chosen) else { return };
        if coordinator.proposed {
            return;
        }
        if let Some(cut) = self.consensus.values.get(&chosen) {
            coordinator.proposed = true;
            for id in self.rings.ids() {
                out.send(*id, Message::Phase2a { view: self.chain.view.id, rank, cut: Arc::clone(cut) });
            }
        } else {
            let voter =
                coordinator.promises.iter().find(|(_, voted)| voted.is_some_and(|(_, d)| d == chosen));
            if let Some((voter, _)) = voter.copied() {
                self.ask(cx, voter, chosen, out);
            }
        }
    }

    /// A coordinator asks for votes.
    pub(crate) fn on_phase2a(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        rank: Rank,
        cut: Arc<Cut>,
        out: &mut Out,
    ) {
        let foreign = rank.round < 2 || (rank.node != from && !self.config.breaks(Mutant::RankNotUnique));
        if foreign || self.view().after(&cut).is_none() {
            cx.marks.hit("membership.consensus.nonsense");
            return;
        }
        self.consensus.seen_round = self.consensus.seen_round.max(rank.round);
        let promised = self.consensus.promised;
        if rank < promised {
            out.send(from, Message::Outdone { view: self.id(), promised });
        } else if self.consensus.voted.is_none_or(|(voted, _)| voted != rank) {
            let digest = cut.digest();
            self.consensus.remember(digest, cut);
            self.cast(cx, rank, digest, out);
            self.keep_trying(cx, out);
            self.keep_resending(out);
            self.learn(cx, None, out);
        } else {
            self.spread_votes(cx, out);
        }
    }

    /// A member promised a higher round: the next own one is above it.
    pub(crate) fn on_outdone(&mut self, promised: Rank) {
        self.consensus.seen_round = self.consensus.seen_round.max(promised.round);
    }
}
