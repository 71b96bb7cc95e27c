//! The tables and pictures of large rings: under churn (figures 13 and 14), and by the number of nodes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::Found;
use super::charts::{self, Series};
use super::scatter_drawn::{number, text};

/// How experiments are called where they are drawn.
const SYSTEMS: [(&str, &str); 2] = [("churn", "groups"), ("churn-baseline", "hash table")];

fn system(row: &Found) -> &'static str {
    let of = SYSTEMS.iter().find(|(experiment, _)| *experiment == text(row, "experiment"));
    of.map_or("", |(_, system)| system)
}

/// A picture: its file, its title, its upright axis, and what is drawn of a row.
type Picture = (&'static str, &'static str, &'static str, fn(&Found) -> f64);

/// What some figure is, by lifetime, for each system and way in which lifetimes are spread.
fn by_lifetime(rows: &[&Found], up: impl Fn(&Found) -> f64) -> Series {
    let mut series: Series = Vec::new();
    for row in rows {
        let name = format!("{}, {}", system(row), text(row, "lives"));
        let point = (number(row, "lifetime_s"), up(row));
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name, vec![point])),
        }
    }
    series
}

/// Figures 13 and 14: a table and a picture each of latency, of availability and of consistency.
pub(super) fn churn(ring: &[&Found], baseline: &[&Found], out: &Path, tables: &mut String) -> Result<()> {
    let mut rows = [ring, baseline].concat();
    if rows.is_empty() {
        return Ok(());
    }
    let key = |row: &Found| (text(row, "lives") == "pareto", number(row, "lifetime_s") as u64, system(row));
    rows.sort_by_key(|row| key(row));
    let pictures: [Picture; 3] = [
        ("scatter-churn-read.svg", "What a read takes while nodes die", "mean, ms", |row| {
            number(row, "read_mean_ms")
        }),
        ("scatter-churn-unanswered.svg", "Not answered within 3 s while nodes die", "in a thousand", |row| {
            1_000.0 - 10.0 * number(row, "answered_percent")
        }),
        ("scatter-churn-stale.svg", "Reads that are too old while nodes die", "in a million", |row| {
            1e4 * number(row, "stale_percent")
        }),
    ];
    for (file, title, up, of) in pictures {
        charts::lines(&out.join(file), title, "mean lifetime, s", up, &by_lifetime(&rows, of))?;
    }
    tables.push_str(
        "\n## Churn around the world (figures 13 and 14)\n\n\
         Milliseconds; `hash table` is the baseline without consensus. `too old`: reads of a value over which another had been written before they began. \
         `lost`: keys whose last look, after all deaths, showed too old a value.\n\n\
         | lifetimes | mean, s | system | nodes | copies | deaths | operations | answered within 3 s, % | read, mean | p99 | write, mean | p99 | judged | too old, % | keys lost |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let is_ring = system(row) == "groups";
        let judged = if is_ring { format!("{} linearizable", number(row, "judged")) } else { String::new() };
        writeln!(
            tables,
            "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.0} | {:.0} | {:.0} | {:.0} | {judged} | {} | {} |",
            text(row, "lives"),
            number(row, "lifetime_s"),
            system(row),
            number(row, "nodes"),
            number(row, "copies"),
            number(row, "deaths"),
            number(row, "operations"),
            number(row, "answered_percent"),
            number(row, "read_mean_ms"),
            number(row, "read_p99_ms"),
            number(row, "write_mean_ms"),
            number(row, "write_p99_ms"),
            if is_ring { "0".into() } else { format!("{:.4}", number(row, "stale_percent")) },
            number(row, "keys_lost"),
        )?;
    }
    Ok(())
}

/// What a node has to know, send and be connected to, by how many there are.
pub(super) fn size(rows: &[&Found], out: &Path, tables: &mut String) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let names = [
        ("messages_per_node_s", "messages/s"),
        ("connections_mean", "connections"),
        ("groups_known_mean", "groups known"),
        ("people_mean", "nodes known"),
    ];
    let line = |(field, name): (&str, &str)| {
        (name.to_owned(), rows.iter().map(|row| (number(row, "nodes"), number(row, field))).collect())
    };
    let series: Series = names.into_iter().map(line).collect();
    charts::lines(
        &out.join("scatter-size.svg"),
        "What a node has to do with, by all nodes",
        "nodes",
        "",
        &series,
    )?;
    tables.push_str(
        "\n## From a hundred nodes up\n\n\
         Means of all nodes, and in brackets the most. `KiB` is what the simulation takes at most, divided by the nodes.\n\n\
         | nodes | groups | formed, s | deaths | answered within 3 s, % | read, ms | p99 | messages/s | connections | groups known | nodes known | leaders known | KiB |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let known = |name: &str| {
            let (mean, most) = (format!("{name}_mean"), format!("{name}_most"));
            format!("{:.0} ({})", number(row, &mean), number(row, &most))
        };
        writeln!(
            tables,
            "| {} | {} | {:.0} | {} | {:.2} | {:.1} | {:.1} | {:.0} | {} | {} | {} | {} | {:.0} |",
            number(row, "nodes"),
            number(row, "groups"),
            number(row, "formed_s"),
            number(row, "deaths"),
            number(row, "answered_percent"),
            number(row, "read_mean_ms"),
            number(row, "read_p99_ms"),
            number(row, "messages_per_node_s"),
            known("connections"),
            known("groups_known"),
            known("people"),
            known("leaders_known"),
            number(row, "peak_mib") * 1024.0 / number(row, "nodes"),
        )?;
    }
    Ok(())
}
