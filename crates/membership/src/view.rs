//! Members, views and what leads from one view to the next.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::ops::Deref;
use quorate_kernel::{NodeId, wire};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::Digest;

/// What everybody knows of a member. Bounded by [`crate::Config::meta_bytes_max`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meta {
    /// Where other nodes reach it. Two members never have the same, unless it is empty.
    pub peer: Bytes,
    /// What else the parents tell each other: other addresses, say. Opaque here.
    pub info: Bytes,
    /// What it shares large failures with: a site. Whoever places data spreads it over zones.
    pub zone: Bytes,
    /// What it shares small failures with, within its zone: a rack.
    pub rack: Bytes,
    /// How much it can carry, in proportion to the others.
    pub capacity: u32,
}

impl Meta {
    /// Bytes it occupies, roughly.
    pub fn size_bytes(&self) -> usize {
        const BASE: usize = 8;
        BASE + self.peer.len() + self.info.len() + self.zone.len() + self.rack.len()
    }
}

/// A member. The same node may be a member again after it was removed, with another `since`: the pair of both is what
/// enters the chain of views once and leaves it once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who.
    pub id: NodeId,
    /// Number of the view in which this membership began.
    pub since: u64,
    /// What is known of it.
    #[serde(with = "shared")]
    pub meta: Arc<Meta>,
}

/// Names a view: its number in the chain, and a hash over the whole chain up to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct ViewId {
    /// 1 for the founders' view; each decision adds one. 0: no view.
    pub seq: u64,
    /// The same for two views only if all decisions before them were the same.
    pub hash: u64,
}

impl fmt::Debug for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}:{:08x}", self.seq, self.hash >> 32)
    }
}

/// Members by id. Cheap to copy: copies share the list.
#[derive(Clone, PartialEq, Eq)]
pub struct Members(Arc<[Member]>);

impl Deref for Members {
    type Target = [Member];

    fn deref(&self) -> &[Member] {
        &self.0
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|member| (member.id, member.since))).finish()
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Members(Vec::deserialize(deserializer)?.into()))
    }
}

/// A link of the chain: who is a member, agreed by all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its number and hash.
    pub id: ViewId,
    /// The members, by id, each once.
    pub members: Members,
}

impl View {
    /// The first view of a chain.
    pub(crate) fn founded(mut founders: Vec<(NodeId, Arc<Meta>)>) -> View {
        founders.sort_by_key(|(id, _)| *id);
        founders.dedup_by_key(|(id, _)| *id);
        let member = |(id, meta)| Member { id, since: 1, meta };
        let members: Vec<Member> = founders.into_iter().map(member).collect();
        let hash = Digest::of(&wire::encode(&members)).0;
        View { id: ViewId { seq: 1, hash }, members: Members(members.into()) }
    }

    /// The view that `cut` makes of this one; `None` if the cut does not fit: it removes who is no member, adds who is
    /// one, or leaves nobody.
    pub fn after(&self, cut: &Cut) -> Option<View> {
        let seq = self.id.seq + 1;
        if !cut.changes.is_sorted_by(|left, right| left.node() < right.node()) {
            return None;
        }
        let mut members = Vec::with_capacity(self.members.len() + cut.changes.len());
        let mut stay = self.members.iter().peekable();
        for change in &cut.changes {
            while let Some(member) = stay.next_if(|member| member.id < change.node()) {
                members.push(member.clone());
            }
            let found = stay.next_if(|member| member.id == change.node());
            match (change, found) {
                (Change::Remove { .. }, Some(_)) => {}
                (Change::Join { id, meta }, None) => {
                    members.push(Member { id: *id, since: seq, meta: Arc::clone(meta) });
                }
                (Change::Remove { .. }, None) | (Change::Join { .. }, Some(_)) => return None,
            }
        }
        members.extend(stay.cloned());
        if members.is_empty() {
            return None;
        }
        let digest = cut.digest();
        let hash = Digest::of(&wire::encode(&(self.id, digest))).0;
        Some(View { id: ViewId { seq, hash }, members: Members(members.into()) })
    }

    /// Its number.
    pub fn seq(&self) -> u64 {
        self.id.seq
    }

    /// The member called `node`.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.index(node).map(|index| &self.members[index])
    }

    /// Whether `node` is a member.
    pub fn has(&self, node: NodeId) -> bool {
        self.index(node).is_some()
    }

    /// The place of `node` among the members.
    pub(crate) fn index(&self, node: NodeId) -> Option<usize> {
        self.members.binary_search_by_key(&node, |member| member.id).ok()
    }

    /// Whether a view that came from elsewhere is one at all.
    pub(crate) fn is_sound(&self) -> bool {
        let sorted = self.members.is_sorted_by(|left, right| left.id < right.id);
        sorted && !self.members.is_empty() && self.members.iter().all(|member| member.since <= self.id.seq)
    }
}

/// One change of a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A node becomes a member.
    Join {
        /// Who.
        id: NodeId,
        /// What is known of it. It stands here so that nobody needs to have heard of the joiner before.
        #[serde(with = "shared")]
        meta: Arc<Meta>,
    },
    /// A member is one no more.
    Remove {
        /// Who.
        id: NodeId,
    },
}

impl Change {
    /// Whom it is about.
    pub fn node(&self) -> NodeId {
        match self {
            Change::Join { id, .. } | Change::Remove { id } => *id,
        }
    }
}

/// A multi-process cut: all changes that lead from one view to the next, by node, each node once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cut {
    /// The changes.
    pub changes: Vec<Change>,
}

impl Cut {
    /// Its name.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&wire::encode(self))
    }

    /// How many members it removes.
    pub(crate) fn removals(&self) -> usize {
        self.changes.iter().filter(|change| matches!(change, Change::Remove { .. })).count()
    }

    /// Bytes it occupies, roughly.
    pub(crate) fn size_bytes(&self) -> usize {
        let size = |change: &Change| match change {
            Change::Join { meta, .. } => 16 + meta.size_bytes(),
            Change::Remove { .. } => 12,
        };
        self.changes.iter().map(size).sum()
    }
}

/// Values behind an [`Arc`], written as the values themselves.
pub(crate) mod shared {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        value: &Arc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn join(id: u64) -> Change {
        Change::Join { id: NodeId(id), meta: Arc::default() }
    }

    fn remove(id: u64) -> Change {
        Change::Remove { id: NodeId(id) }
    }

    fn view(ids: &[u64]) -> View {
        View::founded(ids.iter().map(|id| (NodeId(*id), Arc::default())).collect())
    }

    fn ids(view: &View) -> Vec<u64> {
        view.members.iter().map(|member| member.id.0).collect()
    }

    #[test]
    fn cuts_add_and_remove() {
        let cut = Cut { changes: vec![join(1), remove(2), join(4), join(9)] };
        let next = view(&[2, 3, 5]).after(&cut).expect("fits");
        assert_eq!((next.seq(), ids(&next)), (2, vec![1, 3, 4, 5, 9]));
        assert_eq!(next.member(NodeId(4)).map(|member| member.since), Some(2));
        assert_eq!(next.member(NodeId(3)).map(|member| member.since), Some(1));
        assert!(next.is_sound());
    }

    #[test]
    fn cuts_that_do_not_fit_are_refused() {
        for changes in [
            vec![join(2)],
            vec![remove(4)],
            vec![remove(9)],
            vec![remove(2), remove(3), remove(5)],
            vec![join(7), join(6)],
            vec![join(4), join(4)],
            vec![join(1), join(1)],
        ] {
            assert_eq!(view(&[2, 3, 5]).after(&Cut { changes: changes.clone() }), None, "{changes:?}");
        }
    }

    #[test]
    fn the_hash_is_that_of_the_chain() {
        let (one, other) = (Cut { changes: vec![join(4)] }, Cut { changes: vec![join(5)] });
        let start = view(&[1, 2]);
        let left = start.after(&one).and_then(|next| next.after(&other)).expect("fits");
        let right = start.after(&other).and_then(|next| next.after(&one)).expect("fits");
        assert_eq!(ids(&left), ids(&right));
        assert_ne!(left.id, right.id);
    }
}
