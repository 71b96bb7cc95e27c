//! Nodes live for a while, die with all they have, and others take their places.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use quorate_kernel::{NodeId, Rng};
use quorate_workload::Kind;
use serde_json::json;

use super::cluster::Cluster;
use super::watched::Watched as _;
use super::witness::Witnesses;
use super::{Account, Common, stuck};
use crate::exit::WithCode as _;

/// How long anything may take before the campaign gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// What clients do, unless told otherwise.
pub(super) const WORKLOADS: [Kind; 4] = [Kind::Register, Kind::Append, Kind::Bank, Kind::Cycle];
/// Operations in a second of each, unless told otherwise.
pub(super) const RATE: f64 = 150.0;

/// Let nodes live for chance times, kill them with all they have, and start new ones in their places.
///
/// Lifetimes are exponential. A node that dies is gone with its disk (`kill -9`, and its directory is removed); at the same moment a new
/// one is started that joins by itself. Groups have to replace members faster than they die.
#[derive(Debug, Args)]
pub(crate) struct Churn {
    /// For how long.
    #[arg(long, default_value_t = 30.0)]
    pub(crate) minutes: f64,
    /// How many nodes live at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(3..=99))]
    pub(crate) nodes: u64,
    /// Mean lifetime of a node, in seconds.
    #[arg(long, default_value_t = 40.0)]
    pub(crate) lifetime: f64,
    /// Into how many buckets keys are cut.
    #[arg(long, default_value_t = 2)]
    pub(crate) buckets: u16,
    /// How many nodes a group should have, about.
    #[arg(long, default_value_t = 13)]
    pub(crate) copies: u8,
    /// Milliseconds for which a node may be gone before its group lets it go.
    #[arg(long, default_value_t = 500)]
    pub(crate) repair_ms: u64,
    /// What all campaigns share. Unless told otherwise: the workloads register, append, bank and cycle, 150 operations in
    /// a second each.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The campaign.
pub(crate) fn campaign(churn: &Churn, cluster: &mut Cluster, witnesses: &Witnesses) -> Result<Account> {
    let time = Duration::try_from_secs_f64(churn.minutes * 60.0).context("--minutes makes no sense");
    let time = time.code(crate::exit::USAGE)?;
    let mut rng = Rng::new(churn.common.home.seed);
    let mut lifetime = || {
        let drawn = -(1.0 - rng.fraction()).ln() * churn.lifetime;
        Duration::try_from_secs_f64(drawn).unwrap_or(time)
    };
    let mut deaths: BTreeMap<NodeId, Duration> =
        cluster.ids().into_iter().map(|id| (id, lifetime())).collect();
    let (begun, mut count) = (Instant::now(), 0_u64);
    let (mut groups_most, mut gap_ms_max) = (0, 0);
    while let Some((id, at)) = deaths.iter().map(|(id, at)| (*id, *at)).min_by_key(|(_, at)| *at)
        && at < time
    {
        witnesses.let_run(at.saturating_sub(begun.elapsed()))?;
        let from = quorate_bench::now_ns();
        cluster.retire(id)?;
        deaths.remove(&id);
        let known = cluster.ids();
        cluster.join(1)?;
        for fresh in cluster.ids().into_iter().filter(|id| !known.contains(id)) {
            deaths.insert(fresh, begun.elapsed() + lifetime());
        }
        witnesses.progress().move_to(cluster.sockets());
        count += 1;
        // Who dies when does not depend on how the others are: a pause here would be made up for by several deaths at once.
        let silence = quorate_bench::now_ns().saturating_sub(witnesses.progress().last_write_ns());
        if Duration::from_nanos(silence) > PATIENCE {
            return Err(stuck(format!("no write was acknowledged for {} s", PATIENCE.as_secs())));
        }
        gap_ms_max = gap_ms_max.max(witnesses.gap_ms_since(from));
        if count.is_multiple_of(20) {
            let groups = cluster.groups().unwrap_or_default();
            groups_most = groups_most.max(groups.len());
            eprintln!("{} s: {count} nodes have died; groups {groups:?}", begun.elapsed().as_secs());
        }
    }
    witnesses.let_run(time.saturating_sub(begun.elapsed()))?;
    witnesses.wait_for_write_after(quorate_bench::now_ns(), PATIENCE)?;
    for id in cluster.ids() {
        cluster.wait_in(id, PATIENCE)?;
    }
    let details = json!({
        "nodes": churn.nodes,
        "lifetime_s": churn.lifetime,
        "buckets": churn.buckets,
        "copies": churn.copies,
        "repair_ms": churn.repair_ms,
        "clients": churn.common.clients,
        "seconds": begun.elapsed().as_secs(),
        "deaths": count,
        "groups_most": groups_most,
        "gap_ms_max": gap_ms_max,
    });
    Ok(Account { name: "churn", details })
}
