//! Campaigns against real processes on this machine: load from clients whose histories are judged, while nodes are
//! killed or replaced. The same code runs briefly in tests and for long by hand.

mod ballast;
mod cluster;
mod comings;
mod kills;
mod members;
mod pulse;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use quorate_bench::Machine;
use quorate_workload::Kind;
use serde_json::{Value, json};

use crate::args::Settings;
use crate::command::bench::append_line;
use crate::exit::{self, failure};
use crate::output::{Format, print, print_json};
use ballast::Ballast;
use cluster::Cluster;
use witness::Witnesses;

/// How to torture it.
#[derive(Debug, Subcommand)]
pub(crate) enum Torture {
    /// Kill the leader again and again, then all nodes at once; no acknowledged write may be lost.
    Kills(kills::Kills),
    /// Grow, shrink, and replace every node under load.
    Members(members::Members),
    /// Kill every node of a cluster with placed buckets, then let many join at once.
    Comings(comings::Comings),
}

/// What all campaigns share.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Clients, shared out among the workloads.
    #[arg(long, default_value_t = 16)]
    pub(crate) clients: usize,
    /// What the clients do; one history each.
    #[arg(long, value_delimiter = ',', default_value = "register,append", value_parser = kind)]
    pub(crate) workloads: Vec<Kind>,
    /// Operations in a second for each workload; without it, as many as go.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Keys for each workload.
    #[arg(long, default_value_t = 100)]
    pub(crate) keys: u64,
    /// Keys of 100-byte values that are written before and read back in the end; nobody touches them meanwhile.
    #[arg(long, default_value_t = 0)]
    pub(crate) ballast: u64,
    /// Where the cluster lives; without it, a directory that is removed if all is well.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Client port of node 1; 0: any free ports.
    #[arg(long, default_value_t = 0)]
    pub(crate) base_port: u16,
    /// What chance follows from.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Append the result to this file, as one line of JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Keep the data and the histories even if all is well.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Kill all nodes at once in the end and start them again: what was acknowledged must be there.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) blackout: bool,
    /// How the nodes are configured.
    #[command(flatten)]
    pub(crate) settings: Settings,
}

fn kind(name: &str) -> Result<Kind, String> {
    Kind::find(name).ok_or_else(|| {
        let known: Vec<&str> = Kind::ALL.into_iter().map(Kind::name).collect();
        format!("there are {}", known.join(", "))
    })
}

/// What a campaign found out besides the verdicts.
#[derive(Debug)]
pub(crate) struct Account {
    /// Which campaign.
    pub(crate) name: &'static str,
    /// Its parameters and its steps, for the results.
    pub(crate) details: Value,
}

/// Runs a campaign.
pub(crate) fn run(torture: &Torture, format: Format) -> Result<ExitCode> {
    let (common, nodes) = match torture {
        Torture::Kills(kills) => (&kills.common, kills.nodes),
        Torture::Members(members) => (&members.common, members.nodes),
        Torture::Comings(comings) => (&comings.common, comings.nodes),
    };
    let mut settings = common.settings.clone();
    if let Torture::Comings(comings) = torture {
        settings.set.push(("cluster.buckets".into(), comings.buckets.to_string()));
        settings.set.push(("cluster.copies".into(), comings.copies.to_string()));
    }
    let (dir, is_own) = match &common.data {
        Some(dir) => (std::path::absolute(dir)?, false),
        None => (std::env::temp_dir().join(format!("quorate-torture-{}", std::process::id())), true),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let machine = Machine::look(env!("QUORATE_COMMIT"), Some(&dir)).context("cannot measure the disk")?;
    let mut cluster = Cluster::start(&dir, nodes, common.base_port, &settings)?;
    let outcome = campaign(torture, common, &mut cluster, &machine);
    // Whatever happened, no process stays behind.
    cluster.stop()?;
    let (code, result) = match outcome {
        Ok(done) => done,
        Err(error) => {
            return Err(error.context(format!("the campaign broke off; its data is in {}", dir.display())));
        }
    };
    if let Some(path) = &common.results {
        append_line(path, &result.to_string())?;
    }
    match format {
        Format::Json => print_json(&result)?,
        Format::Text => print(&summary(&result))?,
    }
    if code == 0 && is_own && !common.keep {
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    } else {
        eprintln!("data and histories are in {}", dir.display());
    }
    Ok(ExitCode::from(code))
}

/// Load, the campaign itself, a blackout, the last look, the verdicts.
fn campaign(
    torture: &Torture,
    common: &Common,
    cluster: &mut Cluster,
    machine: &Machine,
) -> Result<(u8, Value)> {
    let ballast = Ballast::load(common, cluster, machine)?;
    let mut witnesses = Witnesses::start(common, cluster, machine)?;
    witnesses.wait_for_writes(100, Duration::from_secs(30))?;
    let steps = match torture {
        Torture::Kills(kills) => kills::campaign(kills, cluster, &witnesses),
        Torture::Members(members) => members::campaign(members, cluster, &witnesses),
        Torture::Comings(comings) => comings::campaign(comings, cluster, &witnesses),
    };
    let account = match steps {
        Ok(account) => account,
        Err(error) => {
            witnesses.abandon();
            return Err(error);
        }
    };
    let blackout_ms = match blackout(common, cluster, &witnesses) {
        Ok(ms) => ms,
        Err(error) => {
            witnesses.abandon();
            return Err(error);
        }
    };
    let (code, clients) = witnesses.finish(cluster)?;
    ballast.read_back(cluster)?;
    let result = json!({
        "what": format!("torture {}", account.name),
        "machine": machine,
        "seed": common.seed,
        "details": account.details,
        "ballast": common.ballast,
        "blackout_ms": blackout_ms,
        "clients": clients,
        "exit_code": code,
    });
    Ok((code, result))
}

/// Kills all nodes at once and starts them again; milliseconds until a write was acknowledged.
fn blackout(common: &Common, cluster: &mut Cluster, witnesses: &Witnesses) -> Result<Option<u64>> {
    if !common.blackout || cluster.is_volatile() {
        return Ok(None);
    }
    let begun = quorate_bench::now_ns();
    for id in cluster.ids() {
        cluster.kill(id)?;
    }
    let down = quorate_bench::now_ns();
    for id in cluster.ids() {
        cluster.revive(id)?;
    }
    cluster.wait_serving()?;
    witnesses.wait_for_write_after(down, Duration::from_secs(60))?;
    let ms = quorate_bench::now_ns().saturating_sub(begun) / 1_000_000;
    eprintln!("all nodes were killed at once and started again: {ms} ms without a write");
    witnesses.wait_for_writes(100, Duration::from_secs(30))?;
    Ok(Some(ms))
}

fn summary(result: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let clients = &result["clients"];
    let mut lines = format!(
        "{}: {} operations done, {} refused, {} unknown; longest gap without a write {} ms\n",
        text(&result["what"]),
        clients["done"],
        clients["refused"],
        clients["unknown"],
        clients["gap_ms_max"]
    );
    for verdict in clients["verdicts"].as_array().into_iter().flatten() {
        lines += &format!(
            "{} {}: {} ({})\n",
            text(&verdict["workload"]),
            text(&verdict["property"]),
            text(&verdict["verdict"]),
            text(&verdict["looked_at"])
        );
        for violation in verdict["violations"].as_array().into_iter().flatten() {
            lines += &format!("  {}: {}\n", text(&violation["name"]), text(&violation["text"]));
        }
    }
    lines
}

/// An error of a campaign whose cluster does not do what it must.
fn stuck(text: String) -> anyhow::Error {
    failure(exit::FAILED, text)
}
