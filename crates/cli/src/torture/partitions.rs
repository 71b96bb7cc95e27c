//! The network between nodes is cut in every manner, and nodes are killed, for as long as one likes.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use quorate_bench::now_ns;
use quorate_kernel::{NodeId, Rng};
use quorate_workload::Kind as Workload;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::cuts::{Cut, Kind};
use super::pulse::Pulses;
use super::watched::Watched as _;
use super::witness::Witnesses;
use super::{Account, Common};
use crate::exit::WithCode as _;

/// How long anything may take in a whole network before the campaign gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a writer waits before it asks another node: it may be cut off.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Milliseconds a cut lasts, least and most: short ones end before anybody was taken for dead (about 1.5 s), those of
/// one in eight last until copies were moved (10 s).
const SHORT_MS: (u64, u64) = (300, 8_000);
const LONG_MS: (u64, u64) = (11_000, 16_000);
/// What clients do, unless told otherwise.
pub(super) const WORKLOADS: [Workload; 4] =
    [Workload::Register, Workload::Append, Workload::Bank, Workload::Cycle];
/// Operations in a second of each, unless told otherwise: a history of hours can be judged still.
pub(super) const RATE: f64 = 100.0;
/// Operations between two steps.
const OPERATIONS: u64 = 50;

/// Cut the network between nodes in every manner and kill nodes.
///
/// Each node runs in a network namespace of its own, wired to a bridge: that needs root, `ip` (iproute2) and `iptables`.
/// Without them nothing is made, and the program ends with code 71. One pair of nodes, one node, groups, all or chance
/// ways are cut, both ways or one; clients reach all nodes meanwhile, except in one kind of cut. Namespaces, links and
/// rules are removed in the end, after failures and Ctrl-C too; after `kill -9` of this program they stay behind under
/// names that begin with `qt` and its process number.
#[derive(Debug, Args)]
pub(crate) struct Partitions {
    /// For how long.
    #[arg(long, default_value_t = 15.0)]
    pub(crate) minutes: f64,
    /// How many nodes.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(3..=50))]
    pub(crate) nodes: u64,
    /// Into how many buckets keys are cut.
    #[arg(long, default_value_t = 4)]
    pub(crate) buckets: u16,
    /// How many nodes hold each; 0: all, and nobody is ever taken for gone.
    #[arg(long, default_value_t = 3)]
    pub(crate) copies: u8,
    /// What all campaigns share. Unless told otherwise: the workloads register, append, bank and cycle, 100 operations in
    /// a second each.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The campaign.
pub(crate) fn campaign(
    partitions: &Partitions,
    cluster: &mut Cluster,
    witnesses: &Witnesses,
) -> Result<Account> {
    let time = Duration::try_from_secs_f64(partitions.minutes * 60.0).context("--minutes makes no sense");
    let time = time.code(crate::exit::USAGE)?;
    let buckets = NonZeroU16::new(partitions.buckets).context("--buckets must be above 0")?;
    let pulses = Pulses::start(buckets, cluster.addresses(), TIMEOUT);
    pulses.wait_for(1, 0, PATIENCE)?;
    let mut storm =
        Storm { rng: Rng::new(partitions.common.home.seed), cluster, witnesses, pulses, deck: Vec::new() };
    let (begun, mut steps) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        steps.push(storm.step(steps.len() + 1)?);
    }
    let details = json!({
        "nodes": partitions.nodes,
        "buckets": partitions.buckets,
        "copies": partitions.copies,
        "clients": partitions.common.clients,
        "seconds": begun.elapsed().as_secs(),
        "partitions": steps.iter().map(|step| step.cuts.len()).sum::<usize>(),
        "by_kind": by_kind(&steps),
        "kills": steps.iter().map(|step| step.kills.len()).sum::<usize>(),
        "recovered_ms_max": steps.iter().map(|step| step.recovered_ms).max(),
        "whole_ms_max": steps.iter().map(|step| step.whole_ms).max(),
        "steps": steps.iter().map(Step::describe).collect::<Vec<_>>(),
    });
    Ok(Account { name: "partitions", details })
}

/// What happened from a whole network to a whole network.
#[derive(Debug)]
struct Step {
    /// The cuts, one after the other.
    cuts: Vec<Kind>,
    /// How long they lasted together.
    cut_ms: u64,
    /// Nodes that were killed meanwhile.
    kills: Vec<NodeId>,
    /// The longest time without a write to any bucket, and to one of them.
    gap_ms: u64,
    bucket_gap_ms: u64,
    /// From the end of the last cut until all buckets took writes.
    recovered_ms: u64,
    /// From then until all nodes were members and served.
    whole_ms: u64,
}

impl Step {
    fn describe(&self) -> Value {
        json!({
            "cuts": self.cuts.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
            "cut_ms": self.cut_ms,
            "kills": self.kills,
            "gap_ms": self.gap_ms,
            "bucket_gap_ms": self.bucket_gap_ms,
            "recovered_ms": self.recovered_ms,
            "whole_ms": self.whole_ms,
        })
    }
}

/// How often each kind came, and the longest times without a write in steps of that kind alone.
fn by_kind(steps: &[Step]) -> Value {
    let mut all: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for step in steps {
        for kind in &step.cuts {
            all.entry(kind.name()).or_default().0 += 1;
        }
        if let [kind] = step.cuts[..] {
            let (_, gap, bucket_gap) = all.entry(kind.name()).or_default();
            *gap = (*gap).max(step.gap_ms);
            *bucket_gap = (*bucket_gap).max(step.bucket_gap_ms);
        }
    }
    let told = |(count, gap, bucket_gap)| json!({ "count": count, "gap_ms_max": gap, "bucket_gap_ms_max": bucket_gap });
    all.into_iter()
        .map(|(name, found)| (name.to_owned(), told(found)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Cuts one after the other.
struct Storm<'a> {
    rng: Rng,
    cluster: &'a mut Cluster,
    witnesses: &'a Witnesses,
    pulses: Pulses,
    /// Kinds that are still to come before one comes again.
    deck: Vec<Kind>,
}

impl Storm<'_> {
    /// One or more cuts, perhaps kills, then a whole network until all is well.
    fn step(&mut self, number: usize) -> Result<Step> {
        let (from, mut cuts, mut kills) = (now_ns(), Vec::new(), Vec::new());
        loop {
            cuts.push(self.cut(&mut kills)?);
            // The next cut may come before anything has healed.
            if !self.rng.chance(1, 4) {
                break;
            }
        }
        self.cluster.net()?.apply(&Cut::default())?;
        let (healed, begun) = (now_ns(), Instant::now());
        for id in &kills {
            if !self.cluster.is_alive(*id) {
                self.cluster.revive(*id)?;
            }
        }
        self.pulses.wait_for(1, healed, PATIENCE)?;
        let recovered_ms = begun.elapsed().as_millis() as u64;
        for id in self.cluster.ids() {
            self.cluster.wait_in(id, PATIENCE)?;
        }
        let whole_ms = begun.elapsed().as_millis() as u64 - recovered_ms;
        self.witnesses.wait_for_writes(OPERATIONS, PATIENCE)?;
        let silences = self.pulses.silences_ms(from, now_ns());
        let step = Step {
            cut_ms: (healed - from) / 1_000_000,
            gap_ms: self.witnesses.gap_ms_since(from),
            bucket_gap_ms: silences.into_iter().max().unwrap_or(0),
            recovered_ms,
            whole_ms,
            cuts,
            kills,
        };
        eprintln!("step {number}: {}", step.describe());
        Ok(step)
    }

    /// Cuts for a while; in one of three cuts a node is killed. What is cut stays so.
    fn cut(&mut self, kills: &mut Vec<NodeId>) -> Result<Kind> {
        let kind = self.next_kind();
        let nodes = self.nodes_of_interest()?;
        let cut = kind.draw(&mut self.rng, &nodes);
        self.cluster.net()?.apply(&cut)?;
        let (least, most) = if self.rng.chance(1, 8) { LONG_MS } else { SHORT_MS };
        let time = Duration::from_millis(self.rng.between(least, most));
        if !self.rng.chance(1, 3) {
            self.witnesses.let_run(time)?;
            return Ok(kind);
        }
        self.witnesses.let_run(time / 3)?;
        let victim = self.rng.pick(&nodes).copied().filter(|id| self.cluster.is_alive(*id));
        if let Some(victim) = victim {
            self.cluster.kill(victim)?;
            kills.push(victim);
        }
        self.witnesses.let_run(time / 3)?;
        if let Some(victim) = victim.filter(|_| self.rng.chance(1, 2)) {
            // It starts into a network that is cut still.
            self.cluster.revive(victim)?;
        }
        self.witnesses.let_run(time / 3)?;
        Ok(kind)
    }

    /// All kinds come equally often, in an order by chance.
    fn next_kind(&mut self) -> Kind {
        if self.deck.is_empty() {
            self.deck.extend(Kind::ALL);
            self.rng.shuffle(&mut self.deck);
        }
        self.deck.pop().unwrap_or(Kind::All)
    }

    /// All nodes in an order by chance; in half of all cases one that leads a bucket comes first.
    fn nodes_of_interest(&mut self) -> Result<Vec<NodeId>> {
        let mut nodes = self.cluster.ids();
        self.rng.shuffle(&mut nodes);
        if self.rng.chance(1, 2) {
            let leaders = self.cluster.leaders()?;
            let leader = self.rng.pick(&leaders).and_then(|id| nodes.iter().position(|node| node == id));
            if let Some(at) = leader {
                nodes.swap(0, at);
            }
        }
        Ok(nodes)
    }
}
