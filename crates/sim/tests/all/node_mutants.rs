//! Every broken rule of the shard and the node is noticed; `broken` says what the environment may ask for.

use crate::broken::Hunt;
use quorate_shard::Mutant;
use quorate_sim::node::{Stress, kind_for};

fn hunt() -> Hunt<Stress, Mutant> {
    Hunt {
        mutants: Mutant::ALL.to_vec(),
        results: "mutants-node.jsonl",
        kind_for,
        swarm: None,
        breaks: |stress, mutant| stress.mutant = mutant,
        stuck_counts: |_| true,
        whole_seeds: 5,
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    hunt().catch_all();
}

#[test]
fn whole_rules_are_left_alone() {
    hunt().pass_whole();
}

#[test]
fn trace_of_one() {
    hunt().trace();
}
