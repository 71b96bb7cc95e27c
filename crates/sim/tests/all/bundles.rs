//! Whole nodes with many clients whose transactions go together, under everything at once.

use crate::everything;
use quorate_sim::node::{bundles, carried};

#[test]
fn bundles_under_everything() {
    everything::pass_and_reach(&bundles(), 20);
}

#[test]
fn by_way_of_copies() {
    everything::pass_and_reach(&carried(), 40);
    everything::repeat(&carried(), 1);
}

#[test]
fn every_seed_repeats() {
    everything::repeat(&bundles(), 2);
}

#[test]
fn trace_of_one() {
    everything::trace(&bundles());
}
