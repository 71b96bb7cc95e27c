//! Clients that write down everything, and what is made of it in the end.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quorate_api::history::Record;
use quorate_bench::{LoadError, LoadOptions, Machine, Minute, Pace, Progress, Report, Work};
use quorate_checker::History;
use quorate_workload::{Kind, Spec, Workload};
use serde_json::{Value, json};

use super::Common;
use super::cluster::Cluster;
use super::watched::Watched;
use crate::command::check;
use crate::exit::failure;

/// How far apart the numbers of the workloads' clients are; the last of each sets up and looks last.
const CLIENTS_APART: u64 = 100_000;
/// How long the first and the last step may take.
const STEP_WAIT: Duration = Duration::from_secs(60);
/// Above the nodes' own deadline.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Gaps of a workload that stand in the result.
const GAPS_KEPT_MAX: usize = 50;

type Records = Arc<Mutex<Vec<Record>>>;

/// One workload with its clients.
struct Witness {
    spec: Spec,
    options: LoadOptions,
    last_client: u64,
    records: Records,
    thread: Option<JoinHandle<Result<Report, LoadError>>>,
}

/// All of them.
pub(crate) struct Witnesses {
    witnesses: Vec<Witness>,
    progress: Arc<Progress>,
}

impl Witnesses {
    /// Sets up the workloads and lets the clients loose.
    pub(crate) fn start(common: &Common, cluster: &Cluster, machine: &Machine) -> Result<Witnesses> {
        let mut all = Witnesses { witnesses: Vec::new(), progress: Arc::default() };
        let share = (common.clients / common.workloads.len().max(1)).max(1);
        for (kind, index) in common.workloads.iter().zip(0_u64..) {
            let options = LoadOptions {
                addresses: cluster.addresses(),
                clients: share,
                threads: 1,
                pace: common.rate.map_or(Pace::Closed, Pace::Open),
                warmup: Duration::ZERO,
                duration: None,
                operations: None,
                timeout: TIMEOUT,
                seed: common.home.seed + index,
                servers: cluster.pids(),
                machine: machine.clone(),
            };
            all.add(options, *kind, common.keys, index)?;
        }
        Ok(all)
    }

    fn add(&mut self, options: LoadOptions, kind: Kind, keys: u64, index: u64) -> Result<()> {
        let spec = Spec { keys, ..Spec::new(kind) };
        let (first_client, last_client) = (index * CLIENTS_APART, (index + 1) * CLIENTS_APART - 1);
        let done = quorate_bench::setup(&options, &spec, last_client, STEP_WAIT)?;
        let records: Records = Arc::new(Mutex::new(done));
        let thread = {
            let (options, progress, records) =
                (options.clone(), Arc::clone(&self.progress), Arc::clone(&records));
            let work = Work::Judged { spec: spec.clone(), first_client };
            let keep = move |record| records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
            std::thread::spawn(move || quorate_bench::run(&options, &work, &progress, keep))
        };
        self.witnesses.push(Witness { spec, options, last_client, records, thread: Some(thread) });
        Ok(())
    }

    /// Stops the clients without a last look; what they have seen is written down, for whoever looks for the cause.
    pub(crate) fn abandon(&mut self, dir: &Path) {
        self.progress.stop();
        for witness in &mut self.witnesses {
            if let Some(thread) = witness.thread.take() {
                // What went wrong before is what matters, here and below.
                let _ = thread.join();
            }
            let records =
                std::mem::take(&mut *witness.records.lock().unwrap_or_else(PoisonError::into_inner));
            let _ = write(dir, witness.spec.kind, &records);
        }
    }

    /// Stops the clients, looks at everything a last time and judges. The exit code, and what the clients saw.
    pub(crate) fn finish(mut self, cluster: &Cluster) -> Result<(u8, Value)> {
        self.progress.stop();
        let (mut code, mut verdicts, mut reports) = (0, Vec::new(), Vec::new());
        for witness in &mut self.witnesses {
            let thread = witness.thread.take().context("a witness has only one thread")?;
            reports.push(thread.join().map_err(|_| failure(1, "a thread of the load generator panicked"))??);
            witness.options.addresses = cluster.addresses();
            let last =
                quorate_bench::finish(&witness.options, &witness.spec, witness.last_client, STEP_WAIT)?;
            let mut records =
                std::mem::take(&mut *witness.records.lock().unwrap_or_else(PoisonError::into_inner));
            records.extend(last);
            let (worst, told) = judge(cluster.dir(), &witness.spec, records)?;
            code = if worst == 1 || code == 1 { 1 } else { code.max(worst) };
            verdicts.extend(told);
        }
        let sum = |field: fn(&Report) -> u64| reports.iter().map(field).sum::<u64>();
        let nonsense = sum(|report| report.counts.nonsense);
        let latencies = reports.iter().flat_map(|report| [&report.reads, &report.writes]).flatten();
        let within_1s: u64 = latencies.map(|latency| latency.within_1s).sum();
        let mut minutes = Vec::<Minute>::new();
        for report in &reports {
            minutes.resize(minutes.len().max(report.minutes.len()), Minute::default());
            minutes.iter_mut().zip(&report.minutes).for_each(|(minute, part)| minute.add(part));
        }
        if nonsense > 0 {
            code = 1;
        }
        let clients = json!({
            "done": sum(|report| report.counts.done),
            "within_1s": within_1s,
            "refused": sum(|report| report.counts.refused),
            "aborted": sum(|report| report.counts.aborted),
            "unknown": sum(|report| report.counts.unknown),
            "nonsense": nonsense,
            "broken": sum(|report| report.counts.broken),
            "gap_ms_max": self.progress.longest_gap().as_millis() as u64,
            "seconds": self.progress.elapsed().as_secs(),
            "minutes": minutes,
            "workloads": shorten(&reports)?,
            "verdicts": verdicts,
        });
        Ok((code, clients))
    }
}

impl Watched for Witnesses {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn look_after(&self) -> Result<()> {
        let has_ended = |witness: &Witness| witness.thread.as_ref().is_some_and(JoinHandle::is_finished);
        match self.witnesses.iter().find(|witness| has_ended(witness)) {
            Some(witness) => {
                Err(failure(1, format!("the clients of `{}` have stopped", witness.spec.kind.name())))
            }
            None => Ok(()),
        }
    }
}

/// Keeps the longest gaps of all clients together: in a long run there are thousands.
fn shorten(reports: &[Report]) -> Result<Vec<Value>> {
    let short = |report: &Report| {
        let mut report = report.clone();
        report.gaps.sort_by_key(|gap| std::cmp::Reverse(gap.ms));
        report.gaps.truncate(GAPS_KEPT_MAX);
        serde_json::to_value(report).context("a report is JSON")
    };
    reports.iter().map(short).collect()
}

/// Writes the history down and judges it for what its workload promises.
fn judge(dir: &Path, spec: &Spec, records: Vec<Record>) -> Result<(u8, Vec<Value>)> {
    let path = write(dir, spec.kind, &records)?;
    // Not a copy: of hours, lists that were read take gigabytes.
    let history = History::from_records(records).context("the clients' records are no history")?;
    let (mut worst, mut told) = (0, Vec::new());
    for property in Workload::new(spec.clone())?.checks() {
        let report = quorate_checker::check(&history, *property);
        let code = check::code(&report);
        worst = if code == 1 || worst == 1 { 1 } else { code.max(worst) };
        // By its name in the campaign's directory, so that results of different machines compare.
        let mut value = check::describe(path.file_name().map_or(&path, Path::new), &report);
        value["workload"] = spec.kind.name().into();
        told.push(value);
    }
    Ok((worst, told))
}

fn write(dir: &Path, kind: Kind, records: &[Record]) -> Result<PathBuf> {
    let path = dir.join(format!("history-{}.jsonl", kind.name()));
    let mut out =
        BufWriter::new(File::create(&path).with_context(|| format!("cannot create {}", path.display()))?);
    for record in records {
        serde_json::to_writer(&mut out, record)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(path)
}
