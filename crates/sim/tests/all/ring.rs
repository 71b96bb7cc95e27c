//! Whole nodes whose buckets are held by groups that look after themselves, under everything at once.

use crate::everything;
use quorate_sim::node::grouped;

#[test]
fn swarm_of_groups() {
    everything::pass_and_reach(&grouped(), 60);
}

#[test]
fn runs_repeat() {
    everything::repeat(&grouped(), 3);
}

#[test]
fn trace_of_one() {
    everything::trace(&grouped());
}
