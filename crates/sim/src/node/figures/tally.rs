//! What is counted, and what it comes to.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_api::Bucket;
use quorate_kernel::NodeId;
use quorate_workload::transaction::Transaction;

use super::client::Fate;
use super::crowd::Crowd;
use super::setup::{Job, Load, Setup};
use crate::node::operator::leader;
use crate::{Counts, Failure, Row, World};

/// How long a cluster may take to form and to be loaded.
const BEGIN_MAX: Duration = Duration::from_secs(600);
/// Marks of what waits and what is taken back, by their names in results.
const MARKS: [(&str, &str); 5] = [
    ("reverts", "commit.revert.done"),
    ("aborted_in_queue", "commit.local.refused_waiting"),
    ("batches_waited", "shard.batch.waits_for_locks"),
    ("reads_waited", "shard.read.waits_for_transaction"),
    ("elections", "replog.election.won"),
];

/// Transactions of one kind.
#[derive(Debug, Default)]
struct Kind {
    committed: u64,
    ended: u64,
    /// From the first attempt to the commit, in nanoseconds.
    latencies: Vec<u64>,
    longest: Duration,
}

impl Kind {
    /// So many in a hundred took no longer, once they are sorted by how long they took; in milliseconds.
    fn quantile(&self, percent: usize) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get(last * percent / 100).map_or(0.0, |ns| *ns as f64 / 1e6)
    }
}

/// What clients count within the window.
#[derive(Debug)]
pub(super) struct Tally {
    window: (Duration, Duration),
    kinds: Vec<(&'static str, Kind)>,
    attempts: u64,
    /// Attempts that came to nothing, by reason.
    failed: BTreeMap<&'static str, u64>,
    transactions: u64,
    committed: u64,
    operations: u64,
    operations_committed: u64,
    /// Buckets of those that committed.
    buckets: u64,
    /// From the first attempt to the commit, in nanoseconds.
    latencies: Vec<u64>,
    longest: Duration,
    /// Rounds that read and rounds that commit: how many and how long together.
    rounds: [(u64, Duration); 2],
    /// How often one transaction was tried at most.
    attempts_most: u64,
}

impl Tally {
    pub(super) fn new(kinds: &'static [&'static str]) -> Tally {
        Tally {
            window: (Duration::MAX, Duration::MAX),
            kinds: kinds.iter().map(|name| (*name, Kind::default())).collect(),
            attempts: 0,
            failed: BTreeMap::new(),
            transactions: 0,
            committed: 0,
            operations: 0,
            operations_committed: 0,
            buckets: 0,
            latencies: Vec::new(),
            longest: Duration::ZERO,
            rounds: [(0, Duration::ZERO); 2],
            attempts_most: 0,
        }
    }

    /// What ends between these two times counts.
    pub(super) fn open(&mut self, from: Duration, to: Duration) {
        self.window = (from, to);
    }

    fn counts(&self, now: Duration) -> bool {
        (self.window.0..self.window.1).contains(&now)
    }

    pub(super) fn round(&mut self, commits: bool, from: Duration, to: Duration) {
        if self.counts(to) {
            let (count, sum) = &mut self.rounds[usize::from(commits)];
            *count += 1;
            *sum += to - from;
        }
    }

    /// An attempt is over.
    pub(super) fn attempt(&mut self, fate: &Fate, now: Duration) {
        if !self.counts(now) {
            return;
        }
        self.attempts += 1;
        let reason = match fate {
            Fate::Committed | Fate::RolledBack => return,
            Fate::Outrun => "outrun",
            Fate::Refused(why) => why.rsplit('.').next().unwrap_or(why),
            Fate::Unknown => "unknown",
        };
        *self.failed.entry(reason).or_default() += 1;
    }

    /// A transaction is over and will not be begun again.
    pub(super) fn ended(
        &mut self,
        job: &Job,
        fate: &Fate,
        span: (Duration, Duration),
        (buckets, attempts): (u64, u64),
    ) {
        let (begun, now) = span;
        if !self.counts(now) {
            return;
        }
        let is_done = matches!(fate, Fate::Committed | Fate::RolledBack);
        let (kind, done) = (&mut self.kinds[job.kind()].1, u64::from(is_done));
        kind.ended += 1;
        kind.committed += done;
        self.transactions += 1;
        self.committed += done;
        self.operations += job.operations();
        self.operations_committed += job.operations() * done;
        if is_done {
            self.buckets += buckets;
            let took = u64::try_from((now - begun).as_nanos()).unwrap_or(u64::MAX);
            kind.latencies.push(took);
            self.latencies.push(took);
        }
        kind.longest = kind.longest.max(now - begun);
        self.longest = self.longest.max(now - begun);
        self.attempts_most = self.attempts_most.max(attempts);
    }

    /// Transactions that have not ended have waited as well, and were tried as often.
    fn wait(&mut self, waiting: impl Iterator<Item = (usize, Duration, u64)>) {
        for (kind, waited, attempts) in waiting {
            let kind = &mut self.kinds[kind].1;
            kind.longest = kind.longest.max(waited);
            self.longest = self.longest.max(waited);
            self.attempts_most = self.attempts_most.max(attempts);
        }
        self.latencies.sort_unstable();
        self.kinds.iter_mut().for_each(|(_, kind)| kind.latencies.sort_unstable());
    }

    /// So many in a hundred, of the transactions that are sorted by how long they took, took no longer, in milliseconds.
    fn quantile(&self, percent: usize) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get(last * percent / 100).map_or(0.0, |ns| *ns as f64 / 1e6)
    }
}

/// What the world has counted so far.
struct Reading {
    counts: Counts,
    entries: u64,
    marks: [u64; MARKS.len()],
    busy: Vec<Duration>,
}

fn read(world: &World<Crowd>, setup: &Setup) -> Reading {
    let nodes = world.nodes();
    let last = |bucket: Bucket| {
        let shard =
            leader(nodes, bucket).and_then(|id| nodes.machine(id)).and_then(|node| node.shard(bucket));
        shard.map_or(0, |shard| shard.log().last())
    };
    Reading {
        counts: world.counts(),
        entries: (0..setup.buckets.get()).map(Bucket).map(last).sum(),
        marks: MARKS.map(|(_, mark)| world.marks().count(mark)),
        busy: (1..=setup.nodes as u64).map(|id| nodes.busy(NodeId(id))).collect(),
    }
}

/// Runs a setup; one row of results.
///
/// # Errors
/// If the cluster does not form, or answers make no sense.
pub fn measure(experiment: &'static str, setup: &Setup) -> Result<Row, Failure> {
    let mut world = World::new(setup.world(), Crowd::new(setup.clone()));
    let has_begun = world.run_until_done(BEGIN_MAX, |world| world.harness().began.is_some());
    let Some(began) = world.harness().began.filter(|_| has_begun) else {
        let slow = Failure::Liveness("the clients could not begin".into());
        return Err(world.failure().cloned().unwrap_or(slow));
    };
    world.run_until(began + setup.warm);
    let before = read(&world, setup);
    world.run_until(began + setup.warm + setup.span);
    let after = read(&world, setup);
    if let Some(failure) = world.failure() {
        return Err(failure.clone());
    }
    let end = began + setup.warm + setup.span;
    let waiting = world.harness().under_way();
    let waiting: Vec<_> =
        waiting.map(|(kind, begun, tries)| (kind, end.saturating_sub(begun), tries)).collect();
    let tally = &mut world.harness_mut().tally;
    tally.wait(waiting.into_iter());
    let row = describe(experiment, setup);
    let row = clients(row, setup, tally);
    Ok(cluster(row, setup, tally.committed, (&before, &after)))
}

fn describe(experiment: &'static str, setup: &Setup) -> Row {
    Row::new(experiment)
        .text("load", setup.load.name())
        .text("manner", setup.manner.name())
        .count("nodes", setup.nodes as u64)
        .count("buckets", u64::from(setup.buckets.get()))
        .count("copies", u64::from(setup.copies))
        .count("clients", setup.clients as u64)
        .count("workers", setup.service.workers as u64)
        .number("kib_ms", setup.service.kib.as_secs_f64() * 1e3)
        .number("client_ms", setup.client.as_secs_f64() * 1e3)
        .number("patience_ms", setup.patience.unwrap_or_default().as_secs_f64() * 1e3)
        .number("sync_ms", setup.sync.as_secs_f64() * 1e3)
        .number("seconds", setup.span.as_secs_f64())
}

/// What clients have seen.
fn clients(row: Row, setup: &Setup, tally: &Tally) -> Row {
    let seconds = setup.span.as_secs_f64();
    let rate = |count: u64| count as f64 / seconds;
    let percent = |count: u64, of: u64| count as f64 * 100.0 / of.max(1) as f64;
    let mean = |(count, sum): (u64, Duration)| sum.as_secs_f64() * 1e3 / count.max(1) as f64;
    let attempts_committed = tally.attempts - tally.failed.values().sum::<u64>();
    let mut row = row
        .number("committed_percent", percent(tally.committed, tally.transactions))
        .number("attempts_committed_percent", percent(attempts_committed, tally.attempts))
        .number("operations_s", rate(tally.operations))
        .number("goodput_operations_s", rate(tally.operations_committed))
        .number("transactions_s", rate(tally.transactions))
        .number("goodput_s", rate(tally.committed))
        .number("ms_per_operation", setup.clients as f64 * 1e3 / rate(tally.operations).max(1e-9))
        .number("read_round_ms", mean(tally.rounds[0]))
        .number("commit_round_ms", mean(tally.rounds[1]))
        .number("p50_ms", tally.quantile(50))
        .number("p95_ms", tally.quantile(95))
        .number("p99_ms", tally.quantile(99))
        .number("longest_wait_ms", tally.longest.as_secs_f64() * 1e3)
        .number("buckets_per_commit", tally.buckets as f64 / tally.committed.max(1) as f64);
    for (reason, count) in &tally.failed {
        row = row.count(reason, *count);
    }
    for (name, kind) in tally.kinds.iter().filter(|(_, kind)| kind.ended > 0 && tally.kinds.len() == 5) {
        row = row.number(name, percent(kind.committed, kind.ended));
    }
    if let Load::Contest { long, .. } = setup.load {
        row = row
            .count("attempts_most", tally.attempts_most)
            .count("clock_error_ms", setup.clock_error_ms.unwrap_or(1_000));
        for (name, kind) in tally.kinds.iter().filter(|_| long > 0) {
            row = row
                .number(if *name == "long" { "long_p50_ms" } else { "short_p50_ms" }, kind.quantile(50))
                .number(if *name == "long" { "long_p99_ms" } else { "short_p99_ms" }, kind.quantile(99))
                .number(
                    if *name == "long" { "long_longest_ms" } else { "short_longest_ms" },
                    kind.longest.as_secs_f64() * 1e3,
                );
        }
    }
    row
}

/// What it cost the cluster.
fn cluster(row: Row, setup: &Setup, committed: u64, (before, after): (&Reading, &Reading)) -> Row {
    let each = |from: u64, to: u64| (to - from) as f64 / committed.max(1) as f64;
    let busy = before.busy.iter().zip(&after.busy).map(|(from, to)| (*to - *from).as_secs_f64());
    let most = setup.span.as_secs_f64() * setup.service.workers as f64;
    let shares: Vec<f64> = busy.map(|busy| busy / most * 100.0).collect();
    let mut row = row
        .number("messages_per_commit", each(before.counts.messages_sent, after.counts.messages_sent))
        .number("bytes_per_commit", each(before.counts.bytes_sent, after.counts.bytes_sent))
        .number("entries_per_commit", each(before.entries, after.entries))
        .number("busy_percent_mean", shares.iter().sum::<f64>() / shares.len().max(1) as f64)
        .number("busy_percent_max", shares.iter().copied().fold(0.0, f64::max));
    for ((name, _), (from, to)) in MARKS.iter().zip(before.marks.iter().zip(&after.marks)) {
        row = row.count(name, to - from);
    }
    row
}
