//! Kinds of runs of whole nodes.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_node::Topology;
use quorate_workload::Kind as Workload;

use super::stress::{Play, Stress};
use crate::{Fault, FaultSet, Profile, Settled};

/// A kind of run.
pub type Kind = crate::Kind<Stress>;

/// What 60 seeds must reach, at least. What only few of them do at all stands far below what they reach in the mean: 120 seeds have been
/// seen that reach a quarter of what others do.
const FLOORS: [(&str, u64); 50] = [
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
    ("node.read.near", 1_000),
    ("node.retired", 5),
    ("node.session.lost", 1),
    ("node.sim.admin_done", 20),
    ("node.sim.compared", 2_000),
    ("node.sim.done", 20_000),
    ("node.sim.expired_seen", 20),
    ("node.sim.keys", 400),
    ("node.sim.found_again", 200),
    ("node.sim.named", 2_000),
    ("node.sim.operations", 4_000),
    ("node.sim.pipelined", 4_000),
    ("node.sim.played", 200),
    ("node.sim.scanned", 10),
    ("node.sim.refused.busy", 1_000),
    ("node.sim.refused.no_leader", 10),
    ("node.sim.refused.no_space", 100),
    ("node.sim.refused.not_serving", 20),
    ("node.sim.stopped", 3),
    ("node.sim.unknown", 20),
    ("replog.election.won", 100),
    ("replog.epoch.entered", 100),
    ("replog.install.done", 50),
    ("replog.snapshot.sent", 50),
    ("replog.transfer.taken", 10),
    ("shard.batch.gap", 100),
    ("shard.batch.repeated", 200),
    ("shard.read.copy_waits", 50),
    ("shard.read.waits_for_expiry", 5),
    ("shard.session.lost", 1),
    ("shard.session.replayed", 5),
    ("shard.transaction.lends", 30),
    ("shard.hold.begun", 50),
    ("shard.hold.lapsed", 2),
    ("shard.hold.outranked", 1),
    ("node.collect.holds", 20),
    ("sim.crash", 150),
    ("sim.fault.full-disk", 20),
    ("sim.fault.wall-jump", 50),
    ("sim.restart", 150),
];

/// What 40 seeds of runs with placed buckets must reach, at least: as many as CI runs.
const PLACED_FLOORS: [(&str, u64); 14] = [
    ("node.charter.copies", 1),
    ("membership.kicked", 5),
    ("membership.view.next", 120),
    ("node.bucket.follows", 25),
    ("node.bucket.opened", 4),
    ("node.charter.described", 25),
    ("node.charter.proposed", 60),
    ("node.charter.step", 10),
    ("node.leader.hinted", 150),
    ("node.sim.compared", 1_500),
    ("node.sim.done", 20_000),
    ("node.view.installed", 250),
    ("replog.epoch.entered", 25),
    ("sim.crash", 250),
];

/// Everything at once.
pub fn swarm() -> Kind {
    let mut profile = Profile::new("node");
    profile.nodes = (1, 6);
    profile.sites_max = 3;
    profile.clients = (1, 5);
    profile.safety = (Duration::from_millis(300), Duration::from_secs(4));
    // Where messages overtake each other, a snapshot of many small parts takes minutes: a part too early is sent again.
    profile.liveness_max = Duration::from_secs(600);
    profile.faults =
        FaultSet::ALL.without(Fault::LoseDisk).without(Fault::CorruptDisk).without(Fault::FailDisk);
    profile.floors = FLOORS.to_vec();
    profile.floors_seeds = 60;
    Kind { profile, stress: Stress { aimed: 10, ..Stress::default() }, settled: Settled::default() }
}

/// What 20 seeds of runs with many transactions must reach, at least.
const BUNDLE_FLOORS: [(&str, u64); 3] =
    [("commit.bundle", 50), ("node.transaction.meets", 100), ("node.sim.operations", 1_000)];

/// Everything at once, with so many clients whose transactions are about several buckets that these go together.
pub fn bundles() -> Kind {
    let mut kind = swarm();
    kind.profile = Profile {
        name: "bundles",
        nodes: (1, 5),
        clients: (6, 9),
        safety: (Duration::from_millis(300), Duration::from_millis(1_500)),
        floors: BUNDLE_FLOORS.to_vec(),
        floors_seeds: 20,
        ..kind.profile
    };
    kind.stress.play = Some(Play::Workload(Workload::AppendTransaction));
    kind.stress.buckets = NonZeroU16::new(3);
    kind
}

/// What 40 seeds of such runs must reach, at least, where buckets are placed. Runs differ: of six times 20, one carried nothing
/// and one 243.
const CARRIED_FLOORS: [(&str, u64); 3] =
    [("commit.bundle", 100), ("node.transaction.carried", 40), ("node.sim.operations", 2_000)];

/// As [`bundles`], with buckets placed on nodes that come and go, so that what meets goes by way of copies.
pub fn carried() -> Kind {
    let mut kind = bundles();
    kind.profile = Profile {
        name: "carried",
        nodes: (7, 9),
        safety: (Duration::from_millis(500), Duration::from_secs(4)),
        floors: CARRIED_FLOORS.to_vec(),
        floors_seeds: 40,
        ..kind.profile
    };
    kind.stress.placed = true;
    kind
}

/// Everything at once, with buckets placed on nodes that come and go.
pub fn placed() -> Kind {
    let mut kind = swarm();
    kind.profile = Profile {
        name: "placement",
        nodes: (1, 8),
        floors: PLACED_FLOORS.to_vec(),
        floors_seeds: 40,
        ..kind.profile
    };
    // Long enough for nodes to be taken for dead and to come back.
    kind.profile.safety = (Duration::from_millis(500), Duration::from_secs(8));
    kind.stress.placed = true;
    kind
}

/// What 30 seeds of runs with groups must reach, at least: as many as CI runs.
const GROUPED_FLOORS: [(&str, u64); 8] = [
    ("node.group.changed", 45),
    ("node.group.members", 30),
    ("node.group.repartition", 1),
    ("node.group.split", 10),
    ("node.sim.outcomes", 25_000),
    ("node.sim.rings", 50),
    ("node.ring.founded", 20),
    ("node.sim.done", 12_000),
];

/// Everything at once, with buckets held by groups of a ring.
pub fn grouped() -> Kind {
    let mut kind = placed();
    kind.profile = Profile {
        name: "ring",
        nodes: (1, 9),
        floors: GROUPED_FLOORS.to_vec(),
        floors_seeds: 30,
        // Once to a dozen times in 30 seeds.
        rare: vec!["node.group.merge"],
        ..kind.profile
    };
    kind.stress.topology = Topology::Ring;
    kind.stress.buckets = NonZeroU16::new(6);
    kind
}
