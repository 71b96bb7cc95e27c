//! What goes into a placement, its limits, and why something does not fit.

use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use quorate_api::Bucket;
use quorate_kernel::NodeId;
use serde::{Deserialize, Serialize};

/// The most nodes a placement has.
pub const NODES_MAX: usize = 4_096;

/// The most copies of a bucket that can be wanted.
pub const COPIES_MAX: u8 = 16;

/// The most members a bucket has while copies are taken away, and the most a log reports.
pub const MEMBERS_MAX: usize = 2 * COPIES_MAX as usize;

/// The most bytes a zone's or a rack's name has.
pub const LABEL_BYTES_MAX: usize = 128;

/// A node as far as placing is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Who. The same id stands for the same disk: a node that lost its disk has another.
    pub id: NodeId,
    /// What it shares large failures with: a site. Nodes without a name for it share one.
    pub zone: Bytes,
    /// What it shares small failures with, within its zone: a rack. Nodes without a name for it share one.
    pub rack: Bytes,
    /// How many copies it should hold, in proportion to the others; 0: none, and those it has move away.
    pub capacity: u32,
}

/// What a view changes: who became a member and who is one no more. In any order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cut {
    /// The nodes that joined. One that also stands in `leaves` stays, and what is known of it is replaced.
    pub joins: Vec<Node>,
    /// The nodes that left.
    pub leaves: Vec<NodeId>,
}

/// Why something does not fit a placement. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// The node is there already, or is named twice.
    NodeTwice(NodeId),
    /// No node has this id.
    UnknownNode(NodeId),
    /// More than [`NODES_MAX`] nodes.
    TooManyNodes(usize),
    /// No node would be left.
    NoNodes,
    /// The node's zone or rack has a name longer than [`LABEL_BYTES_MAX`].
    LongLabel(NodeId),
    /// Not from 1 to [`COPIES_MAX`] copies.
    Copies(u8),
    /// More buckets than slots.
    Buckets(u16),
    /// There is no such bucket.
    UnknownBucket(Bucket),
    /// The step was proposed for another placement.
    Stale {
        /// The number of that placement.
        on: u64,
        /// The number of this one.
        number: u64,
    },
    /// The step adds who is a member, or is about one who is not, or would leave nobody.
    Impossible(Bucket),
    /// The bucket is halted: recover it first.
    Halted(Bucket),
    /// The bucket is not halted: there is nothing to recover.
    NotHalted(Bucket),
    /// A log with no members or more than [`MEMBERS_MAX`], or brought in line with a placement that is yet to come.
    Report(Bucket),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::NodeTwice(node) => write!(f, "node {node} is there already, or is named twice"),
            Misfit::UnknownNode(node) => write!(f, "there is no node {node}"),
            Misfit::TooManyNodes(count) => write!(f, "{count} nodes: there can be {NODES_MAX}"),
            Misfit::NoNodes => write!(f, "no node would be left"),
            Misfit::LongLabel(node) => {
                write!(f, "the zone or rack of node {node} has a name of more than {LABEL_BYTES_MAX} bytes")
            }
            Misfit::Copies(copies) => write!(f, "{copies} copies: choose from 1 to {COPIES_MAX}"),
            Misfit::Buckets(count) => write!(f, "{count} buckets: there are fewer slots"),
            Misfit::UnknownBucket(bucket) => write!(f, "there is no bucket {}", bucket.0),
            Misfit::Stale { on, number } => {
                write!(f, "a step for placement {on} does not fit placement {number}: propose another")
            }
            Misfit::Impossible(bucket) => {
                write!(f, "the step does not fit the members of bucket {}", bucket.0)
            }
            Misfit::Halted(bucket) => write!(f, "bucket {} is halted: recover it first", bucket.0),
            Misfit::NotHalted(bucket) => write!(f, "bucket {} is not halted: nothing to recover", bucket.0),
            Misfit::Report(bucket) => write!(f, "the log of bucket {} cannot be as reported", bucket.0),
        }
    }
}

impl core::error::Error for Misfit {}

impl Node {
    /// Whether it may hold copies.
    pub(crate) fn takes_copies(&self) -> bool {
        self.capacity > 0
    }

    /// Refuses names that are too long.
    pub(crate) fn checked(&self) -> Result<(), Misfit> {
        let long = self.zone.len().max(self.rack.len()) > LABEL_BYTES_MAX;
        if long { Err(Misfit::LongLabel(self.id)) } else { Ok(()) }
    }
}

/// Refuses nodes that cannot be those of a placement; they are by id.
pub(crate) fn check_nodes(nodes: &[Node]) -> Result<(), Misfit> {
    if nodes.is_empty() {
        return Err(Misfit::NoNodes);
    }
    if nodes.len() > NODES_MAX {
        return Err(Misfit::TooManyNodes(nodes.len()));
    }
    match nodes.windows(2).find(|pair| pair[0].id >= pair[1].id) {
        Some(pair) => Err(Misfit::NodeTwice(pair[1].id)),
        None => nodes.iter().try_for_each(Node::checked),
    }
}
