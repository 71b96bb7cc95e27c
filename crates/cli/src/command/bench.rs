//! `bench`: load on a cluster, measured.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use quorate_api::history::Record;
use quorate_bench::{Keys, LoadOptions, Machine, Mix, Pace, PlainSpec, Progress, Report, Work};
use quorate_workload::{Distribution, Kind, Spec};

use crate::command::data::Door;
use crate::exit::{self, WithCode as _, failure};
use crate::local;
use crate::output::{Format, is_watched, print, print_json};

/// Skew of the Zipf distribution, as in YCSB.
const ZIPF_SKEW: f64 = 0.99;
/// Number of the client that sets up and looks last.
const SETUP_CLIENT: u64 = 1_000_000;

/// Put load on a cluster and measure it.
///
/// `set`, `get` and `mixed` are plain commands on strings. The other workloads are those of the simulator; with
/// --history they write down what each client asked and was told, for `quorate check` to judge. Outcomes are done,
/// refused (an error reply that says nothing happened) or unknown (an UNKNOWN reply, a timeout, a broken connection).
/// Exit codes: 0 measured, 1 servers gave answers that make no sense, 69 nobody answers.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// What the clients do.
    #[arg(value_enum)]
    pub(crate) workload: Workload,
    /// Which cluster; its processes are measured if they run on this machine.
    #[command(flatten)]
    pub(crate) door: Door,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    pub(crate) clients: usize,
    /// Threads that play them.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Commands each client sends before it waits (plain workloads).
    #[arg(long, default_value_t = 1)]
    pub(crate) pipeline: usize,
    /// Operations in a second, all clients together: an open loop, whose latencies count from when an operation was
    /// due. Without it, a closed loop.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Seconds before that are not.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) warmup: f64,
    /// Stop after so many operations, even if time is left.
    #[arg(long)]
    pub(crate) operations: Option<u64>,
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
    /// Milliseconds without an answer after which an outcome counts as unknown.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) timeout_ms: u64,
    /// What chance follows from.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the history here (judged workloads).
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Append the result to this file, as one line of JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Processes of the servers, if they are on this machine and not the local cluster's.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub(crate) pids: Vec<u32>,
    /// A directory on the servers' disk, to measure its fdatasync; without it, that of the local cluster.
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,
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
    let work = work(bench)?;
    let options = options(bench)?;
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
    let bar = watch(bench, &progress);
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
    if let Some(path) = &bench.results {
        append_line(path, &serde_json::to_string(report)?)?;
    }
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
    let Some(kind) = bench.workload.kind() else {
        let read_percent = match bench.workload {
            Workload::Set => 0,
            Workload::Get => 100,
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

fn options(bench: &Bench) -> Result<LoadOptions> {
    let seconds = |value: f64| {
        Duration::try_from_secs_f64(value)
            .ok()
            .context("seconds must be a number that is not negative")
            .code(exit::USAGE)
    };
    let local = if bench.door.at.is_empty() { local::read(&bench.door.local.data)? } else { None };
    let mut servers = bench.pids.clone();
    if let Some(manifest) = &local {
        servers.extend(manifest.nodes.iter().filter_map(|node| Some(node.process.as_ref()?.pid)));
    }
    let disk = bench.disk.clone().or_else(|| local.as_ref().map(|_| bench.door.local.data.clone()));
    let machine =
        Machine::look(env!("QUORATE_COMMIT"), disk.as_deref()).context("cannot measure the disk")?;
    Ok(LoadOptions {
        addresses: bench.door.addresses()?,
        clients: bench.clients,
        threads: bench.threads,
        pace: bench.rate.map_or(Pace::Closed, Pace::Open),
        warmup: seconds(bench.warmup)?,
        duration: Some(seconds(bench.seconds)?),
        operations: bench.operations,
        timeout: Duration::from_millis(bench.timeout_ms),
        seed: bench.seed,
        servers,
        machine,
    })
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
    if bench.workload.kind().is_none() {
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

/// A line about what goes on, on a terminal only.
fn watch(bench: &Bench, progress: &Arc<Progress>) -> ProgressBar {
    if !is_watched() {
        return ProgressBar::hidden();
    }
    let total = ((bench.seconds + bench.warmup) * 10.0) as u64;
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
        bar.set_style(style);
    }
    let (shown, progress) = (bar.clone(), Arc::clone(progress));
    // Ends with the bar.
    std::thread::spawn(move || {
        while !shown.is_finished() {
            let elapsed = progress.elapsed().as_secs_f64();
            shown.set_position((elapsed * 10.0) as u64);
            shown.set_message(format!(
                "{:.0} s, {} done, {:.0} in a second, {} failed",
                elapsed,
                progress.done(),
                progress.done() as f64 / elapsed.max(0.1),
                progress.failed()
            ));
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    bar
}
