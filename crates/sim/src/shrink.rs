//! From a failing seed to a smaller case that fails alike, as flags that can be given again.

use std::fmt;

use crate::faults::FaultSet;
use crate::plan::{Overrides, Plan, Profile};
use crate::run::{Failure, Report, Runs, run_twice};

/// How many other courses of events each smaller case is given.
const SALTS: u64 = 6;

/// The smallest case found.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// Its run.
    pub report: Report,
    /// How many cases were tried.
    pub attempts: usize,
}

impl fmt::Display for Shrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { world, clients, safety, faults, .. } = &self.report.plan;
        write!(
            f,
            "{} nodes, {clients} clients, {} ms, faults {faults}, after {} attempts",
            world.nodes,
            safety.as_millis(),
            self.attempts
        )
    }
}

/// Makes the case of a failed run smaller while it fails in the same way: fewer kinds of faults, fewer strikes,
/// less time, fewer nodes and clients. Tries at most `attempts_max` cases.
///
/// # Panics
/// If the run did not fail.
pub fn shrink(profile: &Profile, failed: &Report, attempts_max: usize, runs: &Runs<'_>) -> Shrunk {
    let Some(failure) = failed.failure.clone() else {
        panic!("there is nothing to shrink in a run that passed")
    };
    let mut best = Shrunk { report: failed.clone(), attempts: 0 };
    loop {
        let before = best.report.plan.overrides.clone();
        for smaller in candidates(profile, &best.report.plan) {
            // An earlier candidate of this round may have been taken: keep what it gained.
            let kept = &best.report.plan.overrides;
            let overrides = merged(kept, smaller);
            if overrides == *kept {
                continue;
            }
            // A smaller world takes another course: one that fails may be a few tries away.
            let salts = std::iter::once(kept.salt).chain((0..SALTS).map(Some)).collect::<Vec<_>>();
            for salt in salts {
                if best.attempts == attempts_max {
                    return best;
                }
                best.attempts += 1;
                let overrides = Overrides { salt, ..overrides.clone() };
                let report = again(&Plan::draw(profile, failed.plan.seed, &overrides), &failure, runs);
                if report.failure.as_ref().is_some_and(|found| found.is_like(&failure)) {
                    best.report = report;
                    break;
                }
            }
        }
        if best.report.plan.overrides == before {
            return best;
        }
    }
}

fn again(plan: &Plan, failure: &Failure, runs: &Runs<'_>) -> Report {
    match failure {
        Failure::Determinism(_) => run_twice(plan, runs),
        _ => runs(plan),
    }
}

/// One step smaller, in each direction by itself; large steps first, and time last: in a long run, what is left can
/// still show the failure when something else is taken away.
fn candidates(profile: &Profile, plan: &Plan) -> Vec<Overrides> {
    let mut smaller = Vec::new();
    let mut push = |overrides| smaller.push(overrides);
    let none = Overrides::default;
    let on: Vec<_> = plan.faults.iter().collect();
    let (left, right) = on.split_at(on.len() / 2);
    for kept in [&[], left, right] {
        push(Overrides { faults: Some(FaultSet::of(kept)), ..none() });
    }
    for fault in on {
        push(Overrides { faults: Some(plan.faults.without(fault)), ..none() });
    }
    for nodes in profile.nodes.0.min(plan.world.nodes)..plan.world.nodes {
        push(Overrides { nodes: Some(nodes), ..none() });
    }
    for clients in profile.clients.0.min(plan.clients)..plan.clients {
        push(Overrides { clients: Some(clients), ..none() });
    }
    let strikes = plan.nemesis.strikes_max;
    let fewer = strikes.map_or(vec![0, 1, 4, 16], |most| vec![most / 4, most / 2, most.saturating_sub(1)]);
    for strikes in fewer {
        push(Overrides { strikes_max: Some(strikes), ..none() });
    }
    let ms = plan.safety.as_millis() as u64;
    for part in [ms / 8, ms / 2, ms - ms / 4] {
        push(Overrides { safety_ms: Some(part), ..none() });
    }
    smaller
}

/// The smaller of both in every respect.
fn merged(kept: &Overrides, more: Overrides) -> Overrides {
    fn least<T: Ord>(kept: Option<T>, more: Option<T>) -> Option<T> {
        match (kept, more) {
            (Some(kept), Some(more)) => Some(kept.min(more)),
            (kept, more) => more.or(kept),
        }
    }
    Overrides {
        salt: kept.salt,
        nodes: least(kept.nodes, more.nodes),
        clients: least(kept.clients, more.clients),
        safety_ms: least(kept.safety_ms, more.safety_ms),
        strikes_max: least(kept.strikes_max, more.strikes_max),
        faults: match (kept.faults, more.faults) {
            (Some(kept), Some(more)) => Some(kept.and(more)),
            (kept, more) => more.or(kept),
        },
    }
}
