//! A cluster on this machine: real processes of this program, remembered in a file.

mod manifest;
mod process;

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use quorate_host::config::AskedTopology;
use quorate_kernel::NodeId;
use quorate_node::Endpoints;
use rustix::process::Signal;

pub(crate) use manifest::{Held, LocalNode, Manifest, expect, read};
pub(crate) use process::ProcessId;

use crate::admin::AdminClient;
use crate::exit::{self, WithCode as _, failure};

/// How far apart the ports of neighbouring nodes are.
const PORT_STEP: u16 = 10;
/// How far above the client port the peer port is; the admin port is as far above that. The cluster view is next to the
/// client door.
const DOOR_STEP: u16 = 1_000;
/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long nodes may take to serve.
pub(crate) const SERVE_WAIT: Duration = Duration::from_secs(30);
/// Lines of a node's log that are shown when it has ended.
const LOG_LINES_SHOWN: usize = 8;
/// Variables that would give one node's place to all.
const OWN_VARIABLES: [&str; 10] = [
    "QUORATE_BUCKETS",
    "QUORATE_DATA",
    "QUORATE_CLIENT",
    "QUORATE_CLUSTER_DOOR",
    "QUORATE_PEER",
    "QUORATE_ADMIN",
    "QUORATE_JOIN",
    "QUORATE_BOOTSTRAP",
    "QUORATE_ID",
    "QUORATE_CLUSTER",
];

/// The addresses of node `id`: from the base port, or whatever is free if that is 0.
///
/// # Errors
/// If the ports do not exist or the system has none left.
pub(crate) fn endpoints(base_port: u16, id: u64) -> Result<Endpoints> {
    let address = |port: u16| format!("127.0.0.1:{port}");
    if base_port == 0 {
        let mut ports = [0; 4];
        for port in &mut ports {
            *port = free_port().context("no free port")?.local_addr()?.port();
        }
        return Ok(Endpoints {
            client: address(ports[0]),
            peer: address(ports[1]),
            admin: address(ports[2]),
            cluster: address(ports[3]),
        });
    }
    let step = u16::try_from(id - 1).ok().and_then(|i| i.checked_mul(PORT_STEP));
    let client = step.and_then(|step| base_port.checked_add(step));
    let ports = client.and_then(|client| {
        let peer = client.checked_add(DOOR_STEP)?;
        Some((client, client.checked_add(1)?, peer, peer.checked_add(DOOR_STEP)?))
    });
    let Some((client, cluster, peer, admin)) =
        ports.map(|(a, b, c, d)| (address(a), address(b), address(c), address(d)))
    else {
        return Err(failure(
            exit::USAGE,
            format!("node {id} would need ports above 65535: lower --base-port"),
        ));
    };
    Ok(Endpoints { client, peer, admin, cluster })
}

/// A listener on a port that is free, and below those that systems give to outgoing connections: one of these may have it
/// by the time the node listens.
///
/// No port is given twice by one process, and processes that run at the same time begin in different places: what is given
/// stays free until its node starts.
fn free_port() -> Result<TcpListener> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    /// Ports between the beginnings of two processes.
    const APART: u32 = 64;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + std::process::id().wrapping_mul(APART).wrapping_add(tried) % COUNT;
        if let Ok(listener) = TcpListener::bind(format!("127.0.0.1:{port}")) {
            return Ok(listener);
        }
    }
    Ok(TcpListener::bind("127.0.0.1:0")?)
}

/// Complains of all ports that somebody else listens on.
///
/// # Errors
/// Names them.
pub(crate) fn check_ports<'a>(nodes: impl IntoIterator<Item = &'a LocalNode>) -> Result<()> {
    let mut taken = Vec::new();
    for node in nodes {
        let ends = &node.endpoints;
        let doors = [
            ("client", &ends.client),
            ("cluster", &ends.cluster),
            ("peer", &ends.peer),
            ("admin", &ends.admin),
        ];
        for (door, address) in doors {
            // A cluster that was made before there was a door has none there.
            if !address.is_empty() && TcpListener::bind(address.as_str()).is_err() {
                taken.push(format!("{address} ({door} door of node {})", node.id));
            }
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    let text = format!(
        "these addresses are in use: {}\nNothing was started. Stop what listens there, or choose other ports with \
         --base-port and another directory with --data",
        taken.join(", ")
    );
    Err(failure(exit::UNAVAILABLE, text))
}

/// Where a node keeps its data.
pub(crate) fn data_of(dir: &Path, id: NodeId) -> PathBuf {
    dir.join(format!("node-{id}"))
}

/// Where a node's log output goes.
pub(crate) fn log_of(dir: &Path, id: NodeId) -> PathBuf {
    dir.join(format!("node-{id}.log"))
}

/// The list of first members as `start --bootstrap` takes it.
pub(crate) fn bootstrap_list(founders: &[(NodeId, Endpoints)]) -> String {
    let one = |(id, ends): &(NodeId, Endpoints)| {
        let Endpoints { peer, client, admin, cluster } = ends;
        let list = format!("{id}@{peer}/{client}/{admin}");
        if cluster.is_empty() { list } else { format!("{list}/{cluster}") }
    };
    founders.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Starts the process of a node and notes it in the manifest, which the caller writes.
///
/// # Errors
/// If the process cannot be started.
pub(crate) fn spawn(dir: &Path, manifest: &mut Manifest, id: NodeId) -> Result<Child> {
    let Manifest { cluster, buckets, copies, topology, volatile, .. } = *manifest;
    let arguments = manifest.arguments.clone();
    let founders = bootstrap_list(&manifest.founders);
    let peers: Vec<String> =
        manifest.nodes.iter().filter(|n| n.id != id).map(|n| n.endpoints.peer.clone()).collect();
    let node = manifest.node(id.0)?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let log_path = log_of(dir, id);
    let log = OpenOptions::new().create(true).append(true).open(&log_path);
    let log = log.with_context(|| format!("cannot write {}", log_path.display()))?;
    let mut command = match &node.namespace {
        None => Command::new(program),
        Some(namespace) => {
            // `ip` becomes the node: the process stays the same one.
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace]).arg(program);
            command
        }
    };
    command.arg("start").arg("--data").arg(data_of(dir, id));
    command.args(["--id", &id.to_string(), "--cluster", &cluster.to_string()]);
    command.args(["--client", &node.endpoints.client, "--peer", &node.endpoints.peer]);
    command.args(["--admin", &node.endpoints.admin, "--cluster-door", &node.endpoints.cluster]);
    if node.joins {
        peers.iter().for_each(|peer| {
            command.args(["--join", peer]);
        });
        if volatile {
            // Ids are never used again, and who keeps nothing is not started again.
            command.args(["--set", "cluster.node_is_new=true"]);
        }
    } else {
        command.args(["--bootstrap", &founders]);
    }
    // Behind the others: `--set` may ask for another number.
    command.args(arguments).args(["--buckets", &buckets.to_string()]);
    if copies > 0 {
        command.args(["--copies", &copies.to_string()]);
    }
    command.args(["--topology", AskedTopology::from(topology).name()]);
    OWN_VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // A group of its own: Ctrl-C in this terminal is for this program, which stops its nodes in an orderly way.
    command.process_group(0);
    let child = command.spawn().context("cannot start a node's process")?;
    node.process = ProcessId::of(child.id());
    Ok(child)
}

/// The last lines of a node's log output.
pub(crate) fn log_tail(dir: &Path, id: NodeId) -> String {
    let text = fs::read(log_of(dir, id)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

/// Waits until each of `nodes` serves, as its own admin door says.
///
/// # Errors
/// If one ends instead, or takes longer than `wait`.
pub(crate) fn wait_serving(dir: &Path, nodes: &[LocalNode], wait: Duration) -> Result<()> {
    let client = AdminClient::new(Duration::from_secs(1));
    let deadline = Instant::now() + wait;
    for node in nodes {
        while !client.is_ready(&node.endpoints.admin) {
            if !node.is_alive() {
                let text = format!(
                    "node {} has ended instead of serving; the others run on. The end of {}:\n{}",
                    node.id,
                    log_of(dir, node.id).display(),
                    log_tail(dir, node.id)
                );
                return Err(failure(exit::FAILED, text));
            }
            if Instant::now() > deadline {
                let text = format!(
                    "node {} runs but does not serve after {} s: a majority of the members must run and reach each \
                     other; see `quorate status` and {}",
                    node.id,
                    wait.as_secs(),
                    log_of(dir, node.id).display()
                );
                return Err(failure(exit::TRY_AGAIN, text));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    Ok(())
}

/// Kills the process of a node as a power cut would; says whether it ran.
///
/// # Errors
/// If the system refuses, or the process does not go.
pub(crate) fn kill(node: &mut LocalNode) -> Result<bool> {
    let Some(process) = node.process.take() else { return Ok(false) };
    let was_alive = process.signal(Signal::KILL).with_context(|| format!("cannot kill node {}", node.id))?;
    if !wait_gone(&process, Duration::from_secs(10)) {
        let text = format!("node {} (process {}) was sent SIGKILL but is still there", node.id, process.pid);
        node.process = Some(process);
        return Err(failure(exit::FAILED, text));
    }
    Ok(was_alive)
}

/// Asks these nodes to stop in an orderly way, and waits; those that do not are killed. Says which had to be.
///
/// # Errors
/// If the system refuses.
pub(crate) fn stop<'a>(
    nodes: impl IntoIterator<Item = &'a mut LocalNode>,
    wait: Duration,
) -> Result<Vec<NodeId>> {
    let mut asked = Vec::new();
    for node in nodes {
        let Some(process) = &node.process else { continue };
        process
            .signal(Signal::TERM)
            .with_context(|| format!("cannot stop node {}", node.id))
            .code(exit::FAILED)?;
        asked.push(node);
    }
    let deadline = Instant::now() + wait;
    let mut killed = Vec::new();
    for node in asked {
        let Some(process) = &node.process else { continue };
        if wait_gone(process, deadline.saturating_duration_since(Instant::now())) {
            node.process = None;
        } else {
            kill(node)?;
            killed.push(node.id);
        }
    }
    Ok(killed)
}

fn wait_gone(process: &ProcessId, wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    while process.is_alive() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_from_the_id() {
        let third = endpoints(6379, 3).unwrap();
        assert_eq!(third.client, "127.0.0.1:6399");
        assert_eq!(third.peer, "127.0.0.1:7399");
        assert_eq!(third.admin, "127.0.0.1:8399");
        assert_eq!(third.cluster, "127.0.0.1:6400");
        assert!(endpoints(63_600, 1).unwrap_err().to_string().contains("--base-port"));
        assert!(endpoints(6379, 100_000).is_err());
        let free = endpoints(0, 1).unwrap();
        assert!(free.client != free.peer && free.peer != free.admin);
    }

    #[test]
    fn taken_ports_are_named_together() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [client, admin] = listeners.each_ref().map(|l| l.local_addr().unwrap().to_string());
        let peer = endpoints(0, 1).unwrap().peer;
        let (cluster, ends) = (String::new(), (client.clone(), peer.clone(), admin.clone()));
        let ends = Endpoints { client: ends.0, peer: ends.1, admin: ends.2, cluster };
        let node = LocalNode { id: NodeId(4), endpoints: ends, joins: false, namespace: None, process: None };
        let text = check_ports([&node]).unwrap_err().to_string();
        assert!(text.contains(&client) && text.contains(&admin) && !text.contains(&peer), "{text}");
        assert!(text.contains("admin door of node 4"), "{text}");
    }
}
