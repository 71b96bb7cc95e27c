//! Groups on a ring under everything at once; `everything` says what the environment may ask for.

use crate::everything;
use quorate_sim::groups::swarm;

#[test]
fn a_ring_under_everything() {
    everything::pass_and_reach(&swarm(), 300);
}

#[test]
fn every_seed_repeats() {
    everything::repeat(&swarm(), 20);
}

#[test]
fn trace_of_one() {
    everything::trace(&swarm());
}
