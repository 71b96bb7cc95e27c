//! Which nodes hold which buckets: the charter, its way through bucket 0's log, and how the logs follow it.
//!
//! `quorate-buckets` says what becomes of a placement by what is applied to it. Here is the one order in which that happens: the
//! leader of bucket 0 applies what is due to a copy of the charter and proposes the result as a note in bucket 0's log, where it
//! replaces the one it was made from and no other. So every charter follows from the one before it, whoever proposed
//! it. What is due comes from the view (`roster.rs`), from the leaders of the buckets, who report how their logs are, and
//! from the placement itself, one step at a time.
//!
//! The leader of each bucket brings its log in line with the newest charter that it knows: it notes the number first and
//! changes the members then. A leader with an older charter finds that number and lets be, so that two of them do not
//! undo each other's work. A charter carries no safety: the log decides who its members are.

use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_buckets::{Cut, Due, Placement, Why};
use quorate_kernel::{Cx, Event, NodeId, Time, wire};
use quorate_membership::View;
use quorate_replog::Member;
use quorate_shard::{self as shard, Note};
use serde::{Deserialize, Serialize};

use crate::admin::{Asker, to_log_member};
use crate::config::NodeConfig;
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::replica::Following;

/// The note that says which placement a bucket's log was brought in line with.
pub(crate) const MARK: u8 = 0;
/// The note that is the charter, in bucket 0.
const CHARTER: u8 = 1;
/// What was proposed or reported and has had no effect for so long is proposed or reported again.
const AGAIN: Duration = Duration::from_millis(250);
/// A group is given so long to agree that it goes on without a member, which its logs then follow. Where that takes longer they do
/// without it before: a change of a log's members is never free.
const AGREED_WITHIN: Duration = Duration::from_millis(200);
/// Who is to join a log of a group and is not ready after so long does not keep the others waiting.
const LATE: Duration = Duration::from_secs(1);
/// How often a node asks whether there is a newer charter.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A log without a leader for so long is reported by all who have it: it may have lost its majority.
pub(crate) const LEADERLESS: Duration = Duration::from_secs(2);

/// Who should hold what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Charter {
    /// Number of the newest view that was applied.
    pub(crate) view: u64,
    pub(crate) placement: Placement,
}

impl Charter {
    /// The first charter of a cluster, which its founders make each for itself; `None` for nodes that join.
    pub(crate) fn founded(config: &NodeConfig) -> Option<Charter> {
        let node = |member: &crate::interface::Member| quorate_buckets::Node {
            id: member.id,
            zone: Bytes::new(),
            rack: Bytes::new(),
            capacity: 1,
        };
        let founders = config.bootstrap.iter().map(node).collect();
        let placement = Placement::founded(config.buckets, config.copies, founders).ok()?;
        Some(Charter { view: 1, placement })
    }

    /// Of two of a cluster the one with the greater key is newer.
    fn key(&self) -> (u64, u64) {
        (self.placement.number(), self.view)
    }

    /// Takes over what a newer view changed.
    pub(crate) fn follow(&mut self, view: &View) {
        if view.id.seq <= self.view {
            return;
        }
        let node = |member: &quorate_membership::Member| quorate_buckets::Node {
            id: member.id,
            zone: member.meta.zone.clone(),
            rack: member.meta.rack.clone(),
            capacity: member.meta.capacity,
        };
        let is_new = |member: &&quorate_membership::Member| {
            self.placement.node(member.id).is_none() || member.since > self.view
        };
        let joins: Vec<_> = view.members.iter().filter(is_new).map(node).collect();
        let comes_back = |id: NodeId| joins.iter().any(|join| join.id == id);
        let leaves = self.placement.nodes().iter().map(|node| node.id);
        let leaves = leaves.filter(|id| !view.has(*id) || comes_back(*id)).collect();
        let cut = Cut { joins, leaves };
        if cut == Cut::default() || self.placement.advance(&cut).is_ok() {
            self.view = view.id.seq;
        }
    }
}

impl Node {
    /// The newest placement that this node knows.
    pub fn placement(&self) -> Option<&Placement> {
        self.roster.as_ref()?.charter.as_ref().map(|charter| &charter.placement)
    }

    /// Looks after the charter: as the leader of bucket 0 changes it, as anybody else asks for it.
    pub(crate) fn look_after_charter(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        if self.ring().is_some() {
            return self.look_after_ring(cx, out);
        }
        self.report(cx, out);
        self.stand(cx, out);
        self.look_after_wishes(cx, out);
        if self.takes_batches(Bucket(0)) {
            return self.lead_charter(cx, out);
        }
        let Some(roster) = &mut self.roster else { return };
        roster.reports.clear();
        roster.stands.clear();
        if cx.now.since(roster.asked_at) >= ASK_EVERY {
            roster.asked_at = cx.now;
            let number = roster.charter.as_ref().map_or(0, |charter| charter.placement.number());
            let others: Vec<NodeId> = match roster.view() {
                Some(view) => view.members.iter().map(|member| member.id).collect(),
                None => self.connected.iter().copied().collect(),
            };
            let others: Vec<NodeId> = others.into_iter().filter(|id| *id != self.config.me.id).collect();
            if let Some(whom) = cx.rng.pick(&others).copied() {
                // A question; nothing about this node's disk is told.
                out.send_early(whom, Message::CharterWanted { number });
            }
        }
    }

    /// Proposes the next charter, if anything is due.
    fn lead_charter(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let Some(roster) = &mut self.roster else { return };
        let agreed = self.replicas.get(&Bucket(0)).and_then(|replica| replica.shard.note(CHARTER));
        let on = agreed.map_or(0, |note| note.number);
        let (proposed_at, proposed_on) = roster.proposed;
        if proposed_on == on + 1 && cx.now.since(proposed_at) < AGAIN {
            return;
        }
        let seq = roster.view().map_or(0, |view| view.id.seq);
        let rests = roster.left_at.is_some_and(|at| cx.now.since(at) < self.config.repair_after());
        let is_quiet = roster.reports.is_empty() && roster.wishes.is_empty() && roster.stands.is_empty();
        if is_quiet && roster.at_rest == Some((on, seq, rests)) {
            return;
        }
        let current = match agreed {
            Some(note) => wire::decode::<Charter>(&note.content).ok(),
            None => Charter::founded(&self.config),
        };
        let Some(current) = current else { return cx.marks.hit("node.charter.unreadable") };
        // Newer than the one in the log is known only if that log has lost some, and was recovered.
        let known = roster.charter.as_ref().filter(|known| known.key() > current.key());
        let mut next = known.unwrap_or(&current).clone();
        if let Some(view) = roster.view() {
            let view = view.clone();
            next.follow(&view);
        }
        for (bucket, (mark, members)) in core::mem::take(&mut roster.reports) {
            // As above: a charter that is lost has said so.
            next.placement.outrun(mark);
            let settled = next.placement.settle(bucket, mark, &members);
            if matches!(settled, Ok(Some(_))) || next.placement.stall(bucket, mark, &members).is_some() {
                cx.marks.hit("node.bucket.halted");
            }
        }
        for node in core::mem::take(&mut roster.stands).into_values() {
            if next.placement.describe(&node) == Ok(true) {
                cx.marks.hit("node.charter.described");
            }
        }
        let copies = next.placement.copies();
        for wish in &roster.wishes {
            wish.enter(&mut next, |id| roster.capacity_of(id));
        }
        if next.placement.copies() != copies {
            cx.marks.hit("node.charter.copies");
        }
        if next == current
            && let Some(step) = next.placement.next_step()
            && !(rests && step.why == Why::Missing)
            && next.placement.take(&step).is_ok()
        {
            cx.marks.hit("node.charter.step");
        }
        if next == current && agreed.is_some() {
            roster.at_rest = Some((on, seq, rests));
            return;
        }
        cx.marks.hit("node.charter.proposed");
        roster.proposed = (cx.now, on + 1);
        let content = Bytes::from(wire::encode(&next));
        // The charter's own number: a change of the view alone is one, too.
        let note = Note { name: CHARTER, on, number: on + 1, content };
        self.step_shard(cx, Bucket(0), Event::Input(shard::Input::Notes([note].into())), out);
    }

    /// A note has changed here: perhaps the charter.
    pub(crate) fn on_noted(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        if self.ring().is_some() {
            return self.on_seat_noted(cx.now, bucket, out);
        }
        if self.roster.is_none() || bucket != Bucket(0) {
            return;
        }
        let Some(replica) = self.replicas.get(&bucket) else { return };
        let leads = replica.log().leads();
        let Some(content) = replica.shard.note(CHARTER).map(|note| note.content.clone()) else { return };
        let is_news = self.on_charter(cx, &content);
        let Some(roster) = self.roster.as_ref().filter(|_| leads && is_news) else { return };
        for member in roster.view().iter().flat_map(|view| view.members.iter()) {
            if member.id != self.config.me.id {
                // It is chosen: a quorum's disks have it.
                out.send_early(member.id, Message::Charter(content.clone()));
            }
        }
    }

    /// A charter has come; the newer one counts. Whether it is that.
    pub(crate) fn on_charter(&mut self, cx: &mut Cx<'_>, content: &Bytes) -> bool {
        let (count, Some(roster)) = (self.config.buckets, &mut self.roster) else { return false };
        let charter = wire::decode::<Charter>(content).ok();
        let Some(charter) = charter.filter(|charter| charter.placement.bucket_count() == count) else {
            cx.marks.hit("node.charter.unreadable");
            return false;
        };
        let is_news = roster.charter.as_ref().is_none_or(|known| known.key() < charter.key());
        if is_news {
            cx.marks.hit("node.charter.news");
            roster.charter = Some(charter);
        }
        is_news
    }

    pub(crate) fn on_charter_wanted(&mut self, from: NodeId, number: u64, out: &mut Out) {
        let known = self.roster.as_ref().and_then(|roster| roster.charter.as_ref());
        // The founders' is nobody's business but theirs: it is not agreed.
        if let Some(charter) = known.filter(|charter| charter.placement.number() > number.max(1)) {
            // It is chosen: a quorum's disks have it.
            out.send_early(from, Message::Charter(Bytes::from(wire::encode(charter))));
        }
    }

    /// Tells the leader of bucket 0 of logs that are not as the charter says they were last.
    fn report(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        for bucket in self.every_bucket() {
            let Some(placement) = self.roster.as_ref().and_then(|roster| roster.charter.as_ref()) else {
                return;
            };
            let (known_mark, known) = placement.placement.reported(bucket);
            let Some(replica) = self.replicas.get_mut(&bucket) else { continue };
            if !replica.log().holds() {
                continue;
            }
            let leaderless = match replica.log().believed_leader() {
                Some(_) => {
                    replica.leaderless_since = None;
                    false
                }
                None => {
                    let since = *replica.leaderless_since.get_or_insert(cx.now);
                    cx.now.since(since) >= LEADERLESS
                }
            };
            let mark = replica.shard.note(MARK).map_or(0, |note| note.number);
            let members = member_ids(replica.log());
            let stalled = leaderless && placement.placement.is_stalled(bucket, mark, &members);
            let is_news = mark > known_mark || (mark == known_mark && members != known) || stalled;
            if !is_news || !(replica.took || leaderless) || cx.now.since(replica.reported_at) < AGAIN {
                continue;
            }
            replica.reported_at = cx.now;
            match self.believed_leader(Bucket(0)) {
                Some(leader) if leader == self.config.me.id => self.on_report(bucket, mark, members),
                // What is agreed in its log, or was when this node last heard.
                Some(leader) => out.send_early(leader, Message::Report { mark, members }.about(bucket)),
                None => {}
            }
        }
    }

    /// Tells the leader of bucket 0 where this node stands, if the charter says otherwise: founders begin alike, and who
    /// starts again may have been moved.
    fn stand(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let (leader, me) = (self.believed_leader(Bucket(0)), self.config.me.id);
        let Some(roster) = &mut self.roster else { return };
        let placing = &self.config.placing;
        let (zone, rack, capacity) = (placing.zone.clone(), placing.rack.clone(), placing.capacity);
        let said = quorate_buckets::Node { id: me, zone, rack, capacity };
        let placement = roster.charter.as_ref().map(|charter| &charter.placement);
        let is_news = placement.is_some_and(|placement| placement.described(&said).is_some());
        if !is_news || cx.now.since(roster.stood_at) < ASK_EVERY {
            return;
        }
        roster.stood_at = cx.now;
        match leader {
            Some(leader) if leader == me => self.on_stands(cx, me, said),
            // What this node was told to say; nothing of its disk.
            Some(leader) => out.send_early(leader, Message::Stands(Box::new(said))),
            None => {}
        }
    }

    pub(crate) fn on_stands(&mut self, cx: &mut Cx<'_>, from: NodeId, said: quorate_buckets::Node) {
        let Some(roster) = &mut self.roster else { return cx.marks.hit("node.message.no_roster") };
        let placement = roster.charter.as_ref().map(|charter| &charter.placement);
        let is_news = placement.is_some_and(|placement| placement.described(&said).is_some());
        if from == said.id && is_news {
            roster.stands.insert(from, said);
        }
    }

    pub(crate) fn on_report(&mut self, bucket: Bucket, mark: u64, members: Vec<NodeId>) {
        if let Some(roster) = &mut self.roster {
            let news = roster.reports.entry(bucket).or_insert_with(|| (mark, members.clone()));
            if news.0 <= mark {
                *news = (mark, members);
            }
        }
    }

    /// Brings the log of a bucket that this node leads in line with the charter.
    pub(crate) fn follow_charter(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        let Some(replica) = self.replicas.get(&bucket) else { return };
        let under_way = replica.follows.is_some_and(|ticket| self.changes.contains_key(&ticket));
        if !under_way && !replica.takes {
            return;
        }
        let (overtaken, is_ring) = (self.is_overtaken(cx.now, bucket), self.ring().is_some());
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        if let Some(following) = replica.following.take_if(|_| under_way && overtaken) {
            let input = shard::Input::GiveUp { ticket: following.ticket, late: false };
            return self.step_shard(cx, bucket, Event::Input(input), out);
        }
        if let Some(following) = replica.following.as_mut().filter(|_| under_way && is_ring)
            && cx.now >= following.late_at
        {
            following.late_at = cx.now + LATE;
            let input = shard::Input::GiveUp { ticket: following.ticket, late: true };
            return self.step_shard(cx, bucket, Event::Input(input), out);
        }
        if under_way || !replica.takes {
            return;
        }
        let mark = replica.shard.note(MARK).map_or(0, |note| note.number);
        let ids = member_ids(replica.log());
        let Some(due) = self.members_wanted(cx.now, bucket, &ids, mark) else { return };
        let (Some(roster), Some(replica)) = (&self.roster, self.replicas.get_mut(&bucket)) else { return };
        if cx.now.since(replica.followed_at) < AGAIN && replica.followed == (due.number, mark) {
            return;
        }
        (replica.followed_at, replica.followed) = (cx.now, (due.number, mark));
        if due.number > mark {
            let note = Note { name: MARK, on: mark, number: due.number, content: Bytes::new() };
            return self.step_shard(cx, bucket, Event::Input(shard::Input::Notes([note].into())), out);
        }
        let add: Vec<Member> =
            due.add.iter().filter_map(|id| roster.member(*id)).map(|member| to_log_member(&member)).collect();
        if add.len() < due.add.len() {
            return cx.marks.hit("node.bucket.stranger");
        }
        cx.marks.hit("node.bucket.follows");
        let ticket = self.next_ticket();
        self.changes.insert(ticket, Asker::Follower(bucket));
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            let late_at = cx.now + LATE;
            let (number, add, remove) = (due.number, due.add, due.remove.clone());
            replica.following = Some(Following { ticket, number, add, remove, late_at });
            replica.follows = Some(ticket);
        }
        self.change(cx, bucket, (ticket, add, due.remove), out);
    }

    /// Whether the member change of a bucket that is under way is of no use any more.
    fn is_overtaken(&self, now: Time, bucket: Bucket) -> bool {
        let Some(replica) = self.replicas.get(&bucket) else { return false };
        let Some(following) = &replica.following else { return false };
        match (self.ring(), self.placement()) {
            (Some(_), _) => self.is_in_the_way(now, bucket, following),
            (None, Some(placement)) => following.number < placement.since(bucket),
            (None, None) => false,
        }
    }

    /// What must become of the members of a bucket's log, which are these.
    fn members_wanted(&self, now: Time, bucket: Bucket, ids: &[NodeId], mark: u64) -> Option<Due> {
        if let Some(ring) = self.ring() {
            let is_gone = |id: NodeId| self.is_gone_for(id, now, AGREED_WITHIN);
            return self.possible(now, ring.members_due(bucket, ids, mark, is_gone)?, ids, mark);
        }
        let placement = self.placement()?;
        let due = placement.members_due(bucket, ids, mark);
        due.or_else(|| unreported(placement, bucket, ids, mark))
    }

    /// Who should lead a bucket, of those who are members of its log, as the charter has it.
    pub(crate) fn leader_by_charter(&self, bucket: Bucket) -> Option<NodeId> {
        let replica = self.replicas.get(&bucket)?;
        let mark = replica.shard.note(MARK).map_or(0, |note| note.number);
        let ids = member_ids(replica.log());
        match self.ring() {
            Some(ring) => ring.leader_due(bucket, &ids),
            None => self.placement()?.leader_due(bucket, &ids, mark),
        }
    }
}

/// Of those who should hold a bucket nobody is left, and its log went on without them: a mark that is newer than all before tells.
fn unreported(placement: &Placement, bucket: Bucket, log: &[NodeId], mark: u64) -> Option<Due> {
    let is_news = placement.members(bucket).is_empty() && placement.reported(bucket).1 != log;
    let number = placement.number();
    (is_news && number > mark).then_some(Due { number, add: Vec::new(), remove: Vec::new() })
}

/// The members of a log, by id.
pub(crate) fn member_ids(log: &quorate_replog::Replog) -> Vec<NodeId> {
    let mut ids: Vec<NodeId> = log.epoch().members.iter().map(|member| member.id).collect();
    ids.sort_unstable();
    ids
}
