//! The tables and pictures of Scatter's evaluation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::Found;
use super::charts::{self, Series};
use super::{land, town};

/// What tells one run from another.
const IDENTITY: [&str; 11] = [
    "experiment",
    "sites",
    "way_ms",
    "policies",
    "kind",
    "members",
    "nodes",
    "lifetime_s",
    "lives",
    "system",
    "heat",
];

/// Table 2 of the paper: kind, then mean milliseconds in one room, at three sites with leaders drawn, and with leaders chosen.
const PRINTED: [(&str, [f64; 3]); 4] = [
    ("failure", [2.04, 90.9, 55.6]),
    ("join", [3.32, 208.8, 135.8]),
    ("split", [4.01, 246.5, 178.5]),
    ("merge", [4.79, 307.6, 200.7]),
];
/// The settings of these columns: sites, milliseconds of one way, policies.
const COLUMNS: [(&str, f64, &str); 3] =
    [("one", 0.15, "steady"), ("three", 0.15, "steady"), ("three", 0.15, "wide")];
/// Medians of figure 10: milliseconds of a write after joins at random, and after joins by latency.
const PRINTED_JOINS: [(&str, f64); 2] = [("steady", 124.0), ("wide", 68.0)];

pub(super) fn number(row: &Found, name: &str) -> f64 {
    row.get(name).and_then(Value::as_f64).unwrap_or_default()
}

pub(super) fn text<'a>(row: &'a Found, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The rows of an experiment; of those of the same run the newest.
fn of<'a>(rows: &'a [Found], experiment: &str) -> Vec<&'a Found> {
    let mut newest: BTreeMap<String, (usize, &Found)> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| text(row, "experiment") == experiment) {
        let identity: Vec<String> =
            IDENTITY.iter().map(|name| row.get(*name).map(Value::to_string).unwrap_or_default()).collect();
        newest.entry(identity.join("|")).and_modify(|known| known.1 = row).or_insert((at, row));
    }
    let mut found: Vec<(usize, &Found)> = newest.into_values().collect();
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, row)| row).collect()
}

/// Draws what was found.
pub(super) fn draw(rows: &[Found], out: &Path) -> Result<String> {
    let mut tables = String::from(
        "# The evaluation of Scatter, in the simulator\n\nMade by `quorate figures scatter`; \
         [README.md](README.md#scatter) says how.\n",
    );
    sizes(&of(rows, "sizes"), out, &mut tables)?;
    operations(&of(rows, "operations"), &mut tables)?;
    latencies(&of(rows, "latencies"), out, &mut tables)?;
    joins(&of(rows, "joins"), out, &mut tables)?;
    reconfigurations(&of(rows, "reconfigurations"), out, &mut tables)?;
    town::load(&of(rows, "load"), &mut tables)?;
    town::scale(&of(rows, "scale"), out, &mut tables)?;
    town::hot_spots(&of(rows, "hot-spots"), &mut tables)?;
    land::churn(&of(rows, "churn"), &of(rows, "churn-baseline"), out, &mut tables)?;
    land::size(&of(rows, "size"), out, &mut tables)?;
    Ok(tables)
}

fn sizes(rows: &[&Found], out: &Path, tables: &mut String) -> Result<()> {
    let mut series: Series = Vec::new();
    for row in rows {
        let name = format!("lifetimes of {:.0} s", number(row, "lifetime_s"));
        let point = (number(row, "members"), number(row, "nines"));
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name, vec![point])),
        }
    }
    if series.is_empty() {
        return Ok(());
    }
    let title = "How safe a group is, by its size (model)";
    charts::lines(&out.join("scatter-sizes.svg"), title, "members", "nines", &series)?;
    tables.push_str(
        "\n## How safe a group is (figure 7)\n\n\
         Nines of the chance that it keeps its majority while a member is replaced, which takes 1.5 s: a model, by the function that nodes use.\n\n\
         | lifetimes | 3 | 5 | 7 | 9 | 11 | 13 |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, points) in &series {
        let odd = points.iter().filter(|(members, _)| *members >= 3.0 && members % 2.0 == 1.0);
        let cells: Vec<String> = odd.map(|(_, nines)| format!("{nines:.1}")).collect();
        writeln!(tables, "| {name} | {} |", cells.join(" | "))?;
    }
    Ok(())
}

fn operations(rows: &[&Found], tables: &mut String) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    tables.push_str(
        "\n## What operations of groups take (table 2)\n\n\
         Mean milliseconds from the decision to when the logs of all buckets have followed, and their standard deviation; groups of 3 to 13. \
         `notes` is when the operation itself is chosen.\n\n\
         | operation | sites | one way, ms | policies | samples | notes | mean | deviation | most | paper |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let printed = PRINTED.iter().find(|(kind, _)| *kind == text(row, "kind"));
        let is_column = |(sites, way, policies): &(&str, f64, &str)| {
            *sites == text(row, "sites")
                && *policies == text(row, "policies")
                && (way - number(row, "way_ms")).abs() < 1e-6
        };
        let column = COLUMNS.iter().position(is_column);
        let printed = printed.zip(column).map(|((_, ms), column)| ms[column].to_string());
        writeln!(
            tables,
            "| {} | {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
            text(row, "kind"),
            text(row, "sites"),
            number(row, "way_ms"),
            text(row, "policies"),
            number(row, "samples"),
            number(row, "agreed_ms"),
            number(row, "mean_ms"),
            number(row, "deviation_ms"),
            number(row, "most_ms"),
            printed.unwrap_or_default(),
        )?;
    }
    Ok(())
}

fn latencies(rows: &[&Found], out: &Path, tables: &mut String) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    tables.push_str(
        "\n## What clients' operations take in one group (figure 9)\n\n\
         Median milliseconds at the node that is asked, by the number of members.\n\n\
         | operation | sites | 3 | 5 | 7 | 9 | 11 | 13 |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut lines: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows {
        let name = (text(row, "sites").to_owned(), text(row, "kind").to_owned());
        lines.entry(name).or_default().push((number(row, "members"), number(row, "median_ms")));
    }
    for ((sites, kind), points) in &lines {
        let cells: Vec<String> = points.iter().map(|(_, ms)| format!("{ms:.2}")).collect();
        writeln!(tables, "| {kind} | {sites} | {} |", cells.join(" | "))?;
    }
    for (wanted, file) in [("one", "scatter-latency-one.svg"), ("three", "scatter-latency-three.svg")] {
        let series: Series = lines
            .iter()
            .filter(|((sites, _), _)| sites == wanted)
            .map(|((_, kind), points)| (kind.clone(), points.iter().map(|(x, ms)| (*x, ms * 1e3)).collect()))
            .collect();
        if !series.is_empty() {
            let title = format!("What operations take in a group (sites: {wanted})");
            charts::lines(&out.join(file), &title, "members", "median, microseconds", &series)?;
        }
    }
    Ok(())
}

fn joins(rows: &[&Found], out: &Path, tables: &mut String) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    tables.push_str(
        "\n## What writes take at their leaders, on nodes all over the world (figure 10)\n\n\
         Milliseconds. `steady`: a node joins the smallest group of some that are in need, or else the largest of those about as busy as the busiest; load decides who leads. `wide`: it joins the group of \
         three that would agree fastest if it led, and those lead that agree fastest.\n\n\
         | policies | nodes | writes | p10 | median | p90 | p99 | mean | paper's median |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let printed = PRINTED_JOINS.iter().find(|(policies, _)| *policies == text(row, "policies"));
        writeln!(
            tables,
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {} |",
            text(row, "policies"),
            number(row, "nodes"),
            number(row, "samples"),
            number(row, "p10_ms"),
            number(row, "median_ms"),
            number(row, "p90_ms"),
            number(row, "p99_ms"),
            number(row, "mean_ms"),
            printed.map_or_else(String::new, |(_, ms)| ms.to_string()),
        )?;
    }
    let title = "What writes take around the world, by policies";
    within(rows, &out.join("scatter-joins.svg"), title, |row| Some(text(row, "policies").to_owned()))
}

fn reconfigurations(rows: &[&Found], out: &Path, tables: &mut String) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    tables.push_str(
        "\n## What operations of groups take, on nodes all over the world (figure 12)\n\n\
         Milliseconds from the decision to when the logs of all buckets have followed; policies as above. The paper shows curves alone.\n\n\
         | operation | policies | nodes | samples | members | p10 | median | p90 | most | mean |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let at = |percent: f64| reached(row).into_iter().find(|(_, share)| *share >= percent);
        let ms = |percent| at(percent).map(|(ms, _)| ms).unwrap_or_default();
        writeln!(
            tables,
            "| {} | {} | {} | {} | {} to {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            text(row, "kind"),
            text(row, "policies"),
            number(row, "nodes"),
            number(row, "samples"),
            number(row, "members_least"),
            number(row, "members_most"),
            ms(10.0),
            ms(50.0),
            ms(90.0),
            ms(100.0),
            number(row, "mean_ms"),
        )?;
    }
    // Both pictures have the same axis.
    for policies in ["steady", "wide"] {
        let title = format!("What operations of groups take around the world (policies: {policies})");
        let path = out.join(format!("scatter-reconfigurations-{policies}.svg"));
        let name = |row: &Found| (text(row, "policies") == policies).then(|| text(row, "kind").to_owned());
        within(rows, &path, &title, name)?;
    }
    Ok(())
}

/// Draws how much was done within which time, for the rows that get a name. Curves begin and end where those of all rows do.
fn within(rows: &[&Found], path: &Path, title: &str, name: impl Fn(&Found) -> Option<String>) -> Result<()> {
    let all = || rows.iter().flat_map(|row| reached(row)).map(|(ms, _)| ms);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let curve = |row: &&Found| [vec![(least, 0.0)], reached(row), vec![(most, 100.0)]].concat();
    let named = rows.iter().filter(|row| !reached(row).is_empty());
    let series: Series = named.filter_map(|row| Some((name(row)?, curve(row)))).collect();
    if series.is_empty() {
        return Ok(());
    }
    charts::lines(path, title, "milliseconds", "% done within", &series)
}

/// Milliseconds within which each twentieth of the operations of a row was done, and how many percent those are.
fn reached(row: &Found) -> Vec<(f64, f64)> {
    let twentieths = row.get("twentieths_us").and_then(Value::as_array).into_iter().flatten();
    let ms = twentieths.filter_map(Value::as_f64).map(|micros| micros / 1e3);
    ms.enumerate().map(|(part, ms)| (ms, part as f64 * 5.0)).collect()
}
