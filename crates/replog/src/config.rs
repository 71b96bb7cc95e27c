//! What can be chosen about a log, and what breaks at both ends.

use alloc::vec::Vec;
use core::time::Duration;

use crate::rows::Rows;

/// Settings of one replica. Durations are measured on this node's monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The log's number among those of its cluster; its rows in the store stand apart by it.
    pub log: u16,
    /// A leader sends something to every follower at least this often. Shorter finds failures sooner and costs
    /// messages; it must leave room for several beats in [`Config::election`].
    pub heartbeat: Duration,
    /// A follower that hears from no leader for this long, plus a random part of the same length (longer after
    /// elections that nobody won), stands for election; a leader that hears from no quorum for this long steps down.
    /// Too short: elections under load. Too long: a longer pause when a leader dies. The same on all members.
    pub election: Duration,
    /// How long a follower that heard from a leader promises nothing to others. While a quorum is so bound the
    /// leader answers reads alone. Zero: no leases, each read asks a quorum. At most [`Config::election`]; the same on
    /// all members, because a restarted member waits this long before its first promise.
    pub lease: Duration,
    /// Bound of the error of any member's clock rate, in parts per million. Too small and a lease may be believed
    /// after it has ended; too large shortens leases.
    pub clock_error_ppm: u32,
    /// Members with a lower number stand for election sooner: each step adds half an [`Config::election`].
    pub priority: u8,
    /// Bytes of entries in one message. Larger costs memory per message, smaller costs messages.
    pub append_bytes_max: usize,
    /// Bytes of entries on their way to one follower and not yet acknowledged.
    pub inflight_bytes_max: usize,
    /// Bytes of entries kept in memory. A follower that is further behind needs a snapshot.
    pub log_bytes_max: usize,
    /// After this many bytes of new entries the store is asked to make itself durable, so that older records can
    /// be discarded. Bounds the log on disk and the replay after a restart.
    pub checkpoint_bytes: usize,
    /// Bytes of rows in one part of a snapshot.
    pub snapshot_part_bytes: usize,
    /// Parts of a snapshot on their way to one follower and not yet acknowledged.
    pub snapshot_parts_max: usize,
    /// A learner counts as caught up when it lacks at most this many entries.
    pub learner_lag_max: u64,
    /// A member change whose learners have not come nearer for this long is given up.
    pub change_deadline: Duration,
    /// While entries come one at a time, members that a quorum does not need get them this much later, with what has come meanwhile. Longer spares them more; a
    /// member that has stopped answering costs one entry as much. Zero: nobody is spared.
    pub spare: Duration,
    /// Which safety rule is broken, for the simulator to notice.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::Mutant>,
}

impl Config {
    /// For servers on a local network.
    pub fn production() -> Self {
        Config {
            log: 0,
            heartbeat: Duration::from_millis(50),
            election: Duration::from_millis(300),
            lease: Duration::from_millis(200),
            clock_error_ppm: 10_000,
            priority: 0,
            append_bytes_max: 1 << 20,
            inflight_bytes_max: 8 << 20,
            log_bytes_max: 24 << 20,
            checkpoint_bytes: 32 << 20,
            snapshot_part_bytes: 256 << 10,
            snapshot_parts_max: 8,
            learner_lag_max: 256,
            change_deadline: Duration::from_secs(120),
            spare: Duration::from_millis(5),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Limits so small that a simulation meets every one of them.
    pub fn tiny() -> Self {
        Config {
            append_bytes_max: 200,
            inflight_bytes_max: 600,
            log_bytes_max: 1_000,
            checkpoint_bytes: 1_500,
            snapshot_part_bytes: 100,
            snapshot_parts_max: 2,
            learner_lag_max: 3,
            change_deadline: Duration::from_secs(5),
            ..Config::production()
        }
    }

    /// Where the log's rows are.
    pub(crate) fn rows(&self) -> Rows {
        Rows { log: self.log }
    }

    /// How long a leader may believe a lease, counted on its own clock from when it sent what was acknowledged:
    /// shorter than the followers wait, by as much as both clocks may be wrong.
    pub(crate) fn lease_believed(&self) -> Duration {
        let error = u128::from(self.clock_error_ppm);
        let nanos = self.lease.as_nanos() * (1_000_000 - error.min(1_000_000)) / (1_000_000 + error);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Every relation between the settings that does not hold, in words for the one who set them.
    pub fn complaints(&self) -> Vec<&'static str> {
        let rules = [
            (self.heartbeat.is_zero(), "heartbeat must be above zero"),
            (self.election < self.heartbeat * 3, "election must be at least three heartbeats"),
            (self.lease > self.election, "lease must not be longer than election"),
            (self.clock_error_ppm >= 500_000, "clock_error_ppm must be below 500000"),
            (self.append_bytes_max == 0, "append_bytes_max must be above zero"),
            (self.inflight_bytes_max < self.append_bytes_max, "inflight_bytes_max must hold one append"),
            (self.log_bytes_max == 0, "log_bytes_max must be above zero"),
            (self.snapshot_part_bytes == 0, "snapshot_part_bytes must be above zero"),
            (self.snapshot_parts_max == 0, "snapshot_parts_max must be above zero"),
        ];
        rules.iter().filter(|(broken, _)| *broken).map(|(_, words)| *words).collect()
    }
}
