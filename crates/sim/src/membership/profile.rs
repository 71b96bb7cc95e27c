//! Kinds of runs of memberships.

use std::ops::Range;
use std::time::Duration;

use super::cluster::{Cluster, Stress};
use crate::{Fault, FaultSet, Latency, Overrides, Plan, Profile, Report, Summary, run, run_twice};

/// A profile and what its harness lays stress on.
#[derive(Debug, Clone)]
pub struct Kind {
    /// What seeds draw from.
    pub profile: Profile,
    /// What the harness lays stress on.
    pub stress: Stress,
    /// How long messages take, and how many in a million are lost; drawn if not given.
    pub network: Option<(Latency, u64)>,
    /// How many messages in a million arrive twice; drawn if not given.
    pub duplicate_ppm: Option<u64>,
    /// How long syncs take; drawn if not given.
    pub sync: Option<Latency>,
}

impl Kind {
    /// The run that `seed` means.
    pub fn plan(&self, seed: u64, overrides: &Overrides) -> Plan {
        let mut plan = Plan::draw(&self.profile, seed, overrides);
        if let Some((latency, loss_ppm)) = self.network {
            plan.world.network.latency = latency;
            plan.world.network.loss_ppm = loss_ppm;
        }
        if let Some(duplicate_ppm) = self.duplicate_ppm {
            plan.world.network.duplicate_ppm = duplicate_ppm;
        }
        if let Some(sync) = self.sync {
            plan.world.disk.sync = sync;
            plan.world.disk.blocking = false;
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

/// What 200 seeds must reach.
const FLOORS: &[(&str, u64)] = &[
    ("membership.alert.down", 1500),
    ("membership.alert.epoch", 20),
    ("membership.alert.overdue", 3),
    ("membership.alert.reinforced", 200),
    ("membership.alert.up", 2000),
    ("membership.consensus.asked", 30),
    ("membership.consensus.bound", 100),
    ("membership.consensus.free", 150),
    ("membership.consensus.guarded", 60),
    ("membership.consensus.hurried", 400),
    ("membership.consensus.outdone", 30),
    ("membership.cut.about_me", 200),
    ("membership.decided.classic", 600),
    ("membership.decided.fast", 1000),
    ("membership.join.busy", 1),
    ("membership.join.done", 500),
    ("membership.join.failed", 30),
    ("membership.join.is_member", 30),
    ("membership.join.next_view", 100),
    ("membership.kicked", 80),
    ("membership.leave.done", 80),
    ("membership.outside.served", 60),
    ("membership.probe.bootstrapping", 500),
    ("membership.quorum.lost", 5),
    ("membership.resumed", 3000),
    ("membership.served.cuts", 400),
    ("membership.served.later", 80),
    ("membership.served.whole", 400),
    ("membership.sim.joined", 400),
    ("membership.sim.removed", 250),
    ("membership.sim.together", 190),
    ("membership.state.dropped", 10),
    ("membership.view.caught_up", 350),
    ("membership.view.jumped", 10),
    ("membership.view.next", 1800),
    ("membership.view.peer_behind", 1200),
    ("sim.disk.lost", 20),
    ("sim.disk.unsynced_lost", 20),
];

/// Everything at once.
pub fn swarm() -> Kind {
    let mut profile = Profile::new("membership");
    profile.nodes = (1, 9);
    profile.clients = (0, 0);
    profile.safety = (ms(500), ms(15_000));
    // A sync that a slow disk has begun goes on after the healing; the longest take minutes.
    profile.liveness_max = Duration::from_secs(600);
    profile.faults = FaultSet::ALL.without(Fault::FullDisk);
    profile.floors = FLOORS.to_vec();
    profile.floors_seeds = 200;
    let stress = Stress { encore_max: 4, ..Stress::default() };
    Kind { profile, stress, network: None, duplicate_ppm: None, sync: None }
}

/// Ten founders whom nothing befalls, with the settings of production: nobody may ever be removed.
pub fn calm(name: &'static str) -> Kind {
    let mut kind = swarm();
    kind.profile.name = name;
    kind.profile.nodes = (10, 10);
    kind.profile.safety = (ms(40_000), ms(60_000));
    kind.profile.faults = FaultSet::NONE;
    kind.profile.floors = Vec::new();
    kind.network = Some((Latency::Uniform(ms(1), ms(3)), 0));
    kind.sync = Some(Latency::Constant(ms(2)));
    kind.stress = Stress {
        config: Some(quorate_membership::Config::production()),
        founders: Some(10),
        operator: Some(Duration::ZERO),
        stable: true,
        ..Stress::default()
    };
    kind
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
