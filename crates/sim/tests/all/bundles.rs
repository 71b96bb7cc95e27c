//! Whole nodes with many clients whose transactions go together, under everything at once.

use crate::everything;
use quorate_sim::node::bundles;

#[test]
fn bundles_under_everything() {
    everything::pass_and_reach(&bundles(), 20);
}

#[test]
fn every_seed_repeats() {
    everything::repeat(&bundles(), 2);
}

#[test]
fn trace_of_one() {
    everything::trace(&bundles());
}
