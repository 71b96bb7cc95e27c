//! A bucket that lost its majority goes on with what is left, because an operator says so.
//!
//! Whoever the operator asks has every member of the view fence its copy of the bucket: it takes part in nothing below a new epoch any
//! more, and says how far its log is. When all have, the one whose log reaches furthest is told to go on alone
//! in that epoch; from there on the charter is followed as ever. An epoch belongs to one view and to one asker: nobody answers in
//! another view, or fences its copy for two askers at the same epoch. So at most one is told to go on in it.
//!
//! No charter is needed for that, since bucket 0, which keeps it, may be the one that is lost.
//! `docs/decisions/0017-recovery.md` argues it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;
use core::cmp::Reverse;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_buckets::Lost;
use quorate_groups::Group;
use quorate_kernel::{Cx, Event, NodeId, Time, wire};
use quorate_replog::{self as replog, ERA_EPOCHS, Mutant, Standing, era_epoch};
use quorate_shard as shard;
use serde::{Deserialize, Serialize};

use crate::admin::{Asker, to_log_member};
use crate::interface::{AdminOutcome, Halt, Ticket};
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::placing::{LEADERLESS, MARK, member_ids};
use crate::replica::Replica;

/// How long it may take: each member of the view waits until nobody can believe in a lease any more, and syncs.
const DEADLINE: Duration = Duration::from_secs(20);
/// How often it is looked which buckets of a ring have lost their majority.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Who has not answered for so long is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// Epochs of one view: so many for each of its recoveries.
const VIEW_EPOCHS: u64 = ERA_EPOCHS << 8;

/// What nodes say to each other about the recovery of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recovery {
    /// From the node that an operator asked to all members of its view: take part in nothing below this epoch any more, and say how
    /// far your log is.
    Ask {
        /// The epoch in which one of them will go on.
        epoch: u64,
        /// Number of the asker's view; in another nobody answers.
        view: u64,
    },
    /// The answer, once it stays true.
    Fenced {
        /// As in `Ask`.
        epoch: u64,
        /// How far the log is; `None`: the sender takes part in nothing below `fence` already, and will not answer for less.
        standing: Option<Standing>,
        /// Below this epoch the sender takes part in nothing.
        fence: u64,
        /// About bucket 0: the newest charter that the sender knows.
        charter: Bytes,
    },
    /// From the asker to the one whose log reaches furthest: go on alone.
    GoOn {
        /// As in `Ask`.
        epoch: u64,
        /// About bucket 0: the newest charter that any of them knows.
        charter: Bytes,
    },
    /// To whom a connection stands: the bucket's log is in this epoch, or a later one.
    Era {
        /// The epoch.
        epoch: u64,
    },
}

/// A recovery that this node was asked for.
#[derive(Debug)]
pub(crate) struct Effort {
    ticket: Ticket,
    view: u64,
    epoch: u64,
    until: Time,
    asked_at: Time,
    standings: BTreeMap<NodeId, Standing>,
    charter: Bytes,
    /// Who was told to go on.
    goes_on: Option<NodeId>,
}

/// What a node knows of lost buckets.
#[derive(Debug, Default)]
pub(crate) struct Recoveries {
    efforts: BTreeMap<Bucket, Effort>,
    /// For whom the copy here was fenced, at which epoch.
    fenced_for: BTreeMap<Bucket, (NodeId, u64)>,
    /// The buckets without a majority, as the charter and the view have it.
    lost: BTreeMap<Bucket, Lost>,
    /// Those of them that nobody leads nevertheless.
    pub(crate) halted: BTreeSet<Bucket>,
    /// The numbers of these when that was looked at, and the buckets that had nobody to lead them here.
    looked_at: (u64, u64, u64, Vec<Bucket>),
    /// When that was looked at in a ring.
    looked_around_at: Time,
    /// Buckets of a ring without a majority that this node reaches, and since when.
    unreached: BTreeMap<Bucket, Time>,
}

impl Effort {
    /// Begins anew, in this view and above all epochs that are known; `None`: somebody knows of a later view.
    fn renew(&mut self, view: u64, known: u64) -> Option<()> {
        let first = view.checked_mul(VIEW_EPOCHS)?;
        let epoch = if known < first { first } else { era_epoch(known) + ERA_EPOCHS };
        if epoch / VIEW_EPOCHS != view {
            return None;
        }
        self.standings.clear();
        (self.view, self.epoch, self.goes_on, self.asked_at) = (view, epoch, None, Time::default());
        Some(())
    }
}

impl Node {
    /// The bucket has lost its majority, as far as this node knows, and nobody leads it.
    pub(crate) fn halt(&self, bucket: Bucket) -> Option<&Lost> {
        let recoveries = &self.roster.as_ref()?.recoveries;
        recoveries.lost.get(&bucket).filter(|_| recoveries.halted.contains(&bucket))
    }

    /// The same, for operators.
    pub(crate) fn halt_status(&self, bucket: Bucket) -> Option<Halt> {
        let lost = self.halt(bucket)?;
        let (survivors, gone) = (lost.survivors.clone(), lost.gone.clone());
        Some(Halt { survivors, gone, blocked: self.blocked_by(bucket) })
    }

    /// Looks which buckets are halted: charter and view may not know that a log went on with other members.
    fn look_at_halted(&mut self, now: Time) {
        self.look_at_lost(now);
        let Some(roster) = &self.roster else { return };
        let is_led = |bucket: Bucket| match self.replicas.get(&bucket).map(Replica::log) {
            Some(log) if log.holds() => log.believed_leader().is_some(),
            _ => now.since(roster.hinted_at(bucket)) < LEADERLESS && roster.hint(bucket).is_some(),
        };
        let halted = roster.recoveries.lost.keys().copied().filter(|bucket| !is_led(*bucket)).collect();
        if let Some(roster) = &mut self.roster {
            roster.recoveries.halted = halted;
        }
    }

    /// Looks which buckets have lost their majority, if that may have changed.
    fn look_at_lost(&mut self, now: Time) {
        if self.ring().is_some() {
            return self.look_at_lost_by_group(now);
        }
        let Some(roster) = &mut self.roster else { return };
        let (Some(charter), Some(view)) = (&roster.charter, roster.view()) else {
            // Whoever is outside does not know.
            roster.recoveries.lost.clear();
            roster.recoveries.looked_at = Default::default();
            return;
        };
        let leaderless = |(_, replica): &(&Bucket, &Replica)| {
            replica.leaderless_since.is_some_and(|since| now.since(since) >= LEADERLESS)
        };
        let leaderless = self.replicas.iter().filter(leaderless).map(|(bucket, _)| *bucket).collect();
        let numbers = (charter.placement.number(), charter.view, view.id.seq, leaderless);
        if roster.recoveries.looked_at == numbers {
            return;
        }
        // Should bucket 0 be the one that is lost, nobody changes the charter.
        let mut charter = charter.clone();
        charter.follow(view);
        for bucket in &numbers.3 {
            let Some(replica) = self.replicas.get(bucket).filter(|replica| replica.log().holds()) else {
                continue;
            };
            let mark = replica.shard.note(MARK).map_or(0, |note| note.number);
            charter.placement.stall(*bucket, mark, &member_ids(replica.log()));
        }
        let lost = charter.placement.halted().map(|lost| (lost.bucket, lost)).collect();
        (roster.recoveries.lost, roster.recoveries.looked_at) = (lost, numbers);
    }

    /// The same where groups hold the buckets: of each those count that its log has, or its group, as far as this node knows. Whoever has just
    /// come is not connected to everybody yet, so that a bucket counts as lost only after a while.
    fn look_at_lost_by_group(&mut self, now: Time) {
        let Some(roster) = &self.roster else { return };
        let Some(ring) = &roster.ring else { return };
        if now.since(roster.recoveries.looked_around_at) < LOOK_EVERY {
            return;
        }
        // They are few, and looked for in every group.
        let missed: BTreeSet<NodeId> = self.missed(now);
        let is_half = |gone: usize, all: usize| gone > 0 && gone * 2 >= all;
        let gone_of = |group: &Group| group.members.iter().filter(|id| missed.contains(id)).count();
        let halves = ring.groups().filter(|group| is_half(gone_of(group), group.members.len()));
        let suspects: BTreeSet<Bucket> =
            halves.flat_map(|group| ring.buckets(group)).chain(self.buckets()).collect();
        let (mut lost, mut unreached) = (BTreeMap::new(), BTreeMap::new());
        for bucket in suspects.into_iter().filter(|bucket| ring.group_of(*bucket).is_some()) {
            let log = self.replicas.get(&bucket).map(Replica::log).filter(|log| log.holds());
            let of_log = log.map(|log| log.epoch().members.iter().map(|member| member.id));
            let of_group = ring.group_of(bucket).filter(|_| log.is_none()).map(|group| group.members.iter());
            let members = || {
                of_log.clone().into_iter().flatten().chain(of_group.clone().into_iter().flatten().copied())
            };
            let gone = members().filter(|id| missed.contains(id)).count();
            if !is_half(gone, members().count()) {
                continue;
            }
            let since = roster.recoveries.unreached.get(&bucket).copied().unwrap_or(now);
            unreached.insert(bucket, since);
            if now.since(since) >= LEADERLESS {
                let (gone, survivors) = members().partition(|id| missed.contains(id));
                lost.insert(bucket, Lost { bucket, survivors, gone });
            }
        }
        if let Some(roster) = &mut self.roster {
            let recoveries = &mut roster.recoveries;
            (recoveries.lost, recoveries.unreached, recoveries.looked_around_at) = (lost, unreached, now);
        }
    }

    /// Those who have to answer before a bucket goes on without its majority, and the number of the view that they are in. In a ring nobody agrees
    /// who is there: they are those who are there as this node sees it, if that is most of those whom it knows.
    fn electorate(&self, now: Time) -> Option<(u64, Vec<NodeId>)> {
        let roster = self.roster.as_ref()?;
        if roster.ring.is_none() {
            let view = roster.view()?;
            return Some((view.id.seq, view.members.iter().map(|member| member.id).collect()));
        }
        let all = self.company();
        let there: Vec<NodeId> =
            all.iter().map(|member| member.id).filter(|id| self.is_there(*id, now)).collect();
        (there.len() * 2 > all.len()).then(|| (self.view_number(), there))
    }

    /// An operator wants a bucket to go on with what is left.
    pub(crate) fn recover(&mut self, cx: &mut Cx<'_>, ticket: Ticket, bucket: Bucket, out: &mut Out) {
        let is_given_up = self
            .replicas
            .get(&bucket)
            .is_some_and(|replica| replica.log().is_given_up() && replica.log().believed_leader().is_none());
        let is_lost = self.halt(bucket).is_some() || is_given_up;
        let view = self.electorate(cx.now).map(|(view, _)| view);
        let Some(roster) = &mut self.roster else {
            let why =
                "all nodes of this cluster hold everything: no bucket of it is recovered without a majority";
            return Node::admin_refused(ticket, why, out);
        };
        let Some(view) = view else {
            let why =
                "this node is no member of the cluster just now, or does not reach most of it: ask another";
            return Node::admin_refused(ticket, why, out);
        };
        if !is_lost {
            let why = format!("bucket {} is not halted, as far as this node knows", bucket.0);
            return Node::admin_refused(ticket, &why, out);
        }
        let efforts = &mut roster.recoveries.efforts;
        if efforts.contains_key(&bucket) {
            return Node::admin_refused(ticket, "its recovery is under way", out);
        }
        cx.marks.hit("node.recovery.begun");
        let (standings, charter, until) = (BTreeMap::new(), Bytes::new(), cx.now + DEADLINE);
        let asked_at = Time::default();
        let mut effort =
            Effort { ticket, view, epoch: 0, until, asked_at, standings, charter, goes_on: None };
        if effort.renew(view, 0).is_none() {
            return Node::admin_refused(ticket, "the view's number is too high", out);
        }
        efforts.insert(bucket, effort);
    }

    /// Pursues the recoveries that this node was asked for.
    pub(crate) fn look_after_recoveries(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        self.look_at_halted(cx.now);
        let Some(roster) = &self.roster else { return };
        let buckets: Vec<Bucket> = roster.recoveries.efforts.keys().copied().collect();
        for bucket in buckets {
            self.pursue(cx, bucket, out);
        }
    }

    fn pursue(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        let (led, members, is_ring) =
            (self.led_epoch(bucket), self.electorate(cx.now), self.ring().is_some());
        let Some(roster) = &mut self.roster else { return };
        let Some(effort) = roster.recoveries.efforts.get_mut(&bucket) else { return };
        if effort.epoch <= led {
            cx.marks.hit("node.recovery.done");
            return self.end_recovery(bucket, AdminOutcome::Done, out);
        }
        if cx.now >= effort.until {
            let silent = members.into_iter().flat_map(|(_, members)| members);
            let silent: Vec<NodeId> = silent.filter(|id| !effort.standings.contains_key(id)).collect();
            let why = match effort.goes_on {
                Some(node) => format!("node {node} was told to go on and does not yet: ask again"),
                None if is_ring => format!(
                    "{silent:?} are there, as this node sees it, and do not answer: all such nodes are asked. Ask again when they \
                     answer, or are gone"
                ),
                None => format!(
                    "{silent:?} do not answer. They are members of the newest view: it can do without them only when a majority \
                     of the cluster's nodes is there. Ask again when they answer, or are out of it"
                ),
            };
            return self.end_recovery(bucket, AdminOutcome::Unknown(why), out);
        }
        let Some((view, members)) = members else { return };
        if !is_ring && view != effort.view && effort.renew(view, effort.epoch).is_none() {
            return;
        }
        if cx.now.since(effort.asked_at) < AGAIN {
            return;
        }
        effort.asked_at = cx.now;
        let missing: Vec<NodeId> =
            members.iter().copied().filter(|id| !effort.standings.contains_key(id)).collect();
        let (epoch, charter) = (effort.epoch, effort.charter.clone());
        if missing.is_empty() {
            let Some(furthest) = self.furthest(bucket) else { return };
            cx.marks.hit("node.recovery.goes_on");
            return out.send(furthest, Message::Recovery(Recovery::GoOn { epoch, charter }).about(bucket));
        }
        for id in missing {
            out.send(id, Message::Recovery(Recovery::Ask { epoch, view }).about(bucket));
        }
    }

    /// Who goes on: whose log reaches furthest; of several, who should hold the bucket.
    fn furthest(&mut self, bucket: Bucket) -> Option<NodeId> {
        let shortest = self.breaks_log(Mutant::ShortestGoesOn);
        let roster = self.roster.as_mut()?;
        let lost = roster.recoveries.lost.get(&bucket);
        let effort = roster.recoveries.efforts.get(&bucket)?;
        let rank = |(id, standing): &(&NodeId, &Standing)| {
            let holds = lost.is_some_and(|lost| lost.survivors.contains(id));
            (**standing, holds, roster.capacity_of(**id) > 0, Reverse(**id))
        };
        let standings = effort.standings.iter();
        let furthest = match shortest {
            true => standings.filter(|(_, standing)| standing.last > 0).min_by_key(rank),
            false => standings.max_by_key(rank),
        };
        let furthest = effort.goes_on.or(furthest.map(|(id, _)| *id));
        let effort = roster.recoveries.efforts.get_mut(&bucket)?;
        effort.goes_on = furthest;
        furthest
    }

    fn end_recovery(&mut self, bucket: Bucket, outcome: AdminOutcome, out: &mut Out) {
        let Some(roster) = &mut self.roster else { return };
        if let Some(effort) = roster.recoveries.efforts.remove(&bucket) {
            self.admin_ended(Asker::Here(effort.ticket), outcome, out);
        }
    }

    pub(crate) fn on_recovery(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        from: NodeId,
        word: Recovery,
        out: &mut Out,
    ) {
        match word {
            Recovery::Ask { epoch, view } => self.on_recovery_asked(cx, bucket, from, (epoch, view), out),
            Recovery::Fenced { epoch, standing, fence, charter } => {
                self.on_fenced(cx, bucket, from, (epoch, fence), standing, charter);
            }
            Recovery::GoOn { epoch, charter } => {
                if bucket == Bucket(0) {
                    self.on_charter(cx, &charter);
                }
                let me = to_log_member(&self.config.me);
                self.step_log(cx, bucket, replog::Input::GoOnAlone { epoch, me }, out);
            }
            Recovery::Era { epoch } => self.on_era(cx, bucket, epoch, out),
        }
    }

    fn step_log(&mut self, cx: &mut Cx<'_>, bucket: Bucket, input: replog::Input, out: &mut Out) {
        self.step_shard(cx, bucket, Event::Input(shard::Input::Log(input)), out);
    }

    fn on_recovery_asked(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        from: NodeId,
        (epoch, view): (u64, u64),
        out: &mut Out,
    ) {
        let here = self.roster.as_ref().and_then(|roster| roster.view()).map(|view| view.id.seq);
        if here != Some(view) && self.ring().is_none() {
            return cx.marks.hit("node.recovery.other_view");
        }
        // Without a copy it has nothing, and is not to get one from those who are given up.
        self.open_replica(cx, bucket, out);
        let (Some(log), Some(roster)) = (self.replicas.get(&bucket).map(Replica::log), &mut self.roster)
        else {
            return;
        };
        let (fence, known) = (log.fence().max(log.epoch().number), &mut roster.recoveries.fenced_for);
        if epoch <= fence && known.get(&bucket) != Some(&(from, epoch)) {
            let word = Recovery::Fenced { epoch, standing: None, fence, charter: Bytes::new() };
            return out.send(from, Message::Recovery(word).about(bucket));
        }
        known.insert(bucket, (from, epoch));
        self.step_log(cx, bucket, replog::Input::Fence(epoch), out);
        let standing = self.replicas.get(&bucket).and_then(|replica| replica.log().standing(cx));
        let charter = self.roster.as_ref().and_then(|roster| roster.charter.as_ref());
        let charter =
            charter.filter(|_| bucket == Bucket(0)).map(|charter| Bytes::from(wire::encode(charter)));
        if standing.is_some() {
            let charter = charter.unwrap_or_default();
            let word = Recovery::Fenced { epoch, standing, fence: epoch, charter };
            // Not before the fence is on disk.
            out.send(from, Message::Recovery(word).about(bucket));
        }
    }

    fn on_fenced(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        from: NodeId,
        (epoch, fence): (u64, u64),
        standing: Option<Standing>,
        charter: Bytes,
    ) {
        if !charter.is_empty() {
            self.on_charter(cx, &charter);
        }
        let Some(roster) = &mut self.roster else { return };
        let newest = roster.charter.as_ref().filter(|_| bucket == Bucket(0)).map(wire::encode);
        let Some(effort) = roster.recoveries.efforts.get_mut(&bucket).filter(|effort| effort.epoch == epoch)
        else {
            return;
        };
        effort.charter = newest.map(Bytes::from).unwrap_or_default();
        match standing {
            Some(standing) => drop(effort.standings.insert(from, standing)),
            // Somebody else, or this node in an earlier life, asked before.
            None if fence >= epoch => {
                // In a ring no view is agreed, and a number is just one.
                let later = if roster.ring.is_some() { fence / VIEW_EPOCHS } else { 0 };
                let _ = effort.renew(effort.view.max(later), fence);
            }
            None => {}
        }
    }

    /// The bucket's log is in a later era than the copy here: that copy was given up.
    pub(crate) fn on_era(&mut self, cx: &mut Cx<'_>, bucket: Bucket, epoch: u64, out: &mut Out) {
        let log = self.replicas.get(&bucket).map(Replica::log);
        if log.is_some_and(|log| era_epoch(epoch) > log.epoch().number) {
            self.step_log(cx, bucket, replog::Input::Fence(era_epoch(epoch)), out);
        }
    }

    /// The newest epoch in which somebody is known to have led the bucket.
    fn led_epoch(&self, bucket: Bucket) -> u64 {
        let hint = self.roster.as_ref().and_then(|roster| roster.hint(bucket)).map(|(ballot, _)| ballot);
        let here = self.replicas.get(&bucket).and_then(|replica| replica.log().leading());
        hint.max(here).map_or(0, |ballot| ballot.epoch)
    }

    /// Tells those who are no members, and perhaps were, that a bucket was recovered without them.
    pub(crate) fn tell_strangers(&self, bucket: Bucket, out: &mut Out) {
        let Some(view) = self.roster.as_ref().and_then(|roster| roster.view()) else { return };
        for stranger in self.connected.iter().filter(|id| !view.has(**id)) {
            self.tell_era(bucket, *stranger, out);
        }
    }

    /// Tells a node that a bucket was recovered, should it not know.
    pub(crate) fn tell_era(&self, bucket: Bucket, to: NodeId, out: &mut Out) {
        let here = self.replicas.get(&bucket).map_or(0, |replica| replica.log().epoch().number);
        let epoch = self.led_epoch(bucket).max(here);
        if era_epoch(epoch) > 0 && to != self.config.me.id {
            out.send(to, Message::Recovery(Recovery::Era { epoch }).about(bucket));
        }
    }

    #[cfg(feature = "mutants")]
    fn breaks_log(&self, mutant: Mutant) -> bool {
        self.config.log.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    const fn breaks_log(&self, _: Mutant) -> bool {
        false
    }
}
