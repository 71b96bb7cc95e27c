//! Every safety rule of the replicated log, broken on purpose, is caught; `broken` says what the environment may ask for.

use crate::broken::Hunt;
use quorate_replog::Mutant;
use quorate_sim::replog::{Stress, kind_for, swarm};

fn hunt() -> Hunt<Stress, Mutant> {
    Hunt {
        mutants: Mutant::ALL.to_vec(),
        results: "mutants-replog.jsonl",
        kind_for,
        swarm: Some(swarm),
        breaks: |stress, mutant| stress.mutant = mutant,
        // What it takes away is the way on, if the new members' leader is gone for good.
        stuck_counts: |mutant| mutant == Mutant::FormerLetGoEarly,
        whole_seeds: 25,
    }
}

#[test]
fn every_mutant_is_caught() {
    hunt().catch_all();
}

#[test]
fn the_same_runs_without_a_mutant_pass() {
    hunt().pass_whole();
}

#[test]
fn trace_of_one() {
    hunt().trace();
}
