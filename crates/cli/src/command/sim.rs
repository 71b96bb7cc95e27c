//! `sim`: whole clusters in one thread, under faults drawn from seeds.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use quorate_host::Usage;
use quorate_sim::{
    Batch, Coverage, Failure, Kind, Overrides, Plan, Profile, Report, Row, Runs, Shrunk, Stressed, Summary,
    TraceLevel, commit, membership, node, replog, run_many, run_twice, shrink,
};
use serde_json::{Value, json};

use crate::command::bench::append_line;
use crate::exit::{self, failure};
use crate::output::{Format, is_watched, print, print_json};

/// Run the simulator: whole clusters in one thread, under faults drawn from seeds.
///
/// Every run follows from its seed to the letter: a failure is repeated by the line it prints. A run has a phase
/// under faults, judged for safety, and one after healing, judged for progress. Many free runs must also reach what
/// the profile asks for. Exit codes: 10 a panic, 11 safety, 12 liveness, 13 determinism, 14 coverage.
#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// What is simulated; `list` names all profiles.
    pub(crate) profile: String,
    /// Run these seeds: A up to, not including, B.
    #[arg(long, value_name = "A..B", value_parser = seeds, conflicts_with = "seed", default_value = "0..100")]
    pub(crate) seeds: Range<u64>,
    /// Run one seed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Print everything that happens; one seed only. With `--shrink`, also what happens in the smaller case.
    #[arg(long, requires = "seed")]
    pub(crate) trace: bool,
    /// Run each seed twice and compare everything that happens.
    #[arg(long)]
    pub(crate) twice: bool,
    /// On so many threads; without it, one for each processor.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 1)]
    pub(crate) failures_max: usize,
    /// Append the result of many seeds, or of an experiment, to this file, as lines of JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Run an experiment of this profile instead; `list` names all. `membership` and `node` have some.
    /// Of those of `node`, `--nodes` leaves out larger clusters.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["twice", "shrink", "trace"])]
    pub(crate) experiment: Option<String>,
    /// Look for a smaller case of the first failure.
    #[arg(long)]
    pub(crate) shrink: bool,
    /// Cases tried when shrinking.
    #[arg(long, default_value_t = 500)]
    pub(crate) attempts_max: usize,
    /// What replaces the draws of a seed.
    #[command(flatten)]
    pub(crate) draws: Draws,
}

/// What replaces the draws of a seed.
#[derive(Debug, Args)]
pub(crate) struct Draws {
    /// So many nodes.
    #[arg(long)]
    pub(crate) nodes: Option<usize>,
    /// So many clients.
    #[arg(long)]
    pub(crate) clients: Option<u32>,
    /// So long a phase under faults.
    #[arg(long)]
    pub(crate) safety_ms: Option<u64>,
    /// Of the drawn faults only these, separated by commas.
    #[arg(long)]
    pub(crate) faults: Option<String>,
    /// Peace after so many strikes.
    #[arg(long)]
    pub(crate) strikes: Option<u64>,
    /// Another course of events with the same configuration.
    #[arg(long)]
    pub(crate) salt: Option<u64>,
}

impl Draws {
    fn overrides(&self) -> Result<Overrides> {
        let faults = match &self.faults {
            Some(names) => Some(names.parse().map_err(|error: String| failure(exit::USAGE, error))?),
            None => None,
        };
        Ok(Overrides {
            nodes: self.nodes,
            clients: self.clients,
            safety_ms: self.safety_ms,
            faults,
            strikes_max: self.strikes,
            salt: self.salt,
        })
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed
        .filter(|range: &Range<u64>| !range.is_empty())
        .ok_or_else(|| "write A..B with A below B, for example 0..100".into())
}

/// A kind of world, whatever machines run in it.
struct Runner {
    profile: Profile,
    runs: Box<Runs<'static>>,
}

impl Runner {
    fn of<S: Stressed + Sync + 'static>(kind: Kind<S>) -> Runner {
        Runner { profile: kind.profile.clone(), runs: Box::new(move |plan| kind.run(plan)) }
    }

    fn one(&self, plan: &Plan, twice: bool) -> Report {
        if twice { run_twice(plan, &self.runs) } else { (self.runs)(plan) }
    }

    fn shrink(&self, failed: &Report, attempts_max: usize) -> Shrunk {
        shrink(&self.profile, failed, attempts_max, &self.runs)
    }
}

/// Every profile. A new one is one more line.
fn runners() -> Vec<Runner> {
    vec![
        Runner::of(replog::swarm()),
        Runner::of(commit::swarm()),
        Runner::of(membership::swarm()),
        Runner::of(node::swarm()),
        Runner::of(node::placed()),
        Runner::of(node::grouped()),
        Runner::of(node::bundles()),
        Runner::of(node::carried()),
    ]
}

/// Runs it.
pub(crate) fn run(sim: &Sim, format: Format) -> Result<ExitCode> {
    let runners = runners();
    let names: Vec<&str> = runners.iter().map(|runner| runner.profile.name).collect();
    if sim.profile == "list" {
        match format {
            Format::Json => print_json(&names)?,
            Format::Text => print(&(names.join("\n") + "\n"))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(runner) = runners.iter().find(|runner| runner.profile.name == sim.profile) else {
        let text = format!("there is no profile `{}`; there are {}", sim.profile, names.join(", "));
        return Err(failure(exit::USAGE, text));
    };
    if let Some(name) = &sim.experiment {
        return experiment(sim, name);
    }
    let overrides = sim.draws.overrides()?;
    match sim.seed {
        Some(seed) => one(sim, runner, &Plan::draw(&runner.profile, seed, &overrides), format),
        None => many(sim, runner, overrides, format),
    }
}

/// Runs an experiment; each row of results is one line of JSON, told as soon as it is there.
fn experiment(sim: &Sim, name: &str) -> Result<ExitCode> {
    let names: &[&str] = match sim.profile.as_str() {
        "membership" => &membership::experiment::NAMES,
        "node" => &node::figures::NAMES,
        _ => &[],
    };
    if name == "list" && !names.is_empty() {
        print(&(names.join("\n") + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !names.contains(&name) {
        let there = if names.is_empty() { "none".into() } else { names.join(", ") };
        let text = format!("there is no experiment `{name}` of `{}`, which has {there}", sim.profile);
        return Err(failure(exit::USAGE, text));
    }
    let seed = sim.seed.unwrap_or(1);
    let mut told = Ok(());
    let mut tell = |row: Row| {
        if told.is_ok() {
            told = tell_row(sim, &row, seed);
        }
    };
    if sim.profile == "membership" {
        let rows = membership::experiment::run(name, sim.draws.nodes.unwrap_or(1_000), seed);
        rows.into_iter().flatten().for_each(tell);
    } else if let Err(why) = node::figures::run(name, sim.draws.nodes, seed, &mut tell) {
        return Err(failure(why.exit_code(), why.to_string()));
    }
    told?;
    Ok(ExitCode::SUCCESS)
}

/// A row of results, with how it came about, as a line of JSON: the processor time is that since the last row, or since the program began.
pub(crate) fn row_line(row: &Row, seed: u64) -> String {
    static TOLD_MS: AtomicU64 = AtomicU64::new(0);
    let commit = env!("QUORATE_COMMIT");
    let usage = Usage::now();
    let before_ms = TOLD_MS.swap(usage.cpu_ms, Ordering::Relaxed);
    let (seconds, peak_mib) = (usage.cpu_ms.saturating_sub(before_ms) as f64 / 1e3, usage.peak_bytes >> 20);
    format!(
        "{{{row},\"seed\":{seed},\"commit\":\"{commit}\",\"processor_seconds\":{seconds:.1},\"peak_mib\":{peak_mib}}}"
    )
}

fn tell_row(sim: &Sim, row: &Row, seed: u64) -> Result<()> {
    let line = row_line(row, seed);
    print(&format!("{line}\n"))?;
    sim.results.as_ref().map_or(Ok(()), |path| append_line(path, &line))
}

fn one(sim: &Sim, runner: &Runner, plan: &Plan, format: Format) -> Result<ExitCode> {
    if sim.trace {
        tell_trace(runner, plan)?;
    }
    let report = runner.one(&plan.clone().traced(TraceLevel::Full), sim.twice);
    match format {
        Format::Json => print_json(&with_coverage(describe(&report), &report.coverage))?,
        Format::Text => {
            let end = report.failure.as_ref().map_or("passed".to_owned(), Failure::to_string);
            print(&format!("{}\n", report.coverage))?;
            print(&format!("seed {}: {end}; trace {:016x}\n", plan.seed, report.trace_hash))?;
        }
    }
    if report.failure.is_some() && sim.shrink {
        tell_shrunk(sim, runner, &report)?;
    }
    Ok(ExitCode::from(report.failure.as_ref().map_or(0, Failure::exit_code)))
}

fn many(sim: &Sim, runner: &Runner, overrides: Overrides, format: Format) -> Result<ExitCode> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let batch = Batch {
        overrides,
        threads: sim.threads.unwrap_or(processors).max(1),
        twice: sim.twice,
        failures_max: sim.failures_max,
        ..Batch::of(sim.seeds.clone())
    };
    let before = processor_seconds();
    let bar = progress(sim.seeds.end - sim.seeds.start);
    let failures = AtomicUsize::new(0);
    let summary = run_many(&runner.profile, &batch, &runner.runs, &|report| {
        if report.failure.is_some() {
            let count = failures.fetch_add(1, Ordering::Relaxed) + 1;
            bar.set_message(format!("{count} failed"));
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let first = summary.failed.first();
    let failed = first.and_then(|report| report.failure.as_ref()).or(summary.coverage_failure.as_ref());
    let result = describe_all(sim, &summary, processor_seconds() - before);
    if let Some(path) = &sim.results {
        append_line(path, &result.to_string())?;
    }
    match format {
        Format::Json => print_json(&result)?,
        Format::Text => {
            print(&format!("{}\n", summary.coverage))?;
            for report in &summary.failed {
                print(&format!("seed {}: {}\n", report.plan.seed, report.explain(&command(sim))))?;
            }
            if let Some(failure) = &summary.coverage_failure {
                print(&format!("{failure}\n"))?;
            }
            if failed.is_none() {
                print(&format!(
                    "seeds {}..{}: all passed{}\n",
                    sim.seeds.start,
                    sim.seeds.end,
                    unjudged(runner, &batch)
                ))?;
            }
        }
    }
    if let (Some(report), true) = (first, sim.shrink) {
        tell_shrunk(sim, runner, report)?;
    }
    Ok(ExitCode::from(failed.map_or(0, Failure::exit_code)))
}

/// Why what was reached was not held against the floors, if it was not.
fn unjudged(runner: &Runner, batch: &Batch) -> String {
    let (least, count) = (runner.profile.floors_seeds, batch.seeds.end - batch.seeds.start);
    if batch.overrides != Overrides::default() {
        "; floors hold for free draws only".into()
    } else if count < least {
        format!("; floors hold for {least} seeds or more")
    } else {
        String::new()
    }
}

fn command(sim: &Sim) -> String {
    format!("quorate sim {}", sim.profile)
}

/// Everything that happens in a run.
fn tell_trace(runner: &Runner, plan: &Plan) -> Result<()> {
    let report = runner.one(&plan.clone().traced(TraceLevel::Keep), false);
    report.lines.iter().try_for_each(|line| print(&format!("{line}\n")))
}

/// Looks for a smaller case. If all that happens is asked for, then of that case too: it comes last, since it is the one to be read.
fn tell_shrunk(sim: &Sim, runner: &Runner, failed: &Report) -> Result<()> {
    let shrunk = runner.shrink(failed, sim.attempts_max);
    if sim.trace {
        tell_trace(runner, &shrunk.report.plan)?;
    }
    print(&format!("smaller: {shrunk}\n{}\n", shrunk.report.explain(&command(sim))))
}

fn describe(report: &Report) -> Value {
    json!({
        "profile": report.plan.profile,
        "seed": report.plan.seed,
        "overrides": report.plan.overrides.to_string(),
        "failure": report.failure.as_ref().map(Failure::to_string),
        "exit_code": report.failure.as_ref().map_or(0, Failure::exit_code),
        "trace_hash": format!("{:016x}", report.trace_hash),
        "world_ms": report.world_time.as_millis() as u64,
    })
}

fn describe_all(sim: &Sim, summary: &Summary, processor_seconds: f64) -> Value {
    let failures: Vec<Value> = summary.failed.iter().map(describe).collect();
    let result = json!({
        "what": format!("sim {}", sim.profile),
        "commit": env!("QUORATE_COMMIT"),
        "seeds": [sim.seeds.start, sim.seeds.end],
        "twice": sim.twice,
        "failures": failures,
        "coverage_failure": summary.coverage_failure.as_ref().map(Failure::to_string),
        "processor_seconds": processor_seconds,
    });
    with_coverage(result, &summary.coverage)
}

/// The same, with what was reached.
fn with_coverage(mut result: Value, coverage: &Coverage) -> Value {
    let Coverage { runs, marks, counts } = coverage;
    result["runs"] = json!(runs);
    result["events"] = json!(counts.events);
    result["steps"] = json!(counts.steps);
    result["messages"] = json!(counts.messages_sent);
    result["marks"] = marks.iter().map(|(name, count)| (name.to_owned(), Value::from(count))).collect();
    result
}

/// Processor time of this process so far.
fn processor_seconds() -> f64 {
    Usage::now().cpu_ms as f64 / 1e3
}

/// A bar on a terminal, nothing elsewhere.
fn progress(count: u64) -> ProgressBar {
    if !is_watched() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left {msg}");
    let bar = ProgressBar::new(count);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_seeds() {
        assert_eq!(seeds("3..7"), Ok(3..7));
        assert!(seeds("7..3").is_err() && seeds("7").is_err() && seeds("a..b").is_err());
    }

    /// With fewer seeds than its floors are meant for, a profile is never held against them.
    #[test]
    fn ci_runs_enough_seeds_of_each_profile_for_its_floors() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/run");
        let stages = std::fs::read_to_string(path).unwrap();
        for runner in runners() {
            let Profile { name, floors_seeds, .. } = runner.profile;
            let line = stages.lines().find_map(|line| line.strip_prefix(&format!("simulate {name} ")));
            // `bundles` is `carried` with buckets in fixed places; its floors are those of a test.
            assert!(line.is_some() || name == "bundles", "{name} is not run");
            let count: u64 = line.map_or(u64::MAX, |count| count.parse().unwrap());
            assert!(
                count >= floors_seeds,
                "{count} seeds of {name}, whose floors are those of {floors_seeds}"
            );
        }
    }

    #[test]
    fn a_seed_runs_and_repeats() {
        for runner in runners() {
            let short = Overrides { safety_ms: Some(200), ..Overrides::default() };
            let plan = Plan::draw(&runner.profile, 1, &short);
            let report = runner.one(&plan, true);
            assert_eq!(report.failure, None, "{}", report.explain("quorate sim"));
        }
    }
}
