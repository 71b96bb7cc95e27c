//! Kinds of runs: what seeds draw from, what the harness lays stress on, and what is settled instead of drawn.

use std::ops::Range;

use crate::{Batch, Latency, Order, Overrides, Plan, Profile, Report, Summary, run::run_plans};

/// What the harness of a run lays stress on: enough to run a plan.
pub trait Stressed {
    /// Runs one plan, with the harness that it means.
    fn run(&self, plan: &Plan) -> Report;
}

/// Of networks and disks, what replaces the draws of all seeds.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// How long messages take.
    pub latency: Option<Latency>,
    /// In which order they arrive.
    pub order: Option<Order>,
    /// How many in a million are lost.
    pub loss_ppm: Option<u64>,
    /// How many in a million arrive twice.
    pub duplicate_ppm: Option<u64>,
    /// How long syncs take, beside which a node goes on with its work.
    pub sync: Option<Latency>,
}

impl Settled {
    fn apply(&self, plan: &mut Plan) {
        let (network, disk) = (&mut plan.world.network, &mut plan.world.disk);
        network.latency = self.latency.unwrap_or(network.latency);
        network.order = self.order.unwrap_or(network.order);
        network.loss_ppm = self.loss_ppm.unwrap_or(network.loss_ppm);
        network.duplicate_ppm = self.duplicate_ppm.unwrap_or(network.duplicate_ppm);
        disk.blocking &= self.sync.is_none();
        disk.sync = self.sync.unwrap_or(disk.sync);
    }
}

/// A kind of run.
#[derive(Debug, Clone)]
pub struct Kind<S> {
    /// What seeds draw from.
    pub profile: Profile,
    /// What the harness lays stress on.
    pub stress: S,
    /// What is not drawn.
    pub settled: Settled,
}

impl<S: Stressed> Kind<S> {
    /// The run that `seed` means.
    pub fn plan(&self, seed: u64, overrides: &Overrides) -> Plan {
        let mut plan = Plan::draw(&self.profile, seed, overrides);
        self.settled.apply(&mut plan);
        plan
    }

    /// Runs one seed.
    pub fn run(&self, plan: &Plan) -> Report {
        self.stress.run(plan)
    }
}

impl<S: Stressed + Sync> Kind<S> {
    /// Runs many seeds, each twice if so wanted, until `failures_max` have failed.
    pub fn run_many(&self, seeds: Range<u64>, twice: bool, failures_max: usize) -> Summary {
        let batch = Batch { twice, failures_max, ..Batch::of(seeds) };
        let plan = |seed| self.plan(seed, &batch.overrides);
        run_plans(&batch, &plan, &|plan| self.stress.run(plan), &|_| ())
    }
}
