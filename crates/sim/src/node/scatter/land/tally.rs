//! What is counted, and what it comes to.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_api::Bucket;
use quorate_api::history::{Check, Record};
use quorate_checker::{History, Verdict as Judged};
use quorate_kernel::NodeId;
use quorate_node::{Node, PURPOSES};

use super::dht::Dht;
use super::harness::{Got, Land};
use super::kind::Kind;
use super::setup::Setup;
use super::stale;
use crate::node::grouped::whole_ring;
use crate::{Audience, Failure, Row, World};

/// How long a ring may take to form, and to be whole in the end.
const FORM_MAX: Duration = Duration::from_secs(600);
const WHOLE_MAX: Duration = Duration::from_secs(60);
/// How long after everybody has a group nothing is counted yet.
const SETTLED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(1);
/// Of [`PURPOSES`], what a node sends in a second, as rows call it.
const PER_PURPOSE: [&str; PURPOSES.len()] =
    ["logs_s", "leaders_s", "groups_s", "people_s", "echoes_s", "seeks_s", "rest_s"];
/// How long the last look may take.
const LOOK_MAX: Duration = Duration::from_secs(300);

/// Nodes that have no place yet, as they see it.
fn outside<K: Kind>(world: &World<Land<K>>) -> usize {
    let is_out = |(id, node): &(NodeId, &K)| !node.has_place(*id);
    world.harness().waiting().max(world.nodes().live().filter(is_out).count())
}

/// Runs for a while, and tells how far it is.
fn run_for<K: Kind>(
    world: &mut World<Land<K>>,
    span: Duration,
    phase: &'static str,
    told: &mut dyn Audience,
) -> Result<(), Failure> {
    let until = world.now() + span;
    while world.now() < until {
        world.run_until(until.min(world.now() + LOOK));
        told.far(phase, world.now());
        if let Some(failure) = world.failure() {
            return Err(failure.clone());
        }
    }
    Ok(())
}

/// Runs until it is so; how long that took.
fn run_until<K: Kind>(
    world: &mut World<Land<K>>,
    most: Duration,
    (phase, why): (&'static str, &str),
    told: &mut dyn Audience,
    is_so: impl Fn(&World<Land<K>>) -> Result<(), String>,
) -> Result<Duration, Failure> {
    let began = world.now();
    loop {
        run_for(world, LOOK, phase, told)?;
        match is_so(world) {
            Ok(()) => return Ok(world.now() - began),
            Err(not_yet) if world.now() >= began + most => {
                return Err(Failure::Liveness(format!("{why}: {not_yet}")));
            }
            Err(_) => {}
        }
    }
}

/// Mean and most of something over all nodes.
fn spread(world: &World<Land<Node>>, of: impl Fn(&Node) -> usize) -> (f64, u64) {
    let all: Vec<usize> = world.nodes().live().map(|(_, node)| of(node)).collect();
    (
        all.iter().sum::<usize>() as f64 / all.len().max(1) as f64,
        all.iter().copied().max().unwrap_or_default() as u64,
    )
}

/// What was counted while nodes died.
struct Counted {
    formed: Duration,
    messages: u64,
    /// By what they are for.
    sent: BTreeMap<&'static str, u64>,
    seeks: u64,
    changes: u64,
    handovers: u64,
}

/// Lets nodes come until all have a place, lets them die and be replaced, and counts.
fn live<K: Kind>(
    world: &mut World<Land<K>>,
    setup: &Setup,
    told: &mut dyn Audience,
) -> Result<Counted, Failure> {
    run_until(world, FORM_MAX, ("forms", "not everybody finds a place"), told, |world| {
        match outside(world) {
            0 => Ok(()),
            out => Err(format!("{out} nodes have none")),
        }
    })?;
    let formed = world.now();
    run_for(world, SETTLED, "settles", told)?;
    let counts = |world: &World<Land<K>>| {
        let marks = world.marks();
        let of = |name| marks.count(name);
        let sent = world.counts().messages_sent;
        [sent, of("node.seek.asked"), of("node.group.changed"), of("replog.transfer.begun")]
    };
    let (before, sent_before) = (counts(world), world.harness().sent.clone());
    world.harness_mut().is_open = true;
    run_for(world, setup.warm, "warms up", told)?;
    world.harness_mut().counts = true;
    run_for(world, setup.span, "is counted", told)?;
    let (after, mut sent) = (counts(world), world.harness().sent.clone());
    sent.iter_mut().for_each(|(purpose, count)| *count -= sent_before.get(purpose).unwrap_or(&0));
    (world.harness_mut().is_open, world.harness_mut().counts) = (false, false);
    let [messages, seeks, changes, handovers] = [0, 1, 2, 3].map(|at| after[at] - before[at]);
    Ok(Counted { formed, messages, sent, seeks, changes, handovers })
}

fn begun(setup: &Setup, experiment: &'static str, counted: &Counted, deaths: u64) -> Row {
    let (nodes, seconds) = (setup.nodes as f64, (setup.warm + setup.span).as_secs_f64());
    Row::new(experiment)
        .text("lives", setup.lives.name())
        .text("sites", setup.sites.name())
        .count("nodes", setup.nodes as u64)
        .count("copies", u64::from(setup.copies))
        .number("lifetime_s", setup.lifetime.as_secs_f64())
        .number("formed_s", counted.formed.as_secs_f64())
        .number("seconds", setup.span.as_secs_f64())
        .count("deaths", deaths)
        .number("messages_per_node_s", counted.messages as f64 / nodes / seconds)
}

/// Runs the baseline; one row of results.
///
/// # Errors
/// If not everybody finds a place.
pub fn measure_baseline(setup: &Setup, told: &mut dyn Audience) -> Result<(), Failure> {
    let mut world: World<Land<Dht>> = World::new(setup.world(), Land::new(setup.clone()));
    let counted = live(&mut world, setup, told)?;
    // All that can be repaired is.
    run_for(&mut world, WHOLE_MAX, "heals", told)?;
    let records = look_again(&mut world, setup, told)?;
    let [meanwhile, last] = stale::count(records.iter());
    let land = world.harness();
    let row = begun(setup, "churn-baseline", &counted, land.deaths);
    let row = answers(row, &land.got)
        .count("reads", meanwhile.reads)
        .count("stale", meanwhile.stale)
        .number("stale_percent", 100.0 * meanwhile.stale as f64 / meanwhile.reads.max(1) as f64)
        .count("keys", last.reads)
        .count("keys_lost", last.stale);
    told.row(row);
    Ok(())
}

/// Runs a setup; one row of results.
///
/// # Errors
/// If the ring does not form, or is not whole in the end, or answers make no sense.
pub fn measure(setup: &Setup, told: &mut dyn Audience) -> Result<(), Failure> {
    let mut world: World<Land<Node>> = World::new(setup.world(), Land::new(setup.clone()));
    let counted = live(&mut world, setup, told)?;
    let buckets = setup.buckets();
    let heals = ("heals", "the ring is not whole in the end");
    let is_whole = |world: &World<Land<Node>>| whole_ring(world.nodes(), buckets).map(drop);
    let healed = run_until(&mut world, WHOLE_MAX, heals, told, is_whole)?;
    let groups = whole_ring(world.nodes(), buckets).map_err(Failure::Liveness)?;
    let judged = judge(&mut world, setup, told)?;
    let led = (0..buckets.get())
        .map(Bucket)
        .filter(|bucket| crate::node::operator::leader(world.nodes(), *bucket).is_some());
    let led = led.count() as u64;
    let seconds = (setup.warm + setup.span).as_secs_f64();
    let experiment = if setup.is_judged { "churn" } else { "size" };
    let mut row = begun(setup, experiment, &counted, world.harness().deaths)
        .count("groups", groups as u64)
        .count("buckets", u64::from(setup.buckets))
        .count("buckets_led", led)
        .number("healed_s", healed.as_secs_f64())
        .number("seeks_per_node_s", counted.seeks as f64 / setup.nodes as f64 / seconds)
        .count("group_changes", counted.changes)
        .count("handovers", counted.handovers);
    for (name, purpose) in PER_PURPOSE.into_iter().zip(PURPOSES) {
        let sent = counted.sent.get(purpose).copied().unwrap_or_default();
        row = row.number(name, sent as f64 / setup.nodes as f64 / seconds);
    }
    for (name, most, of) in [
        ("people_mean", "people_most", 0),
        ("groups_known_mean", "groups_known_most", 1),
        ("leaders_known_mean", "leaders_known_most", 2),
        ("connections_mean", "connections_most", 3),
    ] {
        let (mean, max) = spread(&world, |node| node.knowledge().counts()[of]);
        row = row.number(name, mean).count(most, max);
    }
    told.row(answers(row, &world.harness().got).count("judged", judged));
    Ok(())
}

/// Reads every key once more: all that clients did.
fn look_again<K: Kind>(
    world: &mut World<Land<K>>,
    setup: &Setup,
    told: &mut dyn Audience,
) -> Result<Vec<Record>, Failure> {
    world.harness_mut().looks = Some(setup.keys);
    let looks = ("is looked at once more", "the last look does not end");
    run_until(world, LOOK_MAX, looks, told, |world| match world.harness() {
        land if land.looks == Some(0) && land.open() == 0 => Ok(()),
        land => Err(format!("{} requests are open", land.open())),
    })?;
    Ok(std::mem::take(&mut world.harness_mut().records))
}

/// Judges all that clients did: how many operations were judged.
fn judge(world: &mut World<Land<Node>>, setup: &Setup, told: &mut dyn Audience) -> Result<u64, Failure> {
    if !setup.is_judged {
        return Ok(0);
    }
    let records = look_again(world, setup, told)?;
    told.far("is judged", world.now());
    let count = records.len() as u64;
    let stale = stale::count(records.iter()).map(|counted| counted.stale);
    let history = History::from_records(records).map_err(|error| Failure::Safety(error.to_string()))?;
    let report = quorate_checker::check(&history, Check::Linear);
    match report.verdict {
        Judged::Ok if stale == [0, 0] => Ok(count),
        Judged::Ok => {
            Err(Failure::Safety(format!("{stale:?} reads are too old, and the checker did not see it")))
        }
        _ => Err(Failure::Safety(format!("{report}"))),
    }
}

fn answers(row: Row, got: &Got) -> Row {
    let asked = got.asked - got.lost;
    let all = || got.took.iter().flatten();
    let soon = all().filter(|us| **us < 3_000_000).count();
    let mut row = row
        .count("operations", asked)
        .count("lost_with_their_nodes", got.lost)
        .count("failed", got.failed)
        .number("answered_percent", 100.0 * soon as f64 / asked.max(1) as f64);
    let names =
        [["read_mean_ms", "read_p50_ms", "read_p99_ms"], ["write_mean_ms", "write_p50_ms", "write_p99_ms"]];
    for (names, took) in names.into_iter().zip(&got.took) {
        let mut took = took.clone();
        took.sort_unstable();
        let at = |percent: usize| {
            took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied()
        };
        let mean = took.iter().sum::<u64>() as f64 / took.len().max(1) as f64;
        let [mean_name, half, most] = names;
        row = row.number(mean_name, mean / 1e3);
        row = row.number(half, at(50).unwrap_or_default() as f64 / 1e3);
        row = row.number(most, at(99).unwrap_or_default() as f64 / 1e3);
    }
    row
}
