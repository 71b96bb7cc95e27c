//! What `/why` tells.

use quorate_node::{Deed, Journal};
use serde::{Deserialize, Serialize};

/// What a node did for groups of late, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WhyReport {
    /// How many deeds it has forgotten since it was started: the oldest.
    pub dropped: u64,
    /// Those that it remembers, the oldest first.
    pub deeds: Vec<Deed>,
}

impl WhyReport {
    pub(super) fn of(journal: &Journal) -> WhyReport {
        WhyReport { dropped: journal.dropped(), deeds: journal.deeds().cloned().collect() }
    }
}
