//! What a run is made of.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_kernel::Rng;

use crate::{ClockOptions, DiskOptions, Latency, NetworkOptions, Order, Service, WorldOptions};

/// More founders than this are too many for one group; the others join.
const FOUNDERS_MAX: usize = 10;
/// Nodes that join come one after the other, so far apart.
const JOIN_EVERY: Duration = Duration::from_millis(500);

/// Who decides which nodes hold which keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Groups, by their policies.
    Groups,
    /// Nobody: clusters of so many nodes that do not know each other, each of which was given keys that had the same load when it was
    /// set up. One log and one leader each.
    Partitions,
    /// The same, each with several logs, whose leaders are spread over its nodes.
    Spread,
    /// A hash of the keys and of the nodes: the hash table without agreement that churn is compared with.
    Hashes,
}

impl System {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            System::Groups => "groups",
            System::Partitions => "partitions",
            System::Spread => "partitions-spread",
            System::Hashes => "hash-table",
        }
    }
}

/// What is asked for above all, until others take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heat {
    /// Nothing: users are as popular as they are.
    Even,
    /// Some authors, as many as there are nodes, wherever their keys lie.
    Authors {
        /// What these have of all operations, in percent.
        percent: u32,
    },
    /// Users whose keys lie in one stretch of the ring.
    Region {
        /// What these have of all operations, in percent.
        percent: u32,
        /// How long the stretch is, in percent of the ring.
        width: u32,
    },
}

impl Heat {
    /// Its name in results.
    pub fn name(self) -> String {
        match self {
            Heat::Even => "even".into(),
            Heat::Authors { percent } => format!("authors-{percent}"),
            Heat::Region { percent, width } => format!("region-{percent}-of-{width}"),
        }
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// How many nodes.
    pub nodes: usize,
    /// Who decides.
    pub system: System,
    /// How many nodes a group has, or a partition.
    pub copies: u8,
    /// How many buckets there are for each node, of all nodes together.
    pub buckets_per_node: u16,
    /// How many clients there are for each node.
    pub clients_per_node: usize,
    /// How many users there are.
    pub users: usize,
    /// How much more those do who have more followers: the rate grows with this power of their number.
    pub eagerness: f64,
    /// What is asked of a user's key: reads for each pair of a read and a write; none: it is only read.
    pub reads_per_post: Option<u32>,
    /// What is hot.
    pub heat: Heat,
    /// When something else becomes hot, over and over; none: it stays.
    pub moves_every: Option<Duration>,
    /// Operations in a second of all clients; none: as many as can be.
    pub throttle: Option<u32>,
    /// Not counted.
    pub warm: Duration,
    /// Counted.
    pub span: Duration,
    /// All else follows from it.
    pub seed: u64,
}

impl Setup {
    /// Figure 16's: posts that one follower each fetches, with trending authors, and more clients than can be served at once.
    pub fn chirp(nodes: usize, system: System, seed: u64) -> Setup {
        Setup {
            nodes,
            system,
            copies: 5,
            buckets_per_node: 16,
            clients_per_node: 16,
            users: 1_000_000,
            eagerness: 0.5,
            reads_per_post: Some(1),
            heat: Heat::Authors { percent: 20 },
            moves_every: None,
            throttle: None,
            // Until borders rest.
            warm: Duration::from_secs(20),
            span: Duration::from_secs(5),
            seed,
        }
    }

    /// All buckets of a ring.
    pub(super) fn buckets(&self) -> NonZeroU16 {
        let count = self.nodes as u16 * self.buckets_per_node;
        NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
    }

    /// Buckets of one cluster, where there are several.
    pub(super) fn buckets_of_one(&self) -> NonZeroU16 {
        let spread = u16::from(self.copies) * self.buckets_per_node;
        NonZeroU16::new(spread).filter(|_| self.system == System::Spread).unwrap_or(NonZeroU16::MIN)
    }

    /// How many nodes found the ring.
    pub(super) fn founders(&self) -> usize {
        self.nodes.min(FOUNDERS_MAX)
    }

    /// What users and clients do follows from it, the same in all systems.
    pub(super) fn chance(&self) -> Rng {
        Rng::new(self.seed ^ 0x746f_776e)
    }

    pub(super) fn clients(&self) -> usize {
        self.nodes * self.clients_per_node
    }

    /// One loop: the paper's machines had one core.
    pub(super) fn service() -> Service {
        let time = Latency::Uniform(Duration::from_micros(100), Duration::from_micros(200));
        Service { workers: 1, time, kib: Duration::ZERO, peers_first: true }
    }

    pub(super) fn world(&self) -> WorldOptions {
        let calm = WorldOptions::calm(self.seed, self.nodes);
        let way = Duration::from_micros(150);
        let late = self.nodes - self.founders();
        let is_ring = self.system == System::Groups;
        WorldOptions {
            network: NetworkOptions {
                latency: Latency::Uniform(way * 9 / 10, way * 11 / 10),
                order: Order::Fifo,
                ..calm.network.clone()
            },
            disk: DiskOptions { sync: Latency::ZERO, volatile: true, segment_records: 1_000, ..calm.disk },
            clock: ClockOptions { wall_error_ms: Some(10), ..calm.clock },
            start_within: if is_ring && late > 0 { JOIN_EVERY * late as u32 } else { calm.start_within },
            inbox_max: usize::MAX,
            checks: false,
            events_max: u64::MAX,
            ..calm
        }
    }
}
