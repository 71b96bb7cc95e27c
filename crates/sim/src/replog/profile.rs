//! Kinds of runs of replicated logs.

use std::ops::Range;
use std::time::Duration;

use super::cluster::{Cluster, Stress};
use super::snare::{Bait, Snare, Trap};
use crate::{Fault, FaultSet, Latency, Overrides, Plan, Profile, Report, Summary, run, run_twice};

/// A profile and what its harness lays stress on.
#[derive(Debug, Clone)]
pub struct Kind {
    /// What seeds draw from.
    pub profile: Profile,
    /// What the harness lays stress on.
    pub stress: Stress,
    /// How long syncs take; drawn if not given.
    pub sync: Option<Latency>,
    /// How long messages take, and how many in a million arrive twice; drawn if not given.
    pub network: Option<(Latency, u64)>,
}

impl Kind {
    /// The run that `seed` means.
    pub fn plan(&self, seed: u64, overrides: &Overrides) -> Plan {
        let mut plan = Plan::draw(&self.profile, seed, overrides);
        if let Some(sync) = self.sync {
            plan.world.disk.sync = sync;
            plan.world.disk.blocking = false;
        }
        if let Some((latency, duplicate_ppm)) = self.network {
            plan.world.network.latency = latency;
            plan.world.network.duplicate_ppm = duplicate_ppm;
        }
        plan
    }

    /// Runs one seed.
    pub fn run(&self, plan: &Plan) -> Report {
        run(plan, |plan| Cluster::new(plan, &self.stress))
    }

    /// Runs many seeds, each twice if so wanted, until `failures_max` have failed.
    pub fn run_many(&self, seeds: Range<u64>, twice: bool, failures_max: usize) -> Summary {
        let mut summary = Summary::default();
        for seed in seeds {
            let plan = self.plan(seed, &Overrides::default());
            let make = |plan: &Plan| Cluster::new(plan, &self.stress);
            let report = if twice { run_twice(&plan, make) } else { run(&plan, make) };
            summary.coverage.merge(&report.coverage);
            if report.failure.is_some() {
                summary.failed.push(report);
            }
            if summary.failed.len() >= failures_max {
                break;
            }
        }
        summary
    }
}

/// What 300 seeds must reach.
const FLOORS: &[(&str, u64)] = &[
    ("replog.accepted.stranger", 1),
    ("replog.append.conflict", 1_000),
    ("replog.append.dropped_tail", 5),
    ("replog.append.stale", 100),
    ("replog.append.truncated", 1),
    ("replog.election.trial", 1_000),
    ("replog.election.won", 500),
    ("replog.epoch.caretaker", 50),
    ("replog.epoch.completed_for_another", 1),
    ("replog.epoch.entered", 500),
    ("replog.install.abandoned", 5),
    ("replog.install.done", 200),
    ("replog.leader.lost_quorum", 30),
    ("replog.leader.met_higher_ballot", 50),
    ("replog.leader.stepped_down", 100),
    ("replog.leader.suspected", 300),
    ("replog.parent.without_effect", 1_000),
    ("replog.peer.stalled", 20),
    ("replog.prepare.bound_by_lease", 50),
    ("replog.prepare.shorter_log", 200),
    ("replog.prepare.trial_refused", 10),
    ("replog.propose.dropped", 500),
    ("replog.read.round", 5_000),
    ("replog.retired.by_stale", 10),
    ("replog.retired.told", 100),
    ("replog.seal.proposed", 100),
    ("replog.session.replayed", 1_000),
    ("replog.sim.acknowledged", 30_000),
    ("replog.sim.read", 20_000),
    ("replog.snapshot.anew", 3),
    ("replog.snapshot.part_again", 500),
    ("replog.snapshot.sent", 200),
    ("replog.transfer.failed", 3),
    ("replog.transfer.taken", 50),
    ("sim.disk.lost", 50),
    ("sim.disk.unsynced_lost", 30),
];

/// Everything at once.
pub fn swarm() -> Kind {
    let mut profile = Profile::new("replog");
    profile.nodes = (1, 7);
    profile.clients = (1, 4);
    profile.safety = (ms(500), ms(8_000));
    // A sync that a slow disk has begun goes on after the healing; the longest take minutes.
    profile.liveness_max = Duration::from_secs(600);
    profile.faults = FaultSet::ALL.without(Fault::FullDisk);
    profile.floors = FLOORS.to_vec();
    profile.floors_seeds = 300;
    let snare = |bait, trap, span| Snare { bait, trap, chance: 2, span: ms(span) };
    let snares = vec![
        snare(Bait::Prepare, Trap::Crash, 500),
        snare(Bait::Promise, Trap::Crash, 500),
        snare(Bait::OldEntries, Trap::Crash, 500),
        snare(Bait::OldEntries, Trap::Isolate, 500),
        snare(Bait::Handover, Trap::Isolate, 500),
        snare(Bait::Seal, Trap::Crash, 500),
        snare(Bait::Seal, Trap::Split, 2_000),
        snare(Bait::Part, Trap::Crash, 500),
    ];
    Kind { profile, stress: Stress { aimed: 20, snares, ..Stress::default() }, sync: None, network: None }
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
