//! Kinds of runs of transactions over several logs.

use std::ops::Range;
use std::time::Duration;

use super::cluster::{Cluster, Stress};
use crate::{Fault, FaultSet, Latency, Order, Overrides, Plan, Profile, Report, Summary, run, run_twice};

/// A profile and what its harness lays stress on.
#[derive(Debug, Clone)]
pub struct Kind {
    /// What seeds draw from.
    pub profile: Profile,
    /// What the harness lays stress on.
    pub stress: Stress,
    /// How long messages take, in any order, and how many in a million arrive twice; drawn if not given.
    pub network: Option<(Latency, u64)>,
}

impl Kind {
    /// The run that `seed` means.
    pub fn plan(&self, seed: u64, overrides: &Overrides) -> Plan {
        let mut plan = Plan::draw(&self.profile, seed, overrides);
        if let Some((latency, duplicate_ppm)) = self.network {
            plan.world.network.latency = latency;
            plan.world.network.duplicate_ppm = duplicate_ppm;
            plan.world.network.order = Order::Free;
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
    ("commit.forget", 750),
    ("commit.gave_up", 10),
    ("commit.grant.old_participant", 1),
    ("commit.local.full", 12),
    ("commit.local.refused", 500),
    ("commit.local.refused_waiting", 250),
    ("commit.query.old_coordinator", 1),
    ("commit.query.settled", 2),
    ("commit.reign.took_over", 750),
    ("commit.request.again", 750),
    ("commit.request.busy", 75),
    ("commit.request.handed_on", 1000),
    ("commit.request.settled", 2),
    ("commit.revert.asked", 250),
    ("commit.revert.by_query", 2),
    ("commit.revert.done", 250),
    ("commit.revert.granted", 200),
    ("commit.revert.too_late", 10),
    ("commit.sim.aborted", 500),
    ("commit.sim.alone", 125),
    ("commit.sim.client_died", 75),
    ("commit.sim.committed", 1000),
    ("commit.sim.history_checked", 15),
    ("commit.tombstone.global", 75),
    ("commit.tombstone.local", 75),
    ("commit.tombstone.participant", 100),
    ("commit.vote.other_view", 200),
    ("commit.vote.taken_back", 37),
    ("sim.crash", 500),
    ("sim.disk.unsynced_lost", 10),
];

/// Everything at once.
pub fn swarm() -> Kind {
    let mut profile = Profile::new("commit");
    profile.nodes = (2, 5);
    profile.clients = (1, 6);
    profile.safety = (Duration::from_millis(300), Duration::from_secs(4));
    // A sync that a slow disk has begun goes on after the healing.
    profile.liveness_max = Duration::from_secs(600);
    let disks = [Fault::LoseDisk, Fault::CorruptDisk, Fault::FailDisk, Fault::FullDisk];
    profile.faults = disks.into_iter().fold(FaultSet::ALL, FaultSet::without);
    profile.floors = FLOORS.to_vec();
    profile.floors_seeds = 300;
    Kind { profile, stress: Stress { aimed: 5, ..Stress::default() }, network: None }
}

/// Transactions that compare no versions and are asked of the coordinator alone, without limits and while no primary dies:
/// each of them has to commit.
pub fn unlimited() -> Kind {
    let mut kind = swarm();
    kind.profile.name = "commit-unlimited";
    kind.profile.clients = (2, 6);
    kind.profile.faults = kind.profile.faults.without(Fault::Crash).without(Fault::CrashAll);
    kind.profile.floors.clear();
    kind.stress.unlimited = true;
    kind.stress.versioned = Some(0);
    kind.stress.handed_on = Some(100);
    kind.stress.deaths = Some(0);
    kind
}
