//! Operators' wishes where buckets are placed: which nodes are to hold copies, and which none, before they are stopped.

use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_buckets::Placement;
use quorate_kernel::{Cx, NodeId};

use crate::admin::Asker;
use crate::interface::AdminOutcome;
use crate::machine::{Node, Out};
use crate::placing::Charter;

/// Wishes that are looked after at the same time; more are refused.
const WISHES_MAX: usize = 64;

/// What an operator wants.
#[derive(Debug)]
pub(crate) struct Wish {
    asker: Asker,
    /// Nodes that are to hold copies again.
    add: Vec<NodeId>,
    /// Nodes that are to hold none.
    remove: Vec<NodeId>,
}

impl Wish {
    /// Makes it part of a charter, as far as it is not.
    pub(crate) fn enter(&self, charter: &mut Charter, capacity_of: impl Fn(NodeId) -> u32) {
        let wanted = self.add.iter().map(|id| (*id, capacity_of(*id)));
        for (id, capacity) in wanted.chain(self.remove.iter().map(|id| (*id, 0))) {
            if charter.placement.node(id).is_some_and(|node| node.capacity != capacity) {
                // It is a node of the placement.
                let _ = charter.placement.set_capacity(id, capacity);
            }
        }
    }

    /// Gives up what a later wish wants otherwise; whether nothing is left.
    fn is_undone(&mut self, add: &[NodeId], remove: &[NodeId]) -> bool {
        self.add.retain(|id| !remove.contains(id));
        self.remove.retain(|id| !add.contains(id));
        self.add.is_empty() && self.remove.is_empty()
    }

    /// Whether nobody holds what it should not any more.
    fn is_true(&self, placement: &Placement) -> bool {
        let count = placement.bucket_count().get();
        let holds = |id: &NodeId| {
            (0..count).map(Bucket).any(|bucket| {
                placement.members(bucket).contains(id) || placement.reported(bucket).1.contains(id)
            })
        };
        let capacity = |id: &NodeId| placement.node(*id).map(|node| node.capacity);
        let is_empty = |id: &NodeId| capacity(id).is_none_or(|capacity| capacity == 0 && !holds(id));
        self.remove.iter().all(is_empty) && self.add.iter().all(|id| capacity(id) != Some(0))
    }
}

impl Node {
    /// Takes an operator's wish, as the leader of bucket 0: copies move away from some nodes, others may hold some again.
    pub(crate) fn change_holders(
        &mut self,
        asker: Asker,
        add: Vec<NodeId>,
        remove: Vec<NodeId>,
        out: &mut Out,
    ) {
        let refused = |why: &str| AdminOutcome::Refused(why.into());
        let Some(roster) = &mut self.roster else { return };
        let is_there = |id: NodeId| roster.member(id).is_some();
        let placement = roster.charter.as_ref().map(|charter| &charter.placement);
        let stays = |placement: &Placement| {
            let able = |id: NodeId, capacity: u32| capacity > 0 || add.contains(&id);
            placement.nodes().iter().any(|node| able(node.id, node.capacity) && !remove.contains(&node.id))
        };
        let outcome = if !add.iter().all(|id| is_there(*id)) {
            refused(
                "the nodes of this cluster agree by themselves who is there: start a node with --join, and it joins",
            )
        } else if !placement.is_some_and(stays) {
            refused("no node would be left to hold anything")
        } else if roster.wishes.len() >= WISHES_MAX {
            refused("too many changes are under way: try again")
        } else {
            let undone =
                roster.wishes.extract_if(.., |wish| wish.is_undone(&add, &remove)).collect::<Vec<_>>();
            roster.wishes.push(Wish { asker, add, remove });
            for wish in undone {
                let why = "a later change undid this one".into();
                self.admin_ended(wish.asker, AdminOutcome::Refused(why), out);
            }
            return;
        };
        self.admin_ended(asker, outcome, out);
    }

    /// Ends wishes that have come true, or that another leader has to be asked for.
    pub(crate) fn look_after_wishes(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        let leads = self.takes_batches(Bucket(0));
        let Some(roster) = self.roster.as_mut().filter(|roster| !roster.wishes.is_empty()) else { return };
        let placement = roster.charter.as_ref().map(|charter| &charter.placement);
        let over = |wish: &mut Wish| !leads || placement.is_some_and(|placement| wish.is_true(placement));
        let ended: Vec<Wish> = roster.wishes.extract_if(.., over).collect();
        for wish in ended {
            cx.marks.hit("node.wish.ended");
            let outcome = match leads {
                true => AdminOutcome::Done,
                false => AdminOutcome::Unknown("the leader changed on the way: try again".into()),
            };
            self.admin_ended(wish.asker, outcome, out);
        }
    }
}
