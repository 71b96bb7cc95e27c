//! Kinds of runs of whole nodes.

#[cfg(feature = "mutants")]
use std::num::NonZeroU16;
use std::time::Duration;

use super::cluster::Cluster;
#[cfg(feature = "mutants")]
use super::stress::Play;
use super::stress::Stress;
use crate::{Fault, FaultSet, Plan, Profile};

/// A profile and what its harness lays stress on.
#[derive(Debug, Clone)]
pub struct Kind {
    /// What seeds draw from.
    pub profile: Profile,
    /// What the harness lays stress on.
    pub stress: Stress,
}

impl Kind {
    /// The harness of one run.
    pub fn cluster(&self, plan: &Plan) -> Cluster {
        Cluster::new(plan, &self.stress)
    }
}

/// What 60 seeds must reach, at least.
const FLOORS: [(&str, u64); 42] = [
    ("node.batch.again", 50),
    ("node.batch.gap", 100),
    ("node.batch.not_taken", 50),
    ("node.bucket.balanced", 2),
    ("node.bucket.checkpoint", 5),
    ("node.bucket.follows", 10),
    ("node.batch.takes", 20),
    ("node.disk.full", 20),
    ("node.disk.room", 20),
    ("node.join.asked", 50),
    ("node.retired", 5),
    ("node.session.lost", 1),
    ("node.sim.admin_done", 20),
    ("node.sim.compared", 5_000),
    ("node.sim.done", 50_000),
    ("node.sim.expired_seen", 100),
    ("node.sim.keys", 2_000),
    ("node.sim.operations", 10_000),
    ("node.sim.pipelined", 10_000),
    ("node.sim.played", 300),
    ("node.sim.scanned", 50),
    ("node.sim.refused.busy", 1_000),
    ("node.sim.refused.no_leader", 10),
    ("node.sim.refused.no_space", 100),
    ("node.sim.refused.not_serving", 20),
    ("node.sim.stopped", 5),
    ("node.sim.unknown", 20),
    ("replog.election.won", 100),
    ("replog.epoch.entered", 100),
    ("replog.install.done", 50),
    ("replog.snapshot.sent", 50),
    ("replog.transfer.taken", 10),
    ("shard.batch.gap", 200),
    ("shard.batch.repeated", 200),
    ("shard.read.waits_for_expiry", 20),
    ("shard.session.lost", 1),
    ("shard.session.replayed", 5),
    ("shard.transaction.lends", 100),
    ("sim.crash", 200),
    ("sim.fault.full-disk", 20),
    ("sim.fault.wall-jump", 50),
    ("sim.restart", 200),
];

/// Everything at once.
pub fn swarm() -> Kind {
    let mut profile = Profile::new("node");
    profile.nodes = (1, 6);
    profile.clients = (1, 5);
    profile.safety = (Duration::from_millis(300), Duration::from_secs(4));
    // Where messages overtake each other, a snapshot of many small parts takes minutes: a part too early is sent again.
    profile.liveness_max = Duration::from_secs(600);
    profile.faults =
        FaultSet::ALL.without(Fault::LoseDisk).without(Fault::CorruptDisk).without(Fault::FailDisk);
    profile.floors = FLOORS.to_vec();
    profile.floors_seeds = 60;
    Kind { profile, stress: Stress { aimed: 10, ..Stress::default() } }
}

/// Runs in which a given broken rule comes to light soonest.
#[cfg(feature = "mutants")]
pub fn hunt(mutant: quorate_shard::Mutant) -> Kind {
    use quorate_shard::Mutant;
    use quorate_workload::Kind as Course;
    let mut kind = swarm();
    kind.profile.floors = Vec::new();
    kind.stress.play = match mutant {
        Mutant::ExpiryByLocalClock
        | Mutant::VersionsRestart
        | Mutant::ApplyByLocalClock
        | Mutant::ExpiryRowLeft => Some(Play::Keys),
        Mutant::ReadsPassTransactions | Mutant::BatchesPassLocks | Mutant::LooksTooEarly => {
            kind.stress.buckets = NonZeroU16::new(3);
            Some(Play::Workload(Course::AppendTransaction))
        }
        Mutant::ExpiryPassesTransactions
        | Mutant::CommandsSeeLoans
        | Mutant::TimeStaysBehind
        | Mutant::ScanEndsEarly => {
            kind.stress.buckets = NonZeroU16::new(3);
            Some(Play::Keys)
        }
        Mutant::LoansUnlocked | Mutant::StaleExport => {
            kind.stress.buckets = NonZeroU16::new(3);
            Some(Play::Pebbles)
        }
        Mutant::VersionKept | Mutant::WatchIgnored => Some(Play::Workload(Course::Swap)),
        _ => Some(Play::Pipelines),
    };
    match mutant {
        // Another leader, with another clock or another state, must answer soon after.
        Mutant::ExpiryByLocalClock => {
            kind.stress.operator = Some(Duration::from_millis(100));
            kind.stress.transfers = Some(95);
        }
        // A node must come back before the answers to what it asked have.
        Mutant::NamesRepeat => {
            kind.stress.aimed = 500;
            kind.stress.buckets = Some(NonZeroU16::MIN);
        }
        // Many entries must wait to be applied while a read is allowed.
        Mutant::ReadBeforeApplied => {
            kind.stress.aimed = 100;
            kind.profile.nodes = (3, 5);
            kind.stress.members = Some(3);
            let shard = quorate_shard::Limits { apply_entries_max: 1, ..quorate_shard::Limits::production() };
            let limits = quorate_node::Limits::production();
            let deadline = Duration::from_secs(1);
            kind.stress.limits =
                Some(quorate_node::Limits { shard, deadline, batch_bytes_max: 50, ..limits });
            kind.profile.faults = FaultSet::of(&[Fault::Crash, Fault::CrashAll, Fault::Pause, Fault::Halves]);
        }
        _ => {}
    }
    kind
}
