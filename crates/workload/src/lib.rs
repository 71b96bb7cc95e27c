//! Workload generators shared by simulator, benchmark and process tests.
//!
//! A workload is pure: it makes requests from chance and turns answers into the records of a history. It sends nothing,
//! reads no clock and judges nothing; [`Workload::checks`] names what the history is to be judged for. Requests are words
//! as a Redis client sends them, so that the same workload drives real processes and, translated, the simulator.
//!
//! A driver runs [`Workload::setup`] once with one client, then for each client again and again
//!
//! 1. takes an operation from [`Workload::next`] and the time,
//! 2. sends [`Operation::request`] and hands the answer to [`Operation::answered`] until there is no request left,
//! 3. keeps [`Operation::record`] with both times;
//!
//! and in the end, when faults are healed, runs [`Workload::finish`] until each of its operations is acknowledged.
//!
//! Benchmarks that others have defined are not judged by histories. They are made of [`transaction`]s, of which a driver
//! needs to know no more than rounds of reads and a set of writes; what those mean is said by a [`model`].

mod distribution;
mod kinds;
pub mod model;
mod operation;
mod replies;
pub mod rounds;
mod spec;
pub mod tpcc;
pub mod transaction;
pub mod ycsb;

pub use distribution::{Chooser, Distribution};
pub use operation::{Meaning, Operation, Request, Surprise, Words};
pub use spec::{Kind, Spec, SpecError};

use quorate_api::history::Check;
use quorate_kernel::Rng;

/// One client: what makes its values unique, and its own chance.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its number in the history.
    pub id: u64,
    values: u64,
    rng: Rng,
}

impl Client {
    /// The client of this number.
    pub fn new(id: u64, rng: Rng) -> Self {
        Client { id, values: 0, rng }
    }

    /// A value that no other client and no other call gives.
    fn fresh(&mut self) -> String {
        self.values += 1;
        format!("{}.{}", self.id, self.values)
    }
}

/// A generator of requests.
#[derive(Debug, Clone)]
pub struct Workload {
    spec: Spec,
    chooser: Chooser,
}

impl Workload {
    /// The workload that `spec` describes.
    ///
    /// # Errors
    /// If a number in it makes no sense; the error says which and what to choose.
    pub fn new(spec: Spec) -> Result<Self, SpecError> {
        spec.validate()?;
        let chooser = Chooser::new(spec.keys, spec.distribution);
        Ok(Workload { spec, chooser })
    }

    /// What it was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What has to be done once, by one client, before anything else; an operation that fails may be repeated.
    pub fn setup(&self) -> Vec<Operation> {
        kinds::setup(&self.spec)
    }

    /// What `client` does next.
    pub fn next(&self, client: &mut Client) -> Operation {
        kinds::next(&self.spec, &self.chooser, client)
    }

    /// The last look at everything.
    pub fn finish(&self) -> Vec<Operation> {
        kinds::finish(&self.spec)
    }

    /// What the history is to be judged for.
    pub fn checks(&self) -> &'static [Check] {
        match self.spec.kind {
            Kind::Register | Kind::Swap => &[Check::Linear, Check::Session, Check::Durable],
            Kind::Counter | Kind::List => &[Check::Linear, Check::Durable],
            Kind::Append | Kind::AppendString => {
                &[Check::Linear, Check::Serial, Check::Session, Check::Durable]
            }
            Kind::AppendTransaction => &[Check::Serial, Check::Durable],
            Kind::Bank => &[Check::Bank],
            Kind::Cycle => &[Check::Cycle],
        }
    }
}
