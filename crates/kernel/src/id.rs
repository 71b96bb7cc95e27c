//! Names for things that must never be confused with plain numbers.

use core::fmt;
use serde::{Deserialize, Serialize};

/// One incarnation of one node. Kept in the node's data directory; a node that lost its disk gets a new one.
///
/// Addresses are never identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u64);

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One cluster. Nodes of different clusters refuse to talk to each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId(pub u64);

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster {:016x}", self.0)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The place of one record in a node's log of records: 1 for the first record that the node ever persisted.
///
/// The driver numbers records; machines only compare positions and hand them back with [`crate::Effect::Discard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Position(pub u64);

impl Position {
    /// The position of the record after this one.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0 + 1)
    }
}
