//! The harness: nodes that come and go, whom they are connected to, and their clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use quorate_api::{Consistency, Outcome, Reply};
use quorate_kernel::{ClusterId, NodeId, Rng};
use quorate_node::{
    ClientRequest, ConnectionId, Input, Limits, Message, Node, NodeConfig, Output, Placing, Preset, Ticket,
    Topology,
};

use super::setup::{FOUNDERS, Setup};
use crate::node::operator::member;
use crate::node::words;
use crate::{Agenda, Boot, Harness, Nodes, Replacement, Seen, Verdict};

const JOIN: u64 = 0;
const DIE: u64 = 1;
const ASK: u64 = 2;
/// Nodes that wait to join are looked at so often.
const JOIN_EVERY: Duration = Duration::from_millis(100);
/// A new connection stands after so long, and is known to be broken after as long.
const CONNECT: Duration = Duration::from_millis(2);
/// Who has no answer to its first words tries another address after so long.
const JOIN_AGAIN: Duration = Duration::from_secs(5);
const KEYS: u64 = 100_000;

/// What clients got.
#[derive(Debug, Default, Clone)]
pub(super) struct Got {
    pub(super) asked: u64,
    pub(super) failed: u64,
    /// In microseconds.
    pub(super) took: Vec<u64>,
}

/// See the module's documentation.
pub(super) struct Land {
    setup: Setup,
    rng: Rng,
    /// Nodes that are there and were let in, or try to be.
    live: Vec<NodeId>,
    /// Nodes that run and know nobody yet.
    strangers: VecDeque<NodeId>,
    /// When a node was told of somebody first.
    began: BTreeMap<NodeId, Duration>,
    /// Whom a node is connected to, and who to it.
    to: BTreeMap<NodeId, BTreeSet<NodeId>>,
    from: BTreeMap<NodeId, BTreeSet<NodeId>>,
    asked: BTreeMap<Ticket, (NodeId, Duration)>,
    tickets: u64,
    /// Whether nodes die and clients ask.
    pub(super) is_open: bool,
    pub(super) deaths: u64,
    pub(super) got: Got,
}

impl Land {
    pub(super) fn new(setup: Setup) -> Land {
        Land {
            rng: Rng::new(setup.seed ^ 0x6c61_6e64),
            setup,
            live: Vec::new(),
            strangers: VecDeque::new(),
            began: BTreeMap::new(),
            to: BTreeMap::new(),
            from: BTreeMap::new(),
            asked: BTreeMap::new(),
            tickets: 0,
            is_open: false,
            deaths: 0,
            got: Got::default(),
        }
    }

    /// Nodes that know nobody yet.
    pub(super) fn waiting(&self) -> usize {
        self.strangers.len()
    }

    /// So many of those that wait get the address of somebody.
    fn let_some_in(&mut self, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) {
        let share = self.live.len() * self.setup.joins_percent as usize / 100;
        let now = agenda.now();
        for _ in 0..(share / 10).max(1) {
            let Some(node) = self.strangers.pop_front() else { break };
            if nodes.machine(node).is_none() {
                continue;
            }
            self.introduce(node, agenda);
            self.began.insert(node, now);
            self.live.push(node);
        }
        let late: Vec<NodeId> =
            self.began.iter().filter(|(_, at)| now - **at >= JOIN_AGAIN).map(|(id, _)| *id).collect();
        for node in late {
            match nodes.machine(node).map(|node| node.groups().is_empty()) {
                Some(true) => {
                    self.introduce(node, agenda);
                    self.began.insert(node, now);
                }
                Some(false) | None => drop(self.began.remove(&node)),
            }
        }
        agenda.wake(JOIN_EVERY, JOIN);
    }

    fn introduce(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        if let Some(seed) = self.rng.pick(&self.live).copied() {
            self.connect(node, seed, agenda);
        }
    }

    fn connect(&mut self, from: NodeId, to: NodeId, agenda: &mut Agenda<Input>) {
        if self.to.entry(from).or_default().insert(to) {
            self.from.entry(to).or_default().insert(from);
            agenda.input(CONNECT, from, Input::PeerConnected(to));
        }
    }

    fn is_live(&self, node: NodeId) -> bool {
        self.to.contains_key(&node)
    }

    fn wants(&mut self, node: NodeId, peers: &[quorate_node::Member], agenda: &mut Agenda<Input>) {
        let wanted: BTreeSet<NodeId> = peers.iter().map(|peer| peer.id).collect();
        let gone: Vec<NodeId> =
            self.to.entry(node).or_default().extract_if(.., |id| !wanted.contains(id)).collect();
        for id in gone {
            self.from.entry(id).or_default().remove(&node);
            agenda.input(Duration::ZERO, node, Input::PeerLost(id));
        }
        for id in wanted.into_iter().filter(|id| *id != node) {
            if self.is_live(id) {
                self.connect(node, id, agenda);
            }
        }
    }

    fn pause(&mut self, mean: Duration) -> Duration {
        // An exponential draw would need a logarithm; between half and one and a half is as good here.
        mean / 2 + mean.mul_f64(self.rng.fraction())
    }

    fn ask(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(self.pause(self.setup.think / self.setup.nodes as u32), ASK);
        let Some(node) = self.rng.pick(&self.live).copied().filter(|_| self.is_open) else { return };
        let key = format!("key:{}", self.rng.below(KEYS));
        let request = if self.rng.chance(1, 2) {
            words::one(&["GET", &key])
        } else {
            words::one(&["SET", &key, "value"])
        };
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asked.insert(ticket, (node, agenda.now()));
        self.got.asked += 1;
        let connection = ConnectionId(self.tickets);
        let request =
            ClientRequest { connection, ticket, request, consistency: Consistency::Strict, identity: None };
        agenda.input(Duration::ZERO, node, Input::Requests(vec![request]));
    }

    fn kill_one(&mut self, agenda: &mut Agenda<Input>) {
        agenda.wake(self.pause(self.setup.lifetime / self.setup.nodes as u32), DIE);
        if let Some(node) = self.rng.pick(&self.live).copied().filter(|_| self.is_open) {
            self.deaths += 1;
            agenda.crash(Duration::ZERO, node, Duration::from_millis(10));
        }
    }
}

impl Harness for Land {
    type Machine = Node;

    fn machine(&mut self, node: NodeId, boot: Boot) -> Node {
        let is_founder = boot == Boot::First && node.0 <= FOUNDERS;
        self.to.entry(node).or_default();
        match is_founder {
            true => self.live.push(node),
            false => self.strangers.push_back(node),
        }
        let founders = if is_founder { 1..FOUNDERS + 1 } else { 0..0 };
        Node::new(NodeConfig {
            me: member(node),
            cluster: ClusterId(9),
            bootstrap: founders.map(NodeId).map(member).collect(),
            buckets: self.setup.buckets(),
            copies: self.setup.copies,
            topology: Topology::Ring,
            placing: Placing { preset: Some(Preset::Steady), ..Placing::production() },
            log: Setup::log(),
            limits: Limits::production(),
        })
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        [JOIN, DIE, ASK].into_iter().for_each(|token| agenda.wake(Duration::from_secs(2), token));
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        match token {
            JOIN => self.let_some_in(nodes, agenda),
            DIE => self.kill_one(agenda),
            _ => self.ask(agenda),
        }
        Ok(())
    }

    fn crashed(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        self.live.retain(|id| *id != node);
        self.began.remove(&node);
        for peer in self.to.remove(&node).unwrap_or_default() {
            self.from.entry(peer).or_default().remove(&node);
        }
        for peer in self.from.remove(&node).unwrap_or_default() {
            self.to.entry(peer).or_default().remove(&node);
            agenda.input(CONNECT, peer, Input::PeerLost(node));
        }
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        match output {
            Output::Peers(peers) => self.wants(seen.node, &peers, agenda),
            Output::Replies(replies) => {
                for (connection, ticket, outcome) in replies {
                    agenda.input(Duration::ZERO, seen.node, Input::ConnectionClosed(connection));
                    let Some((_, at)) = self.asked.remove(&ticket) else { continue };
                    match outcome {
                        Outcome::Done(Reply::Error(error)) => return Err(format!("answered with {error:?}")),
                        Outcome::Done(_) => self.got.took.push((seen.now - at).as_micros() as u64),
                        Outcome::Refused(_) | Outcome::Unknown => {
                            self.got.failed += 1;
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn disk_lost(&mut self, _: NodeId) -> Replacement {
        Replacement::NewIdentity
    }

    fn carry(&mut self, msg: Message) -> (Message, usize) {
        (msg, 0)
    }
}
