//! Deterministic worlds: any [`quorate_kernel::Machine`] on simulated networks, disks and clocks, under drawn faults.
//!
//! This crate is not linked by any protocol, and apart from the harnesses that judge one protocol each it knows none. A [`Harness`] says how to build the machines, plays their
//! clients and judges what they do; a [`World`] runs them; [`run`], [`run_twice`], [`run_many`] and [`shrink`] turn
//! seeds into verdicts. Everything follows from the seed: the same seed gives the same run, to the letter.
//!
//! | file | what |
//! |---|---|
//! | `world.rs`, `queue.rs` | what happens when |
//! | `step.rs`, `process.rs` | how a node takes an event; the durability gate; timers |
//! | `life.rs`, `faults.rs` | crashes, pauses, partitions; the nemesis |
//! | `network.rs`, `disk.rs`, `clock.rs`, `latency.rs` | models of what is around a node |
//! | `plan.rs`, `phases.rs`, `run.rs`, `shrink.rs` | what a seed means, and what comes of it |
//! | `trace.rs`, `coverage.rs` | what happened |
//! | `commit/` | worlds of transactions over several logs |
//! | `replog/` | worlds of replicated logs |
//! | `membership/` | worlds of memberships |
//! | `node/` | worlds of whole nodes |
//! | `transcript.rs` | tests written as dialogues, for protocol crates |
//!
//! # The shortest world
//! ```
//! use std::time::Duration;
//! use quorate_kernel::{Cx, Event, Machine, NodeId, Out, Position};
//! use quorate_sim::{Agenda, Boot, Harness, Plan, Profile, Seen, Verdict, World, WorldOptions};
//!
//! /// Keeps what it is given, and says so once it is on disk.
//! struct Keeper;
//! impl Machine for Keeper {
//!     type Msg = ();
//!     type Timer = ();
//!     type Record = u64;
//!     type Input = u64;
//!     type Output = u64;
//!     fn restore(&mut self, _: &mut Cx<'_>, _: Position, _: u64) {}
//!     fn step(&mut self, _: &mut Cx<'_>, event: Event<(), (), u64>, out: &mut Out<(), (), u64, u64>) {
//!         if let Event::Input(value) = event {
//!             out.persist(value);
//!             out.output(value);
//!         }
//!     }
//! }
//!
//! #[derive(Default)]
//! struct Keepers {
//!     said: Vec<u64>,
//! }
//! impl Harness for Keepers {
//!     type Machine = Keeper;
//!     fn machine(&mut self, _: NodeId, _: Boot) -> Keeper {
//!         Keeper
//!     }
//!     fn output(&mut self, _: Seen<'_, Keeper>, value: u64, _: &mut Agenda<u64>) -> Verdict {
//!         self.said.push(value);
//!         Ok(())
//!     }
//! }
//!
//! // By hand:
//! let mut world = World::new(WorldOptions::calm(1, 3), Keepers::default());
//! world.input(Duration::from_millis(5), NodeId(2), 7);
//! world.run_for(Duration::from_millis(20));
//! assert_eq!(world.harness().said, [7]);
//!
//! // Under faults, from a seed:
//! let plan = Plan::draw(&Profile::new("keeper"), 42, &Default::default());
//! let report = quorate_sim::run_twice(&plan, &|plan| quorate_sim::run(plan, |_| Keepers::default()));
//! assert_eq!(report.failure, None, "{}", report.explain("quorate sim keeper"));
//! ```
//!
//! # Glossary
//! - *place*: where a node runs; it keeps its place while its identity changes with its disk.
//! - *strike*: one fault that the nemesis lets loose.
//! - *healing*: the end of all faults, after which liveness is owed.

mod clock;
pub mod commit;
mod coverage;
mod disk;
mod faults;
mod harness;
mod kind;
mod latency;
mod life;
pub mod membership;
mod network;
pub mod node;
mod phases;
mod plan;
mod process;
mod queue;
pub mod replog;
mod row;
mod run;
mod service;
mod shrink;
mod step;
mod trace;
pub mod transcript;
mod world;

pub use clock::ClockOptions;
pub use coverage::Coverage;
pub use disk::DiskOptions;
pub use faults::{Fault, FaultOptions, FaultSet};
pub use harness::{
    Agenda, Boot, Harness, Input, Msg, Output, Record, Replacement, Seen, Simulated, Verdict, through_bytes,
};
pub use kind::{Kind, Settled, Stressed};
pub use latency::Latency;
pub use network::{NetworkOptions, Order};
pub use plan::{Overrides, Plan, Profile};
pub use process::{Life, Nodes};
pub use row::{Audience, Fact, Row};
pub use run::{Batch, Failure, Report, Runs, Summary, run, run_many, run_twice};
pub use service::Service;
pub use shrink::{Shrunk, shrink};
pub use trace::TraceLevel;
pub use world::{Counts, World, WorldOptions};
