//! Every rule of the membership protocol, broken on purpose, is caught.
//!
//! `QUORATE_SEEDS` says after how many seeds a mutant counts as missed, `QUORATE_ONLY` names one, `QUORATE_TRACE=SEED`
//! prints one of its runs, and `QUORATE_RESULT` names a file that is rewritten with what was found.
#![cfg(feature = "mutants")]

use std::env;
use std::fmt::Write as _;

use quorate_membership::Mutant;
use quorate_sim::membership::{Kind, kind_for, swarm};
use quorate_sim::{Failure, Overrides, TraceLevel};

/// The kind of run for `mutant`, with it.
fn broken(mut kind: Kind, mutant: Mutant) -> Kind {
    kind.stress.mutant = Some(mutant);
    kind
}

/// Rules that are there for progress alone: safety does not need them.
fn prevents_progress(mutant: Mutant) -> bool {
    matches!(
        mutant,
        Mutant::RoundNeverGrows | Mutant::NoImplicitAlerts | Mutant::NoReinforcement | Mutant::NoCatchUp
    )
}

/// After how many seeds it is caught, and by what. Getting stuck counts only where that is what the rule prevents.
fn caught(kind: &Kind, seeds: u64) -> Option<(u64, Failure)> {
    let mut first = 0;
    loop {
        let report = kind.run_many(first..seeds, false, 1).failed.into_iter().next()?;
        let failure = report.failure?;
        first = report.plan.seed + 1;
        let stuck = matches!(failure, Failure::Liveness(_)) || failure.to_string().contains("without an end");
        if !stuck || kind.stress.mutant.is_some_and(prevents_progress) {
            return Some((first, failure));
        }
    }
}

fn wanted() -> Vec<Mutant> {
    let only = env::var("QUORATE_ONLY").unwrap_or_default();
    Mutant::ALL.into_iter().filter(|mutant| format!("{mutant:?}").contains(&only)).collect()
}

/// The failure in a line, without what is particular to the seed.
fn summary(failure: &Failure) -> String {
    let text = failure.to_string().replace('\n', " ").replace(['"', '\\'], "'");
    text.chars().take(100).collect()
}

#[test]
fn every_mutant_is_caught() {
    let most = env::var("QUORATE_SEEDS").map_or(1_000, |count| count.parse().expect("a whole number"));
    let (mut lines, mut missed) = (String::new(), Vec::new());
    for mutant in wanted() {
        let kind = broken(kind_for(mutant), mutant);
        let Some((seeds, failure)) = caught(&kind, most) else {
            missed.push(mutant);
            continue;
        };
        let in_swarm = match env::var("QUORATE_RESULT") {
            Ok(_) => caught(&broken(swarm(), mutant), most).map(|(seeds, _)| seeds),
            Err(_) => None,
        };
        let in_swarm = in_swarm.map_or("null".to_owned(), |seeds| seeds.to_string());
        writeln!(
            lines,
            "{{\"mutant\":\"{mutant:?}\",\"profile\":\"{}\",\"seeds\":{seeds},\"swarm_seeds\":{in_swarm},\"by\":\"{}\"}}",
            kind.profile.name,
            summary(&failure)
        )
        .expect("strings grow");
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
            kind.run_many(0..100, false, 1).expect_success(kind.profile.name);
        }
    }
}

#[test]
fn trace_of_one() {
    let (Ok(seed), Some(mutant)) = (env::var("QUORATE_TRACE"), wanted().first().copied()) else { return };
    let mut kind = broken(kind_for(mutant), mutant);
    if env::var("QUORATE_WHOLE").is_ok() {
        kind.stress.mutant = None;
    }
    let plan = kind.plan(seed.parse().expect("a whole number"), &Overrides::default());
    let report = kind.run(&plan.traced(TraceLevel::Keep));
    report.lines.iter().for_each(|line| println!("{line}"));
    println!("{:?}", report.failure);
}
