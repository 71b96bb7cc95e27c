//! Nodes of a cluster with placed buckets come and go: each is killed once, then many join at once.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use quorate_bench::now_ns;
use quorate_kernel::NodeId;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::pulse::Pulses;
use super::watched::Watched as _;
use super::witness::Witnesses;
use super::{Account, Common, interrupt, stuck};

/// How long anything may take before the campaign gives up.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long one write may take before its writer turns to another node.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Writes of each bucket between two steps.
const BEATS: usize = 100;

/// Kill every node once, one after the other, then let many join at once; buckets without the node must not notice.
#[derive(Debug, Args)]
pub(crate) struct Comings {
    /// How many nodes.
    #[arg(long, default_value_t = 20)]
    pub(crate) nodes: u64,
    /// Into how many buckets keys are cut.
    #[arg(long, default_value_t = 5)]
    pub(crate) buckets: u16,
    /// How many nodes hold each.
    #[arg(long, default_value_t = 4)]
    pub(crate) copies: u8,
    /// How many nodes are killed; without it, each once.
    #[arg(long)]
    pub(crate) kills: Option<usize>,
    /// How many nodes join at once in the end.
    #[arg(long, default_value_t = 20)]
    pub(crate) join: u64,
    /// What all campaigns share.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The campaign.
pub(crate) fn campaign(comings: &Comings, cluster: &mut Cluster, witnesses: &Witnesses) -> Result<Account> {
    let buckets = NonZeroU16::new(comings.buckets).context("--buckets must be above 0")?;
    let pulses = Pulses::start(buckets, cluster.addresses(), TIMEOUT);
    pulses.wait_for(BEATS, 0, PATIENCE)?;
    // What the clock of this machine does to a cluster to which nothing happens.
    let calm_from = now_ns();
    pulses.wait_for(5 * BEATS, calm_from, PATIENCE)?;
    let calm_ms = pulses.silences_ms(calm_from, now_ns()).into_iter().max().unwrap_or(0);
    eprintln!("undisturbed: at most {calm_ms} ms without a write to any bucket");
    let (mut steps, mut own_max, mut other_max) = (Vec::new(), 0, 0);
    let victims: Vec<NodeId> = cluster.ids().into_iter().take(comings.kills.unwrap_or(usize::MAX)).collect();
    for victim in victims {
        let (own, other, step) = kill(victim, cluster, witnesses, &pulses)?;
        (own_max, other_max) = (own_max.max(own), other_max.max(other));
        steps.push(step);
    }
    let joined = join(comings, cluster, &pulses)?;
    let details = json!({
        "nodes": comings.nodes,
        "buckets": comings.buckets,
        "copies": comings.copies,
        "clients": comings.common.clients,
        "calm_ms_max": calm_ms,
        "own_gap_ms_max": own_max,
        "other_gap_ms_max": other_max,
        "kills": steps,
        "join": joined,
    });
    Ok(Account { name: "comings", details })
}

/// Kills a node and brings it back. The longest silence of its own buckets and of the others, and what happened.
fn kill(
    victim: NodeId,
    cluster: &mut Cluster,
    witnesses: &Witnesses,
    pulses: &Pulses,
) -> Result<(u64, u64, Value)> {
    let held = cluster.buckets_of(victim)?;
    pulses.use_only(cluster.addresses_without(victim));
    let begun = now_ns();
    pulses.wait_for(BEATS, begun, PATIENCE)?;
    let killed = now_ns();
    cluster.kill(victim)?;
    let quiet = now_ns();
    pulses.wait_for(BEATS, quiet, PATIENCE)?;
    let out_ms = cluster.wait_out(victim, PATIENCE)?;
    pulses.wait_for(BEATS, now_ns(), PATIENCE)?;
    let silences = pulses.silences_ms(killed, now_ns());
    let of = |own: bool| {
        let buckets = (0_u16..).zip(&silences).filter(|(bucket, _)| held.contains(bucket) == own);
        buckets.map(|(_, ms)| *ms).max().unwrap_or(0)
    };
    let (own, other) = (of(true), of(false));
    cluster.revive(victim)?;
    let back = Instant::now();
    cluster.wait_in(victim, PATIENCE)?;
    let back_ms = back.elapsed().as_millis() as u64;
    pulses.use_only(cluster.addresses());
    witnesses.wait_for_writes(1, PATIENCE)?;
    eprintln!(
        "node {victim} with buckets {held:?} killed: {own} ms without a write to one of them, {other} ms to any other; out of \
         the view after {out_ms} ms, serving {back_ms} ms after its start"
    );
    let step = json!({
        "node": victim, "buckets": held, "own_gap_ms": own, "other_gap_ms": other, "out_ms": out_ms, "back_ms": back_ms,
    });
    Ok((own, other, step))
}

/// Lets many nodes join at once.
fn join(comings: &Comings, cluster: &mut Cluster, pulses: &Pulses) -> Result<Value> {
    if comings.join == 0 {
        return Ok(Value::Null);
    }
    let (before, members) = cluster.newest_view()?;
    let (from, begun) = (now_ns(), Instant::now());
    cluster.join(comings.join)?;
    let wanted = members + comings.join as usize;
    let deadline = Instant::now() + PATIENCE;
    let views = loop {
        let (number, count) = cluster.newest_view()?;
        if count >= wanted {
            break number - before;
        }
        if Instant::now() > deadline {
            return Err(stuck(format!("{count} of {wanted} nodes are members")));
        }
        interrupt::check()?;
        std::thread::sleep(LOOK_EVERY);
    };
    let ms = begun.elapsed().as_millis() as u64;
    cluster.wait_serving()?;
    let gap = pulses.silences_ms(from, now_ns()).into_iter().max().unwrap_or(0);
    eprintln!(
        "{} nodes joined at once: {views} views, {ms} ms, at most {gap} ms without a write to any bucket",
        comings.join
    );
    Ok(json!({ "nodes": comings.join, "views": views, "ms": ms, "gap_ms": gap }))
}
