//! Clusters whose buckets are placed on nodes that come and go: where they must be in the end.

use std::num::NonZeroU16;

use quorate_api::Bucket;
use quorate_kernel::NodeId;
use quorate_node::{Node, Placing};

use super::operator::leader;
use crate::{Nodes, Verdict};

/// What this node says of where it stands.
pub(super) fn placed(node: NodeId, placing: Placing) -> Placing {
    Placing { zone: zone(node).into(), ..placing }
}

fn zone(node: NodeId) -> &'static [u8] {
    [&b""[..], b"one", b"two"][(node.0 % 3) as usize]
}

/// Whether all nodes agree who is there and who holds what, nothing is left to be moved, and all have what they should hold.
pub(super) fn is_placed(nodes: &Nodes<Node>, buckets: NonZeroU16) -> Verdict {
    let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
    let Some(first) = leader(nodes, Bucket(0)).and_then(|id| nodes.machine(id)) else {
        return Err("nobody leads bucket 0".into());
    };
    let Some(agreed) = first.placement() else { return Err("there is no placement".into()) };
    for (id, machine) in nodes.live() {
        let members: Vec<NodeId> = machine.status().members.iter().map(|member| member.id).collect();
        if members != live {
            return Err(format!("{id:?} has {members:?} in its view"));
        }
        let known = machine.placement().map(|known| (known.number(), known.hash()));
        if known != Some((agreed.number(), agreed.hash())) {
            let number = agreed.number();
            return Err(format!(
                "{id:?} knows placement {known:?}, {number} is the newest: {:?}",
                machine.status()
            ));
        }
    }
    if !agreed.nodes().iter().map(|node| node.id).eq(live.iter().copied()) {
        return Err(format!("the placement has the nodes {:?}", agreed.nodes()));
    }
    if let Some(node) = agreed.nodes().iter().find(|node| node.zone != zone(node.id)) {
        return Err(format!("{node:?} is known to stand elsewhere than it does"));
    }
    if let Some(step) = agreed.next_step() {
        return Err(format!("{step:?} is due"));
    }
    if let Some(lost) = agreed.halted().next() {
        return Err(format!("{lost}"));
    }
    (0..buckets.get()).map(Bucket).try_for_each(|bucket| holds(nodes, bucket, agreed.members(bucket)))
}

/// Whether a bucket has the members it should have, and these have all of it.
pub(super) fn holds(nodes: &Nodes<Node>, bucket: Bucket, wanted: &[NodeId]) -> Verdict {
    let lead = leader(nodes, bucket).and_then(|id| nodes.machine(id)).and_then(|node| node.shard(bucket));
    let Some(log) = lead.map(quorate_shard::Shard::log) else {
        return Err(format!("nobody leads {bucket:?}"));
    };
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    let members: Vec<NodeId> = log.epoch().members.iter().map(|member| member.id).collect();
    if members != wanted {
        return Err(format!("{bucket:?} has the members {members:?} instead of {wanted:?}"));
    }
    for id in members {
        let applied =
            nodes.machine(id).and_then(|node| node.shard(bucket)).map(|shard| shard.log().applied());
        if applied != Some(log.last()) {
            return Err(format!("{id:?} has applied {applied:?} of {} of {bucket:?}", log.last()));
        }
    }
    Ok(())
}
