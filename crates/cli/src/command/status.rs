//! `status` and `nodes`: what the cluster looks like.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use quorate_kernel::NodeId;
use quorate_node::{BucketStatus, Member};

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
    let all = view.buckets();
    // Of several buckets, what a node says of the first says nothing of the others.
    let is_cut = all.len() > 1;
    let of_log =
        if is_cut { &["LEADS", "HOLDS"][..] } else { &["LEADER", "LIST", "APPLIED", "CHOSEN", "LAST"] };
    let columns =
        [&["NODE", "STATE", "ROLE"], of_log, &["KEYS", "CLIENTS", "MEMORY", "PID", "ADMIN"]].concat();
    let mut table = Table::new(&columns);
    for node in &view.nodes {
        let led = all.iter().filter(|bucket| bucket.believed_leader == node.id && node.id.is_some());
        let mut cells = row(node, is_cut.then(|| led.count()));
        cells.resize(columns.len() - 2, "-".to_owned());
        let pid = node.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        cells.extend([pid, node.endpoints.admin.clone()]);
        table.row(cells);
    }
    let mut text = table.render();
    text.push('\n');
    if is_cut {
        text.push_str(&buckets(&all));
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

/// What is said of a node, if it answers; of a cluster with several buckets, how many of them it leads and holds.
fn row(node: &NodeView, led: Option<usize>) -> Vec<String> {
    let name = |id: Option<NodeId>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    let mut cells = vec![name(node.id), node.state().to_owned()];
    let Some(report) = &node.report else { return cells };
    let says = &report.node;
    cells.push(says.role.clone());
    match led {
        Some(led) => {
            let held = says.buckets.iter().filter(|bucket| bucket.here).count();
            cells.extend([led.to_string(), held.to_string()]);
        }
        None => cells.extend([
            name(says.believed_leader),
            says.epoch.to_string(),
            says.log_applied.to_string(),
            says.log_chosen.to_string(),
            says.log_last.to_string(),
        ]),
    }
    cells.extend([
        says.keys.to_string(),
        report.host.clients.connections.to_string(),
        format!("{} MiB", report.process.resident_bytes >> 20),
    ]);
    cells
}

/// The buckets, each as who leads it sees it.
fn buckets(all: &[&BucketStatus]) -> String {
    let mut table =
        Table::new(&["BUCKET", "SLOTS", "LEADER", "MEMBERS", "QUORUM", "APPLIED", "CHOSEN", "LAST", "KEYS"]);
    for bucket in all {
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

/// Nodes of which more than half must be there: those of a cluster, of a group or of a bucket.
struct Company<'a> {
    name: String,
    members: &'a [NodeId],
    there: usize,
}

impl<'a> Company<'a> {
    fn new(view: &ClusterView, name: String, members: &'a [NodeId]) -> Self {
        Company { name, members, there: members.iter().filter(|id| view.answers(**id)).count() }
    }

    fn needed(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// How many more it can do without; `None`: it lacks some already.
    fn spare(&self) -> Option<usize> {
        self.there.checked_sub(self.needed())
    }
}

fn summary(view: &ClusterView) -> String {
    let Some(newest) = view.newest() else {
        return "no node answers: the cluster is down".to_owned();
    };
    let members: Vec<NodeId> = newest.node.members.iter().map(|member| member.id).collect();
    let all = Company::new(view, "the cluster".into(), &members);
    let (groups, buckets) = (view.groups(), view.buckets());
    // No group needs most nodes of the ring.
    if groups.is_empty() && all.spare().is_none() {
        return format!(
            "{} of {} members answer; {} are needed: commands are refused until then",
            all.there,
            members.len(),
            all.needed()
        );
    }
    let mut text = format!("{} of {} members answer", all.there, members.len());
    match groups.len() {
        0 => {}
        1 => text += ", in 1 group",
        count => text += &format!(", in {count} groups"),
    }
    text += &leaders(view, &buckets);
    let needed: Vec<Company<'_>> = if !groups.is_empty() {
        groups.iter().map(|it| Company::new(view, format!("group {}", it.id), &it.members)).collect()
    } else if newest.node.copies > 0 {
        let held =
            buckets.iter().map(|it| Company::new(view, format!("bucket {}", it.bucket.0), &it.members));
        held.chain([all]).collect()
    } else {
        vec![all]
    };
    let weakest = needed.iter().min_by_key(|company| company.spare().map_or(0, |spare| spare + 1));
    text.extend(weakest.map(|weakest| format!("; {}", loss(weakest))));
    match buckets.iter().filter(|bucket| !bucket.quorum).count() {
        0 => text,
        poor => {
            text + &format!("; buckets without a leader with a majority just now, whose keys wait: {poor}")
        }
    }
}

/// Who leads: of several buckets one says little.
fn leaders(view: &ClusterView, buckets: &[&BucketStatus]) -> String {
    if buckets.len() > 1 {
        let leaders: BTreeSet<NodeId> = buckets.iter().filter_map(|bucket| bucket.believed_leader).collect();
        return format!(", {} of them lead", leaders.into_iter().filter(|id| view.answers(*id)).count());
    }
    view.believed_leader().map_or(", no leader is known".into(), |id| format!(", node {id} leads"))
}

/// What those can do without who can do without fewest.
fn loss(weakest: &Company<'_>) -> String {
    let Company { name, members, there } = weakest;
    if name == "the cluster" {
        return format!("{} more may fail", weakest.spare().unwrap_or_default());
    }
    let list = members.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ");
    match weakest.spare() {
        None => format!(
            "{name} (nodes {list}) has lost its majority, {there} answer and {} are needed",
            weakest.needed()
        ),
        Some(0) => format!("{name} (nodes {list}) needs all {there} that answer: none of these may fail"),
        Some(spare) => {
            format!("{spare} more may fail, whichever these are: {name} (nodes {list}) bears no more")
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_host::StatusReport;
    use quorate_node::{Endpoints, GroupId, GroupStatus};

    /// What a node says that knows of these others; with groups of theirs, or with buckets held by these.
    fn report(id: u64, others: &[u64], groups: &[&[u64]], buckets: &[&[u64]], copies: u8) -> StatusReport {
        let member = |id: &u64| {
            let endpoints = serde_json::json!(Endpoints::default());
            serde_json::json!({ "id": id, "endpoints": endpoints })
        };
        let group = |(number, members): (u64, &&[u64])| GroupStatus {
            id: GroupId(number),
            epoch: 1,
            buckets: vec![quorate_api::Bucket(number as u16)],
            members: members.iter().copied().map(NodeId).collect(),
            speaker: None,
            quorum: true,
            settled: None,
            load: 0,
        };
        let bucket = |(number, members): (u16, &&[u64])| {
            serde_json::json!({
                "bucket": number, "slot_first": 0, "slot_last": 1, "believed_leader": members[0], "members": members,
                "quorum": true, "here": true, "epoch": 1, "log_last": 1, "log_chosen": 1, "log_applied": 1, "keys": 0,
            })
        };
        let node = serde_json::json!({
            "id": id, "role": "member", "ready": true, "believed_leader": 1, "epoch": 3, "copies": copies,
            "members": others.iter().map(member).collect::<Vec<_>>(), "learners": [], "log_last": 1, "log_chosen": 1,
            "log_applied": 1, "log_first": 1, "keys": 0, "store_bytes": 0, "requests_pending": 0, "followers": [],
            "groups": (0..).zip(groups).map(group).collect::<Vec<_>>(),
            "buckets": (0..).zip(buckets).map(bucket).collect::<Vec<_>>(),
        });
        let process = serde_json::json!({ "resident_bytes": 1, "peak_bytes": 1, "cpu_ms": 1 });
        let host = quorate_host::HostStats::default();
        let whole = serde_json::json!({ "node": node, "host": host, "process": process, "version": "1" });
        serde_json::from_value(whole).unwrap()
    }

    /// What is said of a cluster of six of which these are dead.
    fn said(dead: &[u64], groups: &[&[u64]], buckets: &[&[u64]], copies: u8) -> String {
        let all = [1, 2, 3, 4, 5, 6];
        let node = |id: &u64| NodeView {
            id: Some(NodeId(*id)),
            endpoints: Endpoints::default(),
            pid: None,
            report: (!dead.contains(id)).then(|| report(*id, &all, groups, buckets, copies)),
            error: None,
        };
        summary(&ClusterView { nodes: all.iter().map(node).collect() })
    }

    #[test]
    fn a_ring_bears_as_much_as_its_weakest_group() {
        let (groups, buckets): ([&[u64]; 2], [&[u64]; 2]) =
            ([&[1, 2, 3], &[4, 5, 6]], [&[1, 2, 3], &[4, 5, 6]]);
        assert_eq!(
            said(&[], &groups, &buckets, 3),
            "6 of 6 members answer, in 2 groups, 2 of them lead; 1 more may fail, whichever these are: group g0 (nodes 1, 2, 3) \
             bears no more"
        );
        let text = said(&[5], &groups, &buckets, 3);
        assert!(text.contains("group g1 (nodes 4, 5, 6) needs all 2 that answer"), "{text}");
        // Most nodes of the ring are gone, and only one group misses them.
        let text = said(&[4, 5, 6, 1], &groups, &buckets, 3);
        assert!(
            text.contains("group g1 (nodes 4, 5, 6) has lost its majority, 0 answer and 2 are needed"),
            "{text}"
        );
    }

    #[test]
    fn placed_buckets_bear_as_much_as_the_weakest_and_the_cluster_do() {
        let buckets: [&[u64]; 2] = [&[1, 2, 3], &[2, 3, 4, 5, 6]];
        let text = said(&[], &[], &buckets, 3);
        assert!(text.contains("2 of them lead; 1 more may fail, whichever these are: bucket 0"), "{text}");
        let text = said(&[5, 6], &[], &[&[1, 2, 3, 4]], 4);
        assert!(text.ends_with("0 more may fail"), "most nodes have to agree who is there: {text}");
        assert!(said(&[4, 5, 6], &[], &buckets, 3).contains("3 of 6 members answer; 4 are needed"));
    }

    #[test]
    fn where_all_hold_everything_the_cluster_counts() {
        let text = said(&[], &[], &[&[1, 2, 3, 4, 5, 6]], 0);
        assert_eq!(text, "6 of 6 members answer, node 1 leads; 2 more may fail");
    }
}
