//! The placement: founding, looking at it, what an operator sets, its bytes and hash.

use alloc::vec::Vec;
use core::num::NonZeroU16;
use quorate_api::{Bucket, SLOT_COUNT};
use quorate_kernel::{NodeId, wire};
use serde::{Deserialize, Serialize};

use crate::node::{COPIES_MAX, MEMBERS_MAX, Misfit, Node, check_nodes};

/// A bucket's place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The nodes that should hold it, in order: the first should lead. All of them are nodes of the placement.
    pub(crate) members: Vec<NodeId>,
    /// Number of the placement in which the members, or their order, changed last.
    pub(crate) since: u64,
    /// The members of its log as last reported, by id. Those who have left since are still here.
    pub(crate) holders: Vec<NodeId>,
    /// The mark of the log at that report.
    pub(crate) mark: u64,
    /// If it is halted: who may hold what the others lack, and is no node any more. By id.
    pub(crate) gone: Option<Vec<NodeId>>,
}

impl Place {
    /// Whether everybody who should hold it does, as far as is known.
    pub(crate) fn has_arrived(&self) -> bool {
        self.members.iter().all(|node| self.holders.binary_search(node).is_ok())
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.gone.is_some()
    }
}

/// Which nodes hold which buckets. See the crate's documentation.
///
/// It decodes only if it is sound: a placement from elsewhere may be compared, stored and used without another look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Placement {
    /// Grows with everything that is applied.
    number: u64,
    copies: u8,
    /// By id.
    pub(crate) nodes: Vec<Node>,
    /// One for each bucket, in their order.
    pub(crate) places: Vec<Place>,
}

/// A placement as it is read, not known to be sound.
#[derive(Deserialize)]
struct Raw {
    number: u64,
    copies: u8,
    nodes: Vec<Node>,
    places: Vec<Place>,
}

impl TryFrom<Raw> for Placement {
    type Error = &'static str;

    fn try_from(raw: Raw) -> Result<Self, Self::Error> {
        let Raw { number, copies, nodes, places } = raw;
        let placement = Placement { number, copies, nodes, places };
        if placement.is_sound() { Ok(placement) } else { Err("no sound placement") }
    }
}

impl Placement {
    /// The first placement of a cluster, number 1: nobody holds anything yet, so that all of it is free to choose. The
    /// founders' order does not matter. The logs are started with the members it names.
    ///
    /// # Errors
    /// If there are no nodes, more than the limits allow, or one of them twice.
    pub fn founded(buckets: NonZeroU16, copies: u8, mut nodes: Vec<Node>) -> Result<Placement, Misfit> {
        if buckets.get() > SLOT_COUNT {
            return Err(Misfit::Buckets(buckets.get()));
        }
        check_copies(copies)?;
        nodes.sort_by_key(|node| node.id);
        check_nodes(&nodes)?;
        let places = (0..buckets.get()).map(|_| Place::default()).collect();
        let mut placement = Placement { number: 1, copies, nodes, places };
        let everybody: Vec<usize> = (0..placement.nodes.len()).collect();
        placement.fill(&everybody);
        placement.hold_all();
        // Ends: every step lowers what step.rs calls the burden.
        while let Some(step) = placement.next_step() {
            placement.carry_out(&step);
            placement.hold_all();
        }
        placement.number = 1;
        placement.places.iter_mut().for_each(|place| (place.since, place.mark) = (1, 1));
        Ok(placement)
    }

    /// Its number. Of two placements of a cluster the one with the greater number is newer.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Names its content: two placements with the same number and different hashes do not come from the same history.
    pub fn hash(&self) -> u64 {
        hash(&wire::encode(self))
    }

    /// How many buckets there are, for the cluster's whole life.
    pub fn bucket_count(&self) -> NonZeroU16 {
        // It is sound, so there is at least one and no more than slots.
        u16::try_from(self.places.len()).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
    }

    /// How many copies of each bucket are wanted.
    pub fn copies(&self) -> u8 {
        self.copies
    }

    /// How many members a bucket should have: the copies wanted, or as many as there are nodes that take some.
    pub fn members_wanted(&self) -> usize {
        let able = self.nodes.iter().filter(|node| node.takes_copies()).count();
        able.min(self.copies.into())
    }

    /// The nodes, by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node called `id`.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.index(id).map(|index| &self.nodes[index])
    }

    /// The nodes that should hold a bucket, in order: the first should lead. Empty if there is no such bucket, or if it
    /// lost all its members.
    pub fn members(&self, bucket: Bucket) -> &[NodeId] {
        self.places.get(usize::from(bucket.0)).map_or(&[], |place| &place.members)
    }

    /// Number of the placement in which a bucket's members, or their order, changed last: what a log that is in line with
    /// this placement keeps as its mark.
    pub fn since(&self, bucket: Bucket) -> u64 {
        self.places.get(usize::from(bucket.0)).map_or(0, |place| place.since)
    }

    /// The buckets that a node should hold.
    pub fn buckets_of(&self, node: NodeId) -> impl Iterator<Item = Bucket> + '_ {
        let holds = move |(_, place): &(Bucket, &Place)| place.members.contains(&node);
        self.places().filter(holds).map(|(bucket, _)| bucket)
    }

    /// Changes how many copies of each bucket are wanted. Nothing moves before steps are taken.
    ///
    /// # Errors
    /// If that many are not possible.
    pub fn set_copies(&mut self, copies: u8) -> Result<(), Misfit> {
        check_copies(copies)?;
        self.copies = copies;
        self.count_on();
        Ok(())
    }

    /// Changes how much a node should hold; 0 to empty it before it leaves. Nothing moves before steps are taken.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn set_capacity(&mut self, node: NodeId, capacity: u32) -> Result<(), Misfit> {
        let index = self.index(node).ok_or(Misfit::UnknownNode(node))?;
        self.nodes[index].capacity = capacity;
        self.count_on();
        Ok(())
    }

    /// Takes over what a node says of itself by now: where it stands and how much it should hold. Whether that is news. One that is to
    /// hold nothing stays so, and none becomes one, by its own word: that is an operator's. Nothing moves before steps are taken.
    ///
    /// # Errors
    /// If there is no such node, or a name is too long.
    pub fn describe(&mut self, said: &Node) -> Result<bool, Misfit> {
        let index = self.index(said.id).ok_or(Misfit::UnknownNode(said.id))?;
        said.checked()?;
        let Some(described) = self.described(said) else { return Ok(false) };
        self.nodes[index] = described;
        self.count_on();
        Ok(true)
    }

    /// A node as it has to be by its own word, if it is known otherwise.
    pub fn described(&self, said: &Node) -> Option<Node> {
        let known = self.node(said.id)?;
        let both = known.takes_copies() && said.takes_copies();
        let capacity = if both { said.capacity } else { known.capacity };
        Some(Node { capacity, ..said.clone() }).filter(|described| described != known)
    }

    /// What was applied before is lost in part: some log keeps this mark. If it is newer than this placement, the placement becomes
    /// newer, and all logs are brought in line with it again.
    pub fn outrun(&mut self, mark: u64) {
        if mark > self.number {
            self.number = mark;
            let number = self.count_on();
            self.places.iter_mut().for_each(|place| place.since = number);
        }
    }

    /// The place of the node called `id` among the nodes.
    pub(crate) fn index(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    pub(crate) fn has(&self, id: NodeId) -> bool {
        self.index(id).is_some()
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (Bucket, &Place)> {
        (0..).map(Bucket).zip(&self.places)
    }

    /// Something was applied.
    pub(crate) fn count_on(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// With no data yet, whoever should hold a bucket does.
    fn hold_all(&mut self) {
        for place in &mut self.places {
            place.holders = sorted(place.members.clone());
        }
    }

    fn is_sound(&self) -> bool {
        let ascends = |list: &[NodeId]| list.len() <= MEMBERS_MAX && list.is_sorted_by(|a, b| a < b);
        let place_is = |place: &Place| {
            let members = sorted(place.members.clone());
            members.len() == place.members.len()
                && members.len() <= MEMBERS_MAX
                && members.iter().all(|node| self.has(*node))
                && ascends(&place.holders)
                && place.since <= self.number
                && place.mark <= self.number
                && place
                    .gone
                    .as_ref()
                    .is_none_or(|gone| gone.is_sorted_by(|a, b| a < b) && gone.len() <= 2 * MEMBERS_MAX)
        };
        (1..=usize::from(SLOT_COUNT)).contains(&self.places.len())
            && check_copies(self.copies).is_ok()
            && check_nodes(&self.nodes).is_ok()
            && self.places.iter().all(place_is)
    }
}

fn check_copies(copies: u8) -> Result<(), Misfit> {
    if (1..=COPIES_MAX).contains(&copies) { Ok(()) } else { Err(Misfit::Copies(copies)) }
}

/// By id, each once.
pub(crate) fn sorted(mut list: Vec<NodeId>) -> Vec<NodeId> {
    list.sort_unstable();
    list.dedup();
    list
}

/// 64-bit FNV-1a with a final mix. It names what honest nodes computed; nobody gains by forging it.
fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let mut hash =
        bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}
