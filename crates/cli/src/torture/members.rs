//! The members change, until none of the first is left.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use quorate_kernel::NodeId;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::watched::Watched as _;
use super::witness::Witnesses;
use super::{Account, Common, stuck};

/// How long service may be gone after a step before the campaign gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Grow, shrink, and replace every node under load.
#[derive(Debug, Args)]
pub(crate) struct Members {
    /// How many nodes at first, and in the end.
    #[arg(long, default_value_t = 3)]
    pub(crate) nodes: u64,
    /// How many it grows by before it shrinks.
    #[arg(long, default_value_t = 2)]
    pub(crate) grow: u64,
    /// How often all nodes are replaced.
    #[arg(long, default_value_t = 1)]
    pub(crate) rounds: usize,
    /// Operations between steps.
    #[arg(long, default_value_t = 200)]
    pub(crate) operations: u64,
    /// Kill a member while the list changes, and start it again.
    #[arg(long)]
    pub(crate) kill: bool,
    /// What all campaigns share.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What happens to the list.
enum Step {
    Add,
    Remove(NodeId),
    Transfer,
}

/// The campaign.
pub(crate) fn campaign(members: &Members, cluster: &mut Cluster, witnesses: &Witnesses) -> Result<Account> {
    let mut steps = Vec::new();
    for round in 1..=members.rounds {
        let founders = cluster.ids();
        let mut leaving = founders.clone();
        for _ in 0..members.grow {
            steps.push(take(members, cluster, witnesses, &Step::Add)?);
        }
        for _ in 0..members.grow {
            if let Some(id) = leaving.pop() {
                steps.push(take(members, cluster, witnesses, &Step::Remove(id))?);
            }
        }
        while let Some(id) = leaving.pop() {
            steps.push(take(members, cluster, witnesses, &Step::Add)?);
            steps.push(take(members, cluster, witnesses, &Step::Remove(id))?);
        }
        steps.push(take(members, cluster, witnesses, &Step::Transfer)?);
        let ids = cluster.ids();
        if ids.len() as u64 != members.nodes || ids.iter().any(|id| founders.contains(id)) {
            return Err(stuck(format!("round {round} left the nodes {ids:?} of {founders:?}")));
        }
    }
    let details = json!({
        "nodes": members.nodes,
        "grow": members.grow,
        "rounds": members.rounds,
        "clients": members.common.clients,
        "steps": steps,
    });
    Ok(Account { name: "members", details })
}

fn take(members: &Members, cluster: &mut Cluster, witnesses: &Witnesses, step: &Step) -> Result<Value> {
    let (begun_ns, begun) = (quorate_bench::now_ns(), Instant::now());
    let what = match step {
        Step::Add => {
            let bystander = if members.kill { cluster.ids().first().copied() } else { None };
            if let Some(id) = bystander {
                cluster.kill(id)?;
            }
            let added = cluster.add();
            if let Some(id) = bystander {
                cluster.revive(id)?;
            }
            format!("add {}", added?)
        }
        Step::Remove(id) => {
            cluster.remove(*id)?;
            format!("remove {id}")
        }
        Step::Transfer => {
            cluster.transfer()?;
            "transfer leadership".to_owned()
        }
    };
    let took_ms = begun.elapsed().as_millis() as u64;
    witnesses.progress().move_to(cluster.sockets());
    witnesses.wait_for_write_after(quorate_bench::now_ns(), PATIENCE)?;
    witnesses.wait_for_writes(members.operations, PATIENCE)?;
    let gap_ms = witnesses.gap_ms_since(begun_ns);
    eprintln!("{what}: {took_ms} ms, {gap_ms} ms without a write");
    Ok(json!({ "step": what, "took_ms": took_ms, "gap_ms": gap_ms }))
}
