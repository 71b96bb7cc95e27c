//! A network of namespaces: each node has one of its own, wired to a bridge, and hears of others what it is allowed to.
//!
//! Clients and operators stand beside the bridge and reach every node whose link is up. What a node does not hear is
//! dropped where it arrives, without a word to the sender, as a broken network would.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use quorate_kernel::NodeId;
use quorate_node::Endpoints;

use super::cuts::Cut;
use crate::exit::{self, failure};

/// Doors of each node, as the program's defaults.
const CLIENT_PORT: u16 = 6_379;
const CLUSTER_PORT: u16 = 6_380;
const PEER_PORT: u16 = 7_379;
const ADMIN_PORT: u16 = 8_379;
/// Networks 10.X.Y.0/24 that are looked at until one is free.
const NETWORKS_TRIED_MAX: u32 = 64;
/// The address of the bridge in its network: above those of all nodes.
const BRIDGE_HOST: u8 = 254;

/// The network. What was made for it goes away with it.
#[derive(Debug)]
pub(crate) struct Net {
    /// What the names of everything begin with; holds this process's number, so that two campaigns do not meet.
    tag: String,
    /// `10.X.Y`.
    prefix: String,
    nodes: Vec<NodeId>,
    /// Whom each node does not hear now.
    deaf: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// Links that are down now.
    down: BTreeSet<NodeId>,
}

impl Net {
    /// Makes a network for nodes 1 to `count`.
    ///
    /// # Errors
    /// If the system does not allow it, or programs are missing: says which. Then nothing is left of it.
    pub(crate) fn make(count: u64) -> Result<Net> {
        Net::try_make(count).context("no network of namespaces can be made here, and nothing was left behind")
    }

    fn try_make(count: u64) -> Result<Net> {
        if !rustix::process::geteuid().is_root() {
            return Err(failure(exit::SYSTEM, "only root may make network namespaces: run it as root"));
        }
        run("ip", &["-V"])?;
        run("iptables-restore", &["--version"])?;
        let pid = std::process::id();
        let tag = format!("qt{pid}");
        let mut net = Net {
            prefix: free_prefix(pid)?,
            tag,
            nodes: Vec::new(),
            deaf: BTreeMap::new(),
            down: BTreeSet::new(),
        };
        let bridge = net.bridge();
        run("ip", &["link", "add", &bridge, "type", "bridge"])?;
        let address = format!("{}.{BRIDGE_HOST}/24", net.prefix);
        run("ip", &["address", "add", &address, "dev", &bridge])?;
        run("ip", &["link", "set", &bridge, "up"])?;
        for id in 1..=count {
            net.wire(NodeId(id))?;
        }
        Ok(net)
    }

    /// Makes the namespace of a node and its link.
    fn wire(&mut self, id: NodeId) -> Result<()> {
        let (name, bridge) = (self.namespace(id), self.bridge());
        // First, so that what fails half way is removed.
        self.nodes.push(id);
        run("ip", &["netns", "add", &name])?;
        run("ip", &["link", "add", &name, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
        run("ip", &["link", "set", &name, "master", &bridge, "up"])?;
        let address = format!("{}/24", self.host(id));
        run("ip", &["-n", &name, "address", "add", &address, "dev", "eth0"])?;
        run("ip", &["-n", &name, "link", "set", "lo", "up"])?;
        run("ip", &["-n", &name, "link", "set", "eth0", "up"])?;
        // What a partition needs is tried before anything depends on it.
        self.restrict(id, &BTreeSet::new())
    }

    fn bridge(&self) -> String {
        format!("{}b", self.tag)
    }

    fn host(&self, id: NodeId) -> String {
        format!("{}.{}", self.prefix, id.0)
    }

    /// The namespace of a node; its end of the link outside has the same name.
    pub(crate) fn namespace(&self, id: NodeId) -> String {
        format!("{}n{}", self.tag, id.0)
    }

    /// Where a node listens.
    pub(crate) fn endpoints(&self, id: NodeId) -> Endpoints {
        let at = |port: u16| format!("{}:{port}", self.host(id));
        Endpoints {
            client: at(CLIENT_PORT),
            cluster: at(CLUSTER_PORT),
            peer: at(PEER_PORT),
            admin: at(ADMIN_PORT),
        }
    }

    /// Makes the network as a cut says; what it does not say works.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn apply(&mut self, cut: &Cut) -> Result<()> {
        for id in self.nodes.clone() {
            let deaf: BTreeSet<NodeId> =
                cut.deaf.iter().filter(|(hearer, _)| *hearer == id).map(|(_, speaker)| *speaker).collect();
            if self.deaf.get(&id).cloned().unwrap_or_default() != deaf {
                self.restrict(id, &deaf)?;
                self.deaf.insert(id, deaf);
            }
            if cut.down.contains(&id) != self.down.contains(&id) {
                let state = if cut.down.contains(&id) { "down" } else { "up" };
                run("ip", &["link", "set", &self.namespace(id), state])?;
                if !self.down.remove(&id) {
                    self.down.insert(id);
                }
            }
        }
        Ok(())
    }

    /// Lets a node hear everybody but these. All rules are replaced at once.
    fn restrict(&self, id: NodeId, deaf: &BTreeSet<NodeId>) -> Result<()> {
        let mut rules = "*filter\n:INPUT ACCEPT [0:0]\n".to_owned();
        for speaker in deaf {
            rules += &format!("-A INPUT -s {}/32 -j DROP\n", self.host(*speaker));
        }
        rules += "COMMIT\n";
        feed("ip", &["netns", "exec", &self.namespace(id), "iptables-restore"], &rules)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for id in std::mem::take(&mut self.nodes) {
            let name = self.namespace(id);
            // What was not made cannot be removed; what could not be removed is told below.
            let _ = run("ip", &["link", "delete", &name]);
            let _ = run("ip", &["netns", "delete", &name]);
        }
        let _ = run("ip", &["link", "delete", &self.bridge()]);
        let left = [run("ip", &["netns", "list"]), run("ip", &["-brief", "link", "show"])];
        let is_own = |line: &&str| line.starts_with(&self.tag);
        for line in left.iter().flatten().flat_map(|text| text.lines().filter(is_own)) {
            eprintln!("could not be removed: {line}");
        }
    }
}

/// The first three bytes of a network that this machine has no way to yet.
fn free_prefix(pid: u32) -> Result<String> {
    let routes = run("ip", &["-4", "route", "show", "table", "all"])?;
    let prefix = |number: u32| format!("10.{}.{}", 200 + number / 256 % 50, number % 256);
    let mut tried = (0..NETWORKS_TRIED_MAX).map(|more| prefix(pid.wrapping_add(more)));
    let is_free = |prefix: &String| !routes.contains(&format!("{prefix}."));
    tried.find(is_free).ok_or_else(|| failure(exit::SYSTEM, "every network that was looked at is in use"))
}

/// Runs a program to its end: what it says.
fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| missing(program, &error))?;
    ended(program, arguments, &output)
}

/// The same, with something to read.
fn feed(program: &str, arguments: &[&str], text: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| missing(program, &error))?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read says why in its output.
        let _ = input.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().with_context(|| format!("`{program}` was lost"))?;
    ended(program, arguments, &output).map(|_| ())
}

fn missing(program: &str, error: &std::io::Error) -> anyhow::Error {
    let package = if program == "ip" { "iproute2" } else { "iptables" };
    failure(exit::SYSTEM, format!("the program `{program}` cannot be run ({error}): install {package}"))
}

fn ended(program: &str, arguments: &[&str], output: &std::process::Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let text = format!("`{program} {}` failed: {}", arguments.join(" "), said.trim());
    Err(failure(exit::SYSTEM, text))
}
