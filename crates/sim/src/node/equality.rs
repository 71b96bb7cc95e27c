//! Replicas that have applied the same entries hold the same rows.

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::quality::FixedState;
use quorate_api::Bucket;
use quorate_kernel::NodeId;
use quorate_node::Node;
use quorate_replog::era_epoch;
use quorate_shard::Shard;
use quorate_store::MemoryStore;

use crate::Verdict;

/// Changes after which states are looked at half as often as at first, and so on.
const VERSIONS: u64 = 2_000;
/// States that are remembered.
const KEPT: usize = 300;

/// What the rows were at each applied entry, and who had them first.
#[derive(Debug, Default)]
pub(crate) struct Equality {
    known: BTreeMap<(u64, Bucket, u64), (Vec<Print>, NodeId)>,
    newest: BTreeMap<(NodeId, Bucket), u64>,
    /// Only every so many entries are looked at.
    every: u64,
    /// Whether eras may begin at one index: who went on first is back with entries of its own, and keeps them until it has a snapshot of what others
    /// have at the same indexes since.
    pub(crate) eras_meet: bool,
    pub(crate) compared: u64,
}

impl Equality {
    pub(crate) fn new(every: u64) -> Self {
        Equality { every, ..Equality::default() }
    }

    /// Looks at a node after its step.
    ///
    /// # Errors
    /// If another node's state was different at the same entry.
    pub(crate) fn look(&mut self, node: NodeId, machine: &Node, store: &MemoryStore) -> Verdict {
        for (bucket, shard) in shards(machine) {
            let applied = shard.log().applied();
            // The more there is, the more seldom, so that a look costs every entry about the same. All nodes look at the same ones.
            let every = self.every * (1 + shard.state().versions / VERSIONS);
            if self.newest.insert((node, bucket), applied) != Some(applied) && applied.is_multiple_of(every) {
                self.compare_shard(node, bucket, shard, store)?;
            }
        }
        Ok(())
    }

    /// Looks at a node, whatever it has applied.
    ///
    /// # Errors
    /// As [`Equality::look`].
    pub(crate) fn compare(&mut self, node: NodeId, machine: &Node, store: &MemoryStore) -> Verdict {
        shards(machine).try_for_each(|(bucket, shard)| self.compare_shard(node, bucket, shard, store))
    }

    fn compare_shard(&mut self, node: NodeId, bucket: Bucket, shard: &Shard, store: &MemoryStore) -> Verdict {
        let applied = shard.log().applied();
        let era = if self.eras_meet { era_epoch(shard.log().epoch().number) } else { 0 };
        let state = (applied, bucket, era);
        let prefix = shard.log().data_prefix();
        let rows = || store.with_prefix(&prefix);
        let prints: Vec<Print> = rows().map(print).collect();
        match self.known.get(&state) {
            Some((others, first)) if prints != *others => {
                let others: HashSet<&Print> = others.iter().collect();
                let only = rows().zip(&prints).filter(|(_, print)| !others.contains(print));
                let only: Vec<_> = only.map(|((key, value), _)| (key.slice(AREA..), value)).collect();
                return Err(format!(
                    "{node:?} and {first:?} differ in {bucket:?} after entry {applied}: the one has {} rows, of which only it has \
                     {only:?}, the other {}",
                    prints.len(),
                    others.len()
                ));
            }
            Some(_) => self.compared += 1,
            None => drop(self.known.insert(state, (prints, node))),
        }
        while self.known.len() > KEPT {
            self.known.pop_first();
        }
        Ok(())
    }

    /// A node starts over from its disk.
    pub(crate) fn booted(&mut self, node: NodeId) {
        self.newest.retain(|(other, _), _| *other != node);
    }
}

/// Bytes of a row's key that name the area it lies in, which may be another on each node.
const AREA: usize = 5;

fn shards(machine: &Node) -> impl Iterator<Item = (Bucket, &Shard)> {
    machine.buckets().filter_map(|bucket| Some((bucket, machine.shard(bucket)?)))
}

/// Stands for a row, wherever it lies: rows of many entries would fill the memory.
type Print = u64;

fn print((key, value): (&Bytes, &Bytes)) -> Print {
    FixedState::default().hash_one((&key[AREA..], value))
}
