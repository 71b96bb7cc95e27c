//! Every rule of atomic commitment, broken on purpose, is caught; `broken` says what the environment may ask for.

use crate::broken::Hunt;
use quorate_commit::Mutant;
use quorate_sim::commit::{Stress, kind_for};

fn hunt() -> Hunt<Stress, Mutant> {
    Hunt {
        // The one left out needs two crashes within the flight of one message: `commit_schedules.rs` plays it step by step.
        mutants: Mutant::ALL.into_iter().filter(|mutant| *mutant != Mutant::NoParticipantView).collect(),
        results: "mutants-commit.jsonl",
        kind_for,
        swarm: None,
        breaks: |stress, mutant| stress.mutant = mutant,
        stuck_counts: |_| true,
        whole_seeds: 80,
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
