//! Every broken rule of groups is noticed, and rules below them are where groups come and go.

use std::time::Duration;

use crate::broken::Hunt;
use quorate_commit::Mutant as Commit;
use quorate_replog::Mutant as Log;
use quorate_shard::Mutant as Shard;
use quorate_sim::node::{Kind, Play, Stress, grouped};
use quorate_workload::Kind as Course;

/// A rule on one of the floors of a node.
#[derive(Debug, Clone, Copy)]
enum Mutant {
    Shard(Shard),
    Log(Log),
    Commit(Commit),
}

fn kind_for(mutant: Mutant) -> Kind {
    let mut kind = grouped();
    kind.profile.name = "ring-groups";
    kind.profile.floors.clear();
    kind.profile.sites_max = 1;
    // Much longer than whole rules take; those that are noticed by standing still run for all of it.
    kind.profile.liveness_max = Duration::from_secs(150);
    // What is about data shows where data are looked at closely.
    if matches!(mutant, Mutant::Log(_) | Mutant::Commit(_)) {
        kind.profile.name = "ring-data";
        kind.stress.play = Some(Play::Workload(Course::AppendTransaction));
    }
    kind
}

fn hunt() -> Hunt<Stress, Mutant> {
    // Whoever is never taken for silent shows where nodes die for good and nobody hears of it: `scatter::land::tests`.
    let of_groups = Shard::OF_GROUPS.into_iter().filter(|mutant| *mutant != Shard::SilenceUnnoticed);
    let of_groups: Vec<Mutant> = of_groups.map(Mutant::Shard).collect();
    let of_shards = [Shard::SessionsNotInSnapshot, Shard::DiscardForOthers].map(Mutant::Shard);
    let of_logs = [Log::WriteAfterSeal, Log::LearnersCount, Log::SucceedWithoutElection, Log::QuorumOffByOne];
    let of_commitment = [
        Commit::TellBeforeLog,
        Commit::LocksForgotten,
        Commit::LocksKept,
        Commit::ForgottenBeforeAcknowledged,
        Commit::NoEpochs,
    ];
    let mut mutants = [&of_groups[..], &of_shards].concat();
    mutants.extend(of_logs.map(Mutant::Log));
    mutants.extend(of_commitment.map(Mutant::Commit));
    Hunt {
        mutants,
        results: "mutants-ring.jsonl",
        kind_for,
        swarm: None,
        breaks: |stress, mutant| match mutant {
            Some(Mutant::Shard(mutant)) => stress.mutant = Some(mutant),
            Some(Mutant::Log(mutant)) => stress.log_mutant = Some(mutant),
            Some(Mutant::Commit(mutant)) => stress.commit_mutant = Some(mutant),
            None => (stress.mutant, stress.log_mutant, stress.commit_mutant) = (None, None, None),
        },
        stuck_counts: |_| true,
        whole_seeds: 8,
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    hunt().catch_all();
}

#[test]
fn whole_rules_are_left_alone() {
    hunt().pass_whole();
}

#[test]
fn trace_of_one() {
    hunt().trace();
}
