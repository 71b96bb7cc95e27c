//! TPC-C while nodes die: what is in the database in the end must be consistent, and hold what was acknowledged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use quorate_bench::{
    CheckReport, Fates, LoadError, LoadOptions, LoadReport, Machine, Pace, Progress, TransactionReport,
    check_tpcc, load_tpcc, run_tpcc,
};
use quorate_kernel::{NodeId, Rng};
use quorate_workload::tpcc::{CONDITIONS, KINDS, Scale};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::watched::Watched;
use super::{Home, blackout, interrupt};
use crate::exit::{self, failure};

/// How long anything may take before the campaign gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Above the nodes' own deadline.
const TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Run TPC-C while nodes are killed and come back, then check its consistency conditions.
///
/// Each kill is that of a node that leads a bucket; every third time two die at once. Every second time they come back
/// before the others have taken them for dead. In the end all nodes are killed at once. Then the twelve
/// conditions must hold, whatever became of transactions with an unknown end, and there must be as many new orders and
/// payments as were acknowledged, at most those with an unknown end more. Exit code 1 if not.
#[derive(Debug, Args)]
pub(crate) struct Tpcc {
    /// How many nodes are killed, before all are.
    #[arg(long, default_value_t = 6)]
    pub(crate) kills: usize,
    /// How many nodes.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(3..=99))]
    pub(crate) nodes: u64,
    /// Into how many buckets keys are cut.
    #[arg(long, default_value_t = 4)]
    pub(crate) buckets: u16,
    /// How many nodes hold each; 0: all.
    #[arg(long, default_value_t = 3)]
    pub(crate) copies: u8,
    /// How many warehouses.
    #[arg(long, default_value_t = 2)]
    pub(crate) warehouses: u64,
    /// All the rows that are specified, 70 MB for each warehouse; without it, a hundredth.
    #[arg(long)]
    pub(crate) whole: bool,
    /// Clients.
    #[arg(long, default_value_t = 8)]
    pub(crate) clients: usize,
    /// Transactions between a node's return and the next kill.
    #[arg(long, default_value_t = 500)]
    pub(crate) transactions: u64,
    /// Client port of node 1; 0: any free ports.
    #[arg(long, default_value_t = 0)]
    pub(crate) base_port: u16,
    /// Kill all nodes at once in the end and start them again.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) blackout: bool,
    /// Where, and how.
    #[command(flatten)]
    pub(crate) home: Home,
}

/// Clients of TPC-C at work.
struct Terminals {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<Result<TransactionReport, LoadError>>>,
}

impl Watched for Terminals {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn look_after(&self) -> Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Err(failure(exit::FAILED, "the clients have stopped"));
        }
        Ok(())
    }
}

impl Terminals {
    fn start(options: &LoadOptions) -> Terminals {
        let progress: Arc<Progress> = Arc::default();
        let thread = {
            let (options, progress) = (options.clone(), Arc::clone(&progress));
            std::thread::spawn(move || run_tpcc(&options, true, &progress))
        };
        Terminals { progress, thread: Some(thread) }
    }

    /// Stops the clients: what they have counted.
    fn finish(mut self) -> Result<TransactionReport> {
        self.progress.stop();
        let thread = self.thread.take().context("the clients have only one end")?;
        Ok(thread.join().map_err(|_| failure(exit::FAILED, "a thread of the load generator panicked"))??)
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        self.progress.stop();
        if let Some(thread) = self.thread.take() {
            // The error that led here is what matters.
            let _ = thread.join();
        }
    }
}

/// The campaign: exit code and result.
pub(super) fn campaign(tpcc: &Tpcc, cluster: &mut Cluster, machine: &Machine) -> Result<(u8, Value)> {
    let options = LoadOptions {
        addresses: cluster.addresses(),
        clients: tpcc.clients,
        threads: 1,
        pace: Pace::Closed,
        warmup: Duration::ZERO,
        duration: None,
        operations: None,
        timeout: TIMEOUT,
        seed: tpcc.home.seed,
        servers: Vec::new(),
        machine: machine.clone(),
    };
    // A transaction is to concern as many buckets as possible.
    let scale = if tpcc.whole { Scale::standard } else { Scale::reduced }(tpcc.warehouses).spread();
    let load = load_tpcc(&options, scale, &Arc::default())?;
    eprint!("{}", load.render());
    let terminals = Terminals::start(&options);
    terminals.wait_for_writes(100, PATIENCE)?;
    let kills = kill_all(tpcc, cluster, &terminals)?;
    let blackout_ms = if tpcc.blackout { Some(blackout(cluster, &terminals)?) } else { None };
    let gap_ms = u64::try_from(terminals.progress.longest_gap().as_millis()).unwrap_or(u64::MAX);
    let run = terminals.finish()?;
    let (check, looks) = check(&options)?;
    let (code, outcome) = judge(&run, &check);
    let result = json!({
        "what": "torture tpcc",
        "machine": machine,
        "seed": tpcc.home.seed,
        "details": {
            "nodes": tpcc.nodes,
            "buckets": tpcc.buckets,
            "copies": tpcc.copies,
            "clients": tpcc.clients,
            "scale": scale,
            "load": load_of(&load),
            "kills": kills,
        },
        "blackout_ms": blackout_ms,
        "gap_ms_max": gap_ms,
        "looks": looks,
        "check_ms": check.milliseconds,
        "outcome": outcome,
        "exit_code": code,
    });
    Ok((code, result))
}

fn load_of(load: &LoadReport) -> Value {
    serde_json::to_value(load).unwrap_or_default()
}

/// Kills nodes that lead buckets and brings them back.
fn kill_all(tpcc: &Tpcc, cluster: &mut Cluster, terminals: &Terminals) -> Result<Vec<Value>> {
    let mut rng = Rng::new(tpcc.home.seed);
    let (mut steps, mut killed) = (Vec::new(), 0);
    while killed < tpcc.kills {
        let number = steps.len() + 1;
        let count = if number.is_multiple_of(3) { 2 } else { 1 }.min(tpcc.kills - killed);
        let victims = draw(cluster, &mut rng, count)?;
        let (from, begun) = (quorate_bench::now_ns(), Instant::now());
        for victim in &victims {
            cluster.kill(*victim)?;
        }
        let mut out_ms = None;
        // Two at once may be the majority of a bucket: then nobody waits for the others to go on without it.
        if victims.len() == 1 {
            terminals.wait_for_write_after(quorate_bench::now_ns(), PATIENCE)?;
            if number.is_multiple_of(2) && tpcc.copies > 0 {
                out_ms = Some(cluster.wait_out(victims[0], PATIENCE)?);
            }
        }
        for victim in &victims {
            cluster.revive(*victim)?;
        }
        for victim in &victims {
            cluster.wait_in(*victim, PATIENCE)?;
        }
        let back_ms = begun.elapsed().as_millis() as u64;
        terminals.wait_for_writes(tpcc.transactions, PATIENCE)?;
        let gap_ms = terminals.gap_ms_since(from);
        let ids: Vec<String> = victims.iter().map(ToString::to_string).collect();
        eprintln!(
            "node {} killed: {gap_ms} ms without a write, all back after {back_ms} ms",
            ids.join(" and ")
        );
        steps.push(json!({ "nodes": victims, "gap_ms": gap_ms, "out_ms": out_ms, "back_ms": back_ms }));
        killed += victims.len();
    }
    Ok(steps)
}

/// So many nodes that lead buckets; if there are fewer, others as well.
fn draw(cluster: &Cluster, rng: &mut Rng, count: usize) -> Result<Vec<NodeId>> {
    let leaders: BTreeSet<NodeId> = cluster.leaders()?.into_iter().collect();
    let mut nodes: Vec<NodeId> = cluster.ids();
    rng.shuffle(&mut nodes);
    nodes.sort_by_key(|id| !leaders.contains(id));
    nodes.truncate(count);
    Ok(nodes)
}

/// Evaluates the conditions, and says how many looks that took. A transaction whose client was not told its end may still
/// be under way: if something does not hold, a second look is taken after the nodes' deadline, and counts.
fn check(options: &LoadOptions) -> Result<(CheckReport, usize)> {
    let first = read_out(options)?;
    if first.holds {
        return Ok((first, 1));
    }
    eprint!("a first look found:\n{}", first.render());
    let again = Instant::now() + TIMEOUT;
    while Instant::now() < again {
        interrupt::check()?;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok((read_out(options)?, 2))
}

fn read_out(options: &LoadOptions) -> Result<CheckReport> {
    let (mut options, deadline) = (options.clone(), Instant::now() + PATIENCE);
    loop {
        match check_tpcc(&options) {
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Ok(report) => return Ok(report),
            Err(_) => options.addresses.rotate_left(1),
        }
        interrupt::check()?;
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What it all came to.
fn judge(run: &TransactionReport, check: &CheckReport) -> (u8, Value) {
    let fates = |kind: &str| run.kinds.get(kind).map(|report| report.fates).unwrap_or_default();
    let by_kind = KINDS.iter().map(|kind| ((*kind).to_owned(), json!(fates(kind))));
    let is_kept = is_kept(&fates(KINDS[0]), &fates(KINDS[1]), check);
    let nonsense = run.report.counts.nonsense;
    let is_well = check.holds && is_kept && nonsense == 0 && run.fates.committed > 0;
    let outcome = json!({
        "transactions": by_kind.collect::<serde_json::Map<_, _>>(),
        "fates": run.fates,
        "nonsense": nonsense,
        "surprises": run.report.surprises,
        "seconds": run.report.seconds,
        "new_orders_per_minute": run.new_orders_per_minute,
        "conditions": conditions(check),
        "all_hold": check.holds,
        "violations": check.violations,
        "added": check.added,
        "acknowledged_kept": is_kept,
    });
    (u8::from(!is_well), outcome)
}

/// Each condition, and whether it holds. If rows are missing, nothing can be said of any.
fn conditions(check: &CheckReport) -> Vec<Value> {
    let is_violated = |number: usize| {
        let mut found = check.violations.iter().map(|violation| violation.condition);
        found.any(|condition| condition == number || condition == 0)
    };
    let one = |(number, says): (usize, &&str)| json!({ "number": number, "says": says, "holds": !is_violated(number) });
    (1..).zip(&CONDITIONS).map(one).collect()
}

/// Whether the orders and payments that were found agree with what clients were told.
fn is_kept(orders: &Fates, payments: &Fates, check: &CheckReport) -> bool {
    told(orders, check.added.orders) && told(payments, check.added.payments)
}

/// Whether what was found agrees with what clients were told.
fn told(fates: &Fates, found: i64) -> bool {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    (count(fates.committed)..=count(fates.committed + fates.unknown)).contains(&found)
}

/// The result in lines for people.
pub(super) fn summary(result: &Value) -> String {
    let outcome = &result["outcome"];
    let fates = &outcome["fates"];
    let mut text = format!(
        "torture tpcc: {} transactions committed, {} outrun, {} refused, {} unknown; {} new orders in a minute; longest gap \
         without a write {} ms\n",
        fates["committed"],
        fates["outrun"],
        fates["refused"],
        fates["unknown"],
        outcome["new_orders_per_minute"],
        result["gap_ms_max"],
    );
    for (kind, fates) in outcome["transactions"].as_object().into_iter().flatten() {
        text += &format!(
            "{kind:>13}: {} committed, {} refused, {} unknown\n",
            fates["committed"], fates["refused"], fates["unknown"]
        );
    }
    for condition in outcome["conditions"].as_array().into_iter().flatten() {
        let word = if condition["holds"] == true { "holds" } else { "VIOLATED" };
        text += &format!(
            "condition {}: {word} ({})\n",
            condition["number"],
            condition["says"].as_str().unwrap_or_default()
        );
    }
    for violation in outcome["violations"].as_array().into_iter().flatten() {
        text +=
            &format!("  {}: {}\n", violation["condition"], violation["found"].as_str().unwrap_or_default());
    }
    let (added, word) =
        (&outcome["added"], if outcome["acknowledged_kept"] == true { "agree" } else { "DO NOT AGREE" });
    text + &format!(
        "{} orders and {} payments were added: they {word} with what was acknowledged\n",
        added["orders"], added["payments"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_workload::tpcc::{Census, Violation};

    fn report(violated: &[usize], added: Census) -> CheckReport {
        let violation = |condition: &usize| Violation { condition: *condition, found: "here".into() };
        let violations: Vec<Violation> = violated.iter().map(violation).collect();
        let (scale, holds) = (Scale::reduced(1), violations.is_empty());
        CheckReport { scale, holds, violations, added, milliseconds: 1 }
    }

    #[test]
    fn a_violated_condition_is_told_from_those_that_hold() {
        let holding = |violated: &[usize]| {
            let all = conditions(&report(violated, Census::default()));
            let held = all.iter().filter(|condition| condition["holds"] == true);
            held.map(|condition| condition["number"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(holding(&[]), (1..=12).collect::<Vec<_>>());
        assert_eq!(holding(&[1, 8]), [2, 3, 4, 5, 6, 7, 9, 10, 11, 12]);
        assert_eq!(holding(&[0]), Vec::<u64>::new());
        let text = summary(&json!({ "outcome": {
            "conditions": conditions(&report(&[8], Census::default())), "violations": [{ "condition": 8, "found": "x" }],
        }}));
        assert!(text.contains("condition 8: VIOLATED") && text.contains("condition 9: holds"), "{text}");
        assert!(text.contains("  8: x") && text.contains("DO NOT AGREE"), "{text}");
    }

    #[test]
    fn what_was_acknowledged_must_be_there_and_what_is_unknown_may() {
        let told = Fates { committed: 5, unknown: 2, refused: 9, ..Fates::default() };
        let kept =
            |orders: i64, payments: i64| is_kept(&told, &told, &report(&[], Census { orders, payments }));
        assert!(kept(5, 5) && kept(7, 5) && kept(6, 7));
        // One is gone; one has happened twice.
        assert!(!kept(4, 5) && !kept(5, 4) && !kept(8, 5) && !kept(5, 8));
    }
}
