//! Runs every candidate in turn, several times over, and draws the table.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::Loop;
use crate::load::{self, Operation};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the servers put their logs: a folder on the disk that is to be measured.
    #[arg(long, default_value = "target")]
    folder: PathBuf,
    /// JSON lines are appended here.
    #[arg(long, default_value = "results.jsonl")]
    results: PathBuf,
    /// How often everything is measured, in turns, so that a slow minute of the machine hits all alike.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds measured each time, after half a second to warm up.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// A measurement during which other processes used more than this share of the machine is thrown away and repeated.
    #[arg(long, default_value_t = 0.05)]
    others_max: f64,
    /// How often a measurement is repeated for that reason before the comparison gives up.
    #[arg(long, default_value_t = 200)]
    tries_max: u32,
    /// Numbers of closed-loop clients.
    #[arg(long, value_delimiter = ',', default_value = "1,64,256")]
    clients: Vec<usize>,
}

/// One measurement.
#[derive(Serialize, Deserialize)]
struct Line {
    at_unix_s: u64,
    commit: String,
    kernel: String,
    cores: usize,
    round: u32,
    #[serde(rename = "loop")]
    which: String,
    operation: String,
    clients: usize,
    operations: u64,
    operations_per_s: f64,
    server_cpu_us_per_operation: f64,
    p50_us: u64,
    p99_us: u64,
    /// Share of the machine's processor time that neither server nor load used: others disturbed by this much.
    other_cpu_share: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut results = OpenOptions::new().create(true).append(true).open(&options.results)?;
    std::fs::create_dir_all(&options.folder)?;
    for round in 1..=options.rounds {
        for clients in &options.clients {
            for operation in [Operation::Set, Operation::Get] {
                for which in Loop::value_variants() {
                    let line = undisturbed(options, round, *which, operation, *clients)?;
                    writeln!(results, "{}", serde_json::to_string(&line)?)?;
                    println!(
                        "round {round} {:<11} {:<4} {clients:>4} clients {:>8.0}/s {:>6.1} us CPU, others {:.0} %",
                        line.which,
                        line.operation,
                        line.operations_per_s,
                        line.server_cpu_us_per_operation,
                        line.other_cpu_share * 100.0
                    );
                }
            }
        }
    }
    table(&options.results)
}

fn undisturbed(
    options: &Options,
    round: u32,
    which: Loop,
    operation: Operation,
    clients: usize,
) -> Result<Line> {
    for _ in 0..options.tries_max {
        wait_for_quiet(options.others_max)?;
        let line = measure(options, round, which, operation, clients)?;
        if line.other_cpu_share <= options.others_max {
            return Ok(line);
        }
    }
    bail!("the machine was never quiet for a whole measurement; raise --others-max or try again later")
}

/// Waits for a second in which others used little: measuring beside them would disturb both.
fn wait_for_quiet(others_max: f64) -> Result<()> {
    let ticks = 1e6 / tick_us() * std::thread::available_parallelism()?.get() as f64;
    for _ in 0..10_000 {
        let before = busy_ticks()?;
        std::thread::sleep(Duration::from_secs(1));
        if ((busy_ticks()? - before) as f64) < others_max * ticks {
            return Ok(());
        }
    }
    bail!("the machine was busy for hours")
}

fn measure(options: &Options, round: u32, which: Loop, operation: Operation, clients: usize) -> Result<Line> {
    let name = which.to_possible_value().context("a candidate without a name")?.get_name().to_owned();
    let server = Server::start(&name, &options.folder.join(format!("{name}.log")))?;
    if operation == Operation::Get {
        load::fill(server.port)?;
    }
    let (warm, measured) = (Duration::from_millis(500), Duration::from_secs(options.seconds));
    let mut before = None;
    let seen = load::run(server.port, operation, clients, warm, measured, || before = Some(used(&server)))?;
    let before = before.context("nothing was measured")??;
    let after = used(&server)?;
    let server_us = (after.server_ticks - before.server_ticks) as f64 * tick_us();
    let own = (after.server_ticks + after.own_ticks) - (before.server_ticks + before.own_ticks);
    let busy = after.busy_ticks - before.busy_ticks;
    let cores = std::thread::available_parallelism()?.get();
    let all = seen.seconds * 1e6 / tick_us() * cores as f64;
    Ok(Line {
        at_unix_s: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs(),
        commit: text_of("git", &["rev-parse", "--short", "HEAD"])?,
        kernel: text_of("uname", &["-r"])?,
        cores,
        round,
        which: name,
        operation: format!("{operation:?}").to_lowercase(),
        clients,
        operations: seen.operations,
        operations_per_s: seen.operations as f64 / seen.seconds,
        server_cpu_us_per_operation: server_us / seen.operations as f64,
        p50_us: seen.p50_us,
        p99_us: seen.p99_us,
        other_cpu_share: busy.saturating_sub(own) as f64 / all,
    })
}

/// A server process; ended when dropped.
struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Server {
    fn start(name: &str, log: &Path) -> Result<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--loop", name, "--log"])
            .arg(log)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut server = Server { child, port: 0, log: log.to_owned() };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        server.port = line.trim().parse().context("the server did not say its port")?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that is gone already is as good as one that was ended here.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

struct Used {
    server_ticks: u64,
    own_ticks: u64,
    busy_ticks: u64,
}

fn used(server: &Server) -> Result<Used> {
    let busy_ticks = busy_ticks()?;
    Ok(Used { server_ticks: ticks(server.child.id())?, own_ticks: ticks(std::process::id())?, busy_ticks })
}

fn busy_ticks() -> Result<u64> {
    let machine = std::fs::read_to_string("/proc/stat")?;
    let fields: Vec<u64> =
        machine.lines().next().unwrap_or("").split_whitespace().skip(1).flat_map(str::parse).collect();
    ensure!(fields.len() >= 8, "/proc/stat has an unexpected shape");
    // All but idle (3) and waiting for the disk (4); guests (from 8 on) are counted in the first two.
    Ok(fields[..3].iter().chain(&fields[5..8]).sum())
}

/// User and system time of a process, all its threads included.
fn ticks(process: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, rest) = text.rsplit_once(')').context("/proc/PID/stat has an unexpected shape")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    ensure!(fields.len() > 12, "/proc/PID/stat has an unexpected shape");
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

fn tick_us() -> f64 {
    // SAFETY: asks for a constant, touches no memory of ours.
    1e6 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

fn text_of(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Prints medians over the rounds as a table in Markdown.
pub(crate) fn table(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("could not open {}", path.display()))?;
    let mut cells: BTreeMap<(String, usize, String), Vec<Line>> = BTreeMap::new();
    for line in BufReader::new(file).lines() {
        let line: Line = serde_json::from_str(&line?)?;
        let key = (line.operation.clone(), line.clients, line.which.clone());
        cells.entry(key).or_default().push(line);
    }
    println!(
        "| operation | clients | loop | operations/s (least-most) | server CPU us (least-most) | p50 us | p99 us |"
    );
    println!("|---|---|---|---|---|---|---|");
    for ((operation, clients, which), lines) in &cells {
        let spread = |value: fn(&Line) -> f64, digits| {
            let mut all: Vec<f64> = lines.iter().map(value).collect();
            all.sort_by(f64::total_cmp);
            let (least, middle, most) = (all[0], all[all.len() / 2], all[all.len() - 1]);
            format!("{middle:.digits$} ({least:.digits$}-{most:.digits$})")
        };
        let median = |value: fn(&Line) -> u64| {
            let mut all: Vec<u64> = lines.iter().map(value).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        println!(
            "| {operation} | {clients} | {which} | {} | {} | {} | {} |",
            spread(|line| line.operations_per_s, 0),
            spread(|line| line.server_cpu_us_per_operation, 1),
            median(|line| line.p50_us),
            median(|line| line.p99_us)
        );
    }
    Ok(())
}
