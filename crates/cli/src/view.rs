//! A picture of a whole cluster, put together from what each node says of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use quorate_api::Bucket;
use quorate_host::StatusReport;
use quorate_kernel::NodeId;
use quorate_node::{BucketStatus, Endpoints, GroupStatus};
use serde::Serialize;

use crate::admin::AdminClient;
use crate::args::Target;
use crate::exit::{self, failure};
use crate::local;

/// Where a node started by hand listens for operators, unless told otherwise.
const ADMIN_DEFAULT: &str = "127.0.0.1:8379";
/// How long a node may take to describe itself.
const WAIT: Duration = Duration::from_millis(2_500);

/// One node as seen from here.
#[derive(Debug, Serialize)]
pub(crate) struct NodeView {
    /// The node, if anybody knows its id.
    pub(crate) id: Option<NodeId>,
    /// Where it can be reached.
    pub(crate) endpoints: Endpoints,
    /// Number of its process, for nodes of a local cluster.
    pub(crate) pid: Option<u32>,
    /// What it says.
    pub(crate) report: Option<StatusReport>,
    /// Why it says nothing.
    pub(crate) error: Option<String>,
}

impl NodeView {
    /// Health in one word.
    pub(crate) fn state(&self) -> &'static str {
        match &self.report {
            None => "down",
            Some(report) if report.host.stopping => "stopping",
            Some(report) if report.node.ready => "serves",
            Some(_) => "waits",
        }
    }
}

/// A cluster as seen from here.
#[derive(Debug, Serialize)]
pub(crate) struct ClusterView {
    /// Its nodes by id.
    pub(crate) nodes: Vec<NodeView>,
}

impl ClusterView {
    /// Nodes that answer.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &StatusReport> {
        self.nodes.iter().filter_map(|node| node.report.as_ref())
    }

    /// The newest view of the members: the one with the highest epoch.
    pub(crate) fn newest(&self) -> Option<&StatusReport> {
        self.reports().max_by_key(|report| (report.node.epoch, report.node.log_applied))
    }

    /// Whom the most recent view believes to lead.
    pub(crate) fn believed_leader(&self) -> Option<NodeId> {
        let led = self.reports().filter(|report| report.node.role == "leader" && report.node.ready);
        let leader = led.max_by_key(|report| report.node.log_chosen).map(|report| report.node.id);
        leader.or_else(|| self.newest()?.node.believed_leader)
    }

    /// Every bucket as the node sees it that leads it; else as whoever knows most of it does.
    pub(crate) fn buckets(&self) -> Vec<&BucketStatus> {
        let mut best: BTreeMap<u16, (NodeId, &BucketStatus)> = BTreeMap::new();
        for (id, bucket) in
            self.reports().flat_map(|report| report.node.buckets.iter().map(|b| (report.node.id, b)))
        {
            let rank = |id: NodeId, it: &BucketStatus| {
                (it.believed_leader == Some(id) && it.quorum, it.quorum, it.epoch, it.log_applied)
            };
            let known = best.entry(bucket.bucket.0).or_insert((id, bucket));
            if rank(id, bucket) > rank(known.0, known.1) {
                *known = (id, bucket);
            }
        }
        best.into_values().map(|(_, bucket)| bucket).collect()
    }

    /// The groups that hold the buckets, in the order of these: each as whoever speaks for it sees it, else as anybody does who knows its
    /// newest epoch.
    pub(crate) fn groups(&self) -> Vec<&GroupStatus> {
        let mut best: BTreeMap<Bucket, ((u64, bool), &GroupStatus)> = BTreeMap::new();
        for report in self.reports() {
            for group in &report.node.groups {
                let rank = (group.epoch, group.speaker == Some(report.node.id));
                for bucket in &group.buckets {
                    let known = best.entry(*bucket).or_insert((rank, group));
                    if rank > known.0 {
                        *known = (rank, group);
                    }
                }
            }
        }
        let mut groups: Vec<&GroupStatus> = Vec::new();
        for (_, group) in best.into_values() {
            if groups.iter().all(|other| other.id != group.id) {
                groups.push(group);
            }
        }
        groups
    }

    /// The halted buckets, with the admin address of a node that says so, and all transactions that wait for them anywhere.
    pub(crate) fn halted(&self) -> BTreeMap<u16, (BucketStatus, &str)> {
        let mut halted: BTreeMap<u16, (BucketStatus, &str)> = BTreeMap::new();
        for node in &self.nodes {
            for bucket in node.report.iter().flat_map(|report| &report.node.buckets) {
                let Some(halt) = &bucket.halt else { continue };
                match halted.get_mut(&bucket.bucket.0).and_then(|(known, _)| known.halt.as_mut()) {
                    Some(known) => known.blocked += halt.blocked,
                    None => {
                        halted.insert(bucket.bucket.0, (bucket.clone(), node.endpoints.admin.as_str()));
                    }
                }
            }
        }
        halted
    }

    /// Whether a node answers.
    pub(crate) fn answers(&self, id: NodeId) -> bool {
        self.nodes.iter().any(|node| node.id == Some(id) && node.report.is_some())
    }

    /// Admin addresses of nodes that answer, the leader's first.
    pub(crate) fn admins(&self) -> Vec<String> {
        let leader = self.believed_leader();
        let mut nodes: Vec<&NodeView> = self.nodes.iter().filter(|node| node.report.is_some()).collect();
        nodes.sort_by_key(|node| node.id != leader);
        nodes.into_iter().map(|node| node.endpoints.admin.clone()).collect()
    }
}

/// A node that somebody knows of.
#[derive(Debug, Clone, Default)]
struct Known {
    id: Option<NodeId>,
    endpoints: Endpoints,
    pid: Option<u32>,
}

/// Asks every node that can be found.
///
/// # Errors
/// If there is nothing to ask.
pub(crate) fn gather(target: &Target) -> Result<ClusterView> {
    let mut todo = first(target)?;
    let mut seen: BTreeMap<String, NodeView> = BTreeMap::new();
    // A second round asks those that only others knew of.
    while !todo.is_empty() {
        for view in ask(std::mem::take(&mut todo)) {
            seen.insert(view.endpoints.admin.clone(), view);
        }
        let members =
            seen.values().filter_map(|view| view.report.as_ref()).flat_map(|report| &report.node.members);
        for member in members {
            let admin = &member.endpoints.admin;
            let by_id = seen.values().any(|view| view.id == Some(member.id));
            if !admin.is_empty()
                && !by_id
                && !seen.contains_key(admin)
                && !todo.iter().any(|k| k.endpoints.admin == *admin)
            {
                todo.push(Known { id: Some(member.id), endpoints: (*member.endpoints).clone(), pid: None });
            }
        }
    }
    let mut nodes: Vec<NodeView> = seen.into_values().collect();
    nodes.sort_by_key(|view| (view.id.is_none(), view.id, view.endpoints.admin.clone()));
    Ok(ClusterView { nodes })
}

/// Like [`gather`], but somebody must answer.
///
/// # Errors
/// If nobody does.
pub(crate) fn gather_live(target: &Target) -> Result<ClusterView> {
    let view = gather(target)?;
    if view.reports().next().is_some() {
        return Ok(view);
    }
    let asked: Vec<String> = view.nodes.iter().map(|node| node.endpoints.admin.clone()).collect();
    let text = format!(
        "no node answers at {}; nothing was changed. Is the cluster up (`quorate up`)? Name another node with --at",
        asked.join(", ")
    );
    Err(failure(exit::UNAVAILABLE, text))
}

fn first(target: &Target) -> Result<Vec<Known>> {
    let at = |admin: &str| Known {
        endpoints: Endpoints { admin: admin.to_owned(), ..Endpoints::default() },
        ..Known::default()
    };
    if !target.at.is_empty() {
        return Ok(target.at.iter().map(|admin| at(admin)).collect());
    }
    let Some(manifest) = local::read(&target.local.data)? else { return Ok(vec![at(ADMIN_DEFAULT)]) };
    let nodes = manifest.nodes.iter().map(|node| Known {
        id: Some(node.id),
        endpoints: node.endpoints.clone(),
        pid: node.process.as_ref().filter(|process| process.is_alive()).map(|process| process.pid),
    });
    Ok(nodes.collect())
}

/// Asks all of them at once, so that dead ones cost one wait together.
fn ask(nodes: Vec<Known>) -> Vec<NodeView> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = nodes
            .into_iter()
            .map(|known| {
                (known.clone(), scope.spawn(move || AdminClient::new(WAIT).status(&known.endpoints.admin)))
            })
            .collect();
        let told = asked.into_iter().map(|(known, thread)| {
            let answer = thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("asking it panicked")));
            node_view(known, answer)
        });
        told.collect()
    })
}

fn node_view(known: Known, answer: Result<StatusReport>) -> NodeView {
    match answer {
        Ok(report) => {
            let own = report.node.members.iter().find(|member| member.id == report.node.id);
            let admin = known.endpoints.admin.clone();
            let mut endpoints = own.map_or(known.endpoints, |member| (*member.endpoints).clone());
            // The address that worked from here; what members tell each other may not.
            endpoints.admin = admin;
            NodeView {
                id: Some(report.node.id),
                endpoints,
                pid: known.pid,
                report: Some(report),
                error: None,
            }
        }
        Err(error) => NodeView {
            id: known.id,
            endpoints: known.endpoints,
            pid: known.pid,
            report: None,
            error: Some(format!("{error:#}")),
        },
    }
}
