//! What is counted, and what it comes to.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_kernel::NodeId;

use super::harness::Town;
use super::setup::{Setup, System};
use super::table::Table;
use crate::harness::Input;
use crate::{Audience, Counts, Failure, Harness, Row, World};

/// How long a cluster may take to form, and how long it must have been formed.
const FORM_MAX: Duration = Duration::from_secs(300);
const SETTLED: Duration = Duration::from_secs(5);
/// Loads are looked at so often; how uneven they are is judged by the last few looks together.
const WINDOW: Duration = Duration::from_millis(500);
const TOGETHER: usize = 4;
/// The most loaded node is to have no more than this many times the mean, and throughput no less than this of what it was.
const UNEVEN_MAX: f64 = 1.3;
const RATE_MIN: f64 = 0.95;

/// Marks of what ought to be rare, by their names in results.
const MARKS: [(&str, &str); 4] = [
    ("elections", "replog.election.won"),
    ("views", "node.view.next"),
    ("group_changes", "node.group.changed"),
    ("borders_moved", "node.group.repartition"),
];

/// What nodes have answered.
#[derive(Debug)]
pub(super) struct Tally {
    done: Vec<u64>,
    /// What clients waited for their answers, in microseconds.
    took: Vec<u32>,
    failed: u64,
}

impl Tally {
    pub(super) fn new(nodes: usize) -> Tally {
        Tally { done: vec![0; nodes], took: Vec::new(), failed: 0 }
    }

    /// `took` is not known of a client's first.
    pub(super) fn done(&mut self, node: NodeId, took: Option<Duration>) {
        self.done[node.0 as usize - 1] += 1;
        self.took.extend(took.map(|took| u32::try_from(took.as_micros()).unwrap_or(u32::MAX)));
    }

    /// What clients waited since so many answers, from the least to the most.
    fn took_since(&self, answers: usize) -> Vec<u32> {
        let mut took = self.took[answers..].to_vec();
        took.sort_unstable();
        took
    }

    pub(super) fn failed(&mut self) {
        self.failed += 1;
    }
}

/// How far everything is at some time.
#[derive(Debug, Clone)]
struct Reading {
    at: Duration,
    done: Vec<u64>,
    /// How many answers were timed.
    timed: usize,
    busy: Vec<Duration>,
    counts: Counts,
    failed: u64,
    marks: [u64; MARKS.len()],
}

/// Nodes under load, and their clients.
pub(super) trait Crowd: Harness {
    /// What nodes have answered so far.
    fn tally(&self) -> &Tally;
    /// All clients begin, not quite at once: what they ask, when and whom.
    fn open(&mut self) -> Vec<(Duration, NodeId, Input<Self>)>;
    /// Something else becomes hot.
    fn move_now(&mut self);
}

fn read<C: Crowd>(world: &World<C>, setup: &Setup) -> Reading {
    let tally = world.harness().tally();
    let busy = (1..=setup.nodes as u64).map(|id| world.nodes().busy(NodeId(id))).collect();
    let (done, timed, failed) = (tally.done.clone(), tally.took.len(), tally.failed);
    let marks = MARKS.map(|(_, mark)| world.marks().count(mark));
    Reading { at: world.now(), done, timed, busy, counts: world.counts(), failed, marks }
}

/// What happened between two readings.
struct Between {
    rate: f64,
    /// The most loaded node, over the mean: by operations, and by work.
    uneven: f64,
    uneven_work: f64,
    busy_mean: f64,
    busy_most: f64,
}

fn most_over_mean(all: &[f64]) -> f64 {
    let sum: f64 = all.iter().sum();
    all.iter().copied().fold(0.0, f64::max) * all.len() as f64 / sum.max(1e-9)
}

impl Between {
    fn of(before: &Reading, after: &Reading) -> Between {
        let seconds = (after.at - before.at).as_secs_f64();
        let done: Vec<f64> =
            before.done.iter().zip(&after.done).map(|(from, to)| (to - from) as f64).collect();
        let pairs = before.busy.iter().zip(&after.busy);
        let busy: Vec<f64> = pairs.map(|(from, to)| (*to - *from).as_secs_f64() / seconds).collect();
        Between {
            rate: done.iter().sum::<f64>() / seconds,
            uneven: most_over_mean(&done),
            uneven_work: most_over_mean(&busy),
            busy_mean: busy.iter().sum::<f64>() / busy.len() as f64,
            busy_most: busy.iter().copied().fold(0.0, f64::max),
        }
    }
}

fn formed(setup: &Setup, told: &mut dyn Audience) -> Result<World<Town>, Failure> {
    let mut world = World::new(setup.world(), Town::new(setup.clone()));
    let mut since = None;
    while world.now() < FORM_MAX {
        world.run_for(Duration::from_millis(100));
        told.far("forms", world.now());
        if let Some(failure) = world.failure() {
            return Err(failure.clone());
        }
        if !world.harness().is_formed(world.nodes()) {
            since = None;
        } else if world.now() - *since.get_or_insert(world.now()) >= SETTLED {
            // Only now does work take time: forming is not what is measured.
            world.options.service = Some(Setup::service());
            return Ok(world);
        }
    }
    Err(Failure::Liveness("the groups do not form".into()))
}

/// Runs a setup; one row of results.
///
/// # Errors
/// If the cluster does not form, or answers make no sense.
pub fn measure(experiment: &'static str, setup: &Setup, told: &mut dyn Audience) -> Result<(), Failure> {
    if setup.system == System::Hashes {
        let mut world = World::new(setup.world(), Table::new(setup.clone()));
        world.run_for(SETTLED);
        world.options.service = Some(Setup::service());
        let (readings, moves) = count(&mut world, setup, told)?;
        let sizes = [(u64::from(setup.copies), setup.nodes as u64)].into();
        let row = waited(describe(experiment, setup, &sizes), world.harness(), &readings[0]);
        told.row(absorbed(totals(row, &readings), &readings, &moves));
        return Ok(());
    }
    let mut world = formed(setup, told)?;
    let (readings, moves) = count(&mut world, setup, told)?;
    let mut row = describe(experiment, setup, &sizes(setup, &world));
    if setup.system == System::Groups && setup.moves_every.is_none() {
        row = row.number("hottest_bucket_over_mean", world.harness().hottest_over_mean());
    }
    let row = waited(row, world.harness(), &readings[0]);
    told.row(absorbed(totals(row, &readings), &readings, &moves));
    Ok(())
}

/// Puts load on a cluster that has formed: how far everything was at each look, and at which of these something else became hot.
fn count<C: Crowd>(
    world: &mut World<C>,
    setup: &Setup,
    told: &mut dyn Audience,
) -> Result<(Vec<Reading>, Vec<usize>), Failure> {
    for (after, node, input) in world.harness_mut().open() {
        world.input(after, node, input);
    }
    let warm = world.now() + setup.warm;
    while world.now() < warm {
        world.run_until(warm.min(world.now() + WINDOW));
        told.far("warms up", world.now());
    }
    let mut readings = vec![read(world, setup)];
    let began = world.now();
    let mut moves = Vec::new();
    while world.now() < began + setup.span {
        let next = setup.moves_every.map(|every| began + every * (moves.len() as u32) + every / 6);
        if next.is_some_and(|next| world.now() >= next) {
            world.harness_mut().move_now();
            moves.push(readings.len() - 1);
        }
        world.run_for(WINDOW);
        told.far("is counted", world.now());
        if let Some(failure) = world.failure() {
            return Err(failure.clone());
        }
        readings.push(read(world, setup));
    }
    Ok((readings, moves))
}

/// How many groups of each size there are.
fn sizes(setup: &Setup, world: &World<Town>) -> BTreeMap<u64, u64> {
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    let groups = world.nodes().machine(NodeId(1)).map(|node| node.groups()).unwrap_or_default();
    groups.iter().for_each(|group| *sizes.entry(group.members.len() as u64).or_default() += 1);
    if setup.system != System::Groups {
        sizes.insert(setup.copies.into(), setup.nodes as u64 / u64::from(setup.copies));
    }
    sizes
}

fn describe(experiment: &'static str, setup: &Setup, sizes: &BTreeMap<u64, u64>) -> Row {
    let groups = sizes.values().sum::<u64>();
    Row::new(experiment)
        .text("system", setup.system.name())
        .text("heat", setup.heat.name())
        .count("nodes", setup.nodes as u64)
        .count("groups", groups)
        .count("members_least", sizes.first_key_value().map_or(0, |(size, _)| *size))
        .count("members_most", sizes.last_key_value().map_or(0, |(size, _)| *size))
        .count("buckets_per_node", setup.buckets_per_node.into())
        .count("clients", setup.clients() as u64)
        .number("seconds", setup.span.as_secs_f64())
}

/// What clients waited since a reading.
fn waited(row: Row, crowd: &impl Crowd, since: &Reading) -> Row {
    let took = crowd.tally().took_since(since.timed);
    let sum: u64 = took.iter().map(|micros| u64::from(*micros)).sum();
    let at =
        |percent: usize| took.get(took.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default();
    row.number("waited_ms_mean", sum as f64 / 1e3 / took.len().max(1) as f64)
        .number("waited_ms_p50", f64::from(at(50)) / 1e3)
        .number("waited_ms_p99", f64::from(at(99)) / 1e3)
}

fn totals(row: Row, readings: &[Reading]) -> Row {
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else { return row };
    let all = Between::of(first, last);
    let done: u64 = last.done.iter().sum::<u64>() - first.done.iter().sum::<u64>();
    let messages = last.counts.messages_sent - first.counts.messages_sent;
    let rates: Vec<f64> = readings.windows(2).map(|pair| Between::of(&pair[0], &pair[1]).rate).collect();
    let variance = rates.iter().map(|rate| (rate - all.rate).powi(2)).sum::<f64>() / rates.len() as f64;
    let marks = MARKS.iter().zip(first.marks.iter().zip(&last.marks));
    let row = marks.fold(row, |row, ((name, _), (from, to))| row.count(name, to - from));
    row.number("operations_s", all.rate)
        .number("deviation_s", variance.sqrt())
        .number("most_over_mean", all.uneven)
        .number("most_over_mean_work", all.uneven_work)
        .number("busy_percent_mean", all.busy_mean * 100.0)
        .number("busy_percent_max", all.busy_most * 100.0)
        .number("messages_per_operation", messages as f64 / done.max(1) as f64)
        .count("failed", last.failed - first.failed)
}

/// How long it took after each move until loads were even again, by some measure of how uneven they are, and throughput was back; in milliseconds, at half
/// seconds, `u64::MAX` for never.
fn times(readings: &[Reading], moves: &[usize], uneven: impl Fn(&Between) -> f64) -> Vec<u64> {
    let rate = Between::of(&readings[0], &readings[moves[0]]).rate;
    let is_fine = |at: usize, from: usize| {
        let over = Between::of(&readings[at.saturating_sub(TOGETHER).max(from)], &readings[at]);
        over.rate >= rate * RATE_MIN && uneven(&over) < UNEVEN_MAX
    };
    let took = moves.iter().enumerate().map(|(index, from)| {
        let end = end_of(moves, index, readings);
        // Fine for two seconds is fine; a single look may be off by chance later.
        let calm = (from + 1..=end).find(|at| (*at..=(at + TOGETHER).min(end)).all(|at| is_fine(at, *from)));
        calm.map_or(u64::MAX, |at| ((at - from) as u64) * WINDOW.as_millis() as u64)
    });
    took.collect()
}

/// The last reading before the next move.
fn end_of(moves: &[usize], index: usize, readings: &[Reading]) -> usize {
    moves.get(index + 1).copied().unwrap_or(readings.len() - 1)
}

/// How moves were absorbed: by operations that nodes answered, and by their work.
fn absorbed(row: Row, readings: &[Reading], moves: &[usize]) -> Row {
    if moves.is_empty() {
        return row;
    }
    let rate = Between::of(&readings[0], &readings[moves[0]]).rate;
    let (mut worst, mut least) = (0.0_f64, f64::MAX);
    for (index, from) in moves.iter().enumerate() {
        for pair in readings[*from..=end_of(moves, index, readings)].windows(2) {
            let over = Between::of(&pair[0], &pair[1]);
            (worst, least) = (worst.max(over.uneven), least.min(over.rate / rate));
        }
    }
    let took = times(readings, moves, |over| over.uneven);
    let by_work = times(readings, moves, |over| over.uneven_work);
    let within = |took: &[u64]| took.iter().filter(|ms| **ms <= 10_000).count() as u64;
    let never = |took: &[u64]| took.iter().filter(|ms| **ms == u64::MAX).count() as u64;
    let ended = |took: &[u64]| took.iter().copied().filter(|ms| *ms < u64::MAX).collect::<Vec<u64>>();
    let most = |took: &[u64]| ended(took).into_iter().max().unwrap_or_default() as f64 / 1e3;
    let mean = |took: &[u64]| ended(took).iter().sum::<u64>() as f64 / 1e3 / ended(took).len().max(1) as f64;
    row.count("moves", moves.len() as u64)
        .count("absorbed_within_10_s", within(&took))
        .count("never_absorbed", never(&took))
        .number("absorbed_s_most", most(&took))
        .number("absorbed_s_mean", mean(&took))
        .count("absorbed_by_work_within_10_s", within(&by_work))
        .count("never_absorbed_by_work", never(&by_work))
        .number("absorbed_by_work_s_most", most(&by_work))
        .number("absorbed_by_work_s_mean", mean(&by_work))
        .number("worst_most_over_mean", worst)
        .number("least_rate_of_before", least)
}
