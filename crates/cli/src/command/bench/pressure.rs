//! What all kinds of load have in common: how much, for how long, on whom, and where the result goes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use quorate_bench::{LoadOptions, Machine, Pace, Progress};
use serde::Serialize;

use crate::command::data::Door;
use crate::exit::{self, WithCode as _};
use crate::local;
use crate::output::is_watched;

/// How load is put on a cluster.
#[derive(Debug, Args)]
pub(crate) struct Pressure {
    /// Which cluster; its processes are measured if they run on this machine.
    #[command(flatten)]
    pub(crate) door: Door,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    pub(crate) clients: usize,
    /// Threads that play them.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Operations or transactions in a second, all clients together: an open loop, whose latencies count from when one
    /// was due. Without it, a closed loop.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Seconds before that are not.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) warmup: f64,
    /// Stop after so many operations or transactions, even if time is left.
    #[arg(long)]
    pub(crate) operations: Option<u64>,
    /// Milliseconds without an answer after which an outcome counts as unknown.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) timeout_ms: u64,
    /// What chance follows from.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
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

impl Pressure {
    /// What the load generator is told.
    ///
    /// # Errors
    /// If numbers make no sense, or the local cluster cannot be looked at.
    pub(crate) fn options(&self) -> Result<LoadOptions> {
        let seconds = |value: f64| {
            Duration::try_from_secs_f64(value)
                .ok()
                .context("seconds must be a number that is not negative")
                .code(exit::USAGE)
        };
        let local = if self.door.at.is_empty() { local::read(&self.door.local.data)? } else { None };
        let mut servers = self.pids.clone();
        if let Some(manifest) = &local {
            servers.extend(manifest.nodes.iter().filter_map(|node| Some(node.process.as_ref()?.pid)));
        }
        let disk = self.disk.clone().or_else(|| local.as_ref().map(|_| self.door.local.data.clone()));
        let machine =
            Machine::look(env!("QUORATE_COMMIT"), disk.as_deref()).context("cannot measure the disk")?;
        Ok(LoadOptions {
            addresses: self.door.addresses()?,
            clients: self.clients,
            threads: self.threads,
            pace: self.rate.map_or(Pace::Closed, Pace::Open),
            warmup: seconds(self.warmup)?,
            duration: Some(seconds(self.seconds)?),
            operations: self.operations,
            timeout: Duration::from_millis(self.timeout_ms),
            seed: self.seed,
            servers,
            machine,
        })
    }

    /// Appends a result to the file of results, if there is one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn keep<T: Serialize>(&self, result: &T) -> Result<()> {
        let Some(path) = &self.results else { return Ok(()) };
        super::append_line(path, &serde_json::to_string(result)?)
    }
}

/// A line about what goes on, on a terminal only.
pub(super) fn watch(options: &LoadOptions, progress: &Arc<Progress>) -> ProgressBar {
    if !is_watched() {
        return ProgressBar::hidden();
    }
    let total = (options.duration.unwrap_or_default() + options.warmup).as_secs_f64() * 10.0;
    let bar = ProgressBar::new(total as u64);
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

/// The exit code of a load that did not take place.
pub(super) fn code(error: &quorate_bench::LoadError) -> u8 {
    match error {
        quorate_bench::LoadError::Options(_) => exit::USAGE,
        quorate_bench::LoadError::Client(_) | quorate_bench::LoadError::Unsettled(_) => exit::UNAVAILABLE,
        quorate_bench::LoadError::System(_) => exit::FAILED,
    }
}

/// Gives the result of a load its exit code.
pub(super) fn coded<T>(result: Result<T, quorate_bench::LoadError>) -> Result<T> {
    result.map_err(|error| {
        let code = code(&error);
        exit::failure(code, error.to_string())
    })
}

/// Judges what a run of transactions counted.
///
/// # Errors
/// If servers gave answers that make no sense, or acknowledged nothing.
pub(super) fn judge(report: &quorate_bench::TransactionReport) -> Result<()> {
    if report.report.counts.nonsense > 0 {
        return Err(exit::failure(exit::FAILED, "servers gave answers that no correct server gives"));
    }
    if report.fates.committed == 0 {
        return Err(exit::failure(exit::UNAVAILABLE, "no transaction was acknowledged: is the cluster up?"));
    }
    Ok(())
}
