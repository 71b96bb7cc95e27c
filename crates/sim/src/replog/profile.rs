//! Kinds of runs of replicated logs.

use std::time::Duration;

use super::cluster::Stress;
use super::snare::{Bait, Snare, Trap};
use crate::{Fault, FaultSet, Profile, Settled};

/// A kind of run.
pub type Kind = crate::Kind<Stress>;

/// What 300 seeds must reach: half of the least that any of 16 such batches did, or less.
const FLOORS: &[(&str, u64)] = &[
    ("replog.append.conflict", 1_000),
    ("replog.append.dropped_tail", 5),
    ("replog.append.stale", 100),
    ("replog.election.trial", 1_000),
    ("replog.election.won", 500),
    ("replog.epoch.caretaker", 50),
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
    ("sim.sites", 30),
];

/// What not every 300 seeds reach.
const RARE: &[&str] =
    &["replog.accepted.stranger", "replog.append.truncated", "replog.epoch.completed_for_another"];

/// Everything at once.
pub fn swarm() -> Kind {
    let mut profile = Profile::new("replog");
    profile.nodes = (1, 7);
    profile.clients = (1, 4);
    profile.safety = (ms(500), ms(8_000));
    // A sync that a slow disk has begun goes on after the healing; the longest take minutes.
    profile.liveness_max = Duration::from_secs(600);
    profile.faults = FaultSet::ALL.without(Fault::FullDisk);
    profile.sites_max = 3;
    profile.floors = FLOORS.to_vec();
    profile.floors_seeds = 300;
    profile.rare = RARE.to_vec();
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
    let stress = Stress { aimed: 20, snares, ..Stress::default() };
    Kind { profile, stress, settled: Settled::default() }
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
