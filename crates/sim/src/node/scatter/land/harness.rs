//! The harness: nodes that come and go, whom they are connected to, and their clients.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use quorate_api::history::{Ending, Op, Record};
use quorate_api::{Consistency, Outcome, Reply};
use quorate_kernel::{ClusterId, NodeId, Rng};
use quorate_node::{
    ClientRequest, ConnectionId, Input, Message, Node, NodeConfig, Output, Placing, Preset, Ticket, Topology,
};

use super::setup::{FOUNDERS, Setup};
use crate::node::operator::member;
use crate::node::words;
use crate::{Agenda, Boot, Harness, Nodes, Replacement, Seen, Verdict};

const JOIN: u64 = 0;
const ASK: u64 = 1;
/// Nodes that wait to join are looked at so often.
const JOIN_EVERY: Duration = Duration::from_millis(100);
/// A new connection stands after so long.
const CONNECT: Duration = Duration::from_millis(2);
/// Who has no answer to its first words tries another address after so long.
const JOIN_AGAIN: Duration = Duration::from_secs(5);

/// What clients got.
#[derive(Debug, Default, Clone)]
pub(super) struct Got {
    pub(super) asked: u64,
    pub(super) failed: u64,
    /// Their node died meanwhile, and they with it.
    pub(super) lost: u64,
    /// Of reads and of writes, in microseconds.
    pub(super) took: [Vec<u64>; 2],
}

/// Something that a client asked.
struct Asked {
    node: NodeId,
    at: Duration,
    key: String,
    /// What it writes; none: it reads.
    value: Option<String>,
    counts: bool,
}

/// See the module's documentation.
pub(super) struct Land {
    setup: Setup,
    rng: Rng,
    /// Nodes that are there and were let in, or try to be.
    live: Vec<NodeId>,
    /// Those of them that serve.
    ready: Vec<NodeId>,
    /// When nodes will die.
    deaths_due: BTreeSet<(Duration, NodeId)>,
    /// Nodes that run and know nobody yet.
    strangers: VecDeque<NodeId>,
    /// When a node was told of somebody first.
    began: BTreeMap<NodeId, Duration>,
    /// Whom a node is connected to, and who to it.
    to: BTreeMap<NodeId, BTreeSet<NodeId>>,
    from: BTreeMap<NodeId, BTreeSet<NodeId>>,
    asked: BTreeMap<Ticket, Asked>,
    /// What clients did, if it is judged.
    pub(super) records: Vec<Record>,
    tickets: u64,
    /// Whether nodes die and clients ask, and whether that is counted.
    pub(super) is_open: bool,
    pub(super) counts: bool,
    /// Keys that are still to be read once more in the end.
    pub(super) looks: Option<u64>,
    pub(super) deaths: u64,
    pub(super) got: Got,
}

impl Land {
    pub(super) fn new(setup: Setup) -> Land {
        Land {
            rng: Rng::new(setup.seed ^ 0x6c61_6e64),
            setup,
            live: Vec::new(),
            ready: Vec::new(),
            deaths_due: BTreeSet::new(),
            strangers: VecDeque::new(),
            began: BTreeMap::new(),
            to: BTreeMap::new(),
            from: BTreeMap::new(),
            asked: BTreeMap::new(),
            records: Vec::new(),
            tickets: 0,
            is_open: false,
            counts: false,
            looks: None,
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
        let serving: Vec<NodeId> =
            self.began.keys().copied().filter(|id| nodes.machine(*id).is_some_and(Node::is_ready)).collect();
        for node in serving {
            self.began.remove(&node);
            self.ready.push(node);
            if self.is_open {
                self.expect_death(node, now);
            }
        }
        for node in late {
            match nodes.machine(node).map(|node| node.groups().is_empty()) {
                Some(true) => {
                    self.introduce(node, agenda);
                    self.began.insert(node, now);
                }
                Some(false) => {}
                None => drop(self.began.remove(&node)),
            }
        }
        self.kill_some(agenda);
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
        let looks = self.looks.is_some_and(|left| left > 0);
        let Some(node) = self.rng.pick(&self.ready).copied().filter(|_| self.is_open || looks) else {
            return;
        };
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let (number, value) = match &mut self.looks {
            Some(left) => {
                *left -= 1;
                (*left, None)
            }
            None => (
                self.rng.below(self.setup.keys),
                self.rng.chance(1, 2).then(|| format!("value:{}", self.tickets)),
            ),
        };
        let key = format!("key:{number}");
        let request = match &value {
            Some(value) => words::one(&["SET", &key, value]),
            None => words::one(&["GET", &key]),
        };
        let (at, counts) = (agenda.now(), self.counts);
        self.got.asked += u64::from(counts);
        self.asked.insert(ticket, Asked { node, at, key, value, counts });
        let connection = ConnectionId(self.tickets);
        let consistency = Consistency::Strict;
        let request = ClientRequest { connection, ticket, request, consistency, identity: None };
        agenda.input(Duration::ZERO, node, Input::Requests(vec![request]));
    }

    /// Writes down what a client did; `None`: nobody told it.
    fn note(&mut self, ticket: Ticket, asked: Asked, now: Duration, outcome: Option<&Outcome>) {
        if !self.setup.is_judged {
            return;
        }
        let Asked { at, key, value, .. } = asked;
        let result = match outcome {
            Some(Outcome::Done(Reply::Bulk(bytes))) => {
                Some(Some(String::from_utf8_lossy(bytes).into_owned()))
            }
            Some(Outcome::Done(_)) => Some(None),
            _ => None,
        };
        let (ending, op) = match (outcome, value) {
            (Some(Outcome::Done(_)), None) => (Ending::Ok, Op::Read { key, result }),
            (_, None) => (Ending::Fail, Op::Read { key, result: None }),
            (Some(Outcome::Done(_)), value) => (Ending::Ok, Op::Write { key, value }),
            (Some(Outcome::Refused(_)), value) => (Ending::Fail, Op::Write { key, value }),
            (_, value) => (Ending::Unknown, Op::Write { key, value }),
        };
        let (start, end) = (at.as_nanos() as u64, now.as_nanos() as u64);
        let end = (ending != Ending::Unknown).then_some(end);
        let is_final = self.looks.is_some();
        self.records.push(Record { client: ticket.0, start, end, outcome: ending, ops: vec![op], is_final });
    }

    fn expect_death(&mut self, node: NodeId, now: Duration) {
        let life = self.setup.lives.of(self.setup.lifetime).draw(&mut self.rng);
        self.deaths_due.insert((now + Duration::from_nanos(life), node));
    }

    fn kill_some(&mut self, agenda: &mut Agenda<Input>) {
        let now = agenda.now();
        if !self.is_open {
            return self.deaths_due.clear();
        }
        if self.deaths_due.is_empty() {
            self.ready.clone().into_iter().for_each(|node| self.expect_death(node, now));
        }
        while let Some((_, node)) = self.deaths_due.first().copied().filter(|(at, _)| *at <= now) {
            self.deaths_due.pop_first();
            self.deaths += 1;
            agenda.crash(Duration::ZERO, node, Duration::from_millis(10));
        }
    }

    /// Requests that have not ended.
    pub(super) fn open(&self) -> usize {
        self.asked.len()
    }
}

impl Harness for Land {
    type Machine = Node;

    fn machine(&mut self, node: NodeId, boot: Boot) -> Node {
        let is_founder = boot == Boot::First && node.0 <= FOUNDERS;
        self.to.entry(node).or_default();
        match is_founder {
            true => {
                self.live.push(node);
                self.ready.push(node);
            }
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
            placing: Placing {
                preset: Some(Preset::Steady),
                repair_after: Some(Duration::from_secs(1)),
                ..Placing::production()
            },
            log: self.setup.log(),
            limits: self.setup.limits(),
        })
    }

    fn start(&mut self, agenda: &mut Agenda<Input>) {
        [JOIN, ASK].into_iter().for_each(|token| agenda.wake(Duration::from_secs(2), token));
    }

    fn woken(&mut self, token: u64, nodes: &Nodes<Node>, agenda: &mut Agenda<Input>) -> Verdict {
        match token {
            JOIN => self.let_some_in(nodes, agenda),
            _ => self.ask(agenda),
        }
        Ok(())
    }

    fn crashed(&mut self, node: NodeId, agenda: &mut Agenda<Input>) {
        self.live.retain(|id| *id != node);
        self.ready.retain(|id| *id != node);
        self.began.remove(&node);
        for peer in self.to.remove(&node).unwrap_or_default() {
            self.from.entry(peer).or_default().remove(&node);
        }
        for peer in self.from.remove(&node).unwrap_or_default() {
            self.to.entry(peer).or_default().remove(&node);
            agenda.input(self.setup.noticed, peer, Input::PeerLost(node));
        }
        let lost: Vec<Ticket> =
            self.asked.iter().filter(|(_, asked)| asked.node == node).map(|(ticket, _)| *ticket).collect();
        for ticket in lost {
            let Some(asked) = self.asked.remove(&ticket) else { continue };
            self.got.lost += u64::from(asked.counts);
            self.note(ticket, asked, agenda.now(), None);
        }
    }

    fn output(&mut self, seen: Seen<'_, Node>, output: Output, agenda: &mut Agenda<Input>) -> Verdict {
        match output {
            Output::Peers(peers) => self.wants(seen.node, &peers, agenda),
            Output::Replies(replies) => {
                for (connection, ticket, outcome) in replies {
                    agenda.input(Duration::ZERO, seen.node, Input::ConnectionClosed(connection));
                    let Some(asked) = self.asked.remove(&ticket) else { continue };
                    if let Outcome::Done(Reply::Error(error)) = &outcome {
                        return Err(format!("answered with {error:?}"));
                    }
                    if asked.counts && matches!(outcome, Outcome::Done(_)) {
                        let took = (seen.now - asked.at).as_micros() as u64;
                        self.got.took[usize::from(asked.value.is_some())].push(took);
                    } else if asked.counts {
                        self.got.failed += 1;
                    }
                    self.note(ticket, asked, seen.now, Some(&outcome));
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
