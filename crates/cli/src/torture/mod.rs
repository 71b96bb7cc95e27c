//! Campaigns against real processes on this machine: load from clients whose histories are judged, while nodes are
//! killed, replaced or cut off. The same code runs briefly in tests and for long by hand.

mod ballast;
mod churn;
mod cluster;
mod comings;
mod cuts;
mod interrupt;
mod kills;
mod members;
mod net;
mod partitions;
mod pulse;
mod tpcc;
mod watched;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use quorate_bench::Machine;
use quorate_host::config::{AskedTopology, Durability};
use quorate_workload::Kind;
use serde_json::{Value, json};

use crate::args::Settings;
use crate::command::bench::append_line;
use crate::command::start::load_config;
use crate::exit::{self, failure};
use crate::output::{Format, print, print_json};
use ballast::Ballast;
use cluster::Cluster;
use net::Net;
use watched::Watched;
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
    // Comments for documentation here would hide those of the arguments, which are the manual.
    Partitions(partitions::Partitions),
    Churn(churn::Churn),
    Tpcc(tpcc::Tpcc),
}

/// Where a campaign takes place, and where its result goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Home {
    /// Where the cluster lives; without it, a directory that is removed if all is well.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// What chance follows from.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Append the result to this file, as one line of JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Keep the data and the histories even if all is well.
    #[arg(long)]
    pub(crate) keep: bool,
    /// How the nodes are configured.
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// What all campaigns with judged histories share.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Clients, shared out among the workloads.
    #[arg(long, default_value_t = 16)]
    pub(crate) clients: usize,
    /// What the clients do; one history each. Register and append, unless the campaign says otherwise.
    #[arg(long, value_delimiter = ',', value_parser = kind)]
    pub(crate) workloads: Vec<Kind>,
    /// Operations in a second for each workload; without it, as many as go, unless the campaign says otherwise.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Keys for each workload.
    #[arg(long, default_value_t = 100)]
    pub(crate) keys: u64,
    /// Keys of 100-byte values that are written before and read back in the end; nobody touches them meanwhile.
    #[arg(long, default_value_t = 0)]
    pub(crate) ballast: u64,
    /// Client port of node 1; 0: any free ports. Nodes with networks of their own have the usual ones.
    #[arg(long, default_value_t = 0)]
    pub(crate) base_port: u16,
    /// Kill all nodes at once in the end and start them again: what was acknowledged must be there.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) blackout: bool,
    /// Where, and how.
    #[command(flatten)]
    pub(crate) home: Home,
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

impl Torture {
    fn home(&self) -> &Home {
        match self {
            Torture::Kills(kills) => &kills.common.home,
            Torture::Members(members) => &members.common.home,
            Torture::Comings(comings) => &comings.common.home,
            Torture::Partitions(partitions) => &partitions.common.home,
            Torture::Churn(churn) => &churn.common.home,
            Torture::Tpcc(tpcc) => &tpcc.home,
        }
    }

    /// How many nodes begin, and the client port of the first.
    fn nodes(&self) -> (u64, u16) {
        match self {
            Torture::Kills(kills) => (kills.nodes, kills.common.base_port),
            Torture::Members(members) => (members.nodes, members.common.base_port),
            Torture::Comings(comings) => (comings.nodes, comings.common.base_port),
            Torture::Partitions(partitions) => (partitions.nodes, partitions.common.base_port),
            Torture::Churn(churn) => (churn.nodes, churn.common.base_port),
            Torture::Tpcc(tpcc) => (tpcc.nodes, tpcc.base_port),
        }
    }

    /// The settings that were asked for, and those that the campaign consists of.
    fn settings(&self) -> Result<Settings> {
        let mut settings = self.home().settings.clone();
        let (buckets, copies) = match self {
            Torture::Kills(_) | Torture::Members(_) => {
                // What they are about is one log on all nodes, however many.
                if load_config(&settings, &[])?.config.cluster.topology == AskedTopology::Auto {
                    settings.set.push(("cluster.topology".into(), "view".into()));
                }
                return Ok(settings);
            }
            Torture::Comings(comings) => (comings.buckets, comings.copies),
            Torture::Partitions(partitions) => (partitions.buckets, partitions.copies),
            Torture::Churn(churn) => {
                settings.set.push(("cluster.topology".into(), "ring".into()));
                settings.set.push(("cluster.repair_ms".into(), churn.repair_ms.to_string()));
                (churn.buckets, churn.copies)
            }
            Torture::Tpcc(tpcc) => (tpcc.buckets, tpcc.copies),
        };
        settings.set.push(("cluster.buckets".into(), buckets.to_string()));
        settings.set.push(("cluster.copies".into(), copies.to_string()));
        Ok(settings)
    }

    /// What its clients do, and how fast, if they are judged.
    fn common(&self) -> Option<Common> {
        let (common, workloads, rate) = match self {
            Torture::Kills(kills) => (&kills.common, &[Kind::Register, Kind::Append][..], None),
            Torture::Members(members) => (&members.common, &[Kind::Register, Kind::Append][..], None),
            Torture::Comings(comings) => (&comings.common, &[Kind::Register, Kind::Append][..], None),
            Torture::Partitions(partitions) => {
                (&partitions.common, &partitions::WORKLOADS[..], Some(partitions::RATE))
            }
            Torture::Churn(churn) => (&churn.common, &churn::WORKLOADS[..], Some(churn::RATE)),
            Torture::Tpcc(_) => return None,
        };
        let mut common = common.clone();
        if common.workloads.is_empty() {
            common.workloads = workloads.to_vec();
        }
        common.rate = common.rate.or(rate);
        Some(common)
    }
}

/// Runs a campaign.
pub(crate) fn run(torture: &Torture, format: Format) -> Result<ExitCode> {
    let (home, settings, (nodes, base_port)) = (torture.home(), torture.settings()?, torture.nodes());
    let needs_disk = matches!(torture, Torture::Partitions(_) | Torture::Tpcc(_));
    if needs_disk && load_config(&settings, &[])?.config.durable.mode == Durability::Memory {
        let text = "nodes are killed and come back: they need what --durability memory does not keep";
        return Err(failure(exit::USAGE, text));
    }
    interrupt::watch()?;
    let is_cut = matches!(torture, Torture::Partitions(_));
    let net = if is_cut { Some(Net::make(nodes)?) } else { None };
    let (dir, is_own) = match &home.data {
        Some(dir) => (std::path::absolute(dir)?, false),
        None => (std::env::temp_dir().join(format!("quorate-torture-{}", std::process::id())), true),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let machine = Machine::look(env!("QUORATE_COMMIT"), Some(&dir)).context("cannot measure the disk")?;
    let mut cluster = Cluster::start(&dir, nodes, base_port, &settings, net)?;
    let outcome = match (torture, torture.common()) {
        (Torture::Tpcc(tpcc), _) => tpcc::campaign(tpcc, &mut cluster, &machine),
        (_, Some(common)) => campaign(torture, &common, &mut cluster, &machine),
        (_, None) => Err(failure(exit::USAGE, "there are no clients")),
    };
    // Whatever happened, no process stays behind.
    cluster.stop()?;
    drop(cluster);
    let (code, result) = match outcome {
        Ok(done) => done,
        Err(error) => {
            return Err(error.context(format!("the campaign broke off; its data is in {}", dir.display())));
        }
    };
    if let Some(path) = &home.results {
        append_line(path, &result.to_string())?;
    }
    match format {
        Format::Json => print_json(&result)?,
        Format::Text if torture.common().is_none() => print(&tpcc::summary(&result))?,
        Format::Text => print(&summary(&result))?,
    }
    if code == 0 && is_own && !home.keep {
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
    let steps = steps(torture, common, cluster, &witnesses);
    let (account, blackout_ms) = match steps {
        Ok(done) => done,
        Err(error) => {
            witnesses.abandon(cluster.dir());
            return Err(error);
        }
    };
    let (code, clients) = witnesses.finish(cluster)?;
    ballast.read_back(cluster)?;
    let result = json!({
        "what": format!("torture {}", account.name),
        "machine": machine,
        "seed": common.home.seed,
        "details": account.details,
        "ballast": common.ballast,
        "blackout_ms": blackout_ms,
        "clients": clients,
        "exit_code": code,
    });
    Ok((code, result))
}

/// The campaign itself, then a blackout if there is to be one.
fn steps(
    torture: &Torture,
    common: &Common,
    cluster: &mut Cluster,
    witnesses: &Witnesses,
) -> Result<(Account, Option<u64>)> {
    witnesses.wait_for_writes(100, Duration::from_secs(30))?;
    let account = match torture {
        Torture::Kills(kills) => kills::campaign(kills, cluster, witnesses),
        Torture::Members(members) => members::campaign(members, cluster, witnesses),
        Torture::Comings(comings) => comings::campaign(comings, cluster, witnesses),
        Torture::Partitions(partitions) => partitions::campaign(partitions, cluster, witnesses),
        Torture::Churn(churn) => churn::campaign(churn, cluster, witnesses),
        Torture::Tpcc(_) => Err(failure(exit::USAGE, "TPC-C has clients of its own")),
    }?;
    let is_dark = common.blackout && !cluster.is_volatile();
    let blackout_ms = if is_dark { Some(blackout(cluster, witnesses)?) } else { None };
    Ok((account, blackout_ms))
}

/// Kills all nodes at once and starts them again; milliseconds until a write was acknowledged.
fn blackout<W: Watched>(cluster: &mut Cluster, clients: &W) -> Result<u64> {
    let begun = quorate_bench::now_ns();
    for id in cluster.ids() {
        cluster.kill(id)?;
    }
    let down = quorate_bench::now_ns();
    for id in cluster.ids() {
        cluster.revive(id)?;
    }
    cluster.wait_serving()?;
    clients.wait_for_write_after(down, Duration::from_secs(60))?;
    let ms = quorate_bench::now_ns().saturating_sub(begun) / 1_000_000;
    eprintln!("all nodes were killed at once and started again: {ms} ms without a write");
    clients.wait_for_writes(100, Duration::from_secs(30))?;
    Ok(ms)
}

fn summary(result: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let clients = &result["clients"];
    let mut lines = format!(
        "{}: {} operations done, {} of them within a second, {} refused, {} unknown; longest gap without a write {} ms\n",
        text(&result["what"]),
        clients["done"],
        clients["within_1s"],
        clients["refused"],
        clients["unknown"],
        clients["gap_ms_max"]
    );
    let minutes = clients["minutes"].as_array().into_iter().flatten();
    let share = |minute: &Value| {
        minute["within_1s"].as_f64().unwrap_or(0.0) / minute["done"].as_f64().unwrap_or(1.0).max(1.0)
    };
    let worst = minutes.enumerate().min_by(|(_, one), (_, other)| share(one).total_cmp(&share(other)));
    if let Some((number, minute)) = worst {
        lines +=
            &format!("the worst minute: {}, {:.2} % within a second\n", number + 1, share(minute) * 100.0);
    }
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
