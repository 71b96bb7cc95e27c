//! What whoever speaks for a group does for it: looks what is due by the policies, and has it done by a transaction over the homes of
//! all groups concerned.
//!
//! The transaction compares what was known of the groups that change, and replaces it, so that it does not matter how old that knowledge
//! was, or how many others are at it. What comes too late has no effect, and is thought over again after a while.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use quorate_api::{Bucket, Outcome, Reply};
use quorate_groups::join::{Near, Place, one_too_many};
use quorate_groups::load::middle;
use quorate_groups::resilience::{Resize, resize};
use quorate_groups::{Edits, Group, GroupId, MEMBERS_MAX, Misfit, Operation, Seat, Stand};
use quorate_kernel::{Cx, NodeId, Time};
use quorate_shard::{Mutant, Note, Part};

use crate::admin::Asker;
use crate::deeds::{How, What};
use crate::interface::{AdminOutcome, ConnectionId, Ticket};
use crate::journal::Begun;
use crate::machine::{Node, Out};
use crate::motive::{Motive, SizeWanted};
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
    /// What an operator wants, and has not begun.
    pub(crate) wish: Option<(Asker, Wanted)>,
    /// The operator who wanted what is under way.
    asker: Option<Asker>,
    /// What is under way, as it was noted.
    begun: Vec<Begun>,
}

/// An operation that is due.
#[derive(Debug)]
pub(crate) struct Wanted {
    operation: Operation,
    /// What it is noted as, and why it is due. A change of members may be several at once.
    deeds: Vec<(What, Motive)>,
}

impl Effort {
    /// Whether an operation has begun and not ended.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Who waits for what is wanted or under way, and what is under way.
    pub(crate) fn left(self) -> (Option<Asker>, Vec<Begun>) {
        (self.asker.or(self.wish.map(|(asker, _)| asker)), self.begun)
    }
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
        if let Some((edits, deed)) = self.mending_due(cx.now, home) {
            let parts = self.parts(edits, &[]);
            // Broken rules may leave nothing of it.
            if !parts.is_empty() {
                cx.marks.hit("node.group.mended");
                return self.replace_notes(cx, home, parts, (Vec::from([deed]), None), out);
            }
        }
        let Some((seat, stand)) = self.seat(home).and_then(|seat| Some((seat.clone(), seat.stand()?))) else {
            return;
        };
        let wish = self.effort(home).and_then(|effort| effort.wish.take());
        let (asker, wanted) = wish.map_or((None, None), |(asker, wanted)| (Some(asker), Some(wanted)));
        let wanted = wanted.or_else(|| self.operation_due(cx, home, &stand));
        let Some(Wanted { operation, deeds }) = wanted else { return };
        let parts = match self.parts_of(cx, &operation, &stand, seat) {
            Ok(parts) => parts,
            Err(why) => {
                self.dismiss(cx, deeds, &why);
                let outcome = AdminOutcome::Refused(why);
                return asker.into_iter().for_each(|asker| self.admin_ended(asker, outcome.clone(), out));
            }
        };
        cx.marks.hit(mark_of(&operation));
        self.replace_notes(cx, home, parts, (deeds, asker), out);
    }

    /// Begins what is to be replaced at homes, for the group that has its home at one of them, or should have.
    fn replace_notes(
        &mut self,
        cx: &mut Cx<'_>,
        home: Bucket,
        parts: BTreeMap<Bucket, Part>,
        (deeds, asker): (Vec<(What, Motive)>, Option<Asker>),
        out: &mut Out,
    ) {
        let (now, wall) = (cx.now, cx.wall);
        let Some(ring) = self.ring_mut() else { return };
        let noted = deeds.into_iter().map(|(what, motive)| ring.journal.begin((now, wall), what, motive));
        let begun = noted.collect();
        let Some(effort) = ring.efforts.get_mut(&home) else { return };
        (effort.under_way, effort.asker, effort.begun) = (true, asker, begun);
        let plan = Plan { parts, whole: Whole::All(Vec::new()) };
        let address = (OWN, Ticket(home.0.into()));
        self.transactions.take(address, (plan, false), (0, cx.wall.unix_ms, cx.now));
        self.send_transactions(cx, out);
    }

    /// An operation of a group has ended.
    pub(crate) fn governed(&mut self, cx: &mut Cx<'_>, home: Bucket, outcome: &Outcome, out: &mut Out) {
        let done = matches!(outcome, Outcome::Done(reply) if *reply != Reply::NilArray);
        cx.marks.hit(if done { "node.group.changed" } else { "node.group.kept" });
        let (chance, now) = (cx.rng.next_u64(), cx.now);
        let Some(effort) = self.effort(home) else { return };
        effort.under_way = false;
        let (asker, begun) = (effort.asker.take(), core::mem::take(&mut effort.begun));
        effort.failures = if done { 0 } else { (effort.failures + 1).min(BACK_OFF_DOUBLINGS) };
        let most = BACK_OFF * (1 << effort.failures);
        let rest = Duration::from_micros(chance % most.as_micros() as u64);
        effort.not_before = now + LOOK_EVERY + rest;
        let outcome = match outcome {
            _ if done => AdminOutcome::Done,
            Outcome::Unknown => AdminOutcome::Unknown("its end was not seen: look at the groups".into()),
            _ => {
                AdminOutcome::Refused("the groups have changed meanwhile: look at them and try again".into())
            }
        };
        if let Some(ring) = self.ring_mut() {
            let how = match &outcome {
                AdminOutcome::Done => How::Done,
                AdminOutcome::Refused(_) => How::GivenUp("the groups had changed meanwhile".into()),
                AdminOutcome::Unknown(_) => How::Unseen("the time ran out".into()),
            };
            begun.into_iter().for_each(|begun| ring.journal.end(now, begun, how.clone()));
        }
        asker.into_iter().for_each(|asker| self.admin_ended(asker, outcome.clone(), out));
    }

    /// What could not be begun.
    fn dismiss(&mut self, cx: &Cx<'_>, deeds: Vec<(What, Motive)>, why: &str) {
        let Some(ring) = self.ring_mut() else { return };
        for (what, motive) in deeds {
            ring.journal.remark(cx.wall, what, motive, How::GivenUp(why.into()));
        }
    }

    fn effort(&mut self, home: Bucket) -> Option<&mut Effort> {
        self.ring_mut()?.efforts.get_mut(&home)
    }

    /// What should become of a group, by the policies.
    fn operation_due(&mut self, cx: &mut Cx<'_>, home: Bucket, stand: &Stand) -> Option<Wanted> {
        let group = &stand.group;
        let size = self.size_wanted();
        let (wanted, staying) = self.members_change(cx, home, group, size)?;
        if wanted.is_some() {
            return wanted;
        }
        // What was recovered by others than its members never has them.
        let is_lost = group.members.iter().all(|id| self.is_gone(*id, cx.now));
        if !self.is_settled(group) && !is_lost {
            return None;
        }
        let alone = stand.before.name.id == group.name.id;
        let neighbours = (!alone).then_some((stand.before.members.len(), stand.after.members.len()));
        let id = group.name.id;
        let mut name = || draw_name(cx);
        let here_alone = || self.members_here_alone(group);
        let operation = match resize(staying, here_alone, neighbours, size.sizes()) {
            Some(Resize::MergeBefore) => {
                Some(Operation::Merge { left: stand.before.name.id, right: id, name: name() })
            }
            Some(Resize::MergeAfter) => {
                Some(Operation::Merge { left: id, right: stand.after.name.id, name: name() })
            }
            Some(Resize::Split) => {
                let names = [name(), name()];
                let border = self.middle_of(group)?;
                let (first, _) = self.halves_of(group);
                Some(Operation::Split { group: id, border, first, names })
            }
            None => {
                let moves_borders = !alone && self.policies_of(group).moves_borders;
                let border = || if moves_borders { self.border_due(cx.now, stand) } else { None };
                let (operation, motive) = self.surplus_due(cx.now, stand, size).or_else(border)?;
                return Some(self.wanted(operation, motive));
            }
        };
        Some(self.wanted(operation?, Motive::Size { members: staying, size }))
    }

    /// How many members of a group are in no other one, as far as is known.
    fn members_here_alone(&self, group: &Group) -> usize {
        let Some(ring) = self.ring() else { return 0 };
        let is_alone =
            |id: &&NodeId| ring.groups_with(**id).into_iter().filter(|it| ring.is_whole(it)).count() < 2;
        group.members.iter().filter(is_alone).count()
    }

    /// An operation that changes more than members, and why it is due.
    pub(crate) fn wanted(&self, operation: Operation, motive: Motive) -> Wanted {
        let changed = operation.changed();
        let groups = self.groups();
        let members = groups.into_iter().filter(|group| changed.contains(&group.name.id));
        let members: Vec<NodeId> = members.flat_map(|group| group.members.iter().copied()).collect();
        let bucket = |border| Bucket::of_position(border, self.config.buckets);
        let what = What::of(&operation, &members, bucket);
        Wanted { operation, deeds: what.map(|what| (what, motive)).into_iter().collect() }
    }

    /// Who is to leave a group and to join it; and how many of its members are not to leave.
    fn members_change(
        &mut self,
        cx: &mut Cx<'_>,
        home: Bucket,
        group: &Group,
        size: SizeWanted,
    ) -> Option<(Option<Wanted>, usize)> {
        let (me, repair_after) = (self.config.me.id, self.config.repair_after());
        // Whoever is let go by mistake comes back.
        let all_gone: Vec<NodeId> =
            group.members.iter().copied().filter(|id| self.is_gone(*id, cx.now)).collect();
        let beside = self.one_too_many(group, size);
        let room = self.members_most(size);
        let ring = self.roster.as_mut()?.ring.as_mut()?;
        let is_gone = |id: &NodeId| all_gone.contains(id);
        // It knows best itself: what is known here of other groups may be old.
        let wants_out = |id: &NodeId| ring.leavers.get(&(home, *id)).copied();
        let (mut gone, mut emptied, mut twice) = (Vec::new(), Vec::new(), Vec::new());
        for id in &group.members {
            match wants_out(id) {
                _ if is_gone(id) => gone.push(*id),
                Some(true) => twice.push(*id),
                Some(false) => emptied.push(*id),
                None => {}
            }
        }
        // One at a time, and not while others are missed.
        let is_calm = gone.is_empty() && emptied.is_empty() && twice.is_empty();
        let beside: Vec<NodeId> = beside.filter(|_| is_calm).into_iter().collect();
        let missed =
            gone.iter().filter_map(|id| ring.missing.get(id)).map(|since| cx.now.since(*since)).min();
        let remove = [&gone[..], &emptied, &twice, &beside].concat();
        let staying = group.members.len() - remove.len();
        let room = room.saturating_sub(staying).min(MEMBERS_MAX - group.members.len());
        let asked = ring.joiners.range((home, NodeId(0))..=(home, NodeId(u64::MAX))).map(|(_, id)| *id);
        // It says that it is in no group, and knows best, as above.
        let is_there =
            |id: &NodeId| *id == me || (self.connected.contains(id) && ring.people.get(*id).is_some());
        let is_new = |id: &NodeId| !group.members.contains(id);
        let add: Vec<NodeId> = asked.filter(is_there).filter(is_new).take(room).collect();
        ring.joiners.retain(|(other, _)| *other != home);
        ring.leavers.retain(|(other, _), _| *other != home);
        let is_change = !(add.is_empty() && remove.is_empty());
        // A group that all want to leave finds others first.
        let is_possible = is_change && staying + add.len() > 0;
        let (group, members) = (group.name.id, group.members.len());
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let gone_for =
            Motive::Gone { missing_ms: ms(missed.unwrap_or_default()), repair_ms: ms(repair_after) };
        let mut deeds = Vec::from([
            (What::Failure { group, nodes: gone }, gone_for),
            (What::Leave { group, nodes: emptied }, Motive::Emptied),
            (What::Leave { group, nodes: twice }, Motive::Twice),
            (What::Leave { group, nodes: beside }, Motive::Beside { members, size }),
            (What::Join { group, nodes: add.clone() }, Motive::Wants { members, size }),
        ]);
        deeds.retain(|(what, _)| !what.nodes().is_empty());
        let operation = Operation::Members { group, add, remove };
        Some((is_possible.then_some(Wanted { operation, deeds }), staying))
    }

    /// A member that goes where nobody shares its machine: its group has enough without it, and one with room has nobody there.
    fn one_too_many(&self, group: &Group, size: SizeWanted) -> Option<NodeId> {
        let is_allowed = !self.config.limits.breaks(Mutant::MachineShared);
        // What is to split spreads its members in doing so.
        let splits = group.members.len() > size.most && self.middle_of(group).is_some();
        let may_shrink = group.members.len() > size.least && !splits;
        if !(is_allowed && may_shrink && self.is_settled(group)) {
            return None;
        }
        let is_known = |group: &Group| group.members.iter().all(|id| self.person(*id).is_some());
        let id = one_too_many(&self.places_of(group)).filter(|_| is_known(group))?;
        let (place, ring) = (self.place_of(id), self.ring()?);
        let is_apart = |other: &Group| {
            let all: Vec<_> = other.members.iter().map(|id| self.place_of(*id)).collect();
            is_known(other) && Near::count(&place, &all).host == 0
        };
        let has_room = |other: &&Group| other.members.len() <= size.most && ring.is_whole(other);
        ring.groups().filter(has_room).any(is_apart).then_some(id)
    }

    /// Where the members of a group stand.
    pub(crate) fn places_of(&self, group: &Group) -> Vec<(NodeId, Place<bytes::Bytes>)> {
        group.members.iter().map(|id| (*id, self.place_of(*id))).collect()
    }

    /// Where a group should be split; none if it has one bucket.
    pub(crate) fn middle_of(&self, group: &Group) -> Option<u64> {
        middle(&self.pieces_of(group))
    }

    /// What an operation is at each of the homes concerned.
    ///
    /// # Errors
    /// If it makes no sense by what is known, or too little is: why, and what an operator can do.
    fn parts_of(
        &self,
        cx: &mut Cx<'_>,
        operation: &Operation,
        stand: &Stand,
        seat: Seat,
    ) -> Result<BTreeMap<Bucket, Part>, String> {
        let ring = self.ring().ok_or("the nodes of this cluster form no groups")?;
        let mut seats = Vec::new();
        for id in operation.changed() {
            if id == stand.group.name.id {
                seats.push(seat.clone());
                continue;
            }
            let beside = [&stand.before, &stand.after].into_iter().find(|group| group.name.id == id);
            let other = beside.or_else(|| ring.groups().find(|group| group.name.id == id));
            let other = other.and_then(|other| ring.seats.get(&ring.home(other)));
            seats.push(other.ok_or_else(|| refusal(Misfit::Unknown(id)))?.clone());
        }
        let fresh = match operation
            .new_home(&seats)
            .map(|home| Bucket::of_position(home, self.config.buckets))
        {
            // Whoever has no copy does not know what is there.
            Some(home) if !self.replicas.contains_key(&home) => {
                return Err(format!(
                    "the new border is at bucket {}, of which node {}, which speaks for the group, has no copy yet: try again \
                         once `quorate groups` shows that the group has it",
                    home.0, self.config.me.id,
                ));
            }
            Some(home) => self.seat(home).unwrap_or_default(),
            None => Seat::default(),
        };
        match operation.edits(&seats, &fresh) {
            Ok(edits) => {
                let changed: Vec<Group> = seats.iter().filter_map(|seat| Some(seat.stand()?.group)).collect();
                Ok(self.parts(edits, &changed))
            }
            Err(misfit) => {
                cx.marks.hit("node.group.misfit");
                Err(refusal(misfit))
            }
        }
    }

    fn parts(&self, mut edits: Edits, changed: &[Group]) -> BTreeMap<Bucket, Part> {
        self.break_rules(&mut edits, changed);
        let mut parts: BTreeMap<Bucket, Part> = BTreeMap::new();
        for ((home, which), edit) in edits {
            let content = note_content(&edit.line);
            let note = Note { name: note_name(which), on: edit.on, number: edit.line.number, content };
            parts.entry(Bucket::of_position(home, self.config.buckets)).or_default().notes.push(note);
        }
        parts
    }

    /// For mutants.
    fn break_rules(&self, edits: &mut Edits, changed: &[Group]) {
        let limits = &self.config.limits;
        let is_own = |home: u64| changed.iter().any(|group| group.span.start == home);
        if limits.breaks(Mutant::NeighboursUntold) {
            edits.retain(|(home, _), edit| is_own(*home) || edit.on == 0);
        }
        if limits.breaks(Mutant::HomesKept) {
            edits.retain(|_, edit| edit.line.group.is_some());
        }
        for edit in edits.values_mut() {
            let Some(group) = edit.line.group.as_mut().map(Arc::make_mut) else { continue };
            if limits.breaks(Mutant::EpochsRestart) {
                group.name.epoch = 1;
            }
            if limits.breaks(Mutant::SpansOverlap)
                && let Some(old) = changed.iter().find(|old| old.name.id == group.name.id)
            {
                group.span.end = old.span.end;
            }
        }
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

/// What an operator is told whose operation makes no sense.
fn refusal(misfit: Misfit) -> String {
    let advice = match misfit {
        // Whoever speaks for it tells what it is twice a second; whoever knows nothing of it looks for it.
        Misfit::Contradiction(_) | Misfit::Unknown(_) => "wait a second and try again",
        Misfit::NotNeighbours(..) | Misfit::Border(_) => "`quorate groups` shows where groups begin and end",
        Misfit::Member(_) | Misfit::NoMember(_) | Misfit::Members => {
            "`quorate groups` shows who is a member of which"
        }
        Misfit::Nothing => "nothing is to be done",
        Misfit::NameTaken(_) => "try again",
    };
    format!("{misfit}; {advice}")
}

/// A name that no other group has. 53 bits, so that it survives tools that read JSON numbers as floating point.
pub(crate) fn draw_name(cx: &mut Cx<'_>) -> GroupId {
    GroupId(cx.rng.next_u64() >> 11)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn operators_are_told_why_an_operation_makes_no_sense_and_what_to_do() {
        let node = fixture::node(9, &[]);
        let seat = Seat::founded(Group::founded([1, 2, 3].map(NodeId).into()));
        let stand = seat.stand().unwrap();
        let (id, unknown) = (stand.group.name.id, GroupId(99));
        let why = |operation: Operation| {
            fixture::at(Time(1), |cx, _| node.parts_of(cx, &operation, &stand, seat.clone()).unwrap_err())
        };
        let twice = Operation::Members { group: id, add: [NodeId(2)].into(), remove: Vec::new() };
        assert!(why(twice).starts_with("node 2 is a member already; `quorate groups` shows"));
        let alone = Operation::Merge { left: id, right: id, name: GroupId(5) };
        assert!(why(alone).contains("does not follow"));
        let nobody = why(Operation::Migrate { node: NodeId(2), from: id, to: unknown });
        assert!(nobody.starts_with("nothing is known of group"), "{nobody}");
        let border = Bucket(4).ring_start(fixture::BUCKETS);
        let split =
            Operation::Split { group: id, border, first: [NodeId(1)].into(), names: [7, 8].map(GroupId) };
        let no_copy = why(split);
        assert!(no_copy.contains("bucket 4, of which node 9") && no_copy.contains("try again"), "{no_copy}");
    }
}
