//! Kinds of runs in which a broken rule shows soon.

use std::time::Duration;

use quorate_commit::Mutant;

use super::profile::{Kind, bundles, swarm};
use crate::{Fault, FaultSet, Latency, Order, Settled};

/// The kind of run that a broken rule shows in soonest.
pub fn kind_for(mutant: Mutant) -> Kind {
    match mutant {
        Mutant::NoCoordinatorView | Mutant::NoParticipantView => grants(),
        Mutant::MembersForgotten | Mutant::BundleNamedByMember => bundles(),
        _ => swarm(),
    }
}

/// Many reverts, on a network on which messages from before a crash arrive long after it.
fn grants() -> Kind {
    let mut kind = swarm();
    let ms = |ms| Duration::from_millis(ms);
    kind.profile.name = "commit-grants";
    kind.profile.nodes = (3, 4);
    kind.profile.clients = (4, 6);
    kind.profile.safety = (ms(2_000), ms(4_000));
    kind.profile.faults = FaultSet::of(&[Fault::Crash]);
    kind.profile.floors.clear();
    kind.settled = Settled {
        latency: Some(Latency::Uniform(ms(1), ms(60))),
        order: Some(Order::Free),
        duplicate_ppm: Some(200_000),
        ..Settled::default()
    };
    kind.stress.aimed = 300;
    kind.stress.grants = true;
    kind.stress.versioned = Some(0);
    kind.stress.removals = Some(0);
    kind.stress.reads = Some(10);
    kind.stress.keys = Some(1);
    kind.stress.deaths = Some(0);
    kind
}
