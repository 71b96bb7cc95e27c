//! Kinds of runs of transactions over several logs.

use std::time::Duration;

use super::cluster::Stress;
use crate::{Fault, FaultSet, Profile, Settled};

/// A kind of run.
pub type Kind = crate::Kind<Stress>;

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
    Kind { profile, stress: Stress { aimed: 5, ..Stress::default() }, settled: Settled::default() }
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
