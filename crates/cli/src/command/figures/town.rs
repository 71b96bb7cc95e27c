//! The tables and pictures of Scatter's evaluation under load (figures 15 and 16).

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::Found;
use super::charts::{self, Series};
use super::scatter_drawn::{number, text};

fn by_system(rows: &[&Found], up: &str) -> Series {
    let mut series: Series = Vec::new();
    for row in rows {
        let (name, point) = (text(row, "system"), (number(row, "nodes"), number(row, up)));
        match series.iter_mut().find(|(known, _)| known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name.into(), vec![point])),
        }
    }
    series
}

/// What twice as many nodes brought, of twice as much.
fn of_twofold(rows: &[&Found], row: &Found) -> String {
    let is_half = |other: &&&Found| {
        text(other, "system") == text(row, "system") && number(other, "nodes") * 2.0 == number(row, "nodes")
    };
    let half = rows.iter().find(is_half);
    half.map_or_else(String::new, |half| {
        format!("{:.2}", number(row, "operations_s") / number(half, "operations_s") / 2.0)
    })
}

pub(super) fn scale(rows: &[&Found], out: &Path, tables: &mut String) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let title = "Operations in a second, by the number of nodes";
    charts::lines(
        &out.join("scatter-scale.svg"),
        title,
        "nodes",
        "operations/s",
        &by_system(rows, "operations_s"),
    )?;
    tables.push_str(
        "\n## Throughput, by the number of nodes (figure 16)\n\n\
         The paper prints no numbers: its axis reaches 400,000 operations a second for 160 nodes, and its clusters of five fall behind from 60 nodes on.\n\n\
         | system | nodes | groups | members | operations/s | deviation | of twofold | most loaded over mean: operations | work | busiest node % | mean % | messages per operation |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        writeln!(
            tables,
            "| {} | {} | {} | {} to {} | {:.0} | {:.0} | {} | {:.2} | {:.2} | {:.0} | {:.0} | {:.2} |",
            text(row, "system"),
            number(row, "nodes"),
            number(row, "groups"),
            number(row, "members_least"),
            number(row, "members_most"),
            number(row, "operations_s"),
            number(row, "deviation_s"),
            of_twofold(rows, row),
            number(row, "most_over_mean"),
            number(row, "most_over_mean_work"),
            number(row, "busy_percent_max"),
            number(row, "busy_percent_mean"),
            number(row, "messages_per_operation"),
        )?;
    }
    Ok(())
}

pub(super) fn load(rows: &[&Found], tables: &mut String) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    tables.push_str(
        "\n## How evenly fetches are spread, and what they take (figure 15)\n\n\
         The hottest bucket is whole: whoever leads it has no less. Milliseconds are those that clients wait, in the same room as the nodes. The paper's axes are \
         those of machines around the world.\n\n\
         | system | nodes | fetches/s | most loaded over mean: fetches | work | hottest bucket | p50, ms | p99 | mean |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let hottest = number(row, "hottest_bucket_over_mean");
        let hottest = if hottest > 0.0 { format!("{hottest:.2}") } else { "-".into() };
        writeln!(
            tables,
            "| {} | {} | {:.0} | {:.2} | {:.2} | {} | {:.2} | {:.2} | {:.2} |",
            text(row, "system"),
            number(row, "nodes"),
            number(row, "operations_s"),
            number(row, "most_over_mean"),
            number(row, "most_over_mean_work"),
            hottest,
            number(row, "waited_ms_p50"),
            number(row, "waited_ms_p99"),
            number(row, "waited_ms_mean"),
        )?;
    }
    Ok(())
}

pub(super) fn hot_spots(rows: &[&Found], tables: &mut String) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    tables.push_str(
        "\n## Hot spots that move every minute\n\n\
         Seconds until, for two seconds on end, the most loaded node has less than 1.3 times the mean of all operations and throughput is at least 95 % of what it was; \
         and with work in the place of operations.\n\n\
         | system | hot | nodes | moves | absorbed within 10 s | never | seconds, mean | most | by work within 10 s | seconds, mean | most | worst most over mean | least throughput of before |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        // None of what took for ever.
        let is_any = |never| number(row, never) < number(row, "moves");
        let seconds =
            |never, name| if is_any(never) { format!("{:.1}", number(row, name)) } else { "-".into() };
        writeln!(
            tables,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.2} |",
            text(row, "system"),
            text(row, "heat"),
            number(row, "nodes"),
            number(row, "moves"),
            number(row, "absorbed_within_10_s"),
            number(row, "never_absorbed"),
            seconds("never_absorbed", "absorbed_s_mean"),
            seconds("never_absorbed", "absorbed_s_most"),
            number(row, "absorbed_by_work_within_10_s"),
            seconds("never_absorbed_by_work", "absorbed_by_work_s_mean"),
            seconds("never_absorbed_by_work", "absorbed_by_work_s_most"),
            number(row, "worst_most_over_mean"),
            number(row, "least_rate_of_before"),
        )?;
    }
    Ok(())
}
