//! The operator: changes members, moves leadership, stops nodes; and the network's rumours about who is connected.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::time::Duration;

use quorate_api::Bucket;
use quorate_kernel::{NodeId, Rng};
use quorate_node::{AdminOutcome, AdminRequest, Endpoints, GroupRequest, Input, Member, Node, Ticket};
use quorate_shard::Shard;

use crate::{Agenda, Life, Nodes, Verdict};

/// What an operator does how often.
#[derive(Debug, Clone)]
pub(crate) struct Zeal {
    /// Longest time between two acts; none if zero.
    pub(crate) pause: Duration,
    /// Percentage of handovers among them.
    pub(crate) transfers: u64,
    /// Percentage of nodes stopped in good order.
    pub(crate) stops: u64,
    /// Percentage of wrong rumours at each look at the connections.
    pub(crate) rumours: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) zeal: Zeal,
    tickets: u64,
    asked: BTreeMap<Ticket, Duration>,
    /// Nodes that were told to stop, and since when.
    pub(crate) stopping: BTreeMap<NodeId, Duration>,
    pub(crate) stopped: u64,
    pub(crate) changed: u64,
}

/// A node as it introduces itself.
pub(crate) fn member(id: NodeId) -> Member {
    let at = |door: &str| format!("{door}.{id}:1");
    let (peer, client, admin, cluster) = (at("peer"), at("client"), at("admin"), at("cluster"));
    Member { id, endpoints: Endpoints { peer, client, admin, cluster }.into() }
}

/// The same, in a world whose machines run one node or two.
pub(crate) fn member_beside(id: NodeId) -> Member {
    let at = |door: &str| format!("{door}.machine-{}:{id}", machine_of(id));
    let (peer, client, admin, cluster) = (at("peer"), at("client"), at("admin"), at("cluster"));
    Member { id, endpoints: Endpoints { peer, client, admin, cluster }.into() }
}

/// Which machine a node is on there: 1 and 4 share one, 2 and 5, 6 and 9, since nodes of one machine are of one zone (`placed.rs`).
pub(crate) fn machine_of(id: NodeId) -> u64 {
    id.0 % 3 + 3 * (id.0 / 6)
}

impl Operator {
    pub(crate) fn new(zeal: Zeal) -> Self {
        Operator {
            zeal,
            tickets: 0,
            asked: BTreeMap::new(),
            stopping: BTreeMap::new(),
            stopped: 0,
            changed: 0,
        }
    }

    /// How long until the next thing.
    pub(crate) fn pause(&self, rng: &mut Rng) -> Duration {
        let most = self.zeal.pause.as_micros() as u64;
        Duration::from_micros(rng.between(most / 10, most))
    }

    /// Does one thing under faults.
    pub(crate) fn meddle(&mut self, nodes: &Nodes<Node>, rng: &mut Rng, agenda: &mut Agenda<Input>) {
        let live: Vec<NodeId> = nodes.live().map(|(id, _)| id).collect();
        let Some(target) = rng.pick(&live).copied() else { return };
        if rng.chance(self.zeal.stops, 100) {
            // One at a time, as whoever restarts a cluster node by node would.
            if self.stopping.is_empty() {
                self.stop(target, agenda);
            }
            return;
        }
        let request = if rng.chance(self.zeal.transfers, 100) {
            AdminRequest::TransferLeadership { to: rng.pick(&live).copied().filter(|_| rng.chance(1, 2)) }
        } else {
            if let Some(request) = of_groups(nodes, target, rng) {
                return self.ask(request, target, agenda);
            }
            let all: Vec<NodeId> = nodes.ids().collect();
            let Some(now) = leader(nodes, Bucket(0)).and_then(|leader| nodes.machine(leader)) else { return };
            if now.placement().is_some() && rng.chance(1, 4) {
                return self.ask(AdminRequest::SetCopies { copies: rng.between(1, 4) as u8 }, target, agenda);
            }
            let members: Vec<NodeId> = now.status().members.iter().map(|member| member.id).collect();
            let wanted = wish(&members, &all, target, rng);
            let add = wanted.iter().filter(|id| !members.contains(id)).map(|id| member(*id)).collect();
            let remove = members.iter().copied().filter(|id| !wanted.contains(id)).collect();
            AdminRequest::ChangeMembers { add, remove }
        };
        self.ask(request, target, agenda);
    }

    fn ask(&mut self, request: AdminRequest, target: NodeId, agenda: &mut Agenda<Input>) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asked.insert(ticket, agenda.now());
        agenda.input(Duration::ZERO, target, Input::Admin(ticket, request));
    }

    /// Nodes that were emptied are to be in groups again.
    pub(crate) fn fill(&mut self, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) {
        for (id, _) in nodes.live() {
            self.ask(AdminRequest::ChangeMembers { add: vec![member(id)], remove: Vec::new() }, id, agenda);
        }
    }

    fn stop(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        self.stopping.insert(node, agenda.now());
        agenda.input(Duration::ZERO, node, Input::Stop);
    }

    /// A node is ready to be stopped: it is, and comes back a little later.
    ///
    /// # Errors
    /// If it leads others, or was not asked to stop.
    pub(crate) fn is_ready_to_stop(
        &mut self,
        node: NodeId,
        machine: &Node,
        rng: &mut Rng,
        agenda: &mut Agenda<Input>,
    ) -> Verdict {
        if self.stopping.remove(&node).is_none() {
            return Err(format!("{node:?} wants to stop, though nobody asked it to"));
        }
        let mut logs = machine.buckets().filter_map(|bucket| machine.shard(bucket)).map(Shard::log);
        if logs.any(|log| log.leads() && log.epoch().members.len() > 1) {
            return Err(format!("{node:?} wants to stop while it leads"));
        }
        self.stopped += 1;
        agenda.crash(Duration::ZERO, node, Duration::from_micros(rng.between(100, 500_000)));
        Ok(())
    }

    /// Stops those the hard way who take too long, as a process manager does.
    pub(crate) fn lose_patience(&mut self, most: Duration, agenda: &mut Agenda<Input>) {
        let now = agenda.now();
        for (node, _) in self.stopping.extract_if(.., |_, since| now > *since + most) {
            agenda.crash(Duration::ZERO, node, Duration::from_millis(10));
        }
    }

    /// A node died before it was ready.
    pub(crate) fn died(&mut self, node: NodeId) {
        self.stopping.remove(&node);
    }

    /// An operator's request has ended.
    ///
    /// # Errors
    /// If it was none, or had ended before.
    pub(crate) fn ended(&mut self, ticket: Ticket, outcome: &AdminOutcome) -> Verdict {
        if self.asked.remove(&ticket).is_none() {
            return Err(format!("the operator's {ticket:?} has ended twice: {outcome:?}"));
        }
        self.changed += u64::from(*outcome == AdminOutcome::Done);
        Ok(())
    }
}

/// Who leads a bucket, by the newest ballot.
pub(crate) fn leader(nodes: &Nodes<Node>, bucket: Bucket) -> Option<NodeId> {
    let leading = nodes.live().filter_map(|(id, node)| Some((node.shard(bucket)?.log().leading()?, id)));
    leading.max().map(|(_, id)| id)
}

/// Something to be done to groups, as a node knows them.
fn of_groups(nodes: &Nodes<Node>, target: NodeId, rng: &mut Rng) -> Option<AdminRequest> {
    let machine = nodes.machine(target)?;
    let groups = machine.groups();
    let group = rng.pick(&groups)?.name.id;
    let other = rng.pick(&groups)?.name.id;
    let node = NodeId(rng.between(1, nodes.ids().count() as u64));
    Some(match rng.below(12) {
        0..3 => AdminRequest::Group(GroupRequest::Split { group }),
        3..6 => AdminRequest::Group(GroupRequest::Merge { group }),
        6..8 => AdminRequest::Group(GroupRequest::Move { node, to: other }),
        8..10 => AdminRequest::Group(GroupRequest::Repartition { group, slot: rng.below(16_384) as u16 }),
        10 => AdminRequest::ChangeMembers { add: Vec::new(), remove: vec![node] },
        _ => AdminRequest::ChangeMembers { add: vec![member(node)], remove: Vec::new() },
    })
}

/// Another member list.
fn wish(members: &[NodeId], all: &[NodeId], someone: NodeId, rng: &mut Rng) -> Vec<NodeId> {
    let mut spare: Vec<NodeId> = all.iter().copied().filter(|id| !members.contains(id)).collect();
    rng.shuffle(&mut spare);
    let mut wanted = members.to_vec();
    rng.shuffle(&mut wanted);
    match rng.below(6) {
        0 => wanted.extend(spare.first()),
        1 => wanted.retain(|id| *id != someone),
        2 => {
            wanted.retain(|id| *id != someone);
            wanted.extend(spare.first());
        }
        3 => {
            let count = spare.len().min(members.len());
            wanted.truncate(members.len() - count);
            wanted.extend(spare.into_iter().take(count));
        }
        4 => wanted = all.iter().copied().filter(|_| rng.chance(2, 3)).collect(),
        _ => wanted.extend(spare),
    }
    if wanted.is_empty() {
        wanted = members.to_vec();
    }
    wanted
}

/// Who wants a connection to whom, and what they were told about it.
#[derive(Debug, Default)]
pub(crate) struct Links {
    seeds: Vec<NodeId>,
    wanted: BTreeMap<NodeId, BTreeSet<NodeId>>,
    told: BTreeSet<(NodeId, NodeId)>,
}

impl Links {
    pub(crate) fn new(seeds: Vec<NodeId>) -> Self {
        Links { seeds, ..Links::default() }
    }

    /// A node begins a life, knowing the addresses it was configured with.
    pub(crate) fn booted(&mut self, node: NodeId) {
        self.wanted.insert(node, self.seeds.iter().copied().filter(|seed| *seed != node).collect());
        self.told.retain(|(one, other)| *one != node && *other != node);
    }

    /// A node says whom it wants connections to.
    pub(crate) fn wants(&mut self, node: NodeId, peers: &[Member]) {
        let wanted = self.wanted.entry(node).or_default();
        wanted.extend(peers.iter().map(|peer| peer.id));
    }

    /// A node died: its peers hear of it, sooner or later. Of one death in four nobody ever hears; silence alone shows it.
    pub(crate) fn died(&mut self, node: NodeId, rng: &mut Rng, agenda: &mut Agenda<Input>) {
        let peers: Vec<NodeId> =
            self.told.iter().filter(|(_, other)| *other == node).map(|(one, _)| *one).collect();
        self.told.retain(|(one, other)| *one != node && *other != node);
        if rng.chance(1, 4) {
            return;
        }
        for peer in peers {
            let after = Duration::from_micros(rng.between(50, 20_000));
            agenda.input(after, peer, Input::PeerLost(node));
        }
    }

    /// Whatever was told may have been overtaken by older news: it is told again.
    pub(crate) fn tell_again(&mut self) {
        self.told.clear();
    }

    /// Makes the connections that are missing; now and then tells what is not so.
    pub(crate) fn look(
        &mut self,
        nodes: &Nodes<Node>,
        rumours: u64,
        rng: &mut Rng,
        agenda: &mut Agenda<Input>,
    ) {
        let up = |node: NodeId| nodes.life(node) == Life::Up;
        for (node, wanted) in self.wanted.iter().filter(|(node, _)| up(**node)) {
            for peer in wanted.iter().copied().filter(|peer| up(*peer)) {
                if self.told.insert((*node, peer)) {
                    let after = Duration::from_micros(rng.between(0, 5_000));
                    agenda.input(after, *node, Input::PeerConnected(peer));
                }
                if rng.chance(rumours, 1_000) {
                    let after = Duration::from_micros(rng.between(0, 50_000));
                    agenda.input(after, *node, Input::PeerLost(peer));
                    agenda.input(after * 2, *node, Input::PeerConnected(peer));
                }
            }
        }
    }
}

/// Whom the leader of a bucket takes for its members.
pub(super) fn members_of(nodes: &Nodes<Node>, bucket: Bucket) -> Vec<NodeId> {
    let shard = leader(nodes, bucket).and_then(|id| nodes.machine(id)).and_then(|node| node.shard(bucket));
    let members = shard.map(|shard| shard.log().epoch().members.iter().map(|member| member.id));
    members.map(Iterator::collect).unwrap_or_default()
}

/// Whether every bucket has a leader who takes requests, whom all live nodes know.
pub(super) fn is_well(nodes: &Nodes<Node>, buckets: NonZeroU16) -> Verdict {
    for bucket in (0..buckets.get()).map(Bucket) {
        let Some(leader) = leader(nodes, bucket) else { return Err(format!("nobody leads {bucket:?}")) };
        for (id, node) in nodes.live() {
            let status = node.status();
            let Some(known) = status.buckets.get(usize::from(bucket.0)) else { continue };
            if known.believed_leader != Some(leader) {
                return Err(format!("{id:?} does not know that {leader:?} leads {bucket:?}: {status:?}"));
            }
        }
        let takes = nodes.machine(leader).and_then(|node| node.shard(bucket));
        if !takes.is_some_and(Shard::takes_batches) {
            return Err(format!("{leader:?} leads {bucket:?} and takes nothing"));
        }
    }
    Ok(())
}
