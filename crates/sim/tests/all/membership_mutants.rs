//! Every rule of the membership protocol, broken on purpose, is caught; `broken` says what the environment may ask for.

use crate::broken::Hunt;
use quorate_membership::Mutant;
use quorate_sim::membership::{Stress, kind_for, swarm};

/// Rules that are there for progress alone: safety does not need them.
fn prevents_progress(mutant: Mutant) -> bool {
    matches!(
        mutant,
        Mutant::RoundNeverGrows | Mutant::NoImplicitAlerts | Mutant::NoReinforcement | Mutant::NoCatchUp
    )
}

fn hunt() -> Hunt<Stress, Mutant> {
    Hunt {
        mutants: Mutant::ALL.to_vec(),
        results: "mutants-membership.jsonl",
        kind_for,
        swarm: Some(swarm),
        breaks: |stress, mutant| stress.mutant = mutant,
        stuck_counts: prevents_progress,
        whole_seeds: 12,
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
