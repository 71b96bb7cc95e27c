//! Why a log could not be opened.

use std::io;
use std::path::PathBuf;

use quorate_kernel::Position;

use super::frame::{FORMAT_VERSION, Identity};

/// Why a log could not be opened. Nothing was served from it, and nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Records that were on disk are damaged or gone. The node may have promised or acknowledged what they say, so it
    /// must not take part any more under its old identity.
    #[error(
        "the log in {dir} is damaged: {segment}, byte {offset}, where record {position} belongs: {what}. This node \
         must not go on without what it has acknowledged. Its data is still held by the other members: remove the \
         node from the cluster, move its data directory away, and start it again with an empty one, so that it \
         joins as a new node",
        position = position.0
    )]
    Corrupt {
        /// The directory of the log.
        dir: PathBuf,
        /// The name of the segment.
        segment: String,
        /// Where in the segment.
        offset: u64,
        /// The first record that cannot be read.
        position: Position,
        /// What is wrong there.
        what: &'static str,
    },
    /// The log belongs to another node or cluster.
    #[error(
        "{segment} in {dir} belongs to node {found_node} of {found_cluster:?}, not to node {node} of {cluster:?}: \
         start the node with its own data directory",
        found_node = found.node, found_cluster = found.cluster, node = identity.node, cluster = identity.cluster
    )]
    Foreign {
        /// The directory of the log.
        dir: PathBuf,
        /// The name of the segment.
        segment: String,
        /// Whose it is.
        found: Identity,
        /// Whose it should be.
        identity: Identity,
    },
    /// A newer program wrote it.
    #[error(
        "{segment} in {dir} has log format {version}; this program reads formats up to {FORMAT_VERSION}: start the \
         newer program that wrote it"
    )]
    Newer {
        /// The directory of the log.
        dir: PathBuf,
        /// The name of the segment.
        segment: String,
        /// The format it has.
        version: u32,
    },
    /// There is no log where there must be one.
    #[error(
        "no log in {dir}, though this node has run before: if its disk was lost, remove the node from the cluster \
         and start it with an empty data directory, so that it joins as a new node; it must not take part with its \
         memory gone"
    )]
    Missing {
        /// The directory of the log.
        dir: PathBuf,
    },
    /// The options contradict themselves.
    #[error("log options: {0}")]
    Options(String),
}
