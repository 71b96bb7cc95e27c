//! Memberships under everything at once.
//!
//! `QUORATE_SEEDS` and `QUORATE_FROM` say how many seeds run and which is the first; `QUORATE_TRACE=SEED` prints a run
//! and `QUORATE_FLAGS` overrides its draws.

use std::env;

use quorate_sim::membership::swarm;
use quorate_sim::{Overrides, TraceLevel};

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

#[test]
fn memberships_under_everything() {
    let kind = swarm();
    let (first, seeds) = (number("QUORATE_FROM", 0), number("QUORATE_SEEDS", 200));
    let summary = kind.run_many(first..first + seeds, false, 5);
    println!("{}", summary.coverage);
    for report in &summary.failed {
        println!("{}", report.explain("membership"));
    }
    summary.expect_success("membership");
    if let Some(missing) = kind.profile.missing(&summary.coverage) {
        panic!("{missing}\n{}", summary.coverage);
    }
}

#[test]
fn every_seed_repeats() {
    let first = number("QUORATE_FROM", 0);
    swarm().run_many(first..first + 10, true, 1).expect_success("membership");
}

#[test]
fn trace_of_one() {
    let Ok(seed) = env::var("QUORATE_TRACE") else { return };
    let kind = swarm();
    let flags = env::var("QUORATE_FLAGS").unwrap_or_default();
    let overrides = Overrides::parse(flags.split_whitespace()).expect("flags");
    let plan = kind.plan(seed.parse().expect("a whole number"), &overrides);
    let report = kind.run(&plan.traced(TraceLevel::Keep));
    report.lines.iter().for_each(|line| println!("{line}"));
    println!("{}\n{:?}", report.coverage, report.failure);
}
