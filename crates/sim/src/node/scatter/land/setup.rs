//! What a run is made of.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_kernel::Rng;
use quorate_node::Limits;
use quorate_replog::Config;

use super::super::setup::Sites;
use crate::{ClockOptions, DiskOptions, Latency, NetworkOptions, Order, WorldOptions};

/// Nodes that found the ring; all others join.
pub(super) const FOUNDERS: u64 = 7;

/// Pareto's, in the paper.
const SHAPE: f64 = 1.1;

/// The least that a lifetime of Pareto's can be, by the mean.
fn least(mean: Duration) -> Duration {
    mean.mul_f64((SHAPE - 1.0) / SHAPE)
}

/// How lifetimes are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lives {
    /// Whoever has lived long dies as soon as others: deaths are a Poisson process.
    Exponential,
    /// Whoever has lived long lives on: Pareto with shape 1.1, as the paper has it.
    Pareto,
}

impl Lives {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Lives::Exponential => "poisson",
            Lives::Pareto => "pareto",
        }
    }

    /// Lifetimes with this mean.
    pub(super) fn of(self, mean: Duration) -> Latency {
        match self {
            Lives::Exponential => Latency::Exponential { floor: Duration::ZERO, mean },
            Lives::Pareto => Latency::Pareto { least: least(mean), shape: SHAPE },
        }
    }

    /// What is left for those who are there when nodes have been coming and going for long.
    pub(super) fn left(self, mean: Duration) -> Latency {
        match self {
            // It does not matter how long they have lived.
            Lives::Exponential => self.of(mean),
            Lives::Pareto => Latency::ParetoLeft { least: least(mean), shape: SHAPE },
        }
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// How many nodes live at the same time.
    pub nodes: usize,
    /// How many nodes a group should have, about.
    pub copies: u8,
    /// How many nines of availability groups are to have by how long nodes live; 0: they have as many nodes as `copies` says.
    pub nines: u8,
    /// How many buckets there are.
    pub buckets: u16,
    /// How many nodes come in a second, for each hundred that are there, while the ring forms.
    pub joins_percent: u32,
    /// How long nodes live, in the mean.
    pub lifetime: Duration,
    /// How lifetimes are spread.
    pub lives: Lives,
    /// Where nodes stand.
    pub sites: Sites,
    /// Whether leaders are missed as soon as in a real cluster.
    pub is_prompt: bool,
    /// How long it takes until those connected to a node know that it died.
    pub noticed: Duration,
    /// Keys that clients ask for.
    pub keys: u64,
    /// How many of them at once; the baseline can one, and histories of one are judged.
    pub keys_each: usize,
    /// Whether all that clients did is kept and judged.
    pub is_judged: bool,
    /// Nodes die for so long before anything is counted.
    pub warm: Duration,
    /// Between two operations of the same node's client.
    pub think: Duration,
    /// Counted, after the ring has formed.
    pub span: Duration,
    /// All else follows from it.
    pub seed: u64,
    /// A rule that is broken.
    #[cfg(feature = "mutants")]
    pub mutant: Option<quorate_shard::Mutant>,
}

impl Setup {
    /// So many nodes under little load.
    pub fn of(nodes: usize, seed: u64) -> Setup {
        Setup {
            nodes,
            copies: 7,
            nines: 0,
            buckets: (nodes / 2).clamp(16, 8_192) as u16,
            joins_percent: 10,
            lifetime: Duration::from_secs(1_000),
            lives: Lives::Exponential,
            sites: Sites::One,
            is_prompt: false,
            noticed: Duration::from_millis(2),
            keys: 100_000,
            keys_each: 1,
            is_judged: false,
            warm: Duration::ZERO,
            think: Duration::from_secs(10),
            span: Duration::from_secs(30),
            seed,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Nodes all over the world that live so long, in the mean: figures 13 and 14 of the paper, with 840 nodes and a million operations.
    /// Groups are as large as they have to be then: a member is replaced five seconds after its death, about.
    pub fn churn(nodes: usize, lives: Lives, lifetime: Duration, seed: u64) -> Setup {
        let copies = match lifetime.as_secs() {
            0..150 => 13,
            150..250 => 11,
            250..500 => 9,
            _ => 7,
        };
        Setup {
            copies,
            lifetime,
            lives,
            sites: Sites::World,
            // Four heartbeats of half a second.
            noticed: Duration::from_secs(2),
            keys: 20_000,
            think: Duration::from_millis(60),
            is_judged: true,
            warm: Duration::from_secs(20),
            span: Duration::from_secs(55),
            ..Setup::of(nodes, seed)
        }
    }

    pub(super) fn buckets(&self) -> NonZeroU16 {
        NonZeroU16::new(self.buckets).unwrap_or(NonZeroU16::MIN)
    }

    /// Logs whose leaders are missed after a second or two, not sooner: ten thousand nodes under one eye beat a lot, and around the world the way
    /// alone takes long; and not later, since an operation that waits for three seconds has not been answered. They keep little in memory, since they are thousands.
    pub(super) fn log(&self) -> Config {
        let (heartbeat, election) = match self.sites {
            Sites::One if self.is_prompt => {
                let real = Config::production();
                (real.heartbeat, real.election)
            }
            Sites::One => (Duration::from_millis(200), Duration::from_millis(1_000)),
            _ => (Duration::from_millis(400), Duration::from_millis(1_200)),
        };
        Config {
            heartbeat,
            election,
            lease: election,
            append_bytes_max: 32 << 10,
            inflight_bytes_max: 128 << 10,
            log_bytes_max: 64 << 10,
            checkpoint_bytes: 64 << 10,
            snapshot_part_bytes: 32 << 10,
            ..Config::production()
        }
    }

    /// What is not answered is asked again after more than the longest way there and back.
    pub(super) fn limits(&self) -> Limits {
        let retry = if self.sites == Sites::One { 200 } else { 1_000 };
        let production = Limits::production();
        let shard = quorate_shard::Limits {
            #[cfg(feature = "mutants")]
            mutant: self.mutant,
            ..production.shard
        };
        Limits { retry: Duration::from_millis(retry), shard, ..production }
    }

    pub(super) fn world(&self) -> WorldOptions {
        let calm = WorldOptions::calm(self.seed, self.nodes);
        let way = Duration::from_millis(1);
        WorldOptions {
            network: NetworkOptions {
                latency: Latency::Uniform(way / 2, way),
                distance: match self.sites {
                    Sites::One => Vec::new(),
                    sites => sites.distances(self.nodes, &mut Rng::new(self.seed ^ 0x776f_726c_6421)),
                },
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
