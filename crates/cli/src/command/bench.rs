//! `bench`: load on a cluster, measured.

mod chirp;
mod pressure;
mod tpcc;
mod ycsb;

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum};
use quorate_api::history::Record;
use quorate_bench::{Keys, Mix, PlainSpec, Progress, Report, Work};
use quorate_workload::{Distribution, Kind, Spec};

use crate::exit::{self, WithCode as _, failure};
use crate::output::{Format, print, print_json};
use pressure::Pressure;

/// Skew of the Zipf distribution, as in YCSB.
const ZIPF_SKEW: f64 = 0.99;
/// Number of the client that sets up and looks last.
const SETUP_CLIENT: u64 = 1_000_000;

/// Put load on a cluster and measure it.
///
/// `set`, `get` and `mixed` are plain commands on strings. The other workloads are those of the simulator; with
/// --history they write down what each client asked and was told, for `quorate check` to judge. `ycsb`, `tpcc`
/// and `chirp` have options of their own. Outcomes are done,
/// refused (an error reply that says nothing happened) or unknown (an UNKNOWN reply, a timeout, a broken connection).
/// Exit codes: 0 measured, 1 servers gave answers that make no sense, 69 nobody answers.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Bench {
    /// A benchmark that others have defined.
    #[command(subcommand)]
    pub(crate) benchmark: Option<Benchmark>,
    /// What the clients do.
    #[arg(value_enum, required = true)]
    pub(crate) workload: Option<Workload>,
    /// How the load is put on the cluster.
    #[command(flatten)]
    pub(crate) pressure: Pressure,
    /// Commands each client sends before it waits (plain workloads).
    #[arg(long, default_value_t = 1)]
    pub(crate) pipeline: usize,
    /// How many keys.
    #[arg(long)]
    pub(crate) keys: Option<u64>,
    /// Which of them.
    #[arg(long, value_enum, default_value_t = Choice::Uniform)]
    pub(crate) distribution: Choice,
    /// Bytes of a value (plain workloads).
    #[arg(long, default_value_t = 64)]
    pub(crate) value_bytes: usize,
    /// Share of reads in percent (`mixed` and the judged workloads).
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub(crate) reads: u64,
    /// Write every key once before measuring (plain workloads).
    #[arg(long)]
    pub(crate) fill: bool,
    /// What all keys begin with.
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Write the history here (judged workloads).
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
}

/// Benchmarks that others have defined.
#[derive(Debug, Subcommand)]
pub(crate) enum Benchmark {
    // A comment for documentation here would hide that of the arguments, which is the manual.
    Ycsb(ycsb::YcsbArgs),
    Tpcc(tpcc::TpccArgs),
    Chirp(chirp::ChirpArgs),
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// SET.
    Set,
    /// GET.
    Get,
    /// GET and SET.
    Mixed,
    /// GET and SET, judged.
    Register,
    /// Compare-and-set by WATCH and MULTI.
    Swap,
    /// INCRBY and GET.
    Counter,
    /// RPUSH and LRANGE.
    Append,
    /// APPEND and GET.
    AppendString,
    /// MULTI with several RPUSH and LRANGE.
    AppendTransaction,
    /// Pushes, pops and moves.
    List,
    /// Transfers between accounts.
    Bank,
    /// Exchanges in a ring of keys.
    Cycle,
}

/// Which keys are used how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// All alike.
    Uniform,
    /// Few often, as in YCSB.
    Zipf,
    /// One after the other (plain workloads).
    InOrder,
}

impl Workload {
    /// The kind of a judged workload.
    fn kind(self) -> Option<Kind> {
        match self {
            Workload::Set | Workload::Get | Workload::Mixed => None,
            Workload::Register => Some(Kind::Register),
            Workload::Swap => Some(Kind::Swap),
            Workload::Counter => Some(Kind::Counter),
            Workload::Append => Some(Kind::Append),
            Workload::AppendString => Some(Kind::AppendString),
            Workload::AppendTransaction => Some(Kind::AppendTransaction),
            Workload::List => Some(Kind::List),
            Workload::Bank => Some(Kind::Bank),
            Workload::Cycle => Some(Kind::Cycle),
        }
    }
}

/// Puts load on a cluster.
pub(crate) fn run(bench: &Bench, format: Format) -> Result<ExitCode> {
    match &bench.benchmark {
        Some(Benchmark::Ycsb(args)) => return ycsb::run(args, format),
        Some(Benchmark::Tpcc(args)) => return tpcc::run(args, format),
        Some(Benchmark::Chirp(args)) => return chirp::run(args, format),
        None => {}
    }
    let work = work(bench)?;
    let options = bench.pressure.options()?;
    let progress = Arc::new(Progress::default());
    let records = history_writer(bench)?;
    let setup_wait = Duration::from_secs(30);
    match &work {
        Work::Plain(spec) if bench.fill => {
            quorate_bench::fill(&options, spec, &Arc::default()).code(exit::UNAVAILABLE)?;
        }
        Work::Plain(_) => {}
        Work::Judged { spec, .. } => {
            let done =
                quorate_bench::setup(&options, spec, SETUP_CLIENT, setup_wait).code(exit::UNAVAILABLE)?;
            done.into_iter().for_each(|record| records.write(record));
        }
    }
    let bar = pressure::watch(&options, &progress);
    let sink = records.clone();
    let measured = quorate_bench::run(&options, &work, &progress, move |record| sink.write(record));
    bar.finish_and_clear();
    let report = measured.code(exit::UNAVAILABLE)?;
    if let (Work::Judged { spec, .. }, Some(_)) = (&work, &bench.history) {
        let last = quorate_bench::finish(&options, spec, SETUP_CLIENT, setup_wait).code(exit::UNAVAILABLE)?;
        last.into_iter().for_each(|record| records.write(record));
    }
    records.finish()?;
    tell(bench, &work, &report, format)?;
    if report.counts.nonsense > 0 {
        return Err(failure(exit::FAILED, "servers gave answers that no correct server gives"));
    }
    if report.counts.done == 0 {
        return Err(failure(exit::UNAVAILABLE, "no operation was acknowledged: is the cluster up?"));
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(bench: &Bench, work: &Work, report: &Report, format: Format) -> Result<()> {
    bench.pressure.keep(report)?;
    match format {
        Format::Json => print_json(report),
        Format::Text => {
            print(&report.render())?;
            let (Some(path), Work::Judged { spec, .. }) = (&bench.history, work) else { return Ok(()) };
            let properties = quorate_workload::Workload::new(spec.clone())?.checks();
            let flags: String = properties.iter().map(|check| format!("--for {} ", check.name())).collect();
            print(&format!("judge the history: quorate check {flags}{}\n", path.display()))
        }
    }
}

/// Appends a line to a file of results.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn append_line(path: &std::path::Path, line: &str) -> Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.with_context(|| format!("cannot append to {}", path.display()))
}

fn work(bench: &Bench) -> Result<Work> {
    let distribution = match bench.distribution {
        Choice::Uniform | Choice::InOrder => Distribution::Uniform,
        Choice::Zipf => Distribution::Zipf { skew: ZIPF_SKEW },
    };
    let Some(kind) = bench.workload.and_then(Workload::kind) else {
        let read_percent = match bench.workload {
            Some(Workload::Set) => 0,
            Some(Workload::Get) => 100,
            _ => bench.reads,
        };
        return Ok(Work::Plain(PlainSpec {
            mix: Mix { read_percent },
            keys: bench.keys.unwrap_or(100_000).max(1),
            choice: match bench.distribution {
                Choice::InOrder => Keys::InOrder,
                Choice::Uniform | Choice::Zipf => Keys::Drawn(distribution),
            },
            prefix: bench.prefix.clone().unwrap_or_else(|| "bench:".into()),
            value_bytes: bench.value_bytes,
            pipeline: bench.pipeline,
            all_exist: false,
        }));
    };
    if bench.pipeline > 1 || bench.fill || bench.distribution == Choice::InOrder {
        let text = "--pipeline, --fill and --distribution in-order are for set, get and mixed";
        return Err(failure(exit::USAGE, text));
    }
    let mut spec = Spec { distribution, read_percent: bench.reads, ..Spec::new(kind) };
    spec.keys = bench.keys.unwrap_or(spec.keys);
    if let Some(prefix) = &bench.prefix {
        spec.prefix.clone_from(prefix);
    }
    Ok(Work::Judged { spec, first_client: 0 })
}

/// Writes records as they come; the first failure is told at the end.
#[derive(Clone)]
struct Records(Option<Arc<Mutex<Writer>>>);

struct Writer {
    path: PathBuf,
    out: BufWriter<File>,
    error: Option<std::io::Error>,
}

fn history_writer(bench: &Bench) -> Result<Records> {
    let Some(path) = &bench.history else { return Ok(Records(None)) };
    if bench.workload.and_then(Workload::kind).is_none() {
        return Err(failure(exit::USAGE, "set, get and mixed have no history: choose `register` for that"));
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let writer = Writer { path: path.clone(), out: BufWriter::new(file), error: None };
    Ok(Records(Some(Arc::new(Mutex::new(writer)))))
}

impl Records {
    fn write(&self, record: Record) {
        let Some(writer) = &self.0 else { return };
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let line = serde_json::to_string(&record).map_err(std::io::Error::other);
        let written = line.and_then(|line| writeln!(writer.out, "{line}"));
        if let Err(error) = written {
            writer.error.get_or_insert(error);
        }
    }

    fn finish(&self) -> Result<()> {
        let Some(writer) = &self.0 else { return Ok(()) };
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = writer.out.flush();
        let result = writer.error.take().map_or(flushed, Err);
        result.with_context(|| format!("the history in {} is not whole", writer.path.display()))
    }
}
