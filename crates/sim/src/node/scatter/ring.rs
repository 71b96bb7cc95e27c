//! The harness: whole nodes that form groups, and what their operations take.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use quorate_api::{Bucket, Command, Consistency, Outcome, Request};
use quorate_kernel::{ClusterId, NodeId, wire};
use quorate_node::{
    AdminRequest, ClientRequest, ConnectionId, Group, GroupRequest, Input, Limits, Message, Node, NodeConfig,
    Output, Placing, Ticket, Topology,
};
use quorate_replog::Config;

use super::setup::{Setup, Sites};
use super::steps::Strike;
use crate::node::operator::{leader, member};
use crate::node::witness::Witness;
use crate::{Agenda, Boot, Harness, Nodes, Replacement, Seen, Verdict};

/// Nodes learn so often whom they are connected to.
const CONNECT_EVERY: Duration = Duration::from_millis(5);

/// Where sites are far apart, ends of operations are as exact as this.
const FAR_GRAIN: Duration = Duration::from_micros(500);

/// What an operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Dead members left.
    Failure,
    /// Nodes came.
    Join,
    Split,
    Merge,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Failure => "failure",
            Kind::Join => "join",
            Kind::Split => "split",
            Kind::Merge => "merge",
        }
    }

    /// What made the groups become others; none of these, if it was several things at once or something else.
    fn between(before: &[Group], after: &[Group]) -> Option<Kind> {
        if before.len() != after.len() {
            return Some(if before.len() < after.len() { Kind::Split } else { Kind::Merge });
        }
        let members = |groups: &[Group]| -> BTreeSet<NodeId> {
            groups.iter().flat_map(|group| group.members.iter().copied()).collect()
        };
        let (before, after) = (members(before), members(after));
        match (before.is_subset(&after), after.is_subset(&before)) {
            (true, false) => Some(Kind::Join),
            (false, true) => Some(Kind::Failure),
            _ => None,
        }
    }
}

/// What is asked of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// At whoever leads.
    Write,
    Read,
    /// At another member.
    WriteElsewhere,
    ReadNear,
}

impl Asked {
    pub(super) fn name(self) -> &'static str {
        match self {
            Asked::Write => "write",
            Asked::Read => "read",
            Asked::WriteElsewhere => "write elsewhere",
            Asked::ReadNear => "read at a copy",
        }
    }

    fn is_at_leader(self) -> bool {
        matches!(self, Asked::Write | Asked::Read)
    }
}

/// An operation under way.
#[derive(Debug)]
struct Watched {
    at: NodeId,
    since: Duration,
    before: Vec<Group>,
    /// When its notes were written.
    agreed: Option<Duration>,
    /// Whether another was under way meanwhile.
    is_spoiled: bool,
}

/// An operation that was alone: what, and how long it took until its notes were written, and until the logs of all buckets had followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) kind: Kind,
    pub(super) members: usize,
    pub(super) agreed: Duration,
    pub(super) done: Duration,
}

/// See the module's documentation.
pub(super) struct Ring {
    setup: Setup,
    pub(super) limits: Limits,
    sites: BTreeMap<NodeId, usize>,
    told: BTreeSet<(NodeId, NodeId)>,
    watched: Option<Watched>,
    /// When it was looked at last whether that has come to its end.
    looked_at: Duration,
    pub(super) samples: Vec<Sample>,
    /// How many operations came to their end.
    pub(super) ended: u64,
    /// Who is to die when, if anybody.
    pub(super) strike: Option<Strike>,
    /// Looks at every step, where it is wanted.
    pub(super) witness: Option<Witness>,
    asked: BTreeMap<Ticket, Duration>,
    /// How long took what was asked.
    pub(super) answered: Vec<Duration>,
    tickets: u64,
}

fn names(groups: &[Group]) -> Vec<quorate_groups::Name> {
    groups.iter().map(|group| group.name).collect()
}

fn groups_of(node: &Node) -> Vec<Group> {
    node.groups().into_iter().cloned().collect()
}

impl Ring {
    pub(super) fn new(setup: Setup, sites: &[usize]) -> Ring {
        let sites = sites.iter().enumerate().map(|(place, site)| (NodeId(place as u64 + 1), *site));
        Ring {
            setup,
            limits: Limits::production(),
            sites: sites.collect(),
            told: BTreeSet::new(),
            watched: None,
            looked_at: Duration::ZERO,
            samples: Vec::new(),
            ended: 0,
            strike: None,
            witness: None,
            asked: BTreeMap::new(),
            answered: Vec::new(),
            tickets: 0,
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Whether the leaders of all buckets have the members of these groups.
    fn is_in_line(&self, nodes: &Nodes<Node>, groups: &[Group]) -> Verdict {
        let count = self.setup.buckets;
        (0..count.get()).map(Bucket).try_for_each(|bucket| {
            let group = groups.iter().find(|group| group.span.contains(bucket.ring_start(count)));
            let lead =
                leader(nodes, bucket).and_then(|id| nodes.machine(id)).and_then(|node| node.shard(bucket));
            let Some((group, shard)) = group.zip(lead.filter(|shard| shard.takes_batches())) else {
                return Err(format!("nobody leads {bucket:?}"));
            };
            let members: BTreeSet<NodeId> =
                shard.log().epoch().members.iter().map(|member| member.id).collect();
            if members == group.members.iter().copied().collect() {
                return Ok(());
            }
            Err(format!("{bucket:?} has {members:?}, its group {:?}", group.members))
        })
    }

    /// Whether every live node is in a group, everything is where its group is, and nothing is under way.
    pub(super) fn is_calm(&self, nodes: &Nodes<Node>) -> Verdict {
        let first = leader(nodes, Bucket(0)).and_then(|id| nodes.machine(id));
        let Some(first) = first else { return Err("nobody leads bucket 0".into()) };
        let groups = groups_of(first);
        if let Some(watched) = &self.watched {
            return Err(format!("{watched:?} is under way"));
        }
        let held = groups.iter().map(|group| group.members.len()).sum::<usize>();
        let live = nodes.live().count();
        if held != live || nodes.live().any(|(_, node)| names(&groups_of(node)) != names(&groups)) {
            return Err(format!("{live} nodes live, and not all know {groups:?}"));
        }
        self.is_in_line(nodes, &groups)
    }

    /// Who speaks for a group, and what it is to be asked.
    pub(super) fn wish(&mut self, nodes: &Nodes<Node>, request: GroupRequest) -> Option<(NodeId, Input)> {
        let is_meant = |found: &&Group| match &request {
            GroupRequest::Split { group }
            | GroupRequest::Merge { group }
            | GroupRequest::Repartition { group, .. } => found.name.id == *group,
            GroupRequest::Move { node, .. } => found.members.contains(node),
        };
        let knows = leader(nodes, Bucket(0)).and_then(|id| nodes.machine(id))?;
        let found = knows.groups().into_iter().find(is_meant)?;
        Some((leader(nodes, self.home_of(found))?, Input::Admin(self.ticket(), AdminRequest::Group(request))))
    }

    /// Asks for a key of a bucket that somebody leads.
    pub(super) fn ask(
        &mut self,
        nodes: &Nodes<Node>,
        now: Duration,
        (kind, key): (Asked, &str),
    ) -> Option<(NodeId, Input)> {
        let bucket = Bucket::of_key(key.as_bytes(), self.setup.buckets);
        let lead = leader(nodes, bucket)?;
        let members = &nodes.machine(lead)?.shard(bucket)?.log().epoch().members;
        let follower = members.iter().map(|member| member.id).find(|id| *id != lead);
        let at = if kind.is_at_leader() { lead } else { follower? };
        let (name, args): (_, &[&str]) = match kind {
            Asked::Write | Asked::WriteElsewhere => (&b"set"[..], &[key, "value"]),
            Asked::Read | Asked::ReadNear => (&b"get"[..], &[key]),
        };
        let code = quorate_values::find(name)?.code;
        let args = args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect();
        let request = Request::One(Command { code, args });
        let ticket = self.ticket();
        self.asked.insert(ticket, now);
        let consistency = if kind == Asked::ReadNear { Consistency::Near } else { Consistency::Strict };
        let request =
            ClientRequest { connection: ConnectionId(1), ticket, request, consistency, identity: None };
        Some((at, Input::Requests(vec![request])))
    }

    /// Who has an operation of a group under way, if somebody has.
    pub(super) fn speaker(&self) -> Option<NodeId> {
        self.watched.as_ref().map(|watched| watched.at)
    }

    /// Whether what is watched was agreed to, or has ended.
    pub(super) fn has_agreed(&self) -> bool {
        self.watched.as_ref().is_none_or(|watched| watched.agreed.is_some())
    }

    pub(super) fn home_of(&self, group: &Group) -> Bucket {
        Bucket::of_position(group.span.start, self.setup.buckets)
    }

    fn watch(&mut self, seen: &Seen<'_, Node>) {
        let is_busy = seen.machine.regroups();
        let Some(watched) = &mut self.watched else {
            if is_busy {
                let (at, since) = (seen.node, seen.now);
                let before = groups_of(seen.machine);
                self.watched = Some(Watched { at, since, before, agreed: None, is_spoiled: false });
            }
            return;
        };
        if watched.at != seen.node {
            watched.is_spoiled |= is_busy;
        } else if watched.agreed.is_none() && !is_busy {
            watched.agreed = Some(seen.now);
        } else if watched.agreed.is_some() && is_busy {
            (watched.is_spoiled, watched.agreed) = (true, None);
        }
    }

    /// Whether what was watched has come to its end everywhere.
    fn look_whether_done(&mut self, seen: &Seen<'_, Node>) {
        let Some(watched) = &self.watched else { return };
        let Some((agreed, speaker)) = watched.agreed.zip(seen.nodes.machine(watched.at)) else { return };
        // As exactly as is of use: it takes as long to look as nodes take for hundreds of messages.
        let grain = if self.setup.sites == Sites::One { self.setup.way / 50 } else { FAR_GRAIN };
        if seen.now < self.looked_at + grain {
            return;
        }
        self.looked_at = seen.now;
        let after = groups_of(speaker);
        let width: u128 = after.iter().map(|group| group.span.width()).sum();
        let is_over =
            width == 1 << 64 && nodes_are_idle(seen.nodes) && self.is_in_line(seen.nodes, &after).is_ok();
        if !is_over {
            return;
        }
        let kind = Kind::between(&watched.before, &after).filter(|_| !watched.is_spoiled);
        let before = names(&watched.before);
        let changed = after.iter().filter(|group| !before.contains(&group.name));
        let members = changed.map(|group| group.members.len()).max().unwrap_or_default();
        let (agreed, done) = (agreed - watched.since, seen.now - watched.since);
        self.samples.extend(kind.map(|kind| Sample { kind, members, agreed, done }));
        self.watched = None;
        self.ended += 1;
    }
}

fn nodes_are_idle(nodes: &Nodes<Node>) -> bool {
    nodes.live().all(|(_, node)| !node.regroups())
}

impl Harness for Ring {
    type Machine = Node;

    fn machine(&mut self, node: NodeId, boot: Boot) -> Node {
        let bootstrap = match boot {
            Boot::Replacing(before) => {
                let site = self.sites.get(&before).copied().unwrap_or_default();
                self.sites.insert(node, site);
                0..0
            }
            _ if node.0 > self.setup.founders as u64 => 0..0,
            Boot::First | Boot::Restart => 1..self.setup.founders as u64 + 1,
        };
        if let Some(witness) = &mut self.witness {
            witness.booted(node);
        }
        let site = self.sites.get(&node).copied().unwrap_or_default();
        // Volunteers do not say where they are.
        let zone = if self.setup.sites == Sites::World { String::new() } else { site.to_string() };
        let placing = Placing {
            zone: zone.into(),
            repair_after: Some(Duration::from_secs(1)),
            preset: Some(self.setup.preset),
            ..Placing::production()
        };
        let production = Config::production();
        let lease = if self.setup.leases { production.lease } else { Duration::ZERO };
        Node::new(NodeConfig {
            me: member(node),
            cluster: ClusterId(8),
            bootstrap: bootstrap.map(NodeId).map(member).collect(),
            buckets: self.setup.buckets,
            copies: self.setup.copies,
            topology: Topology::Ring,
            placing,
            log: Config { lease, ..production },
            limits: self.limits.clone(),
        })
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(CONNECT_EVERY, 0);
    }

    fn observe(&mut self, seen: Seen<'_, Node>) -> Verdict {
        self.watch(&seen);
        if let Some(witness) = &mut self.witness {
            witness.look(seen.node, seen.machine, self.setup.buckets)?;
        }
        if let (Some(strike), Some(watched)) = (&mut self.strike, &self.watched) {
            strike.look(&seen, watched.at);
        }
        self.look_whether_done(&seen);
        Ok(())
    }

    fn woken(&mut self, _: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        for (from, to) in live.iter().flat_map(|from| live.iter().map(move |to| (*from, *to))) {
            if from != to && self.told.insert((from, to)) {
                agenda.input(Duration::from_millis(1), from, Input::PeerConnected(to));
            }
        }
        agenda.wake(CONNECT_EVERY, 0);
        Ok(())
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, _: &mut Agenda<Input>) -> Verdict {
        let Output::Replies(replies) = output else { return Ok(()) };
        for (_, ticket, outcome) in replies {
            let Some(asked) = self.asked.remove(&ticket) else { continue };
            if matches!(outcome, Outcome::Done(_)) {
                self.answered.push(seen.now - asked);
            }
        }
        Ok(())
    }

    fn crashed(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        let peers: Vec<NodeId> =
            self.told.iter().filter(|(_, to)| *to == node).map(|(from, _)| *from).collect();
        self.told.retain(|(from, to)| *from != node && *to != node);
        for peer in peers {
            agenda.input(Duration::from_millis(1), peer, Input::PeerLost(node));
        }
        if self.watched.as_ref().is_some_and(|watched| watched.at == node) {
            self.watched = None;
        }
    }

    fn disk_lost(&mut self, _: NodeId) -> Replacement {
        Replacement::NewIdentity
    }

    fn carry(&mut self, msg: Message) -> (Message, usize) {
        let bytes = wire::encode(&msg).len();
        (msg, bytes)
    }
}
