//! What whoever speaks for a group does for it: looks what is due by the policies, and has it done by a transaction over the homes of
//! all groups concerned.
//!
//! The transaction compares what was known of the groups that change, and replaces it, so that it does not matter how old that knowledge
//! was, or how many others are at it. What comes too late has no effect, and is thought over again after a while.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Bucket, Outcome, Reply};
use quorate_groups::join::{Place, halves};
use quorate_groups::load::{Shard as Piece, middle};
use quorate_groups::resilience::{Resize, Sizes, resize};
use quorate_groups::{Edits, Group, GroupId, MEMBERS_MAX, Operation, Seat, Stand};
use quorate_kernel::{Cx, NodeId, Time};
use quorate_shard::{Note, Part};

use crate::interface::{ConnectionId, Ticket};
use crate::machine::{Node, Out};
use crate::plan::{Plan, Whole};
use crate::ring::{note_content, note_name};

/// No client's: what ends for it was asked by this node itself, and its ticket is the home of the group for which it was.
pub(crate) const OWN: ConnectionId = ConnectionId(u64::MAX);
/// Between two looks at what is due, at least.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// After an operation that had no effect the next waits for up to so long, then twice as long, and so on.
const BACK_OFF: Duration = Duration::from_millis(200);
/// No longer than this, doubled so often.
const BACK_OFF_DOUBLINGS: u32 = 5;

/// How the operations of a group go.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    under_way: bool,
    not_before: Time,
    failures: u32,
}

impl Node {
    /// Does what is due for the group whose home is led here.
    pub(crate) fn govern(&mut self, cx: &mut Cx<'_>, home: Bucket, out: &mut Out) {
        let Some(ring) = self.ring_mut() else { return };
        let effort = ring.efforts.entry(home).or_default();
        if effort.under_way || cx.now < effort.not_before {
            return;
        }
        effort.not_before = cx.now + LOOK_EVERY;
        let Some(seat) = self.seat(home) else { return };
        let Some(stand) = seat.stand() else { return };
        let Some(operation) = self.operation_due(cx, home, &stand) else { return };
        let Some(parts) = self.parts_of(cx, &operation, &stand, seat) else { return };
        cx.marks.hit(mark_of(&operation));
        let Some(effort) = self.ring_mut().and_then(|ring| ring.efforts.get_mut(&home)) else { return };
        effort.under_way = true;
        let plan = Plan { parts, whole: Whole::All(Vec::new()) };
        let address = (OWN, Ticket(home.0.into()));
        self.transactions.take(address, plan, 0, cx.wall.unix_ms, cx.now);
        self.send_transactions(cx, out);
    }

    /// An operation of a group has ended.
    pub(crate) fn governed(&mut self, cx: &mut Cx<'_>, home: Bucket, outcome: &Outcome) {
        let done = matches!(outcome, Outcome::Done(reply) if *reply != Reply::NilArray);
        cx.marks.hit(if done { "node.group.changed" } else { "node.group.kept" });
        let Some(effort) = self.ring_mut().and_then(|ring| ring.efforts.get_mut(&home)) else { return };
        effort.under_way = false;
        effort.failures = if done { 0 } else { (effort.failures + 1).min(BACK_OFF_DOUBLINGS) };
        let most = BACK_OFF * (1 << effort.failures);
        let rest = Duration::from_micros(cx.rng.between(0, most.as_micros() as u64));
        effort.not_before = cx.now + LOOK_EVERY + rest;
    }

    /// What should become of a group, by the policies.
    fn operation_due(&mut self, cx: &mut Cx<'_>, home: Bucket, stand: &Stand) -> Option<Operation> {
        let group = &stand.group;
        if let Some(operation) = self.members_change(cx, home, group) {
            return Some(operation);
        }
        if !self.is_settled(group) {
            return None;
        }
        let alone = stand.before.name.id == group.name.id;
        let neighbours = (!alone).then(|| (stand.before.members.len(), stand.after.members.len()));
        let sizes = Sizes::around(self.config.copies.into());
        let id = group.name.id;
        let mut name = || GroupId(cx.rng.next_u64());
        match resize(group.members.len(), neighbours, sizes)? {
            Resize::MergeBefore => {
                Some(Operation::Merge { left: stand.before.name.id, right: id, name: name() })
            }
            Resize::MergeAfter => {
                Some(Operation::Merge { left: id, right: stand.after.name.id, name: name() })
            }
            Resize::Split => {
                let names = [name(), name()];
                let border = self.middle_of(group)?;
                let (first, _) = halves(&self.places_of(group));
                Some(Operation::Split { group: id, border, first, names })
            }
        }
    }

    /// Who is to leave a group and to join it.
    fn members_change(&mut self, cx: &mut Cx<'_>, home: Bucket, group: &Group) -> Option<Operation> {
        let repair_after = self.config.placing.repair_after;
        let roster = self.roster.as_mut()?;
        let view = roster.membership.view()?;
        let ring = roster.ring.as_mut()?;
        for id in &group.members {
            match view.has(*id) {
                true => drop(ring.missing.remove(id)),
                false => drop(ring.missing.entry(*id).or_insert(cx.now)),
            }
        }
        let is_gone =
            |id: &NodeId| ring.missing.get(id).is_some_and(|since| cx.now.since(*since) >= repair_after);
        // A node that asked one group after the other may be in two: the larger lets it go.
        let key = |group: &Group| (group.members.len(), group.name.id);
        let is_twice = |id: &NodeId| {
            let others = ring.groups().into_iter().filter(|other| other.name.id != group.name.id);
            others.filter(|other| other.members.contains(id)).any(|other| key(other) < key(group))
        };
        let leaves = |id: &NodeId| is_gone(id) || is_twice(id);
        let remove: Vec<NodeId> = group.members.iter().copied().filter(leaves).collect();
        let room = MEMBERS_MAX - group.members.len();
        let asked = ring.joiners.range((home, NodeId(0))..=(home, NodeId(u64::MAX))).map(|(_, id)| *id);
        let is_free = |id: &NodeId| view.has(*id) && ring.group_with(*id).is_none();
        let add: Vec<NodeId> = asked.filter(is_free).take(room).collect();
        ring.joiners.retain(|(other, _)| *other != home);
        let is_change = !(add.is_empty() && remove.is_empty());
        let leaves_some = remove.len() < group.members.len();
        (is_change && leaves_some).then(|| Operation::Members { group: group.name.id, add, remove })
    }

    /// Where the members of a group stand.
    fn places_of(&self, group: &Group) -> Vec<(NodeId, Place<bytes::Bytes>)> {
        let place = |id: &NodeId| self.roster.as_ref().map(|roster| (*id, roster.place_of(*id)));
        group.members.iter().filter_map(place).collect()
    }

    /// Where a group should be split; none if it has one bucket.
    fn middle_of(&self, group: &Group) -> Option<u64> {
        let buckets = self.ring()?.buckets(group).into_iter();
        let piece = |bucket: Bucket| Piece { start: bucket.ring_start(self.config.buckets), load: 0.0 };
        middle(&buckets.map(piece).collect::<Vec<_>>())
    }

    /// What an operation is at each of the homes concerned; none if it makes no sense by what is known, or too little is.
    fn parts_of(
        &self,
        cx: &mut Cx<'_>,
        operation: &Operation,
        stand: &Stand,
        seat: Seat,
    ) -> Option<BTreeMap<Bucket, Part>> {
        let ring = self.ring()?;
        let mut seats = Vec::new();
        for id in operation.changed() {
            let other = [&stand.before, &stand.after].into_iter().find(|group| group.name.id == id);
            match other.filter(|_| id != stand.group.name.id) {
                None => seats.push(seat.clone()),
                Some(other) => seats.push(ring.seats.get(&ring.home(other))?.clone()),
            }
        }
        let fresh =
            match operation.new_home(&seats).map(|home| Bucket::of_position(home, self.config.buckets)) {
                // Whoever has no copy does not know what is there.
                Some(home) if !self.replicas.contains_key(&home) => return None,
                Some(home) => self.seat(home).unwrap_or_default(),
                None => Seat::default(),
            };
        match operation.edits(&seats, &fresh) {
            Ok(edits) => Some(self.parts(&edits)),
            Err(_) => {
                cx.marks.hit("node.group.misfit");
                None
            }
        }
    }

    fn parts(&self, edits: &Edits) -> BTreeMap<Bucket, Part> {
        let mut parts: BTreeMap<Bucket, Part> = BTreeMap::new();
        for ((home, which), edit) in edits {
            let content = note_content(edit.group.as_ref());
            let note = Note { name: note_name(*which), on: edit.on, number: edit.number, content };
            parts.entry(Bucket::of_position(*home, self.config.buckets)).or_default().notes.push(note);
        }
        parts
    }
}

fn mark_of(operation: &Operation) -> &'static str {
    match operation {
        Operation::Members { .. } => "node.group.members",
        Operation::Split { .. } => "node.group.split",
        Operation::Merge { .. } => "node.group.merge",
        Operation::Repartition { .. } => "node.group.repartition",
        Operation::Migrate { .. } => "node.group.migrate",
    }
}
