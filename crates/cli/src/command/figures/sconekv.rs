//! The tables and pictures of SconeKV's evaluation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::Found;
use super::charts::{self, Series};

/// The paper's figure 5 (means of three runs): clients, operations per second, committed percent.
const PAPER_A: [(u32, f64, f64); 5] =
    [(16, 1819.0, 83.5), (32, 2511.0, 77.2), (64, 3368.0, 70.7), (128, 4053.0, 64.2), (256, 5114.0, 59.6)];
/// Its figures 9 to 12: load, and goodput on 20, 40 and 80 nodes; operations per second, of TPC-C transactions.
const PAPER_SCALE: [(&str, [f64; 3]); 3] = [
    ("ycsb-a-zipfian", [2846.0, 3692.0, 4500.0]),
    ("ycsb-b-zipfian", [4998.0, 6402.0, 8253.0]),
    ("tpcc", [584.4, 679.8, 955.8]),
];
/// What tells one run from another.
const IDENTITY: [&str; 11] = [
    "experiment",
    "load",
    "manner",
    "nodes",
    "clients",
    "buckets",
    "client_ms",
    "sync_ms",
    "patience_ms",
    "clock_error_ms",
    "kib_ms",
];

/// How a column shows a field of a row.
enum Show {
    /// As it stands.
    Plain(&'static str),
    /// A number with three digits or so.
    Short(&'static str),
    /// With so many digits behind the point.
    Digits(&'static str, usize),
    /// What no row holds.
    With(fn(&Found) -> String),
}

use Show::{Digits, Plain, Short, With};

type Columns = [(&'static str, Show)];

fn number(row: &Found, name: &str) -> f64 {
    row.get(name).and_then(serde_json::Value::as_f64).unwrap_or(0.0)
}

fn text(row: &Found, name: &str) -> String {
    match row.get(name) {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn short(number: f64) -> String {
    let digits = usize::from(number < 100.0);
    format!("{number:.digits$}")
}

fn cell(row: &Found, show: &Show) -> String {
    match show {
        Plain(name) => text(row, name),
        Short(name) | Digits(name, _) if !row.contains_key(*name) => String::new(),
        Short(name) => short(number(row, name)),
        Digits(name, digits) => format!("{:.digits$}", number(row, name)),
        With(show) => show(row),
    }
}

fn table(rows: &[&Found], columns: &Columns) -> String {
    let header: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut out = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        let cells: Vec<String> = columns.iter().map(|(_, show)| cell(row, show)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out + "\n"
}

/// Lines of `up` over `across`, one for each of what `name` makes of the rows, in the order in which they come.
fn series(rows: &[&Found], name: impl Fn(&Found) -> String, across: &str, up: &str) -> Series {
    let mut series = Series::new();
    for row in rows {
        let (name, point) = (name(row), (number(row, across), number(row, up)));
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name, vec![point])),
        }
    }
    series
}

fn with_printed(printed: Vec<(f64, f64)>, mut series: Series) -> Series {
    series.insert(0, ("SconeKV, as printed".into(), printed));
    series
}

fn manner(row: &Found) -> String {
    text(row, "manner")
}

fn printed_beside(row: &Found) -> String {
    let printed = PAPER_A.iter().find(|(clients, ..)| f64::from(*clients) == number(row, "clients"));
    match printed.filter(|_| manner(row) == "paper") {
        Some((_, rate, share)) => format!("{rate:.0} / {share}"),
        None => String::new(),
    }
}

const CALIBRATE: &Columns = &[
    ("one way to the client, ms", Plain("client_ms")),
    ("operations/s", Short("operations_s")),
    ("ms per operation", Digits("ms_per_operation", 2)),
    ("committed %", Digits("committed_percent", 1)),
];

const CONTENTION: &Columns = &[
    ("manner", Plain("manner")),
    ("clients", Plain("clients")),
    ("ms per KiB", Plain("kib_ms")),
    ("operations/s", Short("operations_s")),
    ("committed %", Digits("committed_percent", 1)),
    ("of attempts %", Digits("attempts_committed_percent", 1)),
    ("goodput (operations/s)", Short("goodput_operations_s")),
    ("p50 ms", Short("p50_ms")),
    ("p99 ms", Short("p99_ms")),
    ("longest ms", Short("longest_wait_ms")),
    ("reverts", Plain("reverts")),
    ("messages per commit", Short("messages_per_commit")),
    ("entries per commit", Digits("entries_per_commit", 1)),
    ("busiest node %", Digits("busy_percent_max", 0)),
    ("paper: operations/s / %", With(printed_beside)),
];

const OTHERS: &Columns = &[
    ("load", Plain("load")),
    ("manner", Plain("manner")),
    ("clients", Plain("clients")),
    ("buckets", Plain("buckets")),
    ("sync ms", Plain("sync_ms")),
    ("patience ms", Plain("patience_ms")),
    ("operations/s", Short("operations_s")),
    ("committed %", Digits("committed_percent", 1)),
    ("goodput (operations/s)", Short("goodput_operations_s")),
    ("read ms", Short("read_round_ms")),
    ("commit ms", Short("commit_round_ms")),
    ("p50 ms", Short("p50_ms")),
    ("p99 ms", Short("p99_ms")),
    ("longest ms", Short("longest_wait_ms")),
    ("messages per commit", Short("messages_per_commit")),
];

/// Where all are in each other's way, the time in which each client commits once.
fn turn(row: &Found) -> f64 {
    number(row, "clients") * 1e3 / number(row, "goodput_s").max(1e-9)
}

const STARVATION: &Columns = &[
    ("keys", Plain("load")),
    ("manner", Plain("manner")),
    ("clocks wrong by, ms", Plain("clock_error_ms")),
    ("clients", Plain("clients")),
    ("commits/s", Short("goodput_s")),
    ("committed %", Digits("committed_percent", 1)),
    ("of attempts %", Digits("attempts_committed_percent", 1)),
    ("p50 ms", Short("p50_ms")),
    ("p99 ms", Short("p99_ms")),
    ("longest ms", Short("longest_wait_ms")),
    ("a turn, ms", With(|row| short(turn(row)))),
    ("longest in turns", With(|row| format!("{:.1}", number(row, "longest_wait_ms") / turn(row)))),
    ("most attempts", Plain("attempts_most")),
    ("reverts", Plain("reverts")),
    ("long: p50 ms", Short("long_p50_ms")),
    ("p99 ms", Short("long_p99_ms")),
    ("longest ms", Short("long_longest_ms")),
];

const SCALE: &Columns = &[
    ("load", Plain("load")),
    ("manner", Plain("manner")),
    ("nodes", Plain("nodes")),
    ("clients", Plain("clients")),
    ("goodput/s", Short("goodput/s")),
    ("of twofold", Digits("of twofold", 2)),
    ("paper", Digits("paper", 2)),
    ("committed %", Digits("committed_percent", 1)),
    ("p50 ms", Short("p50_ms")),
    ("p99 ms", Short("p99_ms")),
    ("buckets per commit", Digits("buckets_per_commit", 2)),
    ("messages per commit", Short("messages_per_commit")),
    ("bytes per commit", Short("bytes_per_commit")),
    ("entries per commit", Digits("entries_per_commit", 2)),
    ("busiest node %", Digits("busy_percent_max", 0)),
];

/// The rows with what each doubling of the cluster brought, here and in the paper.
fn doublings(rows: &[&Found]) -> Vec<Found> {
    let mut out: Vec<Found> = Vec::new();
    for row in rows {
        let mut row: Found = (*row).clone();
        let rate = if text(&row, "load").starts_with("tpcc") { "goodput_s" } else { "goodput_operations_s" };
        let (nodes, goodput) = (number(&row, "nodes"), number(&row, rate));
        let same = |other: &Found| ["load", "manner"].iter().all(|name| other.get(*name) == row.get(*name));
        let half = out.iter().find(|other| same(other) && number(other, "nodes") * 2.0 == nodes);
        let factor = half.map(|half| goodput / number(half, "goodput/s") / 2.0);
        let printed = PAPER_SCALE.iter().find(|(load, _)| *load == text(&row, "load"));
        let paper = printed.and_then(|(_, [small, middle, large])| match nodes as u32 {
            40 => Some(middle / small / 2.0),
            80 => Some(large / middle / 2.0),
            _ => None,
        });
        row.insert("goodput/s".into(), goodput.into());
        for (name, value) in [("of twofold", factor), ("paper", paper)] {
            if let Some(value) = value {
                row.insert(name.into(), value.into());
            }
        }
        out.push(row);
    }
    out
}

fn draw_contention(rows: &[&Found], out: &Path) -> Result<()> {
    let shares = PAPER_A.iter().map(|(clients, _, share)| (f64::from(*clients), *share)).collect();
    let goodput =
        PAPER_A.iter().map(|(clients, rate, share)| (f64::from(*clients), rate * share / 100.0)).collect();
    charts::lines(
        &out.join("contention-committed.svg"),
        "YCSB A, zipfian, 20 nodes: transactions that commit",
        "clients",
        "percent",
        &with_printed(shares, series(rows, manner, "clients", "committed_percent")),
    )?;
    charts::lines(
        &out.join("contention-goodput.svg"),
        "YCSB A, zipfian, 20 nodes: goodput",
        "clients",
        "committed operations/s",
        &with_printed(goodput, series(rows, manner, "clients", "goodput_operations_s")),
    )
}

fn draw_scale(rows: &[Found], out: &Path) -> Result<()> {
    let mut loads: Vec<String> = rows.iter().map(|row| text(row, "load")).collect();
    loads.dedup();
    for load in loads {
        let of_load: Vec<&Found> = rows.iter().filter(|row| text(row, "load") == load).collect();
        let path = out.join(format!("scale-{load}.svg"));
        let title = format!("{load}: goodput with clients in proportion");
        charts::lines(&path, &title, "nodes", "goodput/s", &series(&of_load, manner, "nodes", "goodput/s"))?;
    }
    Ok(())
}

fn draw_starvation(rows: &[&Found], out: &Path) -> Result<()> {
    let name = |row: &Found| {
        let clocks = number(row, "clock_error_ms");
        let clocks = if clocks > 1.0 { format!(", {clocks:.0} ms") } else { String::new() };
        format!("{} {}{clocks}", text(row, "load"), manner(row))
    };
    // What reads first and begins again has no bound, and would leave no room for the others.
    let bounded: Vec<&Found> = rows.iter().copied().filter(|row| manner(row) == "one-shot").collect();
    let series = series(&bounded, name, "clients", "longest_wait_ms");
    let title = "The longest wait of any transaction that is sent together";
    charts::lines(&out.join("starvation.svg"), title, "clients", "ms", &series)
}

/// Draws the pictures into `out`, and returns the tables.
pub(super) fn draw(rows: &[Found], out: &Path) -> Result<String> {
    // The newest of each run, in the order in which they were first there.
    let identity = |row: &Found| IDENTITY.map(|name| text(row, name));
    let newest: BTreeMap<_, _> = rows.iter().map(|row| (identity(row), row)).collect();
    let mut order: Vec<_> = rows.iter().map(identity).collect();
    let mut seen = std::collections::BTreeSet::new();
    order.retain(|run| seen.insert(run.clone()));
    let of = |experiment: &str| -> Vec<&Found> {
        order.iter().filter(|run| run[0] == experiment).map(|run| newest[run]).collect()
    };
    let mut tables = String::from("<!-- Written by `quorate figures sconekv`. -->\n\n");
    let mut add = |title: &str, rows: &[&Found], columns: &Columns| {
        if !rows.is_empty() {
            let _ = write!(tables, "## {title}\n\n{}", table(rows, columns));
        }
    };
    add("Calibration: 16 clients, the paper's manner", &of("calibrate"), CALIBRATE);
    add("YCSB A, zipfian, 20 nodes", &of("contention"), CONTENTION);
    add("The same, where bytes cost time", &of("sizes"), CONTENTION);
    add("Other mixes, 256 clients, 20 nodes", &of("mixes"), OTHERS);
    let patience = "Aborted after waiting for so long (one-shot, YCSB A, zipfian, 256 clients)";
    add(patience, &of("patience"), OTHERS);
    add("More buckets on 20 nodes", &of("buckets"), OTHERS);
    add("With disks", &of("durable"), OTHERS);
    add("Who waits longest", &of("starvation"), STARVATION);
    for (title, experiment) in [("Larger clusters", "scale"), ("TPC-C", "tpcc")] {
        let rows = doublings(&of(experiment));
        add(title, &rows.iter().collect::<Vec<_>>(), SCALE);
        draw_scale(&rows, out)?;
    }
    let rows = doublings(&of("cost"));
    add("The same, 40 buckets whatever the number of nodes", &rows.iter().collect::<Vec<_>>(), SCALE);
    for (experiment, picture) in [
        ("contention", draw_contention as fn(&[&Found], &Path) -> Result<()>),
        ("starvation", draw_starvation),
    ] {
        let rows = of(experiment);
        if !rows.is_empty() {
            picture(&rows, out)?;
        }
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(nodes: u32, goodput: f64) -> Found {
        let row = serde_json::json!({
            "experiment": "scale", "load": "ycsb-a-zipfian", "manner": "paper", "nodes": nodes, "clients": nodes * 12,
            "goodput_operations_s": goodput, "committed_percent": 59.6,
        });
        row.as_object().expect("an object").clone()
    }

    #[test]
    fn the_newest_of_each_run_is_drawn_beside_what_was_printed() {
        let out = tempfile::tempdir().expect("a directory");
        let rows = [row(20, 1_000.0), row(40, 1.0), row(40, 1_900.0)];
        let tables = draw(&rows, out.path()).expect("drawn");
        let lines: Vec<&str> = tables.lines().filter(|line| line.starts_with("| ycsb")).collect();
        assert!(lines[0].contains("| 20 | 240 | 1000 |  |  | 59.6 |"), "{tables}");
        assert!(lines[1].contains("| 40 | 480 | 1900 | 0.95 | 0.65 | 59.6 |"), "{tables}");
        assert_eq!(lines.len(), 2);
        let picture =
            std::fs::read_to_string(out.path().join("scale-ycsb-a-zipfian.svg")).expect("a picture");
        assert!(picture.contains("<polyline") && picture.contains("paper"));
    }
}
