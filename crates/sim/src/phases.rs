//! The two phases of a run: safety under faults, then, all faults being over, liveness within a bound.

use std::time::Duration;

use crate::harness::Harness;
use crate::plan::Plan;
use crate::run::Failure;
use crate::world::World;

/// How often convergence is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl<H: Harness> World<H> {
    /// Plays both phases of `plan`; what went wrong is in [`World::failure`].
    pub fn play(&mut self, plan: &Plan) {
        if !plan.world.network.distance.is_empty() {
            self.marks.hit("sim.sites");
        }
        self.let_loose(plan.nemesis.clone());
        self.run_until(plan.safety);
        if self.failure.is_none() {
            self.heal();
            self.agenda.set_now(self.now);
            self.harness.healed(&self.nodes, &mut self.agenda);
            self.take_agenda();
            self.converge(plan.liveness_max);
        }
        if self.failure.is_none() {
            let verdict = self.harness.finish(&self.nodes, &mut self.marks);
            self.judge(verdict);
        }
    }

    /// Waits until the harness says that the world has converged.
    pub fn converge(&mut self, most: Duration) {
        let end = self.now() + most;
        loop {
            let next = self.now() + LOOK_EVERY;
            self.run_until(next);
            if self.failure.is_some() {
                return;
            }
            match self.harness.converged(&self.nodes) {
                Ok(()) => return,
                Err(why) if self.now() >= end => {
                    self.trace.line(self.now, format_args!("STUCK: {why}"));
                    self.failure =
                        Some(Failure::Liveness(format!("{} ms after healing: {why}", most.as_millis())));
                    return;
                }
                Err(_) => {}
            }
        }
    }
}
