//! Transactions over several logs under everything at once; `everything` says what the environment may ask for.

use crate::everything;
use quorate_sim::commit::{bundles, swarm, unlimited};

#[test]
fn transactions_under_everything() {
    everything::pass_and_reach(&swarm(), 300);
}

#[test]
fn what_compares_nothing_commits() {
    let coverage = everything::pass(&unlimited(), 300, 3).coverage;
    assert!(coverage.marks.count("commit.revert.done") > coverage.runs, "they are in each other's way");
}

#[test]
fn what_goes_together_under_everything() {
    everything::pass_and_reach(&bundles(), 300);
}

#[test]
fn every_seed_repeats() {
    everything::repeat(&swarm(), 20);
}

#[test]
fn trace_of_one() {
    everything::trace(&swarm());
}
