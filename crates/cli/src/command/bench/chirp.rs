//! `bench chirp`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use quorate_bench::{ChirpReport, ChirpSpec, run_chirp};
use serde::Serialize;

use super::pressure::{Pressure, coded, watch};
use crate::exit::{self, failure};
use crate::output::{Format, print, print_json};

/// Run Chirp on a cluster: users post, and their followers fetch timelines.
///
/// The application of the paper on Scatter (section 7.2), which `examples/chirp` is: few users are followed by many (a power law), and
/// those post more often. For each post, followers of its author fetch their timelines. Each client is a thread with a native client of
/// its own; --timeout-ms is how long it tries. Users and whom they follow are written first, under keys that begin with
/// `chirp:{bench_`, unless they are there; posts of earlier runs stay. A fetch is out of order if an author's posts in it go backward
/// behind what any client was told before, have a gap, or are others than before. Exit codes: 0 measured, 1 a fetch was out of order or
/// servers gave answers that make no sense, 69 nobody answers.
#[derive(Debug, Args)]
pub(crate) struct ChirpArgs {
    /// How many users.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) users: usize,
    /// A user has n followers with a probability proportional to n to the power of minus this.
    #[arg(long, default_value_t = 2.3)]
    pub(crate) exponent: f64,
    /// No user has fewer followers.
    #[arg(long, default_value_t = 4)]
    pub(crate) followers_min: usize,
    /// How many followers fetch their timelines after each post.
    #[arg(long, default_value_t = 1)]
    pub(crate) fetches: usize,
    /// Posts that a fetch wants of each who is followed, at most 50.
    #[arg(long, default_value_t = 20)]
    pub(crate) timeline: usize,
    /// What names of users begin with.
    #[arg(long, default_value = "bench_")]
    pub(crate) prefix: String,
    /// How the load is put on the cluster.
    #[command(flatten)]
    pub(crate) pressure: Pressure,
}

/// One line of results.
#[derive(Debug, Serialize)]
struct Outcome {
    benchmark: &'static str,
    run: ChirpReport,
}

/// Lets users follow each other, post and fetch.
pub(super) fn run(args: &ChirpArgs, format: Format) -> Result<ExitCode> {
    if args.pressure.threads != 1 {
        return Err(failure(exit::USAGE, "each client is a thread of its own here: choose --clients"));
    }
    let mut options = args.pressure.options()?;
    options.addresses = args.pressure.door.native_addresses()?;
    options.threads = options.clients;
    let spec = ChirpSpec {
        users: args.users,
        exponent: args.exponent,
        followers_min: args.followers_min,
        fetches: args.fetches,
        timeline: args.timeline,
        prefix: args.prefix.clone(),
    };
    let progress = Arc::default();
    let bar = watch(&options, &progress);
    let measured = run_chirp(&options, &spec, &progress);
    bar.finish_and_clear();
    let outcome = Outcome { benchmark: "chirp", run: coded(measured)? };
    args.pressure.keep(&outcome)?;
    match format {
        Format::Json => print_json(&outcome)?,
        Format::Text => print(&outcome.run.render())?,
    }
    let ChirpReport { report, out_of_order, .. } = &outcome.run;
    if *out_of_order > 0 {
        return Err(failure(exit::FAILED, format!("{out_of_order} fetches were out of order")));
    }
    if report.counts.nonsense > 0 {
        return Err(failure(exit::FAILED, "servers gave answers that no correct server gives"));
    }
    if report.counts.done == 0 {
        return Err(failure(exit::UNAVAILABLE, "no operation was acknowledged: is the cluster up?"));
    }
    Ok(ExitCode::SUCCESS)
}
