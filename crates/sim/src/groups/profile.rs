//! Kinds of runs of groups on a ring.

use std::time::Duration;

use super::cluster::Stress;
use crate::{Fault, FaultSet, Profile, Settled};

/// A kind of run.
pub type Kind = crate::Kind<Stress>;

/// What 300 seeds must reach.
const FLOORS: &[(&str, u64)] = &[
    ("groups.members", 1_600),
    ("groups.split", 1_200),
    ("groups.merge", 1_200),
    ("groups.repartition", 1_200),
    ("groups.migrate", 550),
    ("groups.refused", 15_000),
    ("groups.begun", 9_000),
    ("sim.crash", 1_200),
];

/// Operations of all kinds at the same time, under everything.
pub fn swarm() -> Kind {
    let mut profile = Profile::new("groups");
    profile.nodes = (1, 6);
    profile.clients = (1, 5);
    profile.safety = (Duration::from_millis(300), Duration::from_secs(4));
    profile.liveness_max = Duration::from_secs(600);
    let disks = [Fault::LoseDisk, Fault::CorruptDisk, Fault::FailDisk, Fault::FullDisk];
    profile.faults = disks.into_iter().fold(FaultSet::ALL, FaultSet::without);
    profile.floors = FLOORS.to_vec();
    profile.floors_seeds = 300;
    Kind { profile, stress: Stress::default(), settled: Settled::default() }
}

/// The kind of run that a broken rule shows in soonest.
#[cfg(feature = "mutants")]
pub fn kind_for(mutant: quorate_groups::Mutant) -> Kind {
    let mut kind = swarm();
    if mutant == quorate_groups::Mutant::LocksForgotten {
        // Both groups at a link lock it: their leaders have to die together, while messages take long.
        let ms = Duration::from_millis;
        kind.profile.name = "groups-crashes";
        kind.profile.safety = (ms(500), ms(1_500));
        kind.profile.nodes = (1, 2);
        kind.profile.clients = (4, 6);
        kind.profile.faults = FaultSet::of(&[Fault::Crash, Fault::CrashAll]);
        kind.profile.floors.clear();
        kind.settled.latency = Some(crate::Latency::Uniform(ms(1), ms(20)));
    }
    kind
}
