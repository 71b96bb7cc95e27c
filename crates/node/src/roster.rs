//! Who of the nodes is there, as they agree among themselves, and who leads the buckets that this node has no copy of.
//!
//! The agreement is `quorate-membership`'s; nothing rests on it but who should hold what (`placing.rs`), and whom this node
//! is connected to. Where groups hold the buckets there is none (`people.rs`). Who leads a bucket is told by those who do, and believed as far as it is newer.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_kernel::{Cx, Event, NodeId, Position, Time, Told, wire};
use quorate_membership::{self as membership, Membership, Meta, View};
use quorate_replog::{Ballot, Replog, era_epoch};

use crate::config::{NodeConfig, Placing};
use crate::endpoints::Endpoints;
use crate::holders::Wish;
use crate::interface::Member;
use crate::machine::{Node, Out, Timer};
use crate::message::Message;
use crate::placing::Charter;
use crate::record::Record;
use crate::recovery::Recoveries;
use crate::replica::Replica;
use crate::ring::Ring;

/// How often a node that is no member asks to become one.
const JOIN_EVERY: Duration = Duration::from_millis(500);
/// How often leaders say that they lead: messages get lost.
const LEADS_EVERY: Duration = Duration::from_millis(500);
/// So many nodes are reminded at once who leads, and more in turn.
const REMINDED: usize = 16;
/// Buckets of which it is known who leads them; beyond that those are forgotten that are not asked about.
const HINTS_MAX: usize = 4_096;
/// Nodes that a node knows of before it is a member.
const ACQUAINTANCES_MAX: usize = 4_096;

/// What a node knows of the others.
#[derive(Debug)]
pub(crate) struct Roster {
    /// None in topology `ring`.
    pub(crate) membership: Option<Membership>,
    /// The oldest record on this node's disk that the membership needs.
    pub(crate) needs: Option<Position>,
    /// The newest charter known here.
    pub(crate) charter: Option<Charter>,
    /// For the leader of bucket 0: what leaders reported of their logs since the charter was changed last.
    pub(crate) reports: BTreeMap<Bucket, (u64, Vec<NodeId>)>,
    /// For the leader of bucket 0: what nodes say of themselves that the charter has otherwise.
    pub(crate) stands: BTreeMap<NodeId, quorate_buckets::Node>,
    /// When this node said so last.
    pub(crate) stood_at: Time,
    /// For the leader of bucket 0: operators' wishes, until they have come true.
    pub(crate) wishes: Vec<Wish>,
    /// When a member left last.
    pub(crate) left_at: Option<Time>,
    /// When the charter was proposed last, and on which.
    pub(crate) proposed: (Time, u64),
    /// For the leader of bucket 0: the charter's note, the view, and whether repairs wait, at which nothing was due.
    pub(crate) at_rest: Option<(u64, u64, bool)>,
    pub(crate) asked_at: Time,
    /// By bucket: who said last that it leads, and when.
    hints: BTreeMap<Bucket, Hint>,
    pub(crate) recoveries: Recoveries,
    /// In topology `ring`: what is known of groups, in the place of a charter.
    pub(crate) ring: Option<Ring>,
    told_at: Time,
    joined_at: Time,
    acquaintances: Vec<Member>,
}

/// Who leads a bucket, as was said last.
#[derive(Debug, Clone, Copy)]
struct Hint {
    ballot: Ballot,
    leader: NodeId,
    at: Time,
}

/// What the nodes tell each other of a member.
fn meta_of(endpoints: &Endpoints, placing: &Placing) -> Meta {
    Meta {
        peer: Bytes::copy_from_slice(endpoints.peer.as_bytes()),
        info: Bytes::from(wire::encode(endpoints)),
        zone: placing.zone.clone(),
        rack: placing.rack.clone(),
        capacity: placing.capacity,
    }
}

/// A member of a view, as nodes know it.
fn member_of(member: &membership::Member) -> Member {
    let endpoints = wire::decode::<Arc<Endpoints>>(&member.meta.info).unwrap_or_default();
    Member { id: member.id, endpoints }
}

impl Roster {
    /// What a node begins with; `None` where all members hold everything.
    pub(crate) fn new(config: &NodeConfig) -> Option<Box<Roster>> {
        let placing = &config.placing;
        if config.copies == 0 {
            return None;
        }
        // Founders cannot know what each of them would say of itself: they begin alike, and say it then.
        let alike = Placing { zone: Bytes::new(), rack: Bytes::new(), capacity: 1, ..placing.clone() };
        let founder = |member: &Member| (member.id, meta_of(&member.endpoints, &alike));
        let founders: Vec<_> = config.bootstrap.iter().map(founder).collect();
        let meta = meta_of(&config.me.endpoints, placing);
        let ring = Ring::new(config);
        let agreed = placing.membership.clone();
        let membership = ring.is_none().then(|| Membership::new(config.me.id, agreed, meta, founders));
        Some(Box::new(Roster {
            membership,
            needs: None,
            charter: if ring.is_none() { Charter::founded(config) } else { None },
            ring,
            reports: BTreeMap::new(),
            stands: BTreeMap::new(),
            stood_at: Time::default(),
            wishes: Vec::new(),
            left_at: None,
            proposed: (Time::default(), 0),
            at_rest: None,
            asked_at: Time::default(),
            hints: BTreeMap::new(),
            recoveries: Recoveries::default(),
            told_at: Time::default(),
            joined_at: Time::default(),
            acquaintances: Vec::new(),
        }))
    }

    pub(crate) fn view(&self) -> Option<&View> {
        self.membership.as_ref()?.view()
    }

    /// The members of the view.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.view().map(|view| view.members.iter().map(member_of).collect()).unwrap_or_default()
    }

    /// A member of the view.
    pub(crate) fn member(&self, id: NodeId) -> Option<Member> {
        if let Some(ring) = &self.ring {
            return ring.people.get(id).map(|person| person.member.clone());
        }
        self.view()?.members.iter().find(|member| member.id == id).map(member_of)
    }

    /// How much a member says it should hold.
    pub(crate) fn capacity_of(&self, id: NodeId) -> u32 {
        if let Some(ring) = &self.ring {
            return u32::from(ring.people.get(id).is_some());
        }
        let member = self.view().and_then(|view| view.members.iter().find(|member| member.id == id));
        member.map_or(0, |member| member.meta.capacity)
    }

    pub(crate) fn hint(&self, bucket: Bucket) -> Option<(Ballot, NodeId)> {
        self.hints.get(&bucket).map(|hint| (hint.ballot, hint.leader))
    }

    /// When the leader of a bucket last said that it leads.
    pub(crate) fn hinted_at(&self, bucket: Bucket) -> Time {
        self.hints.get(&bucket).map_or(Time::default(), |hint| hint.at)
    }

    /// Everybody this node wants to be connected to because of the agreement: whoever was removed comes back through those
    /// who were there then.
    pub(crate) fn peers(&self) -> Vec<Member> {
        let mut peers = self.last_members();
        if self.view().is_none() {
            peers.extend(self.acquaintances.iter().cloned());
        }
        peers
    }

    /// The newest view that is known, though this node may not be in it.
    pub(crate) fn last_view(&self) -> Option<&View> {
        self.membership.as_ref()?.last_view()
    }

    /// Buckets of which it is known who leads them.
    pub(crate) fn hinted(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.hints.keys().copied()
    }

    fn last_members(&self) -> Vec<Member> {
        let last = self.last_view();
        last.map(|view| view.members.iter().map(member_of).collect()).unwrap_or_default()
    }
}

impl Roster {
    /// Forgets who leads buckets of groups that are not known, if there are too many.
    fn forget_hints(&mut self) {
        let Some(ring) = self.ring.as_ref().filter(|_| self.hints.len() > HINTS_MAX) else { return };
        self.hints.retain(|bucket, _| ring.group_of(*bucket).is_some());
    }
}

impl Node {
    /// Buckets that this node has, or of which it knows who leads them.
    pub(crate) fn known_buckets(&self) -> BTreeSet<Bucket> {
        let hinted = self.roster.iter().flat_map(|roster| roster.hinted());
        self.buckets().chain(hinted).collect()
    }

    /// Tells a node which buckets were recovered without their majority, should it not know. They are few, of thousands perhaps.
    pub(crate) fn tell_eras(&self, to: NodeId, out: &mut Out) {
        let hints = self.roster.iter().flat_map(|roster| &roster.hints);
        let recovered = hints.filter(|(_, hint)| era_epoch(hint.ballot.epoch) > 0).map(|(bucket, _)| *bucket);
        let all: BTreeSet<Bucket> = self.buckets().chain(recovered).collect();
        all.into_iter().for_each(|bucket| self.tell_era(bucket, to, out));
    }

    /// By which ballot a bucket is led, and by whom, as far as this node knows.
    pub(crate) fn leader_by_ballot(&self, bucket: Bucket) -> Option<(Ballot, NodeId)> {
        let here = self.led([bucket].into_iter()).first().map(|(_, ballot)| (*ballot, self.config.me.id));
        let log = self.replicas.get(&bucket).map(Replica::log).filter(|log| log.holds());
        let hint = self.roster.as_ref()?.hint(bucket);
        here.or_else(|| log.and_then(Replog::followed).max(hint))
    }

    /// Who leads a bucket, as far as this node knows.
    pub(crate) fn believed_leader(&self, bucket: Bucket) -> Option<NodeId> {
        let log = self.replicas.get(&bucket).map(Replica::log);
        let Some(roster) = &self.roster else { return log?.believed_leader() };
        let hint = roster.hint(bucket);
        match log.filter(|log| log.holds()) {
            Some(log) if hint.is_none_or(|(ballot, _)| ballot.epoch <= log.epoch().number) => {
                log.believed_leader()
            }
            // This node has no part in it, or does not know yet that it has none any more.
            Some(_) | None => hint.map(|(_, leader)| leader),
        }
    }

    /// Whether this node was a member of the cluster and is none for good.
    pub(crate) fn is_out(&self) -> bool {
        self.roster.is_none() && self.log().is_retired()
    }

    /// A life with others begins.
    pub(crate) fn begin_roster(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        match self.ring().is_some() {
            true => self.begin_people(cx, out),
            false => self.step_membership(cx, Event::Start, out),
        }
    }

    /// A connection stands now: what its node is to be asked was not sent, or is lost.
    pub(crate) fn reach(&mut self, cx: &mut Cx<'_>, peer: NodeId, out: &mut Out) {
        if self.ring().is_none() {
            return;
        }
        for bucket in self.asked.clone() {
            if self.believed_leader(bucket) == Some(peer) {
                let lane = self.lane(bucket);
                lane.origin.resume();
                lane.leader_changed(cx.now);
                self.dispatch(cx, bucket, out);
            }
        }
    }

    /// Steps the membership, and takes up what it says.
    pub(crate) fn step_membership(
        &mut self,
        cx: &mut Cx<'_>,
        event: Event<membership::Message, membership::Timer, membership::Input>,
        out: &mut Out,
    ) {
        let membership = self.roster.as_mut().and_then(|roster| roster.membership.as_mut());
        let Some(membership) = membership else { return cx.marks.hit("node.message.no_roster") };
        let (mut child, first) = (out.child(), out.next_position());
        quorate_kernel::Machine::step(membership, cx, event, &mut child);
        let (mut told, mut discard) = (Vec::new(), None);
        out.lift(
            &mut child,
            |msg| Message::Membership(Box::new(msg)),
            Timer::Membership,
            Record::Membership,
            |what| match what {
                Told::Output(output) => told.push(output),
                Told::Discard(position) => discard = Some(position),
            },
        );
        let Some(roster) = &mut self.roster else { return };
        if out.next_position() > first {
            roster.needs.get_or_insert(first);
        }
        if let Some(position) = discard {
            let before = roster.needs.replace(position);
            self.discard(before, position, out);
        }
        for output in told {
            self.membership_told(cx, output, out);
        }
    }

    fn membership_told(&mut self, cx: &mut Cx<'_>, output: membership::Output, out: &mut Out) {
        let Some(roster) = &mut self.roster else { return };
        match output {
            membership::Output::Installed { .. } => {
                cx.marks.hit("node.view.installed");
                roster.acquaintances.clear();
                self.tell_peers(out);
                self.acquaint_strangers(out);
            }
            membership::Output::NextView { left, .. } => {
                cx.marks.hit("node.view.next");
                let rests = roster.left_at.is_some_and(|at| cx.now.since(at) < self.config.repair_after());
                if !left.is_empty() && !rests {
                    // Who comes and goes all the time holds nothing up for ever.
                    roster.left_at = Some(cx.now);
                }
                self.tell_peers(out);
                self.acquaint_strangers(out);
            }
            membership::Output::Kicked { .. } => {
                cx.marks.hit("node.view.kicked");
                self.tell_peers(out);
            }
            membership::Output::JoinFailed { .. } => cx.marks.hit("node.join.failed"),
            membership::Output::Left { .. } => cx.marks.hit("node.view.left"),
            membership::Output::Quorum { reachable: true } => cx.marks.hit("node.view.reachable"),
            membership::Output::Quorum { reachable: false } => cx.marks.hit("node.view.unreachable"),
        }
    }

    /// Becomes a member again and again, says what this node leads, and sees to the charter.
    pub(crate) fn look_after_roster(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Some(roster) = &mut self.roster else { return };
        let joins = roster.membership.as_ref().is_some_and(|membership| !membership.is_joining());
        let is_outside = roster.view().is_none() && joins && !self.stopping;
        if is_outside && cx.now.since(roster.joined_at) >= JOIN_EVERY && !self.connected.is_empty() {
            roster.joined_at = cx.now;
            cx.marks.hit("node.join.asked");
            // In any order: it gives up after some attempts, and the only member may be the last of many.
            let mut seeds: Vec<NodeId> = self.connected.iter().copied().collect();
            cx.rng.shuffle(&mut seeds);
            self.step_membership(cx, Event::Input(membership::Input::Join { seeds }), out);
        }
        let Some(roster) = &mut self.roster else { return };
        if cx.now.since(roster.told_at) >= LEADS_EVERY {
            roster.told_at = cx.now;
            roster.forget_hints();
            self.remind(out);
            self.known_buckets().into_iter().for_each(|bucket| self.tell_strangers(bucket, out));
        }
        self.look_after_charter(cx, out);
        self.look_after_recoveries(cx, out);
    }

    /// Tells all members which of these buckets this node leads. One message, however many there are: it goes to everybody.
    pub(crate) fn announce(&self, buckets: &[Bucket], out: &mut Out) {
        let leads = self.led(buckets.iter().copied());
        if !leads.is_empty() {
            self.tell_leads(&leads, false, out);
        }
    }

    /// Tells others once more which buckets this node leads: in a ring those whose turn it is.
    fn remind(&self, out: &mut Out) {
        let leads = self.led(self.replicas.keys().copied());
        if !leads.is_empty() {
            self.tell_leads(&leads, true, out);
        }
    }

    fn tell_leads(&self, leads: &[(Bucket, Ballot)], is_reminder: bool, out: &mut Out) {
        let Some(roster) = &self.roster else { return };
        leads.iter().for_each(|(bucket, _)| self.tell_strangers(*bucket, out));
        let told: BTreeSet<NodeId> = match roster.last_view() {
            // Whoever was removed from the view may lead nevertheless.
            Some(view) => view.members.iter().map(|member| member.id).collect(),
            None => {
                // The members of its log hear it from the log.
                self.audience(BTreeSet::new(), is_reminder, REMINDED)
            }
        };
        for id in told.into_iter().filter(|id| *id != self.config.me.id) {
            // A hint; harmless if forgotten.
            out.send_early(id, Message::LeadsAll(leads.to_vec()));
        }
    }

    /// Tells one node which buckets this one leads.
    pub(crate) fn announce_to(&self, to: NodeId, out: &mut Out) {
        let leads = self.led(self.replicas.keys().copied());
        if self.roster.is_some() && !leads.is_empty() {
            // A hint; harmless if forgotten.
            out.send_early(to, Message::LeadsAll(leads));
        }
    }

    /// Those of some buckets that this node leads, and by which ballots.
    fn led(&self, buckets: impl Iterator<Item = Bucket>) -> Vec<(Bucket, Ballot)> {
        let ballot = |bucket: Bucket| {
            let replica = self.replicas.get(&bucket).filter(|replica| replica.takes)?;
            Some((bucket, replica.log().leading()?))
        };
        buckets.filter_map(ballot).collect()
    }

    pub(crate) fn on_leads(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        all: &[(Bucket, Ballot)],
        out: &mut Out,
    ) {
        for (bucket, ballot) in all {
            self.on_leads_one(cx, *bucket, (*ballot, from), true, out);
        }
    }

    /// A bucket is led by somebody, who says so or of whom others do.
    pub(crate) fn on_leads_one(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: Bucket,
        (ballot, from): (Ballot, NodeId),
        says_so: bool,
        out: &mut Out,
    ) {
        let Some(roster) = &mut self.roster else { return cx.marks.hit("node.message.no_roster") };
        if bucket.0 >= self.config.buckets.get() {
            return cx.marks.hit("node.message.no_such_bucket");
        }
        // What others say of a leader may be old, and does not become newer by going round.
        let at = if says_so { cx.now } else { Time::default() };
        if let Some(known) = roster.hints.get_mut(&bucket).filter(|known| known.ballot >= ballot) {
            if known.ballot == ballot {
                known.at = known.at.max(at);
            }
            return;
        }
        let before = self.believed_leader(bucket);
        if let Some(roster) = &mut self.roster {
            roster.hints.insert(bucket, Hint { ballot, leader: from, at });
        }
        self.on_era(cx, bucket, ballot.epoch, out);
        self.tell_strangers(bucket, out);
        if self.believed_leader(bucket) != Some(from) {
            return;
        }
        if before == Some(from) {
            // A batch that did not get into the log comes back from there.
            return self.on_reign(cx, bucket, out);
        }
        cx.marks.hit("node.leader.hinted");
        if let Some(lane) = self.lanes.get_mut(&bucket) {
            lane.origin.resume();
        }
        self.on_role(cx, bucket, out);
    }

    /// Somebody who is no member has introduced itself: it is told who the members are.
    pub(crate) fn acquaint(&self, with: NodeId, out: &mut Out) {
        let Some(roster) = &self.roster else { return };
        if roster.last_view().is_some_and(|view| !view.has(with)) {
            // Says only who and where others are.
            out.send_early(with, Message::Acquaint(roster.last_members()));
        }
    }

    /// The members have changed: those who want in are told, or they would not reach some of them.
    fn acquaint_strangers(&self, out: &mut Out) {
        for contact in self.contacts.keys().filter(|id| self.connected.contains(id)) {
            self.acquaint(*contact, out);
        }
    }

    pub(crate) fn on_acquaint(&mut self, mut members: Vec<Member>, out: &mut Out) {
        let me = self.config.me.id;
        let Some(roster) = &mut self.roster else { return };
        if roster.view().is_none() {
            members.retain(|member| member.id != me);
            roster.acquaintances.retain(|known| members.iter().all(|member| member.id != known.id));
            roster.acquaintances.extend(members);
            let many = roster.acquaintances.len().saturating_sub(ACQUAINTANCES_MAX);
            roster.acquaintances.drain(..many);
            self.tell_peers(out);
        }
    }
}
