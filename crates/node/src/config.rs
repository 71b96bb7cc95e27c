//! What can be chosen about a node.

use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;
use core::time::Duration;
use quorate_api::Bucket;
use quorate_groups::preset::Preset;
use quorate_kernel::ClusterId;
use quorate_replog as replog;
use quorate_shard as shard;
use serde::{Deserialize, Serialize};

use crate::interface::Member;

/// Most buckets a cluster may have: each costs its leader a heartbeat to every follower 20 times a second.
pub const BUCKETS_MAX: u16 = 256;

/// Settings of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// This node.
    pub me: Member,
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// The first members of a new cluster, the same on all of them; empty for a node that joins one.
    pub bootstrap: Vec<Member>,
    /// Into how many buckets the slots are cut, each with a log of its own; the same on all nodes, for as long as the
    /// cluster lives. More buckets spread the load over more leaders; each costs heartbeats and smaller batches. A node
    /// that joins and does not know yet says 1 and is told with [`crate::Input::Shape`].
    pub buckets: NonZeroU16,
    /// How many nodes hold each bucket, on nodes that come and go; 0: all members hold all buckets, and only an
    /// operator or a node that joins changes the members. At first the same on all nodes, and 0 or not for as long as the
    /// cluster lives.
    pub copies: u8,
    /// Who decides which nodes hold which buckets; of no consequence without copies. The same on all nodes, for as long as the cluster
    /// lives.
    pub topology: Topology,
    /// How buckets are placed; of no consequence without copies.
    pub placing: Placing,
    /// The logs.
    pub log: replog::Config,
    /// Queues and deadlines.
    pub limits: Limits,
}

/// Who decides which nodes hold which buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One placement for all buckets, which follows from who is there.
    #[default]
    View,
    /// Groups of nodes that hold the buckets of a span together, and split, merge and let nodes in and go by their own decision. The
    /// number of copies is the size that groups should have, about.
    Ring,
}

/// How buckets are placed on nodes that come and go: the nodes agree who of them is there, and each bucket has copies on
/// some of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placing {
    /// What this node shares large failures with: a site.
    pub zone: Bytes,
    /// What it shares small failures with, within its zone.
    pub rack: Bytes,
    /// How much it should hold, in proportion to the others.
    pub capacity: u32,
    /// How long a copy whose node has left may be missing before another node gets one. Short: a restart moves data; long:
    /// the bucket can afford fewer further failures meanwhile. If nothing says it, 10 s; 3 s where nodes form groups.
    pub repair_after: Option<Duration>,
    /// In topology `ring`: which policies groups follow; none: they choose by what they measure.
    pub preset: Option<Preset>,
    /// In topology `ring`: groups are as large as it takes to have so many nines of availability, by how long nodes live, and as large as the
    /// number of copies says until something was seen; 0: that large for good.
    pub nines: u8,
    /// The agreement about who is there.
    pub membership: quorate_membership::Config,
}

impl NodeConfig {
    /// See [`Placing::repair_after`].
    pub(crate) fn repair_after(&self) -> Duration {
        self.placing.repair_after.unwrap_or(match self.topology {
            Topology::View => Duration::from_secs(10),
            Topology::Ring => Duration::from_secs(3),
        })
    }
}

impl Placing {
    /// For servers.
    pub fn production() -> Self {
        Placing {
            zone: Bytes::new(),
            rack: Bytes::new(),
            capacity: 1,
            repair_after: None,
            preset: None,
            nines: 0,
            // A leader that dies has a successor long before; nothing is gained by doubting a busy machine sooner.
            membership: quorate_membership::Config {
                needs_state: false,
                probe_interval: Duration::from_millis(200),
                probe_timeout: Duration::from_millis(200),
                // Nodes that are started together are let in together.
                batch_quiet: Duration::from_millis(200),
                batch_age_max: Duration::from_secs(1),
                ..quorate_membership::Config::production()
            },
        }
    }
}

/// Where a node keeps what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Whatever is written takes room until an operator makes some: a full node takes nothing into its logs but what serves to agree.
    Disk,
    /// What is deleted gives room: a full node refuses what can make it hold more (commands with the flag `denyoom`), and that alone.
    Memory,
}

/// Bounds of a node's queues, and how long requests wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long a request may wait for its end before the client is told that there is none. Too short: needless
    /// `TRYAGAIN` and `UNKNOWN` during an election; too long: clients hang.
    pub deadline: Duration,
    /// Without progress for this long, requests are sent again; then after twice as long, and so on. A little more than
    /// a round trip with its sync.
    pub retry: Duration,
    /// A request that bears a name of its client is refused if it was first wanted longer ago, by this node's clock. Who is older goes
    /// first: longer than clients insist, and no longer, or a client whose clock is behind keeps all others waiting.
    pub age_max: Duration,
    /// A leader's answer to a read is late if it takes longer by more than this than the quickest, and by three quarters. If many are, copies are asked as well:
    /// with less slack, also where nothing is gained by that; with more, a popular bucket is as fast as one machine.
    pub read_slack: Duration,
    /// A cluster of so many nodes is large: copies answer reads that leaders are late with, and carry requests that meet to the one that leads there. In a smaller one
    /// leaders have time for all that few nodes ask, and a copy would only be one more to ask.
    pub large_from: usize,
    /// Requests taken and not answered; above it new ones are refused as `BUSY`.
    pub requests_max: usize,
    /// Bytes of these, also refused as `BUSY`.
    pub bytes_max: usize,
    /// Bytes of requests in one batch, and so in one entry of the log, unless a single request is larger.
    pub batch_bytes_max: usize,
    /// Bytes of writes on their way to the leader and not yet answered. It must hold what arrives in a round trip.
    pub window_bytes_max: usize,
    /// Where the node keeps what it holds, and so what it does while there is no room.
    pub storage: Storage,
    /// What the log remembers of the sessions of nodes; the same on all nodes, for as long as the cluster lives.
    pub shard: shard::Limits,
}

impl Limits {
    #[cfg(feature = "mutants")]
    pub(crate) fn breaks(&self, mutant: shard::Mutant) -> bool {
        self.shard.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) const fn breaks(&self, _: shard::Mutant) -> bool {
        false
    }

    /// Those of one of `count` buckets.
    pub(crate) fn of_bucket(&self, bucket: Bucket, count: NonZeroU16) -> shard::Limits {
        let ring_end = bucket.ring_end(count).filter(|_| !self.breaks(shard::Mutant::ScanEndsEarly));
        shard::Limits { ring_end, ..self.shard.clone() }
    }

    /// For servers.
    pub fn production() -> Self {
        Limits {
            deadline: Duration::from_secs(5),
            age_max: Duration::from_secs(60),
            retry: Duration::from_millis(200),
            read_slack: Duration::from_micros(300),
            large_from: 64,
            requests_max: 200_000,
            bytes_max: 256 << 20,
            batch_bytes_max: 512 << 10,
            window_bytes_max: 16 << 20,
            storage: Storage::Disk,
            shard: shard::Limits::production(),
        }
    }

    /// So small that a simulation meets every one of them.
    pub fn tiny() -> Self {
        Limits {
            requests_max: 50,
            bytes_max: 4 << 10,
            batch_bytes_max: 150,
            window_bytes_max: 500,
            shard: shard::Limits::tiny(),
            ..Limits::production()
        }
    }
}
