//! Who of the nodes is there, as they agree among themselves, and who leads the buckets that this node has no copy of.
//!
//! The agreement is `quorate-membership`'s; nothing rests on it but who should hold what (`placing.rs`), and whom this node
//! is connected to. Who leads a bucket is told by those who do, and believed as far as it is newer.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_kernel::{Cx, Event, NodeId, Position, Time, Told, wire};
use quorate_membership::{self as membership, Membership, Meta, View};
use quorate_replog::Ballot;

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
/// So many members, or more if that took more turns than the next says: whatever all tell all grows with the square of their number.
const REMINDED_AT_ONCE: usize = 32;
/// Everybody is told more often than [`LEADERLESS`](crate::placing::LEADERLESS).
const TURNS_MAX: usize = 3;
/// Nodes that a node knows of before it is a member.
const ACQUAINTANCES_MAX: usize = 4_096;

/// What a node knows of the others.
#[derive(Debug)]
pub(crate) struct Roster {
    pub(crate) membership: Membership,
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
    /// For the leader of bucket 0: since when it has been connected to no more than half of the view.
    pub(crate) minority_since: Option<Time>,
    /// When a member left last.
    pub(crate) left_at: Option<Time>,
    /// When the charter was proposed last, and on which.
    pub(crate) proposed: (Time, u64),
    /// For the leader of bucket 0: the charter's note, the view, and whether repairs wait, at which nothing was due.
    pub(crate) at_rest: Option<(u64, u64, bool)>,
    pub(crate) asked_at: Time,
    /// By bucket: who said last that it leads.
    hints: Vec<Option<(Ballot, NodeId)>>,
    /// By bucket: when its leader last said so.
    hinted_at: Vec<Time>,
    pub(crate) recoveries: Recoveries,
    /// In topology `ring`: what is known of groups, in the place of a charter.
    pub(crate) ring: Option<Ring>,
    told_at: Time,
    /// Counts how often some members were told who leads.
    turn: usize,
    joined_at: Time,
    acquaintances: Vec<Member>,
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
    let endpoints = wire::decode::<Endpoints>(&member.meta.info).unwrap_or_default();
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
        let membership = Membership::new(config.me.id, placing.membership.clone(), meta, founders);
        let ring = Ring::new(config);
        Some(Box::new(Roster {
            membership,
            needs: None,
            charter: if ring.is_none() { Charter::founded(config) } else { None },
            ring,
            reports: BTreeMap::new(),
            stands: BTreeMap::new(),
            stood_at: Time::default(),
            wishes: Vec::new(),
            minority_since: None,
            left_at: None,
            proposed: (Time::default(), 0),
            at_rest: None,
            asked_at: Time::default(),
            hints: alloc::vec![None; usize::from(config.buckets.get())],
            hinted_at: alloc::vec![Time::default(); usize::from(config.buckets.get())],
            recoveries: Recoveries::default(),
            told_at: Time::default(),
            turn: 0,
            joined_at: Time::default(),
            acquaintances: Vec::new(),
        }))
    }

    pub(crate) fn view(&self) -> Option<&View> {
        self.membership.view()
    }

    /// The members of the view.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.view().map(|view| view.members.iter().map(member_of).collect()).unwrap_or_default()
    }

    /// A member of the view.
    pub(crate) fn member(&self, id: NodeId) -> Option<Member> {
        self.view()?.members.iter().find(|member| member.id == id).map(member_of)
    }

    /// How much a member says it should hold.
    pub(crate) fn capacity_of(&self, id: NodeId) -> u32 {
        let member = self.view().and_then(|view| view.members.iter().find(|member| member.id == id));
        member.map_or(0, |member| member.meta.capacity)
    }

    pub(crate) fn hint(&self, bucket: Bucket) -> Option<(Ballot, NodeId)> {
        self.hints.get(usize::from(bucket.0)).copied().flatten()
    }

    /// When the leader of a bucket last said that it leads.
    pub(crate) fn hinted_at(&self, bucket: Bucket) -> Time {
        self.hinted_at.get(usize::from(bucket.0)).copied().unwrap_or_default()
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

    fn last_members(&self) -> Vec<Member> {
        let last = self.membership.last_view();
        last.map(|view| view.members.iter().map(member_of).collect()).unwrap_or_default()
    }
}

impl Node {
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

    /// Steps the membership, and takes up what it says.
    pub(crate) fn step_membership(
        &mut self,
        cx: &mut Cx<'_>,
        event: Event<membership::Message, membership::Timer, membership::Input>,
        out: &mut Out,
    ) {
        let Some(roster) = &mut self.roster else { return cx.marks.hit("node.message.no_roster") };
        let (mut child, first) = (out.child(), out.next_position());
        quorate_kernel::Machine::step(&mut roster.membership, cx, event, &mut child);
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
        if out.next_position() > first {
            roster.needs.get_or_insert(first);
        }
        if let Some(position) = discard {
            roster.needs = Some(position);
            self.discard(position, out);
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
        let is_outside = roster.view().is_none() && !roster.membership.is_joining() && !self.stopping;
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
            roster.turn += 1;
            let turn = roster.turn;
            self.remind(turn, out);
            self.every_bucket().for_each(|bucket| self.tell_strangers(bucket, out));
        }
        self.look_after_charter(cx, out);
        self.look_after_recoveries(cx, out);
    }

    /// Tells all members which of these buckets this node leads. One message, however many there are: it goes to everybody.
    pub(crate) fn announce(&self, buckets: &[Bucket], out: &mut Out) {
        let leads = self.led(buckets.iter().copied());
        if !leads.is_empty() {
            self.tell_leads(&leads, |_| true, out);
        }
    }

    /// Tells members once more which buckets this node leads: those whose turn it is.
    fn remind(&self, turn: usize, out: &mut Out) {
        let Some(roster) = &self.roster else { return };
        let members = roster.membership.last_view().map_or(0, |view| view.members.len());
        let turns = members.div_ceil(REMINDED_AT_ONCE).clamp(1, TURNS_MAX);
        let leads = self.led(self.replicas.keys().copied());
        if !leads.is_empty() {
            self.tell_leads(&leads, |place| place % turns == turn % turns, out);
        }
    }

    fn tell_leads(&self, leads: &[(Bucket, Ballot)], is_told: impl Fn(usize) -> bool, out: &mut Out) {
        let Some(roster) = &self.roster else { return };
        leads.iter().for_each(|(bucket, _)| self.tell_strangers(*bucket, out));
        // Whoever was removed from the view may lead nevertheless.
        let view = roster.membership.last_view();
        let members = view.iter().flat_map(|view| view.members.iter()).enumerate();
        for (_, member) in members.filter(|(place, member)| member.id != self.config.me.id && is_told(*place))
        {
            // A hint; harmless if forgotten.
            out.send_early(member.id, Message::LeadsAll(leads.to_vec()));
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
            let replica = self.replicas.get(&bucket).filter(|replica| replica.shard.takes_batches())?;
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
            self.on_leads_one(cx, *bucket, (*ballot, from), out);
        }
    }

    fn on_leads_one(&mut self, cx: &mut Cx<'_>, bucket: Bucket, told: (Ballot, NodeId), out: &mut Out) {
        let (ballot, from) = told;
        let before = self.believed_leader(bucket);
        let Some(roster) = &mut self.roster else { return cx.marks.hit("node.message.no_roster") };
        let Some(hint) = roster.hints.get_mut(usize::from(bucket.0)) else { return };
        if hint.is_none_or(|(known, _)| known <= ballot) {
            roster.hinted_at[usize::from(bucket.0)] = cx.now;
        }
        if hint.is_some_and(|(known, _)| known >= ballot) {
            return;
        }
        *hint = Some((ballot, from));
        self.on_era(cx, bucket, ballot.epoch, out);
        self.tell_strangers(bucket, out);
        if self.believed_leader(bucket) == Some(from) && before != Some(from) {
            cx.marks.hit("node.leader.hinted");
            self.lane(bucket).origin.resume();
            self.on_role(cx, bucket, out);
        }
    }

    /// Somebody who is no member has introduced itself: it is told who the members are.
    pub(crate) fn acquaint(&self, with: NodeId, out: &mut Out) {
        let Some(roster) = &self.roster else { return };
        if roster.membership.last_view().is_some_and(|view| !view.has(with)) {
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
