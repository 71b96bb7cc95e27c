//! Whether everybody who should have something has it.

use std::num::NonZeroU16;

use quorate_api::Bucket;
use quorate_node::Node;
use quorate_shard::Shard;

use super::operator::leader;
use crate::{Nodes, Verdict};

/// A bucket at whoever leads it.
fn leading(nodes: &Nodes<Node>, bucket: Bucket) -> Option<&Shard> {
    nodes.machine(leader(nodes, bucket)?)?.shard(bucket)
}

/// Whether no bucket has garbage left to remove.
pub(super) fn is_clean(nodes: &Nodes<Node>, buckets: NonZeroU16) -> bool {
    (0..buckets.get()).map(Bucket).all(|bucket| {
        leading(nodes, bucket).is_some_and(|shard| {
            let state = shard.state();
            state.dead_collections == 0 && state.keyspace_oldest == state.keyspace
        })
    })
}

/// Whether every node has all of a bucket that it should have.
pub(super) fn is_spread(nodes: &Nodes<Node>, bucket: Bucket) -> Verdict {
    let Some(log) = leading(nodes, bucket).map(Shard::log) else {
        return Err(format!("nobody leads {bucket:?}"));
    };
    for (node, machine) in nodes.live() {
        let Some(other) = machine.shard(bucket).map(Shard::log) else { continue };
        // Who came and went before the bucket followed was never one of its members, and knows of nothing else.
        let passed_by = bucket != Bucket(0) && !other.epoch().has(node);
        let belongs = log.epoch().has(node) || other.is_retired() || passed_by;
        if !belongs {
            return Err(format!(
                "{node:?} is neither a member of {bucket:?} nor retired: {:?}",
                machine.status()
            ));
        }
        if log.epoch().has(node) && other.applied() != log.last() {
            return Err(format!("{node:?} has applied {} of {} of {bucket:?}", other.applied(), log.last()));
        }
    }
    Ok(())
}

/// For each bucket, what its leader remembers of transactions: how many, of how many origins, and those without an
/// outcome.
pub(super) fn unfinished(nodes: &Nodes<Node>, buckets: NonZeroU16) -> Vec<(usize, usize, Vec<String>)> {
    let leaders = (0..buckets.get()).map(Bucket).filter_map(|bucket| leading(nodes, bucket));
    leaders
        .map(|shard| {
            let ledger = shard.commitment().ledger();
            let open = ledger.records().filter(|(_, record)| record.outcome().is_none());
            let open = open.map(|(id, record)| format!("{id:?} {:?}", record.state)).collect();
            (ledger.count(), ledger.origins(), open)
        })
        .collect()
}
