//! Nobody is missed so much that the ring does not come to rest: crashes between any two steps of an operation of groups.

use quorate_node::Limits;
use quorate_sim::Failure;
use quorate_sim::node::scatter::{Role, crash_at_steps};

/// One step of every so many, of one run. `QUORATE_STEPS=N` looks at each step, with N seeds.
const EVERY: usize = 6;

fn crash(role: Role, limits: &Limits) -> Result<u64, Failure> {
    let wanted = std::env::var("QUORATE_STEPS").ok();
    let seeds: u64 = wanted.as_ref().map_or(1, |text| text.parse().expect("a number of seeds"));
    let every = if wanted.is_some() { 1 } else { EVERY };
    (1..=seeds).map(|seed| crash_at_steps(role, (0, every), seed, limits)).sum()
}

fn crash_all(role: Role) {
    let struck = crash(role, &Limits::production()).unwrap_or_else(|why| panic!("{why}"));
    eprintln!("{struck} nodes died in the middle of an operation: {role:?}");
    assert!(struck > 30, "only {struck} operations were struck");
}

#[test]
fn whoever_speaks_may_die_at_any_step() {
    crash_all(Role::Speaker);
}

#[test]
fn whoever_has_to_agree_may_die_at_any_step() {
    crash_all(Role::Other);
}

#[cfg(feature = "mutants")]
#[test]
fn what_is_told_before_it_is_logged_is_noticed() {
    let mut limits = Limits::production();
    limits.shard.commit.mutant = Some(quorate_commit::Mutant::TellBeforeLog);
    let ended = crash_at_steps(Role::Speaker, (0, 1), 1, &limits);
    assert!(ended.is_err(), "{ended:?}");
}
