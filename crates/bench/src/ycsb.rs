//! YCSB on a cluster.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quorate_api::Reply;
use quorate_kernel::Rng;
use quorate_workload::ycsb::{Frontier, Group, KINDS, Ycsb, YcsbSpec, YcsbTransaction};
use serde_json::json;

use crate::client::Client;
use crate::load::{LoadError, LoadOptions, check, describe, play, resolve};
use crate::loading::{self, LoadReport};
use crate::progress::Progress;
use crate::tally::{Tally, TransactionReport};
use crate::transact::{Manner, Source, Transact};

struct Clients {
    ycsb: Ycsb,
    frontier: Arc<Mutex<Frontier>>,
    missing: Arc<AtomicU64>,
}

impl Source for Clients {
    type Transaction = YcsbTransaction;

    fn next(&mut self, _client: usize) -> Option<YcsbTransaction> {
        let mut frontier = self.frontier.lock().unwrap_or_else(PoisonError::into_inner);
        Some(self.ycsb.next(&mut frontier))
    }

    fn ended(&mut self, transaction: YcsbTransaction, _is_done: bool) {
        if transaction.missing() > 0 {
            self.missing.fetch_add(transaction.missing(), Ordering::Relaxed);
        }
        let mut inserts = transaction.inserts().peekable();
        if inserts.peek().is_some() {
            let mut frontier = self.frontier.lock().unwrap_or_else(PoisonError::into_inner);
            inserts.for_each(|number| frontier.settle(number));
        }
    }
}

fn ready(options: &LoadOptions, spec: &YcsbSpec) -> Result<(), LoadError> {
    spec.validate().map_err(LoadError::Options)?;
    check(options)
}

/// Writes all records.
///
/// # Errors
/// If the cluster does not take them.
pub fn load_ycsb(
    options: &LoadOptions,
    spec: &YcsbSpec,
    progress: &Arc<Progress>,
) -> Result<LoadReport, LoadError> {
    ready(options, spec)?;
    loading::load(options, spec.load(options.seed), progress)
}

/// Runs the workload on records that were loaded.
///
/// # Errors
/// If they were not, or the options make no sense; failures of servers are no errors but counted.
pub fn run_ycsb(
    options: &LoadOptions,
    spec: &YcsbSpec,
    progress: &Arc<Progress>,
) -> Result<TransactionReport, LoadError> {
    ready(options, spec)?;
    let addresses = resolve(&options.addresses)?;
    let mut client = Client::connect(&options.addresses, options.timeout)?;
    for number in [0, spec.records - 1] {
        let reply = client.call(&[b"STRLEN".as_slice(), &spec.key(number)])?;
        if reply != Reply::Int(spec.record_bytes() as i64) {
            let text = format!(
                "there are no {} records of {} bytes: load them first, with the same numbers",
                spec.records,
                spec.record_bytes()
            );
            return Err(LoadError::Options(text));
        }
    }
    let mut rng = Rng::new(options.seed);
    let ycsb = Ycsb::new(spec.clone(), Rng::new(0)).map_err(LoadError::Options)?;
    let frontier = Arc::new(Mutex::new(Frontier::new(spec.records)));
    let missing = Arc::new(AtomicU64::new(0));
    let manner = Manner { watch: spec.group == Group::Optimistic, multi: spec.group != Group::None };
    let description = describe(options, json!({ "ycsb": spec }));
    let (report, players) = play(options, &addresses, description, progress, |_, clients, _| {
        let source = Clients {
            ycsb: ycsb.with(rng.fork()),
            frontier: Arc::clone(&frontier),
            missing: Arc::clone(&missing),
        };
        Transact::new(source, clients, manner, &KINDS, Arc::clone(progress))
    })?;
    let mut tally = Tally::new(&KINDS);
    players.iter().for_each(|player| tally.merge(&player.tally));
    let report = tally.report(report);
    Ok(TransactionReport { missing: Some(missing.load(Ordering::Relaxed)), ..report })
}
