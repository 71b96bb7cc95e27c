//! Names of logs, transactions and reigns.

use core::fmt;
use serde::{Deserialize, Serialize};

/// A log that takes part in transactions. What it stands for (a shard, a group) is its parent's business.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct LogId(pub u64);

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.0)
    }
}

/// A transaction. The order is that of age, oldest first, and the older of two that want the same locks wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TransactionId {
    /// When it was first attempted, by its origin's clock in any unit that all origins share. A further attempt at the
    /// same thing keeps it, so that it is older than whatever began since and wins in the end. Carries no safety.
    pub age: u64,
    /// Who asks: one life of one node, or one session. Never used again by anybody else.
    pub origin: u64,
    /// Counts what the origin asks, each attempt anew.
    pub sequence: u64,
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}.{}.{}", self.age, self.origin, self.sequence)
    }
}

/// Names one reign of one primary of a log; a later reign of the same log has a greater one. The parts are those of a
/// ballot. The default stands for none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct View {
    /// Compared first.
    pub epoch: u64,
    /// Compared second.
    pub number: u64,
    /// Compared last: who reigns.
    pub node: u64,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.epoch, self.number, self.node)
    }
}
