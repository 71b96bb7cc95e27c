//! The leader dies, again and again.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use quorate_kernel::Rng;
use serde_json::json;

use super::cluster::Cluster;
use super::watched::Watched as _;
use super::witness::Witnesses;
use super::{Account, Common};

/// How long service may be gone after a kill before the campaign gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kill the leader again and again, then all nodes at once.
#[derive(Debug, Args)]
pub(crate) struct Kills {
    /// How often.
    #[arg(long, default_value_t = 20)]
    pub(crate) kills: usize,
    /// How many nodes.
    #[arg(long, default_value_t = 3)]
    pub(crate) nodes: u64,
    /// Who is killed.
    #[arg(long, value_enum, default_value_t = Victim::Leader)]
    pub(crate) victim: Victim,
    /// Operations between a node's return and the next kill.
    #[arg(long, default_value_t = 500)]
    pub(crate) operations: u64,
    /// What all campaigns share.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Victim {
    /// Whoever leads.
    Leader,
    /// Anybody.
    Any,
}

/// The campaign.
pub(crate) fn campaign(kills: &Kills, cluster: &mut Cluster, witnesses: &Witnesses) -> Result<Account> {
    let mut rng = Rng::new(kills.common.home.seed);
    let (mut steps, mut gaps) = (Vec::new(), Vec::new());
    for number in 1..=kills.kills {
        let victim = match kills.victim {
            Victim::Leader => cluster.leader(PATIENCE)?,
            Victim::Any => {
                let ids = cluster.ids();
                ids[rng.below(ids.len() as u64) as usize]
            }
        };
        let killed_ns = quorate_bench::now_ns();
        cluster.kill(victim)?;
        // Answers that were on their way still arrive: only later ones show that there is service again.
        let quiet_ns = quorate_bench::now_ns();
        witnesses.wait_for_write_after(quiet_ns, PATIENCE)?;
        witnesses.wait_for_writes(kills.operations, PATIENCE)?;
        let gap_ms = witnesses.gap_ms_since(killed_ns);
        let begun = Instant::now();
        let back_ms = if cluster.is_volatile() {
            // Its memory has gone with it: another takes its place.
            cluster.add()?;
            cluster.remove(victim)?;
            witnesses.progress().move_to(cluster.sockets());
            begun.elapsed().as_millis() as u64
        } else {
            cluster.revive(victim)?;
            cluster.wait_caught_up(victim, PATIENCE)?;
            begun.elapsed().as_millis() as u64
        };
        witnesses.wait_for_writes(kills.operations, PATIENCE)?;
        eprintln!("kill {number}: node {victim}, {gap_ms} ms without a write, back after {back_ms} ms");
        gaps.push(gap_ms);
        steps.push(json!({ "node": victim, "gap_ms": gap_ms, "back_ms": back_ms }));
    }
    gaps.sort_unstable();
    let quantile =
        |part: usize| gaps.get((gaps.len() * part / 100).min(gaps.len().saturating_sub(1))).copied();
    let details = json!({
        "nodes": kills.nodes,
        "clients": kills.common.clients,
        "gap_ms": { "p50": quantile(50), "p90": quantile(90), "max": gaps.last() },
        "kills": steps,
    });
    Ok(Account { name: "kills", details })
}
