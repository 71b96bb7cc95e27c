//! Published evaluations, run again in the simulator, as tables and pictures.

mod charts;
mod sconekv;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use quorate_sim::node::figures;
use serde_json::{Map, Value};

use super::bench::append_line;
use super::sim::row_line;
use crate::exit::{self, failure};
use crate::output::print;

/// One line of results.
type Found = Map<String, Value>;

/// Run a published evaluation again in the simulator, and draw what came of it.
#[derive(Debug, Subcommand)]
pub(crate) enum Figures {
    Sconekv(Sconekv),
}

/// The evaluation of SconeKV, figures 5 to 12, beside the numbers it printed.
///
/// Runs whole nodes in virtual time; all experiments together take some ten minutes of one processor. Each row is told and kept as soon as
/// it is there. What came of them before is drawn as well: to repeat one experiment, name it. Nothing outside --out and
/// --results is touched.
#[derive(Debug, Args)]
pub(crate) struct Sconekv {
    /// Where tables.md and the pictures are written; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// The rows, as lines of JSON: new ones are appended; where a run is there twice, the newest is drawn. Without it,
    /// sconekv.jsonl beside the pictures.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Only these experiments, separated by commas; without it all.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "draw_only")]
    only: Vec<String>,
    /// Leave out clusters of more nodes.
    #[arg(long, default_value_t = 160)]
    nodes: usize,
    /// What chance follows from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run nothing; draw the rows that are there.
    #[arg(long)]
    draw_only: bool,
}

pub(crate) fn run(figures: &Figures) -> Result<ExitCode> {
    let Figures::Sconekv(wanted) = figures;
    if let Some(name) = wanted.only.iter().find(|name| !figures::NAMES.contains(&name.as_str())) {
        let text = format!("there is no experiment `{name}`; there are {}", figures::NAMES.join(", "));
        return Err(failure(exit::USAGE, text));
    }
    fs::create_dir_all(&wanted.out).with_context(|| format!("cannot make {}", wanted.out.display()))?;
    let results = wanted.results.clone().unwrap_or_else(|| wanted.out.join("sconekv.jsonl"));
    let all = || figures::NAMES.iter().copied().filter(|_| !wanted.draw_only);
    for name in all().filter(|name| wanted.only.is_empty() || wanted.only.iter().any(|only| only == name)) {
        experiment(name, wanted, &results)?;
    }
    let found = read(&results)?;
    let tables = sconekv::draw(&found, &wanted.out)?;
    let path = wanted.out.join("tables.md");
    fs::write(&path, tables).with_context(|| format!("cannot write {}", path.display()))?;
    print(&format!("{} rows are drawn in {}\n", found.len(), wanted.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn experiment(name: &str, wanted: &Sconekv, results: &Path) -> Result<()> {
    let mut told = Ok(());
    let ran = figures::run(name, Some(wanted.nodes), wanted.seed, &mut |row| {
        let line = row_line(&row, wanted.seed);
        if told.is_ok() {
            told = print(&format!("{line}\n")).and_then(|()| append_line(results, &line));
        }
    });
    ran.map_err(|why| failure(why.exit_code(), why.to_string()))?;
    told
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
