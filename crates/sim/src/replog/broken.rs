//! Kinds of runs in which a broken rule shows soon.

use std::time::Duration;

use quorate_replog::{Config, Mutant};

use super::profile::{Kind, ms, swarm};
use super::snare::{Bait, Snare, Trap};
use crate::{Fault, FaultSet, Latency};

/// Three members, nothing but what is named: most mutants need few nodes and one kind of fault, often.
fn small(name: &'static str, faults: &[Fault], snares: &[(Bait, Trap, u64, u64)]) -> Kind {
    let mut kind = swarm();
    kind.profile.name = name;
    kind.profile.nodes = (3, 3);
    kind.profile.clients = (3, 4);
    kind.profile.safety = (ms(3_000), ms(6_000));
    kind.profile.faults = FaultSet::of(faults);
    kind.profile.sites_max = 1;
    kind.stress.members = Some(3);
    kind.stress.operator = Some(Duration::ZERO);
    kind.stress.patience = Some(ms(60));
    kind.stress.snares = snares
        .iter()
        .map(|(bait, trap, chance, span)| Snare {
            bait: *bait,
            trap: *trap,
            chance: *chance,
            span: ms(*span),
        })
        .collect();
    kind
}

/// Leases as long as they may be, so that there is time between the end of one and the end of what is believed.
fn long_leases() -> Config {
    let election = ms(300);
    Config { heartbeat: ms(10), election, lease: election, ..Config::tiny() }
}

fn without_leases() -> Config {
    Config { heartbeat: ms(10), election: ms(60), lease: Duration::ZERO, ..Config::tiny() }
}

/// The kind of run that a broken rule shows in soonest.
pub fn kind_for(mutant: Mutant) -> Kind {
    let mut kind = faults_for(mutant);
    set_for(mutant, &mut kind);
    kind
}

/// The nodes and the faults.
fn faults_for(mutant: Mutant) -> Kind {
    match mutant {
        Mutant::PromiseEarly | Mutant::AcceptAfterPromise => small(
            "promise-early",
            &[],
            &[(Bait::Promise, Trap::Amnesia, 500, 150), (Bait::Entries, Trap::Isolate, 10, 40)],
        ),
        Mutant::ChooseBeforeTakeover | Mutant::ClaimBallotEarly => small(
            "takeover",
            &[Fault::Crash],
            &[
                (Bait::FirstWords, Trap::Isolate, 250, 400),
                (Bait::OldEntries, Trap::Lose, 500, 0),
                (Bait::Entries, Trap::Isolate, 10, 400),
            ],
        ),
        Mutant::TailForgotten => {
            let mut kind = small("tails", &[Fault::Crash], &[(Bait::Entries, Trap::Crash, 20, 100)]);
            kind.profile.nodes = (1, 1);
            kind.stress.members = Some(1);
            kind
        }
        Mutant::AcceptEarly => small("accept-early", &[], &[(Bait::Accepted, Trap::Amnesia, 5, 400)]),
        Mutant::LeaseWithoutMargin | Mutant::LeaseAfterHandover => small(
            "leases",
            &[Fault::Drift],
            &[(Bait::Handover, Trap::Isolate, 500, 400), (Bait::Entries, Trap::Isolate, 5, 600)],
        ),
        Mutant::LeaseAcrossSeal => {
            // Whoever handed over is cut off from all others, but not from clients.
            let mut kind = small("leases-across-seals", &[], &[(Bait::Handover, Trap::Isolate, 500, 400)]);
            kind.profile.nodes = (5, 7);
            kind.stress.operator = Some(ms(200));
            kind.stress.transfers = Some(0);
            kind
        }
        Mutant::LeaseFromReceipt => {
            small("pauses", &[Fault::Pause], &[(Bait::Entries, Trap::Pause, 5, 1_500)])
        }
        Mutant::VoteRightAfterRestart => small("restarts", &[], &[(Bait::Beat, Trap::Unbind(400), 20, 600)]),
        Mutant::ReadRoundStale => {
            small("read-rounds", &[Fault::Halves], &[(Bait::Entries, Trap::Isolate, 5, 500)])
        }
        Mutant::WriteAfterSeal => {
            let mut kind = small(
                "behind-seals",
                &[],
                &[(Bait::FirstWords, Trap::Crash, 500, 1_000), (Bait::Entries, Trap::Lose, 150, 0)],
            );
            kind.profile.nodes = (6, 7);
            kind.stress.operator = Some(ms(200));
            kind.stress.transfers = Some(0);
            kind.stress.reads = Some(0);
            kind.stress.config = Some(Config { learner_lag_max: 10, ..without_leases() });
            kind.settled.latency = Some(Latency::Uniform(ms(1), ms(8)));
            kind.settled.duplicate_ppm = Some(0);
            kind
        }
        Mutant::SealBeforeChosen => {
            let mut kind = small("seals", &[Fault::Halves], &[(Bait::Seal, Trap::Split, 300, 1_000)]);
            kind.profile.nodes = (5, 7);
            kind.stress.operator = Some(ms(300));
            kind.stress.transfers = Some(0);
            kind
        }
        Mutant::FormerLetGoEarly => former_members(),
        _ => swarm(),
    }
}

/// Whoever lets former members go dies before the others have what it has, and its disk is lost.
fn former_members() -> Kind {
    let mut kind = small(
        "former-members",
        &[],
        &[(Bait::Seal, Trap::Lose, 500, 0), (Bait::Retire, Trap::Ruin, 300, 100)],
    );
    kind.profile.nodes = (5, 7);
    kind.profile.liveness_max = Duration::from_secs(60);
    kind.stress.operator = Some(ms(200));
    kind.stress.transfers = Some(0);
    kind.stress.config = Some(Config { learner_lag_max: 10, ..without_leases() });
    kind.settled.latency = Some(Latency::Uniform(ms(5), ms(20)));
    kind
}

/// Settings, requests, disks and networks.
fn set_for(mutant: Mutant, kind: &mut Kind) {
    let slow_sync = Some(Latency::Uniform(ms(1), ms(40)));
    match mutant {
        Mutant::PromiseEarly | Mutant::AcceptAfterPromise => {
            kind.stress.config = Some(Config { heartbeat: ms(20), election: ms(200), ..without_leases() });
            kind.stress.reads = Some(20);
            kind.settled.sync = slow_sync;
        }
        Mutant::ChooseBeforeTakeover | Mutant::ClaimBallotEarly => {
            kind.profile.nodes = (5, 5);
            kind.stress.members = Some(5);
            kind.stress.config = Some(without_leases());
            kind.stress.padding = Some(200);
        }
        Mutant::TailForgotten => kind.settled.sync = slow_sync,
        Mutant::AcceptEarly => {
            kind.stress.config = Some(without_leases());
            kind.settled.sync = slow_sync;
        }
        Mutant::ReadRoundStale => kind.stress.config = Some(without_leases()),
        Mutant::LeaseWithoutMargin | Mutant::LeaseFromReceipt | Mutant::VoteRightAfterRestart => {
            kind.stress.config = Some(long_leases());
            kind.stress.aimed = 10;
            kind.stress.reads = Some(if mutant == Mutant::VoteRightAfterRestart { 97 } else { 50 });
        }
        Mutant::LeaseAcrossSeal => {
            kind.stress.config = Some(Config { learner_lag_max: 10, ..long_leases() });
            kind.stress.reads = Some(60);
        }
        Mutant::LeaseAfterHandover => {
            kind.stress.config = Some(long_leases());
            kind.stress.operator = Some(ms(200));
            kind.stress.transfers = Some(100);
            kind.stress.reads = Some(50);
        }
        _ => {}
    }
}
