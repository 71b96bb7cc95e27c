//! `bench tpcc`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use quorate_bench::{CheckReport, LoadReport, TransactionReport, check_tpcc, load_tpcc, run_tpcc};
use quorate_workload::tpcc::Scale;
use serde::Serialize;

use super::pressure::{Pressure, coded, judge, watch};
use crate::exit::{self, failure};
use crate::output::{Format, print, print_json};

/// Run TPC-C on a cluster.
///
/// All five transactions of revision 5.11 of its specification, rows as strings and lists under keys that begin with
/// `tpcc:`. There are no terminals: clients ask as soon as they are answered, so that the rate of new orders must not be
/// compared with results of the TPC. A transaction that was outrun is not repeated. The check reads the whole database
/// and evaluates the twelve consistency conditions of clause 3.3.2; nobody may write meanwhile.
/// Without --load, --run and --check, all three. Exit codes: 0 done, 1 a condition does not hold or servers gave answers
/// that make no sense, 2 there is no database, 69 nobody answers.
#[derive(Debug, Args)]
pub(crate) struct TpccArgs {
    /// Only write the database, unless --run or --check is there too.
    #[arg(long)]
    pub(crate) load: bool,
    /// Only run the transactions, on the database that is there.
    #[arg(long)]
    pub(crate) run: bool,
    /// Only check the conditions.
    #[arg(long)]
    pub(crate) check: bool,
    /// How many warehouses are loaded: 370,000 rows, 70 MB each.
    #[arg(long, default_value_t = 1)]
    pub(crate) warehouses: u64,
    /// Load a hundredth of what is specified, for a quick look: 30 customers of a district, 1,000 items.
    #[arg(long)]
    pub(crate) reduced: bool,
    /// Load rows so that each lies where its key happens to: transactions then concern most buckets. Otherwise a warehouse
    /// lies in one slot, with a copy of the items.
    #[arg(long)]
    pub(crate) spread: bool,
    /// WATCH and read in rounds, then MULTI, the writes and EXEC: the default.
    #[arg(long, conflicts_with = "one_shot")]
    pub(crate) optimistic: bool,
    /// The same without WATCH: nobody looks whether what was read still holds. Transactions that meet break the
    /// conditions, which shows that the check can tell.
    #[arg(long)]
    pub(crate) one_shot: bool,
    /// How the load is put on the cluster.
    #[command(flatten)]
    pub(crate) pressure: Pressure,
}

/// One line of results.
#[derive(Debug, Serialize)]
struct Outcome {
    benchmark: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<LoadReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<TransactionReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<CheckReport>,
}

/// Loads, runs and checks, or some of these.
pub(super) fn run(args: &TpccArgs, format: Format) -> Result<ExitCode> {
    let options = args.pressure.options()?;
    let all = !(args.load || args.run || args.check);
    let mut outcome = Outcome { benchmark: "tpcc", load: None, run: None, check: None };
    if args.load || all {
        let scale = if args.reduced { Scale::reduced } else { Scale::standard }(args.warehouses);
        let scale = if args.spread { scale.spread() } else { scale };
        outcome.load = Some(coded(load_tpcc(&options, scale, &Arc::default()))?);
    }
    if args.run || all {
        let progress = Arc::default();
        let bar = watch(&options, &progress);
        let measured = run_tpcc(&options, !args.one_shot, &progress);
        bar.finish_and_clear();
        outcome.run = Some(coded(measured)?);
    }
    if args.check || all {
        outcome.check = Some(coded(check_tpcc(&options))?);
    }
    args.pressure.keep(&outcome)?;
    match format {
        Format::Json => print_json(&outcome)?,
        Format::Text => {
            let load = outcome.load.as_ref().map(LoadReport::render).unwrap_or_default();
            let run = outcome.run.as_ref().map(TransactionReport::render).unwrap_or_default();
            let check = outcome.check.as_ref().map(CheckReport::render).unwrap_or_default();
            print(&(load + &run + &check))?;
        }
    }
    outcome.run.as_ref().map_or(Ok(()), judge)?;
    if outcome.check.as_ref().is_some_and(|check| !check.holds) {
        return Err(failure(exit::FAILED, "the database is not consistent"));
    }
    Ok(ExitCode::SUCCESS)
}
