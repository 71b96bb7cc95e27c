//! From options to load on a cluster, and back to a report.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use quorate_api::history::Record;
use quorate_kernel::Rng;
use quorate_workload::{Operation, Spec, Workload};
use serde::Serialize;
use serde_json::json;
use thiserror::Error;

use crate::client::{Client, ClientError};
use crate::clock;
use crate::driver::{Driver, Orders};
use crate::facts::Machine;
use crate::judged::{Judged, Sink};
use crate::plain::{Keys, Mix, Plain, PlainSpec};
use crate::player::Player;
use crate::process::ProcessStat;
use crate::progress::Progress;
use crate::report::{Measured, Report};

/// How long between two attempts of an operation that must succeed.
const RETRY_EVERY: Duration = Duration::from_millis(50);

/// What the load consists of.
#[derive(Debug, Clone)]
pub enum Work {
    /// Plain commands.
    Plain(PlainSpec),
    /// A workload whose history can be judged. The first client has this number in it.
    Judged {
        /// The workload.
        spec: Spec,
        /// Number of the first client.
        first_client: u64,
    },
}

/// When operations begin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// When the one before has ended.
    Closed,
    /// So many in a second, all clients together. Latency counts from when an operation was due.
    Open(f64),
}

/// How load is put on a cluster.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Client doors; clients spread over them and move on when one fails.
    pub addresses: Vec<String>,
    /// Connections.
    pub clients: usize,
    /// Threads that play them.
    pub threads: usize,
    /// When operations begin.
    pub pace: Pace,
    /// What comes before is not measured.
    pub warmup: Duration,
    /// How long it is measured.
    pub duration: Option<Duration>,
    /// How many operations at most, those of the warm-up included.
    pub operations: Option<u64>,
    /// Without an answer for so long, an outcome counts as unknown and the connection as broken.
    pub timeout: Duration,
    /// What chance follows from.
    pub seed: u64,
    /// Processes of the servers, if they are known and run on this machine.
    pub servers: Vec<u32>,
    /// What reports say of the machine.
    pub machine: Machine,
}

/// Why there was no load, or no end of it.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The options contradict each other or the workload.
    #[error("{0}")]
    Options(String),
    /// Nobody answers.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system refuses.
    #[error("the system refuses what the load generator needs: {0}")]
    System(#[from] std::io::Error),
    /// A step that must be done once may or may not have happened.
    #[error("{0}")]
    Unsettled(String),
}

/// Puts load on a cluster until it ends, or `progress` is told to stop. Records of judged workloads go to `sink`.
///
/// # Errors
/// [`LoadError`]; failures of servers are no errors but counted.
pub fn run(
    options: &LoadOptions,
    work: &Work,
    progress: &Arc<Progress>,
    sink: impl Fn(Record) + Send + Sync + 'static,
) -> Result<Report, LoadError> {
    let addresses = resolve(&options.addresses)?;
    check(options)?;
    let mut rng = Rng::new(options.seed);
    match work {
        Work::Plain(spec) => {
            let threads = threads(options) as u64;
            play(
                options,
                &addresses,
                describe(options, json!({ "plain": spec })),
                progress,
                |index, clients, _| Plain::new(spec, clients, rng.next_u64(), index, threads),
            )
            .map(|(report, _)| report)
        }
        Work::Judged { spec, first_client } => {
            let workload =
                Workload::new(spec.clone()).map_err(|error| LoadError::Options(error.to_string()))?;
            let sink: Sink = Arc::new(sink);
            play(
                options,
                &addresses,
                describe(options, json!({ "judged": spec })),
                progress,
                |_, clients, first| {
                    let first = first_client + first as u64;
                    Judged::new(
                        workload.clone(),
                        clients,
                        first,
                        rng.next_u64(),
                        Arc::clone(&sink),
                        Arc::clone(progress),
                    )
                },
            )
            .map(|(report, _)| report)
        }
    }
}

pub(crate) fn describe(options: &LoadOptions, work: serde_json::Value) -> serde_json::Value {
    json!({
        "work": work,
        "addresses": options.addresses,
        "clients": options.clients,
        "threads": threads(options),
        "pace": options.pace,
        "seed": options.seed,
    })
}

fn threads(options: &LoadOptions) -> usize {
    options.threads.clamp(1, options.clients.max(1))
}

pub(crate) fn check(options: &LoadOptions) -> Result<(), LoadError> {
    let refuse = |text: &str| Err(LoadError::Options(text.to_owned()));
    if options.clients == 0 {
        return refuse("there must be at least one client");
    }
    if let Pace::Open(rate) = options.pace
        && !(rate.is_finite() && rate > 0.0)
    {
        return refuse("the rate must be a number above 0");
    }
    Ok(())
}

pub(crate) fn resolve(addresses: &[String]) -> Result<Vec<SocketAddr>, LoadError> {
    let mut found = Vec::new();
    for address in addresses {
        let resolved = address.to_socket_addrs().ok().and_then(|mut all| all.next());
        let why = || LoadError::Options(format!("`{address}` is not HOST:PORT of a machine that is known"));
        found.push(resolved.ok_or_else(why)?);
    }
    if found.is_empty() {
        return Err(LoadError::Options("there must be at least one address".into()));
    }
    Ok(found)
}

/// Plays on all threads; `make` makes the player of a thread from its index, its number of clients, and how many
/// clients come before. The players come back with what they noted.
pub(crate) fn play<P: Player + Send>(
    options: &LoadOptions,
    addresses: &[SocketAddr],
    description: serde_json::Value,
    progress: &Arc<Progress>,
    mut make: impl FnMut(u64, usize, usize) -> P,
) -> Result<(Report, Vec<P>), LoadError> {
    let threads = threads(options);
    let budget = Arc::new(AtomicU64::new(options.operations.unwrap_or(u64::MAX)));
    let begun = clock::now_ns();
    let measure_from_ns = begun.saturating_add(nanos(options.warmup));
    let end_ns =
        options.duration.map_or(u64::MAX, |duration| measure_from_ns.saturating_add(nanos(duration)));
    let mut drivers = Vec::new();
    let mut before = 0;
    for index in 0..threads {
        let clients = options.clients / threads + usize::from(index < options.clients % threads);
        let interval_ns = match options.pace {
            Pace::Closed => None,
            Pace::Open(rate) => Some(1e9 * options.clients as f64 / (rate * clients as f64)),
        };
        let orders = Orders {
            addresses: addresses.to_vec(),
            clients,
            address_first: before,
            interval_ns,
            measure_from_ns,
            end_ns,
            limit_ns: nanos(options.timeout),
        };
        let player = make(index as u64, clients, before);
        drivers.push(Driver::new(orders, player, Arc::clone(&budget), Arc::clone(progress))?);
        before += clients;
    }
    let usage = Usage::begin(&options.servers);
    let (measured, players) = play_all(drivers)?;
    let (servers, own) = usage.end();
    let took = Duration::from_nanos(clock::now_ns().min(end_ns).saturating_sub(measure_from_ns));
    let report = Report::new(description, options.machine.clone(), &measured, took, progress, servers, own);
    Ok((report, players))
}

fn play_all<P: Player + Send>(mut drivers: Vec<Driver<P>>) -> Result<(Measured, Vec<P>), LoadError> {
    let mut measured = Measured::default();
    let results: Vec<std::io::Result<()>> = std::thread::scope(|scope| {
        let (first, others) = drivers.split_first_mut().expect("there is at least one client");
        let threads: Vec<_> = others.iter_mut().map(|driver| scope.spawn(|| driver.play())).collect();
        let mut results = vec![first.play()];
        for thread in threads {
            results.push(thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread panicked"))));
        }
        results
    });
    results.into_iter().collect::<std::io::Result<()>>()?;
    for driver in &mut drivers {
        driver.measured.counts.not_sent += driver.not_sent();
        measured.merge(&driver.measured);
    }
    Ok((measured, drivers.into_iter().map(Driver::into_player).collect()))
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What servers and this program had used when the load began.
pub(crate) struct Usage<'a> {
    pids: &'a [u32],
    servers: Vec<(u32, ProcessStat)>,
    own: Duration,
}

impl<'a> Usage<'a> {
    pub(crate) fn begin(pids: &'a [u32]) -> Usage<'a> {
        Usage { pids, servers: usage(pids), own: own_cpu() }
    }

    /// What they have used since: the servers if they are known, and this program.
    pub(crate) fn end(self) -> (Option<(usize, Duration, u64)>, Duration) {
        let servers = (!self.pids.is_empty()).then(|| difference(&self.servers, &usage(self.pids)));
        (servers, own_cpu().saturating_sub(self.own))
    }
}

fn usage(pids: &[u32]) -> Vec<(u32, ProcessStat)> {
    pids.iter().filter_map(|pid| Some((*pid, ProcessStat::of(*pid)?))).collect()
}

/// Processes that lived through it all, their processor time, and the largest memory.
fn difference(before: &[(u32, ProcessStat)], after: &[(u32, ProcessStat)]) -> (usize, Duration, u64) {
    let mut sum = (0, Duration::ZERO, 0);
    for (pid, now) in after {
        let same =
            |(old_pid, old): &&(u32, ProcessStat)| old_pid == pid && old.started_ticks == now.started_ticks;
        // One that started meanwhile did all its work meanwhile.
        let base = before.iter().find(same).map_or(Duration::ZERO, |(_, old)| old.cpu);
        sum.0 += 1;
        sum.1 += now.cpu.saturating_sub(base);
        sum.2 = sum.2.max(now.resident_bytes);
    }
    sum
}

fn own_cpu() -> Duration {
    ProcessStat::of(std::process::id()).map_or(Duration::ZERO, |stat| stat.cpu)
}

/// Writes every key of a plain load once, so that reads find something.
///
/// # Errors
/// See [`run`]; also if some writes failed.
pub fn fill(options: &LoadOptions, spec: &PlainSpec, progress: &Arc<Progress>) -> Result<(), LoadError> {
    each_key(options, PlainSpec { mix: Mix { read_percent: 0 }, ..spec.clone() }, progress)
}

/// Reads every key that [`fill`] has written.
///
/// # Errors
/// See [`run`]; also if some reads failed, or did not find what was written.
pub fn read_back(options: &LoadOptions, spec: &PlainSpec, progress: &Arc<Progress>) -> Result<(), LoadError> {
    let spec = PlainSpec { mix: Mix { read_percent: 100 }, all_exist: true, ..spec.clone() };
    each_key(options, spec, progress)
}

fn each_key(options: &LoadOptions, spec: PlainSpec, progress: &Arc<Progress>) -> Result<(), LoadError> {
    let keys = spec.keys;
    let spec = PlainSpec { choice: Keys::InOrder, pipeline: 16, ..spec };
    let options = LoadOptions {
        operations: Some(keys),
        duration: None,
        warmup: Duration::ZERO,
        pace: Pace::Closed,
        threads: 1,
        ..options.clone()
    };
    let what = if spec.mix.read_percent == 0 { "written" } else { "read as they were written" };
    let report = run(&options, &Work::Plain(spec), progress, |_| {})?;
    if report.counts.done < keys {
        return Err(LoadError::Unsettled(format!(
            "only {} of {keys} keys could be {what}",
            report.counts.done
        )));
    }
    Ok(())
}

/// Does what has to be done once before a workload, as the client of this number. Returns the records.
///
/// # Errors
/// If a step fails within the time, or its end is unknown: then the workload must not begin.
pub fn setup(
    options: &LoadOptions,
    spec: &Spec,
    client: u64,
    wait: Duration,
) -> Result<Vec<Record>, LoadError> {
    let workload = Workload::new(spec.clone()).map_err(|error| LoadError::Options(error.to_string()))?;
    let deadline = clock::now_ns().saturating_add(nanos(wait));
    let mut records = Vec::new();
    for operation in workload.setup() {
        let (record, is_ok) = acknowledged(options, &operation, client, deadline, false)?;
        records.push(record);
        if !is_ok {
            let text = "a step that must happen once was not acknowledged: begin again with an empty cluster";
            return Err(LoadError::Unsettled(text.into()));
        }
    }
    Ok(records)
}

/// The last look of a workload, as the client of this number: its records. Each is repeated until it is acknowledged.
///
/// # Errors
/// If that does not succeed within the time.
pub fn finish(
    options: &LoadOptions,
    spec: &Spec,
    client: u64,
    wait: Duration,
) -> Result<Vec<Record>, LoadError> {
    let workload = Workload::new(spec.clone()).map_err(|error| LoadError::Options(error.to_string()))?;
    let deadline = clock::now_ns().saturating_add(nanos(wait));
    let mut records = Vec::new();
    for operation in workload.finish() {
        let (record, is_ok) = acknowledged(options, &operation, client, deadline, true)?;
        if !is_ok {
            let text = format!("the last look could not be taken within {} s", wait.as_secs());
            return Err(LoadError::Unsettled(text));
        }
        records.push(record);
    }
    Ok(records)
}

/// Performs an operation until it is acknowledged or time is over; the record of the last attempt. What may have
/// happened is repeated only if that does no harm.
fn acknowledged(
    options: &LoadOptions,
    operation: &Operation,
    client: u64,
    deadline_ns: u64,
    is_harmless: bool,
) -> Result<(Record, bool), LoadError> {
    let mut addresses = options.addresses.clone();
    loop {
        let (mut attempt, begun) = (operation.clone(), clock::now_ns());
        let mut reached = false;
        let result = Client::connect(&addresses, options.timeout).and_then(|mut connection| {
            reached = true;
            connection.perform(&mut attempt)
        });
        let is_ok = attempt.is_ok();
        let unknown = reached
            && !is_ok
            && attempt.clone().record(client, 0, 0).outcome == quorate_api::history::Ending::Unknown;
        if is_ok || (unknown && !is_harmless) || clock::now_ns() > deadline_ns {
            if !reached {
                result?;
            }
            return Ok((attempt.record(client, begun, clock::now_ns()), is_ok));
        }
        // Another node may know more.
        addresses.rotate_left(1);
        std::thread::sleep(RETRY_EVERY);
    }
}
