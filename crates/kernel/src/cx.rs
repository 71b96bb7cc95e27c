//! Everything a machine may know that is neither its state nor its event.

use alloc::collections::BTreeMap;
use core::fmt;
use quorate_store::Store;

use crate::{NodeId, Rng, Time, Wall};

/// The context of one step: clocks, chance, the materialised state and the marks.
pub struct Cx<'a> {
    /// The node that runs the machine.
    pub me: NodeId,
    /// Monotonic time; the same throughout one step.
    pub now: Time,
    /// Wall-clock time; the same throughout one step.
    pub wall: Wall,
    /// This node's chance.
    pub rng: &'a mut Rng,
    /// The materialised state.
    pub store: &'a mut dyn Store,
    /// Counters of the states some run must reach.
    pub marks: &'a mut Marks,
}

impl fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("me", &self.me).field("now", &self.now).field("wall", &self.wall).finish()
    }
}

/// Counts named, notable states: refusals, elections, snapshots, nonsense from peers.
///
/// The simulator fails where a mark that some run must hit is never hit; the host shows them as metrics. Names are
/// `crate.thing.what_happened`. Not for the path of every request: a mark costs a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    counts: BTreeMap<&'static str, u64>,
}

impl Marks {
    /// Counts one more of `name`.
    pub fn hit(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// How often `name` was hit.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or_default()
    }

    /// All marks that were hit, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(name, count)| (*name, *count))
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Marks) {
        for (name, count) in other.iter() {
            *self.counts.entry(name).or_default() += count;
        }
    }
}
