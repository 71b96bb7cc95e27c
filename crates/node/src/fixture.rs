//! What unit tests begin with: nodes of a ring.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use core::num::NonZeroU16;
use quorate_api::Bucket;
use quorate_groups::{Group, GroupId, Name, Span};
use quorate_kernel::{ClusterId, Cx, Marks, NodeId, Position, Rng, Time, Wall};
use quorate_store::MemoryStore;

use crate::config::{Limits, NodeConfig, Placing, Topology};
use crate::endpoints::Endpoints;
use crate::interface::Member;
use crate::machine::{Node, Out};

/// How many buckets there are.
pub(crate) const BUCKETS: NonZeroU16 = NonZeroU16::new(8).unwrap();

/// Somebody who is found at a host.
pub(crate) fn member_at(id: u64, host: &str) -> Member {
    let (peer, none) = (format!("{host}:7379"), String::new);
    Member {
        id: NodeId(id),
        endpoints: Endpoints { peer, client: none(), admin: none(), cluster: none() }.into(),
    }
}

pub(crate) fn member(id: u64) -> Member {
    member_at(id, &format!("node-{id}"))
}

/// A node that has not started, of a ring that these founded.
pub(crate) fn node(me: u64, founders: &[u64]) -> Node {
    Node::new(NodeConfig {
        me: member(me),
        cluster: ClusterId(1),
        bootstrap: founders.iter().copied().map(member).collect(),
        buckets: BUCKETS,
        copies: 3,
        topology: Topology::Ring,
        placing: Placing::production(),
        log: quorate_replog::Config::production(),
        limits: Limits::production(),
    })
}

/// A group that holds the buckets from one on to before another.
pub(crate) fn group(id: u64, (first, end): (u16, u16), members: &[u64]) -> Group {
    let at = |bucket: u16| Bucket(bucket % BUCKETS.get()).ring_start(BUCKETS);
    let members: BTreeSet<NodeId> = members.iter().copied().map(NodeId).collect();
    Group {
        name: Name { id: GroupId(id), epoch: 2 },
        span: Span { start: at(first), end: at(end) },
        members: members.into_iter().collect(),
    }
}

/// A node has heard that another leads a bucket.
pub(crate) fn hear_leader(node: &mut Node, bucket: u16, leader: u64) {
    let ballot = quorate_replog::Ballot { epoch: 1, number: leader, node: Some(NodeId(leader)) };
    at(Time(1), |cx, out| node.on_leads_one(cx, Bucket(bucket), (ballot, NodeId(leader)), true, out));
}

/// Does something with the context of a step at a moment.
pub(crate) fn at<T>(now: Time, act: impl FnOnce(&mut Cx<'_>, &mut Out) -> T) -> T {
    let (mut rng, mut store, mut marks) = (Rng::new(1), MemoryStore::new(), Marks::default());
    let wall = Wall { unix_ms: 1_000_000 + now.0 / 1_000_000, error_ms: 0 };
    let mut cx = Cx { me: NodeId(1), now, wall, rng: &mut rng, store: &mut store, marks: &mut marks };
    act(&mut cx, &mut Out::new(Position::default()))
}
