//! What the tests of runs under everything at once have in common.
//!
//! `QUORATE_SEEDS` and `QUORATE_FROM` say how many seeds run and which is the first; `QUORATE_TRACE=SEED` prints a run
//! and `QUORATE_FLAGS` overrides its draws.

use std::env;

use quorate_sim::{Kind, Overrides, Stressed, Summary, TraceLevel};

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

/// Runs a part of the seeds asked for, which are `seeds` if nobody asks; all must pass.
pub(crate) fn pass<S: Stressed + Sync>(kind: &Kind<S>, seeds: u64, part: u64) -> Summary {
    let (first, seeds) = (number("QUORATE_FROM", 0), number("QUORATE_SEEDS", seeds) / part);
    let summary = kind.run_many(first..first + seeds, false, 5);
    println!("{}", summary.coverage);
    for report in &summary.failed {
        println!("{}", report.explain(kind.profile.name));
    }
    summary.expect_success(kind.profile.name);
    summary
}

/// They must also reach what the profile asks for.
pub(crate) fn pass_and_reach<S: Stressed + Sync>(kind: &Kind<S>, seeds: u64) {
    let summary = pass(kind, seeds, 1);
    if let Some(missing) = kind.profile.missing(&summary.coverage) {
        panic!("{missing}\n{}", summary.coverage);
    }
}

/// Each of so many seeds, run twice, must do the same.
pub(crate) fn repeat<S: Stressed + Sync>(kind: &Kind<S>, seeds: u64) {
    let first = number("QUORATE_FROM", 0);
    kind.run_many(first..first + seeds, true, 1).expect_success(kind.profile.name);
}

/// Prints the run that somebody asks for.
pub(crate) fn trace<S: Stressed>(kind: &Kind<S>) {
    let Ok(seed) = env::var("QUORATE_TRACE") else { return };
    let flags = env::var("QUORATE_FLAGS").unwrap_or_default();
    let overrides = Overrides::parse(flags.split_whitespace()).expect("flags");
    let plan = kind.plan(seed.parse().expect("a whole number"), &overrides);
    let report = kind.run(&plan.traced(TraceLevel::Keep));
    report.lines.iter().for_each(|line| println!("{line}"));
    println!("{}\n{:?}", report.coverage, report.failure);
}
