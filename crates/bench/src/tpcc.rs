//! TPC-C on a cluster.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_api::{ErrorReply, Reply};
use quorate_kernel::Rng;
use quorate_workload::Words;
use quorate_workload::tpcc::{
    self, Census, KINDS, Loaded, META_KEY, Readout, Scale, Terminal, TpccTransaction, Violation,
};
use quorate_workload::transaction::{Read, Seen};
use serde::Serialize;
use serde_json::json;

use crate::client::Client;
use crate::clock;
use crate::load::{LoadError, LoadOptions, check, describe, play, resolve};
use crate::loading::{self, LoadReport};
use crate::progress::Progress;
use crate::tally::{Tally, TransactionReport};
use crate::transact::{Manner, Source, Transact};
use quorate_workload::rounds;

/// Strings of one MGET, and commands that are sent at once, while the database is read out.
const STRINGS_AT_ONCE: usize = 100;
const COMMANDS_AT_ONCE: usize = 32;

struct Terminals(Vec<Terminal>);

impl Source for Terminals {
    type Transaction = TpccTransaction;

    fn next(&mut self, client: usize) -> Option<TpccTransaction> {
        Some(self.0[client].next(unix_seconds()))
    }

    fn ended(&mut self, _transaction: TpccTransaction, _is_done: bool) {}
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Writes the database. What was loaded in part can be loaded again with the same seed.
///
/// # Errors
/// If there is one, or the cluster does not take it.
pub fn load_tpcc(
    options: &LoadOptions,
    scale: Scale,
    progress: &Arc<Progress>,
) -> Result<LoadReport, LoadError> {
    scale.validate().map_err(LoadError::Options)?;
    let mut client = Client::connect(&options.addresses, options.timeout)?;
    if client.call(&["GET", META_KEY])? != Reply::Nil {
        // Orders that came later would be taken for those of the new one.
        let text = "there is a TPC-C database already: use it, or remove its keys `tpcc:*` first";
        return Err(LoadError::Options(text.into()));
    }
    let loaded = Loaded::new(scale, options.seed);
    let report = loading::load(options, tpcc::population(&loaded, options.seed, unix_seconds()), progress)?;
    // Only now, so that what was loaded in part is not taken for a database.
    loading::load(options, std::iter::once(loaded.write()), progress)?;
    Ok(report)
}

/// What was loaded.
fn loaded(options: &LoadOptions) -> Result<(Client, Loaded), LoadError> {
    let mut client = Client::connect(&options.addresses, options.timeout)?;
    let found = match client.call(&["GET", META_KEY])? {
        Reply::Bulk(text) => Loaded::read(&text),
        _ => None,
    };
    let text = "there is no TPC-C database: load one first";
    Ok((client, found.ok_or_else(|| LoadError::Options(text.into()))?))
}

/// Runs the mix of transactions on a database that was loaded. Without `watch` nobody looks whether what a transaction
/// has read still holds when it writes: the conditions will not.
///
/// # Errors
/// If it was not loaded, or the options make no sense; failures of servers are no errors but counted.
pub fn run_tpcc(
    options: &LoadOptions,
    watch: bool,
    progress: &Arc<Progress>,
) -> Result<TransactionReport, LoadError> {
    check(options)?;
    let addresses = resolve(&options.addresses)?;
    let (_, loaded) = loaded(options)?;
    // Loading may have used the same seed.
    let mut rng = Rng::new(options.seed).fork();
    let manner = Manner { watch, multi: true };
    let description = describe(options, json!({ "tpcc": { "scale": loaded.scale, "optimistic": watch } }));
    let (report, players) = play(options, &addresses, description, progress, |_, clients, before| {
        let terminal = |index: usize| Terminal::new(loaded.clone(), (before + index) as u64, rng.fork());
        let terminals = (0..clients).map(terminal).collect();
        Transact::new(Terminals(terminals), clients, manner, &KINDS, Arc::clone(progress))
    })?;
    let mut tally = Tally::new(&KINDS);
    players.iter().for_each(|player| tally.merge(&player.tally));
    let report = tally.report(report);
    let orders = report.kinds.get(KINDS[0]).map_or(0, |kind| kind.fates.committed + kind.fates.rolled_back);
    let rate = (orders as f64 * 6_000.0 / report.report.seconds.max(1e-9)).round() / 100.0;
    Ok(TransactionReport { new_orders_per_minute: Some(rate), ..report })
}

/// What the conditions came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// How large the database is.
    pub scale: Scale,
    /// Whether all conditions hold.
    pub holds: bool,
    /// Those found, some for each condition.
    pub violations: Vec<Violation>,
    /// What was added since it was loaded.
    pub added: Census,
    /// How long it took.
    pub milliseconds: u64,
}

impl CheckReport {
    /// The report in lines for people.
    pub fn render(&self) -> String {
        if self.holds {
            let (count, ms) = (tpcc::CONDITIONS.len(), self.milliseconds);
            return format!("all {count} consistency conditions hold (read out in {ms} ms)\n");
        }
        let mut text = String::new();
        for violation in &self.violations {
            let condition = violation.condition.checked_sub(1).and_then(|index| tpcc::CONDITIONS.get(index));
            let condition = condition.copied().unwrap_or("every row is there");
            text += &format!("condition {}, {condition}: {}\n", violation.condition, violation.found);
        }
        text
    }
}

/// Reads the whole database and evaluates the twelve conditions. Nobody may write meanwhile.
///
/// # Errors
/// If there is none, or it cannot be read.
pub fn check_tpcc(options: &LoadOptions) -> Result<CheckReport, LoadError> {
    let (client, loaded) = loaded(options)?;
    let begun = clock::now_ns();
    let mut reading = Reading(client);
    let violations = tpcc::check(&mut reading, &loaded.scale)?;
    let added = tpcc::census(&mut reading, &loaded.scale)?;
    let took = Duration::from_nanos(clock::now_ns() - begun);
    Ok(CheckReport {
        scale: loaded.scale,
        holds: violations.is_empty(),
        violations,
        added,
        milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}

struct Reading(Client);

impl Readout for Reading {
    type Error = LoadError;

    fn read(&mut self, reads: Vec<Read>) -> Result<Vec<Seen>, LoadError> {
        let mut all = Vec::with_capacity(reads.len());
        // Several rounds at once; a round of lists has as many commands as lists.
        let per_round =
            if reads.iter().all(|read| matches!(read, Read::Value(_))) { STRINGS_AT_ONCE } else { 1 };
        for several in reads.chunks(per_round * COMMANDS_AT_ONCE) {
            let rounds: Vec<&[Read]> = several.chunks(per_round).collect();
            let commands: Vec<Words> = rounds.iter().flat_map(|round| rounds::reads(round)).collect();
            let replies = self.0.call_all(&commands)?;
            for (round, reply) in rounds.into_iter().zip(replies) {
                let text = match &reply {
                    Reply::Error(ErrorReply(message)) => message.clone(),
                    _ => "something of another kind".into(),
                };
                let seen = rounds::seen(round, vec![reply]);
                all.extend(
                    seen.ok_or_else(|| LoadError::Unsettled(format!("a read was answered with {text}")))?,
                );
            }
        }
        Ok(all)
    }
}
