//! What operators ask of groups, in topology `ring`: to split, to merge, to move a border or a node, and to empty a node before it is stopped.
//!
//! Whoever speaks for the group that changes carries it out, as if a policy had wanted it. The policies go on: a group that is made too large by
//! hand splits again.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_groups::{Group, GroupId, Operation};
use quorate_kernel::{Cx, NodeId};

use crate::admin::{ADMIN_DEADLINE, Asker};
use crate::govern::draw_name;
use crate::interface::{AdminOutcome, AdminRequest, GroupRequest, GroupStatus, Ticket};
use crate::machine::{Node, Out};
use crate::message::Message;
use crate::motive::Motive;
use crate::ring::Ring;

/// Why nobody sets the number of copies, and what does.
const SIZES: &str = "groups look after the number of their members by themselves, around the number of copies that the cluster was founded \
                     with: nodes that are started with cluster.nines make theirs as large as so many nines of availability take";

impl Ring {
    fn named(&self, id: GroupId) -> Result<&Group, String> {
        let found = self.groups().find(|group| group.name.id == id);
        found.ok_or_else(|| {
            format!("there is no group {id:?}, as far as this node knows: `quorate groups` lists them")
        })
    }

    /// The group whose span begins where that of this one ends, or the other way round.
    fn beside(&self, group: &Group, after: bool) -> Result<&Group, String> {
        let follows = |left: &Group, right: &Group| left.span.end == right.span.start;
        let is_it = |other: &&Group| if after { follows(group, other) } else { follows(other, group) };
        let found = self.groups().find(is_it).filter(|other| other.name.id != group.name.id);
        found.ok_or_else(|| format!("group {:?} has no neighbour there", group.name.id))
    }

    /// The group of which the leader of its home carries a request out.
    fn charge_of(&self, request: &GroupRequest) -> Result<&Group, String> {
        match request {
            GroupRequest::Split { group } | GroupRequest::Merge { group } => self.named(*group),
            GroupRequest::Move { node, .. } => self
                .group_with(*node)
                .ok_or_else(|| format!("node {node} is in no group, as far as this node knows")),
            // Whoever gives something away knows what is at the border that comes.
            GroupRequest::Repartition { group, slot } => {
                let group = self.named(*group)?;
                let border = Bucket::of_slot(*slot, self.count).ring_start(self.count);
                if group.span.contains(border) { Ok(group) } else { self.beside(group, false) }
            }
        }
    }
}

impl Node {
    /// An operator asks something of a group, or of a node that is in one.
    pub(crate) fn ask_of_groups(
        &mut self,
        cx: &mut Cx<'_>,
        ticket: Ticket,
        request: AdminRequest,
        out: &mut Out,
    ) {
        let to = match self.in_charge(&request) {
            Ok(to) => to,
            Err(why) => return Node::admin_refused(ticket, &why, out),
        };
        if to == self.config.me.id {
            return self.carry_out_of_groups(cx, Asker::Here(ticket), request, out);
        }
        let id = self.next_ticket();
        self.handed_on.insert(id, (ticket, to, cx.now + ADMIN_DEADLINE));
        // A question; nothing about this node's disk is told.
        out.send_early(to, Message::Admin { id, request });
    }

    /// Who carries out what an operator asks.
    fn in_charge(&self, request: &AdminRequest) -> Result<NodeId, String> {
        let ring = self
            .ring()
            .ok_or("the nodes of this cluster form no groups: start a cluster with --topology ring")?;
        match request {
            AdminRequest::Group(request) => {
                let group = ring.charge_of(request)?;
                let none = || format!("nobody speaks for group {:?} just now: try again", group.name.id);
                self.believed_leader(ring.home(group)).ok_or_else(none)
            }
            AdminRequest::ChangeMembers { add, remove } => {
                let nodes: Vec<NodeId> =
                    add.iter().map(|member| member.id).chain(remove.iter().copied()).collect();
                let [node] = nodes[..] else { return Err("name one node at a time".into()) };
                let is_there = node == self.config.me.id || self.connected.contains(&node);
                let none = || {
                    format!("node {node} cannot be reached; a group lets go by itself of who is not there")
                };
                is_there.then_some(node).ok_or_else(none)
            }
            _ => Err(SIZES.into()),
        }
    }

    /// Carries it out, or refuses it.
    pub(crate) fn carry_out_of_groups(
        &mut self,
        cx: &mut Cx<'_>,
        asker: Asker,
        request: AdminRequest,
        out: &mut Out,
    ) {
        let refusal = match request {
            AdminRequest::Group(request) => self.wish_of_group(cx, asker, &request).err(),
            AdminRequest::ChangeMembers { remove, .. } => self.drain(asker, !remove.is_empty(), out).err(),
            _ => Some(SIZES.into()),
        };
        if let Some(why) = refusal {
            self.admin_ended(asker, AdminOutcome::Refused(why), out);
        }
    }

    fn wish_of_group(&mut self, cx: &mut Cx<'_>, asker: Asker, request: &GroupRequest) -> Result<(), String> {
        let ring = self.ring().ok_or("the nodes of this cluster form no groups")?;
        let group = ring.charge_of(request)?;
        let (home, id) = (ring.home(group), group.name.id);
        if !self.takes_batches(home) {
            return Err("whoever speaks for the group has just changed: try again".into());
        }
        let mut name = || draw_name(cx);
        let operation = match request {
            GroupRequest::Split { .. } => {
                let border = self.middle_of(group).ok_or("a group that holds one bucket cannot be split")?;
                let (first, _) = self.halves_of(group);
                Operation::Split { group: id, border, first, names: [name(), name()] }
            }
            GroupRequest::Merge { .. } => {
                Operation::Merge { left: id, right: ring.beside(group, true)?.name.id, name: name() }
            }
            GroupRequest::Move { node, to } => Operation::Migrate { node: *node, from: id, to: *to },
            GroupRequest::Repartition { group: which, slot } => {
                let right = ring.named(*which)?;
                let left = ring.beside(right, false)?.name.id;
                let border = Bucket::of_slot(*slot, ring.count).ring_start(ring.count);
                Operation::Repartition { left, right: *which, border }
            }
        };
        let wanted = self.wanted(operation, Motive::Asked);
        let effort = self.ring_mut().map(|ring| ring.efforts.entry(home).or_default());
        match effort {
            Some(effort) if effort.wish.is_none() => effort.wish = Some((asker, wanted)),
            _ => return Err("another operation was asked for: try again".into()),
        }
        Ok(())
    }

    /// Has this node leave its group and hold nothing, or lets it ask for a group again.
    fn drain(&mut self, asker: Asker, leaves: bool, out: &mut Out) -> Result<(), String> {
        let me = self.config.me.id;
        let ring = self.ring_mut().ok_or("the nodes of this cluster form no groups")?;
        let is_last =
            ring.group_with(me).is_some_and(|group| group.members.len() == 1) && ring.groups().count() == 1;
        if leaves && is_last {
            return Err("no node would be left to hold anything".into());
        }
        ring.drained = leaves;
        if leaves {
            // Whoever asks again has given up waiting.
            if let Some(before) = ring.drained_for.replace(asker) {
                let outcome = AdminOutcome::Unknown("it was asked for again, and that is answered".into());
                self.admin_ended(before, outcome, out);
            }
        } else {
            if let Some(before) = ring.drained_for.take() {
                self.admin_ended(before, AdminOutcome::Refused("a later change undid this one".into()), out);
            }
            self.admin_ended(asker, AdminOutcome::Done, out);
        }
        Ok(())
    }

    /// Says so when this node holds nothing any more.
    pub(crate) fn look_whether_drained(&mut self, out: &mut Out) {
        let (me, holds) =
            (self.config.me.id, self.replicas.values().any(|replica| replica.log().is_member()));
        let Some(ring) = self.ring_mut() else { return };
        if ring.drained
            && ring.group_with(me).is_none()
            && !holds
            && let Some(asker) = ring.drained_for.take()
        {
            self.admin_ended(asker, AdminOutcome::Done, out);
        }
    }

    /// The groups of the ring, for operators.
    pub(crate) fn group_statuses(&self) -> Vec<GroupStatus> {
        let Some(ring) = self.ring() else { return Vec::new() };
        let status = |group: &Group| {
            let buckets = ring.buckets(group);
            GroupStatus {
                id: group.name.id,
                epoch: group.name.epoch,
                load: buckets.iter().map(|bucket| ring.load_of(*bucket) as u64).sum(),
                members: group.members.clone(),
                speaker: self.believed_leader(ring.home(group)),
                quorum: buckets.iter().all(|bucket| self.is_led(*bucket)),
                settled: self.settled(group),
                buckets,
            }
        };
        ring.groups().map(status).collect()
    }

    /// Whether all buckets of a group are where it is, if this node can know.
    fn settled(&self, group: &Group) -> Option<bool> {
        group.members.contains(&self.config.me.id).then(|| self.is_settled(group))
    }
}
