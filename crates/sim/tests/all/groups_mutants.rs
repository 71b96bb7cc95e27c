//! Every rule of the ring, broken on purpose, is caught; `broken` says what the environment may ask for.

use crate::broken::Hunt;
use quorate_groups::Mutant;
use quorate_sim::groups::{Stress, kind_for};

fn hunt() -> Hunt<Stress, Mutant> {
    Hunt {
        mutants: Mutant::ALL.to_vec(),
        kind_for,
        swarm: None,
        breaks: |stress, mutant| stress.mutant = mutant,
        stuck_counts: |_| true,
        whole_seeds: 100,
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
