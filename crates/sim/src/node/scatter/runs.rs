//! The experiments.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_groups::resilience::chance_of_failure;
use quorate_kernel::{NodeId, Rng};
use quorate_node::{GroupRequest, Preset};

use super::land;
use super::ring::{Asked, Kind, Ring, Sample};
use super::setup::{Setup, Sites};
use super::town;
use crate::node::operator::leader;
use crate::{Audience, Failure, Row, World};

/// The names of all experiments.
pub const NAMES: [&str; 10] = [
    "sizes",
    "operations",
    "latencies",
    "joins",
    "reconfigurations",
    "load",
    "scale",
    "hot-spots",
    "size",
    "churn",
];
/// Those of them that take hours, and gigabytes, with many nodes: they run only if they are asked for.
pub const HEAVY: [&str; 5] = ["load", "scale", "hot-spots", "size", "churn"];

/// How long anything may take until the ring is at rest.
const REST_MAX: Duration = Duration::from_secs(300);
/// At rest for so long, nothing comes any more.
const REST: Duration = Duration::from_secs(2);

/// Runs one experiment and tells each row as soon as it is there. `false` if there is none of that name.
///
/// # Errors
/// If a run fails.
pub fn run(name: &str, seed: u64, told: &mut dyn Audience) -> Result<bool, Failure> {
    match name {
        "sizes" => sizes(told),
        "operations" => operations(seed, told)?,
        "latencies" => latencies(seed, told)?,
        "joins" => joins(seed, told)?,
        "reconfigurations" => reconfigurations(seed, told)?,
        "load" => town::load(seed, told)?,
        "scale" => town::scale(seed, told)?,
        "hot-spots" => town::hot_spots(seed, told)?,
        "size" => land::size(seed, told)?,
        "churn" => land::churns(seed, told)?,
        _ => match point(name, seed, told) {
            Some(ended) => ended?,
            None => return Ok(false),
        },
    }
    Ok(true)
}

/// One point of an experiment: `churn-poisson-180`, `size-1000`, `scale-groups-160`, `hot-spots-groups-region`.
fn point(name: &str, seed: u64, told: &mut dyn Audience) -> Option<Result<(), Failure>> {
    if let Some(point) = name.strip_prefix("hot-spots-") {
        return town::of_hot_spots(point, seed, told);
    }
    let (experiment, point) = name.split_once('-')?;
    match experiment {
        "churn" => land::churn(point, seed, told),
        "size" => Some(land::of_size(point.parse().ok()?, seed, told)),
        "scale" => town::of_scale(point, seed, told),
        _ => None,
    }
}

/// Runs until the ring has been at rest for a while.
pub(super) fn rest(world: &mut World<Ring>) -> Result<(), Failure> {
    let until = world.now() + REST_MAX;
    let (mut calm_since, mut why) = (None, String::new());
    while world.now() < until {
        world.run_for(Duration::from_millis(20));
        if let Some(failure) = world.failure() {
            return Err(failure.clone());
        }
        if let Err(not_yet) = world.harness().is_calm(world.nodes()) {
            (calm_since, why) = (None, not_yet);
            continue;
        }
        if world.now() - *calm_since.get_or_insert(world.now()) >= REST {
            return Ok(());
        }
    }
    Err(Failure::Liveness(format!("the groups do not come to rest: {why}")))
}

/// Figure 7: how likely a group loses its majority while a member is replaced, by its size and by how long nodes live.
fn sizes(told: &mut dyn Audience) {
    /// Seconds that it takes to notice a death and to replace who died: the paper's.
    const WINDOW: f64 = 1.5;
    for lifetime in [100.0, 500.0] {
        let chance = -(-WINDOW / lifetime).exp_m1();
        for members in 2..=14 {
            let fails = chance_of_failure(&vec![chance; members]);
            let row = Row::new("sizes").number("lifetime_s", lifetime).count("members", members as u64);
            told.row(row.number("nines", -fails.log10()));
        }
    }
}

/// Sizes of groups (figures 9 and 11, table 2).
const SIZES: [u8; 6] = [3, 5, 7, 9, 11, 13];

/// A cluster of three groups, all of whose nodes found it.
pub(super) fn founded(copies: u8, sites: Sites, way: u64, preset: Preset, seed: u64) -> Setup {
    let nodes = 3 * usize::from(copies);
    Setup {
        nodes,
        founders: nodes,
        copies,
        buckets: NonZeroU16::MIN.saturating_add(7),
        way: Duration::from_micros(way),
        sites,
        preset,
        leases: true,
        seed,
    }
}

/// Table 2: what failures, joins, splits and merges take.
fn operations(seed: u64, told: &mut dyn Audience) -> Result<(), Failure> {
    let settings = [
        (Sites::One, 150, Preset::Steady),
        (Sites::One, 300, Preset::Steady),
        (Sites::Three, 150, Preset::Steady),
        (Sites::Three, 150, Preset::Wide),
    ];
    for (sites, way, preset) in settings {
        let mut all = Vec::new();
        for copies in SIZES {
            all.extend(reshape(&founded(copies, sites, way, preset, seed), 12)?);
        }
        for (kind, of_kind) in by_kind(&all) {
            let row = Row::new("operations")
                .text("sites", sites.name())
                .number("way_ms", way as f64 / 1e3)
                .text("policies", format!("{preset:?}").to_lowercase())
                .text("kind", kind.name());
            told.row(describe(row, &of_kind));
        }
    }
    Ok(())
}

/// Figure 9: what clients' operations take in one group, by its size, counted from whom they ask.
fn latencies(seed: u64, told: &mut dyn Audience) -> Result<(), Failure> {
    for sites in [Sites::One, Sites::Three] {
        for copies in SIZES {
            for leases in [true, false] {
                let setup = Setup { leases, ..founded(copies, sites, 150, Preset::Steady, seed) };
                let nodes = usize::from(copies);
                let mut world = at_rest(&Setup { nodes, founders: nodes, ..setup })?;
                let kinds = [Asked::Write, Asked::Read, Asked::WriteElsewhere, Asked::ReadNear];
                for kind in kinds.into_iter().filter(|kind| leases || *kind == Asked::Read) {
                    let took = ask_often(&mut world, kind, 500)?;
                    let row = Row::new("latencies")
                        .text("sites", sites.name())
                        .count("members", u64::from(copies))
                        .text("kind", if leases { kind.name() } else { "read without lease" });
                    told.row(quantiles(row, &took));
                }
            }
        }
    }
    Ok(())
}

/// Nodes all over the world, of which a group's worth found the ring.
fn world_wide(nodes: usize, copies: u8, preset: Preset, seed: u64) -> Setup {
    let buckets = NonZeroU16::MIN.saturating_add(63);
    Setup { nodes, founders: copies.into(), buckets, ..founded(copies, Sites::World, 150, preset, seed) }
}

/// Figure 10: what writes take where nodes stand all over the world, by the policies by which they join and lead.
fn joins(seed: u64, told: &mut dyn Audience) -> Result<(), Failure> {
    for preset in [Preset::Steady, Preset::Wide] {
        let setup = world_wide(96, 8, preset, seed);
        let mut world = at_rest(&setup)?;
        let took = ask_often(&mut world, Asked::Write, 5_000)?;
        let row = Row::new("joins")
            .text("sites", setup.sites.name())
            .count("nodes", setup.nodes as u64)
            .text("policies", format!("{preset:?}").to_lowercase());
        told.row(twentieths(quantiles(row, &took), &millis(took.iter().copied())));
    }
    Ok(())
}

/// Figure 12: what operations of groups take where nodes stand all over the world, by the same policies.
fn reconfigurations(seed: u64, told: &mut dyn Audience) -> Result<(), Failure> {
    for preset in [Preset::Steady, Preset::Wide] {
        // With so few buckets borders stay where they are: operations that meet others are not counted.
        let buckets = NonZeroU16::MIN.saturating_add(9);
        let setup = Setup { buckets, ..world_wide(40, 8, preset, seed) };
        let all = reshape(&setup, 150)?;
        for (kind, of_kind) in by_kind(&all) {
            let row = Row::new("reconfigurations")
                .text("sites", setup.sites.name())
                .count("nodes", setup.nodes as u64)
                .text("policies", format!("{preset:?}").to_lowercase())
                .text("kind", kind.name());
            let done = millis(of_kind.iter().map(|sample| sample.done));
            told.row(twentieths(describe(row, &of_kind), &done));
        }
    }
    Ok(())
}

/// The operations of each kind.
fn by_kind(all: &[Sample]) -> impl Iterator<Item = (Kind, Vec<Sample>)> {
    let of_kind = |kind| all.iter().filter(|sample| sample.kind == kind).copied().collect();
    [Kind::Failure, Kind::Join, Kind::Split, Kind::Merge].into_iter().map(move |kind| (kind, of_kind(kind)))
}

/// A cluster that has come to rest.
fn at_rest(setup: &Setup) -> Result<World<Ring>, Failure> {
    let (sites, options) = setup.world();
    let start_within = options.start_within;
    let mut world = World::new(options, Ring::new(setup.clone(), &sites));
    world.run_for(start_within);
    rest(&mut world)?;
    Ok(world)
}

/// Asks for one random key after the other; how long each took.
fn ask_often(world: &mut World<Ring>, kind: Asked, count: usize) -> Result<Vec<Duration>, Failure> {
    let mut rng = Rng::new(count as u64);
    world.harness.answered.clear();
    for _ in 0..count {
        let key = format!("key:{}", rng.next_u64());
        let now = world.now();
        if let Some((at, input)) = world.harness.ask(&world.nodes, now, (kind, &key)) {
            world.input(Duration::ZERO, at, input);
        }
        world.run_for(Duration::from_millis(5));
    }
    world.run_for(Duration::from_secs(2));
    match world.failure() {
        Some(failure) => Err(failure.clone()),
        None => Ok(std::mem::take(&mut world.harness.answered)),
    }
}

/// Has members die, be replaced, and groups split and merge, over and over.
fn reshape(setup: &Setup, rounds: usize) -> Result<Vec<Sample>, Failure> {
    let mut world = at_rest(setup)?;
    let mut rng = Rng::new(setup.seed);
    world.harness_mut().samples.clear();
    for _ in 0..rounds {
        let live: Vec<NodeId> = world.nodes().live().map(|(id, _)| id).collect();
        let Some(victim) = rng.pick(&live).copied() else { break };
        world.crash(victim);
        rest(&mut world)?;
        world.restart(victim);
        rest(&mut world)?;
        for splits in [true, false] {
            if let Some((at, input)) = by_hand(&mut world, &mut rng, splits) {
                world.input(Duration::ZERO, at, input);
                rest(&mut world)?;
            }
        }
    }
    Ok(std::mem::take(&mut world.harness_mut().samples))
}

/// An operator's wish that some group splits, or merges with the next.
fn by_hand(world: &mut World<Ring>, rng: &mut Rng, splits: bool) -> Option<(NodeId, quorate_node::Input)> {
    let first = leader(world.nodes(), quorate_api::Bucket(0)).and_then(|id| world.nodes().machine(id))?;
    let ids: Vec<_> = first.groups().into_iter().map(|group| group.name.id).collect();
    let group = *rng.pick(&ids)?;
    let request = if splits { GroupRequest::Split { group } } else { GroupRequest::Merge { group } };
    world.harness.wish(&world.nodes, request)
}

/// In milliseconds, from the least to the most.
fn millis(all: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut all: Vec<f64> = all.map(|time| time.as_secs_f64() * 1e3).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

fn quantile(all: &[f64], percent: usize) -> f64 {
    all.get(all.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

/// A curve: within how many microseconds how many twentieths were done.
fn twentieths(row: Row, all: &[f64]) -> Row {
    let micros = |part: usize| (quantile(all, part * 5) * 1e3) as u64;
    row.counts("twentieths_us", (0..=20).map(micros).collect())
}

fn quantiles(row: Row, took: &[Duration]) -> Row {
    let all = millis(took.iter().copied());
    row.count("samples", all.len() as u64)
        .number("mean_ms", mean(&all))
        .number("p10_ms", quantile(&all, 10))
        .number("median_ms", quantile(&all, 50))
        .number("p90_ms", quantile(&all, 90))
        .number("p99_ms", quantile(&all, 99))
}

fn describe(row: Row, samples: &[Sample]) -> Row {
    let agreed = millis(samples.iter().map(|sample| sample.agreed));
    let done = millis(samples.iter().map(|sample| sample.done));
    let variance = mean(&done.iter().map(|ms| (ms - mean(&done)).powi(2)).collect::<Vec<_>>());
    let members = samples.iter().map(|sample| sample.members);
    row.count("samples", samples.len() as u64)
        .count("members_least", members.clone().min().unwrap_or_default() as u64)
        .count("members_most", members.max().unwrap_or_default() as u64)
        .number("agreed_ms", mean(&agreed))
        .number("mean_ms", mean(&done))
        .number("deviation_ms", variance.sqrt())
        .number("median_ms", quantile(&done, 50))
        .number("most_ms", done.last().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With leaders that did not wait for far successors, neither of these did.
    #[test]
    fn rings_around_the_world_come_to_rest() {
        for seed in [2, 4] {
            let ended = at_rest(&world_wide(40, 5, Preset::Steady, seed));
            assert!(ended.is_ok(), "seed {seed}: {:?}", ended.err());
        }
    }
}
