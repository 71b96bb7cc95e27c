//! `up`, `down`, `kill`, `revive`: a cluster of real processes on this machine.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use quorate_host::Shape;
use quorate_host::config::{AskedTopology, Config, Durability};
use quorate_kernel::{ClusterId, NodeId};
use quorate_node::Topology;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{Local, LocalNode, Settings, Up};
use crate::command::start::load_config;
use crate::exit::{self, failure};
use crate::local::{self, Held, Manifest, SERVE_WAIT};
use crate::output::{Format, Table, print, print_json};

/// How long an orderly stop may take before a process is killed: above the nodes' own limit.
const STOP_WAIT: Duration = Duration::from_secs(15);
/// Nodes of a new cluster.
const NODES_DEFAULT: u64 = 5;
/// How often `up` looks after its nodes.
const SUPERVISE_EVERY: Duration = Duration::from_millis(200);

/// Starts the cluster; stays, unless it is to be left alone.
pub(crate) fn up(up: Up, format: Format) -> Result<()> {
    let begun = Instant::now();
    let dir = std::path::absolute(&up.local.data)?;
    // Before anything starts, so that Ctrl-C meanwhile does not leave nodes behind.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for Ctrl-C")?;
    let (manifest, mut children) = start_all(&dir, &up)?;
    if let Err(error) = local::wait_serving(&dir, &manifest.nodes, SERVE_WAIT) {
        if children.is_empty() || up.detach {
            return Err(error.context("the nodes that run were left running: `quorate down` stops them"));
        }
        stop_all(&dir)?;
        return Err(error.context("the cluster was stopped again"));
    }
    match format {
        Format::Json => print_json(&manifest)?,
        Format::Text => print(&welcome(&dir, &manifest, begun.elapsed(), up.detach))?,
    }
    if up.detach {
        return Ok(());
    }
    supervise(&dir, &mut children, &mut signals)?;
    eprintln!("stopping the nodes");
    stop_all(&dir)?;
    eprintln!("stopped; the data is in {}, `quorate up` goes on with it", dir.display());
    Ok(())
}

/// Makes the cluster if there is none, and starts every node that does not run.
fn start_all(dir: &Path, up: &Up) -> Result<(Manifest, Vec<(NodeId, Child)>)> {
    let held = Held::lock(dir)?;
    let mut manifest = match held.read()? {
        Some(manifest) if manifest.volatile && !manifest.nodes.iter().any(local::LocalNode::is_alive) => {
            eprintln!("the cluster in {} kept nothing on disk: beginning a new one", dir.display());
            new(dir, up)?
        }
        Some(manifest) => {
            refuse_shape(up, &manifest)?;
            tell_ignored(up, &manifest)?;
            manifest
        }
        None => new(dir, up)?,
    };
    let down: Vec<_> = manifest.nodes.iter().filter(|node| !node.is_alive()).cloned().collect();
    if manifest.volatile && down.len() != manifest.nodes.len() && !down.is_empty() {
        let ids: Vec<String> = down.iter().map(|node| node.id.to_string()).collect();
        let text = format!(
            "node {} kept nothing on disk and cannot come back: replace it with `quorate node add` and \
             `quorate node remove`; the other nodes run on",
            ids.join(", ")
        );
        return Err(failure(exit::FAILED, text));
    }
    local::check_ports(&down)?;
    held.write(&manifest)?;
    let mut children = Vec::new();
    for node in down {
        children.push((node.id, local::spawn(dir, &mut manifest, node.id)?));
        held.write(&manifest)?;
    }
    Ok((manifest, children))
}

/// The cluster that was asked for, when there is none.
fn new(dir: &Path, up: &Up) -> Result<Manifest> {
    let nodes = up.nodes.unwrap_or(NODES_DEFAULT);
    let mut manifest = create(dir, nodes, up.base_port, &up.settings)?;
    manifest.found(asked(up)?.shape_of(manifest.founders.len()));
    Ok(manifest)
}

/// The configuration that is asked for.
fn asked(up: &Up) -> Result<Config> {
    let mut config = load_config(&up.settings, &[])?.config;
    let cluster = &mut config.cluster;
    cluster.buckets = up.buckets.unwrap_or(cluster.buckets);
    cluster.copies = up.copies.unwrap_or(cluster.copies);
    cluster.topology = up.topology.unwrap_or(cluster.topology);
    Ok(config)
}

/// What a cluster is founded with is settled then: whoever asks for something else is told before anything starts.
fn refuse_shape(up: &Up, manifest: &Manifest) -> Result<()> {
    let quorate_host::config::Cluster { buckets, copies, topology, .. } = asked(up)?.cluster;
    let is_kept = |asked: u16, kept: u16| asked == 0 || asked == kept;
    let keeps_topology = topology != AskedTopology::Ring || manifest.topology == Topology::Ring;
    if keeps_topology && is_kept(buckets, manifest.buckets) && is_kept(copies.into(), manifest.copies.into())
    {
        return Ok(());
    }
    let text = format!(
        "the cluster was founded with {}: leave --buckets, --copies and --topology (and their settings) away, or found another cluster in \
         another --data directory. `quorate copies` changes the number of copies while it runs, unless its nodes form groups. Nothing was started",
        Shape { buckets: manifest.buckets, copies: manifest.copies, topology: manifest.topology }
    );
    Err(failure(exit::USAGE, text))
}

/// A cluster that exists keeps what it was made with: says so if something else was asked for.
fn tell_ignored(up: &Up, manifest: &Manifest) -> Result<()> {
    let count = manifest.nodes.len();
    if up.nodes.is_some_and(|nodes| nodes != count as u64) {
        eprintln!("the cluster exists with {count} nodes; `quorate node add` and `node remove` change that");
    }
    let arguments = passed_on(&up.settings)?;
    if !arguments.is_empty() && arguments != manifest.arguments {
        let kept =
            if manifest.arguments.is_empty() { "the defaults".into() } else { manifest.arguments.join(" ") };
        eprintln!("the cluster exists and keeps the settings it was made with: {kept}");
    }
    Ok(())
}

/// A cluster of this many nodes that has never run.
pub(crate) fn create(dir: &Path, nodes: u64, base_port: u16, settings: &Settings) -> Result<Manifest> {
    let config = load_config(settings, &[])?.config;
    if config.cluster.cores > 1 {
        let text = "each node of a local cluster is a process of its own: take cluster.cores away; nothing was started";
        return Err(failure(exit::USAGE, text));
    }
    let cluster = ClusterId(random()?);
    let mut manifest = Manifest::new(cluster, base_port, passed_on(settings)?);
    manifest.volatile = is_volatile(&config);
    for id in 1..=nodes {
        let endpoints = local::endpoints(base_port, id)?;
        // A directory of an earlier cluster would bring its identity along.
        let data = local::data_of(dir, NodeId(id));
        if data.exists() && !manifest.volatile {
            let text = format!(
                "{} exists, but {} does not describe its cluster: move it away, or use another --data directory; \
                 nothing was started",
                data.display(),
                dir.join("cluster.json").display()
            );
            return Err(failure(exit::CANNOT_CREATE, text));
        }
        manifest.founders.push((NodeId(id), endpoints.clone()));
        manifest.nodes.push(local::LocalNode {
            id: NodeId(id),
            endpoints,
            joins: false,
            namespace: None,
            process: None,
        });
    }
    manifest.found(config.shape_of(manifest.founders.len()));
    manifest.next_id = nodes + 1;
    Ok(manifest)
}

fn is_volatile(config: &Config) -> bool {
    config.durable.mode == Durability::Memory
}

/// Eight bytes from the system's source of chance; never 0, which means "no cluster".
pub(crate) fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("the system gives no chance")?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// The settings as arguments of `start`.
fn passed_on(settings: &Settings) -> Result<Vec<String>> {
    let mut arguments = Vec::new();
    if let Some(config) = &settings.config {
        let path = std::path::absolute(config)?;
        let path = path.to_str().context("the path of the configuration file must be UTF-8")?;
        arguments.extend(["--config".to_owned(), path.to_owned()]);
    }
    if let Some(durability) = settings.durability {
        arguments.extend(["--durability".to_owned(), durability.name().to_owned()]);
    }
    for (path, value) in &settings.set {
        arguments.extend(["--set".to_owned(), format!("{path}={value}")]);
    }
    Ok(arguments)
}

fn welcome(dir: &Path, manifest: &Manifest, took: Duration, detached: bool) -> String {
    let mut table =
        Table::new(&["NODE", "CLIENTS (REDIS)", "REDIS CLUSTER", "PEERS", "OPERATORS (HTTP)", "PID"]);
    for node in &manifest.nodes {
        let pid = node.process.as_ref().map_or_else(String::new, |process| process.pid.to_string());
        let ends = &node.endpoints;
        let doors = [&ends.client, &ends.cluster, &ends.peer, &ends.admin].map(String::clone);
        let [client, cluster, peer, admin] = doors;
        table.row([node.id.to_string(), client, cluster, peer, admin, pid]);
    }
    let port = |index: usize| {
        let node = manifest.nodes.get(index).or(manifest.nodes.first());
        node.and_then(|node| node.endpoints.client.rsplit_once(':')).map_or("6379", |(_, port)| port)
    };
    let admin = manifest.nodes.first().map_or("", |node| node.endpoints.admin.as_str());
    let at = if dir == std::path::absolute("quorate-data").unwrap_or_default() {
        String::new()
    } else {
        format!(" --data {}", dir.display())
    };
    let end = if detached { format!("  quorate down{at}") } else { "  Ctrl-C stops the cluster".to_owned() };
    let victim = manifest.nodes.get(1).or(manifest.nodes.first()).map_or(1, |node| node.id.0);
    // Nodes that keep nothing draw another id for their cluster.
    let name = if manifest.volatile { String::new() } else { format!(" {}", manifest.cluster) };
    format!(
        "cluster{name} serves after {:.1} s; data in {}\n\n{}\ntry:\n  redis-cli -p {} set greeting hello\n  redis-cli -p \
         {} get greeting\n  quorate kill {victim}{at}\n  quorate status{at}\n  http://{admin}\n{end}\n",
        took.as_secs_f64(),
        dir.display(),
        table.render(),
        port(0),
        port(1),
    )
}

/// Looks after the nodes until a signal comes, or nobody is left.
fn supervise(dir: &Path, children: &mut Vec<(NodeId, Child)>, signals: &mut Signals) -> Result<()> {
    loop {
        if signals.pending().next().is_some() {
            return Ok(());
        }
        let mut ended = Vec::new();
        children.retain_mut(|(id, child)| match child.try_wait() {
            Ok(Some(status)) => {
                ended.push((*id, status));
                false
            }
            _ => true,
        });
        for (id, status) in ended {
            eprintln!("node {id} has ended ({status}); `quorate revive {id}` starts it again");
        }
        let manifest = local::read(dir)?;
        let is_alive = |manifest: Manifest| manifest.nodes.iter().any(local::LocalNode::is_alive);
        if !manifest.is_some_and(is_alive) {
            eprintln!("no node is left");
            return Ok(());
        }
        std::thread::sleep(SUPERVISE_EVERY);
    }
}

fn stop_all(dir: &Path) -> Result<usize> {
    let held = Held::lock(dir)?;
    let mut manifest = held.read()?.with_context(|| format!("the cluster in {} has gone", dir.display()))?;
    let running = manifest.nodes.iter().filter(|node| node.is_alive()).count();
    let stopped = local::stop(&mut manifest.nodes, STOP_WAIT);
    held.write(&manifest)?;
    for id in stopped? {
        eprintln!(
            "node {id} did not stop within {} s and was killed; it recovers at its next start",
            STOP_WAIT.as_secs()
        );
    }
    Ok(running)
}

/// Stops the cluster.
pub(crate) fn down(local: &Local) -> Result<()> {
    let dir = std::path::absolute(&local.data)?;
    local::expect(&dir)?;
    match stop_all(&dir)? {
        0 => print("no node was running\n"),
        count => print(&format!("stopped {count} nodes; the data is in {}\n", dir.display())),
    }
}

/// Kills one node.
pub(crate) fn kill(which: &LocalNode) -> Result<()> {
    let dir = std::path::absolute(&which.local.data)?;
    local::expect(&dir)?;
    let held = Held::lock(&dir)?;
    let mut manifest = local::expect(&dir)?;
    let was_alive = local::kill(manifest.node(which.node)?)?;
    held.write(&manifest)?;
    if was_alive {
        return print(&format!("killed node {0}; `quorate revive {0}` starts it again\n", which.node));
    }
    Err(failure(exit::FAILED, format!("node {} does not run; nothing was done", which.node)))
}

/// Starts a killed node again.
pub(crate) fn revive(which: &LocalNode) -> Result<()> {
    let dir = std::path::absolute(&which.local.data)?;
    local::expect(&dir)?;
    let held = Held::lock(&dir)?;
    let mut manifest = local::expect(&dir)?;
    let volatile = manifest.volatile;
    let node = manifest.node(which.node)?.clone();
    if node.is_alive() {
        return print(&format!("node {} runs already\n", which.node));
    }
    if volatile {
        let text = format!(
            "node {} kept nothing on disk and cannot come back as itself; nothing was started. Replace it: `quorate \
             node add`, then `quorate node remove {}`",
            which.node, which.node
        );
        return Err(failure(exit::FAILED, text));
    }
    local::check_ports([&node])?;
    let child = local::spawn(&dir, &mut manifest, node.id)?;
    held.write(&manifest)?;
    drop(held);
    let node = manifest.node(which.node)?.clone();
    let result = local::wait_serving(&dir, &[node], SERVE_WAIT);
    // It goes on without this program.
    drop(child);
    result?;
    print(&format!("node {} serves again\n", which.node))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn founded(options: &[&str]) -> (Topology, u16) {
        let dir = tempfile::tempdir().expect("a directory");
        let words = ["quorate", "up"].iter().chain(options);
        let Command::Up(up) = Cli::parse_from(words).command else { panic!("not `up`") };
        let manifest = new(dir.path(), &up).expect("a new cluster");
        (manifest.topology, manifest.buckets)
    }

    #[test]
    fn six_nodes_form_groups_unless_something_else_is_asked_for() {
        let (topology, buckets) = founded(&["--nodes", "6"]);
        assert!(topology == Topology::Ring && buckets > 1, "{topology:?}, {buckets} buckets");
        for options in [
            &["--nodes", "5"] as &[&str],
            &["--nodes", "6", "--topology", "view"],
            &["--nodes", "6", "--buckets", "4"],
            &["--nodes", "6", "--copies", "3"],
            &["--nodes", "6", "--set", "cluster.copies=3"],
        ] {
            assert_eq!(founded(options).0, Topology::View, "{options:?}");
        }
        assert_eq!(founded(&["--nodes", "6", "--topology", "auto"]).0, Topology::Ring);
        assert_eq!(founded(&["--nodes", "5", "--topology", "ring"]).0, Topology::Ring);
        assert_eq!(founded(&["--nodes", "1"]), (Topology::View, 1));
    }
}
