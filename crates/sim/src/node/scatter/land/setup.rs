//! What a run is made of.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_replog::Config;

use crate::{ClockOptions, DiskOptions, Latency, NetworkOptions, Order, WorldOptions};

/// Nodes that found the ring; all others join.
pub(super) const FOUNDERS: u64 = 7;

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// How many nodes live at the same time.
    pub nodes: usize,
    /// How many nodes a group should have, about.
    pub copies: u8,
    /// How many buckets there are.
    pub buckets: u16,
    /// How many nodes come in a second, for each hundred that are there, while the ring forms.
    pub joins_percent: u32,
    /// How long nodes live, in the mean.
    pub lifetime: Duration,
    /// Between two operations of the same node's client.
    pub think: Duration,
    /// Counted, after the ring has formed.
    pub span: Duration,
    /// All else follows from it.
    pub seed: u64,
}

impl Setup {
    /// So many nodes under little load.
    pub fn of(nodes: usize, seed: u64) -> Setup {
        Setup {
            nodes,
            copies: 7,
            buckets: (nodes / 2).clamp(16, 8_192) as u16,
            joins_percent: 10,
            lifetime: Duration::from_secs(1_000),
            think: Duration::from_secs(10),
            span: Duration::from_secs(30),
            seed,
        }
    }

    pub(super) fn buckets(&self) -> NonZeroU16 {
        NonZeroU16::new(self.buckets).unwrap_or(NonZeroU16::MIN)
    }

    /// Logs whose leaders are missed after a second or two, not sooner: ten thousand nodes under one eye beat a lot.
    pub(super) fn log() -> Config {
        let (heartbeat, election) = (Duration::from_millis(200), Duration::from_millis(1_000));
        Config { heartbeat, election, lease: election, ..Config::production() }
    }

    pub(super) fn world(&self) -> WorldOptions {
        let calm = WorldOptions::calm(self.seed, self.nodes);
        let way = Duration::from_millis(1);
        WorldOptions {
            network: NetworkOptions {
                latency: Latency::Uniform(way / 2, way),
                order: Order::Fifo,
                ..calm.network.clone()
            },
            disk: DiskOptions { sync: Latency::ZERO, volatile: true, segment_records: 1_000, ..calm.disk },
            clock: ClockOptions { wall_error_ms: Some(10), ..calm.clock },
            start_within: Duration::from_secs(1),
            inbox_max: usize::MAX,
            checks: false,
            events_max: u64::MAX,
            ..calm
        }
    }
}
