//! Every broken rule of the shard and the node is noticed.
#![cfg(feature = "mutants")]

use std::fmt::Write as _;

use quorate_shard::Mutant;
use quorate_sim::node::{Stress, hunt};
use quorate_sim::{Batch, Failure, Overrides, Plan, TraceLevel, run, run_many};

/// Seeds that may be needed to notice a broken rule.
const SEEDS_MAX: u64 = 1_000;

fn caught(mutant: Mutant) -> (u64, Failure) {
    let kind = hunt(mutant);
    let stress = Stress { mutant: Some(mutant), ..kind.stress.clone() };
    let kind = quorate_sim::node::Kind { stress, ..kind };
    let summary = run_many(&kind.profile, &Batch::of(0..SEEDS_MAX), |plan| kind.cluster(plan), |_| ());
    match summary.failed.into_iter().next() {
        Some(report) => (report.plan.seed, report.failure.expect("it failed")),
        None => panic!("{mutant:?} was not caught within {SEEDS_MAX} seeds"),
    }
}

/// What finds broken rules does not complain of whole ones.
#[test]
fn whole_rules_are_left_alone() {
    let wanted = std::env::var("MUTANT").unwrap_or_default();
    for mutant in Mutant::ALL.into_iter().filter(|mutant| format!("{mutant:?}").contains(&wanted)) {
        let kind = hunt(mutant);
        let seeds: u64 = std::env::var("SEEDS").map_or(10, |count| count.parse().expect("a number"));
        let summary = run_many(&kind.profile, &Batch::of(0..seeds), |plan| kind.cluster(plan), |_| ());
        summary.expect_success("node");
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    let wanted = std::env::var("MUTANT").unwrap_or_default();
    let (mut lines, mut missed) = (String::new(), Vec::new());
    for mutant in Mutant::ALL.into_iter().filter(|mutant| format!("{mutant:?}").contains(&wanted)) {
        match std::panic::catch_unwind(|| caught(mutant)) {
            Ok((seed, failure)) => {
                let text = failure.to_string().replace('\n', " ");
                let short: String = text.replace(['"', '\\'], "'").chars().take(110).collect();
                let seeds = seed + 1;
                writeln!(lines, "{{\"mutant\":\"{mutant:?}\",\"seeds\":{seeds},\"by\":\"{short}\"}}")
                    .expect("strings grow");
            }
            Err(_) => missed.push(mutant),
        }
    }
    println!("{lines}");
    if let Ok(path) = std::env::var("QUORATE_RESULT") {
        std::fs::write(path, lines).expect("written");
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

#[test]
fn trace_of_one() {
    let (Ok(seed), Ok(name)) = (std::env::var("TRACE"), std::env::var("MUTANT")) else { return };
    let mutant = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name).expect("a broken rule");
    let kind = hunt(mutant);
    let plan = Plan::draw(&kind.profile, seed.parse().expect("a number"), &Overrides::default());
    let report = run(&plan.traced(TraceLevel::Keep), |plan| kind.cluster(plan));
    report.lines.iter().for_each(|line| println!("{line}"));
    println!("{:?}", report.failure);
}
