//! Experiments with whole fleets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_kernel::NodeId;
use quorate_membership::{Config, Input, Rings};

use super::Row;
use super::fleet::{Fleet, Harm};
use crate::World;

const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config { needs_state: false, ..Config::production() }
}

/// A fleet of founders, up and calm for ten seconds.
fn calm(nodes: usize, seed: u64) -> World<Fleet> {
    let mut world = Fleet::new(config(), nodes, nodes, seed).world(nodes, seed);
    world.run_for(10 * SECOND);
    world
}

/// One in a hundred, ten at least, spread over the ids; never more than a fifth.
fn some(nodes: usize) -> BTreeSet<NodeId> {
    let count = (nodes / 100).max(10).min(nodes / 5).max(1);
    (0..count).map(|turn| NodeId((turn * nodes / count) as u64 + 3)).collect()
}

/// What all who are well, and nobody else, agree on; how far they are from it.
fn lagging(world: &World<Fleet>, gone: &BTreeSet<NodeId>) -> u64 {
    let live = || world.nodes().live().filter(|(id, _)| !gone.contains(id));
    let well: BTreeSet<NodeId> = live().map(|(id, _)| id).collect();
    let is_behind = |view: Option<&quorate_membership::View>| {
        view.is_none_or(|view| {
            view.members.len() != well.len() || view.members.iter().any(|member| gone.contains(&member.id))
        })
    };
    live().filter(|(_, machine)| is_behind(machine.view())).count() as u64
}

/// Members that were removed though they are well.
fn wronged(world: &World<Fleet>, victims: &BTreeSet<NodeId>) -> u64 {
    world.harness().kicked.iter().filter(|id| !victims.contains(id)).count() as u64
}

/// Kilobytes a second over a span: mean, 99th percentile and most of what nodes sent.
fn rates(before: &[(u64, u64)], after: &[(u64, u64)], span: Duration) -> (f64, f64, f64) {
    let mut sent: Vec<u64> = before.iter().zip(after).skip(1).map(|(one, other)| other.0 - one.0).collect();
    sent.sort_unstable();
    let rate = |bytes: u64| bytes as f64 / 1_000.0 / span.as_secs_f64();
    let mean = rate(sent.iter().sum::<u64>()) / sent.len() as f64;
    (mean, rate(sent[sent.len() * 99 / 100]), rate(sent[sent.len() - 1]))
}

/// Ten crash at once.
pub(super) fn crashes(nodes: usize, seed: u64) -> Row {
    let mut world = calm(nodes, seed);
    let victims = some(nodes);
    let (struck, before) = (world.now(), world.harness().bytes.clone());
    victims.iter().for_each(|id| world.crash(*id));
    world.run_until_done(120 * SECOND, |world| {
        world
            .harness()
            .views
            .last_key_value()
            .is_some_and(|(seq, installed)| *seq > 1 && installed.nodes as usize >= nodes - victims.len())
            && lagging(world, &victims) == 0
    });
    let agreed = world.now();
    world.run_until(struck + 20 * SECOND);
    let (mean, p99, most) = rates(&before, &world.harness().bytes, world.now() - struck);
    let views: Vec<_> = world.harness().views.iter().filter(|(seq, _)| **seq > 1).collect();
    let first = views.first().map_or(0.0, |(_, view)| (view.first - struck).as_secs_f64());
    Row::new("crashes")
        .count("nodes", nodes as u64)
        .count("crashed", victims.len() as u64)
        .count("views", views.len() as u64)
        .number("first_view_s", first)
        .number("all_agree_s", (agreed - struck).as_secs_f64())
        .count("lagging", lagging(&world, &victims))
        .count("wrongly_removed", wronged(&world, &victims))
        .number("sent_kb_s_mean", mean)
        .number("sent_kb_s_p99", p99)
        .number("sent_kb_s_max", most)
        .count("fast_decisions", world.marks().count("membership.decided.fast"))
        .count("classic_decisions", world.marks().count("membership.decided.classic"))
}

/// Observers of each victim that watch it on so many of its rings, together and at most.
fn observers(victims: &BTreeSet<NodeId>, nodes: usize, rings_max: usize) -> BTreeSet<(NodeId, NodeId)> {
    let count = config().rings;
    let rings = Rings::new((1..=nodes as u64).map(NodeId).collect(), count);
    let mut links = BTreeSet::new();
    for victim in victims {
        let mut watched: BTreeMap<NodeId, usize> = BTreeMap::new();
        let all = (0..count).filter_map(|ring| rings.observer(ring, *victim));
        all.for_each(|observer| *watched.entry(observer).or_default() += 1);
        let mut left = rings_max;
        for (observer, on) in watched.into_iter().filter(|(observer, _)| !victims.contains(observer)) {
            if on <= left {
                left -= on;
                links.insert((observer, *victim));
            }
        }
    }
    links
}

fn harmed(experiment: &'static str, harm: Harm, nodes: usize, seed: u64, flips: u32) -> Row {
    harmed_in(calm(nodes, seed), experiment, harm, nodes, flips)
}

fn harmed_in(mut world: World<Fleet>, experiment: &'static str, harm: Harm, nodes: usize, flips: u32) -> Row {
    let victims = some(nodes);
    let start = world.now();
    world.harness_mut().harm = harm;
    world.harness_mut().victims = victims.clone();
    for turn in 0..flips {
        world.harness_mut().harmful = turn % 2 == 0;
        world.run_for(20 * SECOND);
    }
    let removed = |world: &World<Fleet>| {
        let newest = world.nodes().live().filter(|(id, _)| !victims.contains(id));
        let view = newest.filter_map(|(_, machine)| machine.view()).max_by_key(|view| view.seq());
        view.map_or(0, |view| victims.iter().filter(|id| !view.has(**id)).count())
    };
    let views: Vec<_> = world.harness().views.iter().filter(|(seq, _)| **seq > 1).collect();
    // Where nobody was removed, all are to agree on just that.
    let gone = if views.is_empty() { BTreeSet::new() } else { victims.clone() };
    let row = Row::new(experiment)
        .count("nodes", nodes as u64)
        .count("victims", victims.len() as u64)
        .count("victims_removed", removed(&world) as u64)
        .count("wrongly_removed", wronged(&world, &victims))
        .count("views", views.len() as u64)
        .count("lagging", lagging(&world, &gone));
    let since = |at: Duration| (at - start).as_secs_f64();
    match (views.first(), views.last()) {
        (Some((_, first)), Some((_, last))) => {
            row.number("first_view_s", since(first.first)).number("last_view_s", since(last.first))
        }
        _ => row,
    }
}

/// Some hear nobody, in turns of 20 seconds.
pub(super) fn deaf(nodes: usize, seed: u64) -> Row {
    harmed("deaf", Harm::Deaf, nodes, seed, 5)
}

/// Some lose four messages in five.
pub(super) fn lossy(nodes: usize, seed: u64) -> Row {
    harmed("lossy", Harm::Lossy(80), nodes, seed, 1)
}

/// Some are not heard by observers of theirs on fewer than L of their rings, and on H, in turns of 20 seconds.
pub(super) fn links(nodes: usize, seed: u64) -> Vec<Row> {
    let config = config();
    let of = |rings| {
        let mut world = calm(nodes, seed);
        world.harness_mut().links = observers(&some(nodes), nodes, rings);
        harmed_in(world, "links", Harm::Links, nodes, 5).count("rings", rings as u64)
    };
    [config.low - 1, config.high].map(of).into()
}

/// All but one join within a second.
pub(super) fn bootstrap(nodes: usize, seed: u64) -> Row {
    let mut world = Fleet::new(config(), 1, nodes, seed).world(nodes, seed);
    world.run_for(10 * SECOND);
    let start = world.now();
    for id in 2..=nodes as u64 {
        let after = SECOND * (id as u32 - 2) / nodes as u32;
        world.input(after, NodeId(id), Input::Join { seeds: vec![NodeId(1)] });
    }
    let together = world.run_until_done(600 * SECOND, |world| {
        let newest = world.harness().views.last_key_value();
        newest.is_some_and(|(_, view)| view.size as usize == nodes && view.nodes as usize >= nodes)
    });
    let end = world.now();
    let fleet = world.harness();
    let sent = fleet.bytes.iter().map(|(sent, _)| *sent).max().unwrap_or(0);
    Row::new("bootstrap")
        .count("nodes", nodes as u64)
        .count("together", u64::from(together))
        .number("seconds", (end - start).as_secs_f64())
        .count("views", fleet.views.len() as u64 - 1)
        .counts("sizes", fleet.sizes.iter().copied().collect())
        .count("wrongly_removed", fleet.kicked.len() as u64)
        .count("attempts_failed", fleet.joining_failed)
        .number("seed_sent_mb", sent as f64 / 1e6)
}

/// Small clusters lose one.
pub(super) fn small(seed: u64) -> Vec<Row> {
    [3, 4, 5, 7, 9].into_iter().map(|nodes| small_one(nodes, seed)).collect()
}

fn small_one(nodes: usize, seed: u64) -> Row {
    const RUNS: u64 = 50;
    let mut spans: Vec<f64> = Vec::new();
    let mut classic = 0;
    for turn in 0..RUNS {
        let mut world = calm(nodes, seed + turn);
        let victims = BTreeSet::from([NodeId(turn % nodes as u64 + 1)]);
        let struck = world.now();
        victims.iter().for_each(|id| world.crash(*id));
        world.run_until_done(60 * SECOND, |world| lagging(world, &victims) == 0);
        spans.push((world.now() - struck).as_secs_f64());
        classic += u64::from(world.marks().count("membership.decided.classic") > 0);
    }
    spans.sort_by(f64::total_cmp);
    Row::new("small")
        .count("nodes", nodes as u64)
        .count("runs", RUNS)
        .number("all_agree_s_median", spans[spans.len() / 2])
        .number("all_agree_s_max", spans[spans.len() - 1])
        .count("classic_runs", classic)
}
