//! Operators' wishes where buckets are placed: which nodes are to hold copies, and which none, before they are stopped; and how many
//! copies there are to be.

use alloc::string::ToString as _;
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

/// An operator's request that is under way.
#[derive(Debug)]
pub(crate) struct Wish {
    asker: Asker,
    want: Want,
}

/// What an operator wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Holders {
        /// Nodes that are to hold copies again.
        add: Vec<NodeId>,
        /// Nodes that are to hold none.
        remove: Vec<NodeId>,
    },
    /// So many copies of each bucket.
    Copies(u8),
}

impl Wish {
    /// Whether this is who asked for it.
    pub(crate) fn is_of(&self, asker: &Asker) -> bool {
        self.asker == *asker
    }

    /// Makes it part of a charter, as far as it is not.
    pub(crate) fn enter(&self, charter: &mut Charter, capacity_of: impl Fn(NodeId) -> u32) {
        let placement = &mut charter.placement;
        match &self.want {
            Want::Holders { add, remove } => {
                let wanted = add.iter().map(|id| (*id, capacity_of(*id)));
                for (id, capacity) in wanted.chain(remove.iter().map(|id| (*id, 0))) {
                    if placement.node(id).is_some_and(|node| node.capacity != capacity) {
                        // It is a node of the placement.
                        let _ = placement.set_capacity(id, capacity);
                    }
                }
            }
            // It was looked at when it was taken.
            Want::Copies(copies) if *copies != placement.copies() => drop(placement.set_copies(*copies)),
            Want::Copies(_) => {}
        }
    }

    /// Gives up what a later one wants otherwise; whether nothing is left.
    fn is_undone(&mut self, later: &Want) -> bool {
        match (&mut self.want, later) {
            (Want::Holders { add, remove }, Want::Holders { add: now_add, remove: now_remove }) => {
                add.retain(|id| !now_remove.contains(id));
                remove.retain(|id| !now_add.contains(id));
                add.is_empty() && remove.is_empty()
            }
            (Want::Copies(copies), Want::Copies(now)) => copies != now,
            _ => false,
        }
    }

    /// Whether nobody holds what it should not any more, and everybody what it should.
    fn is_true(&self, placement: &Placement) -> bool {
        let mut buckets = (0..placement.bucket_count().get()).map(Bucket);
        match &self.want {
            Want::Holders { add, remove } => {
                let holds = |id: &NodeId| {
                    buckets.clone().any(|bucket| {
                        placement.members(bucket).contains(id) || placement.reported(bucket).1.contains(id)
                    })
                };
                let capacity = |id: &NodeId| placement.node(*id).map(|node| node.capacity);
                let is_empty = |id: &NodeId| capacity(id).is_none_or(|capacity| capacity == 0 && !holds(id));
                remove.iter().all(is_empty) && add.iter().all(|id| capacity(id) != Some(0))
            }
            Want::Copies(copies) => {
                let count = placement.members_wanted();
                let has_all = |bucket: Bucket| {
                    let members = placement.members(bucket);
                    let there = placement.reported(bucket).1;
                    members.len() == count
                        && there.len() == count
                        && members.iter().all(|id| there.contains(id))
                };
                placement.copies() == *copies && buckets.all(has_all)
            }
        }
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
        } else {
            return self.wish(asker, Want::Holders { add, remove }, out);
        };
        self.admin_ended(asker, outcome, out);
    }

    /// Takes an operator's wish, as the leader of bucket 0: copies are made or given up until there are so many of each bucket.
    pub(crate) fn change_copies(&mut self, asker: Asker, copies: u8, out: &mut Out) {
        let why = match self.placement().cloned() {
            None if self.roster.is_some() => "the cluster is just being founded: try again".into(),
            None => "every node of this cluster holds everything; that is settled when it is founded".into(),
            Some(mut placement) => match placement.set_copies(copies) {
                Ok(()) => return self.wish(asker, Want::Copies(copies), out),
                Err(misfit) => misfit.to_string(),
            },
        };
        self.admin_ended(asker, AdminOutcome::Refused(why), out);
    }

    fn wish(&mut self, asker: Asker, want: Want, out: &mut Out) {
        let Some(roster) = &mut self.roster else { return };
        // Whoever asks again has given up waiting for the answer.
        let again: Vec<Wish> = roster.wishes.extract_if(.., |wish| wish.want == want).collect();
        let mut undone = Vec::new();
        let mut refused = None;
        if roster.wishes.len() < WISHES_MAX {
            undone.extend(roster.wishes.extract_if(.., |wish| wish.is_undone(&want)));
            roster.wishes.push(Wish { asker, want });
        } else {
            refused = Some(asker);
        }
        let told = |why: &str| AdminOutcome::Refused(why.into());
        for wish in again {
            let outcome = AdminOutcome::Unknown("it was asked for again, and that is answered".into());
            self.admin_ended(wish.asker, outcome, out);
        }
        for wish in undone {
            self.admin_ended(wish.asker, told("a later change undid this one"), out);
        }
        if let Some(asker) = refused {
            self.admin_ended(asker, told("too many changes are under way: try again"), out);
        }
    }

    /// Ends wishes that have come true, or that another leader has to be asked for.
    pub(crate) fn look_after_wishes(&mut self, cx: &mut Cx<'_>, out: &mut Out) {
        // Also while its own members change, when it takes nothing new for a moment.
        let leads = self.log().leads();
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
