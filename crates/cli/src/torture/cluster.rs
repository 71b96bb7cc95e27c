//! The cluster that is tortured: a local cluster whose processes belong to this program.

use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use quorate_host::{LeadershipBody, MembersBody, StatusReport};
use quorate_kernel::NodeId;

use super::net::Net;
use super::{interrupt, stuck};
use crate::admin::AdminClient;
use crate::args::{Local, Settings, Target};
use crate::command;
use crate::local::{self, Held, Manifest, SERVE_WAIT};
use crate::view::{self, ClusterView};

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Between two looks at all nodes of a cluster that may have many.
const LOOK_AROUND_EVERY: Duration = Duration::from_millis(100);
/// How long an orderly stop may take.
const STOP_WAIT: Duration = Duration::from_secs(15);

/// A cluster of own processes.
pub(crate) struct Cluster {
    dir: PathBuf,
    manifest: Manifest,
    children: Vec<Child>,
    /// Goes last: what is made in it must have ended.
    net: Option<Net>,
}

impl Cluster {
    /// Makes a cluster and waits until it serves. In a network of its own, it listens at the addresses of that.
    pub(crate) fn start(
        dir: &Path,
        nodes: u64,
        base_port: u16,
        settings: &Settings,
        net: Option<Net>,
    ) -> Result<Cluster> {
        let mut manifest = command::local::create(dir, nodes, base_port, settings)?;
        if let Some(net) = &net {
            for node in &mut manifest.nodes {
                node.endpoints = net.endpoints(node.id);
                node.namespace = Some(net.namespace(node.id));
            }
            manifest.founders = manifest.nodes.iter().map(|node| (node.id, node.endpoints.clone())).collect();
        }
        let mut cluster = Cluster { dir: dir.to_owned(), manifest, children: Vec::new(), net };
        let begun = Instant::now();
        let started = cluster.ids().into_iter().try_for_each(|id| cluster.spawn(id));
        if let Err(error) = started.and_then(|()| cluster.wait_serving()) {
            cluster.stop()?;
            return Err(error);
        }
        eprintln!("{nodes} nodes serve after {} ms", begun.elapsed().as_millis());
        Ok(cluster)
    }

    fn spawn(&mut self, id: NodeId) -> Result<()> {
        self.children.push(local::spawn(&self.dir, &mut self.manifest, id)?);
        self.remember()
    }

    /// Others may look at the cluster with this program's other commands.
    fn remember(&self) -> Result<()> {
        Held::lock(&self.dir)?.write(&self.manifest)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn is_volatile(&self) -> bool {
        self.manifest.volatile
    }

    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.manifest.nodes.iter().map(|node| node.id).collect()
    }

    /// The network of its own, if there is one.
    pub(crate) fn net(&mut self) -> Result<&mut Net> {
        self.net.as_mut().context("the cluster has no network of its own")
    }

    /// Client addresses of all nodes.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.manifest.nodes.iter().map(|node| node.endpoints.client.clone()).collect()
    }

    /// The same, resolved.
    pub(crate) fn sockets(&self) -> Vec<SocketAddr> {
        self.addresses().iter().filter_map(|address| address.to_socket_addrs().ok()?.next()).collect()
    }

    /// Process numbers of the nodes that run.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.manifest.nodes.iter().filter_map(|node| Some(node.process.as_ref()?.pid)).collect()
    }

    /// Client addresses of all nodes but one.
    pub(crate) fn addresses_without(&self, id: NodeId) -> Vec<String> {
        let others = self.manifest.nodes.iter().filter(|node| node.id != id);
        others.map(|node| node.endpoints.client.clone()).collect()
    }

    /// The buckets that a node holds.
    pub(crate) fn buckets_of(&self, id: NodeId) -> Result<Vec<u16>> {
        let report = self.report(id).with_context(|| format!("node {id} does not say what it holds"))?;
        let held = report.node.buckets.iter().filter(|status| status.here);
        Ok(held.map(|status| status.bucket.0).collect())
    }

    /// Number and members of the newest view.
    pub(crate) fn newest_view(&self) -> Result<(u64, usize)> {
        let view = self.view()?;
        let newest = view.newest().context("no node answers")?;
        Ok((newest.node.epoch, newest.node.members.len()))
    }

    /// Waits until a node is out of the others' view: milliseconds.
    pub(crate) fn wait_out(&self, id: NodeId, wait: Duration) -> Result<u64> {
        let begun = Instant::now();
        while self.is_in(id)? {
            if begun.elapsed() > wait {
                return Err(stuck(format!("node {id} is a member after {} s still", wait.as_secs())));
            }
            interrupt::check()?;
            std::thread::sleep(LOOK_AROUND_EVERY);
        }
        Ok(begun.elapsed().as_millis() as u64)
    }

    /// Waits until a node serves and is in the others' view.
    pub(crate) fn wait_in(&self, id: NodeId, wait: Duration) -> Result<()> {
        let node = self.manifest.clone().node(id.0)?.clone();
        local::wait_serving(&self.dir, &[node], wait)?;
        let begun = Instant::now();
        while !self.is_in(id)? {
            if begun.elapsed() > wait {
                return Err(stuck(format!("node {id} is no member after {} s", wait.as_secs())));
            }
            interrupt::check()?;
            std::thread::sleep(LOOK_AROUND_EVERY);
        }
        Ok(())
    }

    fn is_in(&self, id: NodeId) -> Result<bool> {
        let view = self.view()?;
        let newest = view.newest().context("no node answers")?;
        Ok(newest.node.members.iter().any(|member| member.id == id))
    }

    /// Starts so many new nodes at once, which join by themselves.
    pub(crate) fn join(&mut self, count: u64) -> Result<()> {
        let begin = self.manifest.next_id;
        for id in begin..begin + count {
            let endpoints = local::endpoints(self.manifest.base_port, id)?;
            let node =
                local::LocalNode { id: NodeId(id), endpoints, joins: true, namespace: None, process: None };
            self.manifest.nodes.push(node);
            self.manifest.next_id = id + 1;
        }
        (begin..begin + count).try_for_each(|id| self.spawn(NodeId(id)))
    }

    fn target(&self) -> Target {
        Target { at: Vec::new(), local: Local { data: self.dir.clone() } }
    }

    fn view(&self) -> Result<ClusterView> {
        view::gather(&self.target())
    }

    fn report(&self, id: NodeId) -> Option<StatusReport> {
        let node = self.manifest.nodes.iter().find(|node| node.id == id)?;
        AdminClient::new(Duration::from_secs(1)).status(&node.endpoints.admin).ok()
    }

    /// The node that leads, once one does.
    pub(crate) fn leader(&self, wait: Duration) -> Result<NodeId> {
        let deadline = Instant::now() + wait;
        loop {
            let mut leaders = Vec::new();
            for id in self.ids() {
                let report = self.report(id);
                leaders.extend(report.filter(|report| report.node.role == "leader" && report.node.ready));
            }
            // A deposed leader may not know it yet; the one with more chosen entries is newer.
            if let Some(leader) = leaders.iter().max_by_key(|report| report.node.log_chosen) {
                return Ok(leader.node.id);
            }
            if Instant::now() > deadline {
                return Err(stuck(format!("no node leads after {} s", wait.as_secs())));
            }
            interrupt::check()?;
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Who leads the buckets, in their order; those that nobody leads are left out.
    pub(crate) fn leaders(&self) -> Result<Vec<NodeId>> {
        let view = self.view()?;
        let led = view.buckets().into_iter().filter(|status| status.quorum);
        Ok(led.filter_map(|status| status.believed_leader).collect())
    }

    /// Whether a node's process runs.
    pub(crate) fn is_alive(&self, id: NodeId) -> bool {
        self.manifest.nodes.iter().any(|node| node.id == id && node.is_alive())
    }

    /// Kills a node as a power cut of its process would.
    pub(crate) fn kill(&mut self, id: NodeId) -> Result<()> {
        local::kill(self.manifest.node(id.0)?)?;
        self.reap();
        self.remember()
    }

    /// Kills a node for good, and removes all it had.
    pub(crate) fn retire(&mut self, id: NodeId) -> Result<()> {
        self.kill(id)?;
        self.manifest.nodes.retain(|node| node.id != id);
        let data = local::data_of(&self.dir, id);
        match std::fs::remove_dir_all(&data) {
            // It died before it had made its directory.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.with_context(|| format!("cannot remove {}", data.display()))?,
        }
        self.remember()
    }

    /// The sizes of the groups, as whoever knows the newest view sees them.
    pub(crate) fn groups(&self) -> Result<Vec<usize>> {
        let view = self.view()?;
        let newest = view.newest().context("no node answers")?;
        Ok(newest.node.groups.iter().map(|group| group.members.len()).collect())
    }

    /// Starts a killed node again.
    pub(crate) fn revive(&mut self, id: NodeId) -> Result<()> {
        self.spawn(id)
    }

    /// Waits until a node serves and has applied what was chosen when it came back.
    pub(crate) fn wait_caught_up(&self, id: NodeId, wait: Duration) -> Result<()> {
        let node = self.manifest.clone().node(id.0)?.clone();
        local::wait_serving(&self.dir, &[node], wait)?;
        let deadline = Instant::now() + wait;
        let chosen = self.view()?.reports().map(|report| report.node.log_chosen).max().unwrap_or(0);
        while self.report(id).is_none_or(|report| report.node.log_applied < chosen) {
            if Instant::now() > deadline {
                return Err(stuck(format!("node {id} did not catch up within {} s", wait.as_secs())));
            }
            interrupt::check()?;
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    pub(crate) fn wait_serving(&self) -> Result<()> {
        local::wait_serving(&self.dir, &self.manifest.nodes, SERVE_WAIT)
    }

    /// Starts a new node and waits until it is a member that serves.
    pub(crate) fn add(&mut self) -> Result<NodeId> {
        let (member, child) = command::members::add_local(&self.dir)?;
        self.children.push(child);
        self.reload()?;
        Ok(member.id)
    }

    /// Removes a member, then stops its process.
    pub(crate) fn remove(&mut self, id: NodeId) -> Result<()> {
        command::members::change(&self.target(), &MembersBody { add: Vec::new(), remove: vec![id] })?;
        command::members::forget_local(&self.dir, id)?;
        self.reap();
        self.reload()
    }

    /// Asks for another leader.
    pub(crate) fn transfer(&self) -> Result<()> {
        let admin = self.view()?.admins().into_iter().next().context("no node answers")?;
        let client = AdminClient::new(Duration::from_secs(5));
        client.transfer_leadership(&admin, &LeadershipBody::default())?.into_result()
    }

    fn reload(&mut self) -> Result<()> {
        self.manifest = local::expect(&self.dir)?;
        Ok(())
    }

    /// Takes note of processes that have ended.
    fn reap(&mut self) {
        self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }

    /// Stops what runs.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let killed = local::stop(&mut self.manifest.nodes, STOP_WAIT)?;
        self.reap();
        self.remember()?;
        for id in killed {
            eprintln!("node {id} did not stop when asked and was killed");
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.manifest.nodes {
            // The last resort on the way out of an error; there is nobody left to tell.
            let _ = local::kill(node);
        }
        self.reap();
    }
}
