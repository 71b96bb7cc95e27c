//! Published evaluations, run again in the simulator, as tables and pictures.

mod charts;
mod land;
#[path = "figures/scatter.rs"]
mod scatter_drawn;
mod sconekv;
mod told;
mod town;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use quorate_sim::node::{figures, scatter};
use quorate_sim::{Audience, Failure};
use serde_json::{Map, Value};

use crate::exit::{self, failure};
use crate::output::print;

use told::Told;

/// One line of results.
type Found = Map<String, Value>;

/// Run a published evaluation again in the simulator, and draw what came of it.
#[derive(Debug, Subcommand)]
pub(crate) enum Figures {
    Sconekv(Sconekv),
    Scatter(Scatter),
}

/// What is run and where it goes.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// Where the tables and the pictures are written; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// The rows, as lines of JSON: new ones are appended; where a run is there twice, the newest is drawn. Without it,
    /// a file beside the pictures that is named for the evaluation.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Only these experiments, separated by commas; without it all but those that take hours.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "draw_only")]
    only: Vec<String>,
    /// What chance follows from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run nothing; draw the rows that are there.
    #[arg(long)]
    draw_only: bool,
}

/// The evaluation of SconeKV, figures 5 to 12, beside the numbers it printed.
///
/// Runs whole nodes in virtual time; all experiments together take some ten minutes of one processor. Each row is told and kept as soon as
/// it is there. What came of them before is drawn as well: to repeat one experiment, name it. Nothing outside --out and
/// --results is touched.
#[derive(Debug, Args)]
pub(crate) struct Sconekv {
    #[command(flatten)]
    wanted: Wanted,
    /// Leave out clusters of more nodes.
    #[arg(long, default_value_t = 160)]
    nodes: usize,
}

/// The evaluation of Scatter, beside the numbers it printed.
///
/// Runs whole nodes that form groups, in virtual time. Each row is told and kept as soon as it is there. What came of them before is drawn as
/// well: to repeat one experiment, name it. Nothing outside --out and --results is touched. `load`, `scale`, `hot-spots`, `size` and `churn` take hours with
/// many nodes, and run only if they are named; they say how far they are.
#[derive(Debug, Args)]
pub(crate) struct Scatter {
    #[command(flatten)]
    wanted: Wanted,
}

/// An experiment's runs: its name, the seed, and who is told of rows.
type Run<'a> = &'a dyn Fn(&str, u64, &mut dyn Audience) -> Result<bool, Failure>;

pub(crate) fn run(figures: &Figures) -> Result<ExitCode> {
    match figures {
        Figures::Sconekv(sconekv) => {
            let run = |name: &str, seed, told: &mut dyn Audience| {
                figures::run(name, Some(sconekv.nodes), seed, &mut |row| told.row(row))
            };
            let to = ("sconekv.jsonl", "tables.md");
            evaluate(&sconekv.wanted, (&figures::NAMES, &[]), &run, to, sconekv::draw)
        }
        Figures::Scatter(scatter) => {
            let to = ("scatter.jsonl", "scatter.md");
            let names = (scatter::NAMES.as_slice(), scatter::HEAVY.as_slice());
            evaluate(&scatter.wanted, names, &scatter::run, to, scatter_drawn::draw)
        }
    }
}

/// Runs what is wanted, and draws all that is there. The second names are of experiments that run only if they are named.
fn evaluate(
    wanted: &Wanted,
    (names, heavy): (&[&str], &[&str]),
    run: Run<'_>,
    (rows, tables): (&str, &str),
    draw: fn(&[Found], &Path) -> Result<String>,
) -> Result<ExitCode> {
    // One point of an experiment has its name and more.
    let is_of =
        |name: &str, known: &str| name.strip_prefix(known).is_some_and(|point| point.starts_with('-'));
    let is_known = |name: &str| names.iter().any(|known| name == *known || is_of(name, known));
    if let Some(name) = wanted.only.iter().find(|name| !is_known(name)) {
        let text = format!("there is no experiment `{name}`; there are {}", names.join(", "));
        return Err(failure(exit::USAGE, text));
    }
    fs::create_dir_all(&wanted.out).with_context(|| format!("cannot make {}", wanted.out.display()))?;
    let results = wanted.results.clone().unwrap_or_else(|| wanted.out.join(rows));
    let light = names.iter().copied().filter(|name| !heavy.contains(name));
    let run_now: Vec<&str> = match wanted {
        Wanted { draw_only: true, .. } => Vec::new(),
        Wanted { only, .. } if only.is_empty() => light.collect(),
        Wanted { only, .. } => only.iter().map(String::as_str).collect(),
    };
    for name in run_now {
        experiment(name, wanted.seed, run, &results)?;
    }
    let found = read(&results)?;
    let path = wanted.out.join(tables);
    fs::write(&path, draw(&found, &wanted.out)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    print(&format!("{} rows are drawn in {}\n", found.len(), wanted.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn experiment(name: &str, seed: u64, run: Run<'_>, results: &Path) -> Result<()> {
    let mut told = Told::new(name, seed, results);
    let ran = run(name, seed, &mut told);
    let kept = told.end();
    if !ran.map_err(|why| failure(why.exit_code(), why.to_string()))? {
        return Err(failure(exit::USAGE, format!("`{name}` names no point of an experiment")));
    }
    kept
}

fn read(path: &Path) -> Result<Vec<Found>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {}: without --draw-only rows are made", path.display()))?;
    let rows = text.lines().filter(|line| !line.trim().is_empty()).enumerate();
    rows.map(|(at, line)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}: not a row", path.display(), at + 1))
    })
    .collect()
}
