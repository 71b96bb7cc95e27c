//! Every rule of atomic commitment, broken on purpose, is caught.
//!
//! `QUORATE_SEEDS` says after how many seeds a mutant counts as missed, `QUORATE_ONLY` names one, `QUORATE_TRACE=SEED`
//! prints one of its runs, and `QUORATE_RESULT` names a file that is rewritten with what was found.
#![cfg(feature = "mutants")]

use std::env;
use std::fmt::Write as _;

use quorate_commit::Mutant;
use quorate_sim::commit::{Kind, kind_for};
use quorate_sim::{Failure, Overrides, TraceLevel};

/// The kind of run for `mutant`, with it.
fn broken(mutant: Mutant) -> Kind {
    let mut kind = kind_for(mutant);
    kind.stress.mutant = Some(mutant);
    kind
}

fn wanted() -> Vec<Mutant> {
    let only = env::var("QUORATE_ONLY").unwrap_or_default();
    Mutant::ALL.into_iter().filter(|mutant| format!("{mutant:?}").contains(&only)).collect()
}

/// After how many seeds it is caught, and by what.
fn caught(kind: &Kind, seeds: u64) -> Option<(u64, Failure)> {
    let report = kind.run_many(0..seeds, false, 1).failed.into_iter().next()?;
    Some((report.plan.seed + 1, report.failure?))
}

/// The failure in a line, without what is particular to the seed.
fn summary(failure: &Failure) -> String {
    let text = failure.to_string().replace('\n', " ").replace(['"', '\\'], "'");
    text.chars().take(110).collect()
}

#[test]
fn every_mutant_is_caught() {
    let most = env::var("QUORATE_SEEDS").map_or(1_000, |count| count.parse().expect("a whole number"));
    let (mut lines, mut missed) = (String::new(), Vec::new());
    // This one needs two crashes within the flight of one message: `commit_schedules.rs` plays it step by step.
    for mutant in wanted().into_iter().filter(|mutant| *mutant != Mutant::NoParticipantView) {
        let kind = broken(mutant);
        match caught(&kind, most) {
            Some((seeds, failure)) => writeln!(
                lines,
                "{{\"mutant\":\"{mutant:?}\",\"profile\":\"{}\",\"seeds\":{seeds},\"by\":\"{}\"}}",
                kind.profile.name,
                summary(&failure)
            )
            .expect("strings grow"),
            None => missed.push(mutant),
        }
    }
    println!("{lines}");
    if let Ok(path) = env::var("QUORATE_RESULT") {
        std::fs::write(path, lines).expect("written");
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

/// What catches the mutants is not the profile itself.
#[test]
fn the_same_runs_without_a_mutant_pass() {
    let mut names = std::collections::BTreeSet::new();
    for mutant in Mutant::ALL {
        let kind = kind_for(mutant);
        if names.insert(kind.profile.name) {
            let summary = kind.run_many(0..200, false, 1);
            println!("{}", summary.coverage);
            summary.expect_success(kind.profile.name);
        }
    }
}

#[test]
fn trace_of_one() {
    let (Ok(seed), [mutant]) = (env::var("QUORATE_TRACE"), &wanted()[..]) else { return };
    let kind = broken(*mutant);
    let plan = kind.plan(seed.parse().expect("a whole number"), &Overrides::default());
    let report = kind.run(&plan.traced(TraceLevel::Keep));
    report.lines.iter().for_each(|line| println!("{line}"));
    println!("{}\n{:?}", report.coverage, report.failure);
}
