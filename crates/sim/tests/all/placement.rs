//! Whole nodes whose buckets are placed on nodes that come and go, under everything at once.

use crate::everything;
use quorate_sim::node::placed;

#[test]
fn swarm_of_nodes_that_come_and_go() {
    everything::pass_and_reach(&placed(), 60);
}

#[test]
fn runs_repeat() {
    everything::repeat(&placed(), 3);
}

#[test]
fn trace_of_one() {
    everything::trace(&placed());
}
