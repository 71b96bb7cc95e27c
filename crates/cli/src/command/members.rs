//! `node`, `leader`, `log-level`: what operators change while a cluster runs.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use quorate_host::{LeadershipBody, MembersBody};
use quorate_kernel::NodeId;
use quorate_node::{Endpoints, Member};

use crate::admin::{AdminClient, Answer};
use crate::args::Target;
use crate::exit::{self, failure};
use crate::local::{self, Held};
use crate::output::print;
use crate::view::{self, ClusterView};

/// How long a node may take to describe itself.
const WAIT: Duration = Duration::from_secs(3);
/// How long a new process may take to open its doors.
const OPEN_WAIT: Duration = Duration::from_secs(15);
/// How long a new node may take to copy everything and become a member.
const JOIN_WAIT: Duration = Duration::from_secs(120);
/// How long to look for a node that takes the change.
const CHANGE_WAIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(250);

/// What to do with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum Node {
    /// Add a node: without --admin a new process in the local cluster, otherwise one that was started with --join.
    Add(Add),
    /// Remove a member. It may be dead; but where nodes form groups, these let go of the dead by themselves, and only a node that can be
    /// reached is removed by hand (`quorate drain`). A process of the local cluster is stopped, its data stays.
    Remove(Remove),
}

/// Add a node.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Admin address of the node to add, which runs and was started with --join.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin: Option<String>,
    /// Its id, if its admin address cannot be reached from here.
    #[arg(long, requires = "peer")]
    pub(crate) id: Option<u64>,
    /// Its peer address, as the other nodes reach it.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) peer: Option<String>,
    /// Its client address, as others are told.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) client: Option<String>,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Remove a member.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Its id.
    pub(crate) node: u64,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Have a node leave without a gap, before its machine is stopped.
///
/// The node hands over what it leads and goes on until others have what it holds; commands that other nodes are asked are carried out
/// meanwhile. Then it is no member any more, a process of the local cluster is stopped, and its data stays. The node must run: one that is dead has
/// nothing to hand over.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// Its id.
    pub(crate) node: u64,
    /// Which cluster.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// What to do with leadership.
#[derive(Debug, Subcommand)]
pub(crate) enum Leader {
    /// Hand leadership over, to a member or to the one best prepared.
    Transfer {
        /// To whom.
        #[arg(long)]
        to: Option<u64>,
        /// Which cluster.
        #[command(flatten)]
        target: Target,
    },
}

/// Set what nodes log, while they run.
#[derive(Debug, Args)]
pub(crate) struct LogLevel {
    /// Levels, such as `info` or `warn,quorate_host=debug`.
    pub(crate) filter: String,
    /// Which nodes: those named with --at alone, or all of the local cluster.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Adds or removes a node.
pub(crate) fn node(node: Node) -> Result<()> {
    match node {
        Node::Add(add) if add.admin.is_some() || add.id.is_some() => add_remote(&add),
        Node::Add(add) => {
            if !add.target.at.is_empty() {
                let text =
                    "name the node to add with --admin; a new process is only started in a local cluster";
                return Err(failure(exit::USAGE, text));
            }
            let dir = std::path::absolute(&add.target.local.data)?;
            // The process outlives this program.
            let (member, _child) = add_local(&dir)?;
            let body = MembersBody { add: vec![member.clone()], remove: Vec::new() };
            wait_member(&add.target, &body)?;
            let ends = member.endpoints;
            print(&format!(
                "node {} is a member; clients at {}, operators at http://{}\n",
                member.id, ends.client, ends.admin
            ))
        }
        Node::Remove(remove) => {
            let id = NodeId(remove.node);
            leave(&remove.target, id)?;
            print(&format!("node {id} is no member any more\n"))
        }
    }
}

/// Has a node that runs leave.
pub(crate) fn drain(drain: &Drain) -> Result<()> {
    let id = NodeId(drain.node);
    if !view::gather_live(&drain.target)?.answers(id) {
        let text = format!(
            "node {id} does not answer, and only a node that runs hands over what it has; nothing was changed. If it is dead, `quorate node \
             remove {id}` gives it up; where nodes form groups, these replace it by themselves"
        );
        return Err(failure(exit::UNAVAILABLE, text));
    }
    leave(&drain.target, id)?;
    let then = if drain.target.at.is_empty() { "" } else { ", and can be stopped" };
    print(&format!("node {id} is drained: it is no member any more, others have what it held{then}\n"))
}

/// Removes a member, then stops its process, if it is one of a local cluster.
fn leave(target: &Target, id: NodeId) -> Result<()> {
    change(target, &MembersBody { add: Vec::new(), remove: vec![id] })?;
    if target.at.is_empty() {
        forget_local(&target.local.data, id)?;
    }
    Ok(())
}

/// Starts a new process in a local cluster and makes it a member.
///
/// # Errors
/// If the process does not start, or does not become a member in time.
pub(crate) fn add_local(dir: &Path) -> Result<(Member, Child)> {
    local::expect(dir)?;
    let held = Held::lock(dir)?;
    let mut manifest = local::expect(dir)?;
    let id = NodeId(manifest.next_id);
    let endpoints = local::endpoints(manifest.base_port, id.0)?;
    let node =
        local::LocalNode { id, endpoints: endpoints.clone(), joins: true, namespace: None, process: None };
    local::check_ports([&node])?;
    manifest.next_id += 1;
    manifest.nodes.push(node);
    held.write(&manifest)?;
    let child = local::spawn(dir, &mut manifest, id)?;
    held.write(&manifest)?;
    drop(held);
    let member = Member { id, endpoints: endpoints.into() };
    wait_open(dir, &manifest.node(id.0)?.clone())?;
    // A node that was told whom to join asks the leader by itself, again and again.
    local::wait_serving(dir, &[manifest.node(id.0)?.clone()], JOIN_WAIT).with_context(|| {
        format!("node {id} runs and goes on asking to be a member; `quorate node remove {id}` gives it up")
    })?;
    Ok((member, child))
}

fn wait_open(dir: &Path, node: &local::LocalNode) -> Result<()> {
    let client = AdminClient::new(Duration::from_secs(1));
    let deadline = Instant::now() + OPEN_WAIT;
    while !client.is_live(&node.endpoints.admin) {
        if !node.is_alive() || Instant::now() > deadline {
            let tail = local::log_tail(dir, node.id);
            forget_local(dir, node.id)?;
            let text = format!(
                "the process of node {} did not start; nothing was changed. The end of its log:\n{tail}",
                node.id
            );
            return Err(failure(exit::FAILED, text));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Stops a process of the local cluster and forgets it, if there is such a cluster and process.
///
/// # Errors
/// If it cannot be stopped.
pub(crate) fn forget_local(dir: &Path, id: NodeId) -> Result<()> {
    if local::read(dir)?.is_none() {
        return Ok(());
    }
    let held = Held::lock(dir)?;
    let mut manifest = local::expect(dir)?;
    if let Some(index) = manifest.nodes.iter().position(|node| node.id == id) {
        local::stop([&mut manifest.nodes[index]], Duration::from_secs(10))?;
        manifest.nodes.remove(index);
        held.write(&manifest)?;
    }
    Ok(())
}

fn add_remote(add: &Add) -> Result<()> {
    let mut id = NodeId(add.id.unwrap_or(0));
    let mut endpoints = Endpoints::default();
    if let Some(admin) = &add.admin {
        endpoints.admin.clone_from(admin);
    }
    if add.id.is_none() {
        let report = AdminClient::new(WAIT).status(&endpoints.admin)?;
        id = report.node.id;
        if let Some(own) = report.node.members.iter().find(|known| known.id == id) {
            endpoints.clone_from(&own.endpoints);
        }
    }
    let given = [(&add.peer, &mut endpoints.peer), (&add.client, &mut endpoints.client)];
    for (flag, place) in given {
        if let Some(address) = flag {
            place.clone_from(address);
        }
    }
    if endpoints.peer.is_empty() {
        let text = "say with --peer where the other nodes reach it; nothing was changed";
        return Err(failure(exit::USAGE, text));
    }
    let member = Member { id, endpoints: endpoints.into() };
    let body = MembersBody { add: vec![member], remove: Vec::new() };
    change(&add.target, &body)?;
    wait_member(&add.target, &body)?;
    print(&format!("node {id} is a member\n"))
}

/// Asks for a change of members; whoever cannot take it now is asked again, or another.
///
/// # Errors
/// If it is refused for good, or its end is unknown.
pub(crate) fn change(target: &Target, body: &MembersBody) -> Result<()> {
    let client = AdminClient::new(WAIT);
    let deadline = Instant::now() + CHANGE_WAIT;
    loop {
        let view = view::gather_live(target)?;
        if is_done(&view, body) {
            return Ok(());
        }
        let mut last = Answer::Refused("no node answers".into());
        for admin in view.admins() {
            last = match client.change_members(&admin, body) {
                Ok(answer) => answer,
                Err(error) => Answer::Refused(format!("{error:#}")),
            };
            match last {
                Answer::Done => return wait_seen(target, body),
                // Another might do it a second time.
                Answer::Unknown(_) => break,
                Answer::Refused(_) => {}
            }
        }
        let Answer::Refused(reason) = &last else { return last.into_result() };
        if Instant::now() > deadline || !is_passing(reason) {
            return last.into_result();
        }
        std::thread::sleep(ASK_AGAIN_EVERY);
    }
}

/// Waits until nodes tell of a change that is done: their pictures of themselves are a moment old.
fn wait_seen(target: &Target, body: &MembersBody) -> Result<()> {
    let deadline = Instant::now() + WAIT;
    while !is_done(&view::gather_live(target)?, body) && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Waits until nodes are members that were let in: in a ring a group has to take each.
///
/// # Errors
/// If that takes long.
fn wait_member(target: &Target, body: &MembersBody) -> Result<()> {
    let deadline = Instant::now() + JOIN_WAIT;
    while !is_done(&view::gather_live(target)?, body) {
        if Instant::now() > deadline {
            let text = format!(
                "not yet a member after {} s: it runs and goes on asking; `quorate status` and `quorate groups` show when it is one",
                JOIN_WAIT.as_secs()
            );
            return Err(failure(exit::TRY_AGAIN, text));
        }
        std::thread::sleep(ASK_AGAIN_EVERY);
    }
    Ok(())
}

/// Whether the newest lists are what is asked for already. In a ring, whoever is in no group is no member, however many know it.
fn is_done(view: &ClusterView, body: &MembersBody) -> bool {
    let Some(newest) = view.newest() else { return false };
    let groups = view.groups();
    let is_member = |id: NodeId| match groups.is_empty() {
        true => newest.node.members.iter().any(|member| member.id == id),
        false => groups.iter().any(|group| group.members.contains(&id)),
    };
    body.add.iter().all(|member| is_member(member.id)) && !body.remove.iter().any(|id| is_member(*id))
}

/// Whether a refusal is about the moment and not about what was asked.
pub(crate) fn is_passing(reason: &str) -> bool {
    ["leader", "under way", "another change", "try again", "not reach"]
        .iter()
        .any(|words| reason.contains(words))
}

/// Hands leadership over.
pub(crate) fn leader(leader: Leader) -> Result<()> {
    let Leader::Transfer { to, target } = leader;
    let view = view::gather_live(&target)?;
    let admin = view.admins().into_iter().next().context("no node answers")?;
    let client = AdminClient::new(WAIT);
    client.transfer_leadership(&admin, &LeadershipBody { to: to.map(NodeId) })?.into_result()?;
    let view = view::gather_live(&target)?;
    let leads = view
        .believed_leader()
        .map_or("nobody is known to lead yet".to_owned(), |id| format!("node {id} leads"));
    print(&format!("done: {leads}\n"))
}

/// Sets what nodes log.
pub(crate) fn log_level(level: LogLevel) -> Result<()> {
    let admins = match level.target.at.as_slice() {
        [] => view::gather_live(&level.target)?.admins(),
        named => named.to_vec(),
    };
    let client = AdminClient::new(WAIT);
    let mut failed = None;
    for admin in &admins {
        match client.set_log_filter(admin, &level.filter).and_then(Answer::into_result) {
            Ok(()) => print(&format!("{admin} logs {}\n", level.filter))?,
            Err(error) => {
                eprintln!("quorate: {admin}: {error:#}");
                failed = Some(error);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
