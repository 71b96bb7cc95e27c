//! `status` and `nodes`: what the cluster looks like.

use std::time::Duration;

use anyhow::Result;
use quorate_node::Member;

use crate::args::{Status, Target};
use crate::command::groups;
use crate::output::{Format, Table, print, print_json};
use crate::view::{self, ClusterView, NodeView};
use crate::watch;

const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Shows every node. Nodes that do not answer are shown as down: that is no error.
pub(crate) fn status(status: &Status, format: Format) -> Result<()> {
    if status.watch && format == Format::Text {
        return watch::run(&status.target);
    }
    loop {
        let view = view::gather(&status.target)?;
        match format {
            Format::Json => print_json(&view)?,
            Format::Text => print(&render(&view))?,
        }
        if !status.watch {
            return Ok(());
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

/// The cluster as tables.
pub(crate) fn render(view: &ClusterView) -> String {
    let mut table = Table::new(&[
        "NODE", "STATE", "ROLE", "LEADER", "LIST", "APPLIED", "CHOSEN", "LAST", "KEYS", "CLIENTS", "MEMORY",
        "PID", "ADMIN",
    ]);
    for node in &view.nodes {
        table.row(row(node));
    }
    let mut text = table.render();
    text.push('\n');
    if view.newest().is_some_and(|newest| newest.node.buckets.len() > 1) {
        text.push_str(&buckets(view));
        text.push('\n');
    }
    if let Some(newest) = view.newest().filter(|newest| !newest.node.groups.is_empty()) {
        text.push_str(&groups::render(&newest.node));
        text.push('\n');
    }
    text.push_str(&summary(view));
    text.push('\n');
    for (bucket, _) in view.halted().into_values() {
        text.extend(bucket.alarm().map(|alarm| format!("HALTED: {alarm}\n")));
    }
    text
}

fn row(node: &NodeView) -> Vec<String> {
    let dash = || "-".to_owned();
    let id = node.id.map_or_else(dash, |id| id.to_string());
    let pid = node.pid.map_or_else(dash, |pid| pid.to_string());
    let mut cells = vec![id, node.state().to_owned()];
    match &node.report {
        Some(report) => {
            let says = &report.node;
            cells.extend([
                says.role.clone(),
                says.believed_leader.map_or_else(dash, |id| id.to_string()),
                says.epoch.to_string(),
                says.log_applied.to_string(),
                says.log_chosen.to_string(),
                says.log_last.to_string(),
                says.keys.to_string(),
                report.host.clients.connections.to_string(),
                format!("{} MiB", report.process.resident_bytes >> 20),
            ]);
        }
        None => cells.extend((0..9).map(|_| dash())),
    }
    cells.extend([pid, node.endpoints.admin.clone()]);
    cells
}

/// The buckets, each as who leads it sees it.
fn buckets(view: &ClusterView) -> String {
    let mut table =
        Table::new(&["BUCKET", "SLOTS", "LEADER", "MEMBERS", "QUORUM", "APPLIED", "CHOSEN", "LAST", "KEYS"]);
    for bucket in view.buckets() {
        let members: Vec<String> = bucket.members.iter().map(ToString::to_string).collect();
        table.row([
            bucket.bucket.0.to_string(),
            format!("{}-{}", bucket.slot_first, bucket.slot_last),
            bucket.believed_leader.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            members.join(","),
            if bucket.quorum { "yes" } else { "no" }.to_owned(),
            bucket.log_applied.to_string(),
            bucket.log_chosen.to_string(),
            bucket.log_last.to_string(),
            bucket.keys.to_string(),
        ]);
    }
    table.render()
}

fn summary(view: &ClusterView) -> String {
    let Some(newest) = view.newest() else {
        return "no node answers: the cluster is down".to_owned();
    };
    let members = &newest.node.members;
    let up = view
        .nodes
        .iter()
        .filter(|node| node.report.is_some() && members.iter().any(|member| Some(member.id) == node.id));
    let (up, all) = (up.count(), members.len());
    let leader =
        view.believed_leader().map_or("no leader is known".to_owned(), |id| format!("node {id} leads"));
    let needed = all / 2 + 1;
    if up < needed {
        return format!("{up} of {all} members answer; {needed} are needed: commands are refused until then");
    }
    let poor = view.buckets().iter().filter(|bucket| !bucket.quorum).count();
    let buckets = match poor {
        0 => String::new(),
        poor => format!("; {poor} buckets have no leader with a majority just now: their keys wait"),
    };
    format!("{up} of {all} members answer, {leader}; {} more may fail{buckets}", up - needed)
}

/// Lists the members with their addresses.
pub(crate) fn nodes(target: &Target, format: Format) -> Result<()> {
    let view = view::gather_live(target)?;
    let members: &[Member] = view.newest().map_or(&[], |report| &report.node.members);
    if format == Format::Json {
        return print_json(&members);
    }
    let mut table = Table::new(&["NODE", "CLIENTS", "REDIS CLUSTER", "PEERS", "OPERATORS", "STATE"]);
    for member in members {
        let ends = &member.endpoints;
        let seen = view.nodes.iter().find(|node| node.id == Some(member.id));
        table.row([
            member.id.to_string(),
            ends.client.clone(),
            ends.cluster.clone(),
            ends.peer.clone(),
            ends.admin.clone(),
            seen.map_or("down", NodeView::state).to_owned(),
        ]);
    }
    print(&table.render())
}
