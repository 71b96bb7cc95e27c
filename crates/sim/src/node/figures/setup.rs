//! What a run is made of.

use std::num::NonZeroU16;
use std::time::Duration;

use bytes::Bytes;
use quorate_kernel::Rng;
use quorate_node::Limits;
use quorate_workload::tpcc::{self, Layout, Loaded, Scale, Terminal, TpccTransaction};
use quorate_workload::transaction::{Ask, Seen, Transaction, Write};
use quorate_workload::ycsb::{self, Frontier, Group, Letter, Requests, Ycsb, YcsbSpec, YcsbTransaction};

use super::contest::{self, Contest, Contestants, Skew};
use crate::{ClockOptions, DiskOptions, Latency, NetworkOptions, Order, Service, WorldOptions};

/// How clients make transactions of what they want to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As SconeKV does: operations one after the other, each bringing the version of its key, also that of a key which is only
    /// written; then everything at once if no version has changed. What is aborted is not repeated.
    Paper,
    /// The same, but what is only written is not compared: nothing depends on what was there.
    Reads,
    /// As [`Manner::Paper`], and what is aborted is begun again with the same operations until it commits.
    Repeated,
    /// All operations are sent together and happen at one moment: MULTI, the commands, EXEC.
    OneShot,
}

impl Manner {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Manner::Paper => "paper",
            Manner::Reads => "reads",
            Manner::Repeated => "repeated",
            Manner::OneShot => "one-shot",
        }
    }

    fn group(self) -> Group {
        if self == Manner::OneShot { Group::OneShot } else { Group::Optimistic }
    }
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Transactions of five keys.
    Ycsb {
        /// Which mix.
        letter: Letter,
        /// Which records.
        requests: Requests,
        /// Of how many.
        records: u64,
        /// Whether they are there before clients begin. Otherwise one that is not there yet is read as nothing, and an update makes it, as long
        /// as what is updated needs.
        loaded: bool,
    },
    /// All five transactions, on a database with a hundredth of the rows of a warehouse or fewer.
    Tpcc {
        /// How large it is.
        scale: Scale,
    },
    /// Transactions that read and write all of their keys, which others want as well.
    Contest {
        /// Which keys.
        skew: Skew,
        /// Keys of the transactions of every eighth client; 0: all have five.
        long: usize,
    },
}

impl Load {
    /// Its name in results.
    pub fn name(&self) -> String {
        match self {
            Load::Ycsb { letter, requests, .. } => format!("ycsb-{letter:?}-{requests:?}").to_lowercase(),
            Load::Tpcc { scale } => match scale.layout {
                Layout::Spread => "tpcc",
                Layout::Together => "tpcc-together",
            }
            .into(),
            Load::Contest { skew, long: 0 } => skew.name().into(),
            Load::Contest { skew, .. } => format!("{}-and-long", skew.name()),
        }
    }

    pub(super) fn kinds(&self) -> &'static [&'static str] {
        match self {
            Load::Ycsb { .. } => &ycsb::KINDS,
            Load::Tpcc { .. } => &tpcc::KINDS,
            Load::Contest { .. } => &contest::KINDS,
        }
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// How many nodes.
    pub nodes: usize,
    /// Into how many buckets keys are cut.
    pub buckets: NonZeroU16,
    /// How many nodes hold each.
    pub copies: u8,
    /// How many clients.
    pub clients: usize,
    /// What they do.
    pub load: Load,
    /// And how.
    pub manner: Manner,
    /// Whether each client of TPC-C is connected to a node that does not lead the bucket of its warehouse.
    pub away: bool,
    /// What a message costs the node that takes it.
    pub service: Service,
    /// One way between two nodes.
    pub network: Latency,
    /// One way between a client and its node, give or take a tenth.
    pub client: Duration,
    /// How long a transaction may wait for its locks before its coordinator aborts it; `None`: as servers do.
    pub patience: Option<Duration>,
    /// How wrong wall clocks are at most, in milliseconds; `None`: by up to a second. A transaction is as old as its node's
    /// clock says.
    pub clock_error_ms: Option<u64>,
    /// An fdatasync; none is made if zero, and a log is as durable as the memory of most of its members.
    pub sync: Duration,
    /// Not counted.
    pub warm: Duration,
    /// Counted.
    pub span: Duration,
    /// All else follows from it.
    pub seed: u64,
}

impl Setup {
    /// The paper's small cluster: 20 nodes, 5 buckets of 4 copies, YCSB A over a million records.
    pub fn small(clients: usize, manner: Manner, seed: u64) -> Setup {
        let micros = Duration::from_micros;
        let load =
            Load::Ycsb { letter: Letter::A, requests: Requests::Zipfian, records: 1_000_000, loaded: false };
        Setup {
            nodes: 20,
            buckets: NonZeroU16::MIN.saturating_add(4),
            copies: 4,
            clients,
            load,
            manner,
            away: false,
            service: Service::eight_workers(),
            network: Latency::Uniform(micros(150), micros(250)),
            client: super::runs::CLIENT_ONE_WAY,
            patience: None,
            // As servers that ask for the time keep it.
            clock_error_ms: Some(10),
            sync: Duration::ZERO,
            warm: Duration::from_millis(500),
            span: Duration::from_secs(2),
            seed,
        }
    }

    /// With so many nodes, and buckets in proportion.
    #[must_use]
    pub fn nodes(self, nodes: usize) -> Setup {
        let buckets = u16::try_from(nodes / usize::from(self.copies)).ok().and_then(NonZeroU16::new);
        Setup { nodes, buckets: buckets.unwrap_or(NonZeroU16::MIN), ..self }
    }

    pub(super) fn limits(&self) -> Limits {
        let mut limits = Limits::production();
        if let Some(patience) = self.patience {
            let commit = &mut limits.shard.commit;
            commit.patience = Some(patience);
            // It is looked at when a question is repeated. Repeated more often than a commit takes, questions are all there is.
            commit.retry = commit.retry.min(patience);
        }
        limits
    }

    /// One way between a client and its node.
    pub(super) fn way(&self, rng: &mut Rng) -> Duration {
        Duration::from_nanos(Latency::Uniform(self.client * 9 / 10, self.client * 11 / 10).draw(rng))
    }

    pub(super) fn world(&self) -> WorldOptions {
        let calm = WorldOptions::calm(self.seed, self.nodes);
        WorldOptions {
            network: NetworkOptions { latency: self.network, order: Order::Fifo, ..calm.network.clone() },
            disk: DiskOptions {
                sync: Latency::Constant(self.sync),
                volatile: self.sync.is_zero(),
                segment_records: 1_000,
                ..calm.disk
            },
            clock: ClockOptions { wall_error_ms: self.clock_error_ms, ..calm.clock },
            service: Some(self.service),
            inbox_max: usize::MAX,
            checks: false,
            events_max: u64::MAX,
            ..calm
        }
    }

    fn spec(&self, letter: Letter, requests: Requests, records: u64) -> YcsbSpec {
        let group = self.manner.group();
        YcsbSpec { requests, records, keys_per_transaction: 5, group, ..YcsbSpec::new(letter) }
    }

    /// What is written before clients begin.
    pub(super) fn rows(&self) -> Box<dyn Iterator<Item = Write>> {
        match self.load {
            Load::Ycsb { letter, requests, records, loaded: true } => {
                Box::new(self.spec(letter, requests, records).load(self.seed))
            }
            Load::Ycsb { loaded: false, .. } | Load::Contest { .. } => Box::new(std::iter::empty()),
            Load::Tpcc { scale } => Box::new(tpcc::population(&Loaded::new(scale, self.seed), self.seed, 0)),
        }
    }

    /// Where each client's transactions come from.
    pub(super) fn sources(&self, rng: &mut Rng) -> Vec<Source> {
        match self.load {
            Load::Ycsb { letter, requests, records, .. } => {
                let spec = self.spec(letter, requests, records);
                let ycsb = Ycsb::new(spec, Rng::new(0)).expect("a workload of the harness");
                (0..self.clients)
                    .map(|_| Source::Ycsb(ycsb.with(rng.fork()), Frontier::new(records)))
                    .collect()
            }
            Load::Tpcc { scale } => {
                let loaded = Loaded::new(scale, self.seed);
                // Their warehouses are spread over all that there are.
                let apart = scale.warehouses / self.clients as u64;
                let terminal = |number| Terminal::new(loaded.clone(), number as u64 * apart, rng.fork());
                (0..self.clients).map(terminal).map(Source::Tpcc).collect()
            }
            Load::Contest { skew, long } => {
                let optimistic = self.manner != Manner::OneShot;
                let all = Contestants::all((skew, long), self.clients, optimistic, self.buckets, rng);
                all.into_iter().map(Source::Contest).collect()
            }
        }
    }
}

/// Where a client's transactions come from. None of the mixes inserts, so each client may have a frontier of its own.
#[derive(Debug)]
pub(super) enum Source {
    Ycsb(Ycsb, Frontier),
    Tpcc(Terminal),
    Contest(Contestants),
}

impl Source {
    /// A key of where most of what it asks for lies, if there is such a place.
    pub(super) fn home(&self) -> Option<Bytes> {
        match self {
            Source::Ycsb(..) | Source::Contest(_) => None,
            Source::Tpcc(terminal) => Some(terminal.home()),
        }
    }

    pub(super) fn next(&mut self, now: Duration) -> Job {
        match self {
            Source::Ycsb(ycsb, frontier) => Job::Ycsb(ycsb.next(frontier)),
            Source::Contest(all) => Job::Contest(all.next()),
            Source::Tpcc(terminal) => Job::Tpcc(Box::new(terminal.next(now.as_secs()))),
        }
    }
}

/// A transaction of either benchmark.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Ycsb(YcsbTransaction),
    Tpcc(Box<TpccTransaction>),
    Contest(Contest),
}

impl Transaction for Job {
    fn kind(&self) -> usize {
        match self {
            Job::Ycsb(job) => job.kind(),
            Job::Tpcc(job) => job.kind(),
            Job::Contest(job) => job.kind(),
        }
    }

    fn operations(&self) -> u64 {
        match self {
            Job::Ycsb(job) => job.operations(),
            Job::Tpcc(job) => job.operations(),
            Job::Contest(job) => job.operations(),
        }
    }

    fn is_write(&self) -> bool {
        match self {
            Job::Ycsb(job) => job.is_write(),
            Job::Tpcc(job) => job.is_write(),
            Job::Contest(job) => job.is_write(),
        }
    }

    fn is_guarded(&self) -> bool {
        match self {
            Job::Ycsb(job) => job.is_guarded(),
            Job::Tpcc(job) => job.is_guarded(),
            Job::Contest(job) => job.is_guarded(),
        }
    }

    fn next(&mut self) -> Ask {
        match self {
            Job::Ycsb(job) => job.next(),
            Job::Tpcc(job) => job.next(),
            Job::Contest(job) => job.next(),
        }
    }

    fn answered(&mut self, seen: Vec<Seen>) {
        match self {
            Job::Ycsb(job) => job.answered(seen),
            Job::Tpcc(job) => job.answered(seen),
            Job::Contest(job) => job.answered(seen),
        }
    }
}
