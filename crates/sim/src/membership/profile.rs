//! Kinds of runs of memberships.

use std::time::Duration;

use super::cluster::Stress;
use crate::{Fault, FaultSet, Latency, Profile, Settled};

/// A kind of run.
pub type Kind = crate::Kind<Stress>;

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
    Kind { profile, stress, settled: Settled::default() }
}

/// Ten founders whom nothing befalls, with the settings of production: nobody may ever be removed.
pub fn calm(name: &'static str) -> Kind {
    let mut kind = swarm();
    kind.profile.name = name;
    kind.profile.nodes = (10, 10);
    kind.profile.safety = (ms(40_000), ms(60_000));
    kind.profile.faults = FaultSet::NONE;
    kind.profile.floors = Vec::new();
    kind.settled = Settled {
        latency: Some(Latency::Uniform(ms(1), ms(3))),
        loss_ppm: Some(0),
        sync: Some(Latency::Constant(ms(2))),
        ..Settled::default()
    };
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
