//! Memberships under everything at once; `everything` says what the environment may ask for.

use crate::everything;
use quorate_sim::membership::swarm;

#[test]
fn memberships_under_everything() {
    everything::pass_and_reach(&swarm(), 200);
}

#[test]
fn every_seed_repeats() {
    everything::repeat(&swarm(), 10);
}

#[test]
fn trace_of_one() {
    everything::trace(&swarm());
}
