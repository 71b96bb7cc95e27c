//! What is drawn for a run and what it lays stress on.

use std::num::NonZeroU16;
use std::time::Duration;

use quorate_kernel::Rng;
use quorate_node::{Limits, Placing, Preset, Storage, Topology};
use quorate_replog::Config;
use quorate_workload::Kind;

use super::cluster::Cluster;
use crate::membership::draw_config as draw_membership;
use crate::{Plan, Report, Stressed};

/// What a kind of run lays stress on; everything else is drawn.
#[derive(Debug, Clone, Default)]
pub struct Stress {
    /// Chance in a thousand that a node that just answered a write crashes, freezes or is cut off.
    pub aimed: u64,
    /// Chance in a thousand that a node that a pipeline just asked dies before it can answer, and is back at once.
    pub short_lives: u64,
    /// Whether what is asked beside all else is about keys that soon expire.
    pub brief: bool,
    /// What clients do; drawn if not given.
    pub play: Option<Play>,
    /// How many keys a workload uses, and the percentage of reads; drawn if not given.
    pub busy: Option<(u64, u64)>,
    /// How many nodes are members at first; drawn if not given.
    pub members: Option<usize>,
    /// Into how many buckets keys are cut; drawn if not given.
    pub buckets: Option<NonZeroU16>,
    /// Whether buckets are placed on nodes that come and go.
    pub placed: bool,
    /// Who decides which nodes hold which.
    pub topology: Topology,
    /// Replaces the drawn queues and deadlines.
    pub limits: Option<Limits>,
    /// Replaces the drawn settings of the log.
    pub log: Option<Config>,
    /// Longest time between two acts of the operator; drawn if not given, none if zero.
    pub operator: Option<Duration>,
    /// Of a hundred connections, so many have their reads answered by the copies of the nodes that they lead to; drawn if not given.
    pub near: Option<u64>,
    /// Percentage of handovers among the operator's acts; drawn if not given.
    pub transfers: Option<u64>,
    /// A broken rule.
    #[cfg(feature = "mutants")]
    pub mutant: Option<quorate_shard::Mutant>,
    /// A broken rule of the logs.
    #[cfg(feature = "mutants")]
    pub log_mutant: Option<quorate_replog::Mutant>,
    /// A broken rule of transactions.
    #[cfg(feature = "mutants")]
    pub commit_mutant: Option<quorate_commit::Mutant>,
}

impl Stressed for Stress {
    fn run(&self, plan: &Plan) -> Report {
        crate::run(plan, |plan| Cluster::new(plan, self))
    }
}

/// What clients do besides keeping pipelines full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Play {
    /// Nothing.
    Pipelines,
    /// A workload whose history is judged.
    Workload(Kind),
    /// Keys that expire, move and are removed.
    Keys,
    /// Values that all clients move from key to key.
    Pebbles,
}

/// How many connections read at copies. Not from the draws of the run, so that the same seed means the same faults as ever.
pub(super) fn draw_near(plan: &Plan) -> u64 {
    [0, 0, 50, 100][Rng::new(plan.seed).below(4) as usize]
}

pub(super) fn draw_log(rng: &mut Rng, plan: &Plan) -> Config {
    let ms = |ms| Duration::from_millis(ms);
    let mut config = if rng.chance(7, 8) { Config::tiny() } else { Config::production() };
    config.heartbeat = ms(rng.between(5, 40));
    config.election = config.heartbeat * rng.between(3, 8) as u32;
    config.lease = match rng.below(3) {
        0 => Duration::ZERO,
        1 => config.election,
        _ => config.election * rng.between(1, 9) as u32 / 10,
    };
    config.clock_error_ppm = plan.world.clock.rate_error_ppm_max;
    config.change_deadline = ms(rng.between(100, 5_000));
    config.learner_lag_max = rng.between(0, 10);
    config.append_bytes_max = rng.between(100, 2_000) as usize;
    config.inflight_bytes_max = config.append_bytes_max * rng.between(1, 6) as usize;
    config.log_bytes_max = rng.between(300, 8_000) as usize;
    config.checkpoint_bytes = rng.between(300, 8_000) as usize;
    config.snapshot_part_bytes = rng.between(50, 2_000) as usize;
    // Not at the cost of the runs that other draws follow.
    config.spare = ms(rng.clone().below(20));
    config
}

/// How buckets are placed in a run, and how many copies they have.
pub(super) fn draw_placing(rng: &mut Rng) -> (u8, Placing) {
    let mut placing = Placing::production();
    placing.membership = quorate_membership::Config { needs_state: false, ..draw_membership(rng) };
    placing.repair_after = Some(Duration::from_millis(rng.between(0, 3_000)));
    let copies = rng.between(1, 4) as u8;
    // Not at the cost of the runs that other draws follow.
    let presets = [None, Some(Preset::Steady), Some(Preset::Wide), Some(Preset::Restless)];
    placing.preset = rng.clone().pick(&presets).copied().flatten();
    (copies, placing)
}

pub(super) fn draw_limits(rng: &mut Rng) -> Limits {
    let base = if rng.chance(3, 4) { Limits::tiny() } else { Limits::production() };
    let tiny = base.requests_max < Limits::production().requests_max;
    Limits {
        deadline: Duration::from_millis(rng.between(100, 3_000)),
        retry: Duration::from_millis(rng.between(10, 300)),
        // Not at the cost of the runs that other draws follow. With none, copies are asked as soon as leaders are busy for a moment.
        read_slack: if rng.clone().chance(1, 2) { Duration::ZERO } else { base.read_slack },
        storage: if rng.clone().below(5) == 0 { Storage::Memory } else { Storage::Disk },
        large_from: if rng.clone().below(3) == 0 { base.large_from } else { 0 },
        requests_max: if tiny { rng.between(20, 100) as usize } else { base.requests_max },
        shard: quorate_shard::Limits {
            apply_entries_max: if rng.chance(1, 2) { rng.between(1, 4) as usize } else { 64 },
            ..base.shard
        },
        ..base
    }
}
