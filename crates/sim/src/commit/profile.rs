//! Kinds of runs of transactions over several logs.

use std::time::Duration;

use super::cluster::Stress;
use crate::{Fault, FaultSet, Profile, Settled};

/// A kind of run.
pub type Kind = crate::Kind<Stress>;

/// What 300 seeds must reach: about half of the least that any of some hundred such batches did. What few runs do, but those often,
/// varies most: patience has run out (`gave_up`) 5 to 190 times in a batch, so that it must have happened at all.
const FLOORS: &[(&str, u64)] = &[
    ("commit.forget", 4_500),
    ("commit.gave_up", 1),
    ("commit.grant.old_participant", 1),
    ("commit.local.full", 15),
    ("commit.local.refused", 2_400),
    ("commit.local.refused_waiting", 1_200),
    ("commit.query.settled", 13),
    ("commit.reign.took_over", 4_000),
    ("commit.request.again", 5_000),
    ("commit.request.busy", 270),
    ("commit.request.handed_on", 5_600),
    ("commit.request.settled", 27),
    ("commit.revert.asked", 1_400),
    ("commit.revert.by_query", 12),
    ("commit.revert.done", 980),
    ("commit.revert.granted", 980),
    ("commit.revert.kept", 400),
    ("commit.revert.too_late", 39),
    ("commit.sim.aborted", 2_500),
    ("commit.sim.alone", 810),
    ("commit.sim.at_once", 5_000),
    ("commit.sim.client_died", 320),
    ("commit.sim.committed", 4_800),
    ("commit.sim.history_checked", 61),
    ("commit.tombstone.global", 280),
    ("commit.tombstone.local", 270),
    ("commit.tombstone.participant", 380),
    ("commit.vote.kept", 5_000),
    ("commit.vote.other_view", 890),
    ("commit.vote.taken_back", 160),
    ("sim.crash", 990),
    ("sim.disk.unsynced_lost", 29),
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

/// Many transactions of one coordinator, which go together.
pub fn bundles() -> Kind {
    let mut kind = swarm();
    kind.profile.name = "commit-bundles";
    kind.profile.nodes = (2, 3);
    kind.profile.clients = (6, 12);
    kind.profile.floors =
        vec![("commit.bundle", 280), ("commit.bundle.ahead", 600), ("commit.sim.member", 600)];
    kind.stress.shared = true;
    kind.stress.versioned = Some(10);
    kind.stress.handed_on = Some(100);
    kind
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
