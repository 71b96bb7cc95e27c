//! What a node counts about itself, and the picture of it that operators get.

use std::time::Duration;

use quorate_node::{DeedKind, Status, Tally};
use serde::{Deserialize, Serialize};

use crate::peers::PeerStats;

/// Upper bounds of the buckets, in microseconds; a last bucket takes the rest.
const BOUNDS_US: [u64; 21] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
];

/// A distribution of durations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BOUNDS_US.len() + 1],
    count: u64,
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: [0; BOUNDS_US.len() + 1], count: 0, sum_ns: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.counts[BOUNDS_US.partition_point(|bound| *bound < us)] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Upper bound in seconds and count of each bucket, not cumulated; the last bound is infinite.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
        bounds.zip(self.counts).collect()
    }
}

/// Kinds of requests that are measured apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Transaction,
}

impl Kind {
    pub(crate) const NAMES: [&'static str; 3] = ["read", "write", "transaction"];
}

/// Sums and levels at the client doors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStats {
    /// Connections that are open.
    pub connections: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections turned away because there were too many.
    pub turned_away: u64,
    /// Connections closed because their client does not read.
    pub slow_closed: u64,
    /// Connections closed because nothing came for too long.
    pub idle_closed: u64,
    /// Connections closed because of bytes that are not the protocol.
    pub protocol_errors: u64,
    /// Failures to accept for want of file descriptors or memory.
    pub accept_failures: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Commands received.
    pub commands: u64,
    /// Requests under way in the node.
    pub in_flight: u64,
    /// Their bytes.
    pub in_flight_bytes: u64,
    /// Requests that ended as refused: nothing happened.
    pub refused: u64,
    /// Requests whose outcome is unknown.
    pub unknown: u64,
}

impl ClientStats {
    /// The sums counted since `base`; levels as they are.
    pub(crate) fn since(&self, base: &ClientStats) -> ClientStats {
        let mut since = *self;
        let sums = [
            (&mut since.accepted, base.accepted),
            (&mut since.turned_away, base.turned_away),
            (&mut since.bytes_in, base.bytes_in),
            (&mut since.bytes_out, base.bytes_out),
            (&mut since.commands, base.commands),
        ];
        for (sum, base) in sums {
            *sum = sum.saturating_sub(base);
        }
        since
    }
}

/// What the driver of a node knows about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostStats {
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Moving average of how long a sync takes, in microseconds.
    pub sync_average_us: u64,
    /// Whether syncs run beside the loop.
    pub sync_beside: bool,
    /// Whether idle processors of the machine are kept awake.
    #[serde(default)]
    pub awake: bool,
    /// Records appended to the log since the start.
    pub records: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of the store.
    pub store_bytes: u64,
    /// Bytes free on the disk, as last seen; in durability "memory", of what may be held.
    pub free_bytes: u64,
    /// Whether writes are refused for want of them.
    pub disk_full: bool,
    /// Armed timers.
    pub timers: u64,
    /// Whether the node is stopping.
    pub stopping: bool,
    /// At the client doors.
    pub clients: ClientStats,
    /// Between nodes.
    pub peers: PeerStats,
}

/// Distributions, kept apart from the sums because only the metrics show them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distributions {
    /// From a command's arrival to its answer, by kind.
    pub(crate) requests: [Histogram; 3],
    /// One turn of the loop without the waiting.
    pub(crate) turn: Histogram,
    /// One sync of the log.
    pub(crate) sync: Histogram,
}

/// A picture of a running node.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The node's view of itself.
    pub node: Status,
    /// Its driver's view of it.
    pub host: HostStats,
    /// Counters of notable states.
    pub marks: Vec<(&'static str, u64)>,
    /// What the node did for groups; empty where nodes form none.
    pub deeds: Vec<(DeedKind, Tally)>,
    /// Distributions of durations.
    pub distributions: Distributions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_their_buckets() {
        let mut histogram = Histogram::default();
        for us in [0, 10, 11, 1_000, 10_000_001] {
            histogram.record(Duration::from_micros(us));
        }
        let counts: Vec<_> = histogram.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(0.000_01, 2), (0.000_02, 1), (0.001, 1), (f64::INFINITY, 1)]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum_seconds() - 10.001_022).abs() < 1e-9);
    }
}
