//! A member that others can do without goes to another group (`quorate_groups::resilience::surplus`).

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;
use quorate_groups::join::{Aim, Near};
use quorate_groups::resilience::surplus;
use quorate_groups::{Group, GroupId, Operation, Stand};
use quorate_kernel::{NodeId, Time};

use crate::machine::Node;
use crate::motive::{Motive, SizeWanted};

/// The members of no group that is known have changed for so long before anybody goes: as long as others come, they go where they are needed, and what was done before
/// is heard of by then.
const CALM: Duration = Duration::from_secs(1);

impl Node {
    /// A member that should go to another group, and why. Where nodes know a part of the ring nobody goes: it is not known then how many groups there could
    /// be. Nor where groups were chosen for being near, or nodes come and go: then who comes next goes where it is needed.
    pub(crate) fn surplus_due(
        &self,
        now: Time,
        stand: &Stand,
        size: SizeWanted,
    ) -> Option<(Operation, Motive)> {
        let (ring, own) = (self.ring()?, &stand.group);
        let may_be = self.policies_of(own).join == Aim::Load && own.members.len() > size.wanted;
        if !(may_be && ring.knows_all() && now.since(ring.members_at) >= CALM) {
            return None;
        }
        let others: Vec<&Group> = ring.groups().filter(|other| other.name.id != own.name.id).collect();
        let sizes: Vec<(GroupId, usize)> =
            others.iter().map(|other| (other.name.id, other.members.len())).collect();
        let named = |id: GroupId| others.iter().copied().find(|other| other.name.id == id);
        let is_open = |id: GroupId| {
            named(id).is_some_and(|to| self.middle_of(to).is_some() && self.sent(own, to, now).is_some())
        };
        let id = surplus((own.name.id, own.members.len()), &sizes, size.wanted, size.sizes(), is_open)?;
        let to = named(id)?;
        let node = self.sent(own, to, now)?;
        let (members, there) = (own.members.len(), to.members.len());
        let motive = Motive::Surplus { members, there, groups: sizes.len() + 1, size };
        Some((Operation::Migrate { node, from: own.name.id, to: id }, motive))
    }

    /// Who goes from a group that this node speaks for to another one: of those that do not share their machine with more members there than here whoever
    /// fails with fewest of them, and leads the fewest buckets.
    fn sent(&self, own: &Group, to: &Group, now: Time) -> Option<NodeId> {
        let ring = self.ring()?;
        let near = |id: NodeId, group: &Group| {
            let others: Vec<NodeId> = group.members.iter().copied().filter(|other| *other != id).collect();
            let places: Vec<_> = others.iter().map(|other| self.place_of(*other)).collect();
            Near::count(&self.place_of(id), &places).share(others.len())
        };
        let buckets = ring.buckets(own);
        let led =
            |id: NodeId| buckets.iter().filter(|bucket| self.believed_leader(**bucket) == Some(id)).count();
        let may_go = |id: &NodeId| {
            *id != self.config.me.id && self.is_there(*id, now) && near(*id, to).host <= near(*id, own).host
        };
        let members = own.members.iter().copied().filter(may_go);
        members.min_by_key(|id| (near(*id, to), led(*id), Reverse(*id)))
    }
}
