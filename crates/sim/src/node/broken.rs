//! Kinds of runs in which a broken rule shows soon.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_shard::Mutant;
use quorate_workload::Kind as Course;

use super::profile::{Kind, bundles, swarm};
use super::stress::{Play, Stress};
use crate::{Fault, FaultSet, Latency, Order, Profile, Settled};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The kind of run that a broken rule shows in soonest.
pub fn kind_for(mutant: Mutant) -> Kind {
    let mut kind = stress_for(mutant);
    // No rule needs sites to show, and what is not drawn moves no seed that is remembered.
    kind.profile.sites_max = 1;
    kind
}

fn stress_for(mutant: Mutant) -> Kind {
    match mutant {
        Mutant::ExpiryByLocalClock => handovers(),
        Mutant::VersionsRestart | Mutant::ApplyByLocalClock | Mutant::ExpiryRowLeft | Mutant::FrontsStay => {
            plain("node-keys", Play::Keys)
        }
        Mutant::ReadsPassTransactions
        | Mutant::BatchesPassLocks
        | Mutant::BatchesPassOutcomes
        | Mutant::OutcomesUnseen
        | Mutant::LooksTooEarly => {
            transactions("node-transactions", Play::Workload(Course::AppendTransaction))
        }
        Mutant::CopiesReadAtOnce => at_copies("node-copies", Play::Workload(Course::Register)),
        Mutant::ErrandsJoin => errands(),
        Mutant::CopiesPassTransactions => {
            at_copies("node-copies-apart", Play::Workload(Course::AppendTransaction))
        }
        Mutant::CollectsOnce | Mutant::CollectsApart => {
            transactions("node-sums", Play::Workload(Course::Bank))
        }
        Mutant::SeveralReadApart => popular(),
        Mutant::MeetsElsewhere | Mutant::AllForgotten => Kind {
            profile: Profile { name: "node-meetings", floors: Vec::new(), ..bundles().profile },
            ..bundles()
        },
        Mutant::ExpiryPassesTransactions
        | Mutant::CommandsSeeLoans
        | Mutant::TimeStaysBehind
        | Mutant::TimePassesVotes
        | Mutant::TimePassesKeptVotes
        | Mutant::ScanEndsEarly => transactions("node-keys-apart", Play::Keys),
        Mutant::LoansUnlocked | Mutant::StaleExport => transactions("node-pebbles", Play::Pebbles),
        Mutant::RunsOtherwise => transactions("node-several", Play::Pipelines),
        Mutant::VersionKept | Mutant::WatchIgnored | Mutant::ReasonsMadeUp => {
            plain("node-swaps", Play::Workload(Course::Swap))
        }
        Mutant::NamesRepeat => short_lives(),
        Mutant::ReadBeforeApplied => backlogs(),
        Mutant::SessionsForgottenByStep => crowds(),
        _ => plain("node-pipelines", Play::Pipelines),
    }
}

fn plain(name: &'static str, play: Play) -> Kind {
    let mut kind = swarm();
    kind.profile.name = name;
    kind.profile.floors.clear();
    kind.stress.play = Some(play);
    kind.stress.near = Some(0);
    kind
}

/// All clients read at the copies of the nodes they are connected to.
fn at_copies(name: &'static str, play: Play) -> Kind {
    let mut kind = transactions(name, play);
    kind.stress.near = Some(100);
    kind
}

fn transactions(name: &'static str, play: Play) -> Kind {
    let mut kind = plain(name, play);
    kind.stress.buckets = NonZeroU16::new(3);
    kind
}

/// A copy must be asked while it asks for others, and what it does not see must be acknowledged in between.
fn errands() -> Kind {
    let mut kind = plain("node-errands", Play::Workload(Course::Register));
    kind.profile.nodes = (5, 6);
    kind.profile.clients = (6, 9);
    kind.profile.safety = (ms(3_000), ms(3_000));
    kind.profile.faults = FaultSet::NONE;
    let latency = Some(Latency::Uniform(ms(1), ms(10)));
    kind.settled = Settled { latency, ..Settled::default() };
    let limits = quorate_node::Limits {
        read_slack: Duration::ZERO,
        large_from: 0,
        ..quorate_node::Limits::production()
    };
    kind.stress = Stress {
        aimed: 0,
        busy: Some((4, 30)),
        buckets: NonZeroU16::new(4),
        placed: true,
        limits: Some(limits),
        operator: Some(Duration::ZERO),
        ..kind.stress
    };
    kind
}

/// A read of two keys of a bucket must wait while another bucket, led by another node, decides on two transactions in the other order, and what came
/// of the first must be told late. In one of some hundred runs it is.
fn popular() -> Kind {
    let mut kind = plain("node-popular", Play::Workload(Course::AppendTransaction));
    kind.profile.nodes = (2, 3);
    kind.profile.clients = (6, 9);
    kind.profile.safety = (ms(3_000), ms(3_000));
    kind.profile.faults = FaultSet::NONE;
    kind.settled = Settled {
        latency: Some(Latency::Uniform(ms(1), ms(30))),
        order: Some(Order::Free),
        loss_ppm: Some(150_000),
        ..Settled::default()
    };
    let mut limits = quorate_node::Limits::production();
    // Transactions that went together would be decided together.
    limits.shard.commit.members_max = 1;
    limits.shard.commit.bundles_max = 64;
    kind.stress = Stress {
        aimed: 0,
        busy: Some((4, 70)),
        buckets: NonZeroU16::new(2),
        placed: true,
        limits: Some(limits),
        operator: Some(Duration::ZERO),
        ..kind.stress
    };
    kind
}

/// Another leader, with another clock or another state, must answer soon after.
fn handovers() -> Kind {
    let mut kind = plain("node-handovers", Play::Keys);
    kind.stress.operator = Some(ms(100));
    kind.stress.transfers = Some(95);
    kind
}

/// A node must come back, and ask, before the answers to what it asked in its last life do, over a network that loses
/// nothing with a connection. Lives must be short for names to be the same.
fn short_lives() -> Kind {
    let mut kind = plain("node-short-lives", Play::Pipelines);
    kind.profile.nodes = (3, 4);
    kind.profile.clients = (4, 5);
    kind.profile.safety = (ms(2_000), ms(4_000));
    kind.profile.faults = FaultSet::NONE;
    kind.settled = Settled {
        latency: Some(Latency::Uniform(ms(1), ms(20))),
        order: Some(Order::Free),
        duplicate_ppm: Some(200_000),
        ..Settled::default()
    };
    kind.stress = Stress {
        aimed: 0,
        short_lives: 100,
        members: Some(3),
        buckets: Some(NonZeroU16::MIN),
        operator: Some(Duration::ZERO),
        ..kind.stress
    };
    kind
}

/// Many entries must wait to be applied while a read is allowed.
fn backlogs() -> Kind {
    let mut kind = plain("node-backlogs", Play::Pipelines);
    kind.profile.nodes = (3, 5);
    kind.profile.faults = FaultSet::of(&[Fault::Crash, Fault::CrashAll, Fault::Pause, Fault::Halves]);
    let shard = quorate_shard::Limits { apply_entries_max: 1, ..quorate_shard::Limits::production() };
    let limits = quorate_node::Limits::production();
    let limits =
        quorate_node::Limits { shard, deadline: Duration::from_secs(1), batch_bytes_max: 50, ..limits };
    kind.stress = Stress { aimed: 100, members: Some(3), limits: Some(limits), ..kind.stress };
    kind
}

/// More nodes must have sessions than a log remembers, and some must apply many entries in one step.
fn crowds() -> Kind {
    let mut kind = plain("node-crowds", Play::Pipelines);
    kind.profile.nodes = (4, 5);
    kind.profile.faults = FaultSet::of(&[Fault::Crash, Fault::Pause, Fault::Halves]);
    let shard = quorate_shard::Limits {
        sessions_max: 3,
        unused_entries_min: 8,
        ..quorate_shard::Limits::production()
    };
    let limits = quorate_node::Limits { shard, batch_bytes_max: 50, ..quorate_node::Limits::production() };
    kind.stress = Stress { aimed: 100, members: Some(3), limits: Some(limits), ..kind.stress };
    kind
}
