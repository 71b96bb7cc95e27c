//! How a log is kept.

use std::time::Duration;

use quorate_kernel::{ClusterId, NodeId};

use super::frame::{HEADER_BYTES, Identity};

/// When a record counts as durable, and with it everything that waits behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is on disk. Survives a power loss of all machines at once.
    #[default]
    Disk,
    /// When the system has taken it; it reaches the disk at the latest after this time, by the host's timer. Survives
    /// the death of the process. A power loss may take back what was acknowledged in that time.
    Interval(Duration),
    /// At once, and nothing is ever written. A node that restarts has lost everything and must join as a new node.
    Memory,
}

/// How a log is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whose log it is.
    pub identity: Identity,
    /// When a record counts as durable.
    pub durability: Durability,
    /// Bytes of a segment. Space is reserved and given back by whole segments: large segments keep more discarded
    /// records on disk, small ones pay for a switch (three syncs) more often. Records that fit in no segment get one
    /// of their own, whose space is not reserved ahead: stay well above the largest record.
    pub segment_bytes: u64,
    /// How many emptied segments are kept for reuse, beside the one that is always prepared. More of them cost disk
    /// space; with none, the blocks of each segment are zeroed again before use.
    pub spares_max: usize,
    /// Whether a log must be there. Set for a node that has run before, so that a lost log is not taken for a new
    /// one.
    pub existing: bool,
}

impl Options {
    /// The usual options for the log of a node.
    pub fn new(cluster: ClusterId, node: NodeId) -> Options {
        Options {
            identity: Identity { cluster, node },
            durability: Durability::Disk,
            segment_bytes: 32 << 20,
            spares_max: 2,
            existing: false,
        }
    }

    /// Everything that is wrong with the options, each with what to do.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.segment_bytes < SEGMENT_BYTES_MIN || self.segment_bytes > SEGMENT_BYTES_MAX {
            complaints.push(format!(
                "segment_bytes is {}, but must be from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}",
                self.segment_bytes
            ));
        }
        if !self.segment_bytes.is_multiple_of(HEADER_BYTES as u64) {
            complaints.push(format!(
                "segment_bytes is {}, but must be a multiple of {HEADER_BYTES}",
                self.segment_bytes
            ));
        }
        if self.durability == Durability::Interval(Duration::ZERO) {
            complaints.push("an interval of zero never syncs: choose durability `disk`".to_owned());
        }
        complaints
    }
}

/// The smallest segment: a header and some records.
pub const SEGMENT_BYTES_MIN: u64 = 2 * HEADER_BYTES as u64;

/// The largest segment: recovery holds one in memory.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_options_are_sound_and_all_complaints_come_together() {
        let mut options = Options::new(ClusterId(1), NodeId(1));
        assert_eq!(options.complaints(), Vec::<String>::new());
        options.segment_bytes = 1;
        options.durability = Durability::Interval(Duration::ZERO);
        assert_eq!(options.complaints().len(), 3);
    }
}
