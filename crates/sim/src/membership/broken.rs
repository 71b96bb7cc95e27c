//! Kinds of runs in which a broken rule shows soon.

use std::time::Duration;

use quorate_membership::{Config, Mutant};

use super::profile::{Kind, calm, ms, swarm};
use crate::{Fault, FaultSet, Latency};

/// Watermarks so close that nodes often propose different cuts, and coordinators that do not wait.
fn quarrelsome() -> Config {
    Config {
        low: 8,
        high: 9,
        probe_interval: ms(30),
        probe_timeout: ms(30),
        probe_failures: 3,
        batch_quiet: ms(1),
        batch_age_max: ms(2),
        reinforce: ms(500),
        alert_epoch: ms(3_000),
        fallback: ms(20),
        fallback_spread: ms(2),
        resend: ms(100),
        join_timeout: ms(300),
        ..Config::production()
    }
}

/// Five founders that come and go and disagree.
fn conflicts(name: &'static str, faults: &[Fault]) -> Kind {
    let mut kind = swarm();
    kind.profile.name = name;
    kind.profile.nodes = (5, 7);
    kind.profile.safety = (ms(5_000), ms(15_000));
    kind.profile.faults = FaultSet::of(faults);
    kind.stress.founders = Some(5);
    kind.stress.encore_max = 0;
    kind.stress.config = Some(quarrelsome());
    kind.stress.operator = Some(ms(400));
    kind.stress.loses = 100;
    kind
}

/// The kind of run that a broken rule shows in soonest.
pub fn kind_for(mutant: Mutant) -> Kind {
    match mutant {
        Mutant::RankNotUnique | Mutant::ClassicPicksFreely | Mutant::ClassicQuorumOffByOne => {
            conflicts("conflicts", &[Fault::Pause, Fault::Partial, Fault::Halves])
        }
        Mutant::FastVoteAfterPromise => {
            let mut kind = conflicts("slow-votes", &[Fault::Pause, Fault::Partial, Fault::Halves]);
            kind.settled.latency = Some(Latency::Uniform(ms(1), ms(30)));
            kind.settled.loss_ppm = Some(0);
            kind
        }
        Mutant::SkipView => {
            let mut kind = conflicts("far-behind", &[Fault::Pause, Fault::Halves, Fault::OneWay]);
            let plain = Config { low: 3, fallback: ms(100), fallback_spread: ms(10), ..quarrelsome() };
            kind.stress.config = Some(plain);
            kind.stress.operator = Some(ms(200));
            kind.stress.loses = 0;
            kind
        }
        Mutant::PromiseNotDeduplicated => {
            // With three founders two promises are a quorum, and every message comes twice.
            let mut kind = conflicts("doubles", &[Fault::Pause, Fault::Partial, Fault::Halves]);
            kind.profile.nodes = (4, 5);
            kind.stress.founders = Some(3);
            kind.stress.operator = Some(ms(200));
            kind.settled.latency = Some(Latency::Uniform(ms(1), ms(10)));
            kind.settled.duplicate_ppm = Some(1_000_000);
            kind
        }
        Mutant::ForgetAcceptor | Mutant::VoteEarly => {
            let mut kind = conflicts("amnesia", &[Fault::Pause]);
            kind.profile.nodes = (4, 5);
            kind.profile.safety = (ms(10_000), ms(20_000));
            kind.stress.founders = Some(3);
            kind.stress.voters_die = 100;
            kind.stress.operator = Some(ms(200));
            kind.settled.sync = Some(Latency::Uniform(ms(1), ms(20)));
            kind
        }
        Mutant::DetectorCumulative => {
            let mut kind = calm("rare-losses");
            kind.settled.loss_ppm = Some(20_000);
            kind
        }
        Mutant::WatermarksIgnored => {
            let mut kind = calm("broken-link");
            kind.stress.broken_link = true;
            kind
        }
        Mutant::NoImplicitAlerts => {
            let mut kind = calm("two-at-once");
            kind.profile.safety = (ms(1_000), ms(2_000));
            kind.stress.stable = false;
            kind.stress.encore_max = 3;
            let patient = Duration::from_secs(60);
            kind.stress.config =
                Some(Config { reinforce: patient, alert_epoch: patient, ..Config::production() });
            kind.stress.prompt = Some(Duration::from_secs(10));
            kind
        }
        _ => swarm(),
    }
}
