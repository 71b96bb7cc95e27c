//! The way to the group that holds a bucket, for nodes that do not know it (Scatter 3.4).
//!
//! Groups are looked for along the ring: whoever is asked hands the question to a node of the group, of those that it knows, that begins nearest
//! before the position, until it comes to a member of the group that holds it; the answer goes the same way back, and everybody on the
//! way learns from it. Each group knows the one after it, so that each step comes nearer, whatever else is known. What makes the steps
//! few is the table of known groups: a slot for each hexadecimal digit in which the distance to a position can begin, at each length of
//! it; so each step takes away a digit, and the table grows with the logarithm of the number of groups. While there are few of them it holds
//! all, and nothing is looked for at all.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_groups::{Group, GroupId, Seat};
use quorate_kernel::{Cx, NodeId, Time};
use quorate_replog::Ballot;
use serde::{Deserialize, Serialize};

use crate::machine::{Node, Out};
use crate::message::Message;
use crate::people::{Person, disorder};
use crate::placing::LEADERLESS;
use crate::ring::{Ring, Word};

/// Groups that are known, about: those of hundreds of nodes are all known to all.
const GROUPS_MAX: usize = 256;
/// Members of groups in one slot that this node is connected to.
const CONTACTS_OF_SLOT: usize = 2;
/// How often the same bucket is looked for.
const SEEK_EVERY: Duration = Duration::from_millis(100);
/// How often a node that does not know all groups looks for one by chance.
const EXPLORE_EVERY: Duration = Duration::from_secs(2);
/// A node that hears nothing of its own group for so long looks for it: it may be a member no more.
const OWN_EVERY: Duration = Duration::from_secs(3);
/// Through so many nodes a question goes at most.
const HOPS_MAX: usize = 16;

/// What a question found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The nodes that the answer has to go through yet, the asker first.
    pub path: Vec<NodeId>,
    /// The home of the group that holds the position, and what it keeps.
    pub home: Bucket,
    /// The same.
    pub seat: Seat,
    /// The bucket of the position, by which ballot it is led, and who leads it.
    pub led: Option<(Bucket, Ballot, NodeId)>,
    /// Where the members of the group are.
    pub people: Vec<Arc<Person>>,
}

/// Where in the table of somebody at `own` a group belongs that begins at `start`: how many digits of the distance are nothing, and the first
/// that is something.
fn slot(own: u64, start: u64) -> (u32, u64) {
    let distance = start.wrapping_sub(own);
    let level = distance.leading_zeros() / 4;
    (level, distance.checked_shr(60 - (level * 4).min(60)).unwrap_or_default() & 15)
}

impl Ring {
    /// Where this node stands on the ring: where its group begins, or anywhere.
    fn position(&self, me: NodeId) -> u64 {
        let own = self.group_with(me).map(|group| group.span.start);
        own.unwrap_or_else(|| disorder(me.0))
    }

    fn slots(&self, me: NodeId) -> BTreeMap<(u32, u64), Vec<&Group>> {
        let own = self.position(me);
        let mut slots: BTreeMap<_, Vec<&Group>> = BTreeMap::new();
        for group in self.groups() {
            slots.entry(slot(own, group.span.start)).or_default().push(group);
        }
        slots
    }

    /// Some members of the groups in each slot of the table: those who come first in a disorder of this node's own. Not those whom it is connected to already: whoever was
    /// there early is connected to many, and would be chosen by ever more.
    pub(crate) fn contacts(&self, me: NodeId) -> Vec<NodeId> {
        let mut contacts = Vec::new();
        for groups in self.slots(me).into_values() {
            let members = groups.iter().flat_map(|group| group.members.iter().copied());
            let mut members: Vec<NodeId> = members.collect();
            members.sort_by_cached_key(|id| disorder(id.0 ^ me.0));
            contacts.extend(members.into_iter().take(CONTACTS_OF_SLOT));
        }
        contacts
    }

    /// Forgets groups while there are too many: of those in the fullest slot the one that was heard of longest ago.
    pub(crate) fn forget_groups(&mut self, me: NodeId) {
        let needed = self.near(me);
        while self.heard.len() > GROUPS_MAX {
            let slots = self.slots(me);
            let free = |group: &&&Group| !needed.contains(&group.name.id);
            let Some(fullest) = slots.values().max_by_key(|groups| groups.iter().filter(free).count()) else {
                return;
            };
            let heard = |group: &&&Group| self.heard.get(&group.name.id).copied().unwrap_or_default();
            let Some(oldest) = fullest.iter().filter(free).min_by_key(heard) else { return };
            let oldest = (*oldest).clone();
            self.forget(&oldest);
        }
    }

    /// The groups of a node and those beside them.
    fn near(&self, me: NodeId) -> BTreeSet<GroupId> {
        let own = self.groups_with(me);
        let seats = own.iter().filter_map(|group| self.seats.get(&self.home(group)));
        let all = seats.flat_map(Seat::groups).chain(own.iter().copied());
        all.map(|group| group.name.id).collect()
    }
}

impl Node {
    /// Looks for whoever leads a bucket.
    pub(crate) fn seek(&mut self, cx: &mut Cx<'_>, bucket: Bucket, out: &mut Out) {
        let is_here = self.replicas.get(&bucket).is_some_and(|replica| replica.log().is_member());
        let Some(ring) = self.ring_mut() else { return };
        let last = ring.sought.get(&bucket).copied();
        if is_here || last.is_some_and(|at| cx.now.since(at) < SEEK_EVERY) {
            return;
        }
        ring.sought.insert(bucket, cx.now);
        // Next time somebody of the group itself can be asked.
        let members = ring.group_of(bucket).map(|group| group.members.clone()).unwrap_or_default();
        if !members.iter().any(|id| self.connected.contains(id))
            && let Some(member) = cx.rng.pick(&members).copied()
        {
            self.want(cx.now, member, out);
        }
        self.seek_position(cx, bucket.ring_start(self.config.buckets), out);
    }

    pub(crate) fn seek_position(&mut self, cx: &mut Cx<'_>, position: u64, out: &mut Out) {
        cx.marks.hit("node.seek.asked");
        let path = Vec::from([self.config.me.id]);
        self.hand_on(cx, position, path, out);
    }

    fn hand_on(&mut self, cx: &mut Cx<'_>, position: u64, path: Vec<NodeId>, out: &mut Out) {
        match self.next_hop(cx, position, &path) {
            // A question; nothing about this node's disk is told.
            Some(next) => out.send_early(next, Message::Group(Box::new(Word::Seek { position, path }))),
            None => cx.marks.hit("node.seek.stuck"),
        }
    }

    /// Who is nearer to a position than this node, or knows somebody who is.
    fn next_hop(&self, cx: &mut Cx<'_>, position: u64, path: &[NodeId]) -> Option<NodeId> {
        let ring = self.ring()?;
        let is_open = |id: &NodeId| self.connected.contains(id) && !path.contains(id);
        let bucket = Bucket::of_position(position, self.config.buckets);
        let open = |group: &Group| group.members.iter().copied().filter(is_open).collect::<Vec<NodeId>>();
        if let Some(next) = ring.group_of(bucket).and_then(|group| cx.rng.pick(&open(group)).copied()) {
            return Some(next);
        }
        let distance = |group: &Group| position.wrapping_sub(group.span.start);
        let own = ring.group_with(self.config.me.id).map_or(u64::MAX, distance);
        let nearer = ring.groups().filter(|group| distance(group) < own && group.members.iter().any(is_open));
        if let Some(group) = nearer.min_by_key(|group| distance(group)) {
            return cx.rng.pick(&open(group)).copied();
        }
        // Whoever knows of no group asks anybody.
        let anybody: Vec<NodeId> = self.connected.iter().copied().filter(is_open).collect();
        (own == u64::MAX).then(|| cx.rng.pick(&anybody).copied())?
    }

    /// Somebody looks for a position.
    pub(crate) fn on_seek(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        position: u64,
        mut path: Vec<NodeId>,
        out: &mut Out,
    ) {
        if path.last() != Some(&from) || path.len() > HOPS_MAX {
            return cx.marks.hit("node.seek.lost");
        }
        if let Some(found) = self.found(cx.now, position, &path) {
            cx.marks.hit("node.seek.found");
            // It is chosen: a quorum's disks have it.
            return out.send_early(from, Message::Group(Box::new(Word::Found(Box::new(found)))));
        }
        path.push(self.config.me.id);
        self.hand_on(cx, position, path, out);
    }

    /// Whoever asked this node about a bucket that it does not lead is told what it knows of those who might.
    pub(crate) fn correct(&self, now: Time, bucket: Bucket, asker: NodeId, out: &mut Out) {
        if self.ring().is_none() || self.takes_batches(bucket) {
            return;
        }
        let found = self.found(now, bucket.ring_start(self.config.buckets), &[asker]);
        let is_other = |found: &Found| found.led.is_some_and(|(_, _, leader)| leader != self.config.me.id);
        if let Some(found) = found.filter(is_other) {
            // It is chosen: a quorum's disks have it.
            out.send_early(asker, Message::Group(Box::new(Word::Found(Box::new(found)))));
        }
    }

    /// What this node knows of the group that holds a position, if it knows that well.
    fn found(&self, now: Time, position: u64, path: &[NodeId]) -> Option<Found> {
        let roster = self.roster.as_ref()?;
        let ring = roster.ring.as_ref()?;
        let bucket = Bucket::of_position(position, self.config.buckets);
        let group = ring.group_of(bucket)?;
        let is_own = self.replicas.get(&bucket).is_some_and(|replica| replica.log().is_member())
            && group.members.contains(&self.config.me.id);
        let is_fresh = roster.hint(bucket).is_some() && now.since(roster.hinted_at(bucket)) < LEADERLESS;
        if !is_own && !is_fresh {
            return None;
        }
        let home = ring.home(group);
        let seat = self.seat(home).filter(|seat| seat.stand().is_some());
        let seat = seat.or_else(|| ring.seats.get(&home).cloned())?;
        let members: BTreeSet<NodeId> =
            seat.groups().flat_map(|group| group.members.iter().copied()).collect();
        let people = members.into_iter().filter_map(|id| self.person(id)).collect();
        let led = self.leader_by_ballot(bucket).map(|(ballot, leader)| (bucket, ballot, leader));
        Some(Found {
            path: path.split_last().map(|(_, rest)| rest.to_vec()).unwrap_or_default(),
            home,
            seat,
            led,
            people,
        })
    }

    /// An answer has come, to this node or for another.
    pub(crate) fn on_found(&mut self, cx: &mut Cx<'_>, from: NodeId, mut found: Found, out: &mut Out) {
        let next = found.path.pop();
        if let Some(next) = next {
            // What is chosen.
            out.send_early(next, Message::Group(Box::new(Word::Found(Box::new(found.clone())))));
        }
        let Found { home, seat, led, people, .. } = found;
        self.on_people(people, out);
        self.on_seat(cx, (home, from), seat, &[], None, out);
        if let Some((bucket, ballot, leader)) = led {
            if next.is_none() {
                self.want(cx.now, leader, out);
            }
            self.on_leads_one(cx, bucket, (ballot, leader), false, out);
        }
    }

    /// Somebody is to be asked about a bucket that it leads: if no connection stands there, one is made, and perhaps somebody else leads by now.
    pub(crate) fn want_if_missing(&mut self, cx: &mut Cx<'_>, bucket: Bucket, leader: NodeId, out: &mut Out) {
        if self.ring().is_some() && !self.connected.contains(&leader) {
            self.want(cx.now, leader, out);
            self.seek(cx, bucket, out);
        }
    }

    /// A connection to somebody is of use.
    pub(crate) fn want(&mut self, now: Time, id: NodeId, out: &mut Out) {
        let is_missing = id != self.config.me.id && !self.connected.contains(&id);
        let Some(ring) = self.ring_mut() else { return };
        let is_new = ring.people.want(id, now);
        if is_missing && is_new {
            self.tell_peer_more(id, out);
        }
    }

    /// Looks for groups: for its own, if nothing is heard of it, and for others by chance.
    pub(crate) fn look_after_routes(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let (me, count) = (self.config.me.id, self.config.buckets);
        let Some(ring) = self.ring_mut() else { return };
        ring.forget_groups(me);
        ring.sought.retain(|_, at| cx.now.since(*at) < SEEK_EVERY);
        let knows_all = ring.knows_all();
        let explores = !knows_all && cx.now.since(ring.explored_at) >= EXPLORE_EVERY;
        if explores {
            ring.explored_at = cx.now;
        }
        let heard = |group: &Group| ring.heard.get(&group.name.id).copied().unwrap_or_default();
        let is_old = |group: &&Group| !ring.is_whole(group) || cx.now.since(heard(group)) >= OWN_EVERY;
        let lost = ring.groups_with(me).into_iter().find(is_old).and_then(|group| ring.a_bucket(group));
        if let Some(bucket) = lost.filter(|bucket| !self.takes_batches(*bucket)) {
            self.seek_position(cx, bucket.ring_start(count), out);
        }
        if explores {
            let position = cx.rng.next_u64();
            self.seek_position(cx, position, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_by_the_first_digit_of_the_distance() {
        assert_eq!(slot(0, 0x1000_0000_0000_0000), (0, 1));
        assert_eq!(slot(0x1000_0000_0000_0000, 0), (0, 15), "around the circle");
        assert_eq!(slot(0, 0x00a0_0000_0000_0000), (2, 10));
        assert_eq!(slot(5, 6), (15, 1));
        assert_eq!(slot(7, 7), (16, 0));
    }
}
