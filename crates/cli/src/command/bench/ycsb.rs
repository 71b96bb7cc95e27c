//! `bench ycsb`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use quorate_bench::{LoadReport, TransactionReport, load_ycsb, run_ycsb};
use quorate_workload::ycsb::{Group, Letter, Requests, YcsbSpec};
use serde::Serialize;

use super::pressure::{Pressure, coded, judge, watch};
use crate::output::{Format, print, print_json};

/// Run one of YCSB's core workloads on a cluster.
///
/// A record is one string of all its fields: a read is GET, an update of one field SETRANGE, an insert SET, a
/// read-modify-write GET and SETRANGE. The store keeps keys in no order, so a scan (workload e) is the MGET of records
/// with successive numbers: it moves what a scan moves, and finds no keys. Operations of a transaction are added until
/// it holds --transaction-keys different keys; what it holds is not asked for again, and one that fails is not repeated.
/// Throughput counts operations of all transactions that ended, goodput those of transactions that committed.
/// Without --load and --run, both.
#[derive(Debug, Args)]
pub(crate) struct YcsbArgs {
    /// Which mix: a half updates, b 5 % updates, c reads, d reads of the newest and inserts, e scans and inserts,
    /// f half read-modify-writes.
    #[arg(value_enum)]
    pub(crate) workload: LetterArg,
    /// Only write the records.
    #[arg(long)]
    pub(crate) load: bool,
    /// Only run the workload, on records that were loaded with the same numbers.
    #[arg(long)]
    pub(crate) run: bool,
    /// Which records are asked for how often; without it, what YCSB uses with the workload: `latest` with d, else
    /// `zipfian`.
    #[arg(long, value_enum)]
    pub(crate) distribution: Option<RequestsArg>,
    /// How many records are loaded.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) records: u64,
    /// Fields of a record.
    #[arg(long, default_value_t = 10)]
    pub(crate) fields: usize,
    /// Bytes of a field.
    #[arg(long, default_value_t = 100)]
    pub(crate) field_bytes: usize,
    /// Updates write all fields, not one.
    #[arg(long)]
    pub(crate) all_fields: bool,
    /// The most records of one scan.
    #[arg(long, default_value_t = 100)]
    pub(crate) scan_max: u64,
    /// Different keys after which a transaction commits. More than 1 needs transactions: optimistic ones, unless
    /// --one-shot is there.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) transaction_keys: u64,
    /// Transactions of WATCH and GET for one operation after the other, then MULTI, the writes and EXEC.
    #[arg(long, conflicts_with = "one_shot")]
    pub(crate) optimistic: bool,
    /// Transactions of MULTI, all reads and writes, and EXEC, without WATCH: they cannot be outrun.
    #[arg(long)]
    pub(crate) one_shot: bool,
    /// What all keys begin with.
    #[arg(long, default_value = "ycsb:")]
    pub(crate) prefix: String,
    /// How the load is put on the cluster.
    #[command(flatten)]
    pub(crate) pressure: Pressure,
}

/// The core workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LetterArg {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads of the newest, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

/// Which records are asked for how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequestsArg {
    /// Few often, those spread over all.
    Zipfian,
    /// All alike.
    Uniform,
    /// The newest often.
    Latest,
    /// One fifth of them in four fifths of the operations.
    Hotspot,
}

/// One line of results.
#[derive(Debug, Serialize)]
struct Outcome {
    benchmark: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<LoadReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<TransactionReport>,
}

impl YcsbArgs {
    fn spec(&self) -> YcsbSpec {
        let letter = match self.workload {
            LetterArg::A => Letter::A,
            LetterArg::B => Letter::B,
            LetterArg::C => Letter::C,
            LetterArg::D => Letter::D,
            LetterArg::E => Letter::E,
            LetterArg::F => Letter::F,
        };
        let requests = match self.distribution {
            None => letter.requests(),
            Some(RequestsArg::Zipfian) => Requests::Zipfian,
            Some(RequestsArg::Uniform) => Requests::Uniform,
            Some(RequestsArg::Latest) => Requests::Latest,
            Some(RequestsArg::Hotspot) => Requests::Hotspot,
        };
        let group = match (self.one_shot, self.optimistic || self.transaction_keys > 1) {
            (true, _) => Group::OneShot,
            (false, true) => Group::Optimistic,
            (false, false) => Group::None,
        };
        YcsbSpec {
            workload: letter,
            requests,
            records: self.records,
            fields: self.fields,
            field_bytes: self.field_bytes,
            writes_all_fields: self.all_fields,
            scan_max: self.scan_max,
            keys_per_transaction: self.transaction_keys,
            group,
            prefix: self.prefix.clone(),
        }
    }
}

/// Loads, runs, or both.
pub(super) fn run(args: &YcsbArgs, format: Format) -> Result<ExitCode> {
    let (spec, options) = (args.spec(), args.pressure.options()?);
    let mut result = Outcome { benchmark: "ycsb", load: None, run: None };
    if args.load || !args.run {
        result.load = Some(coded(load_ycsb(&options, &spec, &Arc::default()))?);
    }
    if args.run || !args.load {
        let progress = Arc::default();
        let bar = watch(&options, &progress);
        let measured = run_ycsb(&options, &spec, &progress);
        bar.finish_and_clear();
        result.run = Some(coded(measured)?);
    }
    args.pressure.keep(&result)?;
    match format {
        Format::Json => print_json(&result)?,
        Format::Text => {
            let load = result.load.as_ref().map(LoadReport::render).unwrap_or_default();
            let run = result.run.as_ref().map(TransactionReport::render).unwrap_or_default();
            print(&(load + &run))?;
        }
    }
    result.run.as_ref().map_or(Ok(()), judge)?;
    Ok(ExitCode::SUCCESS)
}
