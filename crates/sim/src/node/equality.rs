//! Replicas that have applied the same entries hold the same rows.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use quorate_api::Bucket;
use quorate_kernel::NodeId;
use quorate_node::Node;
use quorate_shard::Shard;
use quorate_store::{MemoryStore, Row, Scan, Store, prefix_end};

use crate::Verdict;

/// Changes after which states are looked at half as often as at first, and so on.
const VERSIONS: u64 = 2_000;
/// States that are remembered.
const KEPT: usize = 300;

/// What the rows were at each applied entry, and who had them first.
#[derive(Debug, Default)]
pub(crate) struct Equality {
    known: BTreeMap<(u64, Bucket), (Vec<Print>, NodeId)>,
    newest: BTreeMap<(NodeId, Bucket), u64>,
    /// Only every so many entries are looked at.
    every: u64,
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
        let rows = rows(shard, store);
        let prints: Vec<Print> = rows.iter().map(print).collect();
        match self.known.get(&(applied, bucket)) {
            Some((others, first)) if prints != *others => {
                let others: HashSet<&Print> = others.iter().collect();
                let only = rows.iter().zip(&prints).filter(|(_, print)| !others.contains(print));
                let only: Vec<_> = only.map(|((key, value), _)| (key.slice(AREA..), value)).collect();
                return Err(format!(
                    "{node:?} and {first:?} differ in {bucket:?} after entry {applied}: the one has {} rows, of which only it has \
                     {only:?}, the other {}",
                    rows.len(),
                    others.len()
                ));
            }
            Some(_) => self.compared += 1,
            None => drop(self.known.insert((applied, bucket), (prints, node))),
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

fn rows(shard: &Shard, store: &MemoryStore) -> Vec<Row> {
    let prefix = shard.log().data_prefix();
    store.scan(Scan::range(&prefix, prefix_end(&prefix).as_deref()))
}

/// Stands for a row, wherever it lies: rows of many entries would fill the memory.
type Print = u64;

fn print((key, value): &Row) -> Print {
    let mut hasher = DefaultHasher::new();
    (&key[AREA..], value).hash(&mut hasher);
    hasher.finish()
}
