//! Whole nodes whose buckets are held by groups that look after themselves, under everything at once.

use crate::everything;
use quorate_sim::node::{Kind, grouped};

#[test]
fn swarm_of_groups() {
    everything::pass_and_reach(&grouped(), 60);
}

/// Runs of seeds that were drawn before nodes stood in sites.
fn one_site() -> Kind {
    let mut kind = grouped();
    kind.profile.sites_max = 1;
    kind
}

/// Nobody came in any more, since observers were full of different joiners; nobody led, since nine candidates crossed each other for ever.
#[test]
fn what_once_stood_still_goes_on() {
    for seed in [501_152, 514_089] {
        one_site().run_many(seed..seed + 1, false, 1).expect_success("ring");
    }
}

/// A home that seemed to lack something for a second, while operations were under way, was mended in vain; what it did was not known to be explained.
#[test]
fn homes_mended_in_vain_are_explained() {
    one_site().run_many(90_000_631..90_000_632, false, 1).expect_success("ring");
}

#[test]
fn runs_repeat() {
    everything::repeat(&grouped(), 3);
}

#[test]
fn trace_of_one() {
    everything::trace(&grouped());
}
